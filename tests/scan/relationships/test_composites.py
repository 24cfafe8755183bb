"""References by several columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, NameIndex, NameMatch
from ktx_cli.scan.relationships.composites import CompositeCandidate, find_composites
from ktx_cli.scan.relationships.hints import Ends
from ktx_cli.scan.relationships.record import Check, KeyChoice
from ktx_cli.warehouses.port import ForeignKey, TableRef

Gathered = Callable[..., DatabaseFacts]
LINES = [(order, line) for order in range(1, 41) for line in range(1, order % 5 + 2)]
PARENT = {"order_id": [o for o, _ in LINES], "line_no": [n for _, n in LINES], "price": [7] * len(LINES)}
SHIPPED = LINES[::2]


def child(rows: Sequence[tuple[Any, Any]], first: str = "order_id", second: str = "line_no") -> dict[str, list[Any]]:
    return {"id": list(range(9000, 9000 + len(rows))), first: [r[0] for r in rows], second: [r[1] for r in rows]}


def found(
    facts: DatabaseFacts,
    accepted: Sequence[tuple[str, str]] = (),
    check: Check | None = None,
    hinted: Mapping[Ends, set[str]] | None = None,
    name: float = 0.5,
    **keys: tuple[str, ...],
) -> list[CompositeCandidate]:
    by_name = {table.table.ref.name: table for table in facts.tables}
    columns = {str(column): column for column in facts.columns}
    choices = {
        by_name[name]: KeyChoice(key, False)
        for name, key in ({"lines": ("order_id", "line_no")} | keys).items()
        if name in by_name
    }
    match = NameMatch(name, name)
    pairs = [Candidate(columns[one], columns[other], match, probability=0.9) for one, other in accepted]
    index = NameIndex(facts.tables, facts.columns)
    return find_composites(facts.tables, choices, pairs, index, lambda mine, theirs: check, hinted or {})


def names(columns: Sequence[ColumnFacts]) -> str:
    return ", ".join(map(str, columns))


@pytest.mark.parametrize(
    ("first", "second"), [("order_id", "line_no"), ("order_id", "lines_line_no"), ("order", "line_no")]
)
def test_columns_called_as_the_members_are(gathered: Gathered, first: str, second: str) -> None:
    (pair,) = found(gathered({"lines": PARENT, "parcels": child(SHIPPED, first, second)}))
    assert names(pair.child) == f"parcels.{first}, parcels.{second}"
    assert names(pair.key) == "lines.order_id, lines.line_no"
    assert pair.check == Check(len(SHIPPED), 0, exact=True)
    assert pair.probability >= 0.9


def test_the_order_of_the_key_s_columns_is_kept(gathered: Gathered) -> None:
    rows = child(SHIPPED)
    turned = {name: rows[name] for name in ("line_no", "id", "order_id")}
    (pair,) = found(gathered({"lines": PARENT, "parcels": turned}))
    assert names(pair.child) == "parcels.order_id, parcels.line_no"


@pytest.mark.parametrize(("missing", "there"), [(2, True), (20, False)])
def test_rows_that_find_nothing_are_counted(gathered: Gathered, missing: int, there: bool) -> None:
    rows = [*SHIPPED[missing:], *((700 + n, 1) for n in range(missing))]
    pairs = found(gathered({"lines": PARENT, "parcels": child(rows)}))
    assert [pair.check.missing for pair in pairs if pair.check is not None] == ([missing] if there else [])


def test_rows_with_a_null_refer_to_nothing(gathered: Gathered) -> None:
    (pair,) = found(gathered({"lines": PARENT, "parcels": child([*SHIPPED, (None, 1), (3, None)])}))
    assert pair.check == Check(len(SHIPPED), 0, exact=True)


def test_what_may_be_chance_is_not_sure(gathered: Gathered) -> None:
    grid = [(order, line) for order in range(1, 13) for line in range(1, 6)]
    parent = {"order_id": [o for o, _ in grid], "line_no": [n for _, n in grid]}
    (pair,) = found(gathered({"lines": parent, "parcels": child(grid[::3])}))
    assert pair.probability < 0.7


def test_other_names_and_no_rows_are_no_reference(gathered: Gathered) -> None:
    assert found(gathered({"lines": PARENT, "parcels": child(SHIPPED, "week", "grade")})) == []
    assert found(gathered({"lines": PARENT, "parcels": child([])})) == []


def test_columns_that_refer_to_what_the_members_refer_to(gathered: Gathered) -> None:
    facts = gathered(
        {"lines": PARENT, "orders": {"id": list(range(1, 41))}, "parcels": child(SHIPPED, "purchase", "line_no")}
    )
    joins = [("lines.order_id", "orders.id"), ("parcels.purchase", "orders.id")]
    (pair,) = found(facts, joins)
    assert names(pair.child) == "parcels.purchase, parcels.line_no"
    assert [str(single.child) for single in pair.replaces] == ["parcels.purchase"]
    (pair,) = found(facts, joins, name=1.0)
    assert pair.replaces == ()  # A clear name says what the column refers to, whatever it refers to with others.


def test_two_tables_with_the_same_key_do_not_refer_to_one_another(gathered: Gathered) -> None:
    facts = gathered({"lines": PARENT, "notes": {name: PARENT[name] for name in ("order_id", "line_no")}})
    pairs = found(facts, notes=("order_id", "line_no"))
    assert [names(pair.child) for pair in pairs] == ["lines.order_id, lines.line_no"]


@pytest.mark.parametrize(
    ("check", "there"),
    [(Check(90_000, 0, exact=True), True), (Check(90_000, 40_000, exact=True), False), (None, False)],
)
def test_larger_tables_are_checked_in_the_database(gathered: Gathered, check: Check | None, there: bool) -> None:
    facts = gathered({"lines": PARENT, "parcels": child(SHIPPED)}, rows={"parcels": 90_000})
    assert [pair.check for pair in found(facts, check=check)] == ([check] if there else [])


def test_a_declared_reference_is_left_out(gathered: Gathered) -> None:
    facts = gathered({"lines": PARENT, "parcels": child(SHIPPED)})
    parcels = facts.tables[1]
    key = ForeignKey(("line_no", "order_id"), TableRef(None, "lines"), ("line_no", "order_id"))
    parcels.table = replace(parcels.table, foreign_keys=(key,))
    assert found(facts) == []


def test_a_hint_is_kept_whatever_the_names_say(gathered: Gathered) -> None:
    facts = gathered({"lines": PARENT, "parcels": child(SHIPPED, "week", "grade")})
    columns = {str(column): column for column in facts.columns}
    ends = ((columns["parcels.week"], columns["parcels.grade"]), (columns["lines.order_id"], columns["lines.line_no"]))
    (pair,) = found(facts, hinted={ends: {"model"}})
    assert names(pair.child) == "parcels.week, parcels.grade"
    assert pair.check == Check(len(SHIPPED), 0, exact=True)
    assert pair.sources == frozenset({"model"})
    assert pair.probability > 0.9


def test_a_row_of_the_same_table_of_the_same_tenant(gathered: Gathered) -> None:
    rows = [(tenant, number) for tenant in (11, 12, 13) for number in range(1, 30)]
    courses = {
        "tenant_id": [tenant for tenant, _ in rows],
        "course_id": [number for _, number in rows],
        "previous_course_id": [number - 1 or None for _, number in rows],
    }
    pairs = found(gathered({"courses": courses}), courses=("tenant_id", "course_id"), lines=())
    assert [names(pair.child) for pair in pairs] == ["courses.tenant_id, courses.previous_course_id"]
    assert pairs[0].probability >= 0.9


def test_columns_beside_a_table_s_key_refer_to_no_row_of_the_table(gathered: Gathered) -> None:
    """`buyer_id` refers to `users`, and so does the column of the key that its values are in."""
    rows = [(region, number) for region in (1, 2) for number in range(1, 21)]
    orders = {
        "region": [region for region, _ in rows],
        "seller_id": [number for _, number in rows],
        "buyer_id": [number % 20 + 1 for _, number in rows],
    }
    facts = gathered({"orders": orders, "users": {"id": list(range(1, 41))}})
    joins = [("orders.seller_id", "users.id"), ("orders.buyer_id", "users.id")]
    assert found(facts, joins, orders=("region", "seller_id"), lines=()) == []


def test_a_reference_behind_a_wider_one_is_left_out(gathered: Gathered) -> None:
    deep = [(order, line, part) for order, line in LINES for part in (1, 2)]
    parts = {"order_id": [o for o, _, _ in deep], "line_no": [n for _, n, _ in deep], "part_no": [p for *_, p in deep]}
    seen = deep[::3]
    checks = {
        "id": list(range(7000, 7000 + len(seen))),
        "order_id": [o for o, _, _ in seen],
        "line_no": [n for _, n, _ in seen],
        "part_no": [p for *_, p in seen],
    }
    facts = gathered({"lines": PARENT, "parts": parts, "checks": checks})
    pairs = found(facts, parts=("order_id", "line_no", "part_no"))
    assert [
        (names(pair.child), pair.key[0].table.table.ref.name) for pair in pairs if "checks" in names(pair.child)
    ] == [("checks.order_id, checks.line_no, checks.part_no", "parts")]
