"""Read Delta Lake tables of a folder or an object store: deltalake reads the log, and DuckDB the files."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from ktx_cli.core import Command, ConfigError, one_line
from ktx_cli.warehouses.base import source_path
from ktx_cli.warehouses.delta.log import LOG, require_own_vectors, require_plain_log
from ktx_cli.warehouses.delta.schema import constant, duckdb_type, fields, grouped, read_column
from ktx_cli.warehouses.lake import storage
from ktx_cli.warehouses.lake.folders import HOME, find_tables, require_folder, require_tables
from ktx_cli.warehouses.lake.session import LakeConnector, library_message
from ktx_cli.warehouses.lake.settings import secret_values, texts
from ktx_cli.warehouses.lake.tables import (
    MOST_DELETED,
    MOST_GROUPS,
    Deletions,
    FileGroup,
    LakeTable,
    UnreadableTableError,
    column,
    require_distinct,
)
from ktx_cli.warehouses.port import Column, ConnectionSpec, ObjectProblem, TableRef
from ktx_cli.warehouses.registry import is_installed

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURES: Final = frozenset({
    "columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck",
})  # fmt: skip
"""The reader features of tables that ktx reads exactly."""

_IMPATIENT: Final = {"connect_timeout": "5s", "timeout": "20s", "max_retries": "2", "retry_timeout": "20s"}
"""Options of deltalake, which otherwise tries for minutes to reach an object store."""

_TRIED: Final = 3
"""The maximum number of tables in a store that a test tries to open before it fails."""

_READER_VERSION: Final = 3
_MAPPING: Final = "delta.columnMapping.mode"


class DeltaConnector(LakeConnector):
    """Delta tables in a folder or an object store; a folder of tables is a schema."""

    def __init__(self, spec: ConnectionSpec) -> None:
        self.library = f"deltalake {version('deltalake')}"
        self._open_tables: dict[TableRef, DeltaTable] = {}
        self._reading = threading.Lock()
        self._folders: dict[TableRef, Path] = {}
        self._uris: dict[TableRef, str] = {}
        self._root: Path | None = None
        self._spec = spec
        self._options = {**_IMPATIENT, **texts(spec, "storage_options"), **texts(spec, "storage_secrets")}
        given = str(spec.options.get("path") or "")
        if "://" in given and not given.startswith("file:"):
            if not is_installed("fsspec"):
                hint = Command("install", "fsspec", program="pip")
                raise ConfigError(f"connection `{spec.id}`: an object store needs the package fsspec", hint=hint)
            self._uri = given.rstrip("/")
            place = self._uri
        else:
            self._root = source_path(spec)
            require_folder(spec, self._root)
            place = str(self._root)
        super().__init__(spec, place, secret_values(spec, "storage_secrets"))

    @property
    def is_remote(self) -> bool:
        """See `LakeConnector`."""
        return self._root is None

    def _list(self) -> tuple[list[TableRef], list[ObjectProblem]]:
        if self._root is not None:
            self._folders, problems = find_tables(self._root, lambda folder: (folder / LOG).is_dir())
            return list(self._folders), problems
        named = self._spec.options.get("tables")
        if not named:
            self._uris = {TableRef(HOME, urlsplit(self._uri).path.rstrip("/").rpartition("/")[2] or "table"): self._uri}
            return list(self._uris), []
        self._uris = {}
        for each in named:
            parts = [part for part in each.split("/") if part]
            if not parts or ".." in parts:
                raise ConfigError(
                    f"connection `{self.id}`: `tables` contains {one_line(each, 60)}, which is not a folder"
                )
            self._uris[TableRef(".".join(parts[:-1]) or HOME, parts[-1])] = "/".join([self._uri, *parts])
        return list(self._uris), []

    def _require_tables(self) -> None:
        if self._root is not None:
            require_tables(self._spec, self._root, "delta")

    def _require_reached(self, refs: Sequence[TableRef]) -> None:
        problems = []
        for ref in refs[:_TRIED] if self._root is None else ():
            try:
                self._within(lambda ref=ref: self._table(ref))  # type: ignore[misc]
            except Exception as error:  # noqa: BLE001 (the libraries of stores raise whatever they meet)
                problems.append(f"cannot open the Delta table {self._uris[ref]}: {library_message(error)}")
            else:
                return
        if problems:
            hint = "check the address, and the region, endpoint and keys in `storage_options` and `storage_secrets`"
            raise self.failure(self.clean(problems[0]), hint=hint)

    def _table(self, ref: TableRef) -> DeltaTable:
        """Return a table as it was when this connection first needed it."""
        with self._reading:
            found = self._open_tables.get(ref)
        if found is None:
            # The library prints what it tries to reach a store, and its errors say it again.
            os.environ.setdefault("RUST_LOG", "off")
            from deltalake import DeltaTable

            place: Any = self._folders[ref] if self._root is not None else self._uris[ref]
            if self._root is not None:
                require_plain_log(place)
            found = DeltaTable(place, storage_options=None if self._root is not None else self._options)
            with self._reading:
                found = self._open_tables.setdefault(ref, found)
        return found

    def _state(self, ref: TableRef) -> str:
        table = self._table(ref)
        return repr((str(table.metadata().id), table.version()))

    def _load(self, ref: TableRef) -> LakeTable:
        table = self._table(ref)
        mode = _mapping(table)
        mapped = mode != "none"
        schema = fields(json.loads(table.schema().to_json()), mapped=mapped)
        require_distinct(own.name for own in schema)
        columns = tuple(
            Column(
                own.name,
                duckdb_type(own.kind),
                column(own.name, duckdb_type(own.kind)).type,
                own.nullable,
                own.comment,
                None if own.is_generated else own.default,
                own.is_generated,
            )
            for own in schema
        )
        metadata = table.metadata()
        partitions = tuple(metadata.partition_columns)
        actions = self._actions(table)
        remote: dict[str, tuple[str, int]] = {}
        paths = [self._path(ref, table, each, number, remote) for number, each in enumerate(actions)]
        positions = self._positions(ref, table, dict(zip(_locations(actions), paths, strict=True)))
        reads = {
            own.name: read_column(own, mapped=mapped, by_id=mode == "id")
            for own in schema
            if own.name not in partitions
        }
        groups = []
        values = [tuple(each[f"partition.{name}"] for name in partitions) for each in actions]
        for found, own in grouped(paths, values):
            constants = {
                name: constant(value, duckdb_type(next(each.kind for each in schema if each.name == name)))
                for name, value in zip(partitions, found, strict=True)
            }
            groups.append(FileGroup(own, tuple({**reads, **constants}[each.name] for each in schema)))
        if len(groups) > MOST_GROUPS:
            raise UnreadableTableError(f"has {len(groups):,} partitions; ktx reads at most {MOST_GROUPS:,}")
        counts = [each["num_records"] for each in actions]
        deleted = sum(map(len, positions.values()))
        return LakeTable(
            ref,
            columns,
            comment=metadata.description or None,
            rows=None if None in counts else sum(counts) - deleted,
            partitions=partitions,
            groups=tuple(groups),
            deletions=Deletions(positions),
            remote=remote,
            storage={"delta": self._uris[ref], "options": self._options} if remote else {},
        )

    def _actions(self, table: DeltaTable) -> list[dict[str, Any]]:
        """Return the live files, sorted by their path."""
        found = import_module("pyarrow").table(table.get_add_actions(flatten=True))
        return sorted(found.to_pylist(), key=lambda each: str(each["path"]))

    def _path(
        self, ref: TableRef, table: DeltaTable, action: dict[str, Any], number: int, remote: dict[str, tuple[str, int]]
    ) -> str:
        """Return the name of a file for DuckDB. Raises `UnreadableTableError` for one outside the table's folder."""
        location = unquote(action["path"])
        if self._root is not None:
            path = (self._folders[ref] / location.removeprefix("file://")).resolve()
            if "://" in location.removeprefix("file://") or not path.is_relative_to(self._folders[ref]):
                raise UnreadableTableError(f"refers to a file outside the folder: {one_line(location, 80)}")
            return str(path)
        if "://" in location or location.startswith("/") or ".." in location.split("/"):
            raise UnreadableTableError(f"refers to a file outside the table: {one_line(location, 80)}")
        name = f"{storage.PROTOCOL}://{table.metadata().id}-{table.version()}/{number}.parquet"
        remote[name] = (location, int(action["size_bytes"]))
        return name

    def _positions(self, ref: TableRef, table: DeltaTable, paths: dict[str, str]) -> dict[str, list[int]]:
        """Return the numbers of the deleted rows by path."""
        features = set(table.protocol().reader_features or ())
        if "deletionVectors" not in features:
            return {}
        if self._root is None:
            # The library would open a vector wherever the log says it is, on this machine too.
            raise UnreadableTableError(
                "has deletion vectors, which ktx does not read in an object store; turn them off and compact the table"
            )
        require_own_vectors(self._folders[ref])
        place = str(self._folders[ref])
        found: dict[str, list[int]] = {}
        total = 0
        for batch in import_module("pyarrow").RecordBatchReader.from_stream(table.deletion_vectors()):
            for uri, kept in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                location = unquote(uri.removeprefix("file://")).removeprefix(place.rstrip("/")).lstrip("/")
                if location not in paths:
                    raise UnreadableTableError(f"has deleted rows in an unknown file: {one_line(location, 80)}")
                mask = kept.values.to_numpy(zero_copy_only=False)
                positions = (~mask).nonzero()[0].tolist()
                total += len(positions)
                if total > MOST_DELETED:
                    raise UnreadableTableError(f"has more than {MOST_DELETED:,} deleted rows; compact it to read it")
                if positions:
                    found[paths[location]] = positions
        return found


def _locations(actions: list[dict[str, Any]]) -> list[str]:
    return [unquote(each["path"]) for each in actions]


def _mapping(table: DeltaTable) -> str:
    """Return how the files find columns: `none`, by `name` or by `id`.

    Raises `UnreadableTableError` for a protocol that ktx does not know.
    """
    protocol = table.protocol()
    unknown = sorted(set(protocol.reader_features or ()) - _FEATURES)
    if unknown or protocol.min_reader_version > _READER_VERSION:
        named = ", ".join(unknown) or f"version {protocol.min_reader_version}"
        raise UnreadableTableError(f"uses features of Delta that ktx cannot read: {one_line(named, 120)}")
    mode = table.metadata().configuration.get(_MAPPING, "none")
    if mode not in ("none", "name", "id"):
        raise UnreadableTableError(f"uses the unknown column mapping `{one_line(str(mode), 40)}`")
    return str(mode)
