"""Which drivers there are, and how one is opened; a driver's library is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, Protocol, cast

from ktx_cli.core import ConfigError, NotSupportedError, did_you_mean, listing, shell_words
from ktx_cli.project import Database, KtxConfig, connection_of, resolve_options, wrong_scheme
from ktx_cli.warehouses.port import ConnectionSpec, Connector, Scope, scope_from_options

__all__ = ["DRIVERS", "connect", "dialect_of", "is_installed", "missing_package", "scope_from_options"]


class _Driver(NamedTuple):
    """Where a driver's connector is, the sqlglot dialect it speaks and the package it needs (None: always there)."""

    module: str
    connector: str
    dialect: str
    package: str | None = None


_REGISTRY: Mapping[str, _Driver] = MappingProxyType(
    {
        "sqlite": _Driver("sqlite", "SqliteConnector", "sqlite"),
        "duckdb": _Driver("duckdb", "DuckDbConnector", "duckdb"),
        "files": _Driver("files", "FilesConnector", "duckdb"),
        "postgres": _Driver("postgres", "PostgresConnector", "postgres", "psycopg"),
        "mysql": _Driver("mysql", "MySqlConnector", "mysql", "pymysql"),
        "sqlserver": _Driver("sqlserver", "SqlServerConnector", "tsql", "pymssql"),
        "clickhouse": _Driver("clickhouse", "ClickHouseConnector", "clickhouse", "clickhouse_connect"),
        "snowflake": _Driver("snowflake", "SnowflakeConnector", "snowflake", "snowflake.connector"),
        "bigquery": _Driver("bigquery", "BigQueryConnector", "bigquery", "google.cloud.bigquery"),
        "redshift": _Driver("redshift", "RedshiftConnector", "redshift", "psycopg"),
        "databricks": _Driver("databricks", "DatabricksConnector", "databricks", "databricks.sql"),
        "trino": _Driver("trino", "TrinoConnector", "trino", "trino"),
    }
)

DRIVERS: tuple[str, ...] = tuple(_REGISTRY)
"""The drivers `connect` knows, by their name in `ktx.yaml`."""


def connect(spec: ConnectionSpec) -> Connector:
    """Open a connection, read-only; the caller closes it.

    Raises `NotSupportedError` for a driver this version has no code for, `ConfigError` for options that cannot be
    used or a package that is not installed, `SourceError` when the source cannot be reached or read.
    """
    driver = _driver(spec)
    _require_scheme(spec)
    command = missing_package(spec.driver)
    if command is not None:
        raise ConfigError(
            f"driver `{spec.driver}` needs the package {driver.package}",
            hint=command,
            details={"connection": spec.id, "package": driver.package},
        )
    module = import_module(f"ktx_cli.warehouses.{driver.module}.connector")
    make = cast(Callable[[ConnectionSpec], Connector], getattr(module, driver.connector))
    return make(spec)


def dialect_of(driver: str) -> str | None:
    """Return the sqlglot dialect of a driver, or None for one this version has no code for."""
    return _REGISTRY[driver].dialect if driver in _REGISTRY else None


def missing_package(driver: str) -> str | None:
    """Return the command that installs the package a driver needs, None where it can be used as it is."""
    package = _REGISTRY[driver].package if driver in _REGISTRY else None
    return None if package is None or is_installed(package) else f"pip install 'ktx-cli[{driver}]'"


def is_installed(package: str) -> bool:
    """Whether a package is there; to know it of `a.b`, Python imports `a`."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _require_scheme(spec: ConnectionSpec) -> None:
    """Raise `ConfigError` for a URL of another driver: a secret reference is known only now."""
    for key in ("url", "path"):
        found = wrong_scheme(spec.driver, str(spec.options.get(key) or ""))
        if found is not None:
            raise ConfigError(
                f"connection `{spec.id}`: `{key}` {found[0]}", hint=found[1], details={"connection": spec.id}
            )


def _driver(spec: ConnectionSpec) -> _Driver:
    if spec.driver not in _REGISTRY:
        near = did_you_mean(spec.driver, DRIVERS)
        raise NotSupportedError(
            f"connection `{spec.id}`: this version reads no `{spec.driver}` databases",
            hint=f"did you mean `{near}`?" if near else f"drivers: {listing(DRIVERS, len(DRIVERS))}",
        )
    return _REGISTRY[spec.driver]


class Opener(Protocol):
    """How a connection is opened: `open_connection`, or a pool of open ones."""

    def __call__(
        self, config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
    ) -> tuple[Connector, Scope]:
        """Return the open connector and what of it is wanted; raises as `open_connection`."""
        ...


def open_connection(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector and what of it is wanted.

    Raises `UsageError` for an unknown id, `NotSupportedError`, `SecretError`, `ConfigError` (a missing driver
    package) or `SourceError`.
    """
    entry = connection_of(config, connection)
    if not isinstance(entry, Database):
        raise NotSupportedError(
            f"connection `{connection}` is a context source ({entry.driver}), not a database",
            hint=shell_words("ktx", "ingest", connection, "--dry-run"),
        )
    return open_database(connection, entry, project_dir=project_dir, environ=environ)


def open_database(
    connection: str, entry: Database, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Connector, Scope]:
    """Return the open connector of a database by its settings, and what of it is wanted; raises as `open_connection`.

    For who has the settings of one connection and not those of the project.
    """
    options = resolve_options(entry, project_dir=project_dir, environ=environ)
    options["project_dir"] = str(project_dir)
    return connect(ConnectionSpec(connection, entry.driver, options)), scope_from_options(options)
