"""The snapshot of a database: a JSON file for each table, and a list of these files.

Next to it is the record of columns that store times, numbers, booleans or JSON as another type.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import ConfigError, KtxError, file_stem, plural, yaml
from ktx_cli.project import DATABASE_SOURCE, Layout, StateDatabase
from ktx_cli.warehouses import (
    Column,
    ForeignKey,
    Index,
    SemanticType,
    StoredAs,
    Table,
    TableKind,
    TableRef,
    UniqueKey,
    ref_order,
)

if TYPE_CHECKING:
    from ktx_cli.semantic import Entry

MANIFEST = "manifest.yaml"
FORMAT = 1
_COLUMN_FIELDS = ("name", "native_type", "type", "nullable", "comment", "default", "generated")


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A table's file: its path in the snapshot folder, its bytes and their SHA-256."""

    path: str
    content: bytes
    sha256: str


def snapshot_path(connection: str) -> str:
    """Return the path of the manifest of a connection's last snapshot."""
    return f"{Layout.raw_path(connection, DATABASE_SOURCE)}/{MANIFEST}"


def table_file(table: Table) -> SnapshotFile:
    """Return the snapshot file of a table."""
    content = _text(_to_json(table)).encode("utf-8", "surrogatepass")
    return SnapshotFile(table_path(table.ref), content, hashlib.sha256(content).hexdigest())


def table_path(ref: TableRef) -> str:
    """Return the path of a table's file in the snapshot's folder."""
    stem = file_stem(ref.name)
    return f"tables/{stem}.json" if ref.schema is None else f"tables/{file_stem(ref.schema)}/{stem}.json"


def manifest_text(connection: str, driver: str, hashes: Mapping[str, str]) -> str:
    """Return `manifest.yaml`: every file of the snapshot with its sha256 and status, sorted by path."""
    files = [{"path": path, "sha256": hashes[path], "status": "done"} for path in sorted(hashes)]
    return yaml.dump({"format": FORMAT, "connection": connection, "driver": driver, "files": files})


def manifest_hashes(text: bytes, where: str) -> dict[str, str]:
    """Return path -> sha256 of the files that a manifest marks as done. Raises `ConfigError` for an invalid one."""
    return read_manifest(text, where)[1]


def read_manifest(text: bytes, where: str) -> tuple[str, dict[str, str]]:
    """Return the driver in a manifest, and what `manifest_hashes` returns. Raises `ConfigError` for an invalid one."""
    document = yaml.load(text, where=where)
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list):
        raise ConfigError(f"{where} lists no files", hint="restore the file from git; the next scan rewrites it")
    return str(document.get("driver")), {
        str(entry["path"]): str(entry["sha256"])
        for entry in files
        if isinstance(entry, dict) and entry.get("status") == "done" and "path" in entry and "sha256" in entry
    }


def read_table(content: bytes, where: str) -> Table:
    """Return the table in a snapshot file. Raises `KtxError` for a damaged file."""
    try:
        return _from_json(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"the snapshot file {where} is damaged ({type(error).__name__})"
        raise KtxError(message, hint="restore the file from git; the next scan rewrites it") from error


def _text(document: dict[str, Any]) -> str:
    """Return JSON with one line per list item, for readable diffs.

    The standard encoder's `indent` takes ten times as long.
    """
    encode = json.JSONEncoder(ensure_ascii=False).encode
    fields = []
    for key, value in document.items():
        shown = "[\n  " + ",\n  ".join(map(encode, value)) + "\n ]" if isinstance(value, list) else encode(value)
        fields.append(f" {encode(key)}: {shown}")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _to_json(table: Table) -> dict[str, Any]:
    return _filled(
        schema=table.ref.schema,
        name=table.ref.name,
        kind=table.kind.value,
        comment=table.comment,
        columns=[_column_to_json(column) for column in table.columns],
        primary_key=list(table.primary_key),
        foreign_keys=[_key_to_json(key) for key in table.foreign_keys],
        unique_keys=[_filled(name=key.name, columns=list(key.columns)) for key in table.unique_keys],
        indexes=[_filled(name=index.name, columns=list(index.columns)) for index in table.indexes],
        view_sql=table.view_sql,
    )


def _column_to_json(column: Column) -> dict[str, Any]:
    fields = {name: getattr(column, name) for name in _COLUMN_FIELDS}
    own = {"type": column.type.value, "generated": column.generated or None, "values": list(column.values)}
    return _filled(**fields | own)


def _key_to_json(key: ForeignKey) -> dict[str, Any]:
    target = {"target_schema": key.target.schema, "target": key.target.name, "target_columns": list(key.target_columns)}
    return _filled(name=key.name, columns=list(key.columns), **target)


def _filled(**fields: Any) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value != []}


def _from_json(document: dict[str, Any]) -> Table:
    return Table(
        ref=TableRef(document.get("schema"), document["name"]),
        kind=TableKind(document["kind"]),
        comment=document.get("comment"),
        columns=tuple(map(_column_from_json, document.get("columns", ()))),
        primary_key=tuple(document.get("primary_key", ())),
        foreign_keys=tuple(map(_key_from_json, document.get("foreign_keys", ()))),
        unique_keys=tuple(UniqueKey(tuple(key["columns"]), key.get("name")) for key in document.get("unique_keys", ())),
        indexes=tuple(Index(tuple(index["columns"]), index.get("name")) for index in document.get("indexes", ())),
        view_sql=document.get("view_sql"),
    )


def _column_from_json(fields: dict[str, Any]) -> Column:
    required = (fields["name"], fields["native_type"], SemanticType(fields["type"]), fields["nullable"])
    rest = (fields.get("comment"), fields.get("default"), fields.get("generated", False))
    return Column(*required, *rest, tuple(fields.get("values", ())))


def _key_from_json(fields: dict[str, Any]) -> ForeignKey:
    target = TableRef(fields.get("target_schema"), fields["target"])
    return ForeignKey(tuple(fields["columns"]), target, tuple(fields["target_columns"]), fields.get("name"))


@dataclass(frozen=True, slots=True)
class LastScan:
    """The facts about a connection's last scan that `ktx status` shows."""

    connection: str
    run_id: str
    finished: str
    tables: int
    columns: int


def last_scans(database: StateDatabase) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}


STORED_COLUMNS: Final = "stored_columns.json"
STEADY: Final = 0.2
"""The relative change of the number of values below which the evidence of an earlier scan is kept."""


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column whose `values`, without NULL and blanks, look like another type; `misfits` of them do not.

    `stored_as` is None for dates whose order of day and month is unclear. `every_row`: whether all rows of the table
    were checked, rather than a sample.
    """

    name: str
    stored_as: StoredAs | None
    values: int
    misfits: int = 0
    every_row: bool = True

    @property
    def converts(self) -> bool:
        """Whether every value can be converted, so that the manifest gives the column its semantic type."""
        return self.stored_as is not None and not self.misfits

    @property
    def evidence(self) -> str:
        """What the scan saw, in one sentence without values of rows."""
        kind = "" if self.every_row else "sampled "
        counted = plural(self.values, f"{kind}value")
        if self.stored_as is None:
            return f"{counted}: dates whose order of day and month is unclear."
        if not self.misfits:
            return f"{counted}, all of them {self.stored_as.noun}."
        return f"{counted}, {self.misfits:,} of them not {self.stored_as.noun}."


StoredColumns = Mapping[TableRef, tuple[StoredColumn, ...]]
"""The stored columns by table, without tables that have none."""


def restricted_columns(stored: StoredColumns, tables: Iterable[Table]) -> dict[TableRef, tuple[StoredColumn, ...]]:
    """Return the stored columns that still exist, with the same type in the database."""
    found = {}
    for table in tables:
        types = {column.name: column.type for column in table.columns}
        columns = stored.get(table.ref, ())
        kept = tuple(
            each
            for each in columns
            if each.name in types and (each.stored_as is None or types[each.name] is each.stored_as.native)
        )
        if kept:
            found[table.ref] = kept
    return found


def carried_columns(found: StoredColumns, earlier: StoredColumns) -> dict[TableRef, tuple[StoredColumn, ...]]:
    """Return the stored columns of a scan, with the evidence of an earlier one where it has hardly changed.

    A nightly scan of a growing table then changes no file.
    """
    known = {(ref, each.name): each for ref, columns in earlier.items() for each in columns}
    return {
        ref: tuple(_carried(each, known.get((ref, each.name))) for each in columns) for ref, columns in found.items()
    }


def _carried(column: StoredColumn, earlier: StoredColumn | None) -> StoredColumn:
    if earlier is None or (earlier.stored_as, earlier.every_row) != (column.stored_as, column.every_row):
        return column
    same = earlier.misfits == column.misfits
    is_near = abs(column.values - earlier.values) <= STEADY * max(column.values, earlier.values)
    return earlier if same and is_near else column


def with_stored_columns(entry: Entry, stored: tuple[StoredColumn, ...]) -> Entry:
    """Return a generated manifest entry in which stored columns have their semantic type and `stored_as`."""
    forms = {each.name: each.stored_as for each in stored if each.converts}
    return {**entry, "columns": [_typed(column, forms.get(column["name"])) for column in entry["columns"]]}


def _typed(column: dict[str, Any], stored_as: StoredAs | None) -> dict[str, Any]:
    if stored_as is None:
        return column
    fields: dict[str, Any] = {"name": column["name"], "type": stored_as.type.value, "stored_as": stored_as.value}
    if stored_as is StoredAs.ISO_DATE:
        fields["natural_granularity"] = "day"
    return {**fields, **{key: value for key, value in column.items() if key not in fields}}


def stored_columns_bytes(stored: StoredColumns) -> bytes:
    """Return the file, with one line per column, sorted by table."""
    encode = json.JSONEncoder(ensure_ascii=False).encode
    lines = [
        encode({"schema": ref.schema, "table": ref.name, **_stored_to_json(each)})
        for ref in sorted(stored, key=ref_order)
        for each in stored[ref]
    ]
    listed = "[\n" + ",\n".join(f"  {line}" for line in lines) + "\n ]" if lines else "[]"
    return f'{{\n "format": {FORMAT},\n "columns": {listed}\n}}\n'.encode("utf-8", "surrogatepass")


def _stored_to_json(column: StoredColumn) -> dict[str, Any]:
    counts = {"values": column.values, "misfits": column.misfits, "every_row": column.every_row}
    return {"column": column.name, "stored_as": column.stored_as, **counts, "evidence": column.evidence}


def read_stored_columns(content: bytes, where: str) -> dict[TableRef, tuple[StoredColumn, ...]]:
    """Return the stored columns in a file. Raises `KtxError` if the file is damaged or was written by a newer ktx."""
    found: dict[TableRef, tuple[StoredColumn, ...]] = {}
    try:
        document = json.loads(content)
        if document["format"] == FORMAT:
            for each in document["columns"]:
                ref = TableRef(each["schema"], each["table"])
                found[ref] = (*found.get(ref, ()), _stored_from_json(each))
            return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"the record {where} is damaged ({type(error).__name__})"
        raise KtxError(
            message, hint="restore it from git, or delete it and let the next scan write it again"
        ) from error
    message = f"{where} has format {document['format']!r}, but this ktx reads format {FORMAT}"
    raise KtxError(message, hint="update ktx, or restore the file from git")


def _stored_from_json(fields: dict[str, Any]) -> StoredColumn:
    stored_as = None if fields["stored_as"] is None else StoredAs(fields["stored_as"])
    return StoredColumn(
        str(fields["column"]), stored_as, int(fields["values"]), int(fields["misfits"]), bool(fields["every_row"])
    )
