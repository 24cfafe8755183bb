"""Reads PostgreSQL's `pg_stat_statements`: every statement since its last reset, with constants already taken out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from ktx_cli.connectors.port import Connector
from ktx_cli.context.sources.query_history.model import (
    MAX_ROWS,
    Coverage,
    History,
    HistoryExtensionError,
    HistoryGrantError,
    HistoryVersionError,
    Observation,
    cut_warning,
    unavailable,
)
from ktx_cli.core.errors import KtxError, ResultWarning

ORIGIN: Final = "pg_stat_statements"
OLDEST_SERVER: Final = 140_000
OLDEST_EXTENSION: Final = (1, 9)
"""Of PostgreSQL 14; an upgraded database keeps the one it had until it is told."""

FEWEST_KEPT: Final = 1_000
"""Below so many statements kept, the server forgets what is rarely asked."""

_HIDDEN: Final = "<insufficient privilege>"
_FACTS: Final = """
SELECT pg_catalog.current_setting('server_version_num')::int, pg_catalog.current_setting('server_version'),
       current_user::text, pg_catalog.current_database()::text,
       pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
       (SELECT n.nspname::text FROM pg_catalog.pg_extension AS e
        JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements'),
       (SELECT e.extversion FROM pg_catalog.pg_extension AS e WHERE e.extname = 'pg_stat_statements'),
       pg_catalog.current_setting('pg_stat_statements.track', true),
       pg_catalog.current_setting('pg_stat_statements.max', true)::int
"""
_LOST: Final = "SELECT dealloc, stats_reset FROM {schema}.pg_stat_statements_info"
_STATEMENTS: Final = """
SELECT s.query, r.rolname::text, s.calls, s.rows, s.mean_exec_time
FROM {schema}.pg_stat_statements AS s
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
ORDER BY s.calls DESC, s.userid, s.queryid, s.toplevel
"""


@dataclass(frozen=True, slots=True)
class _Server:
    """What is known of the server before its history is read."""

    version: int
    version_text: str
    user: str
    database: str
    sees_all: bool
    schema: str | None
    extension: str | None
    track: str | None
    kept: int | None


def read(connector: Connector, connection: str, *, window_days: int, now: datetime) -> History:
    """Return what the database has been asked; raises a `HistoryUnavailableError` with what makes it readable.

    Nothing says when a statement last ran, and failed executions are not counted.
    """
    server = _Server(*connector.query(_FACTS).rows[0])
    schema = _quoted(_require_readable(server, connection))
    try:
        lost, since = connector.query(_LOST.format(schema=schema)).rows[0]
        found = connector.query(_STATEMENTS.format(schema=schema), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and "shared_preload_libraries" in error.message:
            raise _not_loaded(connection) from error
        raise
    observations = tuple(_observation(row) for row in found.rows if row[0] not in (None, _HIDDEN))
    young = since is None or now - since < timedelta(days=window_days)
    whole = not (lost or found.truncated or young or server.track == "none")
    return History(
        observations,
        ORIGIN,
        Coverage.ALL if whole else Coverage.PART,
        unread=len(found.rows) - len(observations),
        warnings=(*_warnings(server, connection, lost), *((cut_warning(MAX_ROWS),) if found.truncated else ())),
    )


def _require_readable(server: _Server, connection: str) -> str:
    """Return the schema of the extension."""
    if server.version < OLDEST_SERVER:
        raise unavailable(
            HistoryVersionError,
            connection,
            f"the server is PostgreSQL {server.version_text}, and ktx reads it from PostgreSQL 14 on",
            hint=f"ktx config set connections.{connection}.context.queryHistory.enabled false",
        )
    if server.schema is None:
        raise unavailable(
            HistoryExtensionError,
            connection,
            f"the database {server.database} has no extension pg_stat_statements",
            hint="run as its owner: CREATE EXTENSION pg_stat_statements (the server needs "
            "shared_preload_libraries = 'pg_stat_statements')",
        )
    if tuple(int(part) for part in (server.extension or "0").split(".")) < OLDEST_EXTENSION:
        raise unavailable(
            HistoryVersionError,
            connection,
            f"its extension pg_stat_statements is of version {server.extension}",
            hint="run as its owner: ALTER EXTENSION pg_stat_statements UPDATE",
        )
    if not server.sees_all:
        raise unavailable(
            HistoryGrantError,
            connection,
            f"{server.user} does not see the statements of others",
            hint=f"run as a superuser: GRANT pg_read_all_stats TO {_quoted(server.user)}",
        )
    return server.schema


def _not_loaded(connection: str) -> KtxError:
    return unavailable(
        HistoryExtensionError,
        connection,
        "the server has not loaded pg_stat_statements",
        hint="run as a superuser: ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements' (with what is in "
        "it already), then restart the server",
    )


def _warnings(server: _Server, connection: str, lost: int) -> list[ResultWarning]:
    found = []
    if server.track == "none":
        found.append(
            ResultWarning(
                "query_history_not_tracked",
                f"connection `{connection}`: the server records no statements any more",
                hint="run as a superuser: ALTER SYSTEM SET pg_stat_statements.track = 'top'; SELECT pg_reload_conf()",
            )
        )
    if lost and (server.kept or 0) < FEWEST_KEPT:
        found.append(
            ResultWarning(
                "query_history_small",
                f"connection `{connection}`: the server keeps {server.kept} statements and forgets the rest",
                hint="ALTER SYSTEM SET pg_stat_statements.max = 5000, then restart the server",
            )
        )
    return found


def _observation(row: tuple[Any, ...]) -> Observation:
    text, user, calls, rows, mean = row
    return Observation(text, int(calls), user, rows=int(rows), mean_ms=float(mean), slow_ms=float(mean))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
