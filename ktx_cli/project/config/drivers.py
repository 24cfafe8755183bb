"""The registry of drivers: driver -> model, and what this version has code for."""

from __future__ import annotations

from typing import Any, Final

from ktx_cli.core.errors import NotSupportedError
from ktx_cli.core.text import did_you_mean
from ktx_cli.project.config import connections, documents, sources, warehouses
from ktx_cli.project.config.base import wrong
from ktx_cli.project.config.connections import Connection, Database
from ktx_cli.project.config.sources import Source

SUPPORTED_DRIVERS: Final = ("sqlite", "duckdb", "files", "postgres", "mysql")
"""The drivers this version has code for."""

DATABASE_MODELS: Final[dict[str, type[Database]]] = {
    "sqlite": connections.SqliteConnection,
    "duckdb": connections.DuckDbConnection,
    "files": connections.FilesConnection,
    "postgres": connections.PostgresConnection,
    "mysql": connections.MysqlConnection,
    "sqlserver": warehouses.SqlServerConnection,
    "clickhouse": warehouses.ClickHouseConnection,
    "snowflake": warehouses.SnowflakeConnection,
    "bigquery": warehouses.BigQueryConnection,
    "redshift": warehouses.RedshiftConnection,
    "databricks": warehouses.DatabricksConnection,
    "trino": warehouses.TrinoConnection,
}

SOURCE_MODELS: Final[dict[str, type[Source]]] = {
    "dbt": sources.DbtSource,
    "metricflow": sources.MetricFlowSource,
    "lookml": sources.LookMlSource,
    "looker": sources.LookerSource,
    "metabase": sources.MetabaseSource,
    "notion": documents.NotionSource,
    "confluence": documents.ConfluenceSource,
    "documents": documents.DocumentsSource,
}

MODELS: Final[dict[str, type[Connection]]] = {**DATABASE_MODELS, **SOURCE_MODELS}


def parse_connection(value: Any) -> Connection:
    """Return the connection by the model of its `driver`.

    Only the models of drivers that occur are built: that halves the cost of loading a small file. Raises pydantic's
    errors, which keep their place when raised inside a validator.
    """
    if isinstance(value, Connection):
        return value
    if not isinstance(value, dict):
        raise wrong("must be a mapping with a `driver`")
    driver = value.get("driver")
    if driver is None:
        raise wrong("has no `driver`", hint=f"add `driver:` with one of {', '.join(MODELS)}")
    model = MODELS.get(driver) if isinstance(driver, str) else None
    if model is None:
        near = did_you_mean(str(driver), MODELS)
        known = f"known: {', '.join(MODELS)}"
        raise wrong(
            f"is `{driver}`, which is no driver ktx knows",
            hint=f"did you mean `{near}`? {known}" if near else known,
            key="driver",
        )
    return model.model_validate(value)


def is_supported(connection: Connection) -> bool:
    """Say whether this version has code for the connection's driver."""
    return connection.driver in SUPPORTED_DRIVERS


def require_supported(connection_id: str, connection: Connection) -> None:
    """Raise `NotSupportedError` when this version has no code for the connection's driver."""
    if not is_supported(connection):
        raise NotSupportedError(
            f"driver `{connection.driver}` of connection `{connection_id}` is not supported by this version yet",
            hint=f"supported: {', '.join(SUPPORTED_DRIVERS)}",
            details={"connection": connection_id, "driver": connection.driver},
        )
