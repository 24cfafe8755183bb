"""Read a catalog of a Spark Connect server.

Spark has no read-only sessions: a command such as DROP TABLE runs as soon as the server has parsed it. A query is
therefore sent within a query of ktx, which the server cannot parse if it contains a command, and with session settings
that keep it from files and environment variables (see `session.SETTINGS`).
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final
from urllib.request import getproxies, proxy_bypass

from ktx_cli.core import Command, Hint
from ktx_cli.warehouses import base, cloud, server
from ktx_cli.warehouses.base import TableDraft, leading_keyword, read_only_error
from ktx_cli.warehouses.port import ConnectionSpec, Index, QueryResult, Scope, Table, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, tagged
from ktx_cli.warehouses.spark.session import Session, UnreadableValueError, spark_address

_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES"})
_JAVA: Final = frozenset({"reflect", "try_reflect", "java_method"})
_AGAIN: Final = 0.2
"""Seconds until a second interrupt, for a statement that the server had not registered at the first one."""
_CANCELED: Final = ("OPERATION_CANCELED", "OPERATION_ABANDONED")
_LOG_IN: Final = ("UNAUTHENTICATED", "PERMISSION_DENIED")
_CONDITION: Final = re.compile(r"^\[[\w.]+\] ")
_BEHIND: Final = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


class SparkConnector(cloud.CloudConnector):
    """Sessions on a Spark Connect server, each in one of its catalogs."""

    dialect = "spark"
    secret_keys = ("token",)
    reading = frozenset({*_QUERIES, "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        self._spark_address = address = spark_address(spec)
        self._formats: dict[TableRef, str] = {}
        catalog = str(spec.options.get("catalog") or "")
        place = f"{address}/{catalog}" if catalog else str(address)
        super().__init__(spec, ServerAddress(address.host, address.port, catalog, address.user, address.token), place)

    def _check(self, sql: str) -> None:
        super()._check(sql)
        require_no_program(sql, self.where)

    def _open(self) -> Session:
        self._reach()
        session = Session(self._spark_address)
        try:
            session.prepare(self.address.database)
        except BaseException:
            session.cut()
            raise
        return session

    def _reach(self) -> None:
        """Raise `OSError` for an unreachable server; the client would wait longer for it."""
        host = self.address.host
        if not {"grpc", "https", "http", "all"} & getproxies().keys() or proxy_bypass(host):
            server.open_socket(host, self.address.port, base.CONNECT_SECONDS).close()

    def _fetch(self, session: Session, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._time_limit(session):
            return [row for _, rows in session.rows(tagged(sql.strip()), parameters) for row in rows]

    def _run(self, session: Session, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        is_query = leading_keyword(sql)[0] in _QUERIES
        text = enclosed(sql, max_rows + 1) if is_query else tagged(sql)
        with self._cancellable(lambda: self._stop(session)), closing(session.rows(text, parameters)) as batches:
            columns, first = next(batches, ((), []))
            rest = (row for _, batch in batches for row in batch)
            rows, cut = base.capped(itertools.chain(first, rest), max_rows)
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    @contextmanager
    def _time_limit(self, session: Session) -> Iterator[None]:
        """Interrupt the statement in the block at its time limit, and close the session if that does not stop it."""
        done = threading.Event()

        def watch() -> None:
            seconds, left = self.statement_seconds, base.STOP_SECONDS
            while not done.wait(seconds):
                if left <= 0:
                    session.cut()
                    return
                self._stop(session)
                seconds, left = _AGAIN, left - _AGAIN

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        except Exception:
            if session.broken:
                raise self.unstopped() from None
            raise
        finally:
            done.set()
            watcher.join()

    def _stop(self, session: Session) -> bool:
        """Interrupt the running statement, and return whether that is certain."""
        try:
            return session.interrupt()
        except self._client_errors():
            return False  # It no longer has a connection, so nothing is running.

    def _reusable(self, session: Session) -> bool:
        return not session.broken

    def _client_errors(self) -> tuple[type[Exception], ...]:
        from grpc import RpcError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        # The last one: the channel is closed.
        return (PySparkException, RpcError, UnreadableValueError, ValueError)

    def _text(self, error: Exception) -> str:
        # The lines after the first one are the plan of the statement, or its text with a mark.
        message = str(getattr(error, "getMessage", lambda: None)() or error).strip()
        return _CONDITION.sub("", _BEHIND.sub("", message)).partition("\n")[0].strip()

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, OSError):
            return str(error), self._connection_hint(""), "connection"
        return super()._describe(error)

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        from pyspark.errors import PySparkException
        from pyspark.errors.exceptions.connect import SparkConnectGrpcException

        if isinstance(error, UnreadableValueError):
            return text, "cast the value to STRING", "query"
        condition = (error.getCondition() if isinstance(error, PySparkException) else None) or ""
        if condition.startswith(_CANCELED) or any(mark in str(error) for mark in _CANCELED):
            return "", None, "timeout"
        if condition == "CATALOG_NOT_FOUND":
            return text, Command("config", "set", f"connections.{self.id}.catalog", "NAME"), "connection"
        if condition.startswith("INVALID_HANDLE") or not isinstance(error, PySparkException):
            return text, self._connection_hint(text), "connection"
        if type(error) is SparkConnectGrpcException and not condition:
            return text, self._connection_hint(str(error)), "connection"
        return text, None, "query"

    def _connection_hint(self, text: str) -> str:
        if any(mark in text for mark in _LOG_IN):
            return Command("config", "set", f"connections.{self.id}.token", "env:SPARK_TOKEN")
        return Hint("start the Spark Connect server, or check {}", self._settings("host", "port"))

    def _identity(self, read: Reader) -> cloud.Identity:
        ((version, user, catalog),) = read("SELECT version(), current_user(), current_catalog()")
        return cloud.Identity(f"Spark {str(version).partition(' ')[0]}", user, catalog)

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        return SparkCatalog(read, parts, identity.database, scope.schemas, self._formats)

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[Table]) -> cloud.Rows:
        """See `CloudConnector`. Only Iceberg and Delta tables have a log of their changes, in which nothing is missing.

        Spark reads the history of a Delta table in no other statement, so each needs its own. The formats are those of
        the last introspection.
        """
        catalog = self._identity(read).database
        formats = {table.ref: self._formats.get(table.ref) for table in tables}
        iceberg = [ref for ref, kind in formats.items() if kind == "iceberg"]
        rows = cloud.read_of_each(read, lambda ref: log_sql(catalog, ref), iceberg)
        for ref in (ref for ref, kind in formats.items() if kind == "delta"):
            history = parts("history", history_sql(catalog, ref))
            rows += [(ref.schema, ref.name, f"{version} {moment}") for version, moment, *_ in history[:1]]
            if len(parts.problems) >= cloud.MOST_FAILURES:
                break
        return rows

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        return cloud.Rights(None, ("Spark lists no privileges and has no read-only sessions",))


def require_no_program(sql: str, where: str) -> None:
    """Raise `SourceError` (code `read_only`) for a query that runs a program or a Java method on the server."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    try:
        tokens = tokenize(sql, read="spark")
    except SqlglotError:
        raise read_only_error(where, "a statement that ktx cannot parse is") from None
    for token, behind in zip(tokens, [*tokens[1:], None], strict=True):
        if token.token_type.name == "STRING":
            continue
        if token.text.lower() in _JAVA:
            raise read_only_error(where, f"a statement with `{token.text.lower()}` is")
        if token.text.upper() == "IDENTIFIER" and behind is not None and behind.token_type.name == "L_PAREN":
            raise read_only_error(where, "a statement that names an object by a text is")
        if token.text.upper() == "USING" and behind is not None and behind.token_type.name.endswith("STRING"):
            raise read_only_error(where, "a statement that runs a script is")


def enclosed(sql: str, rows: int) -> str:
    """Return a query with at most the given number of rows, which Spark cannot parse if it contains a command."""
    # The line ends keep a comment at the end of the statement from closing the parenthesis.
    return tagged(f"SELECT * FROM (\n{sql.strip().rstrip(';')}\n) LIMIT {rows}")


_TEMPORARY: Final = ("isTemporary", "temporary")
_KINDS: Final = {
    "VIEW": TableKind.VIEW,
    "METRIC_VIEW": TableKind.VIEW,
    "MATERIALIZED_VIEW": TableKind.MATERIALIZED_VIEW,
    "FOREIGN": TableKind.FOREIGN,
}
_ROWS: Final = re.compile(r"(\d+) rows")


class SparkCatalog:
    """A single read of a catalog: one statement for its schemas, one for each schema, one for each table in scope.

    The format of each table (`parquet`, `iceberg`, `delta`) is added to `formats`.
    """

    def __init__(
        self, read: Reader, parts: PartReader, catalog: str, schemas: Sequence[str] | None, formats: dict[TableRef, str]
    ) -> None:
        self._formats = formats
        self._read = read
        self._parts = parts
        self._catalog = catalog
        self._schemas = schemas
        self._drafts: dict[TableRef, TableDraft] = {}
        self._views: list[tuple[Any, ...]] = []

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views of the schemas in scope."""
        schemas = [str(row[0]) for row in self._read(f"SHOW NAMESPACES IN {self._name()}")]
        for schema in schemas if self._schemas is None else [name for name in self._schemas if name in schemas]:
            rows = self._parts(f"tables of `{schema}`", f"SHOW TABLES IN {self._name(schema)}")
            for namespace, name, is_temporary in rows:
                ref = TableRef(schema, str(name))
                if namespace and not is_temporary:
                    self._drafts[ref] = TableDraft(ref, TableKind.TABLE)
        return dict(self._drafts)

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns. The kind, comment and number of rows of a relation come from the same statement."""
        return [row for ref in sorted(self._drafts) if ref.schema in schemas for row in self._described(ref)]

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Spark's own catalog has no keys."""
        return []

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Spark's own catalog has no keys."""
        return []

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the SQL of the views."""
        return self._views

    def _described(self, ref: TableRef) -> Iterator[tuple[Any, ...]]:
        assert ref.schema is not None  # Every table of Spark is in a schema.
        path = self._name(ref.schema, ref.name)
        parts = sections(self._parts(f"`{ref}`", f"DESCRIBE TABLE EXTENDED {path}"))
        details = {name: value for name, value, _ in parts.get("# Detailed Table Information", ())}
        draft = self._drafts[ref]
        draft.kind = _KINDS.get(str(details.get("Type")), TableKind.TABLE)
        self._formats[ref] = str(details.get("Provider") or "").lower() if draft.kind is TableKind.TABLE else ""
        draft.comment = details.get("Comment") or None
        rows = _ROWS.search(details.get("Statistics") or "")
        draft.row_estimate = int(rows[1]) if rows else None
        partition = tuple(name for name, _, _ in parts.get("# Partition Information", ()) if not name.startswith("# "))
        if partition:
            draft.indexes.append(Index(partition, "partition"))
        if draft.kind is TableKind.VIEW:
            self._views.append((ref.schema, ref.name, details.get("View Text")))
        defaults = {name: value for name, _, value in parts.get("# Column Default Values", ())}
        for name, kind, comment in parts.get("", ()):
            yield ref.schema, ref.name, name, kind, True, comment, defaults.get(name), False

    def _name(self, *names: str) -> str:
        return cloud.identifier("spark", self._catalog, *names)


def log_sql(catalog: str, ref: TableRef) -> str:
    """Return the query for one row with schema, table and a text that changes with the log of an Iceberg table.

    Each change, of its structure too, has a metadata file.
    """
    path = cloud.identifier("spark", catalog, str(ref.schema), ref.name, "metadata_log_entries")
    names = cloud.texts("spark", [str(ref.schema), ref.name])
    return f"SELECT {names}, concat(count(*), ' ', bit_xor(xxhash64(file))) FROM {path}"


def history_sql(catalog: str, ref: TableRef) -> str:
    """Return the statement for the last change of a Delta table: its version, its time, and more."""
    return f"DESCRIBE HISTORY {cloud.identifier('spark', catalog, str(ref.schema), ref.name)} LIMIT 1"


def sections(rows: Sequence[tuple[Any, ...]]) -> dict[str, list[tuple[str, str, str | None]]]:
    """Return the rows of DESCRIBE TABLE EXTENDED by heading; those of the columns, which come first, have none.

    Only a heading has no second value, so a column may have any name.
    """
    found: dict[str, list[tuple[str, str, str | None]]] = {}
    heading = ""
    for name, value, comment in rows:
        if value or (heading and name and not name.startswith("# ")):
            found.setdefault(heading, []).append((str(name), str(value), comment))
        elif name:
            heading = str(name)
    return found
