"""The tool that runs one read-only statement of SQL."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from ktx_cli.jobs.sql import DEFAULT_ROWS
from ktx_cli.mcp.tool import Call, Connection, Input, Offset, Paged, ServerTool, told
from ktx_cli.mcp.tools.layer_asking import withheld

MOST_ROWS: Final = 10_000


class RunSql(Input):
    """What to run."""

    sql: str = Field(min_length=1, max_length=50_000, description="One SELECT, in the dialect of the connection.")
    connection: Connection | None = Field(None, description="The database; needed where there are several.")
    max_rows: int = Field(DEFAULT_ROWS, ge=1, le=MOST_ROWS, description="Rows that are read at most.")
    offset: Offset = 0


class SqlRows(Paged):
    """The rows of a statement."""

    part = "rows"
    verbatim = frozenset({"rows"})

    connection: str
    dialect: str
    sql: str = Field(description="The statement that was sent.")
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`; decimals, and integers beyond 2^53, are texts."
    )
    row_count: int = Field(description="Rows that were read, on all pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="There are more rows than were read: `max_rows` of them (rows), or too large ones (bytes)."
    )


def _run(call: Call, value: RunSql) -> SqlRows:
    from ktx_cli.jobs.serving.asking import run_served

    privacy = call.options.privacy
    answer, rows = run_served(
        call.project,
        value.sql,
        value.connection,
        max_rows=value.max_rows,
        offset=value.offset,
        privacy=privacy,
        watch=call.watch,
    )
    shortened = answer.sql if len(answer.sql) <= 8_000 else f"{answer.sql[:8_000]}…"
    return SqlRows(
        connection=answer.connection,
        dialect=answer.dialect,
        sql=shortened,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows],
        row_count=rows.count,
        cut=answer.cut,
        truncated=answer.cut is not None,
        warnings=[*told(rows.warnings), *withheld(privacy)],
    )


TOOLS: Final = (
    ServerTool(
        "sql_execution",
        "Run SQL",
        "Run one read-only SELECT on a database. Use it only where no measure of the semantic layer answers: look with "
        "discover_data first, ask with sl_query, and take names from entity_details. Statements that write, read files "
        "or reach the network are refused, and so are rows and columns people hid. Rows come in pages: next_offset. "
        'Example: {"connection": "warehouse", "sql": "SELECT count(*) FROM shop.orders"}',
        RunSql,
        SqlRows,
        _run,
        open_world=True,
    ),
)
