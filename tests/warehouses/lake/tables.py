"""Lakes that tests write with the real libraries."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortOrder
from pyiceberg.typedef import Record
from pyroaring import BitMap

from ktx_cli.testing.warehouse_contract import ContractTable

_NUMBERS = itertools.count(1)
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


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of files with deletes, which pyiceberg only reads."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def data_files(table: Table) -> list[str]:
    """Return the locations of a table's data files, oldest first."""
    files = table.inspect.files()
    return [str(each["file_path"]) for each in files.to_pylist() if each["content"] == 0]


def delete_positions(table: Table, positions: Mapping[str, Sequence[int]]) -> None:
    """Delete rows of data files with a file of positions."""
    rows = [(path, each) for path, found in positions.items() for each in found]
    schema = pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    location = f"{table.location()}/data/deletes-{len(rows)}-{next(_NUMBERS)}.parquet"
    pq.write_table(rows_of(schema, rows), location.removeprefix("file://"))
    _add_deletes(table, location, FileFormat.PARQUET, len(rows))


def delete_by_value(table: Table, rows: pa.Table, field_ids: Sequence[int]) -> None:
    """Delete the rows that equal others in some fields."""
    location = f"{table.location()}/data/equal-{next(_NUMBERS)}.parquet"
    pq.write_table(rows, location.removeprefix("file://"))
    _add_deletes(table, location, FileFormat.PARQUET, len(rows), equal=list(field_ids))


def delete_by_vector(table: Table, positions: Mapping[str, Sequence[int]]) -> None:
    """Delete rows of data files with deletion vectors in one file."""
    body, blobs = b"PFA1", []
    for path, found in positions.items():
        bitmap = BitMap(found).serialize()
        vector = bytes.fromhex("d1d33964") + (1).to_bytes(8, "little") + (0).to_bytes(4, "little") + bitmap
        blob = len(vector).to_bytes(4, "big") + vector + zlib.crc32(vector).to_bytes(4, "big")
        own = {"referenced-data-file": path, "cardinality": str(len(found))}
        blobs.append({
            "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1,
            "offset": len(body), "length": len(blob), "properties": own,
        })  # fmt: skip
        body += blob
    footer = json.dumps({"blobs": blobs}).encode()
    body += b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"
    location = f"{table.location()}/data/vectors-{next(_NUMBERS)}.puffin"
    Path(location.removeprefix("file://")).write_bytes(body)
    _add_deletes(table, location, FileFormat.PUFFIN, sum(map(len, positions.values())))


def _add_deletes(table: Table, location: str, kind: FileFormat, count: int, equal: list[int] | None = None) -> None:
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equal else DataFileContent.POSITION_DELETES,
        file_path=location,
        file_format=kind,
        partition=Record(),
        record_count=count,
        file_size_in_bytes=Path(location.removeprefix("file://")).stat().st_size,
        equality_ids=equal,
    )
    file.spec_id = 0
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
        made: Any = update
        made.new_manifest_writer = lambda spec: _DeletesWriter(
            spec, table.schema(), made.new_manifest_output(), made.snapshot_id, "null"
        )
        update.append_data_file(file)
    table.refresh()
