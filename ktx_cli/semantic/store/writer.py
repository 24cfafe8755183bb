"""Writes the store of a layer: the layer as it was read, and each file as it was parsed.

The store is disposable, and replaced as a whole. What is stored says for itself which files it was made of, so a reader
knows whether it is still of the files there are.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Collection, Mapping
from typing import Any, Final

from ktx_cli.core import Diagnostic
from ktx_cli.project import Layout, Stamp, WorkingTree, prepare_private_folder, stamp_of, write_atomic
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.load.load import Files, model_of, read_files, read_strays
from ktx_cli.semantic.model import Join, Model, Source
from ktx_cli.semantic.store.codec import Codec, NotStorable, Paths
from ktx_cli.semantic.store.parts import needs_of, parts_of
from ktx_cli.semantic.store.reader import changed_files, identity_of, layer_stamps, open_store, store_path

_TABLES: Final = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE places (number INTEGER PRIMARY KEY, path TEXT);
CREATE TABLE files (number INTEGER PRIMARY KEY, path TEXT UNIQUE, stamp TEXT, sha256 TEXT, plain INTEGER, rest TEXT);
CREATE TABLE entries (file INTEGER, number INTEGER, name TEXT, folded TEXT, document TEXT,
  PRIMARY KEY (file, number)) WITHOUT ROWID;
CREATE TABLE needs (owner TEXT, folded TEXT, kind TEXT, PRIMARY KEY (owner, folded, kind)) WITHOUT ROWID;
CREATE TABLE sources (name TEXT PRIMARY KEY, folded TEXT, relation TEXT, "table" TEXT, is_restricted INTEGER,
  is_protected INTEGER, has_parameters INTEGER, source TEXT);
CREATE TABLE columns (folded TEXT, source TEXT, name TEXT, PRIMARY KEY (folded, source, name)) WITHOUT ROWID;
CREATE TABLE measures (folded TEXT, source TEXT, name TEXT, PRIMARY KEY (folded, source, name)) WITHOUT ROWID;
CREATE TABLE segments (name TEXT, source TEXT, PRIMARY KEY (name, source)) WITHOUT ROWID;
CREATE TABLE joins (owner TEXT, number INTEGER, target TEXT, alias TEXT, "join" TEXT,
  PRIMARY KEY (owner, number)) WITHOUT ROWID;
CREATE TABLE problems (number INTEGER PRIMARY KEY, subject TEXT, severity TEXT, problem TEXT);
"""
_INDEXES: Final = """
CREATE INDEX entries_by_name ON entries (folded);
CREATE INDEX needs_by_target ON needs (folded);
CREATE INDEX sources_by_name ON sources (folded);
CREATE INDEX sources_by_relation ON sources (relation);
CREATE INDEX joins_by_target ON joins (target);
"""

_JUST_NS: Final = 50_000_000
_JUST_COARSE_NS: Final = 2_100_000_000
"""A file that changed so shortly before could change once more without another stamp; where the file system counts
whole seconds it takes longer."""


def write_store(layout: Layout, connection: str, dialect: str, configured: Collection[str] | None) -> bool:
    """Bring the store of a layer up to date with its files, and return whether there is one now.

    There is none of a layer in which something is not text that JSON can give back. Raises `StorageError`.
    """
    prepare_private_folder(layout)
    tree, place = WorkingTree(layout.root), store_path(layout, connection)
    clock = layout.cache / f".{place.name}.clock"
    write_atomic(clock, b"")
    now = stamp_of(clock)
    clock.unlink(missing_ok=True)
    stamps = layer_stamps(layout.root, connection, configured)
    before = open_store(layout, connection, dialect, configured)
    if before is not None:
        try:
            known = before.files()
            if not changed_files(before, stamps, tree) and all(known[path].stamp == stamps[path] for path in stamps):
                return True
        finally:
            before.close()
    files = read_files(tree, connection)
    strays = [] if configured is None else read_strays(tree, {*configured, connection})
    model = model_of(files, connection, dialect, strays=strays)
    settled = {path: stamp for path, stamp in stamps.items() if now is not None and _is_settled(stamp, now)}
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        writing = _Writing(database, Codec(Paths([])))
        writing.all(files, model, stamps, settled, tree, identity_of(dialect, configured))
        content = database.serialize()
    except (NotStorable, UnicodeEncodeError):
        place.unlink(missing_ok=True)
        return False
    finally:
        database.close()
    write_atomic(place, content, mode=0o600)
    return True


def _is_settled(stamp: Stamp, now: Stamp) -> bool:
    """Whether a file changed long enough ago that its stamp tells of every later change."""
    changed, current = max(stamp[2], stamp[3]), now[3]
    margin = _JUST_COARSE_NS if changed % 1_000_000_000 == 0 else _JUST_NS
    return changed + margin < current


class _Writing:
    """A store while it is written."""

    def __init__(self, database: sqlite3.Connection, codec: Codec) -> None:
        self.database, self.codec = database, codec

    def all(
        self,
        files: Files,
        model: Model,
        stamps: Mapping[str, Stamp],
        settled: Mapping[str, Stamp],
        tree: WorkingTree,
        identity: list[Any],
    ) -> None:
        """Write a layer that was just read, as a whole."""
        ask = self.database.execute
        self.database.executescript(_TABLES)
        ask("BEGIN")
        parsed = {file.path: file for file in (*files.shards, *files.own)}
        for number, path in enumerate(sorted(stamps)):
            self._file(number, path, parsed.get(path), settled.get(path), tree)
        for name in model.sources:
            self._source(model.sources[name])
        for number, problem in enumerate(model.problems):
            row = (number, problem.location.object, problem.severity.value, self.codec.dump_diagnostic(problem))
            ask("INSERT INTO problems VALUES (?, ?, ?, ?)", row)
        facts = {
            "identity": identity,
            "barred": {name: [self._problem(each.problem), each.tables] for name, each in model.barred.items()},
            "sealed": None if model.sealed is None else self._problem(model.sealed),
        }
        rows = [(key, json.dumps(value, separators=(",", ":"))) for key, value in facts.items()]
        self.database.executemany("INSERT INTO facts VALUES (?, ?)", rows)
        self.database.executemany("INSERT INTO places VALUES (?, ?)", enumerate(self.codec.paths.names))
        ask("COMMIT")
        self.database.executescript(_INDEXES)

    def _problem(self, problem: Diagnostic) -> str:
        return self.codec.dump_diagnostic(problem)

    def _file(self, number: int, path: str, file: SourceFile | None, stamp: Stamp | None, tree: WorkingTree) -> None:
        """Write a file with its entries; one that could not be read is never the same again."""
        sha256, rest = "", None
        entries: list[tuple[str, str, Any]] = []
        if file is not None:
            sha256 = hashlib.sha256(file.content).hexdigest()
            rest, entries = parts_of(file)
        row = (number, path, None if stamp is None else json.dumps(stamp), sha256, rest is not None, rest)
        self.database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
        rows = [(number, index, name, name.casefold(), text) for index, (name, text, _) in enumerate(entries)]
        self.database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", rows)
        needs = {(name.casefold(), *need) for name, _, document in entries for need in needs_of(document)}
        self.database.executemany("INSERT OR IGNORE INTO needs VALUES (?, ?, ?)", sorted(needs))

    def _source(self, source: Source) -> None:
        table = None if source.table is None else json.dumps(source.table, ensure_ascii=False)
        row = (
            source.name,
            source.name.casefold(),
            source.table[-1].casefold() if source.table else None,
            table,
            not source.has_only_public_columns,
            source.is_protected,
            bool(source.parameters),
            self.codec.dump(source, Source),
        )
        self.database.execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        named = {"columns": source.columns, "measures": source.measures}
        for table_name, names in named.items():
            rows = [(name.casefold(), source.name, name) for name in names]
            self.database.executemany(f"INSERT INTO {table_name} VALUES (?, ?, ?)", rows)
        self.database.executemany(
            "INSERT INTO segments VALUES (?, ?)", [(name, source.name) for name in source.segments]
        )
        joins = [
            (source.name, number, join.to, join.alias, self.codec.dump(join, Join))
            for number, join in enumerate(source.joins)
        ]
        self.database.executemany("INSERT INTO joins VALUES (?, ?, ?, ?, ?)", joins)
