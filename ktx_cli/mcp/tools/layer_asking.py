"""The tool that asks the semantic layer: the number, and what it is made of."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from ktx_cli.jobs.semantic.asking import ask_layer
from ktx_cli.jobs.semantic.questions import Question
from ktx_cli.mcp.tool import Call, Input, Paged, ServerTool


class AskLayer(Input):
    """A question."""

    connection: str | None = Field(None, description="The database; needed where several have a semantic layer.")
    query: dict[str, Any] = Field(description="measures, dimensions, filters, order_by, limit.")
    offset: int = Field(0, ge=0, description="Rows to leave out: `next_offset` of the page before.")


class LayerAnswer(Paged):
    """The rows, and what they are made of."""

    part = "rows"

    connection: str
    columns: list[str]
    rows: list[list[Any]]
    row_count: int
    sql: str


def _ask(call: Call, value: AskLayer) -> LayerAnswer:
    project = call.project
    told = ask_layer(
        project.layout,
        project.config(),
        Question(value.query, value.connection),
        environ=project.environ,
        load=project.load_layer,
        opener=project.pool.open,
    )
    call.check()
    return LayerAnswer(
        connection=told.connection,
        columns=list(told.columns),
        rows=[list(row) for row in told.rows[value.offset :]],
        row_count=len(told.rows),
        sql=told.sql,
        truncated=told.cut is not None,
    )


TOOLS: Final = (
    ServerTool(
        "sl_query",
        "Ask the semantic layer",
        "Ask for measures by dimensions.",
        AskLayer,
        LayerAnswer,
        _ask,
    ),
)
