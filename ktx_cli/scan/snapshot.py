"""The snapshot of a database: a JSON file for each table, and a list of these files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import ConfigError, KtxError, file_stem, yaml
from ktx_cli.project import DATABASE_SOURCE, Layout
from ktx_cli.warehouses import Column, ForeignKey, Index, SemanticType, Table, TableKind, TableRef, UniqueKey

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
    document = yaml.load(text, where=where)
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(files, list):
        raise ConfigError(f"{where} lists no files", hint="restore the file from git; the next scan rewrites it")
    return {
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


def last_scans(database: sqlite3.Connection) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}
