"""Reads SQLite files through the standard library, without writing a byte beside them."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from ktx_cli.connectors import base
from ktx_cli.connectors.paths import require_file, source_path
from ktx_cli.connectors.port import ConnectionSpec, ConnectionTest, DatabaseSchema, QueryResult, Scope
from ktx_cli.connectors.scope import select
from ktx_cli.connectors.sqlite_catalog import SqliteCatalog, list_relations
from ktx_cli.connectors.statements import read_only_error
from ktx_cli.core.errors import SourceError

Result = TypeVar("Result")

BUSY_SECONDS = 5.0
"""How long to wait for a writer's lock."""

_HEADER = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_CHECK_STEPS = 10_000
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


class SqliteConnector(base.BaseConnector):
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
        self._session: sqlite3.Connection | None = None
        self._immutable = False
        self._inode = 0
        self._run(lambda session: session.execute("SELECT count(*) FROM sqlite_schema").fetchone())

    def test(self, scope: Scope) -> ConnectionTest:
        """Look at the version and count the relations in scope; latency is one `SELECT 1`."""

        def look(session: sqlite3.Connection) -> ConnectionTest:
            latency = base.milliseconds(lambda: session.execute("SELECT 1").fetchone())
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

        def read(session: sqlite3.Connection) -> QueryResult:
            session.set_authorizer(_authorize)
            try:
                cursor = session.execute(sql, tuple(parameters))
                rows, more = base.capped(cursor, max_rows)
                columns = tuple(each[0] for each in cursor.description or ())
                cursor.close()
            finally:
                session.set_authorizer(None)
            if not columns:
                raise read_only_error(self.where, "a statement that returns nothing is")
            return QueryResult(columns, rows, more)

        return self._run(read, sql)

    def interrupt(self) -> None:
        """See `Interruptible`."""
        session = self._session
        try:
            if session is not None:
                session.interrupt()
        except sqlite3.ProgrammingError:  # it was closed meanwhile, so nothing is under way
            return

    def close(self) -> None:
        """Close the file; harmless when called twice."""
        with self._lock:
            if self._session is not None:
                self._session.close()
                self._session = None

    def _run(self, work: Callable[[sqlite3.Connection], Result], sql: str | None = None) -> Result:
        """Do the work on a session that saw no writer pass by; `sql` is the user's statement, for its errors."""
        with self._lock:
            for _ in range(3):
                before = self._fingerprint()
                failure: Exception | None = None
                try:
                    result = work(self._open(before))
                except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
                    failure = error
                if self._immutable and before != self._fingerprint():
                    self.close()
                elif failure is not None:
                    raise self._translated(failure, sql) from failure
                else:
                    return result
            raise self.failure("another program keeps writing to the file", hint="try again when it is done")

    def _open(self, fingerprint: tuple[int, ...]) -> sqlite3.Connection:
        immutable = self._is_wal() and fingerprint[-1] == 0
        if self._session is not None and immutable != self._immutable:
            self.close()
        if self._session is None:
            self._immutable = immutable
            self._inode = fingerprint[0]
            uri = f"file:{quote(str(self.path))}?mode=ro" + ("&immutable=1" if immutable else "")
            self._session = sqlite3.connect(
                uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._session.text_factory = _text
            self._session.execute("PRAGMA query_only = 1")
            for limit, value in _LIMITS.items():
                self._session.setlimit(limit, value)
        deadline = time.monotonic() + self.statement_seconds
        self._session.set_progress_handler(lambda: time.monotonic() > deadline, _CHECK_STEPS)
        return self._session

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
            replaced = self._session is not None and self._inode != self._fingerprint()[0]
            waiting = any(base.has_bytes(Path(f"{self.path}{end}")) for end in ("-wal", "-journal"))
            found = None if replaced or waiting else base.file_evidence([self.path], _HEADER_BYTES)
        return None if found is None else f"SQLite {sqlite3.sqlite_version} {found}"

    def _is_wal(self) -> bool:
        try:
            with self.path.open("rb") as stream:
                header = stream.read(20)
        except OSError as error:
            raise self.failure(f"cannot read the file: {error.strerror}") from error
        if header and not header.startswith(_HEADER):
            raise self.failure(
                "the file is not a SQLite database, or it is encrypted",
                hint=f"ktx config set connections.{self.id}.path PATH",
            )
        return header[18:20] == b"\x02\x02"

    def _translated(self, error: Exception, sql: str | None) -> SourceError:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":
            return self.timeout(of_the_user=sql is not None)
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


def _authorize(action: int, first: str | None, second: str | None, *rest: str | None) -> int:
    if action in _READING_ACTIONS:
        denied = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _CLOSED_FUNCTIONS
        return sqlite3.SQLITE_DENY if denied else sqlite3.SQLITE_OK
    reading = action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _READING_PRAGMAS
    return sqlite3.SQLITE_OK if reading else sqlite3.SQLITE_DENY


def _text(raw: bytes) -> str:
    # SQLite stores whatever bytes a program gave it as text.
    return raw.decode("utf-8", "replace")
