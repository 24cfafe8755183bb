"""`context.queryHistory` of a connection: what people asked the database, as a source of context."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project.config.base import Block, setting

Treatment = Literal["exclude", "include", "mark-only"]
"""What becomes of some queries: left out, kept as any other, or kept and marked."""


class ServiceAccounts(Block):
    """Queries of service accounts in the query history."""

    patterns: list[str] = setting([], "Regular expressions of user names that are service accounts.", example=["^etl_"])
    mode: Treatment = setting("exclude", "What becomes of queries that nobody else sends.")


class Orchestrators(Block):
    """Queries that orchestrators and BI tools mark with a comment (dbt, Airflow, Looker and their like)."""

    mode: Treatment = setting("mark-only", "What becomes of their queries.")


class DropFailed(Block):
    """Queries of the history that mostly fail."""

    error_rate: float | None = setting(
        None,
        "Share of failed executions, 0 to 1, from which a query is left out. Without it: 1.",
        alias="errorRate",
        example=0.5,
        ge=0,
        le=1,
    )
    executions: int | None = setting(None, "Executions from which the share counts.", example=10, ge=0)


class HistoryFilters(Block):
    """Which queries of the history are left out."""

    drop_trivial_probes: bool = setting(True, "Leave out `SELECT 1` and its like.", alias="dropTrivialProbes")
    service_accounts: ServiceAccounts = setting(ServiceAccounts, "Service accounts.", alias="serviceAccounts")
    orchestrators: Orchestrators = setting(Orchestrators, "Queries of orchestrators (dbt, Airflow and their like).")
    drop_failed_below: DropFailed = setting(DropFailed, "Queries that mostly fail.", alias="dropFailedBelow")


class QueryHistory(Block):
    """What people asked the database, as a source of context."""

    enabled: bool = setting(False, "Read the query history.")
    file: str | None = setting(
        None,
        "A file of SQL to read in place of the database's own history: statements that end in `;`, each with an "
        "optional comment `-- user: NAME executions: N` before it.",
        path=True,
        example="queries/analysts.sql",
        min_length=1,
    )
    min_executions: int = setting(5, "Executions from which a query counts.", alias="minExecutions", ge=0)
    window_days: int = setting(
        90, "Days to look back; PostgreSQL counts from its last reset.", alias="windowDays", gt=0
    )
    enabled_tables: list[str] = setting(
        [],
        "Tables whose queries count, `schema.table` or `table`; stronger than `enabledSchemas`.",
        alias="enabledTables",
        example=["mart.orders"],
    )
    enabled_schemas: list[str] = setting(
        [],
        "Schemas whose queries count; `*`: all. Without it: the tables ktx has scanned.",
        alias="enabledSchemas",
    )
    filters: HistoryFilters = setting(HistoryFilters, "What is left out.")
    redaction_patterns: list[str] = setting(
        [], "Regular expressions of what is blanked in a query, besides its literals.", alias="redactionPatterns"
    )
    stale_archive_after_days: int = setting(
        90, "Days after which what nobody asks any more is archived.", alias="staleArchiveAfterDays", gt=0
    )


class ConnectionContext(Block):
    """What else than tables is read from a database."""

    query_history: QueryHistory = setting(QueryHistory, "What people asked the database.", alias="queryHistory")
