"""Delta's types in DuckDB, and how each column is found in its Parquet files.

Without column mapping, a file has a column under its own name; with it, under a physical name, at every level. A file
that lacks a column was written before the column was added, so its value is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.lake.tables import STORED, ReadColumn, UnreadableTableError, struct_type, text

_PRIMITIVES: Final = {
    "string": "VARCHAR",
    "long": "BIGINT",
    "integer": "INTEGER",
    "short": "SMALLINT",
    "byte": "TINYINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ntz": "TIMESTAMP",
}
"""DuckDB's types by Delta's names. A timestamp is an instant, whatever zone a writer used."""

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_PHYSICAL: Final = "delta.columnMapping.physicalName"
_ID: Final = "delta.columnMapping.id"
_GENERATED: Final = ("delta.generationExpression", "delta.identity.start")
_DEFAULT: Final = "CURRENT_DEFAULT"


@dataclass(frozen=True, slots=True)
class DeltaField:
    """A column of a table, or a field of a struct, from the JSON of the table's schema. `stored`: its name in files."""

    name: str
    stored: str
    kind: Any
    nullable: bool
    metadata: Mapping[str, Any]

    @property
    def comment(self) -> str | None:
        """Its comment."""
        found = self.metadata.get("comment")
        return str(found) if found else None

    @property
    def default(self) -> str | None:
        """Its default, as SQL of the program that wrote the table."""
        found = self.metadata.get(_DEFAULT)
        return None if found is None else str(found)

    @property
    def is_generated(self) -> bool:
        """Whether its values are computed when a row is written."""
        return any(key in self.metadata for key in _GENERATED)


def fields(struct: Mapping[str, Any], *, mapped: bool) -> list[DeltaField]:
    """Return the fields of a struct. `mapped`: whether the table uses column mapping."""
    found = []
    for own in struct["fields"]:
        metadata = own.get("metadata") or {}
        stored = metadata.get(_PHYSICAL) if mapped else own["name"]
        if stored is None:
            raise UnreadableTableError(f"has no physical name for the column `{one_line(own['name'], 60)}`")
        found.append(DeltaField(own["name"], str(stored), own["type"], own.get("nullable", True), metadata))
    return found


def duckdb_type(kind: Any) -> str:
    """Return DuckDB's type for a type in the JSON of a schema. Raises `UnreadableTableError`."""
    return _type(kind, lambda own: str(own["name"]))


def _type(kind: Any, named: Any) -> str:
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            return struct_type((named(each), _type(each["type"], named)) for each in kind["fields"])
        if kind["type"] == "array":
            return f"{_type(kind['elementType'], named)}[]"
        if kind["type"] == "map":
            return f"MAP({_type(kind['keyType'], named)}, {_type(kind['valueType'], named)})"
        raise UnreadableTableError(f"has a column of the type {one_line(str(kind['type']), 40)}, which ktx cannot read")
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return f"DECIMAL({decimal[1]},{decimal[2]})"
    if kind not in _PRIMITIVES:
        raise UnreadableTableError(f"has a column of the type {one_line(str(kind), 40)}, which ktx cannot read")
    return _PRIMITIVES[kind]


def read_column(own: DeltaField, *, mapped: bool, by_id: bool = False) -> ReadColumn:
    """Return how a column is read from files. `by_id`: the files find it by its field id, whatever its name in them."""
    if not mapped:
        return ReadColumn(own.stored, duckdb_type(own.kind))
    if by_id:
        kind = duckdb_type(own.kind)
        if "STRUCT(" in kind:
            raise UnreadableTableError(f"finds the fields of the struct `{one_line(own.name, 60)}` by id, "
                                       "which ktx cannot do")  # fmt: skip
        return ReadColumn(int(own.metadata[_ID]), kind)
    stored = _type(own.kind, lambda each: str((each.get("metadata") or {}).get(_PHYSICAL) or each["name"]))
    return ReadColumn(own.stored, stored, _renamed(own.kind, STORED, 0))


def _renamed(kind: Any, sql: str, depth: int) -> str:
    """Return the SQL of a value with the names of the table instead of those in the files."""
    if not isinstance(kind, dict):
        return sql
    item = f"x{depth}"
    if kind["type"] == "struct":
        parts, same = [], True
        for own in fields(kind, mapped=True):
            inner = f"{sql}.{DIALECT.quote(own.stored)}"
            value = _renamed(own.kind, inner, depth)
            same = same and own.stored == own.name and value == inner
            parts.append(f"{DIALECT.quote(own.name)} := {value}")
        return sql if same else f"CASE WHEN {sql} IS NULL THEN NULL ELSE struct_pack({', '.join(parts)}) END"
    if kind["type"] == "array":
        value = _renamed(kind["elementType"], item, depth + 1)
        return sql if value == item else f"list_transform({sql}, lambda {item}: {value})"
    key = _renamed(kind["keyType"], f"{item}.key", depth + 1)
    value = _renamed(kind["valueType"], f"{item}.value", depth + 1)
    if (key, value) == (f"{item}.key", f"{item}.value"):
        return sql
    pairs = f"lambda {item}: struct_pack(key := {key}, value := {value})"
    return f"map_from_entries(list_transform(map_entries({sql}), {pairs}))"


def constant(value: Any, native: str) -> ReadColumn:
    """Return a partition's value as a column. Raises `UnreadableTableError` for a value of an unusual type."""
    if value is None:
        return ReadColumn(None, value=f"CAST(NULL AS {native})")
    if isinstance(value, bytes):
        return ReadColumn(None, value=f"unhex('{value.hex()}')")
    if not isinstance(value, str | int | float | bool | Decimal | date | datetime):
        raise UnreadableTableError(f"has a partition value of the type {type(value).__name__}, which ktx cannot read")
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return ReadColumn(None, value=f"CAST({text(shown)} AS {native})")


def grouped(
    paths: Sequence[str], values: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...], tuple[str, ...]]]:
    """Yield each tuple of partition values with its files, in the order of the files."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for path, own in zip(paths, values, strict=True):
        found.setdefault(own, []).append(path)
    for own, named in found.items():
        yield own, tuple(named)
