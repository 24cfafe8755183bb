"""Spreads references over the rows of their parents: skewed, clustered, few of them, once each, as a tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.growth import AUTHORS
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.tables import Column, Link

_SHAPES = {"skewed": 0.62, "few": 0.13, "clustered": 0.13, "once": 0.09, "constant": 0.03}
_FEW_SHAPES = {"skewed": 0.45, "few": 0.2, "clustered": 0.1, "once": 0.05, "constant": 0.2}
_ROOTS = ("root", "original", "main", "base")
_ROOT_ROWS = 0.95
"""The share of rows that are their own root."""
_EXPONENTS = (0.0, 0.0, 0.6, 0.9, 1.2, 1.6)


def fill_link(dice: Dice, knobs: Knobs, link: Link, filled: set[Column]) -> None:
    """Fill the columns of a link that is not identifying; columns in `filled` have values it must agree with."""
    count = link.child.size
    shared = [place for place, column in enumerate(link.columns) if column in filled]
    if len(shared) == len(link.columns):
        return
    if not link.shape:
        link.shape = _shape(dice, knobs, link)
    if link.parent.size == 0 or (link.optional and dice.chance(knobs.null_column_share)):
        link.rows = [None] * count
    elif shared:
        link.rows = _within_groups(dice, link, shared)
    else:
        link.rows = rows_of_parent(dice, link, count)
    _blank(dice, link)
    write_columns(link, filled)


def _shape(dice: Dice, knobs: Knobs, link: Link) -> str:
    if link.child is link.parent:
        return "roots" if link.role.split("_")[0] in _ROOTS else "tree"
    if knobs.few_rows and link.columns[0].part == "reference" and link.role in AUTHORS:
        return "constant" if dice.chance(0.7) else "few"
    return dice.weighted(_FEW_SHAPES if knobs.few_rows else _SHAPES)


def rows_of_parent(dice: Dice, link: Link, count: int) -> list[int | None]:
    """Return for each child row the row of its parent."""
    if link.shape == "tree":
        return _tree(dice, count, link.optional)
    if link.shape == "roots":
        return [row if dice.chance(_ROOT_ROWS) else dice.between(0, row) for row in range(count)]
    return list(spread(dice, link.shape, link.parent.size, count))


def spread(dice: Dice, shape: str, parents: int, count: int) -> list[int]:
    """Return `count` row numbers below `parents` (above 0) in the given shape."""
    if shape == "once" and count <= parents:
        picked = dice.sample(range(parents), count)
        return sorted(picked) if dice.chance(0.7) else picked
    if shape == "constant":
        return [0 if dice.chance(0.5) else dice.between(0, parents - 1)] * count
    pool = list(range(parents))
    if shape == "clustered":
        return sorted(dice.many(pool, count))
    if shape == "few":
        pool = dice.sample(pool, dice.between(1, 9))
    elif dice.chance(0.5):
        pool = dice.sample(pool, max(1, int(parents * dice.uniform(0.1, 1.0))))
    elif dice.chance(0.7):
        pool = dice.shuffled(pool)
    return dice.skewed(pool, count, dice.pick(_EXPONENTS))


def write_columns(link: Link, filled: set[Column]) -> None:
    """Copy the parents' values into the link's columns that have none yet."""
    for column, target in zip(link.columns, link.parent_columns, strict=True):
        if column not in filled:
            values = target.values
            column.values = [None if row is None else values[row] for row in link.rows]
            filled.add(column)


def _tree(dice: Dice, count: int, optional: bool) -> list[int | None]:
    """Return each row's parent among the rows before it; a root has none, or itself where it must have one."""
    roots = dice.pick((0.02, 0.1, 0.3, 0.8)) if optional else 0.05
    draw = dice.unit
    return [
        (None if optional else row) if row == 0 or draw() < roots else int(draw() ** 1.5 * row) for row in range(count)
    ]


def _within_groups(dice: Dice, link: Link, shared: Sequence[int]) -> list[int | None]:
    """Return a parent's row for each child row that has the same values in the shared columns, None without one."""
    groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for row, key in enumerate(zip(*(link.parent_columns[place].values for place in shared), strict=True)):
        groups[key].append(row)
    keys = zip(*(link.columns[place].values for place in shared), strict=True)
    draw = dice.unit
    found = (groups.get(key) for key in keys)
    return [rows[int(draw() * len(rows))] if rows else None for rows in found]


def _blank(dice: Dice, link: Link) -> None:
    """Set some optional references to none."""
    if not link.optional or link.shape in ("tree", "roots") or link.child.form is Form.SUB:
        return
    share = dice.pick((0.0, 0.05, 0.2, 0.5, 0.8, 0.95))
    draw = dice.unit
    link.rows = [None if draw() < share else row for row in link.rows]
