"""Read SQLite files in a separate process, without writing anything next to them."""

from __future__ import annotations

import hashlib
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.warehouses import base, port
from ktx_cli.warehouses.base import TableDraft, read_only_error, reason, require_file, source_path
from ktx_cli.warehouses.declarations import values_of_checks
from ktx_cli.warehouses.sqlite.dialect import DIALECT
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.session import IsolatedConnector, Session, TimedSession

COUNTED_BYTES = 64 * 1024 * 1024
"""The maximum size of a file whose rows are counted if the file was never analyzed."""

_RELATIONS = """
SELECT name, type, sql FROM main.sqlite_schema
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""
_PLAIN = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'create virtual%'"
_COLUMNS = 'p.name, p.type, p."notnull", p.dflt_value, p.pk, p.hidden'
_MODULE = re.compile(r"create\s+virtual\s+table\b.*?\busing\s+(\w+)", re.IGNORECASE | re.DOTALL)
_SHADOWS = {
    "fts3": ("content", "segdir", "segments", "docsize", "stat"),
    "fts4": ("content", "segdir", "segments", "docsize", "stat"),
    "fts5": ("content", "data", "idx", "docsize", "config"),
    "rtree": ("node", "parent", "rowid"),
    "rtree_i32": ("node", "parent", "rowid"),
    "geopoly": ("node", "parent", "rowid"),
    "vec0": ("chunks", "rowids", "info", "vector_chunks00", "auxiliary"),
}


def list_relations(session: TimedSession) -> list[TableDraft]:
    """Return all tables and views, except SQLite's own and those that only store a virtual table's content."""
    rows = session.execute(_RELATIONS).fetchall()
    shadows = shadow_tables({name: sql or "" for name, kind, sql in rows if kind == "table"})
    return [
        TableDraft(
            port.TableRef(None, name),
            port.TableKind.VIEW if kind == "view" else port.TableKind.TABLE,
            view_sql=sql if kind == "view" else None,
        )
        for name, kind, sql in rows
        if name not in shadows
    ]


def shadow_tables(tables: dict[str, str]) -> set[str]:
    """Return the tables (name -> CREATE statement) that store the content of full-text and spatial tables."""
    found: set[str] = set()
    for name, sql in tables.items():
        module = _MODULE.match(sql.strip())
        for suffix in _SHADOWS.get(module.group(1).lower(), ()) if module else ():
            found.add(f"{name}_{suffix}")
    return {name for name in tables if name in found and not _MODULE.match(tables[name].strip())}


class SqliteCatalog:
    """A single read of a database's structure, inside one transaction.

    Row estimates come from `sqlite_stat1` if the table was analyzed; else they are counted if the file has at most
    `COUNTED_BYTES`; else they are the highest rowid, an upper bound; else None (views, virtual tables, large tables
    WITHOUT ROWID).
    """

    def __init__(self, session: TimedSession, path: Path) -> None:
        self.session = session
        self.path = path
        self.problems: list[port.ObjectProblem] = []

    def read(self, scope: port.Scope) -> port.DatabaseSchema:
        """Return everything in scope. A view or virtual table that cannot be read becomes a problem."""
        self.session.execute("BEGIN")
        try:
            drafts = {draft.ref.name: draft for draft in list_relations(self.session)}
            chosen = port.select((draft.ref for draft in drafts.values()), scope)
            self.problems += chosen.problems
            everything = drafts
            drafts = {ref.name: drafts[ref.name] for ref in chosen.refs}
            self._fill(drafts, everything)
        finally:
            if self.session.session.is_open:
                self.session.execute("ROLLBACK")
        tables = tuple(draft.finish() for _, draft in sorted(drafts.items()))
        return port.DatabaseSchema(tables, tuple(self.problems), f"SQLite {sqlite3.sqlite_version}")

    def _fill(self, drafts: dict[str, TableDraft], everything: dict[str, TableDraft]) -> None:
        statements = dict(self.session.execute(_PLAIN).fetchall())
        plain = set(statements)
        keys = self._primary_keys(plain)
        for name, rows in self._bulk(_COLUMNS, "temp.pragma_table_xinfo(m.name, 'main')", "p.cid"):
            if name in drafts:
                _set_columns(drafts[name], rows)
                for column, values in values_of_checks(statements[name], "sqlite").items():
                    drafts[name].allow(_spelled(drafts[name], column), values)
        for name in [name for name in drafts if name not in plain]:
            self._one_by_one(drafts, name)
        self._indexes(drafts)
        self._foreign_keys(drafts, keys, {_fold(name): name for name in everything})
        self._row_estimates({name: draft for name, draft in drafts.items() if name in plain})

    def _bulk(self, columns: str, pragma: str, order: str) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield (table, rows) from a pragma for all plain tables.

        A view or table of the file may have a pragma's name, but no file can define one in `temp`, and a name that is
        not there is SQLite's own.

        Virtual tables and views are excluded, because one whose module is missing, or that errors, would fail them all.
        """
        statement = (
            f"SELECT m.name, {columns} FROM main.sqlite_schema AS m, {pragma} AS p "
            f"WHERE m.type = 'table' AND m.sql NOT LIKE 'create virtual%' ORDER BY m.name, {order}"
        )
        rows = self.session.execute(statement).fetchall()
        for name, group in groupby(rows, key=lambda row: row[0]):
            yield name, [row[1:] for row in group]

    def _one_by_one(self, drafts: dict[str, TableDraft], name: str) -> None:
        try:
            rows = self.session.execute(
                f"SELECT {_COLUMNS} FROM temp.pragma_table_xinfo(?, 'main') AS p ORDER BY p.cid", (name,)
            ).fetchall()
        except EngineError as error:
            if error.interrupted or error.leaves_damage:
                raise
            what = drafts.pop(name).kind.value
            self.problems.append(port.ObjectProblem(port.TableRef(None, name), what, reason(error)))
            return
        _set_columns(drafts[name], rows)

    def _primary_keys(self, plain: Iterable[str]) -> dict[str, tuple[str, ...]]:
        keys: dict[str, tuple[str, ...]] = {_fold(name): () for name in plain}
        for name, rows in self._bulk("p.name, p.pk", "temp.pragma_table_xinfo(m.name, 'main')", "p.pk"):
            keys[_fold(name)] = tuple(column for column, position in rows if position)
        return keys

    def _indexes(self, drafts: dict[str, TableDraft]) -> None:
        columns = 'p.name, p."unique", p.origin, p.partial, x.cid, x.name'
        # SQLite lists indexes newest first.
        pragma = "temp.pragma_index_list(m.name, 'main') AS p, temp.pragma_index_xinfo(p.name, 'main') AS x"
        statement = (
            f"SELECT m.name, {columns} FROM main.sqlite_schema AS m, {pragma} "
            "WHERE m.type = 'table' AND m.sql NOT LIKE 'create virtual%' AND x.key "
            "ORDER BY m.name, p.seq DESC, x.seqno"
        )
        rows = self.session.execute(statement).fetchall()
        for (table, index), group in groupby(rows, key=lambda row: (row[0], row[1])):
            if table in drafts:
                _add_index(drafts[table], index, [row[2:] for row in group])

    def _foreign_keys(
        self, drafts: dict[str, TableDraft], keys: dict[str, tuple[str, ...]], names: dict[str, str]
    ) -> None:
        columns = 'p.id, p."table", p."from", p."to"'
        for name, rows in self._bulk(columns, "temp.pragma_foreign_key_list(m.name, 'main')", "p.id DESC, p.seq"):
            if name not in drafts:
                continue
            for _, group in groupby(rows, key=lambda row: row[0]):
                self._add_foreign_key(drafts[name], [row[1:] for row in group], keys, names)

    def _add_foreign_key(
        self, draft: TableDraft, pairs: list[tuple[Any, ...]], keys: dict[str, tuple[str, ...]], names: dict[str, str]
    ) -> None:
        parent = pairs[0][0]
        targets = tuple(target for _, _, target in pairs)
        if None in targets:
            # Without columns, a reference means the parent's primary key.
            targets = keys.get(_fold(parent), ())
            if len(targets) != len(pairs):
                message = f"a reference to `{parent}` names no columns, and there is no matching primary key"
                self.problems.append(port.ObjectProblem(draft.ref, "foreign_key", reason(message)))
                return
        columns = tuple(_spelled(draft, column) for _, column, _ in pairs)
        target = port.TableRef(None, names.get(_fold(parent), parent))
        draft.foreign_keys.append(port.ForeignKey(columns, target, targets))

    def _row_estimates(self, drafts: dict[str, TableDraft]) -> None:
        analysed = self._analysed()
        countable = self.path.stat().st_size <= COUNTED_BYTES
        for name, draft in drafts.items():
            draft.row_estimate = analysed[name] if name in analysed else self._counted(name, countable)

    def _analysed(self) -> dict[str, int]:
        made = "SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_stat1' AND type = 'table'"
        if not self.session.execute(made).fetchone():
            return {}
        found: dict[str, int] = {}
        # A partial index has fewer entries than its table has rows, so the largest number is the table's.
        for table, statistics in self.session.execute("SELECT tbl, stat FROM main.sqlite_stat1"):
            first = str(statistics or "").partition(" ")[0]
            if first.isdigit():
                found[table] = max(found.get(table, 0), int(first))
        return found

    def _counted(self, name: str, countable: bool) -> int | None:
        measure = "count(*)" if countable else "coalesce(max(rowid), 0)"
        try:
            ((count,),) = self.session.execute(f"SELECT {measure} FROM main.{DIALECT.quote(name)}")
        except EngineError as error:
            if error.interrupted or error.leaves_damage:
                raise
            # A large table WITHOUT ROWID has no cheap estimate; any other error is reported.
            if "no such column: rowid" not in str(error):
                self.problems.append(port.ObjectProblem(port.TableRef(None, name), "row_estimate", reason(error)))
            return None
        return int(count)


def _set_columns(draft: TableDraft, rows: Iterable[tuple[Any, ...]]) -> None:
    visible = [row for row in rows if row[5] != 1]
    key = sorted((row[4], row[0]) for row in visible if row[4])
    draft.primary_key = tuple(name for _, name in key)
    for name, native, notnull, default, pk, hidden in visible:
        # Only an INTEGER PRIMARY KEY is the rowid and never NULL; SQLite allows NULLs in other keys.
        rowid = bool(pk) and len(key) == 1 and native.upper() == "INTEGER"
        nullable, generated = not notnull and not rowid, hidden in (2, 3)
        draft.add_column(name, native, DIALECT.semantic_type(native), nullable, None, default, generated)


def _add_index(draft: TableDraft, name: str, rows: list[tuple[Any, ...]]) -> None:
    unique, origin, partial = rows[0][:3]
    columns = tuple(column for _, _, _, cid, column in rows if cid >= 0)
    own_name = None if name.startswith("sqlite_autoindex_") else name
    if origin == "pk" or not columns:
        return
    if not unique:
        draft.indexes.append(port.Index(columns, own_name))
    elif not partial and len(columns) == len(rows):
        draft.unique_keys.append(port.UniqueKey(columns, own_name))


def _spelled(draft: TableDraft, column: str) -> str:
    folded = _fold(column)
    return next((each.name for each in draft.columns if _fold(each.name) == folded), column)


def _fold(name: str) -> str:
    """Convert ASCII letters to lower case, as SQLite does to compare names."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


Result = TypeVar("Result")

BUSY_SECONDS = 5.0
"""How long to wait for another writer's lock."""

_HEADER = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_MOST_WAL_BYTES = 256 * 1024**2
"""The size of a WAL above which nothing is known of the file; SQLite itself keeps it to about 4 MB."""
_READING_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
    # A virtual table compiles these when it is first read; executing them fails in a read-only session.
    | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
)
_CLOSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "sqlite_log", "readfile", "writefile", "edit"})
_LIMITS = {
    # Limits `zeroblob`, `printf`, `replace` and aggregates, which otherwise build values of a gigabyte.
    sqlite3.SQLITE_LIMIT_LENGTH: 64 * 1024 * 1024,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_READING_PRAGMAS = frozenset(
    {"table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"}
    | {"database_list", "collation_list", "function_list", "compile_options", "data_version"}
)


class SqliteConnector(IsolatedConnector):
    """One read-only session on a SQLite file.

    The file is opened with `mode=ro`, which leaves nothing next to a database with a rollback journal. In WAL mode,
    that would create `-wal` and `-shm`, so such a file is opened `immutable` while its WAL is empty; if a writer then
    appears, the work is repeated in a new session. With rows in the WAL, it is opened `mode=ro`. Calls are serialized,
    so it can be used from several threads.
    """

    dialect = "sqlite"

    def __init__(self, spec: port.ConnectionSpec) -> None:
        self.path = source_path(spec)
        super().__init__(spec, str(self.path))
        require_file(spec, self.path, "SQLite database")
        self._lock = threading.RLock()
        self._connection = Session("sqlite", str(self.path), self._settings)
        self._immutable = False
        self._inode = 0
        self._header_of: tuple[int, ...] = ()
        self._has_wal = False
        self._run(lambda session: session.execute("SELECT count(*) FROM sqlite_schema"))

    def test(self, scope: port.Scope) -> port.ConnectionTest:
        """Return the version and the number of relations in scope; latency is measured with one `SELECT 1`."""

        def look(session: TimedSession) -> port.ConnectionTest:
            latency = base.milliseconds(lambda: session.execute("SELECT 1"))
            found = port.select((draft.ref for draft in list_relations(session)), scope)
            facts = ("the file is opened read-only",)
            return port.ConnectionTest(
                latency, f"SQLite {sqlite3.sqlite_version}", len(found.refs), False, privileges=facts
            )

        return self._run(look)

    def introspect(self, scope: port.Scope) -> port.DatabaseSchema:
        """Read the structure of all relations in scope; see `SqliteCatalog` for row estimates."""
        return self._run(lambda session: SqliteCatalog(session, self.path).read(scope))

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> port.QueryResult:
        """Run one read-only statement; an authorizer refuses everything except reads and descriptive pragmas."""

        def read(session: TimedSession) -> port.QueryResult:
            found = session.session.execute(
                sql,
                parameters,
                seconds=session.until - monotonic(),
                reading=True,
                max_rows=max_rows,
                max_bytes=base.MAX_RESULT_BYTES,
            )
            if not found.columns:
                raise read_only_error(self.where, "a statement that returns nothing is")
            return port.QueryResult(found.columns, tuple(found.rows), found.truncated)

        return self._run(read, sql)

    def close(self) -> None:
        """Close the file; calling it twice is harmless."""
        with self._lock:
            super().close()

    def _run(self, work: Callable[[TimedSession], Result], sql: str | None = None) -> Result:
        """Do the work on a session, without interference from a writer. `sql` is the user's statement, for errors."""
        with self._lock:
            for _ in range(3):
                before = self._fingerprint()
                failure: EngineError | None = None
                try:
                    result = work(self._timed_session(before))
                except EngineError as error:
                    failure = error
                if self._immutable and before != self._fingerprint():
                    self._close_file()
                elif failure is not None:
                    with self._translating(sql):
                        raise failure
                else:
                    return result
            raise self.failure("another program keeps writing to the file", hint="retry when it is done")

    def _timed_session(self, fingerprint: tuple[int, ...]) -> TimedSession:
        """Return the session for one statement, opened for the current file."""
        session = self._connection
        if session is None:
            raise self.failure("the connection is closed")
        immutable = self._is_wal(session, fingerprint) and fingerprint[-1] == 0
        if immutable != self._immutable:
            self._close_file()
        if not session.is_open:
            self._immutable = immutable
            self._inode = fingerprint[0]
            session.open()
        return TimedSession(session, monotonic() + self.statement_seconds)

    def _close_file(self) -> None:
        """Close the file, to reopen it for the next statement."""
        if self._connection is not None:
            self._connection.close()

    def _settings(self) -> Mapping[str, Any]:
        return {
            "uri": f"file:{quote(os.fsencode(self.path))}?mode=ro" + ("&immutable=1" if self._immutable else ""),
            "busy": BUSY_SECONDS,
            "limits": list(_LIMITS.items()),
            "actions": sorted(_READING_ACTIONS),
            "pragmas": sorted(_READING_PRAGMAS),
            "closed_functions": sorted(_CLOSED_FUNCTIONS),
        }

    def _fingerprint(self) -> tuple[int, ...]:
        """Values that change when the database is written to; the last one is the size of the WAL."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise self.failure(f"the file no longer exists: {error.strerror}") from error
        try:
            waiting = Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            waiting = 0
        return status.st_ino, status.st_mtime_ns, status.st_size, waiting

    def evidence(self) -> str | None:
        """Return a string that changes with the file, or None while there is a journal or if the file was replaced.

        It covers the header, with SQLite's own counter of changes, and the content of the WAL, in which commits are
        written first.
        """
        with self._lock:
            replaced = self._is_open() and self._inode != self._fingerprint()[0]
            waiting = base.has_bytes(Path(f"{self.path}-journal"))
            found = None if replaced or waiting else base.file_evidence([self.path], _HEADER_BYTES)
            wal = None if found is None else _wal_digest(Path(f"{self.path}-wal"))
        return None if found is None or wal is None else f"SQLite {sqlite3.sqlite_version} {found}{wal}"

    def _is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def _is_wal(self, session: Session, fingerprint: tuple[int, ...]) -> bool:
        """Return whether the file is in WAL mode according to its header, which is reread if the file changed."""
        if self._header_of != fingerprint:
            header = session.head(str(self.path), 20)
            if header and not header.startswith(_HEADER):
                message = "the file is not a SQLite database, or it is encrypted"
                raise self.failure(message, hint=Command("config", "set", f"connections.{self.id}.path", "PATH"))
            self._header_of, self._has_wal = fingerprint, header[18:20] == b"\x02\x02"
        return self._has_wal

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        name = error.code
        if name == "SQLITE_AUTH" or (name.startswith("SQLITE_READONLY") and sql):
            return read_only_error(self.where, "this kind of statement is")
        known = {
            "SQLITE_NOTADB": ("the file is not a SQLite database, or it is encrypted", "check the path"),
            "SQLITE_BUSY": ("another program has locked the file", "retry when it is done"),
            "SQLITE_LOCKED": ("another program has locked the file", "retry when it is done"),
            "SQLITE_CANTOPEN": (
                "the file, or its WAL, cannot be opened read-only",
                f"checkpoint its WAL in a writable folder: sqlite3 {self.path} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            ),
            "SQLITE_READONLY": (
                "a writer died and left a journal that must be played back first",
                f"open the file once with write access: sqlite3 {self.path} 'SELECT 1'",
            ),
            "SQLITE_CORRUPT": ("the file is damaged", f"sqlite3 {self.path} .recover"),
        }
        for prefix, (message, hint) in known.items():
            if name.startswith(prefix):
                # A damaged page only affects its rows; without a statement of the user, it belongs to the schema.
                damaged = name.startswith("SQLITE_CORRUPT") and sql is not None
                return self.failure(message, hint=hint, code="query" if damaged else "connection")
        return self.failure(str(error), code="query" if sql is not None else "connection")


def _wal_digest(path: Path) -> str | None:
    """Return a digest of the content of a WAL, empty without one, or None if it cannot be read or is too large.

    Its time of change would not do: SQLite sets its owner, and so this time, whenever root opens it.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if not size:
                return ""
            return None if size > _MOST_WAL_BYTES else f" {hashlib.file_digest(stream, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return ""
    except OSError:
        return None
