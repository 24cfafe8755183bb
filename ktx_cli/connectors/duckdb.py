"""Reads DuckDB files in a session that can neither write nor leave the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ktx_cli.connectors import base
from ktx_cli.connectors.duckdb_bounds import require_bounded_calls
from ktx_cli.connectors.duckdb_catalog import DuckDbCatalog, file_reason, list_relations
from ktx_cli.connectors.paths import require_file, source_path
from ktx_cli.connectors.port import ConnectionSpec, ConnectionTest, DatabaseSchema, QueryResult, Scope
from ktx_cli.connectors.scope import select
from ktx_cli.connectors.statements import leading_keyword, read_only_error
from ktx_cli.core.errors import SourceError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CLOSED_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "2GiB",
    "threads": "4",
    # Without it a large query spills into `<database>.tmp` beside the user's file.
    "temp_directory": "",
}
"""The settings of a DuckDB session that touches nothing but its database."""

_HEADER_BYTES = 3 * 4096
_ZONED = "TIMESTAMP WITH TIME ZONE"


class DuckDbSession(base.BaseConnector):
    """What DuckDB files and folders of data files have in common: one reading statement at a time and its rows.

    Every statement runs on a cursor of its own, so temporary objects, variables and `USE` do not outlive it.
    """

    dialect = "duckdb"
    _connection: DuckDBPyConnection | None = None
    _running: DuckDBPyConnection | None = None

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Run one SELECT (or what DuckDB counts as one: FROM, SHOW, DESCRIBE, SUMMARIZE ...) or EXPLAIN of one.

        Times with a zone come back in UTC.
        """
        with self._cursor(sql) as cursor:
            statement = self._reading_statement(cursor, sql)
            require_bounded_calls(cursor, statement, self.where)
            return _fetch(cursor, statement, list(parameters), max_rows)

    def close(self) -> None:
        """Close the database; harmless when called twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def interrupt(self) -> None:
        """See `Interruptible`."""
        import duckdb

        running = self._running
        try:
            if running is not None:
                running.interrupt()
        except duckdb.Error:  # it was closed meanwhile, so nothing is under way
            return

    def _session(self) -> DuckDBPyConnection:
        if self._connection is None:
            raise self.failure("the connection is closed")
        return self._connection

    @contextmanager
    def _cursor(self, sql: str | None = None) -> Iterator[DuckDBPyConnection]:
        """Yield a cursor that is interrupted when its time is up, and translate what fails on it."""
        import duckdb

        cursor = self._session().cursor()
        timer = threading.Timer(self.statement_seconds, cursor.interrupt)
        timer.daemon = True
        timer.start()
        self._running = cursor
        try:
            yield cursor
        except duckdb.InterruptException as error:
            raise self.timeout(of_the_user=sql is not None) from error
        except (duckdb.Error, UnicodeError, OverflowError) as error:
            raise self._translated(error, sql) from error
        finally:
            self._running = None
            timer.cancel()
            cursor.close()

    def _translated(self, error: Exception, sql: str | None) -> SourceError:
        text = str(error)
        if sql is not None and "attached in read-only mode" in text:
            return read_only_error(self.where, "what this statement does is")
        message = text.partition("\n\nLINE ")[0]
        return self.failure(message, code="query" if sql is not None else "connection")

    def _reading_statement(self, cursor: DuckDBPyConnection, sql: str) -> str:
        """Return the text of the one statement, without what follows its semicolon, when it reads."""
        # For files this is the fence: COPY and ATTACH may write to a path that may be read.
        import duckdb

        statements = cursor.extract_statements(sql)
        if len(statements) != 1:
            raise read_only_error(self.where, "more than one statement (or none) is")
        kind = statements[0].type
        if kind == duckdb.StatementType.EXPLAIN:
            # EXPLAIN ANALYZE runs what it explains; ANALYZE as a statement of its own is no SELECT.
            _, behind = leading_keyword(sql)
            explained = cursor.extract_statements(sql[behind:])
            kind = explained[0].type if len(explained) == 1 else kind
        if kind != duckdb.StatementType.SELECT:
            raise read_only_error(self.where, f"{kind.name} is")
        return _without_end(str(statements[0].query))


class DuckDbConnector(DuckDbSession):
    """One read-only session on a DuckDB file."""

    def __init__(self, spec: ConnectionSpec) -> None:
        self.path = source_path(spec)
        super().__init__(spec, str(self.path))
        require_file(spec, self.path, "DuckDB database")
        self._require_duckdb()
        self._opened = self._fingerprint()
        self._connection = self._open()

    def test(self, scope: Scope) -> ConnectionTest:
        """Look at the version and count the relations in scope; latency is one `SELECT 1`."""
        with self._cursor() as cursor:
            latency = base.milliseconds(lambda: cursor.execute("SELECT 1").fetchone())
            found = select((draft.ref for draft in list_relations(cursor)), scope, catalog=_catalog(cursor))
            return ConnectionTest(
                latency_ms=latency,
                server_version=_version(cursor),
                tables=len(found.refs),
                can_write=False,
                privileges=("the file is opened read-only",),
            )

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """Read the structure of all relations in scope; row estimates are DuckDB's own."""
        with self._cursor() as cursor:
            catalog = DuckDbCatalog(cursor)
            tables = catalog.read(scope, catalog=_catalog(cursor))
            return DatabaseSchema(tables, tuple(catalog.problems), _version(cursor))

    def evidence(self) -> str | None:
        """Return a text that differs whenever the file does; None while a WAL waits, or the file was replaced.

        It covers the headers, with DuckDB's own counter of changes.
        """
        import duckdb

        waiting = base.has_bytes(self.path.with_name(f"{self.path.name}.wal"))
        found = None if waiting else base.file_evidence([self.path], _HEADER_BYTES)
        return None if found is None or self._fingerprint() != self._opened else f"DuckDB {duckdb.__version__} {found}"

    def _fingerprint(self) -> tuple[int, ...]:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _translated(self, error: Exception, sql: str | None) -> SourceError:
        why = file_reason(error)
        if why is None:
            return super()._translated(error, sql)
        return self.failure(f"the statement {why}", code="query" if sql is not None else "connection")

    def _require_duckdb(self) -> None:
        with self.path.open("rb") as stream:
            header = stream.read(16)
        if header[8:12] == b"DUCK":
            return
        driver = "sqlite" if header.startswith(b"SQLite format 3") else None
        raise self.failure(
            "the file is not a DuckDB database",
            hint=f"ktx config set connections.{self.id}.driver {driver}"
            if driver
            else f"ktx config set connections.{self.id}.path PATH",
        )

    def _open(self) -> DuckDBPyConnection:
        import duckdb

        try:
            return duckdb.connect(str(self.path), read_only=True, config=dict(CLOSED_SETTINGS))
        except duckdb.Error as error:
            text = str(error)
            if "Could not set lock" in text:
                raise self.failure(
                    f"another program has the file open for writing: {text.partition('. See')[0]}",
                    hint="close that program, or give ktx a copy of the file",
                ) from error
            if "different configuration" in text:
                raise self.failure(
                    "this process already has the file open with other settings", hint="close that session first"
                ) from error
            hint = "check that this version of DuckDB can read it, and that it is neither damaged nor encrypted"
            raise self.failure(text, hint=hint) from error


def _fetch(cursor: DuckDBPyConnection, sql: str, parameters: list[Any], max_rows: int) -> QueryResult:
    cursor.execute(sql, parameters)
    columns = tuple(each[0] for each in cursor.description or ())
    types = [str(each[1]) for each in cursor.description or ()]
    zoned = [kind == _ZONED for kind in types]
    if any(_ZONED in kind for kind in types):
        # Fetching such a value needs the package pytz, so let DuckDB turn it into UTC, or text inside nested values.
        cursor.execute(_without_zones(sql, types), parameters)
    rows, more = base.capped(iter(cursor.fetchone, None), max_rows)
    kept = (tuple(_zoned(value) if zone else value for value, zone in zip(row, zoned, strict=True)) for row in rows)
    return QueryResult(columns, tuple(kept), more)


def _without_end(sql: str) -> str:
    """Cut a statement at its semicolon; DuckDB leaves a comment behind it on."""
    import duckdb

    text = sql.encode()
    for offset, kind in duckdb.tokenize(sql):
        if kind == duckdb.token_type.operator and text[offset : offset + 1] == b";":
            return text[:offset].decode()
    return sql


def _without_zones(sql: str, types: Sequence[str]) -> str:
    names = [f"c{position}" for position in range(len(types))]
    values = [
        f"system.main.timezone('UTC', {name})" if kind == _ZONED else f"{name}::VARCHAR" if _ZONED in kind else name
        for name, kind in zip(names, types, strict=True)
    ]
    return f"SELECT {', '.join(values)} FROM (\n{sql}\n) AS result({', '.join(names)})"


def _zoned(value: Any) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _catalog(cursor: DuckDBPyConnection) -> str:
    return str(_one(cursor, "SELECT system.main.current_database()"))


def _version(cursor: DuckDBPyConnection) -> str:
    return f"DuckDB {_one(cursor, 'SELECT system.main.version()')}"


def _one(cursor: DuckDBPyConnection, sql: str) -> Any:
    row = cursor.execute(sql).fetchone()
    return row[0] if row else None
