"""Lakes that tests write with the real libraries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortOrder

from ktx_cli.testing.warehouse_contract import ContractTable

_ARROW = {
    "id": pa.int32(),
    "text": pa.string(),
    "amount": pa.decimal128(10, 2),
    "ratio": pa.float64(),
    "date": pa.date32(),
    "moment": pa.timestamp("us"),
    "flag": pa.bool_(),
}


def arrow_table(table: ContractTable) -> pa.Table:
    """Return a table of the contract for Arrow."""
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in table.columns.items()])
    return rows_of(schema, table.rows)


def rows_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


class IcebergLake:
    """Iceberg tables below a folder, written through a catalog in SQLite beside it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.database = folder.with_name(f"{folder.name}.db")
        self.uri = f"sqlite:///{self.database}"
        self.catalog = SqlCatalog("lake", uri=self.uri, warehouse=f"file://{folder}")

    def create(
        self,
        name: str,
        schema: Schema | pa.Schema,
        spec: PartitionSpec | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """Create a table; its folder is that of its namespace and name."""
        namespace, _, own = name.rpartition(".")
        if namespace:
            self.catalog.create_namespace_if_not_exists(namespace)
        return self.catalog.create_table(
            (*namespace.split("."), own),
            schema,
            f"file://{self.folder}/{namespace.replace('.', '/')}/{own}",
            spec or PartitionSpec(),
            SortOrder(),
            dict(properties or {}),
        )

    def append(self, name: str, rows: pa.Table) -> Table:
        """Append rows to a table, which is created if it is missing."""
        namespace, _, own = name.rpartition(".")
        key = (*namespace.split("."), own)
        table = self.catalog.load_table(key) if self.catalog.table_exists(key) else self.create(name, rows.schema)
        table.append(rows)
        return table
