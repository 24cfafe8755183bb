"""Reads Snowflake's `ACCOUNT_USAGE.QUERY_HISTORY`, one row for each statement and user, up to three hours behind."""

from __future__ import annotations

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
from ktx_cli.core.errors import KtxError

ORIGIN: Final = "SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY"
_STATEMENTS: Final = """
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
_CLOSED: Final = ("not authorized", "does not exist", "insufficient privileges")


def statement(window_days: int) -> str:
    """Return the SQL that reads the history."""
    return _STATEMENTS.format(days=int(window_days))


def read(connector: Connector, connection: str, *, window_days: int) -> History:
    """Return what the database was asked in the window; raises `HistoryGrantError` where the role may not see it."""
    try:
        found = connector.query(statement(window_days), max_rows=MAX_ROWS)
    except KtxError as error:
        if error.code == "query" and any(words in error.message.lower() for words in _CLOSED):
            raise _closed(connector, connection) from error
        raise
    return History(
        tuple(_observation(row) for row in found.rows if row[0]),
        ORIGIN,
        Coverage.PART if found.truncated else Coverage.ALL,
        unread=sum(not row[0] for row in found.rows),
        warnings=(cut_warning(MAX_ROWS),) if found.truncated else (),
    )


def _closed(connector: Connector, connection: str) -> KtxError:
    role = str(connector.query(_ROLE).rows[0][0])
    return unavailable(
        HistoryGrantError,
        connection,
        f"the role {role} may not read {ORIGIN}",
        hint=f'run as ACCOUNTADMIN: GRANT DATABASE ROLE SNOWFLAKE.GOVERNANCE_VIEWER TO ROLE "{role}"',
    )


def _observation(row: tuple[Any, ...]) -> Observation:
    text, user, count, failed, rows, middle, slow, last = row
    return Observation(
        text,
        int(count),
        user,
        int(failed or 0),
        None if rows is None else int(rows),
        None if middle is None else float(middle),
        None if slow is None else float(slow),
        instant(last),
    )
