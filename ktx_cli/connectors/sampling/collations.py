"""Which columns tell `a` from `A`, on servers that take them for equal unless a column says otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from ktx_cli.connectors.identifiers import value_list
from ktx_cli.connectors.port import Connector, Table, TableRef
from ktx_cli.core.errors import SourceError

_EXACT: Final = {
    "mysql": "COLLATION_NAME REGEXP '_(bin|cs)(_|$)'",
    "tsql": "(COLLATION_NAME LIKE '%[_]CS[_]%' OR COLLATION_NAME LIKE '%[_]BIN%')",
}


def exact_texts(connector: Connector, tables: Sequence[Table]) -> tuple[dict[TableRef, frozenset[str]], int]:
    """Return table -> its columns that tell capital letters from small ones, and how many statements it took.

    Nothing for dialects whose texts always do, and where a server does not say. Raises `SourceError` when it is gone.
    """
    condition = _EXACT.get(connector.dialect)
    schemas = sorted({table.ref.schema for table in tables if table.ref.schema is not None})
    if condition is None or not schemas:
        return {}, 0
    statement = (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS "
        f"WHERE {condition} AND TABLE_SCHEMA IN ({value_list(schemas, connector.dialect)})"
    )
    try:
        rows = connector.query(statement, max_rows=1_000_000).rows
    except SourceError as error:
        if error.code == "connection":
            raise
        return {}, 1
    found: dict[TableRef, set[str]] = defaultdict(set)
    for schema, table, column in rows:
        found[TableRef(str(schema), str(table))].add(str(column))
    return {ref: frozenset(names) for ref, names in found.items()}, 1
