"""Write the store of a layer: the loaded layer and each parsed file.

The store is disposable, and replaced as a whole. It records the files from which it was made, so that a reader knows
whether it matches the current files.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Diagnostic, KtxError, Severity
from ktx_cli.project import (
    Layout,
    Stamp,
    WorkingTree,
    is_full,
    prepare_private_folder,
    remove_file,
    replacing,
    stamp_of,
    storage_error,
    write_atomic,
)
from ktx_cli.semantic.check import SourceChecks
from ktx_cli.semantic.load.entries import SourceFile
from ktx_cli.semantic.load.load import Files, model_of, read_files, read_strays
from ktx_cli.semantic.lookup import ChangedSources
from ktx_cli.semantic.manifest import relation_of
from ktx_cli.semantic.model import CalendarSettings, Join, Model, Source
from ktx_cli.semantic.store.changes import LayerChanges, changes_of, merged_problems
from ktx_cli.semantic.store.codec import Codec, NotStorable, Paths, SourceDigests
from ktx_cli.semantic.store.layer import ParsedCopies
from ktx_cli.semantic.store.parts import EntryFacts, is_shard, needs_of, parts_of, path_entries
from ktx_cli.semantic.store.reader import (
    CHECKED,
    LayerStore,
    StoredSources,
    all_checks,
    changed_files,
    checked_again,
    identity_of,
    layer_stamps,
    open_store,
    store_path,
)
from ktx_cli.semantic.visible import stands_alone

log = logging.getLogger(__name__)

_TABLES: Final = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE places (number INTEGER PRIMARY KEY, path TEXT);
CREATE TABLE files (number INTEGER PRIMARY KEY, path TEXT UNIQUE, stamp TEXT, sha256 TEXT, kind TEXT, plain INTEGER,
  rest TEXT);
CREATE TABLE entries (file INTEGER, number INTEGER, name TEXT, folded TEXT, relation TEXT, document TEXT,
  facts TEXT, PRIMARY KEY (file, number)) WITHOUT ROWID;
CREATE TABLE needs (owner TEXT, folded TEXT, kind TEXT, PRIMARY KEY (owner, folded, kind)) WITHOUT ROWID;
CREATE TABLE sources (name TEXT PRIMARY KEY, folded TEXT, relation TEXT, "table" TEXT, is_restricted INTEGER,
  is_protected INTEGER, has_parameters INTEGER, digest TEXT, stands_alone INTEGER, source TEXT);
CREATE TABLE columns (folded TEXT, source TEXT, name TEXT, PRIMARY KEY (folded, source, name)) WITHOUT ROWID;
CREATE TABLE measures (folded TEXT, source TEXT, name TEXT, PRIMARY KEY (folded, source, name)) WITHOUT ROWID;
CREATE TABLE segments (name TEXT, source TEXT, PRIMARY KEY (name, source)) WITHOUT ROWID;
CREATE TABLE joins (owner TEXT, number INTEGER, target TEXT, alias TEXT, "join" TEXT,
  PRIMARY KEY (owner, number)) WITHOUT ROWID;
CREATE TABLE problems (path TEXT, number INTEGER, subject TEXT, is_error INTEGER, problem TEXT,
  PRIMARY KEY (path, number)) WITHOUT ROWID;
CREATE TABLE checks (source TEXT, number INTEGER, is_error INTEGER, problem TEXT,
  PRIMARY KEY (source, number)) WITHOUT ROWID;
CREATE TABLE dependencies (source TEXT PRIMARY KEY, reaches INTEGER, uses TEXT) WITHOUT ROWID;
"""
_INDEXES: Final = """
CREATE INDEX entries_by_name ON entries (folded);
CREATE INDEX entries_of_files ON entries (file, number, name, relation);
CREATE INDEX entries_counted ON entries (file, number, name, facts);
CREATE INDEX needs_by_target ON needs (folded);
CREATE INDEX sources_by_name ON sources (folded);
CREATE INDEX sources_by_relation ON sources (relation);
CREATE INDEX sources_with_tables ON sources (name, "table");
CREATE INDEX sources_by_digest ON sources (name, digest, stands_alone);
CREATE INDEX sources_restricted ON sources (name) WHERE is_restricted;
CREATE INDEX sources_protected ON sources (name) WHERE is_protected;
CREATE INDEX sources_with_parameters ON sources (name) WHERE has_parameters;
CREATE INDEX joins_by_target ON joins (target);
CREATE INDEX problems_by_subject ON problems (subject);
"""

_JUST_NS: Final = 50_000_000
_JUST_COARSE_NS: Final = 2_100_000_000
"""Time in which a changed file could change again without a new stamp, with a fine and a coarse file system clock."""


def write_store(layout: Layout, connection: str, dialect: str, configured: Collection[str] | None) -> bool:
    """Update the store of a layer from its files, and return whether there is a store now.

    A layer with anything that does not survive a round trip through JSON has none. Raises `StorageError`.
    """
    prepare_private_folder(layout)
    tree, place = WorkingTree(layout.root), store_path(layout, connection)
    now = _clock(place)
    stamps = layer_stamps(layout.root, connection, configured)
    settled = {path: stamp for path, stamp in stamps.items() if now is not None and _is_settled(stamp, now)}
    before = open_store(layout, connection, dialect, configured)
    try:
        if before is not None and _update(before, place, stamps, settled, connection, dialect):
            return True
        files = read_files(tree, connection, ParsedCopies(layout, connection).parse)
        strays = [] if configured is None else read_strays(tree, {*configured, connection})
        model = model_of(files, connection, dialect, strays=strays)
        with _in_memory(Codec(Paths([]))) as writing:
            writing.all(files, model, stamps, settled, identity_of(dialect, configured))
            content = writing.content()
    except (NotStorable, UnicodeEncodeError):
        remove_file(place)
        return False
    finally:
        if before is not None:
            before.close()
    write_atomic(place, content, mode=0o600)
    return True


def _update(
    before: LayerStore,
    place: Path,
    stamps: Mapping[str, Stamp],
    settled: Mapping[str, Stamp],
    connection: str,
    dialect: str,
) -> bool:
    """Write the changed files into a store; return False if all files must be read.

    A copy is changed and then replaces the store, so that nobody ever reads a partial one.
    """
    try:
        changed = changed_files(before, stamps, WorkingTree(before.root))
    except KtxError:  # what reads all files says what is wrong with them
        return False
    known = before.files()
    renewed = {
        path: stamp
        for path, stamp in settled.items()
        if path not in changed and path in known and known[path].stamp != stamp
    }
    if not changed and not renewed:
        return True
    changes = changes_of(before, changed, connection, dialect) if changed else LayerChanges()
    if changes is None:
        return False
    codec = Codec(Paths([*before.paths.names], WorkingTree(before.root)))
    try:
        with replacing(place, mode=0o600) as copy:
            shutil.copyfile(place, copy)
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as database:
                for setting in _IN_A_COPY:
                    database.execute(setting)
                _Writing(database, codec).update(before, changes, renewed, settled, connection, dialect)
    except sqlite3.Error as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL or is_full(place):
            raise storage_error(place, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
        log.debug("the store of the layer %s is damaged", connection, exc_info=True)
        return False
    return True


_IN_A_COPY: Final = (
    "PRAGMA journal_mode = MEMORY",  # a copy that fails is dropped
    "PRAGMA synchronous = OFF",
    "PRAGMA locking_mode = EXCLUSIVE",
)


def _clock(place: Path) -> Stamp | None:
    """Return the stamp of a file that is written now, according to the file system's clock."""
    clock = place.with_name(f".{place.name}.clock")
    write_atomic(clock, b"")
    now = stamp_of(clock)
    remove_file(clock)
    return now


def _is_settled(stamp: Stamp, now: Stamp) -> bool:
    """Return whether a file changed long enough ago that any later change will alter its stamp."""
    changed, current = max(stamp[2], stamp[3]), now[3]
    margin = _JUST_COARSE_NS if changed % 1_000_000_000 == 0 else _JUST_NS
    return changed + margin < current


@contextlib.contextmanager
def _in_memory(codec: Codec) -> Iterator[_Writing]:
    """Provide an empty store in memory."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        yield _Writing(database, codec)


class _Writing:
    """A store that is being written."""

    def __init__(self, database: sqlite3.Connection, codec: Codec) -> None:
        self.database, self.codec = database, codec
        self._digests = SourceDigests()

    def content(self) -> bytes:
        """Return the store as a file."""
        return self.database.serialize()

    def all(
        self, files: Files, model: Model, stamps: Mapping[str, Stamp], settled: Mapping[str, Stamp], identity: list[Any]
    ) -> None:
        """Write an entire layer that was just read."""
        self.database.executescript(_TABLES)
        self.database.execute("BEGIN")
        parsed = {file.path: file for file in (*files.shards, *files.own)}
        for number, path in enumerate(sorted(stamps)):
            self._file(number, path, parsed.get(path), settled.get(path))
            self._needs(path_entries(parsed.get(path)))
        for source in model.sources.values():
            self._source(source)
        for path, problems in groupby(model.problems, key=lambda each: each.path):
            self._problems(path, problems)
        facts = {
            "identity": identity,
            "barred": {
                name: [self.codec.dump_diagnostic(each.problem), each.tables] for name, each in model.barred.items()
            },
            "sealed": None if model.sealed is None else self.codec.dump_diagnostic(model.sealed),
            CHECKED: self._check(all_checks(model)),
        }
        rows = [(key, json.dumps(value, separators=(",", ":"))) for key, value in facts.items()]
        self.database.executemany("INSERT INTO facts VALUES (?, ?)", rows)
        self._places()
        self.database.execute("COMMIT")
        self.database.executescript(_INDEXES)

    def update(
        self,
        before: LayerStore,
        changes: LayerChanges,
        renewed: Mapping[str, Stamp],
        settled: Mapping[str, Stamp],
        connection: str,
        dialect: str,
    ) -> None:
        """Write the changes since the layer was stored. `renewed`: new stamps of files with the same content."""
        ask, known = self.database.execute, before.files()
        ask("BEGIN")
        for path, stamp in renewed.items():
            ask("UPDATE files SET stamp = ? WHERE path = ?", (json.dumps(stamp), path))
        following = max((each.number for each in known.values()), default=-1) + 1
        for path, file in sorted(changes.files.items()):
            number = known[path].number if path in known else following
            following = max(following, number + 1)
            ask("DELETE FROM files WHERE number = ?", (number,))
            ask("DELETE FROM entries WHERE file = ?", (number,))
            if file is not None:
                self._file(number, path, file, settled.get(path))
        for subject in sorted(changes.subjects):
            ask("DELETE FROM needs WHERE owner = ?", (subject,))
            rows = ask("SELECT name, document FROM entries WHERE folded = ?", (subject,)).fetchall()
            self._needs((name, json.loads(text)) for name, text in rows)
        sources = StoredSources(before)
        for name, source in changes.sources.items():
            if name in sources:
                self._forget(sources[name])
            if source is not None:
                self._source(source)
        self._renew_problems(before, changes)
        if changes.sources:
            self._renew_checks(before, changes, connection, dialect)
        self._places()
        ask("COMMIT")

    def _check(self, checks: Mapping[str, SourceChecks]) -> bool:
        """Write the checks of sources, and return whether that was possible."""
        self.database.execute("SAVEPOINT checks")
        try:
            for name, each in checks.items():
                self.database.execute("DELETE FROM checks WHERE source = ?", (name,))
                self.database.execute("DELETE FROM dependencies WHERE source = ?", (name,))
                rows = [
                    (name, number, problem.severity is Severity.ERROR, self.codec.dump_diagnostic(problem))
                    for number, problem in enumerate(each.problems)
                ]
                self.database.executemany("INSERT INTO checks VALUES (?, ?, ?, ?)", rows)
                if each.reaches or each.uses:
                    row = (name, each.reaches, json.dumps(each.uses))
                    self.database.execute("INSERT INTO dependencies VALUES (?, ?, ?)", row)
        except NotStorable:
            self.database.execute("ROLLBACK TO checks")
            return False
        finally:
            self.database.execute("RELEASE checks")
        return True

    def _renew_checks(self, before: LayerStore, changes: LayerChanges, connection: str, dialect: str) -> None:
        """Check changed sources again, before they are written."""
        model = Model(
            connection, dialect, ChangedSources(StoredSources(before), changes.sources), (), CalendarSettings()
        )
        checks = checked_again(model) if before.facts.get(CHECKED) else None
        if checks is None:
            self.database.execute("DELETE FROM checks")
            self.database.execute("DELETE FROM dependencies")
            checks = all_checks(model)
        gone = dict.fromkeys((name for name, source in changes.sources.items() if source is None), SourceChecks())
        is_checked = self._check({**gone, **checks})
        self.database.execute("UPDATE facts SET value = ? WHERE key = ?", (json.dumps(is_checked), CHECKED))

    def _renew_problems(self, before: LayerStore, changes: LayerChanges) -> None:
        """Rewrite the problems of the files in which problems were added or removed."""
        paths = {each.path for each in changes.problems}
        for subject in changes.subjects:
            rows = self.database.execute("SELECT DISTINCT path FROM problems WHERE subject = ?", (subject,))
            paths.update(path for (path,) in rows)
        for path in sorted(paths):
            stored = before.ask("SELECT problem FROM problems WHERE path = ? ORDER BY number", (path,))
            known = [before.codec.load_diagnostic(problem) for (problem,) in stored]
            new = [each for each in changes.problems if each.path == path]
            self.database.execute("DELETE FROM problems WHERE path = ?", (path,))
            self._problems(path, merged_problems(known, changes.subjects, new))

    def _problems(self, path: str, problems: Iterable[Diagnostic]) -> None:
        rows = [
            (
                *(path, number, (each.location.object or "").casefold(), each.severity is Severity.ERROR),
                self.codec.dump_diagnostic(each),
            )
            for number, each in enumerate(problems)
        ]
        self.database.executemany("INSERT INTO problems VALUES (?, ?, ?, ?, ?)", rows)

    def _places(self) -> None:
        """Write the files that locations refer to."""
        self.database.execute("DELETE FROM places")
        self.database.executemany("INSERT INTO places VALUES (?, ?)", enumerate(self.codec.paths.names))

    def _file(self, number: int, path: str, file: SourceFile | None, stamp: Stamp | None) -> None:
        """Write a file with its entries; an unreadable file counts as changed until its stamp is known."""
        sha256, rest = "", None
        entries: list[tuple[str, str, Any]] = []
        if file is not None:
            sha256 = hashlib.sha256(file.content).hexdigest()
            rest, entries = parts_of(file)
        kind = "shard" if is_shard(path) else "own"
        row = (number, path, None if stamp is None else json.dumps(stamp), sha256, kind, rest is not None, rest)
        self.database.execute("INSERT INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        rows = [
            (number, index, name, name.casefold(), relation_of(document), text, EntryFacts.of(document).dump())
            for index, (name, text, document) in enumerate(entries)
        ]
        self.database.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def _needs(self, entries: Iterable[tuple[str, Any]]) -> None:
        needs = {(name.casefold(), *need) for name, document in entries for need in needs_of(document)}
        self.database.executemany("INSERT OR IGNORE INTO needs VALUES (?, ?, ?)", sorted(needs))

    def _forget(self, source: Source) -> None:
        ask = self.database.execute
        ask("DELETE FROM sources WHERE name = ?", (source.name,))
        ask("DELETE FROM joins WHERE owner = ?", (source.name,))
        for name in source.segments:
            ask("DELETE FROM segments WHERE name = ? AND source = ?", (name, source.name))
        for table, names in (("columns", source.columns), ("measures", source.measures)):
            for name in names:
                ask(f"DELETE FROM {table} WHERE folded = ? AND source = ?", (name.casefold(), source.name))

    def _source(self, source: Source) -> None:
        table = None if source.table is None else json.dumps(source.table, ensure_ascii=False)
        row = (
            source.name,
            source.name.casefold(),
            source.table[-1].casefold() if source.table else None,
            table,
            not source.is_all_public,
            source.is_protected,
            bool(source.parameters),
            self._digests.of(source),
            stands_alone(source),
            self.codec.dump(source, Source),
        )
        self.database.execute("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
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
