"""How many rows each table gets."""

from __future__ import annotations

from benchmarks.relationship_fixtures.concepts import Form
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.tables import Database, Table

_RANGES = {
    Form.LOOKUP: (3, 60),
    Form.MASTER: (12, 3_000),
    Form.DOC: (80, 9_000),
    Form.LINE: (60, 12_000),
    Form.SLOT: (60, 4_000),
    Form.LINK: (20, 5_000),
    Form.SUB: (5, 1_000),
    Form.LOG: (40, 15_000),
}
_TINY = (2, 14)
_FEW = {
    Form.LOOKUP: (0.05, 20),
    Form.MASTER: (0.3, 10),
    Form.DOC: (0.5, 20),
    Form.LINE: (0.5, 20),
    Form.SLOT: (0.5, 20),
    Form.LINK: (0.4, 20),
    Form.SUB: (0.3, 8),
    Form.LOG: (0.5, 20),
}
"""Of a database with few rows: the share of tables without any, and the most rows of the others."""
_ONE_ROW = 0.2
_LARGE = (11_000, 24_000)
_LEAST = 3


def set_sizes(dice: Dice, knobs: Knobs, database: Database) -> None:
    """Give every table its number of rows; lines, slots, junctions and subtypes may get fewer when rows are made."""
    scale = dice.pick((0.2, 0.5, 1.0, 1.0, 2.0))
    for table in database.tables:
        table.size = _size(dice, knobs, table, scale)
    _cut_to(knobs.rows, database)
    events = [table for table in database.tables if table.form in (Form.LOG, Form.DOC)]
    if events and not knobs.tiny and not knobs.few_rows and knobs.rows >= 2 * _LARGE[0] and dice.chance(0.3):
        dice.pick(events).size = dice.between(*_LARGE)
    for table in database.tables:
        if dice.chance(knobs.empty_share):
            table.size = 0


def _size(dice: Dice, knobs: Knobs, table: Table, scale: float) -> int:
    if knobs.tiny:
        return dice.between(*_TINY)
    if knobs.few_rows:
        empty, most = _FEW[table.form]
        return 0 if dice.chance(empty * scale) else 1 if dice.chance(_ONE_ROW) else dice.between(1, most)
    low, high = _RANGES[table.form]
    if table.form is Form.LOOKUP:
        return dice.around(low, 250 if dice.chance(0.1) else high // 2)
    return max(_LEAST, int(dice.around(low, high) * scale))


def _cut_to(rows: int, database: Database) -> None:
    """Shrink the larger tables so that all have about `rows` rows together."""
    total = sum(table.size for table in database.tables)
    if total <= rows:
        return
    for table in database.tables:
        if table.size > 100:
            table.size = max(100, int(table.size * rows / total))
