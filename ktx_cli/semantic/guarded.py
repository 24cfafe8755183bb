"""The only way to send a statement to a database: the guard checks a text, and exactly that text is sent.

`ktx sql` and the semantic layer both use it.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, Protocol

from ktx_cli.core import Command, ConfigError, Diagnostic, Hint, Recent, SourceError, UsageError, json_value, listing
from ktx_cli.project import Connection, Database, KtxConfig, Layout, WorkingTree, connection_of
from ktx_cli.semantic.calendar import calendar_of
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.manifest import layer_ids
from ktx_cli.semantic.model import Model, SemanticError
from ktx_cli.semantic.store.layer import is_stored, load_manifest, read_model
from ktx_cli.warehouses import (
    EITHER,
    ForwardingConnector,
    StatementPolicy,
    dialect_named,
    dialect_of,
    open_connection,
    parse_name,
    row_size,
    server_of,
    with_hint,
)

if TYPE_CHECKING:
    from ktx_cli.semantic.answer import Prepared
    from ktx_cli.semantic.caller import Caller
    from ktx_cli.semantic.plan.plan import Plan
    from ktx_cli.semantic.store.layer import Manifest
    from ktx_cli.warehouses import CheckedStatement, Connector, Dialect, Opener, QueryCache, QueryResult, Server


DEFAULT_BYTES: Final = 10_000_000
"""The approximate default size limit for an answer, in bytes."""

_STATEMENTS: Final = 256
"""Maximum number of statements in a guard's cache."""


def database_of(config: KtxConfig, connection: str) -> Database:
    """Return a database by id. Raises `UsageError` for an unknown id or another kind of connection."""
    entry: Connection = connection_of(config, connection)
    if not isinstance(entry, Database):
        message = f"connection `{connection}` is not a database: its driver is `{entry.driver}`"
        raise UsageError(message, hint=f"use one of: {listing(sorted(config.databases()))}")
    return entry


def require_defined(config: KtxConfig, connection: str, plan: Plan) -> None:
    """Raise `UsageError` if a query defines its own measures but the connection only allows defined ones."""
    if database_of(config, connection).query_policy != "semantic-layer-only" or not plan.composed:
        return
    raise UsageError(
        f"connection `{connection}` allows only measures defined in its semantic layer (`query_policy: "
        "semantic-layer-only`), and the query defines"
        f" {listing(f'`{text}`' for text in plan.composed)}",
        hint=Hint(
            "list the measures with {}, or add one to the file of its source", Command("sl", "list", "-c", connection)
        ),
        details={"connection": connection, "query_policy": "semantic-layer-only", "composed": list(plan.composed)},
    )


class TableNames:
    """A connection's table names from its committed manifest, which is read on first use.

    `also` are further tables by the parts of their names.
    """

    def __init__(self, layout: Layout, connection: str, entry: Database, also: Iterable[tuple[str, ...]] = ()) -> None:
        self._layout = layout
        self._connection = connection
        self._also = list(also)
        single = getattr(entry, "schema_", None)
        self._schemas: list[str] = list(getattr(entry, "schemas", None) or ([single] if single else []))

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The table names by their parts."""
        return sorted(set(self._tables))

    @property
    def columns(self) -> list[str]:
        """The names of all columns in the manifest."""
        entries = self._manifest.tables.values()
        return sorted({str(column["name"]) for entry in entries for column in entry.get("columns") or ()})

    def __contains__(self, name: object) -> bool:
        return name in self._spelled

    @functools.cached_property
    def _spelled(self) -> set[str]:
        return {".".join(parts) for parts in self._tables}

    @functools.cached_property
    def _manifest(self) -> Manifest:
        return load_manifest(self._layout, self._connection)

    @functools.cached_property
    def _tables(self) -> list[tuple[str, ...]]:
        return [parts for table in self._manifest.relations.values() if (parts := _parts(table))] + self._also

    @functools.cached_property
    def _places(self) -> dict[str, list[str]]:
        """The schemas that contain each table name."""
        places: dict[str, list[str]] = defaultdict(list)
        for parts in self._tables:
            if len(parts) > 1 and parts[-2] not in places[parts[-1]]:
                places[parts[-1]].append(parts[-2])
        return places

    def schema_of(self, dialect: Dialect, table: str) -> str | None:
        """Return the schema of a table: from the manifest, the connection or the dialect, in this order.

        Tables of the system catalog have none, because sessions find them without one. Raises `UsageError` if several
        schemas contain the table.
        """
        if dialect.system is not None and table.startswith(dialect.system.prefix):
            return None
        places = self._places.get(table, [])
        wanted = [*self._schemas, dialect.default_schema]
        if len(places) > 1 and not set(places) & set(wanted):
            message = f"the table `{table}` is in {len(places)} schemas: {listing(sorted(places))}"
            raise UsageError(message, hint=f"include the schema, for example: {sorted(places)[0]}.{table}")
        return next((schema for schema in wanted if schema in places), places[0] if places else wanted[0])


def _parts(table: object) -> tuple[str, ...]:
    """Return the parts of a `table:` value in the manifest, or none if it is invalid."""
    try:
        return parse_name(table) if isinstance(table, str) else ()
    except ConfigError:
        return ()


@dataclass(frozen=True, slots=True)
class ConnectionGuard:
    """The guard of one connection: its policy, dialect and tables, read from files without opening a connection.

    `checked` caches statements that passed the check, or is None without a cache.
    """

    policy: StatementPolicy
    dialect: str
    names: TableNames
    checked: Recent[CheckedStatement] | None = None

    @classmethod
    def of(
        cls, layout: Layout, config: KtxConfig, connection: str, also: Iterable[tuple[str, ...]] = ()
    ) -> ConnectionGuard:
        """Return the guard for a connection. Raises `UsageError` or `NotSupportedError` for other connections."""
        entry = database_of(config, connection)
        policy = StatementPolicy.of(connection, entry.model_dump(by_alias=True))
        return cls(policy, dialect_of(entry.driver) or entry.driver, TableNames(layout, connection, entry, also))

    @property
    def for_compiled(self) -> ConnectionGuard:
        """The guard for compiled statements. `query_policy` only applies to statements from people and agents."""
        return replace(self, policy=replace(self.policy, raw_sql=True))

    @property
    def with_cache(self) -> ConnectionGuard:
        """The same guard with a cache, which is valid until names or settings change."""
        return replace(self, checked=Recent(_STATEMENTS))

    def check(self, sql: str, *, max_rows: int, server: Server | None = EITHER) -> CheckedStatement:
        """Return the statement to send. Raises the errors of `StatementPolicy.check`."""
        if self.checked is None:
            return self._check(sql, max_rows, server)
        return self.checked.get((sql, max_rows, server), lambda: self._check(sql, max_rows, server))

    def _check(self, sql: str, max_rows: int, server: Server | None) -> CheckedStatement:
        dialect = dialect_named(self.dialect)
        schema_of = functools.partial(self.names.schema_of, dialect) if dialect.default_schema else None
        return self.policy.check(
            sql, self.dialect, max_rows=max_rows, tables=self.names, schema_of=schema_of, server=server
        )

    def open(
        self, config: KtxConfig, *, layout: Layout, environ: Mapping[str, str], opener: Opener = open_connection
    ) -> GuardedConnector:
        """Open the connection of this guard. Raises the errors of `open_connection`."""
        connector, _ = opener(config, self.policy.connection, project_dir=layout.root, environ=environ)
        return GuardedConnector(connector, self)


class GuardedConnector(ForwardingConnector):
    """An open connection that only sends statements checked by the guard."""

    def __init__(self, inner: Connector, guard: ConnectionGuard) -> None:
        super().__init__(inner)
        self.guard = guard
        self._server: Server | None = None

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Check one statement and run it. Raises `StatementRefusedError` if it is not known to be read-only."""
        return self.send(self.checked(sql, max_rows=max_rows), parameters, max_rows=max_rows)

    def checked(self, sql: str, *, max_rows: int) -> CheckedStatement:
        """Return the statement to send to this server."""
        return self.guard.check(sql, max_rows=max_rows, server=self._the_server())

    def send(self, statement: CheckedStatement, parameters: Sequence[Any] = (), *, max_rows: int) -> QueryResult:
        """Run a checked statement. Errors suggest the table or column that was probably meant."""
        try:
            answer = self.inner.query(statement.sql, parameters, max_rows=max_rows)
        except SourceError as error:
            names = self.guard.names
            with_hint(error, statement.dialect, names.tables, names.columns)
            raise
        return replace(answer, columns=statement.columns(answer.columns))

    def _the_server(self) -> Server | None:
        """Return the server-specific variant of a dialect if its built-in functions depend on the server."""
        if not dialect_named(self.guard.dialect).has_several_servers:
            return EITHER
        if self._server is None:
            ((version,),) = self.inner.query("SELECT VERSION()", max_rows=1).rows
            self._server = server_of(str(version))
        return self._server


def guard_of(layout: Layout, config: KtxConfig, connection: str, model: Model) -> ConnectionGuard:
    """Return the guard for statements compiled from a model."""
    return ConnectionGuard.of(layout, config, connection, lookup_of(model).tables).for_compiled


def json_rows(
    rows: Iterable[Sequence[Any]], max_bytes: int = DEFAULT_BYTES
) -> tuple[tuple[tuple[Any, ...], ...], bool]:
    """Return rows as JSON values, and whether rows were dropped because of the size limit."""
    kept: list[tuple[Any, ...]] = []
    left = max_bytes
    for row in rows:
        values = tuple(json_value(value) for value in row)
        left -= row_size(values)
        if left < 0:
            return tuple(kept), True
        kept.append(values)
    return tuple(kept), False


LoadLayer = Callable[[Layout, KtxConfig, str], Model]
"""Takes a layout, settings and a connection; returns the semantic layer. `load_layer` or a caching function."""

_NO_DATABASE: Final = ""
"""The sqlglot name of generic SQL, for files of a connection that is no longer configured."""


def load_layer(layout: Layout, config: KtxConfig, connection: str) -> Model:
    """Return the current semantic layer of a connection."""
    dialect, configured = _read_as(config, connection)
    return read_model(layout, connection, dialect, calendar_of(config), configured)


def store_layers(layout: Layout, config: KtxConfig) -> None:
    """Store the current semantic layers for `load_layer`. Only for runs. Raises `StorageError`."""
    for connection in layer_ids(layout):
        store_layer(layout, config, connection)


def store_layer(layout: Layout, config: KtxConfig, connection: str) -> None:
    """Store the semantic layer of a connection. See `store_layers`."""
    dialect, configured = _read_as(config, connection)
    if not is_stored(layout, connection, dialect, configured):
        from ktx_cli.semantic.store.writer import write_store

        write_store(layout, connection, dialect, configured)


def _read_as(config: KtxConfig, connection: str) -> tuple[str, Collection[str] | None]:
    """Return the dialect of a connection's files, and the connections that other files may belong to."""
    entry = config.connections.get(connection)
    dialect = None if entry is None else dialect_of(entry.driver)
    return dialect or _NO_DATABASE, None if entry is None else config.configured


def load_layers(layout: Layout, config: KtxConfig, connections: Iterable[str]) -> list[Model]:
    """Return the semantic layers of several connections."""
    return [load_layer(layout, config, connection) for connection in connections]


def stray_problems(layout: Layout, config: KtxConfig) -> list[Diagnostic]:
    """Return the diagnostics about files outside all connection folders that bar raw SQL."""
    if not config.databases():
        return []
    from ktx_cli.semantic.load.load import read_strays

    return [stray.problem for stray in read_strays(WorkingTree(layout.root), config.configured)]


@contextlib.contextmanager
def broken_files_named(model: Model) -> Iterator[None]:
    """Extend the hint for an unknown name if files have errors, because the name may be in one of them."""
    try:
        yield
    except SemanticError as error:
        if error.code == "unknown_name" and any(problem.severity == "error" for problem in model.problems):
            check = Command("sl", "validate", "-c", model.connection, "--no-data")
            broken = _file_of_a_name(model, error.message)
            if broken is None:
                error.hint = Hint("{}; or fix the files with errors: {}", error.hint, check)
            else:
                error.message = f"{error.message}: {broken.path}:{broken.line}: {broken.message}"
                error.hint = Hint("{}; list all errors with {}", broken.hint or "fix the file", check)
        raise


def _file_of_a_name(model: Model, message: str) -> Diagnostic | None:
    """Return the first error in a source's file that a message mentions, or None."""
    names = {part.strip('"').casefold() for name in _QUOTED_NAME.findall(message) for part in name.split(".")}
    errors = (each for each in model.problems if each.severity == "error")
    return next((each for each in errors if PurePosixPath(each.path).stem.casefold() in names), None)


_QUOTED_NAME: Final = re.compile(r"`([^`]+)`")


MakeGuard = Callable[[Layout, KtxConfig, str, Model], ConnectionGuard]
"""Takes a layout, settings, a connection and its layer; returns the guard for compiled statements."""


class Prepare(Protocol):
    """Compiles a query, with or without a cache."""

    def __call__(self, model: Model, query: Mapping[str, Any], *, caller: Caller, now: datetime) -> Prepared:
        """Prepare a query. Raises `SemanticError` if it has no correct answer."""
        ...


def prepare_question(model: Model, query: Mapping[str, Any], *, caller: Caller, now: datetime) -> Prepared:
    """Prepare a query. See `Prepare`."""
    from ktx_cli.semantic.answer import prepare

    return prepare(model, query, caller=caller, now=now)


Remember = Callable[[str, "Prepared", str, Callable[[], Any]], Any]
"""Takes a connection, a prepared query, a name and a function; returns the cached or new value of the function."""


@dataclass(frozen=True, slots=True)
class QueryServices:
    """The functions that `ask_layer` uses to answer a query. A server replaces them with caching functions.

    `query_cache` has results of join probes, which are reused while the data is proven unchanged. `remember` caches
    values of a prepared query until any of its inputs change.
    """

    load: LoadLayer = load_layer
    opener: Opener = open_connection
    guard: MakeGuard = guard_of
    prepare: Prepare = prepare_question
    query_cache: QueryCache | None = None
    remember: Remember = lambda connection, prepared, name, make: make()


UNCACHED: Final = QueryServices()
"""Functions without caches."""
