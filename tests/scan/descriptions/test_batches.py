"""Every column in exactly one call, limits held, neighbours together, whatever the tables are."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.scan.descriptions.batches import Limits, SizedTable, plan_calls
from ktx_cli.warehouses.port import TableRef

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def databases(draw: st.DrawFn) -> list[SizedTable]:
    count = draw(st.integers(0, 12))
    refs = [TableRef(draw(st.sampled_from([None, "a", "b"])), f"t{number}") for number in range(count)]
    links: dict[TableRef, set[TableRef]] = {ref: set() for ref in refs}
    for one, other in draw(st.lists(st.tuples(st.sampled_from(refs), st.sampled_from(refs)))) if refs else ():
        if one != other:
            links[one].add(other)
            links[other].add(one)
    sizes = st.lists(st.integers(1, 60), max_size=9)
    return [
        SizedTable(
            ref=ref,
            head=draw(st.integers(1, 60)),
            columns=tuple((f"c{number}", size) for number, size in enumerate(draw(sizes))),
            neighbours=frozenset(links[ref]),
            asks_table=draw(st.booleans()),
        )
        for ref in refs
    ]


LIMITS = st.builds(Limits, tokens=st.integers(1, 200), columns=st.integers(1, 12), tables=st.integers(1, 5))


@UNHURRIED
@given(databases(), LIMITS)
def test_everything_is_asked_exactly_once(tables: list[SizedTable], limits: Limits) -> None:
    pieces = [piece for call in plan_calls(tables, limits) for piece in call]
    asked = Counter((piece.ref, name) for piece in pieces for name in piece.columns)
    assert asked == Counter((table.ref, name) for table in tables for name, _ in table.columns)
    texts = Counter(piece.ref for piece in pieces if piece.asks_table)
    assert texts == Counter(table.ref for table in tables if table.asks_table)
    assert {piece.ref for piece in pieces} == {table.ref for table in tables}


@UNHURRIED
@given(databases(), LIMITS)
def test_limits_hold(tables: list[SizedTable], limits: Limits) -> None:
    size = {table.ref: (table.head, dict(table.columns)) for table in tables}
    for call in plan_calls(tables, limits):
        tokens = sum(size[piece.ref][0] + sum(size[piece.ref][1][name] for name in piece.columns) for piece in call)
        assert tokens == sum(piece.tokens for piece in call)
        assert len(call) <= limits.tables
        assert sum(len(piece.columns) for piece in call) <= limits.columns
        assert len({piece.ref for piece in call}) == len(call)
        assert tokens <= limits.tokens or (len(call) == 1 and len(call[0].columns) <= 1)


@UNHURRIED
@given(databases(), LIMITS, st.randoms(use_true_random=False))
def test_the_order_of_the_tables_is_no_matter(tables: list[SizedTable], limits: Limits, chance: random.Random) -> None:
    shuffled = list(tables)
    chance.shuffle(shuffled)
    assert plan_calls(shuffled, limits) == plan_calls(tables, limits)


def linked(name: str, *others: str) -> SizedTable:
    return SizedTable(TableRef(None, name), 10, (("id", 10),), frozenset(TableRef(None, other) for other in others))


def test_neighbours_share_a_call_and_calls_are_filled() -> None:
    tables = [linked("a", "z"), linked("b", "y"), linked("y", "b"), linked("z", "a"), linked("m"), linked("n")]
    calls = plan_calls(tables, Limits(tokens=1000, tables=3))
    assert [[piece.ref.name for piece in call] for call in calls] == [["a", "z", "m"], ["b", "y", "n"]]


def test_a_thousand_lone_tables_fill_their_calls() -> None:
    calls = plan_calls([linked(f"t{number}") for number in range(1000)], Limits(tables=10))
    assert [len(call) for call in calls] == [10] * 100
