"""The tools that query: `sl_query`, `sl_explain` and `sql_execution`, with their arguments and answers.

Arguments are flat and each is documented: models fill in those more reliably than nested objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.jobs.semantic.question import Question
from ktx_cli.jobs.semantic.sql import DEFAULT_ROWS
from ktx_cli.mcp.tool import Call, Connection, Input, Offset, Output, Paged, compact_json, tool, warning_texts
from ktx_cli.semantic import DEFAULT_LIMIT, GRAINS, LONGEST, MOST_ITEMS, MOST_ROWS

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
_GRAINS: Final = ", ".join(GRAINS)
_OUTSIDE: Final = frozenset({"connection", "grain", "verify", "explain", "include", "offset", "skip"})
"""Fields that are no part of the query itself."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AskedMeasure(_Part):
    """A measure of the question's own."""

    expr: Text = Field(description="A measure (`orders.revenue`), or an expression with aggregates of columns.")
    name: Text | None = Field(None, description="What its column in the answer is called.")


class AskedDimension(_Part):
    """Something to group by."""

    field: Text = Field(description="A column (`customers.country`), or `metric_time`: each measure's own time.")
    granularity: Text | None = Field(None, description="What a time is truncated to, as `grain`.")
    name: Text | None = Field(None, description="What its column in the answer is called.")
    via: Text | list[Text] | None = Field(None, description="Names of the joins to go through.")


class AskedFilter(_Part):
    """A condition."""

    expr: Text = Field(description="SQL: `orders.status = 'paid'`, or on results: `orders.revenue > 1000`.")
    via: Text | list[Text] | None = Field(None, description="Names of the joins to go through.")
    facts: Text | list[Text] | None = Field(None, description="Only for measures of these sources.")


class AskedOrder(_Part):
    """What to sort by."""

    field: Text = Field(description="A measure, a dimension or a column of the answer.")
    direction: Literal["asc", "desc"] = "asc"


class AskedRange(_Part):
    """A stretch of time: `start` and `end`, or `last`."""

    start: Text | None = Field(None, description="The first day or moment: 2025-01-01.")
    end: Text | None = Field(None, description="The day or moment after the last: 2026-01-01.")
    last: Text | None = Field(None, description="The most recent period: `30 days`.")
    field: Text | None = Field(
        None, description="The time it is about; without it the time dimension's, or each fact's own."
    )


class LayerQuestion(Input):
    """What is asked of the semantic layer."""

    measures: list[Text | AskedMeasure] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Measures: `orders.revenue`, or an expression such as `sum(orders.amount)`.",
    )
    dimensions: list[Text | AskedDimension] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Columns to group by: `customers.country`, `orders.ordered_at:month`.",
    )
    filters: list[Text | AskedFilter] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Conditions on rows, or on results, in SQL: `customers.country = 'NO'`. All must hold.",
    )
    segments: list[Text] = Field(
        default_factory=list, max_length=MOST_ITEMS, description="Named conditions: `orders.first_orders`."
    )
    having: list[Text] = Field(default_factory=list, max_length=MOST_ITEMS, description="Conditions on results.")
    order_by: list[Text | AskedOrder] = Field(
        default_factory=list, max_length=MOST_ITEMS, description='`orders.revenue desc`, or {"field", "direction"}.'
    )
    limit: int = Field(DEFAULT_LIMIT, ge=0, le=MOST_ROWS, description="Rows of the whole answer at most.")
    skip: int = Field(0, ge=0, le=1_000_000_000, description="Rows the question itself leaves out first (OFFSET).")
    include_empty: bool | None = Field(
        None,
        description="Include dimension values without matching rows. Default: if all dimensions are of one source.",
    )
    time_range: AskedRange | None = Field(None, description="Time range: `start` and `end`, or `last`.")
    comparison: Text | None = Field(None, description="Compare with a time before: `1 year`, or `previous_period`.")
    totals: bool = Field(False, description="Add the grand total.")
    fill: bool = Field(False, description="Show every period between the first and the last.")
    grain: Text | None = Field(
        None, description=f"Truncate the time dimensions; without one, `metric_time` is added. {_GRAINS}."
    )
    via: dict[str, Text | list[Text]] = Field(
        default_factory=dict, description='Which joins lead to a source: {"regions": "bill_to"}.'
    )
    parameters: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Values of the parameters the sources declare."
    )
    timezone: Text | None = Field(None, description="Time zone of days and longer periods: Europe/Oslo.")
    connection: Connection | None = Field(None, description="The database; needed where several have a semantic layer.")

    def question(self, attributes: Mapping[str, Any], *, verified: bool | None = None) -> Question:
        """Return the question as the floors below take it; `attributes` are the caller's, which no argument gives."""
        query = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=set(_OUTSIDE))
        query["limit"] = self.limit
        if self.skip:
            query["offset"] = self.skip
        return Question(query, self.connection, self.grain, {}, attributes, verified)


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
    explain: bool = Field(
        False, description="Run nothing: say in `steps` and `sql` how it would be answered, or why it is refused."
    )
    include: list[Part] = Field(
        ["rows", "receipt"], min_length=1, max_length=3, description="Parts of the answer; the SQL only where asked."
    )
    offset: Offset = 0


class LayerRows(Paged):
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
    steps: list[str] | None = Field(None, description="With `explain`, the plan in words.")
    sql: str | None = Field(None, description="The statement, where it was asked for.")
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


@tool("Ask the semantic layer", open_world=True)
def sl_query(call: Call, value: AskLayer) -> LayerRows:
    """Ask for numbers: measures by dimensions, from definitions people agreed on. Use it before sql_execution wherever
    a measure fits; find names with discover_data. It joins by declared paths alone and refuses what has no right
    answer: a refusal says why and what to ask instead, so follow its hint and do not work around it with SQL.
    `receipt` says what the numbers are made of. Example: {"measures": ["orders.revenue"], "dimensions":
    ["orders.ordered_at:month"], "filters": ["customers.country = 'NO'"], "time_range": {"last": "12 months"}}"""
    from ktx_cli.jobs.serve.ask import ask_served

    if value.explain:
        plan = _explained(call, value)
        shown = {"columns": [each["name"] for each in plan.columns], "steps": plan.steps, "sql": plan.sql}
        return LayerRows(connection=plan.connection, rows=[], row_count=0, warnings=plan.warnings, **shown)
    privacy = call.options.privacy
    question = value.question(call.attributes, verified=value.verify)
    answer, rows = ask_served(call.project, question, offset=value.offset, privacy=privacy, watch=call.watch)
    receipt = {key: each for key, each in answer.receipt.items() if key != "sql"}
    parts, late = _parts({"sql": answer.sql, "receipt": receipt}, value.include)
    return LayerRows(
        connection=answer.connection,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows] if "rows" in value.include else [],
        row_count=rows.count,
        cut="bytes" if answer.cut == "bytes" else "rows" if answer.cut else None,
        totals=None if answer.totals is None or privacy else dict(answer.totals),
        truncated=answer.cut is not None,
        warnings=[*warning_texts(rows.warnings), *late, *privacy_warnings(privacy)],
        **parts,
    )


def _parts(parts: dict[str, Any], include: list[Part]) -> tuple[dict[str, Any], list[str]]:
    """Return the parts that were asked for, without those too long to stand beside rows, which are named."""
    kept = {name: part for name, part in parts.items() if name in include}
    long = [name for name, part in kept.items() if len(compact_json(part)) > _LONGEST_PART] if len(include) > 1 else []
    hints = [f"{name} is too long to stand beside the rest: ask again with include: [{name}]" for name in long]
    return {name: part for name, part in kept.items() if name not in long}, hints


def privacy_warnings(privacy: bool) -> list[str]:
    """Return the warning of a server that gives no values of rows."""
    return ["values of rows are withheld: this server was started with --privacy"] if privacy else []


@tool("Explain a question", takes="sl_query")
def sl_explain(call: Call, value: LayerQuestion) -> Explanation:
    """Say how a question would be answered, without running it: which facts, joins and filters, and the SQL. Use it to
    see why a number is what it is, or why sl_query refuses. Takes what sl_query takes for a question."""
    return _explained(call, value)


def _explained(call: Call, value: LayerQuestion) -> Explanation:
    from ktx_cli.jobs.semantic.explain import explain_question
    from ktx_cli.jobs.semantic.layers import choose_layer
    from ktx_cli.jobs.serve.ask import hidden_names_redacted
    from ktx_cli.jobs.serve.state import user_attributes_required

    project = call.project
    question = value.question(call.attributes)
    config = project.config()
    model = project.load_layer(project.layout, config, choose_layer(project.layout, config, question.connection))
    with user_attributes_required(), hidden_names_redacted(model, question):
        found = explain_question(project.layout, config, question, load=project.load_layer)
    columns = [{key: each for key, each in column.items() if each is not None} for column in found.columns]
    return Explanation(
        columns=columns,
        steps=list(found.steps()),
        **{key: getattr(found, key) for key in ("connection", "sql", "totals_sql")},
    )


MOST_SQL_ROWS: Final = 10_000


class RunSql(Input):
    """What to run."""

    sql: str = Field(min_length=1, max_length=50_000, description="One SELECT, in the dialect of the connection.")
    connection: Connection | None = Field(None, description="The database; needed where there are several.")
    max_rows: int = Field(DEFAULT_ROWS, ge=1, le=MOST_SQL_ROWS, description="Rows that are read at most.")
    include_sql: bool = Field(False, description="Give the statement that was sent, too.")
    offset: Offset = 0


class SqlRows(Paged):
    """The rows of a statement."""

    part = "rows"
    verbatim = frozenset({"rows"})

    connection: str
    dialect: str
    sql: str | None = Field(None, description="The statement that was sent, where it was asked for.")
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`; decimals, and integers beyond 2^53, are texts."
    )
    row_count: int = Field(description="Rows that were read, on all pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="There are more rows than were read: `max_rows` of them (rows), or too large ones (bytes)."
    )


@tool("Run SQL", open_world=True)
def sql_execution(call: Call, value: RunSql) -> SqlRows:
    """Run one read-only SELECT on a database. Use it only where no measure of the semantic layer answers: look with
    discover_data first, ask with sl_query, and take names from context_read. Statements that write, read files or
    reach the network are refused, and so are rows and columns people hid. Example: {"connection": "warehouse", "sql":
    "SELECT count(*) FROM shop.orders"}"""
    from ktx_cli.jobs.serve.ask import run_served

    privacy = call.options.privacy
    bounds = {"max_rows": value.max_rows, "offset": value.offset}
    answer, rows = run_served(call.project, value.sql, value.connection, **bounds, privacy=privacy, watch=call.watch)
    return SqlRows(
        connection=answer.connection,
        dialect=answer.dialect,
        sql=_bounded(answer.sql) if value.include_sql else None,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows],
        row_count=rows.count,
        cut=answer.cut,
        truncated=answer.cut is not None,
        warnings=[*answer.notes, *warning_texts(rows.warnings), *privacy_warnings(privacy)],
    )


def _bounded(sql: str) -> str:
    return sql if len(sql) <= _LONGEST_PART else f"{sql[:_LONGEST_PART]}…"
