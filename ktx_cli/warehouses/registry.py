"""The kinds of databases and how to open them; a driver's library is imported when first needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, cast

from ktx_cli.core import Command, ConfigError, NotSupportedError, Placeholder, did_you_mean, listing
from ktx_cli.project import (
    WAREHOUSES,
    Database,
    Kind,
    Question,
    connection_of,
    origin_of,
    resolve_options,
    settings_of,
    wrong_scheme,
)
from ktx_cli.telemetry import is_exporting, know, operation
from ktx_cli.warehouses.port import (
    ConnectionSpec,
    Connector,
    DatabaseSchema,
    ForwardingConnector,
    QueryResult,
    Scope,
    TableRef,
    scope_from_options,
)

if TYPE_CHECKING:
    from ktx_cli.project import KtxConfig


Verified = Literal["real", "emulator", "scripted"]
"""How far a kind of database has been run: the real database, an emulator that executes its SQL or protocol, or only a
scripted server of ours with expected statements and answers."""

VERIFIED_TEXTS: Mapping[Verified, str] = {
    "real": "real database",
    "emulator": "emulator",
    "scripted": "no real server yet",
}
"""What reports say about how far a kind of database has been run."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The bytes that identify a database file: `head` at `offset`. `name`: the name for such files."""

    head: bytes
    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warehouse(Kind):
    """A kind of database: what ktx needs to know about it before connecting.

    `dialect`: sqlglot's name for its SQL. `connector`: the class, as `package.module:Name`, that a `ConnectionSpec`
    opens. `dialect_object`: its `Dialect`, in the same form; empty if another warehouse provides it, or it uses the
    defaults. `package`: the module that its driver needs and `requirement` what installs it; empty if nothing is
    needed.
    """

    dialect: str
    connector: str
    dialect_object: str = ""
    package: str = ""
    requirement: str = ""
    system: str = ""
    """What OpenTelemetry calls the database; empty if that is the name of the driver."""
    pipelines: bool = False
    """Whether its connector is `Aggregating`: it also runs aggregation pipelines."""
    verified: Verified = "scripted"
    """How far ktx's tests have run it, which setup, `ktx connection list` and the documentation state."""

    # What setup asks and detects.
    location: Literal["server", "file", "folder"] = "server"
    takes_url: bool = False
    """Whether a single URL can replace the answers to the questions."""
    signature: Signature | None = None
    """The magic bytes of the database's files, if it is a file."""
    table_mark: str = ""
    """The pattern of what makes a folder a table, relative to the folder, if the database is a folder of such."""
    catalog_mark: bytes = b""
    """Text in the first bytes of a database file that is only a catalog of such tables."""
    hosts: tuple[str, ...] = ()
    """Host name suffixes that distinguish this database from other kinds with the same scheme."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The environment variables of the database's own clients, by setting."""
    variables_needed: tuple[str, ...] = ()
    """The settings that the variables must provide for the connection to be offered."""


def server_questions(
    port: str, *, host: str = "localhost", place: str = "name", required: bool = True
) -> tuple[Question, ...]:
    """Return the setup questions for a server. `place` asks for the database; `host`, `port`: defaults."""
    asked = (Question(place, required=required), Question("user", required=required), Question("password"))
    return (Question("host", required=True, default=host), Question("port", default=port), *asked)


def connect(spec: ConnectionSpec) -> Connector:
    """Open a read-only connection, which the caller closes.

    Raises `NotSupportedError` for an unsupported driver, `ConfigError` for unusable options or a package that is not
    installed, `SourceError` if the database cannot be reached or read.
    """
    warehouse = warehouse_of(spec.driver)
    if warehouse is None:
        drivers = WAREHOUSES.names()
        near = did_you_mean(spec.driver, drivers)
        hint = f"did you mean `{near}`?" if near else f"drivers: {listing(drivers, len(drivers))}"
        raise NotSupportedError(
            f"connection `{spec.id}`: this version does not support `{spec.driver}` databases", hint=hint
        )
    _require_scheme(spec)
    command = missing_package(spec.driver)
    if command is not None:
        message = f"driver `{spec.driver}` needs the package {warehouse.package}"
        raise ConfigError(message, hint=command, details={"connection": spec.id, "package": warehouse.package})
    make = cast(Callable[[ConnectionSpec], Connector], WAREHOUSES.refer(spec.driver, "connector"))
    connector = make(spec)
    return MeasuredConnector(connector, spec.id, warehouse.system or spec.driver) if is_exporting() else connector


class MeasuredConnector(ForwardingConnector):
    """A connection whose statements are exported as telemetry: how long each took and how many rows it returned."""

    def __init__(self, inner: Connector, connection: str, system: str) -> None:
        super().__init__(inner)
        self._attributes = {"db.system.name": system, "ktx.connection": connection}
        for key, value in self._attributes.items():
            know(key, [value])

    def _measured(self, name: str, run: Callable[[], QueryResult]) -> QueryResult:
        with operation(
            name, kind="client", metric="db.client.operation.duration", attributes=self._attributes
        ) as current:
            result = run()
            current.set("db.response.returned_rows", len(result.rows))
            return result

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        return self._measured("query", lambda: self.inner.query(sql, parameters, max_rows=max_rows))

    def aggregate(self, ref: TableRef, pipeline: Sequence[Mapping[str, Any]], *, max_rows: int = 1000) -> QueryResult:
        """See `Aggregating`."""
        return self._measured(
            "aggregate", lambda: super(MeasuredConnector, self).aggregate(ref, pipeline, max_rows=max_rows)
        )

    def introspect(self, scope: Scope) -> DatabaseSchema:
        """See `Connector`."""
        with operation("introspect", kind="client", attributes=self._attributes):
            return self.inner.introspect(scope)


def warehouse_of(driver: str) -> Warehouse | None:
    """Return the kind of database for a driver, or None for an unknown one. Raises `PluginError` for a broken one."""
    found: Warehouse | None = WAREHOUSES.find(driver)
    return found


def dialect_of(driver: str) -> str | None:
    """Return the sqlglot dialect for a driver, or None for an unsupported one."""
    warehouse = warehouse_of(driver)
    return None if warehouse is None else warehouse.dialect


def runs_pipelines(driver: str) -> bool:
    """Return whether connections of a driver run aggregation pipelines."""
    return driver in WAREHOUSES and (found := warehouse_of(driver)) is not None and found.pipelines


def missing_package(driver: str) -> str | None:
    """Return the command that installs the package that a driver needs, or None if nothing is missing."""
    warehouse = warehouse_of(driver)
    if warehouse is None or not warehouse.package or is_installed(warehouse.package):
        return None
    return Command("install", Placeholder(f"'{warehouse.requirement}'"), program="pip")


def is_installed(package: str) -> bool:
    """Return whether a package is installed; for `a.b`, Python imports `a`."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _require_scheme(spec: ConnectionSpec) -> None:
    """Raise `ConfigError` for a URL of another driver, which is only known once a secret is resolved."""
    for key in ("url", "path"):
        found = wrong_scheme(spec.driver, str(spec.options.get(key) or ""))
        if found is not None:
            message = f"connection `{spec.id}`: `{key}` {found[0]}"
            raise ConfigError(message, hint=found[1], details={"connection": spec.id})


class Opener(Protocol):
    """Opens a connection: `open_connection`, or a pool of open connections."""

    def __call__(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """Return the open connector and its scope. Raises the errors of `open_connection`."""
        ...


def open_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector and its scope.

    Raises `UsageError` for an unknown id, `NotSupportedError`, `SecretError`, `ConfigError` (a missing driver package)
    or `SourceError`.
    """
    entry = connection_of(config, connection)
    if not isinstance(entry, Database):
        message = f"connection `{connection}` is a context source ({entry.driver}), not a database"
        raise NotSupportedError(message, hint=Command("ingest", connection, "--dry-run"))
    return open_database(connection, entry, project_dir=project_dir, environ=environ)


def open_database(
    connection: str, entry: Database, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector for a database with the given settings, and its scope. Raises like `open_connection`.

    For callers with the settings of one connection and not those of the project.
    """
    options = resolve_options(entry, project_dir=project_dir, environ=environ)
    digest = _settings_digest(entry, options)
    options["project_dir"] = str(origin_of(project_dir))  # also in a copy of the project
    return connect(ConnectionSpec(connection, entry.driver, options, digest)), scope_from_options(options)


_SAME_ROWS: Final = frozenset({"schema", "schemas", "maxConnections"})
"""Settings of single drivers that do not decide which rows of a table are read."""


def _settings_digest(entry: Database, options: Mapping[str, Any]) -> str:
    """Return a digest of the settings that decide what is read: without secrets, limits and the choice of tables."""
    any_driver = settings_of(Database)
    own = {key for key, declared in settings_of(type(entry)).items() if not declared.secret and key not in any_driver}
    read = sorted((key, repr(options[key])) for key in own - _SAME_ROWS if key in options)
    return hashlib.sha256(repr((entry.driver, read)).encode("utf-8", "surrogatepass")).hexdigest()
