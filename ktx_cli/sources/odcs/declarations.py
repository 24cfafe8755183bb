"""Keys and relationships of data contracts as declarations, which scans read before they infer keys and joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable
from ktx_cli.semantic import Report
from ktx_cli.sources.odcs.contracts import Contract, Object, read_contracts, relationships_of

TOOL: Final = "odcs"


def declarations_of(texts: Mapping[str, str]) -> Declarations:
    """Return the keys of tables, their columns without NULL, and the foreign keys between them.

    The ID of a table is the path of its contract, its name there and its schema. A contract with several servers
    declares its tables in the schema of each.
    """
    contracts = read_contracts(texts, Report())
    tables: dict[str, DeclaredTable] = {}
    joins: dict[DeclaredJoin, None] = {}
    for contract in contracts:
        for each in contract.objects:
            for schema, id in _ids(contract, each):
                tables.setdefault(id, _table(each, schema))
    for contract in contracts:
        for found in relationships_of(contract, contracts, Report()):
            parents = dict(_ids(found.contract, found.parent))
            for schema, child in _ids(contract, found.child):
                parent = parents.get(schema) or next(iter(parents.values()))
                if (child, found.child_columns) != (parent, found.parent_columns):
                    joins[DeclaredJoin(child, found.child_columns, parent, found.parent_columns)] = None
    return Declarations(TOOL, tables, tuple(joins))


def _ids(contract: Contract, table: Object) -> Iterator[tuple[str, str]]:
    """Yield the schemas that a table may be in, each with the ID of the table there."""
    for schema in table.schemas:
        yield schema, f"{contract.path}:{table.name}" + (f"@{schema}" if schema else "")


def _table(table: Object, schema: str) -> DeclaredTable:
    primary = tuple(each.column for each in table.key)
    unique = [(each.column,) for each in table.properties if each.is_unique]
    filled = (each.column for each in table.properties if each.is_filled or each.is_key)
    keys = dict.fromkeys([*([primary] if primary else []), *unique])
    return DeclaredTable(table.names[0].name, schema, keys=tuple(keys), filled=tuple(dict.fromkeys(filled)))
