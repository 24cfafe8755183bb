"""Reads BigQuery's `INFORMATION_SCHEMA.JOBS_BY_PROJECT` of the region the connection's datasets are in."""

from __future__ import annotations

import re
from typing import Any, Final

from ktx_cli.connectors.port import Connector
from ktx_cli.context.sources.query_history.model import (
    MAX_ROWS,
    Coverage,
    History,
    HistoryGrantError,
    Observation,
    cut_warning,
    unavailable,
)
from ktx_cli.context.sources.query_history.values import instant
from ktx_cli.core.errors import ConfigError, KtxError

DEFAULT_LOCATION: Final = "US"
"""Where BigQuery looks when nobody says where."""

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


def statement(location: str, window_days: int, connection: str) -> str:
    """Return the SQL that reads the history. Raises `ConfigError` for a location that is none."""
    if not _REGION.fullmatch(location):
        raise ConfigError(
            f"connection `{connection}`: `location` is not a location of BigQuery",
            hint=f"ktx config set connections.{connection}.location EU",
        )
    return _STATEMENTS.format(region=location.lower(), days=int(window_days))


def read(connector: Connector, connection: str, *, window_days: int, location: str | None) -> History:
    """Return what the project was asked in the window; raises `HistoryGrantError` where the user may not see it."""
    region = location or DEFAULT_LOCATION
    try:
        found = connector.query(statement(region, window_days, connection), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and any(words in error.message.lower() for words in _CLOSED):
            raise _closed(connection) from error
        raise
    return History(
        tuple(map(_observation, found.rows)),
        f"INFORMATION_SCHEMA.JOBS_BY_PROJECT of region-{region.lower()}",
        Coverage.PART if found.truncated else Coverage.ALL,
        warnings=(cut_warning(MAX_ROWS),) if found.truncated else (),
    )


def _closed(connection: str) -> KtxError:
    return unavailable(
        HistoryGrantError,
        connection,
        "the user may not list the jobs of others (bigquery.jobs.listAll)",
        hint="gcloud projects add-iam-policy-binding PROJECT --member=user:EMAIL --role=roles/bigquery.resourceViewer",
    )


def _observation(row: tuple[Any, ...]) -> Observation:
    text, user, count, failed, middle, slow, last = row
    return Observation(
        text,
        int(count),
        user,
        int(failed or 0),
        None,
        None if middle is None else float(middle),
        None if slow is None else float(slow),
        instant(last),
    )
