"""Spells column types as the common engines do; SQLite stores them as written."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.pools import listed
from benchmarks.relationship_fixtures.tables import Column, Database

_FLAVOURS: Mapping[str, tuple[str, str, str, str, str, str, str]] = {
    # whole, large whole, decimal, float, text, date, timestamp
    "sqlite": ("INTEGER", "INTEGER", "NUMERIC", "REAL", "TEXT", "TEXT", "TEXT"),
    "standard": ("INTEGER", "BIGINT", "DECIMAL(12,2)", "DOUBLE PRECISION", "VARCHAR({})", "DATE", "TIMESTAMP"),
    "sqlserver": ("INT", "BIGINT", "DECIMAL(18,2)", "FLOAT", "NVARCHAR({})", "DATE", "DATETIME"),
    "mysql": ("int(11)", "bigint(20)", "decimal(10,2)", "double", "varchar({})", "date", "datetime"),
    "postgres": ("integer", "bigint", "numeric", "double precision", "text", "date", "timestamp"),
    "oracle": ("NUMBER(10)", "NUMBER(19)", "NUMBER(12,2)", "NUMBER", "VARCHAR2({})", "DATE", "TIMESTAMP"),
}
_WHOLE, _BIG, _DECIMAL, _FLOAT, _TEXT, _DATE, _STAMP = range(7)
_WHOLE_KINDS = frozenset(
    listed(
        "serial global big line sequence position slot_year quantity count small rating score year month duration"
        " counter stray_number"
    )
)
"""The kinds whose columns are whole numbers even where a table has no rows."""
_LOOSE = 0.04


def set_types(dice: Dice, database: Database) -> None:
    """Give every column its type; a reference has its target's, except a few that were declared another way."""
    flavour = dice.pick(list(_FLAVOURS))
    types = _FLAVOURS[flavour]
    for table in database.tables:
        for column in table.columns:
            column.sql_type = _type_of(column, types)
    for link in database.links:
        for column, target in zip(link.columns, link.parent_columns, strict=True):
            loose = dice.chance(_LOOSE) and isinstance(next(iter(target.values), None), int)
            column.sql_type = dice.pick((types[_DECIMAL], types[_BIG], types[_FLOAT])) if loose else target.sql_type
    database.notes["types"] = flavour


def _type_of(column: Column, types: tuple[str, ...]) -> str:
    value = next((value for value in column.values if value is not None), None)
    if value is None and column.kind in _WHOLE_KINDS:
        return types[_BIG if column.kind in ("big", "global") else _WHOLE]
    if isinstance(value, int):
        return types[_BIG] if abs(value) > 2**31 else types[_WHOLE]
    if isinstance(value, float):
        return types[_DECIMAL] if column.kind in ("money", "percent") else types[_FLOAT]
    if column.kind in ("date", "slot_date"):
        return types[_DATE]
    if column.kind == "timestamp":
        return types[_STAMP]
    length = {"uuid": 36, "hash": 40, "code": 10, "flag": 5, "text": 255}.get(column.kind, 50)
    return types[_TEXT].format(length)
