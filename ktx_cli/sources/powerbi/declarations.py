"""Keys and relationships of Power BI models as declarations, which scans read before they infer keys and joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.semantic import PowerBiModel, Report, TableOrigin, UnresolvedError, read_models, table_origin

TOOL: Final = "powerbi"


def declarations_of(texts: Mapping[str, str]) -> Declarations:
    """Return the keys of tables, and the active relationships between them.

    Power BI requires unique values on the side of a relationship with one row, so its column is a key. An inactive
    relationship is a join with an alias, which the importer writes. The IDs of the tables are the path of the model and
    the name of the table.
    """
    tables: dict[str, DeclaredTable] = {}
    joins: dict[DeclaredJoin, None] = {}
    for model in read_models(texts, Report()):
        origins = dict(_origins(model))
        keys: dict[str, dict[tuple[str, ...], None]] = {name: {} for name in origins}
        for join, parent, is_active in _joins(model, origins):
            keys[parent][join.parent_columns] = None
            if is_active:
                joins[join] = None
        for name, origin in origins.items():
            *outer, table = origin.parts
            schema = outer[-1] if outer else ""
            tables[f"{model.path}:{name}"] = DeclaredTable(table, schema, keys=tuple(keys[name]))
    return Declarations(TOOL, tables, tuple(joins))


def _origins(model: PowerBiModel) -> Iterator[tuple[str, TableOrigin]]:
    """Yield the tables that are tables of a database."""
    for name, table in model.tables.items():
        try:
            origin = table_origin(table, model)
        except UnresolvedError:  # The projection reports it.
            continue
        if origin.parts:
            yield name, origin


def _joins(model: PowerBiModel, origins: Mapping[str, TableOrigin]) -> Iterator[tuple[DeclaredJoin, str, bool]]:
    """Yield the relationships between two tables, each with the name of the parent and whether it is active."""
    for each in model.relationships:
        own, other = (_column(model, origins, side) for side in (each.own, each.other))
        if own is not None and other is not None and not (each.from_many and each.to_many) and own != other:
            child, parent = (other, own) if each.to_many else (own, other)
            join = DeclaredJoin(f"{model.path}:{child[0]}", (child[1],), f"{model.path}:{parent[0]}", (parent[1],))
            yield join, parent[0], each.active


def _column(model: PowerBiModel, origins: Mapping[str, TableOrigin], side: tuple[str, str]) -> tuple[str, str] | None:
    """Return the name of a table and the column of the database, or None for a computed column."""
    table = model.table(side[0])
    column = table.column(side[1]) if table is not None else None
    if table is None or column is None or column.expression is not None or table.name not in origins:
        return None
    found = origins[table.name].column(column.source or column.name)
    return None if found is None else (table.name, found)
