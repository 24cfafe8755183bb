"""The tools that ask the semantic layer: the number, what it is made of, and how it would be answered."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from ktx_cli.core.errors import ResultWarning
from ktx_cli.mcp.paging import dumped
from ktx_cli.mcp.tool import Call, Offset, Output, Paged, ServerTool, told
from ktx_cli.mcp.tools.querying import LayerQuestion

_LONGEST_PART: Final = 8_000
"""Characters of statement or receipt beside the rows; a longer one is given alone."""

Part = Literal["rows", "sql", "receipt"]


class AskLayer(LayerQuestion):
    """A question, and what of its answer to give."""

    verify: bool | None = Field(
        None,
        description="Recompute every row from raw rows (true) or none (false), and refuse where a number differs. "
        "Without it: a sample, where there is a running, windowed, earlier or compared value.",
    )
    include: list[Part] = Field(
        ["rows", "sql", "receipt"],
        min_length=1,
        max_length=3,
        description="Parts of the answer; leave some out to spare room.",
    )
    offset: Offset = 0


class LayerAnswer(Paged):
    """The rows, and what they are made of."""

    part = "rows"
    verbatim = frozenset({"rows", "totals"})

    connection: str
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`; decimals, and integers beyond 2^53, are texts."
    )
    row_count: int = Field(description="Rows of the whole answer, on all its pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="The answer itself was cut: at `limit` (rows) or because it is too large (bytes)."
    )
    totals: dict[str, Any] | None = Field(None, description="The measures without any dimension, where asked for.")
    sql: str | None = Field(None, description="The statement that was run.")
    receipt: dict[str, Any] | None = Field(
        None, description="What the numbers are made of: facts, joins, filters, rows that joins missed, notes."
    )


class Explanation(Output):
    """How a question would be answered; nothing was run."""

    connection: str
    columns: list[dict[str, Any]] = Field(description="Each with name, kind (dimension or measure) and what it is of.")
    steps: list[str] = Field(description="The plan in words.")
    sql: str
    totals_sql: str | None = None


def _ask(call: Call, value: AskLayer) -> LayerAnswer:
    from ktx_cli.jobs.serving.asking import ask_served

    privacy = call.options.privacy
    answer, rows = ask_served(
        call.project,
        value.question(call.attributes, verified=value.verify),
        offset=value.offset,
        privacy=privacy,
        watch=call.watch,
    )
    receipt = {key: each for key, each in answer.receipt.items() if key != "sql"}
    parts, late = _parts({"sql": answer.sql, "receipt": receipt}, value.include)
    return LayerAnswer(
        connection=answer.connection,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows] if "rows" in value.include else [],
        row_count=rows.count,
        cut="bytes" if answer.cut == "bytes" else "rows" if answer.cut else None,
        totals=None if answer.totals is None or privacy else dict(answer.totals),
        truncated=answer.cut is not None,
        warnings=[*told(rows.warnings), *late, *withheld(privacy)],
        **parts,
    )


def _parts(parts: dict[str, Any], include: list[Part]) -> tuple[dict[str, Any], list[str]]:
    """Return the parts that were asked for, without those too long to stand beside rows, which are named."""
    kept = {name: part for name, part in parts.items() if name in include}
    long = [name for name, part in kept.items() if len(dumped(part)) > _LONGEST_PART] if len(include) > 1 else []
    hints = [f"{name} is too long to stand beside the rest: ask again with include: [{name}]" for name in long]
    return {name: part for name, part in kept.items() if name not in long}, hints


def withheld(privacy: bool) -> list[str]:
    """Return the warning of a server that gives no values of rows."""
    if not privacy:
        return []
    return told([ResultWarning("withheld", "values of rows are withheld: this server was started with --privacy")])


def _explain(call: Call, value: LayerQuestion) -> Explanation:
    from ktx_cli.jobs.semantic.explaining import explain_question
    from ktx_cli.jobs.serving.attributes import missing_attributes_told

    project = call.project
    question = value.question(call.attributes)
    with missing_attributes_told():
        found = explain_question(project.layout, project.config(), question, load=project.load_layer)
    columns = [{key: each for key, each in column.items() if each is not None} for column in found.columns]
    return Explanation(
        connection=found.connection,
        columns=columns,
        steps=list(found.steps()),
        sql=found.sql,
        totals_sql=found.totals_sql,
    )


TOOLS: Final = (
    ServerTool(
        "sl_query",
        "Ask the semantic layer",
        "Ask for numbers: measures by dimensions, from definitions people agreed on. Use it before sql_execution "
        "wherever a measure fits; find names with discover_data or sl_list. It joins by declared paths alone and "
        "refuses what has no right answer: a refusal says why and what to ask instead, so follow its hint and do not "
        "work around it with SQL. `receipt` says what the numbers are made of. Rows come in pages: next_offset. "
        'Example: {"measures": ["orders.revenue"], "dimensions": [{"field": "orders.ordered_at", "granularity": '
        '"month"}], "filters": ["customers.country = \'NO\'"], "time_range": {"last": "12 months"}}',
        AskLayer,
        LayerAnswer,
        _ask,
        open_world=True,
    ),
    ServerTool(
        "sl_explain",
        "Explain a question",
        "Say how a question would be answered, without running it: which facts, joins and filters, and the SQL. Use it "
        "to see why a number is what it is, or why sl_query refuses. Takes what sl_query takes.",
        LayerQuestion,
        Explanation,
        _explain,
    ),
)
