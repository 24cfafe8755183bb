"""Spoils some references: values no parent has, as rows deleted or imported without a constraint leave them."""

from __future__ import annotations

from typing import Any

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.tables import Column, Database, Link


def add_orphans(dice: Dice, knobs: Knobs, database: Database) -> int:
    """Put 1 to 5 % (rarely up to 15 %) orphans into a share of the links; return how many links were spoiled."""
    keys = {column for table in database.tables for column in (*table.key, *sum(table.alternates, ()))}
    spoiled = 0
    for link in database.links:
        plain = len(link.columns) == 1 and link.discriminator is None and link.shape != "tenant"
        if plain and link.columns[0] not in keys and dice.chance(knobs.orphan_share):
            spoiled += _spoil(dice, link)
    return spoiled


def write_sentinels(dice: Dice, database: Database) -> None:
    """Write 0 (or -1, or a blank) for "none" into the optional references of a database instead of NULL."""
    number = dice.pick((0, 0, -1))
    for link in database.links:
        column, target = link.columns[0], link.parent_columns[0]
        kept = link.optional and len(link.columns) == 1 and link.discriminator is None and dice.chance(0.8)
        if kept and target.values and number not in target.values:
            none = number if isinstance(target.values[0], int) else ""
            column.values = [none if value is None else value for value in column.values]


def _spoil(dice: Dice, link: Link) -> bool:
    column = link.columns[0]
    share = dice.weighted({0.01: 4, 0.03: 4, 0.05: 3, 0.15: 1})
    rows = [row for row, value in enumerate(column.values) if value is not None]
    wrong = _foreign_values(dice, link.parent_columns[0])
    chosen = dice.sample(rows, int(len(rows) * share))
    for row in chosen if wrong else ():
        column.values[row] = dice.pick(wrong)
    return bool(chosen)


def _foreign_values(dice: Dice, target: Column) -> list[Any]:
    """Return values like the target's that it does not have."""
    have = set(target.values)
    if not have:
        return []
    if isinstance(target.values[0], int):
        top = max(have)
        made: list[Any] = [top + dice.between(1, 500) for _ in range(20)] + [0, -1, 999_999]
        return [value for value in (made if dice.chance(0.7) else made[-3:]) if value not in have]
    made = [str(value)[:-1] + letter for value in target.values[:20] for letter in "ZQ7"] + ["", "UNKNOWN", "N/A"]
    return [value for value in made if value not in have]
