"""The base for cloud warehouse connectors: sessions, errors, connection tests and introspection."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from ktx_cli.core import Command, ConfigError, plural
from ktx_cli.faces import exp
from ktx_cli.project import redact
from ktx_cli.warehouses import base, port
from ktx_cli.warehouses.base import TableDraft, fill, leading_keyword, read_only_error
from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.interruption import RunningStatements
from ktx_cli.warehouses.pool import Pool
from ktx_cli.warehouses.server import MAX_CONNECTIONS, PartReader, Reader, ServerAddress, ServerConnector

log = logging.getLogger(__name__)

_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
_UNITED = 25
"""The number of tables that one statement is about, if each needs a query of its own."""
MOST_FAILURES = 8
"""The number of failures in a row after which no more of these statements are sent; halving takes five."""


class ClientError(Exception):
    """An error of any class in a client library. Its text contains no secrets; `cause` is the original error."""

    def __init__(self, text: str, cause: Exception) -> None:
        super().__init__(text)
        self.cause = cause


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a session: server version for display, user, and database (catalog, project)."""

    version: str
    user: str | None
    database: str
    facts: tuple[str, ...] = ()
    """Other useful facts, each in a few words."""


@dataclass(frozen=True, slots=True)
class Rights:
    """The user's permissions: whether anything can be written (None if unknown), and facts for reports."""

    can_write: bool | None
    facts: tuple[str, ...] = ()


class CloudConnector(ServerConnector):
    """Sessions in a warehouse that is identified by an account, workspace or project, not only by host and port."""

    placeholder = "?"
    default_port = 443
    url_parameters: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    sessions: ClassVar[int] = MAX_CONNECTIONS
    """The maximum number of sessions, unless `maxConnections` is set."""
    schema_keys: ClassVar[tuple[str, ...]] = ("schemas",)
    """The settings with the schemas to read; the first one that is set counts."""
    default_schemas: tuple[str, ...] = ()
    """The schemas to read if no setting lists any, such as one from the URL."""
    secret_keys: ClassVar[tuple[str, ...]] = ("password", "token")
    """The settings that must not be shown in messages."""

    def __init__(self, spec: port.ConnectionSpec, address: ServerAddress, place: str) -> None:
        # ServerConnector's own version reads the address from `url`, `host` and `port`.
        base.BaseConnector.__init__(self, spec, place)
        self.address = address
        self.spec = spec
        self.options = spec.options
        self._closed = False
        self._under_way = RunningStatements()
        self._pool = self._make_pool(int(self.options.get("maxConnections") or self.sessions))
        try:
            with self._rows():
                pass
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _open(self) -> Any:
        """Return a new session with its limits set."""

    @abstractmethod
    def _fetch(self, session: Any, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Run one of ktx's own catalog queries and return all its rows."""

    @abstractmethod
    def _run(self, session: Any, sql: str, parameters: tuple[Any, ...], max_rows: int) -> port.QueryResult:
        """Run a user's statement and return at most `max_rows` rows."""

    @abstractmethod
    def _client_errors(self) -> tuple[type[Exception], ...]:
        """Return the base classes of the client library's errors."""

    @abstractmethod
    def _explain(self, error: Exception, text: str) -> tuple[str, str | None, str]:
        """Return (message, hint, error code) for a client library's error. `text` is its text without secrets."""

    @abstractmethod
    def _identity(self, read: Reader) -> Identity:
        """Return the identity of the session."""

    @abstractmethod
    def _catalog(self, read: Reader, parts: PartReader, identity: Identity, scope: port.Scope) -> Catalog:
        """Return a reader for the catalog."""

    def _session_facts(self, read: Reader) -> Sequence[Any]:
        identity = self._identity(read)
        return identity.user, identity.database, identity.facts

    def _changes(self, read: Reader, parts: PartReader, tables: Sequence[port.Table]) -> Rows:
        """Return schema, table and a text that changes with the table's rows, or None for an unknown one.

        Empty for a warehouse that does not know.
        """
        return []

    def table_evidence(self, tables: Sequence[port.Table]) -> Mapping[port.TableRef, str]:
        """See `TableEvident` and the warehouse's `_changes`."""
        with self._rows() as read:
            parts = PartReader(read, ClientError)
            rows = self._changes(read, parts, tables)
        for problem in parts.problems:
            log.debug("no evidence of changes of tables: %s", problem.message)
        return {port.TableRef(schema, name): str(text) for schema, name, text in rows if text is not None}

    @abstractmethod
    def _rights(self, read: Reader, identity: Identity, found: Sequence[port.TableRef]) -> Rights:
        """Return the user's permissions on the listed tables."""

    def _unasked(self) -> tuple[type[Exception], ...]:
        return self._client_errors()

    def _text(self, error: Exception) -> str:
        """Return the text of a client library's error."""
        return str(error)

    def _comes_back(self, pool: Pool[Any]) -> bool:
        """Return False: each statement is a separate request, so it cannot end a session."""
        return False

    def _connect(self) -> Any:
        with self._as_client_error():
            return self._open()

    def _read(self, session: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._as_client_error():
            return self._fetch(session, sql, tuple(parameters))

    def _query(self, session: Any, sql: str, parameters: tuple[Any, ...] | None, max_rows: int) -> port.QueryResult:
        with self._as_client_error():
            return self._run(session, sql, parameters or (), max_rows)

    @contextmanager
    def _as_client_error(self) -> Iterator[None]:
        """Convert all client library errors to one class that callers can distinguish from other errors."""
        try:
            yield
        except self._client_errors() as error:
            raise ClientError(self._redacted(self._text(error)), error) from None

    def _driver_error(self) -> type[Exception]:
        return ClientError

    def _describe(self, error: Exception) -> tuple[str, str | None, str]:
        if isinstance(error, ClientError):
            return self._explain(error.cause, str(error))
        return str(error), Command("connection", "test", self.id), "connection"

    def _redacted(self, text: str) -> str:
        secrets = [*self._secrets(), self.address.password]
        # A key is shown line by line, if at all.
        lines = [line for secret in secrets for line in (secret, *secret.splitlines()) if len(line) > 3]
        return redact(text, [*lines, *(repr(line)[1:-1] for line in lines)])

    def _secrets(self) -> list[str]:
        return [str(self.options[key]) for key in self.secret_keys if self.options.get(key)]

    def _test(self, read: Reader, scope: port.Scope, latency: float) -> port.ConnectionTest:
        identity = self._identity(read)
        catalog = self._catalog(read, PartReader(read, ClientError), identity, self._scoped(scope))
        chosen, _ = self._chosen(catalog, identity, scope)
        rights = self._rights(read, identity, chosen.refs)
        return port.ConnectionTest(
            latency_ms=latency,
            server_version=identity.version,
            tables=len(chosen.refs),
            can_write=rights.can_write,
            user=identity.user,
            privileges=(*identity.facts, *rights.facts),
            database=identity.database,
        )

    def _introspect(self, read: Reader, scope: port.Scope) -> port.DatabaseSchema:
        identity = self._identity(read)
        parts = PartReader(read, ClientError)
        catalog = self._catalog(read, parts, identity, self._scoped(scope))
        chosen, drafts = self._chosen(catalog, identity, scope)
        problems = [*chosen.problems, *assemble(drafts, self.dialect, catalog)]
        tables = sorted((draft.finish() for draft in drafts.values()), key=lambda table: table.ref)
        return port.DatabaseSchema(tuple(tables), (*problems, *parts.problems), identity.version)

    def _chosen(
        self, catalog: Catalog, identity: Identity, scope: port.Scope
    ) -> tuple[port.Selection, dict[port.TableRef, TableDraft]]:
        relations = catalog.relations()
        chosen = port.select(relations, self._scoped(scope), catalog=identity.database)
        return chosen, {ref: relations[ref] for ref in chosen.refs}

    def _scoped(self, scope: port.Scope) -> port.Scope:
        """Return the scope with the schemas in the connection's own settings."""
        if scope.schemas is not None:
            return scope
        given = (self.options.get(key) for key in self.schema_keys)
        names = next(([each] if isinstance(each, str) else list(each) for each in given if each), self.default_schemas)
        return replace(scope, schemas=tuple(names)) if names else scope


def required(spec: port.ConnectionSpec, key: str, example: str) -> str:
    """Return a setting's text. Raises `ConfigError`, with an example, if it is not set."""
    value = str(spec.options.get(key) or "").strip()
    if not value:
        hint = Command("config", "set", f"connections.{spec.id}.{key}", example)
        raise ConfigError(f"connection `{spec.id}` does not set `{key}`", hint=hint, details={"connection": spec.id})
    return value


def require_query(sql: str, dialect: str, where: str) -> None:
    """Raise `SourceError` (code `read_only`) unless sqlglot recognizes a single read-only statement.

    For warehouses whose sessions cannot be made read-only. A statement that sqlglot cannot parse is refused. One that
    begins with another word than a query (SHOW, DESCRIBE, EXPLAIN) must have been checked by its word.
    """
    from sqlglot import parse_one, tokenize
    from sqlglot.errors import SqlglotError

    try:
        tokens = tokenize(sql, read=dialect)
        tree = parse_one(sql, read=dialect) if leading_keyword(sql)[0] in _QUERIES else None
    except (SqlglotError, RecursionError):
        raise read_only_error(where, "a statement that ktx cannot parse is") from None
    kinds = [token.token_type.name for token in tokens]
    if "SEMICOLON" in kinds[:-1]:
        raise read_only_error(where, "several statements at once are")
    # Snowflake passes the result of one statement to the next after this arrow.
    if "DARROW" in kinds:
        raise read_only_error(where, "a chain of statements is")
    # Snowflake's system functions end sessions, start tasks and send mail.
    if any(token.text.upper().startswith("SYSTEM$") for token in tokens if token.token_type.name != "STRING"):
        raise read_only_error(where, "a statement with a SYSTEM$ function is")
    changing = (exp.DML, exp.DDL, exp.Command, exp.Into)
    if tree is not None and (not isinstance(tree, exp.Query | exp.Values | exp.Table) or tree.find(*changing)):
        raise read_only_error(where, "a statement that changes something is")


Rows = list[tuple[Any, ...]]


class Catalog(Protocol):
    """A single read of a warehouse's catalog.

    Rows begin with schema and table; those of one table or key are sorted by position.
    """

    def relations(self) -> dict[port.TableRef, TableDraft]:
        """Return all tables and views that may be in scope, without their columns."""
        ...

    def columns(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, name, type, nullable, comment, default, generated."""
        ...

    def keys(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, constraint, `PRIMARY KEY` or `UNIQUE`, column."""
        ...

    def foreign_keys(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table, constraint, column, and the target's schema, table and column (None if unknown)."""
        ...

    def views(self, schemas: Sequence[str]) -> Rows:
        """Return schema, table and the SQL of a view (None if not visible to this user)."""
        ...


def assemble(drafts: dict[port.TableRef, TableDraft], dialect: str, catalog: Catalog) -> list[port.ObjectProblem]:
    """Fill the drafts with catalog metadata for their schemas.

    Removes relations without columns, such as a view that errors, and returns a problem for each, and for every foreign
    key whose target columns are unknown.
    """
    schemas = sorted({ref.schema for ref in drafts if ref.schema is not None})
    if not schemas:
        return []
    fill(drafts, catalog.columns(schemas), 2, lambda draft, rows: _add_columns(dialect, draft, rows))
    problems = _drop_empty(drafts)
    fill(drafts, catalog.keys(schemas), 3, _add_key)
    fill(drafts, catalog.foreign_keys(schemas), 3, lambda draft, rows: problems.extend(_add_foreign_key(draft, rows)))
    if any(draft.kind in (port.TableKind.VIEW, port.TableKind.MATERIALIZED_VIEW) for draft in drafts.values()):
        fill(drafts, catalog.views(schemas), 2, _set_view)
    return problems


def drafts_of(rows: Iterable[tuple[Any, ...]], kinds: Mapping[str, port.TableKind]) -> dict[port.TableRef, TableDraft]:
    """Return a draft for each row with schema, table, type, comment and row count; types not in `kinds` are tables."""
    found: dict[port.TableRef, TableDraft] = {}
    for schema, name, kind, comment, count in rows:
        ref = port.TableRef(schema, name)
        found[ref] = TableDraft(
            ref,
            kinds.get(str(kind), port.TableKind.TABLE),
            comment=comment or None,
            row_estimate=None if count is None else int(count),
        )
    return found


def identifier(dialect: str, *names: str) -> str:
    """Return a name, or names joined by dots, in the dialect's quotes."""
    return ".".join(exp.to_identifier(name, quoted=True).sql(dialect) for name in names)


def texts(dialect: str, values: Iterable[str]) -> str:
    """Return string literals in the dialect, joined by commas."""
    return ", ".join(exp.Literal.string(value).sql(dialect) for value in values)


def schemas_of(tables: Iterable[port.Table]) -> list[str]:
    """Return the schemas of tables, sorted."""
    return sorted({table.ref.schema for table in tables if table.ref.schema is not None})


def read_of_each(read: Reader, select: Callable[[port.TableRef], str], refs: Sequence[port.TableRef]) -> Rows:
    """Return the rows of a query about each table, of which many are sent as one statement.

    A statement that fails is sent again in halves, so that a table for which it fails has no rows, and the others do.
    After many failures in a row, the rest has none either: the warehouse may not answer at all.
    """
    rows: Rows = []
    waiting = [refs[start : start + _UNITED] for start in range(0, len(refs), _UNITED)][::-1]
    failures = 0
    while waiting and failures < MOST_FAILURES:
        batch = waiting.pop()
        try:
            rows += read("\nUNION ALL ".join(map(select, batch)))
            failures = 0
        except ClientError as error:
            log.debug("no evidence of changes of %s: %s", plural(len(batch), "table"), base.reason(error))
            failures += 1
            middle = len(batch) // 2
            waiting += [batch[middle:], batch[:middle]] if middle else []
    return rows


def _drop_empty(drafts: dict[port.TableRef, TableDraft]) -> list[port.ObjectProblem]:
    empty = [ref for ref, draft in drafts.items() if not draft.columns]
    return [
        port.ObjectProblem(ref, drafts.pop(ref).kind.value, "the warehouse lists no columns for it") for ref in empty
    ]


def _add_columns(dialect: str, draft: TableDraft, rows: Rows) -> None:
    for name, native, nullable, comment, default, generated in rows:
        kind = dialect_named(dialect).semantic_type(str(native))
        draft.add_column(name, str(native), kind, nullable, comment, default, generated)


def _add_key(draft: TableDraft, rows: Rows) -> None:
    name, kind, _ = rows[0]
    columns = tuple(column for _, _, column in rows)
    if kind == "PRIMARY KEY":
        draft.primary_key = columns
    else:
        draft.unique_keys.append(port.UniqueKey(columns, name))


def _add_foreign_key(draft: TableDraft, rows: Rows) -> list[port.ObjectProblem]:
    name, _, schema, table, _ = rows[0]
    columns = tuple(row[1] for row in rows)
    targets = tuple(row[4] for row in rows)
    if None in targets:
        message = f"foreign key `{name}` refers to unknown columns of `{port.TableRef(schema, table)}`"
        return [port.ObjectProblem(draft.ref, "foreign key", message)]
    draft.foreign_keys.append(port.ForeignKey(columns, port.TableRef(schema, table), targets, name))
    return []


def _set_view(draft: TableDraft, rows: Rows) -> None:
    draft.view_sql = rows[0][0] or None
