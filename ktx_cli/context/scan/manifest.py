"""What the database and its rows say about every source: the generated part of the manifest shards.

Format: `tables: {NAME: {table, descriptions, columns: [{name, type, pk, nullable, descriptions}], joins: [...]}}`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ktx_cli.connectors.port import Column, ForeignKey, Table, TableRef
from ktx_cli.context.scan.knowledge import EdgeId, Knowledge, edge_id
from ktx_cli.context.scan.names import physical_name, quoted
from ktx_cli.context.scan.relationships.model import Cardinality, Edge

Entry = dict[str, Any]
"""One source of a shard, as plain data."""


def entries(
    tables: Iterable[Table],
    names: Mapping[TableRef, str],
    knowledge: Knowledge | None = None,
    manual: Sequence[Edge] = (),
) -> dict[TableRef, Entry]:
    """Return the generated entry of every table; joins are written on both tables of a reference.

    `manual`: edges that a person accepted and whose joins are not in the files.
    """
    by_ref = {table.ref: table for table in tables}
    known = knowledge or Knowledge()
    joins = _joins(by_ref, names)
    found = {edge_id(edge): edge for edge in (*known.accepted(), *manual)}
    _add_found(joins, found.values(), by_ref, names, set(map(edge_id, manual)))
    return {ref: _entry(table, known.key_of(table), joins.get(ref, [])) for ref, table in by_ref.items()}


def _entry(table: Table, primary_key: tuple[str, ...], joins: list[dict[str, str]]) -> Entry:
    entry: Entry = {"table": physical_name(table.ref)}
    if table.comment:
        entry["descriptions"] = {"db": table.comment}
    key = set(primary_key)
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
            if not is_joinable(key, tables):
                continue
            one_to_one = is_unique(tables[ref], key.columns)
            forward = "one_to_one" if one_to_one else "many_to_one"
            backward = "one_to_one" if one_to_one else "one_to_many"
            _add(found[ref], names[key.target], key.columns, key.target_columns, forward)
            if key.target != ref:
                _add(found[key.target], names[ref], key.target_columns, key.columns, backward)
    return found


def _add_found(
    joins: dict[TableRef, list[dict[str, str]]],
    edges: Iterable[Edge],
    tables: Mapping[TableRef, Table],
    names: Mapping[TableRef, str],
    by_hand: Collection[EdgeId],
) -> None:
    """Add the joins nobody declared; `by_hand`: the edges whose joins are a person's."""
    for edge in edges:
        if edge.child not in tables or edge.parent not in tables:
            continue
        source = "manual" if edge_id(edge) in by_hand else "inferred"
        one_to_one = edge.cardinality is Cardinality.ONE_TO_ONE
        to, back = names[edge.parent], names[edge.child]
        own, other = edge.child_columns, edge.parent_columns
        _add(joins[edge.child], to, own, other, edge.cardinality.value, source, _condition(edge, None))
        if edge.parent != edge.child:
            backward = "one_to_one" if one_to_one else "one_to_many"
            _add(joins[edge.parent], back, other, own, backward, source, _condition(edge, back))


def _condition(edge: Edge, source: str | None) -> str:
    """Return what makes a column that refers to several tables refer to this one; `source`: where the column is."""
    if edge.condition is None:
        return ""
    column, value = edge.condition
    literal = "'" + str(value).replace("'", "''") + "'" if isinstance(value, str) else str(value)
    place = "" if source is None else f"{quoted(source)}."
    return f" AND {place}{quoted(column)} = {literal}"


def _add(
    joins: list[dict[str, str]],
    to: str,
    own: tuple[str, ...],
    other: tuple[str, ...],
    relationship: str,
    source: str = "formal",
    condition: str = "",
) -> None:
    on = " AND ".join(
        f"{quoted(mine)} = {quoted(to)}.{quoted(theirs)}" for mine, theirs in zip(own, other, strict=True)
    )
    on += condition
    if all((join["to"], join["on"]) != (to, on) for join in joins):
        joins.append({"to": to, "on": on, "relationship": relationship, "source": source})


def is_joinable(key: ForeignKey, tables: Mapping[TableRef, Table]) -> bool:
    """Say whether both ends are in scope, with all their columns."""
    target = tables.get(key.target)
    if target is None or not key.columns or len(key.columns) != len(key.target_columns):
        return False
    return set(key.target_columns) <= {column.name for column in target.columns}


def is_unique(table: Table, columns: tuple[str, ...]) -> bool:
    """Say whether a declared key makes these columns unique."""
    wanted = set(columns)
    keys = [set(table.primary_key), *(set(key.columns) for key in table.unique_keys)]
    return any(key and key <= wanted for key in keys)
