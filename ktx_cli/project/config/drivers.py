"""The registry of drivers: driver -> model, and what this version has code for."""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final

from ktx_cli.core import did_you_mean, one_line
from ktx_cli.project.config.base import wrong
from ktx_cli.project.config.connections import Connection

_DATABASES: Final = {
    "sqlite": "connections.SqliteConnection",
    "duckdb": "connections.DuckDbConnection",
    "files": "connections.FilesConnection",
    "postgres": "connections.PostgresConnection",
    "mysql": "connections.MysqlConnection",
    "sqlserver": "warehouses.SqlServerConnection",
    "clickhouse": "warehouses.ClickHouseConnection",
    "snowflake": "warehouses.SnowflakeConnection",
    "bigquery": "warehouses.BigQueryConnection",
    "redshift": "warehouses.RedshiftConnection",
    "databricks": "warehouses.DatabricksConnection",
    "trino": "warehouses.TrinoConnection",
}
_SOURCES: Final = {
    "dbt": "sources.DbtSource",
    "metricflow": "sources.MetricFlowSource",
    "lookml": "sources.LookMlSource",
    "looker": "sources.LookerSource",
    "metabase": "sources.MetabaseSource",
    "notion": "sources.NotionSource",
    "confluence": "sources.ConfluenceSource",
    "documents": "sources.DocumentsSource",
}
_MODELS: Final = {**_DATABASES, **_SOURCES}

DATABASE_DRIVERS: Final = tuple(_DATABASES)
SOURCE_DRIVERS: Final = tuple(_SOURCES)
DRIVERS: Final = DATABASE_DRIVERS + SOURCE_DRIVERS

FOREIGN_DRIVERS: Final = ("athena", "gdrive", "hologres", "jira", "mongodb", "sharepoint", "sigma", "tableau")
"""Drivers of the TypeScript ktx that this program does not have; a connection of one is disabled with a warning."""


@functools.cache
def model_of(driver: str) -> type[Connection]:
    """Return the model of one of `DRIVERS`; its module is imported when it is first asked for."""
    module, _, name = _MODELS[driver].partition(".")
    model: type[Connection] = getattr(importlib.import_module(f"{__package__}.{module}"), name)
    return model


def parse_connection(value: Any) -> Connection:
    """Return the connection by the model of its `driver`.

    A union of all models would build every one of them, a tenth of a second, for files that use two. Raises
    pydantic's errors, which keep their place when raised inside a validator.
    """
    if isinstance(value, Connection):
        return value
    if not isinstance(value, dict):
        raise wrong("must be a mapping with a `driver`")
    driver = value.get("driver")
    if driver is None:
        raise wrong("has no `driver`", hint=f"add `driver:` with one of {', '.join(DRIVERS)}")
    if not isinstance(driver, str):
        raise wrong("must be the name of a driver", hint=f"one of {', '.join(DRIVERS)}", key="driver")
    if driver in FOREIGN_DRIVERS:
        raise wrong(
            f"is `{driver}`, a driver of the TypeScript ktx that this ktx does not support",
            hint="nothing here reads the connection; it may stay in ktx.yaml for the TypeScript ktx",
            key="driver",
        )
    if driver not in DRIVERS:
        near = did_you_mean(driver, DRIVERS)
        known = f"known: {', '.join(DRIVERS)}"
        raise wrong(
            f"is `{one_line(driver, 60)}`, which is not a driver that ktx knows",
            hint=f"did you mean `{near}`? {known}" if near else known,
            key="driver",
        )
    return model_of(driver).model_validate(value)
