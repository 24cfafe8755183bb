"""What the database alone says about every source: the generated part of the manifest shards.

Format: `tables: {NAME: {table, descriptions, columns: [{name, type, pk, nullable, descriptions}], joins: [...]}}`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from ktx_cli.connectors.port import Column, ForeignKey, Table, TableRef
from ktx_cli.context.scan.names import physical_name, quoted

Entry = dict[str, Any]
"""One source of a shard, as plain data."""


def entries(tables: Iterable[Table], names: Mapping[TableRef, str]) -> dict[TableRef, Entry]:
    """Return the generated entry of every table; joins are written on both tables of a foreign key."""
    by_ref = {table.ref: table for table in tables}
    joins = _joins(by_ref, names)
    return {ref: _entry(table, joins.get(ref, [])) for ref, table in by_ref.items()}


def _entry(table: Table, joins: list[dict[str, str]]) -> Entry:
    entry: Entry = {"table": physical_name(table.ref)}
    if table.comment:
        entry["descriptions"] = {"db": table.comment}
    key = set(table.primary_key)
    entry["columns"] = [_column(column, is_key=column.name in key) for column in table.columns]
    if joins:
        entry["joins"] = joins
    return entry


def _column(column: Column, *, is_key: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": column.name, "type": column.type.value}
    if is_key:
        fields["pk"] = True
    if not column.nullable:
        fields["nullable"] = False
    if column.comment:
        fields["descriptions"] = {"db": column.comment}
    return fields


def _joins(tables: Mapping[TableRef, Table], names: Mapping[TableRef, str]) -> dict[TableRef, list[dict[str, str]]]:
    found: dict[TableRef, list[dict[str, str]]] = defaultdict(list)
    for ref in sorted(tables, key=lambda ref: (ref.schema or "", ref.name)):
        for key in tables[ref].foreign_keys:
            if not _joinable(key, tables):
                continue
            one_to_one = _is_unique(tables[ref], key.columns)
            forward = "one_to_one" if one_to_one else "many_to_one"
            backward = "one_to_one" if one_to_one else "one_to_many"
            _add(found[ref], names[key.target], key.columns, key.target_columns, forward)
            if key.target != ref:
                _add(found[key.target], names[ref], key.target_columns, key.columns, backward)
    return found


def _add(joins: list[dict[str, str]], to: str, own: tuple[str, ...], other: tuple[str, ...], relationship: str) -> None:
    on = " AND ".join(
        f"{quoted(mine)} = {quoted(to)}.{quoted(theirs)}" for mine, theirs in zip(own, other, strict=True)
    )
    join = {"to": to, "on": on, "relationship": relationship, "source": "formal"}
    if join not in joins:
        joins.append(join)


def _joinable(key: ForeignKey, tables: Mapping[TableRef, Table]) -> bool:
    """Say whether both ends are in scope, with all their columns."""
    target = tables.get(key.target)
    if target is None or not key.columns or len(key.columns) != len(key.target_columns):
        return False
    return set(key.target_columns) <= {column.name for column in target.columns}


def _is_unique(table: Table, columns: tuple[str, ...]) -> bool:
    wanted = set(columns)
    keys = [set(table.primary_key), *(set(key.columns) for key in table.unique_keys)]
    return any(key and key <= wanted for key in keys)
