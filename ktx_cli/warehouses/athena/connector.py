"""Read a catalog of Athena. Its structure comes from the metadata calls of the service, which scan nothing.

Athena has no read-only sessions, so only queries are sent, and the permissions of the user decide on the rest. Each
statement is asked about until it ends, which is when ktx stops it at its time limit and at its limit of bytes.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ktx_cli.core import Command, Hint, SettingPath, monotonic
from ktx_cli.warehouses import base, cloud
from ktx_cli.warehouses.base import TableDraft, leading_keyword, read_only_error, require_reading
from ktx_cli.warehouses.dialect import value_list
from ktx_cli.warehouses.port import ConnectionSpec, Index, QueryResult, Scope, TableKind, TableRef
from ktx_cli.warehouses.server import PartReader, Reader, ServerAddress, tagged
from ktx_cli.warehouses.trino.connector import passes_through

MAX_BYTES_SCANNED: Final = 100 * 1024**3
"""The bytes that one statement may scan, unless `max_bytes_scanned` is set: 100 GiB."""

_WORKGROUP: Final = "primary"
_CATALOG: Final = "AwsDataCatalog"
_POLL_SECONDS: Final = 0.25
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_LOG_IN: Final = (
    "UnrecognizedClientException", "InvalidSignatureException", "ExpiredToken", "AccessDenied", "credentials",
    "The security token", "profile",
)  # fmt: skip
_FAILED_CALL: Final = re.compile(r"An error occurred \((\w+)\) when calling the \w+ operation[^:]*: ")
_EXPLAINED: Final = re.compile(
    r"\s+(?:analyze\s+(?:verbose\s+)?|\((?:\s*(?:format|type)\s+\w+\s*,?)+\)\s*)?", re.IGNORECASE
)
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")


class StoppedError(Exception):
    """Raised for a statement that ktx stopped."""


@dataclass(slots=True)
class Statement:
    """A running statement. `reason`: why it was stopped (`timeout`, `bytes`), if it was; `since`: when."""

    deadline: float
    reason: str = ""
    since: float = 0.0
    scanned: int = 0


class AthenaConnector(cloud.CloudConnector):
    """Statements in a workgroup, each in the same catalog; nothing is sent until the first one."""

    dialect = "athena"
    secret_keys: ClassVar[tuple[str, ...]] = ("secret_access_key", "session_token")
    schema_keys: ClassVar[tuple[str, ...]] = ("databases",)
    reading = frozenset({*_QUERIES, "SHOW", "EXPLAIN", "DESCRIBE", "DESC"})

    def __init__(self, spec: ConnectionSpec) -> None:
        region = cloud.required(spec, "region", "eu-central-1")
        self.workgroup = str(spec.options.get("workgroup") or _WORKGROUP)
        self.max_bytes = int(spec.options.get("max_bytes_scanned") or MAX_BYTES_SCANNED)
        self._statements: dict[str, Statement] = {}
        self._lock = threading.Lock()
        self._client: Any = None
        self._workgroup: Mapping[str, Any] = {}
        catalog = str(spec.options.get("catalog") or _CATALOG)
        address = ServerAddress(f"athena.{region}.amazonaws.com", 443, catalog, "", "")
        super().__init__(spec, address, f"{region}/{self.workgroup}/{catalog}")

    def interrupt(self) -> None:
        """See `Interruptible`: the running statements are stopped when they are next asked about."""
        with self._lock:
            for statement in self._statements.values():
                statement.deadline = 0.0

    def _check(self, sql: str) -> None:
        super()._check(sql)
        word, end = leading_keyword(sql)
        query = sql
        if word == "EXPLAIN":
            # EXPLAIN ANALYZE runs the statement.
            options = _EXPLAINED.match(sql, end)
            query = sql[options.end() if options else end :]
            require_reading(query, _QUERIES, self.where)
        if leading_keyword(query)[0] in _QUERIES:
            self._require_readable(query)
        cloud.require_query(query, self.dialect, self.where)
        if passes_through(sql, self.where):
            raise read_only_error(self.where, "a statement with `system.query` is")

    def _require_readable(self, query: str) -> None:
        """Raise `SourceError` (code `query`) for a query that ktx cannot parse, and therefore does not send."""
        from sqlglot import parse_one
        from sqlglot.errors import SqlglotError

        try:
            parse_one(query, read=self.dialect)
        except (SqlglotError, RecursionError):
            hint = "close every parenthesis and quote, and complete the last clause"
            raise self.failure("the statement cannot be parsed", hint=hint, code="query") from None

    def _open(self) -> Any:
        # The client logs every failed call with its stack, which goes to standard error.
        logging.getLogger("pyathena").setLevel(logging.CRITICAL)
        import pyathena
        import pyathena.connection

        options = self.options
        keys = {
            "aws_access_key_id": options.get("access_key_id"),
            "aws_secret_access_key": options.get("secret_access_key"),
            "aws_session_token": options.get("session_token"),
            "endpoint_url": options.get("endpoint_url"),
        }
        limits = {"connect_timeout": base.CONNECT_SECONDS, "read_timeout": base.STATEMENT_SECONDS}
        config = vars(pyathena.connection)["Config"](
            **limits, retries={"mode": "standard", "total_max_attempts": 3}, user_agent_extra="ktx"
        )
        with _as_error_of_pyathena():
            self._client = pyathena.connect(
                region_name=str(options["region"]),
                profile_name=options.get("profile"),
                work_group=self.workgroup,
                s3_staging_dir=str(options.get("s3_staging_dir") or ""),
                catalog_name=self.address.database,
                schema_name="default",
                poll_interval=_POLL_SECONDS,
                config=config,
                on_poll=self._watch,
                glue_metadata_fallback=False,
                **{key: value for key, value in keys.items() if value},
            )
        self._workgroup = self._read_workgroup()
        return self._client

    def _read_workgroup(self) -> Mapping[str, Any]:
        """Return the configuration of the workgroup; empty for a user that may not read it.

        This is the first call, so it also tells whether the service can be reached.
        """
        from pyathena.error import OperationalError

        try:
            found: Mapping[str, Any] = self._call("get_work_group", WorkGroup=self.workgroup)["WorkGroup"]
        except OperationalError as error:
            if "AccessDenied" in str(error):
                return {}
            raise
        configuration: Mapping[str, Any] = found.get("Configuration", {})
        return configuration

    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._executed(session, sql.strip(), parameters) as cursor:
            return [tuple(row) for row in cursor]

    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> QueryResult:
        with self._executed(session, sql, parameters) as cursor:
            rows, cut = base.capped(iter(cursor.fetchone, None), max_rows)
            columns = tuple(each[0] for each in cursor.description or ())
        if not columns:
            raise read_only_error(self.where, "a statement that returns nothing is")
        return QueryResult(columns, rows, cut)

    @contextmanager
    def _executed(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the cursor of a statement that has ended. Parameters are sent as literals, apart from the statement."""
        from pyathena.error import Error

        # What is not a query goes to another parser of the service, which may not know comments.
        text = tagged(sql) if leading_keyword(sql)[0] in _QUERIES else sql
        literals = [value_list([value], self.dialect) for value in parameters]
        statement = Statement(monotonic() + self.statement_seconds)
        started: list[str] = []

        def note(query: str) -> None:
            started.append(query)
            with self._lock:
                self._statements[query] = statement

        with session.cursor() as cursor:
            try:
                cursor.execute(text, literals or None, paramstyle="qmark", on_start_query_execution=note)
            except Error:
                if statement.reason:
                    raise StoppedError(self._stopped(statement)) from None
                raise
            finally:
                with self._lock:
                    for query in started:
                        self._statements.pop(query, None)
            yield cursor

    def _watch(self, execution: Any) -> None:
        """Stop a statement that has reached a limit. The client calls this each time it asks about a statement."""
        from pyathena.error import OperationalError

        with self._lock:
            statement = self._statements.get(execution.query_id)
        if statement is None or execution.state in execution.TERMINAL_STATES:
            return
        statement.scanned = max(statement.scanned, int(execution.data_scanned_in_bytes or 0))
        if statement.reason:
            if monotonic() > statement.since + base.STOP_SECONDS:
                raise OperationalError("the service did not stop the statement")
            return
        if monotonic() > statement.deadline:
            statement.reason = "timeout"
        elif statement.scanned > self.max_bytes:
            statement.reason = "bytes"
        if statement.reason:
            statement.since = monotonic()
            self._call("stop_query_execution", QueryExecutionId=execution.query_id)

    def _stopped(self, statement: Statement) -> str:
        return "" if statement.reason == "timeout" else f"the statement scanned more than {self.max_bytes:,} bytes"

    def _call(self, name: str, **arguments: Any) -> Any:
        """Return the answer of a call that the client has no method for."""
        with _as_error_of_pyathena():
            return getattr(self._client.client, name)(**arguments)

    def _reusable(self, session: Any) -> bool:
        return True  # Each statement is a call of its own.

    def _client_errors(self) -> tuple[type[Exception], ...]:
        from pyathena.error import Error

        return (Error, StoppedError)

    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        from pyathena.error import OperationalError

        if isinstance(error, StoppedError):
            hint = Command("config", "set", f"connections.{self.id}.max_bytes_scanned", "BYTES")
            return (text, hint, "query") if text else ("", None, "timeout")
        called = _FAILED_CALL.search(text)
        message = _FAILED_CALL.sub("", text)
        if any(mark in text for mark in _LOG_IN):
            return message, self._log_in_hint(), "connection"
        if called is None and isinstance(error, OperationalError) and error.__cause__ is None:
            return message, None, "query"  # The reason why the statement failed.
        if called is not None and called[1] == "InvalidRequestException":
            if "output location" in text.lower():
                return message, self._setting("s3_staging_dir", "s3://BUCKET/PATH/"), "connection"
            if "workgroup" in text.lower():
                return message, self._setting("workgroup", "NAME"), "connection"
            return message, None, "query"
        return message, Hint("check {}", SettingPath(f"connections.{self.id}.region")), "connection"

    def _setting(self, key: str, example: str) -> str:
        return Command("config", "set", f"connections.{self.id}.{key}", example)

    def _log_in_hint(self) -> str:
        key = "profile" if self.options.get("profile") else "secret_access_key"
        return Hint("check {} and the permissions of its user", SettingPath(f"connections.{self.id}.{key}"))

    def _identity(self, read: Reader) -> cloud.Identity:
        version = self._workgroup.get("EngineVersion", {}).get("EffectiveEngineVersion") or "Athena (version unknown)"
        facts = [f"stops a statement after {self.max_bytes:,} scanned bytes"]
        if cutoff := self._workgroup.get("BytesScannedCutoffPerQuery"):
            facts.append(f"the workgroup stops it after {cutoff:,} bytes")
        return cloud.Identity(str(version), None, self.address.database, tuple(facts))

    def _catalog(self, read: Reader, parts: PartReader, identity: cloud.Identity, scope: Scope) -> cloud.Catalog:
        return AthenaCatalog(read, parts, self, scope.schemas)

    def _rights(self, read: Reader, identity: cloud.Identity, found: Sequence[TableRef]) -> cloud.Rights:
        return cloud.Rights(None, ("the policies in AWS decide what this user may write",))

    def databases(self) -> list[str]:
        """Return the databases of the catalog. Raises `ClientError`."""
        with self._as_client_error(), self._client.cursor() as cursor:
            return [str(each.name) for each in cursor.list_databases(self.address.database)]

    def tables(self, database: str) -> list[Any]:
        """Return what the service knows of the tables in a database. Raises `ClientError`."""
        with self._as_client_error(), self._client.cursor() as cursor:
            return list(cursor.list_table_metadata(self.address.database, database))


@contextmanager
def _as_error_of_pyathena() -> Iterator[None]:
    """Convert the errors of the AWS library as PyAthena does for its own calls."""
    import pyathena.common
    from pyathena.error import OperationalError

    library = vars(pyathena.common)
    try:
        yield
    except (library["ClientError"], library["BotoCoreError"]) as error:
        raise OperationalError(*error.args) from error


_KINDS: Final = {"VIRTUAL_VIEW": TableKind.VIEW, "MATERIALIZED_VIEW": TableKind.MATERIALIZED_VIEW}


class AthenaCatalog:
    """A single read of a catalog: one call for its databases, and one for the tables of each database in scope."""

    def __init__(
        self, read: Reader, parts: PartReader, connector: AthenaConnector, schemas: Sequence[str] | None
    ) -> None:
        self._read = read
        self._parts = parts
        self._connector = connector
        self._schemas = schemas
        self._columns: cloud.Rows = []
        self._views: list[TableRef] = []

    def relations(self) -> dict[TableRef, TableDraft]:
        """Return all tables and views of the databases in scope."""
        drafts: dict[TableRef, TableDraft] = {}
        databases = self._connector.databases()
        for database in databases if self._schemas is None else [name for name in self._schemas if name in databases]:
            read = functools.partial(self._tables, database)
            for (table,) in self._parts.guarded(f"tables of `{database}`", read):
                ref = TableRef(database, str(table.name))
                drafts[ref] = self._draft(ref, table)
        return drafts

    def columns(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the columns, and after them the partition keys."""
        return self._columns

    def keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Athena has no keys."""
        return []

    def foreign_keys(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return none: Athena has no keys."""
        return []

    def views(self, schemas: Sequence[str]) -> cloud.Rows:
        """Return the statements that create the views, one statement for each view with a plain name."""
        rows: cloud.Rows = []
        for ref in self._views:
            if ref.schema in schemas and all(_PLAIN.fullmatch(name or "") for name in (ref.schema, ref.name)):
                lines = self._parts(f"definition of `{ref}`", f"SHOW CREATE VIEW {ref}")
                rows.append((ref.schema, ref.name, "\n".join(str(line) for (line, *_) in lines) or None))
        return rows

    def _tables(self, database: str) -> cloud.Rows:
        return [(table,) for table in self._connector.tables(database)]

    def _draft(self, ref: TableRef, table: Any) -> TableDraft:
        """Return the draft of a table, and keep its columns."""
        parameters = table.parameters or {}
        kind = _KINDS.get(str(table.table_type), TableKind.TABLE)
        count = str(parameters.get("recordCount") or parameters.get("numRows") or "")
        rows = int(count) if count.isdecimal() and kind is TableKind.TABLE else None
        draft = TableDraft(ref, kind, comment=parameters.get("comment") or None, row_estimate=rows)
        keys = list(table.partition_keys or ())
        if keys:
            draft.indexes.append(Index(tuple(key.name for key in keys), "partition"))
        for column in (*(table.columns or ()), *keys):
            described = (ref.schema, ref.name, column.name, column.type, True, column.comment, None, False)
            self._columns.append(described)
        if kind is TableKind.VIEW:
            self._views.append(ref)
        return draft
