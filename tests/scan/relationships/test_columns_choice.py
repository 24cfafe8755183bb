"""One primary key a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, NameIndex, NameMatch, TableFacts
from ktx_cli.scan.relationships.keys import choose_keys, find_unique_columns
from ktx_cli.scan.relationships.record import KeyChoice

Gathered = Callable[..., DatabaseFacts]
FIFTY = list(range(1, 51))


def keys_of(
    facts: DatabaseFacts, accepted: Sequence[tuple[str, str]] = (), confirm: Any = lambda table, columns: True
) -> Mapping[str, KeyChoice]:
    """Return table -> its key; `accepted`: references, `child -> key` as `table.column`."""
    columns = {str(column): column for column in facts.columns}
    uniques = find_unique_columns(facts.tables, confirm)
    pairs = [Candidate(columns[child], columns[key], NameMatch(1.0, 1.0), probability=0.9) for child, key in accepted]
    names = NameIndex(facts.tables, uniques.keys)
    chosen = choose_keys(uniques, pairs, names, confirm)
    return {table.table.ref.name: choice for table, choice in chosen.items()}


CUSTOMERS = {"customer_id": FIFTY, "code": [f"k{n:03}" for n in FIFTY], "city": ["x", "y"] * 25}


def test_the_likely_key_and_the_other_unique_columns(gathered: Gathered) -> None:
    choice = keys_of(gathered({"customers": CUSTOMERS}))["customers"]
    assert (choice.primary, choice.declared, choice.confirmed) == (("customer_id",), False, True)
    assert choice.alternates == (("code",),)
    assert 0.5 < choice.probability <= 0.99


def test_a_declared_key_is_taken(gathered: Gathered) -> None:
    choice = keys_of(gathered({"customers": CUSTOMERS}, keys={"customers": ("code",)}))["customers"]
    assert (choice.primary, choice.declared, choice.probability) == (("code",), True, 1.0)
    assert choice.alternates == (("customer_id",),)


@pytest.mark.parametrize("keys", [{}, {"customers": ("customer_id",)}])
def test_declared_unique_sets_are_other_keys(gathered: Gathered, keys: dict[str, tuple[str, ...]]) -> None:
    facts = gathered({"customers": CUSTOMERS}, keys=keys, uniques={"customers": [("city", "code"), ("customer_id",)]})
    choice = keys_of(facts)["customers"]
    assert (choice.primary, choice.alternates) == (("customer_id",), (("code",), ("city", "code")))


def test_a_declared_unique_column_is_one_others_may_refer_to(gathered: Gathered) -> None:
    facts = gathered({"customers": CUSTOMERS}, uniques={"customers": [("city",)]})
    uniques = find_unique_columns(facts.tables, lambda table, columns: True)
    assert uniques.keys[0].name == "city"


def test_what_is_referred_to_is_the_key(gathered: Gathered) -> None:
    table = {"number": FIFTY, "code": [f"k{n:02}" for n in FIFTY]}
    facts = gathered({"places": table, "visits": {"place": ["k01", "k02", "k02"]}})
    assert keys_of(facts)["places"].primary == ("number",)
    others = {f"v{n}": {"place": ["k01", "k02", "k02"]} for n in range(3)}
    facts = gathered({"places": table, **others})
    found = keys_of(facts, [(f"{name}.place", "places.code") for name in others])
    assert found["places"].primary == ("code",)


def test_a_table_between_two_others(gathered: Gathered) -> None:
    rows = [(film, actor) for film in range(1, 11) for actor in range(film, film + 4)]
    facts = gathered(
        {
            "films": {"id": list(range(1, 11))},
            "actors": {"id": list(range(1, 14))},
            "film_actors": {"film_id": [f for f, _ in rows], "actor_id": [a for _, a in rows], "fee": [7] * 40},
        }
    )
    joins = [("film_actors.film_id", "films.id"), ("film_actors.actor_id", "actors.id")]
    assert keys_of(facts, joins)["film_actors"].primary == ("film_id", "actor_id")


def test_a_subtype_that_refers_to_another_table_too_keeps_its_one_column(gathered: Gathered) -> None:
    facts = gathered(
        {
            "people": {"person_id": FIFTY},
            "departments": {"id": list(range(100, 110))},
            "employees": {
                "person_id": FIFTY[:40],
                "department_id": [100 + n % 10 for n in range(40)],
                "salary": [n % 9 for n in range(40)],
            },
        }
    )
    joins = [("employees.person_id", "people.person_id"), ("employees.department_id", "departments.id")]
    assert keys_of(facts, joins)["employees"].primary == ("person_id",)


def test_a_line_of_an_order(gathered: Gathered) -> None:
    rows = [(order, line) for order in range(1, 21) for line in range(1, order % 4 + 2)]
    facts = gathered(
        {
            "orders": {"id": list(range(1, 21))},
            "order_lines": {
                "order_id": [o for o, _ in rows],
                "line_no": [n for _, n in rows],
                "amount": [(o * 7 + n) % 9 for o, n in rows],
            },
        }
    )
    found = keys_of(facts, [("order_lines.order_id", "orders.id")])
    assert found["order_lines"].primary == ("order_id", "line_no")


@pytest.mark.parametrize(
    ("answer", "expected"), [(True, ("customer_id", True)), (None, ("customer_id", False)), (False, None)]
)
def test_a_sample_s_key_is_confirmed_on_all_rows(
    gathered: Gathered, answer: bool | None, expected: tuple[str, bool] | None
) -> None:
    facts = gathered({"customers": {"customer_id": FIFTY, "city": ["x"] * 50}}, rows={"customers": 40_000})
    asked: list[list[str]] = []

    def confirm(table: TableFacts, columns: Sequence[ColumnFacts]) -> bool | None:
        asked.append([column.name for column in columns])
        return answer

    found = keys_of(facts, confirm=confirm).get("customers")
    assert ["customer_id"] in asked
    assert (found and (found.primary[0], found.confirmed)) == expected


@pytest.mark.parametrize("answer", [True, None, False])
def test_a_set_of_a_sample_is_confirmed_on_all_rows(gathered: Gathered, answer: bool | None) -> None:
    rows = [(order, line) for order in range(1, 21) for line in range(1, order % 4 + 2)]
    lines = {"order_id": [o for o, _ in rows], "line_no": [n for _, n in rows], "price": [7] * len(rows)}
    facts = gathered({"lines": lines}, rows={"lines": 40_000})
    found = keys_of(facts, confirm=lambda table, columns: answer).get("lines")
    if answer is False:
        assert found is None
    else:
        assert found is not None
        assert (found.primary, found.confirmed) == (("order_id", "line_no"), answer is True)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["customer_id", "name"], ("customer_id",)),
        (["name", "city"], None),
        (["order_id", "customer_id", "price"], ("order_id", "customer_id")),
    ],
)
def test_the_key_of_an_empty_table_is_read_from_names(
    gathered: Gathered, columns: list[str], expected: tuple[str, ...] | None
) -> None:
    others = {"orders": {"id": FIFTY}, "customers": {"id": FIFTY}}
    found = keys_of(gathered({**others, "things": {name: [] for name in columns}})).get("things")
    assert (found and found.primary) == expected
    assert found is None or not found.confirmed


def test_a_table_of_repeated_rows_has_no_key(gathered: Gathered) -> None:
    assert keys_of(gathered({"log": {"level": ["a", "b"] * 20, "text": ["x", "y"] * 20}})) == {}
