"""Which history a connection has: a file of SQL where its settings name one, else the database's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ktx_cli.connectors.port import Connector
from ktx_cli.context.sources.query_history import bigquery, postgres, snowflake, sql_file
from ktx_cli.context.sources.query_history.model import History
from ktx_cli.core.errors import NotSupportedError
from ktx_cli.core.text import listing
from ktx_cli.project.config.query_history import QueryHistory

DIALECTS: Final = ("postgres", "snowflake", "bigquery")
"""The dialects of databases whose own history can be read."""

Opens = Callable[[], AbstractContextManager[Connector]]
"""Opens the connection; called only where the database's own history is read."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a history is: the connection's id, the sqlglot dialect of its SQL, the project, and how it is opened.

    `location`: of BigQuery's datasets. `cut`: see `sql_file.read`.
    """

    connection: str
    dialect: str
    project: Path
    connect: Opens
    location: str | None = None
    cut: sql_file.Cut | None = None


def read_history(place: Place, settings: QueryHistory, now: datetime) -> History:
    """Return what a database was asked.

    Raises `HistoryUnavailableError` where it may not be read, `NotSupportedError` for a database that keeps none,
    `ConfigError` for a file that is not there, `SourceError` where the database cannot be reached.
    """
    if settings.file:
        path = place.project / Path(settings.file).expanduser()
        executions = max(1, settings.min_executions)
        return sql_file.read(path, settings.file, dialect=place.dialect, executions=executions, cut=place.cut)
    if place.dialect not in DIALECTS:
        raise NotSupportedError(
            f"there is no query history of `{place.dialect}` databases to read (connection `{place.connection}`)",
            hint=f"ktx config set connections.{place.connection}.context.queryHistory.file PATH reads a file of SQL; "
            f"databases with one: {listing(DIALECTS)}",
        )
    options: dict[str, Any] = {"window_days": settings.window_days}
    with place.connect() as connector:
        if place.dialect == "postgres":
            return postgres.read(connector, place.connection, now=now, **options)
        if place.dialect == "snowflake":
            return snowflake.read(connector, place.connection, **options)
        return bigquery.read(connector, place.connection, location=place.location, **options)
