"""Iceberg's types in DuckDB, and how each column is found in the Parquet files that were written with other schemas.

Iceberg identifies a field by its id, at every level. A column may have been renamed, moved, added or widened since a
file was written, so the structure of each file is compared with the table's current one. What the comparison cannot
map exactly is an `UnreadableTableError`, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ktx_cli.core import one_line
from ktx_cli.warehouses.duckdb.dialect import DIALECT
from ktx_cli.warehouses.lake.tables import STORED, ReadColumn, UnreadableTableError, struct_type, text

_PRIMITIVES: Final = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "timestamp_ns": "TIMESTAMP_NS",
    "string": "VARCHAR",
    "uuid": "UUID",
    "binary": "BLOB",
}
"""DuckDB's types by Iceberg's names."""

_WIDER: Final = {
    "INTEGER": {"TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"},
    "BIGINT": {"INTEGER", "TINYINT", "SMALLINT", "UTINYINT", "USMALLINT", "UINTEGER"},
    "DOUBLE": {"FLOAT"},
    "TIMESTAMP": {"DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"},
    "TIMESTAMP_NS": {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"},
    "TIMESTAMP WITH TIME ZONE": {"TIMESTAMP"},  # INT96, which is in UTC as the session is.
}
"""The types of a file that DuckDB converts to a column's type without a loss, by the type of the column."""


_EPOCHS: Final = {
    "DATE": "DATE '1970-01-01' + {}",
    "TIMESTAMP": "make_timestamp({})",
    "TIMESTAMP_NS": "make_timestamp_ns({})",
    "TIMESTAMP WITH TIME ZONE": "timezone('UTC', make_timestamp({}))",
    "TIME": "TIME '00:00:00' + to_microseconds({})",
}
"""The time since 1970 or midnight, by type."""


@dataclass(slots=True)
class FileField:
    """A field of a Parquet file: its name, its field id if the file has ids, DuckDB's type, and the fields in it."""

    name: str
    id: int | None
    native: str
    repeated: bool = False
    children: list[FileField] = field(default_factory=list)


def duckdb_type(kind: Any) -> str:
    """Return DuckDB's type for a type of pyiceberg. Raises `UnreadableTableError`."""
    if kind.is_struct:
        return struct_type((each.name, duckdb_type(each.field_type)) for each in kind.fields)
    name = str(kind)
    if name.startswith("list<"):
        return f"{duckdb_type(kind.element_type)}[]"
    if name.startswith("map<"):
        return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.value_type)})"
    if name.startswith("decimal("):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if name.startswith("fixed["):
        return "BLOB"
    if name not in _PRIMITIVES:
        raise UnreadableTableError(f"has a column of the type {one_line(name, 40)}, which ktx cannot read")
    return _PRIMITIVES[name]


def file_trees(rows: Sequence[tuple[Any, ...]]) -> dict[str, FileField]:
    """Return the root of each file from DuckDB's `parquet_schema`.

    Rows: file, name, repetition, number of children, field id and DuckDB's type; parents before their children.
    """
    by_file: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        by_file.setdefault(row[0], []).append(row)
    return {path: _tree(iter(found)) for path, found in by_file.items()}


def _tree(rows: Iterator[tuple[Any, ...]]) -> FileField:
    _, name, repetition, children, number, native = next(rows)
    made = FileField(name, number, native or "", repetition == "REPEATED")
    made.children = [_tree(rows) for _ in range(children or 0)]
    return made


class Projection:
    """How the columns of a table are read from files.

    `fields`: pyiceberg's fields of the table. `mapping`: the table's name mapping, which applies to files without ids.
    """

    def __init__(self, fields: Sequence[Any], mapping: str | None) -> None:
        self._fields = fields
        self._mapping = None if mapping is None else json.loads(mapping)

    def columns(self, root: FileField, constants: Mapping[int, str]) -> tuple[ReadColumn, ...]:
        """Return how each column is read. `constants`: SQL literals by field id, for columns that the file lacks."""
        if not _has_ids(root):
            if self._mapping is None:
                raise UnreadableTableError("has a data file without field ids, and no name mapping for it")
            _assign(root.children, self._mapping)
            by_name = True
        else:
            by_name = False
        stored = {each.id: each for each in root.children if each.id is not None}
        found = []
        for own in self._fields:
            here = stored.get(own.field_id)
            if here is None:
                found.append(ReadColumn(None, value=constants.get(own.field_id) or _missing(own)))
                continue
            native, value = _converted(own.field_type, here, STORED, 0)
            found.append(ReadColumn(here.name if by_name else here.id, native, value))
        return tuple(found)


def _has_ids(root: FileField) -> bool:
    return any(each.id is not None or _has_ids(each) for each in root.children)


def _assign(fields: Sequence[FileField], mapping: Sequence[Mapping[str, Any]]) -> None:
    """Give the fields of a file without ids the ids of a name mapping."""
    known = {name: each for each in mapping for name in each.get("names", ())}
    for own in fields:
        found = known.get(own.name)
        if found is None:
            continue
        own.id = found.get("field-id")
        inner = own.children
        if len(inner) == 1 and inner[0].repeated and inner[0].children:  # A list or a map, below its repeated group.
            inner = inner[0].children
            names = ("key", "value") if len(inner) == 2 else ("element",)
            for each, name in zip(inner, names, strict=True):
                each.name = name
        _assign(inner, found.get("fields") or ())


def _missing(own: Any) -> str:
    """Return the value of a field that a file does not have."""
    initial = own.initial_default
    if initial is None:
        if own.required:
            raise UnreadableTableError(f"has a data file without the required column `{one_line(own.name, 60)}`")
        return f"CAST(NULL AS {duckdb_type(own.field_type)})"
    return literal(initial, duckdb_type(own.field_type))


def literal(value: Any, native: str) -> str:
    """Return a value of a partition or a default as SQL of a DuckDB type. Raises `UnreadableTableError`.

    Times are texts in ISO format, or counts since 1970 of the unit of their type.
    """
    if value is None:
        return f"CAST(NULL AS {native})"
    if isinstance(value, int) and not isinstance(value, bool) and native in _EPOCHS:
        return f"CAST({_EPOCHS[native].format(value)} AS {native})"
    if native == "BLOB":
        return f"unhex('{value.hex() if isinstance(value, bytes) else value}')"
    if not isinstance(value, str | int | float | Decimal | UUID | date | time):
        raise UnreadableTableError(f"has a value of the type {type(value).__name__} for a column of the type {native}")
    return f"CAST({text(str(value).lower() if isinstance(value, bool) else str(value))} AS {native})"


def _converted(kind: Any, stored: FileField, sql: str, depth: int) -> tuple[str, str]:
    """Return the type as which DuckDB reads a field, and the SQL of its value from `sql`."""
    name = str(kind)
    if kind.is_struct:
        return _struct(kind, stored, sql, depth)
    if name.startswith("list<"):
        element = _inside(stored, 1)[0]
        item = f"x{depth}"
        native, value = _converted(kind.element_type, _checked(element, kind.element_id), item, depth + 1)
        return f"{native}[]", sql if value == item else f"list_transform({sql}, lambda {item}: {value})"
    if name.startswith("map<"):
        key, item_field = _inside(stored, 2)
        item = f"x{depth}"
        key_type, key_value = _converted(kind.key_type, _checked(key, kind.key_id), f"{item}.key", depth + 1)
        own_type, own_value = _converted(
            kind.value_type, _checked(item_field, kind.value_id), f"{item}.value", depth + 1
        )
        native = f"MAP({key_type}, {own_type})"
        if (key_value, own_value) == (f"{item}.key", f"{item}.value"):
            return native, sql
        pairs = f"lambda {item}: struct_pack(key := {key_value}, value := {own_value})"
        return native, f"map_from_entries(list_transform(map_entries({sql}), {pairs}))"
    wanted = duckdb_type(kind)
    if stored.children or not _converts(stored.native, wanted):
        if stored.native == "BLOB" and wanted == "VARCHAR":
            return "BLOB", f"decode({sql})"
        if stored.native == "BLOB" and wanted == "UUID":
            return "BLOB", f"CAST(lower(hex({sql})) AS UUID)"
        raise UnreadableTableError(
            f"has a data file with the type {one_line(stored.native, 40)} for a column of the type {wanted}"
        )
    return wanted, sql


def _converts(stored: str, wanted: str) -> bool:
    if stored == wanted or stored in _WIDER.get(wanted, ()):
        return True
    if stored.startswith("DECIMAL(") and wanted.startswith("DECIMAL("):
        (width, scale), (own_width, own_scale) = (each[8:-1].split(",") for each in (stored, wanted))
        return int(scale) == int(own_scale) and int(width) <= int(own_width)
    return False


def _struct(kind: Any, stored: FileField, sql: str, depth: int) -> tuple[str, str]:
    if not stored.children or stored.children[0].repeated:
        raise UnreadableTableError(f"has a data file whose field `{one_line(stored.name, 60)}` is not a struct")
    by_id = {each.id: each for each in stored.children if each.id is not None}
    parts, values, same = [], [], True
    for own in kind.fields:
        here = by_id.get(own.field_id)
        if here is None:
            values.append((own.name, _missing(own)))
            same = False
            continue
        inner = f"{sql}.{DIALECT.quote(here.name)}"
        native, value = _converted(own.field_type, here, inner, depth)
        parts.append((here.name, native))
        values.append((own.name, value))
        same = same and here.name == own.name and value == inner
    if not parts:
        raise UnreadableTableError(f"has a data file with none of the fields of `{one_line(stored.name, 60)}`")
    if same:
        return struct_type(parts), sql
    packed = ", ".join(f"{DIALECT.quote(name)} := {value}" for name, value in values)
    return struct_type(parts), f"CASE WHEN {sql} IS NULL THEN NULL ELSE struct_pack({packed}) END"


def _inside(stored: FileField, count: int) -> list[FileField]:
    """Return the elements of a list or a map, which are below a repeated group."""
    if len(stored.children) == 1 and stored.children[0].repeated and len(stored.children[0].children) == count:
        return stored.children[0].children
    raise UnreadableTableError(f"has a data file with an unusual form of the list `{one_line(stored.name, 60)}`")


def _checked(stored: FileField, number: int) -> FileField:
    if stored.id is not None and stored.id != number:
        raise UnreadableTableError(f"has a data file whose field `{one_line(stored.name, 60)}` belongs to another list")
    return stored
