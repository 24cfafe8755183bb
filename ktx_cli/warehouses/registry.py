"""The kinds of databases and how to open them; a driver's library is imported when first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, cast

from ktx_cli.core import Command, ConfigError, NotSupportedError, Placeholder, did_you_mean, listing
from ktx_cli.project import WAREHOUSES, Database, Kind, Question, connection_of, resolve_options, wrong_scheme
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, scope_from_options

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
    return make(spec)


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
    options["project_dir"] = str(project_dir)
    return connect(ConnectionSpec(connection, entry.driver, options)), scope_from_options(options)
