"""`context.queryHistory` of a connection: what people asked the database, as a source of context."""

from __future__ import annotations

from typing import Any, Literal

from ktx_cli.project.config.base import Block, setting


class ServiceAccounts(Block):
    """Queries of service accounts in the query history."""

    patterns: list[str] = setting([], "Patterns of user names that are service accounts.", status="later")
    mode: Literal["exclude", "include", "mark-only"] = setting(
        "exclude", "What becomes of their queries.", status="later"
    )


class DropFailed(Block):
    """Queries of the history that mostly fail."""

    error_rate: float | None = setting(
        None,
        "Share of failed executions, 0 to 1, from which a query is left out.",
        alias="errorRate",
        status="later",
        example=0.5,
        ge=0,
        le=1,
    )
    executions: int | None = setting(None, "Executions from which the share counts.", status="later", example=10, ge=0)


class HistoryFilters(Block):
    """Which queries of the history are left out."""

    drop_trivial_probes: bool = setting(
        True, "Leave out `SELECT 1` and its like.", alias="dropTrivialProbes", status="later"
    )
    service_accounts: ServiceAccounts = setting(
        ServiceAccounts, "Service accounts.", alias="serviceAccounts", status="later"
    )
    orchestrators: Any = setting(
        None, "Queries of orchestrators (dbt, Airflow and their like).", status="later", example={"mode": "mark-only"}
    )
    drop_failed_below: DropFailed = setting(
        DropFailed, "Queries that mostly fail.", alias="dropFailedBelow", status="later"
    )


class QueryHistory(Block):
    """What people asked the database, as a source of context."""

    enabled: bool = setting(False, "Read the query history.", status="later")
    min_executions: int = setting(
        5, "Executions from which a query counts.", alias="minExecutions", status="later", ge=0
    )
    window_days: int = setting(90, "Days to look back (not PostgreSQL).", alias="windowDays", status="later", gt=0)
    enabled_schemas: list[str] = setting(
        [], "Schemas whose queries count; `*`: all.", alias="enabledSchemas", status="later"
    )
    filters: HistoryFilters = setting(HistoryFilters, "What is left out.", status="later")
    redaction_patterns: list[str] = setting(
        [], "Regular expressions of what is blanked in a query.", alias="redactionPatterns", status="later"
    )
    stale_archive_after_days: int = setting(
        90,
        "Days after which what nobody asks any more is archived.",
        alias="staleArchiveAfterDays",
        status="later",
        gt=0,
    )


class ConnectionContext(Block):
    """What else than tables is read from a database."""

    query_history: QueryHistory = setting(
        QueryHistory, "What people asked the database.", alias="queryHistory", status="later"
    )
