"""Query history readers: a SQL file if the settings name one, else the database's own history."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, ConfigError, Hint, KtxError, NotSupportedError, ResultWarning, listing
from ktx_cli.project import QueryHistory, read_bytes
from ktx_cli.sources.query_history.model import (
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
from ktx_cli.warehouses import DIALECTS, Connector, QueryResult, dialect_named, quote, silence_parser

Opens = Callable[[], AbstractContextManager[Connector]]
"""Opens the connection; it is called only to read the database's own history."""


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """The location of a history: the connection's id, the sqlglot dialect of its SQL, the project, and how to open the
    connection.

    `location`: the location of BigQuery's datasets. `cut`: where its statements end, if known.
    """

    connection: str
    dialect: str
    project: Path
    connect: Opens
    location: str | None = None
    cut: Cut | None = None


def read_history(place: HistoryPlace, settings: QueryHistory, now: datetime) -> History:
    """Return the statements sent to a database.

    Raises `HistoryUnavailableError` if they may not be read, `NotSupportedError` for a database without a history,
    `ConfigError` for a missing file, `SourceError` if the database cannot be reached.
    """
    if settings.file:
        path = place.project / Path(settings.file).expanduser()
        executions = max(1, settings.min_executions)
        return read_sql_files(path, settings.file, dialect=place.dialect, executions=executions, cut=place.cut)
    history = dialect_named(place.dialect).history
    if not history:
        raise NotSupportedError(
            f"ktx cannot read a query history from {place.dialect} databases (connection `{place.connection}`)",
            hint=Hint(
                "set {} to a SQL file to read that instead; databases with a query history: {}",
                Command("config", "set", f"connections.{place.connection}.context.queryHistory.file", "PATH"),
                listing(name for name in DIALECTS if dialect_named(name).history),
            ),
        )
    options: dict[str, Any] = {"window_days": settings.window_days}
    with place.connect() as connector:
        if history == "pg_stat_statements":
            return read_postgres(connector, place.connection, now=now, **options)
        if history == "account_usage":
            return read_snowflake(connector, place.connection, **options)
        return read_bigquery(connector, place.connection, location=place.location, **options)


DEFAULT_LOCATION: Final = "US"
"""The location in which BigQuery runs jobs by default."""

_STATEMENTS: Final = """
SELECT ANY_VALUE(query), user_email, COUNT(*), COUNTIF(error_result IS NOT NULL),
       APPROX_QUANTILES(TIMESTAMP_DIFF(end_time, start_time, MILLISECOND), 100)[OFFSET(50)],
       APPROX_QUANTILES(TIMESTAMP_DIFF(end_time, start_time, MILLISECOND), 100)[OFFSET(95)],
       MAX(creation_time)
FROM `region-{region}`.INFORMATION_SCHEMA.JOBS_BY_PROJECT
WHERE creation_time >= TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL {days} DAY)
  AND job_type = 'QUERY' AND state = 'DONE' AND query IS NOT NULL
  AND (statement_type = 'SELECT' OR statement_type IS NULL)
  AND NOT EXISTS (SELECT 1 FROM UNNEST(labels) AS label WHERE label.key = 'application' AND label.value = 'ktx')
GROUP BY COALESCE(query_info.query_hashes.normalized_literals, TO_HEX(MD5(query))), user_email
ORDER BY 3 DESC, 2, 1
"""
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{1,40}")
_CLOSED: Final = ("access denied", "permission", "jobs.listall", "does not have")


def bigquery_statement(location: str, window_days: int, connection: str) -> str:
    """Return the SQL that reads the history. Raises `ConfigError` for an invalid location."""
    if not _REGION.fullmatch(location):
        message = f"connection `{connection}`: `location` is not a BigQuery location"
        raise ConfigError(message, hint=Command("config", "set", f"connections.{connection}.location", "EU"))
    return _STATEMENTS.format(region=location.lower(), days=int(window_days))


def read_bigquery(connector: Connector, connection: str, *, window_days: int, location: str | None) -> History:
    """Return the statements in the window. Raises `HistoryGrantError` if the user may not see them."""
    region = location or DEFAULT_LOCATION
    try:
        found = connector.query(bigquery_statement(region, window_days, connection), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and any(words in error.message.lower() for words in _CLOSED):
            raise _closed(connection) from error
        raise
    origin = f"INFORMATION_SCHEMA.JOBS_BY_PROJECT of region-{region.lower()}"
    return _history(found, map(_observation, found.rows), origin)


def _history(found: QueryResult, observations: Iterable[Observation], origin: str) -> History:
    """Return the rows in a warehouse's list; a row without text counts as unread."""
    coverage = Coverage.PART if found.truncated else Coverage.ALL
    warnings = (cut_warning(MAX_ROWS),) if found.truncated else ()
    return History(tuple(observations), origin, coverage, sum(not row[0] for row in found.rows), warnings)


def _closed(connection: str) -> KtxError:
    return unavailable(
        HistoryGrantError,
        connection,
        "the user may not list other users' jobs (bigquery.jobs.listAll)",
        hint=Command(
            *("projects", "add-iam-policy-binding", "PROJECT"),
            *("--member=user:EMAIL", "--role=roles/bigquery.resourceViewer"),
            program="gcloud",
        ),
    )


def _observation(row: tuple[Any, ...]) -> Observation:
    text, user, count, failed, *rest = row
    mean, slow = (None if each is None else float(each) for each in rest[-3:-1])
    rows = int(rest[0]) if len(rest) > 3 and rest[0] is not None else None
    return Observation(text, int(count), user, int(failed or 0), rows, mean, slow, instant(rest[-1]))


POSTGRES_ORIGIN: Final = "pg_stat_statements"
OLDEST_SERVER: Final = 140_000
OLDEST_EXTENSION: Final = (1, 9)
"""The extension version in PostgreSQL 14. An upgraded server keeps the old version until it is updated."""

FEWEST_KEPT: Final = 1_000
"""The limit below which the server discards infrequent statements."""

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
_POSTGRES_STATEMENTS: Final = """
SELECT s.query, r.rolname::text, s.calls, s.rows, s.mean_exec_time
FROM {schema}.pg_stat_statements AS s
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = s.userid
WHERE s.dbid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = pg_catalog.current_database())
ORDER BY s.calls DESC, s.userid, s.queryid, s.toplevel
"""


@dataclass(frozen=True, slots=True)
class _Server:
    """Facts about the server, read before its history."""

    version: int
    version_text: str
    user: str
    database: str
    sees_all: bool
    schema: str | None
    extension: str | None
    track: str | None
    kept: int | None


def read_postgres(connector: Connector, connection: str, *, window_days: int, now: datetime) -> History:
    """Return the statements sent to the database. Raises `HistoryUnavailableError` with a hint to enable it.

    The history does not contain when a statement last ran, and does not count failed executions.
    """
    server = _Server(*connector.query(_FACTS).rows[0])
    schema = quote(_require_readable(server, connection, connector), connector.dialect)
    try:
        lost, since = connector.query(_LOST.format(schema=schema)).rows[0]
        found = connector.query(_POSTGRES_STATEMENTS.format(schema=schema), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and "shared_preload_libraries" in error.message:
            raise _not_loaded(connection) from error
        raise
    observations = tuple(_postgres_observation(row) for row in found.rows if row[0] not in (None, _HIDDEN))
    young = since is None or now - since < timedelta(days=window_days)
    whole = not (lost or found.truncated or young or server.track == "none")
    return History(
        observations,
        POSTGRES_ORIGIN,
        Coverage.ALL if whole else Coverage.PART,
        unread=len(found.rows) - len(observations),
        warnings=(*_warnings(server, connection, lost), *((cut_warning(MAX_ROWS),) if found.truncated else ())),
    )


def _require_readable(server: _Server, connection: str, connector: Connector) -> str:
    """Return the extension's schema."""
    if server.version < OLDEST_SERVER:
        raise unavailable(
            HistoryVersionError,
            connection,
            f"the server runs PostgreSQL {server.version_text}, but ktx needs PostgreSQL 14 or newer",
            hint=Command("config", "set", f"connections.{connection}.context.queryHistory.enabled", "false"),
        )
    if server.schema is None:
        raise unavailable(
            HistoryExtensionError,
            connection,
            f"the database {server.database} does not have the extension pg_stat_statements",
            hint="run as the database owner: CREATE EXTENSION pg_stat_statements (requires "
            "shared_preload_libraries = 'pg_stat_statements')",
        )
    if tuple(int(part) for part in (server.extension or "0").split(".")) < OLDEST_EXTENSION:
        raise unavailable(
            HistoryVersionError,
            connection,
            f"the extension pg_stat_statements has the outdated version {server.extension}",
            hint="run as the database owner: ALTER EXTENSION pg_stat_statements UPDATE",
        )
    if not server.sees_all:
        raise unavailable(
            HistoryGrantError,
            connection,
            f"{server.user} may not see other users' statements",
            hint=f"run as a superuser: GRANT pg_read_all_stats TO {quote(server.user, connector.dialect)}",
        )
    return server.schema


def _not_loaded(connection: str) -> KtxError:
    return unavailable(
        HistoryExtensionError,
        connection,
        "the server has not loaded pg_stat_statements",
        hint="run as a superuser: ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements' (keep "
        "existing entries), then restart the server",
    )


def _warnings(server: _Server, connection: str, lost: int) -> Iterator[ResultWarning]:
    where = f"connection `{connection}`: the server"
    if server.track == "none":
        hint = "run as a superuser: ALTER SYSTEM SET pg_stat_statements.track = 'top'; SELECT pg_reload_conf()"
        yield ResultWarning("query_history_not_tracked", f"{where} no longer records statements", hint=hint)
    if lost and (server.kept or 0) < FEWEST_KEPT:
        hint = "ALTER SYSTEM SET pg_stat_statements.max = 5000, then restart the server"
        what = f"{where} keeps only {server.kept} statements and discards the rest"
        yield ResultWarning("query_history_small", what, hint=hint)


def _postgres_observation(row: tuple[Any, ...]) -> Observation:
    text, user, calls, rows, mean = row
    return Observation(text, int(calls), user, rows=int(rows), mean_ms=float(mean), slow_ms=float(mean))


SNOWFLAKE_ORIGIN: Final = "SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY"
_SNOWFLAKE_STATEMENTS: Final = """
SELECT ANY_VALUE(query_text), user_name, COUNT(*), COUNT_IF(execution_status <> 'SUCCESS'), SUM(rows_produced),
       APPROX_PERCENTILE(total_elapsed_time, 0.5), APPROX_PERCENTILE(total_elapsed_time, 0.95), MAX(start_time)
FROM snowflake.account_usage.query_history
WHERE start_time >= DATEADD(day, -{days}, CURRENT_TIMESTAMP())
  AND database_name = CURRENT_DATABASE()
  AND query_type IN ('SELECT', 'UNKNOWN')
  AND COALESCE(query_tag, '') <> 'ktx'
GROUP BY COALESCE(query_parameterized_hash, query_hash, query_id), user_name
ORDER BY 3 DESC, 2, 1
"""
_ROLE: Final = "SELECT CURRENT_ROLE()"
_SNOWFLAKE_CLOSED: Final = ("not authorized", "does not exist", "insufficient privileges")


def snowflake_statement(window_days: int) -> str:
    """Return the SQL that reads the history."""
    return _SNOWFLAKE_STATEMENTS.format(days=int(window_days))


def read_snowflake(connector: Connector, connection: str, *, window_days: int) -> History:
    """Return the statements in the window. Raises `HistoryGrantError` if the role may not see them."""
    try:
        found = connector.query(snowflake_statement(window_days), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and any(words in error.message.lower() for words in _SNOWFLAKE_CLOSED):
            raise _snowflake_closed(connector, connection) from error
        raise
    return _history(found, (_observation(row) for row in found.rows if row[0]), SNOWFLAKE_ORIGIN)


def _snowflake_closed(connector: Connector, connection: str) -> KtxError:
    role = str(connector.query(_ROLE).rows[0][0])
    hint = f'run as ACCOUNTADMIN: GRANT DATABASE ROLE SNOWFLAKE.GOVERNANCE_VIEWER TO ROLE "{role}"'
    return unavailable(HistoryGrantError, connection, f"the role {role} may not read {SNOWFLAKE_ORIGIN}", hint=hint)


MAX_BYTES: Final = 50_000_000

Cut = Callable[[str, Callable[[], list[int]]], list[int]]
"""Returns where a text is split: at known places, else at those that the given function finds."""

_COMMENT: Final = re.compile(r"^[ \t]*--(?P<text>.*)$", re.MULTILINE)
_USER: Final = re.compile(r"\buser:\s*([^\s,;]+)", re.IGNORECASE)
_EXECUTIONS: Final = re.compile(r"\bexecutions:\s*(\d{1,12})\b", re.IGNORECASE)


def read_sql_files(path: Path, shown: str, *, dialect: str, executions: int, cut: Cut | None = None) -> History:
    """Return the statements in a file. `executions`: the default count. `shown`: the file name as configured.

    `cut`: finds where statements end, instead of `ends_of`. Raises `ConfigError` for a file that is missing or too
    large.
    """
    content = read_bytes(path)
    if content is None or len(content) > MAX_BYTES:
        what = "file not found" if content is None else f"more than {MAX_BYTES // 1_000_000} MB in"
        hint = "correct context.queryHistory.file; a relative path starts at the folder of ktx.yaml"
        raise ConfigError(f"query history: {what} {shown}", hint=hint, details={"path": str(path)})
    text = content.decode("utf-8-sig", "replace")
    ends = ends_of(text, dialect) if cut is None else cut(text, lambda: ends_of(text, dialect))
    return History(tuple(parse(text, ends, executions)), shown, Coverage.LISTED)


def parse(text: str, ends: Iterable[int], executions: int) -> Iterator[Observation]:
    """Yield the statements in a text, which end at the positions in `ends`."""
    for piece in _pieces(text, ends):
        comment = " ".join(match["text"] for match in _COMMENT.finditer(piece))
        user, count = _USER.search(comment), _EXECUTIONS.search(comment)
        if _COMMENT.sub("", piece).strip():
            yield Observation(piece.strip(), int(count[1]) if count else executions, user[1] if user else None)


def ends_of(text: str, dialect: str) -> list[int]:
    """Return the positions of semicolons; if the text cannot be tokenized, return only those at line ends."""
    from sqlglot import tokenize
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        return [token.start for token in tokenize(text, read=dialect) if token.token_type.name == "SEMICOLON"]
    except SqlglotError:
        return [match.start() for match in re.finditer(r";[ \t]*$", text, re.MULTILINE)]


def _pieces(text: str, ends: Iterable[int]) -> Iterator[str]:
    start = 0
    for end in (*ends, len(text)):
        yield text[start:end]
        start = end + 1


def instant(value: Any) -> datetime | None:
    """Return a time with its time zone. A time without a zone is UTC; an invalid time becomes None."""
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
