"""Which pairs of columns are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from ktx_cli.scan.relationships.candidates import can_refer, find_candidates
from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, NameIndex, Overlap
from ktx_cli.scan.relationships.keys import find_unique_columns
from ktx_cli.scan.relationships.ranker import FEATURES

Gathered = Callable[..., DatabaseFacts]
FIFTY = list(range(1, 51))
CUSTOMERS: dict[str, list[Any]] = {"customer_id": FIFTY, "name": [f"c{n}" for n in FIFTY]}


class Answers:
    """Stands for the lookups in large keys."""

    def __init__(self, answer: Overlap | None = None) -> None:
        self.answer, self.asked, self.skipped_keys = answer, list[str](), set[ColumnFacts]()

    def overlaps(self, pairs: Iterable[tuple[ColumnFacts, ColumnFacts]]) -> Mapping[Any, Overlap]:
        found = list(pairs)
        self.asked = [f"{child} -> {key}" for child, key in found]
        return {} if self.answer is None else dict.fromkeys(found, self.answer)


def pairs_of(
    facts: DatabaseFacts,
    prober: Answers | None = None,
    *,
    hints: Mapping[tuple[str, str], set[str]] | None = None,
    most: int = 25,
    declared: Iterable[str] = (),
) -> dict[str, Candidate]:
    uniques = find_unique_columns(facts.tables, lambda table, columns: True)
    columns = {str(column): column for column in facts.columns}
    found = find_candidates(
        facts,
        uniques.keys,
        NameIndex(facts.tables, uniques.keys),
        {(columns[child], columns[key]): sources for (child, key), sources in (hints or {}).items()},
        prober or Answers(),  # type: ignore[arg-type]
        most=most,
        declared={columns[name] for name in declared},
    )
    return {f"{pair.child} -> {pair.key}": pair for pair in found}


def feature(pair: Candidate, name: str) -> float:
    return pair.features[FEATURES.index(name)]


NAME = "orders.customer_id -> customers.customer_id"


def shop(customer: list[Any], **more: list[Any]) -> dict[str, dict[str, list[Any]]]:
    return {"customers": CUSTOMERS, "orders": {"customer_id": customer, **more}}


def test_names_and_values_bring_pairs(gathered: Gathered) -> None:
    found = pairs_of(gathered(shop([1, 2, 2, 50, 7])))
    assert found[NAME].sources == {"names", "values"}
    assert found[NAME].overlap == Overlap(5, 0, 4, 4, exact=True)
    assert len(found[NAME].features) == len(FEATURES)
    assert (feature(found[NAME], "name_key"), feature(found[NAME], "violations")) == (1.0, 0.0)


def test_values_alone_bring_a_pair(gathered: Gathered) -> None:
    found = pairs_of(gathered(shop([0] * 20, thing=[n * 5 % 50 + 1 for n in range(20)])))
    pair = found["orders.thing -> customers.customer_id"]
    assert pair.sources == {"values"}


@pytest.mark.parametrize(("missing", "there"), [(5, True), (11, True), (13, False)])
def test_a_clear_name_bears_many_rows_without_a_parent(gathered: Gathered, missing: int, there: bool) -> None:
    found = pairs_of(gathered(shop([1000 + n if n < missing else n + 1 for n in range(20)])))
    assert (NAME in found) is there
    if there:
        assert feature(found[NAME], "violations") == missing / 20


def test_an_unclear_name_bears_few(gathered: Gathered) -> None:
    for missing, there in ((1, True), (3, False)):
        codes = [f"z{n}" if n < missing else f"k{n}" for n in range(20)]
        facts = gathered({"codes": {"code": [f"k{n}" for n in range(40)]}, "orders": {"thing": codes}})
        assert ("orders.thing -> codes.code" in pairs_of(facts)) is there


def test_what_has_no_values_needs_a_clear_name(gathered: Gathered) -> None:
    found = pairs_of(gathered(shop([None] * 5, thing_id=[None] * 5)))
    assert list(found) == [NAME]
    assert found[NAME].overlap is None
    assert found[NAME].empty


def test_a_key_larger_than_its_sample_is_asked_in_the_database(gathered: Gathered) -> None:
    facts = gathered(shop([1, 2, 2, 50, 7]), rows={"customers": 40_000})
    prober = Answers(Overlap(5, 1, 4, 3, exact=False))
    found = pairs_of(facts, prober)
    assert prober.asked == [NAME]
    assert found[NAME].overlap == Overlap(5, 1, 4, 3, exact=False)
    assert pairs_of(facts, Answers(None))[NAME].overlap is None


def test_a_pair_the_time_did_not_suffice_for_is_marked(gathered: Gathered) -> None:
    facts = gathered(shop([1, 2, 2, 50, 7]), rows={"customers": 40_000})
    prober = Answers()
    prober.skipped_keys = {column for column in facts.columns if column.name == "customer_id"}
    assert pairs_of(facts, prober)[NAME].out_of_time


def test_a_parent_without_rows_is_named_where_nothing_else_holds_the_values(gathered: Gathered) -> None:
    empty = {"customers": {"customer_id": [], "name": []}, "orders": {"customer_id": [1, 2, 2]}}
    assert pairs_of(gathered(empty))[NAME].only_orphans
    other = {**empty, "archive": {"customer_id": [1, 2, 3, 4], "since": ["a", "b", "c", "d"]}}
    found = pairs_of(gathered(other))
    assert "orders.customer_id -> archive.customer_id" in found
    assert NAME not in found


def test_namesakes_bring_each_other_s_keys(gathered: Gathered) -> None:
    """Of nine keys with less to spare none holds what the other column of that name holds."""
    nearer = {f"near_{n}": {"code": list(range(1, 20 + n))} for n in range(9)}
    tables = {"zz": {"nr": list(range(1, 91))}, "one": {"vorm": [1, 5, 9, 12]}, "two": {"vorm": [88, 3, 41, 60]}}
    assert "one.vorm -> zz.nr" in pairs_of(gathered({**nearer, **tables}))


def test_what_is_out_of_reach_is_not_asked_for(gathered: Gathered) -> None:
    prober = Answers()
    pairs_of(gathered(shop([1, 2, 900_000]), rows={"customers": 40_000}), prober)
    assert prober.asked == []


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("customer_id", [1, 2, 3], True),
        ("is_active", [0, 1, 1], False),
        ("active_id", [0, 1, 1], True),
        ("price", [0.5, 1.25, 3.5], False),
        ("note", ["x" * 90, "y", "z"], False),
        ("code", ["x", "y", "z"], True),
    ],
)
def test_what_can_refer(gathered: Gathered, name: str, values: list[Any], expected: bool) -> None:
    assert can_refer(gathered({"t": {name: values}}).columns[0]) is expected


def test_columns_whose_joins_are_declared_are_left_out(gathered: Gathered) -> None:
    assert NAME not in pairs_of(gathered(shop([1, 2, 2])), declared=["orders.customer_id"])


def test_hints_bring_pairs_that_can_be(gathered: Gathered) -> None:
    facts = gathered(shop([1, 2, 2], text=["a", "b", "c"], thing=[7, 8, 900]), rows={"customers": 40_000})
    prober = Answers(Overlap(3, 1, 3, 2, exact=False))
    key = "customers.customer_id"
    hints = {("orders.text", key): {"view"}, ("orders.thing", key): {"dbt", "model"}}
    found = pairs_of(facts, prober, hints=hints)
    assert found[f"orders.thing -> {key}"].sources == {"dbt", "model"}
    assert f"orders.text -> {key}" not in found


@pytest.mark.parametrize("most", [1, 2, 3, 5, 9])
def test_no_more_candidates_than_asked_for(gathered: Gathered, most: int) -> None:
    tables = {f"customer_{letter}": {"customer_id": FIFTY, "x": [letter] * 50} for letter in "abcdefghijkl"}
    facts = gathered({**tables, "orders": {"customer_id": [n % 50 + 1 for n in range(90)]}})
    found = [pair for pair in pairs_of(facts, most=most).values() if pair.child.table.words == ("orders",)]
    assert 1 <= len(found) <= most


def test_a_copy_of_the_key_refers_to_nothing(gathered: Gathered) -> None:
    own = {"id": FIFTY, "row_id": FIFTY, "parent_id": [None, *(n // 2 for n in FIFTY[1:])]}
    found = pairs_of(gathered({"nodes": own}))
    assert "nodes.parent_id -> nodes.id" in found
    assert "nodes.row_id -> nodes.id" not in found
