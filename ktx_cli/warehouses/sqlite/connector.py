"""Reads SQLite files in a process of their own, without writing a byte beside them."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import read_only_error
from ktx_cli.warehouses.location import require_file, source_path
from ktx_cli.warehouses.port import ConnectionSpec, ConnectionTest, DatabaseSchema, QueryResult, Scope, select
from ktx_cli.warehouses.sqlite.catalog import SqliteCatalog, list_relations
from ktx_cli.warehouses.worker.process import EngineError
from ktx_cli.warehouses.worker.session import IsolatedConnector, Session, TimedSession

Result = TypeVar("Result")

BUSY_SECONDS = 5.0
"""How long to wait for a writer's lock."""

_HEADER = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_READING_ACTIONS = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
    # A virtual table compiles these when it is first read; run, they fail in a read-only session.
    | {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
)
_CLOSED_FUNCTIONS = frozenset({"load_extension", "fts3_tokenizer", "sqlite_log", "readfile", "writefile", "edit"})
_LIMITS = {
    # Bounds `zeroblob`, `printf`, `replace` and aggregates, which else build values of a gigabyte.
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

    The file is opened with `mode=ro`, which leaves nothing beside a database with a rollback journal. In WAL mode that
    would create `-wal` and `-shm`, so such a file is opened `immutable` as long as its WAL is empty; when a writer
    then comes, the work is done again on a new session. With rows in the WAL it is opened `mode=ro`.
    Calls are serialised, so it may be used from several threads.
    """

    dialect = "sqlite"

    def __init__(self, spec: ConnectionSpec) -> None:
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

    def test(self, scope: Scope) -> ConnectionTest:
        """Look at the version and count the relations in scope; latency is one `SELECT 1`."""

        def look(session: TimedSession) -> ConnectionTest:
            latency = base.milliseconds(lambda: session.execute("SELECT 1"))
            found = select((draft.ref for draft in list_relations(session)), scope)
            return ConnectionTest(
                latency_ms=latency,
                server_version=f"SQLite {sqlite3.sqlite_version}",
                tables=len(found.refs),
                can_write=False,
                privileges=("the file is opened read-only",),
            )

        return self._run(look)

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope; see `SqliteCatalog` for what row estimates are."""
        return self._run(lambda session: SqliteCatalog(session, self.path).read(scope))

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one reading statement; an authorizer refuses everything but reads and descriptive pragmas."""

        def read(session: TimedSession) -> QueryResult:
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
            return QueryResult(found.columns, tuple(found.rows), found.truncated)

        return self._run(read, sql)

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        with self._lock:
            super().close()

    def _run(self, work: Callable[[TimedSession], Result], sql: str | None = None) -> Result:
        """Do the work on a session that saw no writer pass by; `sql` is the user's statement, for its errors."""
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
            raise self.failure("another program keeps writing to the file", hint="try again when it is done")

    def _timed_session(self, fingerprint: tuple[int, ...]) -> TimedSession:
        """Return the session, open as the file is now, for the time of one statement."""
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
        """Close the file, to open it anew for the next statement."""
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
        """What changes when somebody writes; the last number is the size of the WAL."""
        try:
            status = self.path.stat()
        except OSError as error:
            raise self.failure(f"the file is gone: {error.strerror}") from error
        try:
            waiting = Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            waiting = 0
        return status.st_ino, status.st_mtime_ns, status.st_size, waiting

    def evidence(self) -> str | None:
        """Return a text that differs whenever the file does; None while a journal waits, or the file was replaced.

        It covers the header, with SQLite's own counter of changes.
        """
        with self._lock:
            replaced = self._is_open() and self._inode != self._fingerprint()[0]
            waiting = any(base.has_bytes(Path(f"{self.path}{end}")) for end in ("-wal", "-journal"))
            found = None if replaced or waiting else base.file_evidence([self.path], _HEADER_BYTES)
        return None if found is None else f"SQLite {sqlite3.sqlite_version} {found}"

    def _is_open(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def _is_wal(self, session: Session, fingerprint: tuple[int, ...]) -> bool:
        """Whether the file is in WAL mode, which its header says: it is read again when the file has changed."""
        if self._header_of != fingerprint:
            header = session.head(str(self.path), 20)
            if header and not header.startswith(_HEADER):
                raise self.failure(
                    "the file is not a SQLite database, or it is encrypted",
                    hint=Command("config", "set", f"connections.{self.id}.path", "PATH"),
                )
            self._header_of, self._has_wal = fingerprint, header[18:20] == b"\x02\x02"
        return self._has_wal

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        name = error.code
        if name == "SQLITE_AUTH" or (name.startswith("SQLITE_READONLY") and sql):
            return read_only_error(self.where, "what this statement does is")
        known = {
            "SQLITE_NOTADB": ("the file is not a SQLite database, or it is encrypted", "check the path"),
            "SQLITE_BUSY": ("another program has locked the file", "try again when it is done"),
            "SQLITE_LOCKED": ("another program has locked the file", "try again when it is done"),
            "SQLITE_CANTOPEN": (
                "the file, or its WAL, cannot be opened read-only",
                f"finish its WAL where the folder is writable: sqlite3 {self.path} 'PRAGMA wal_checkpoint(TRUNCATE)'",
            ),
            "SQLITE_READONLY": (
                "a writer died and left a journal that must be played back first",
                f"open it once with write access: sqlite3 {self.path} 'SELECT 1'",
            ),
            "SQLITE_CORRUPT": ("the file is damaged", f"sqlite3 {self.path} .recover"),
        }
        for prefix, (message, hint) in known.items():
            if name.startswith(prefix):
                # A damaged page costs what stands on it; without a statement of the user's it was the schema's.
                damaged = name.startswith("SQLITE_CORRUPT") and sql is not None
                return self.failure(message, hint=hint, code="query" if damaged else "connection")
        return self.failure(str(error), code="query" if sql is not None else "connection")
