"""Makes a mismatch small: fewer rows, fewer sources, a shorter query, as long as it stays one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.semantic_oracle.cases.base import Case, Table, World

STEPS = 400
"""How many smaller candidates are tried."""

Fails = Callable[[Case], bool]


def shrunk(case: Case, fails: Fails) -> Case:
    """Return a smaller case that still fails: the first smaller candidate is taken until none is."""
    left = STEPS
    while left > 0:
        for smaller in _smaller(case):
            left -= 1
            if fails(smaller):
                case = smaller
                break
            if left <= 0:
                return case
        else:
            return case
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for query in _queries(case.query):
        yield Case(case.id, case.world, query)
    for world in _worlds(case.world):
        yield Case(case.id, world, case.query)


def _queries(query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for key, value in query.items():
        rest = {name: each for name, each in query.items() if name != key}
        if key not in ("measures", "dimensions"):
            yield rest
        if isinstance(value, list) and (key != "measures" or len(value) > 1):
            for at in range(len(value)):
                yield rest | {key: value[:at] + value[at + 1 :]}


def _worlds(world: World) -> Iterator[World]:
    for name, table in world.tables.items():
        size = len(table.rows)
        for step in dict.fromkeys((max(size // 2, 1), 1)):
            for start in range(0, size, step):
                rows = table.rows[:start] + table.rows[start + step :]
                yield World(world.name, {**world.tables, name: Table(table.columns, rows)}, world.sources)
    last = world.sources[-1]["name"]
    if len(world.sources) > 1:
        yield World(world.name, {k: v for k, v in world.tables.items() if k != last}, world.sources[:-1])


def reproduction(case: Case) -> str:
    """Return the case as something to paste: rows, joins and the query."""
    lines = [f"{case.id}: {dict(case.query)}"]
    for each in case.world.sources:
        table = case.world.tables[each["table"]]
        lines.append(f"  {each['name']} grain {each['grain']} joins {each.get('joins', [])}")
        lines += [f"    {dict(zip((name for name, _ in table.columns), row, strict=True))}" for row in table.rows]
    return "\n".join(lines)
