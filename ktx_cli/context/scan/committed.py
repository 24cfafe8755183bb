"""What of a connection is committed: shards, the last snapshot, the records; each is read when somebody asks."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from ktx_cli.connectors.port import DatabaseSchema, Table, TableRef
from ktx_cli.context.scan.carry import carried_over
from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.describe.facts import KnownTexts, known_texts
from ktx_cli.context.scan.names import physical_name
from ktx_cli.context.scan.records import FILES, Records, read_records
from ktx_cli.context.scan.shards import SUFFIXES, Places, Shard
from ktx_cli.context.scan.snapshot import MANIFEST, manifest_hashes, read_table
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import is_utf8
from ktx_cli.project.layout import DATABASE_SOURCE, Layout


class Base(Protocol):
    """The committed tree a scan compares with."""

    def read_many(self, paths: Iterable[str]) -> Mapping[str, bytes]:
        """Return the contents of those paths that exist."""
        ...

    def blobs(self, prefix: str) -> Mapping[str, str]:
        """Return path -> blob id of everything below a folder."""
        ...


def folders(connection: str) -> tuple[str, str]:
    """Return the two folders a scan writes: the shards and the snapshot."""
    return Layout.schema_path(connection), Layout.raw_path(connection, DATABASE_SOURCE)


@dataclass(frozen=True, slots=True)
class Before:
    """The last snapshot: path -> sha256, and its tables; `tables` None when there is none that can be read."""

    hashes: Mapping[str, str]
    tables: tuple[Table, ...] | None
    warnings: tuple[ResultWarning, ...] = ()


class Committed:
    """The committed files of one connection. `files`: path -> blob id, of those whose names are UTF-8."""

    def __init__(self, base: Base, connection: str, copies: ParsedCopies) -> None:
        self.base, self.connection = base, connection
        self.schema_folder, self.raw_folder = folders(connection)
        blobs = {path: blob for folder in folders(connection) for path, blob in base.blobs(folder).items()}
        self.files = {path: blob for path, blob in blobs.items() if is_utf8(path)}
        self._copies = copies

    @cached_property
    def read_records(self) -> tuple[Records, tuple[ResultWarning, ...]]:
        """What earlier scans learned, and a warning for each record that cannot be read."""
        paths = [f"{self.raw_folder}/{name}" for name in FILES]
        return read_records(self.base.read_many(path for path in paths if path in self.files), self.raw_folder)

    @property
    def records(self) -> Records:
        """What earlier scans learned."""
        return self.read_records[0]

    @cached_property
    def shards(self) -> dict[str, Shard]:
        """Path -> shard; `ConfigError` for a broken one."""
        folder = self.schema_folder
        paths = [path for path in self.files if posixpath.dirname(path) == folder and path.endswith(SUFFIXES)]
        return {path: self._copies.parse(content, path) for path, content in self.base.read_many(paths).items()}

    @cached_property
    def before(self) -> Before:
        """The last snapshot."""
        where = f"{self.raw_folder}/{MANIFEST}"
        if where not in self.files:
            return Before({}, None)
        try:
            hashes = manifest_hashes(self.base.read_many([where])[where], where)
            hashes = {path: value for path, value in hashes.items() if f"{self.raw_folder}/{path}" in self.files}
            contents = self.base.read_many([f"{self.raw_folder}/{path}" for path in hashes])
            return Before(hashes, tuple(read_table(content, path) for path, content in contents.items()))
        except KtxError as error:
            note = ResultWarning("broken_snapshot", f"{error.message}; it is written anew", path=self.raw_folder)
            return Before({}, None, (note,))

    def all_tables(self, schema: DatabaseSchema) -> list[Table]:
        """Return the tables of a database, with those the last scan saw and this one could not read."""
        whole = not schema.problems and all(table.columns for table in schema.tables)
        return list(schema.tables) if whole else carried_over(schema, self.before.tables or ())[0]

    def texts(self, tables: Iterable[Table]) -> dict[TableRef, KnownTexts]:
        """Return what people and other tools wrote about tables; `ConfigError` for a broken shard."""
        refs = [table.ref for table in tables]
        places = Places.find(self.shards, refs).primary
        found = {ref: places[physical_name(ref)] for ref in refs if physical_name(ref) in places}
        return {ref: known_texts(self.shards[path].tables[name]) for ref, (path, name) in found.items()}
