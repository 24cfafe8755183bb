"""The tools that query: `sl_query`, `sl_explain`, `sql_execution` and `mongo_query`, with their arguments and answers.

Arguments are flat and each is documented: models fill in those more reliably than nested objects."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.jobs.semantic.question import Question
from ktx_cli.jobs.semantic.sql import DEFAULT_ROWS
from ktx_cli.mcp.tool import Call, Connection, Input, Offset, Output, Paged, compact_json, tool, warning_texts
from ktx_cli.semantic import DEFAULT_LIMIT, GRAINS, LONGEST, MOST_ITEMS, MOST_ROWS, Caller

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
_GRAINS: Final = ", ".join(GRAINS)
_OUTSIDE: Final = frozenset({"connection", "grain", "verify", "explain", "include", "offset", "skip"})
"""Fields that are not part of the query itself."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AskedMeasure(_Part):
    """A measure with its own name, or an expression."""

    expr: Text = Field(description="A measure (`orders.revenue`), or an expression that aggregates columns.")
    name: Text | None = Field(None, description="Name of its column in the answer.")


class AskedDimension(_Part):
    """A dimension to group by."""

    field: Text = Field(description="A column (`customers.country`), or `metric_time` (the time of each measure).")
    granularity: Text | None = Field(None, description="Truncate a time to this grain, as in `grain`.")
    name: Text | None = Field(None, description="Name of its column in the answer.")
    via: Text | list[Text] | None = Field(None, description="Names of the joins to use.")


class AskedFilter(_Part):
    """A condition."""

    expr: Text = Field(description="SQL: `orders.status = 'paid'`, or on results: `orders.revenue > 1000`.")
    via: Text | list[Text] | None = Field(None, description="Names of the joins to use.")
    facts: Text | list[Text] | None = Field(None, description="Apply it only to measures of these sources.")


class AskedOrder(_Part):
    """A sort key."""

    field: Text = Field(description="A measure, a dimension, or a column of the answer or its position.")
    direction: Literal["asc", "desc"] = "asc"


class AskedRange(_Part):
    """A time range: `start` and `end`, or `last`."""

    start: Text | None = Field(None, description="First day or time, inclusive: 2025-01-01.")
    end: Text | None = Field(None, description="End day or time, exclusive: 2026-01-01.")
    last: Text | None = Field(None, description="The most recent period: `30 days`.")
    field: Text | None = Field(
        None, description="Time column. Defaults to the time dimension, or to the time of each fact."
    )


class LayerQuestion(Input):
    """A question to the semantic layer."""

    measures: list[Text | AskedMeasure] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Measures: `orders.revenue`, or an expression: `sum(orders.amount) as amount`, `count(orders)`.",
    )
    dimensions: list[Text | AskedDimension] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="Columns to group by: `customers.country`, `orders.ordered_at:month`.",
    )
    filters: list[Text | AskedFilter] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description="SQL conditions on rows or results, combined with AND: `customers.country = 'NO'`.",
    )
    segments: list[Text] = Field(
        default_factory=list, max_length=MOST_ITEMS, description="Named conditions: `orders.first_orders`."
    )
    having: list[Text] = Field(default_factory=list, max_length=MOST_ITEMS, description="SQL conditions on results.")
    order_by: list[Text | AskedOrder] = Field(
        default_factory=list,
        max_length=MOST_ITEMS,
        description='`orders.revenue desc`, `1 desc` (position), or {"field", "direction"}.',
    )
    limit: int = Field(DEFAULT_LIMIT, ge=0, le=MOST_ROWS, description="Maximum number of rows.")
    skip: int = Field(0, ge=0, le=1_000_000_000, description="Rows to skip first (SQL OFFSET).")
    include_empty: bool | None = Field(
        None,
        description="Include dimension values without matching rows. Default: if all dimensions come from one source.",
    )
    time_range: AskedRange | None = Field(None, description="Time range: `start` and `end`, or `last`.")
    comparison: Text | None = Field(None, description="Compare with an earlier period: `1 year` or `previous_period`.")
    totals: bool = Field(False, description="Add a grand total.")
    fill: bool = Field(False, description="Add a row for each period without data.")
    grain: Text | None = Field(
        None, description=f"Truncate time dimensions; adds `metric_time` if there is none. {_GRAINS}."
    )
    via: dict[str, Text | list[Text]] = Field(
        default_factory=dict, description='Joins to use to reach a source: {"regions": "bill_to"}.'
    )
    parameters: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="Values of parameters that sources declare."
    )
    timezone: Text | None = Field(None, description="Time zone of days and longer periods: Europe/Oslo.")
    connection: Connection | None = Field(None, description="The database; required if several have a semantic layer.")

    def question(self, caller: Caller, *, verified: bool | None = None) -> Question:
        """Return the question for the semantic layer. `caller` is never from an argument."""
        query = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude=set(_OUTSIDE))
        query["limit"] = self.limit
        if self.skip:
            query["offset"] = self.skip
        return Question(query, self.connection, self.grain, {}, caller, verified)


_LONGEST_PART: Final = 8_000
"""Maximum number of characters of a statement or receipt in an answer with other parts; a longer one is returned
alone.
"""

Part = Literal["rows", "sql", "receipt"]


class AskLayer(LayerQuestion):
    """A question, and the parts of its answer to return."""

    verify: bool | None = Field(
        None,
        description="Recompute all rows (true) or none (false) from raw rows; fail if a number differs. Defaults to a "
        "sample if there is a cumulative, offset or compared value.",
    )
    explain: bool = Field(
        False, description="Do not run the query; return its plan in `steps` and `sql`, or the reason it is refused."
    )
    include: list[Part] = Field(
        ["rows", "receipt"], min_length=1, max_length=3, description="Parts of the answer to return."
    )
    offset: Offset = 0


class LayerRows(Paged):
    """The rows of an answer, and how they were computed."""

    part = "rows"
    verbatim = frozenset({"rows", "totals"})

    connection: str
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`. Decimals and integers beyond 2^53 are strings."
    )
    row_count: int = Field(description="Rows of the whole answer, on all pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="Why the answer is incomplete: rows (`limit` was reached) or bytes (the answer is too large)."
    )
    totals: dict[str, Any] | None = Field(None, description="The grand total of each measure, if requested.")
    steps: list[str] | None = Field(None, description="The plan in words, with `explain`.")
    sql: str | None = Field(None, description="The statement, if requested.")
    receipt: dict[str, Any] | None = Field(
        None, description="How the numbers were computed: facts, joins, filters, rows without a join match, notes."
    )


class Explanation(Output):
    """The plan of a question. Nothing was run."""

    connection: str
    columns: list[dict[str, Any]] = Field(description="Name, kind (dimension or measure) and origin of each column.")
    steps: list[str] = Field(description="The plan in words.")
    sql: str
    totals_sql: str | None = None


@tool("Query the semantic layer", open_world=True, reach="layer", queries=True)
def sl_query(call: Call, value: AskLayer) -> LayerRows:
    """Query measures by dimensions, with reviewed definitions. Prefer it to sql_execution whenever a measure fits; find
    names with discover_data. It uses only declared joins and refuses questions that have no correct answer. If it
    refuses, follow the error's hint; do not work around it with SQL. `receipt` shows how the numbers were
    computed. Example: {"measures": ["orders.revenue"], "dimensions":
    ["orders.ordered_at:month"], "filters": ["customers.country = 'NO'"], "time_range": {"last": "12 months"}}"""
    from ktx_cli.jobs.serve.ask import ask_served

    if value.explain:
        plan = _explained(call, value)
        shown = {"columns": [each["name"] for each in plan.columns], "steps": plan.steps, "sql": plan.sql}
        return LayerRows(connection=plan.connection, rows=[], row_count=0, warnings=plan.warnings, **shown)
    privacy = call.options.privacy
    question = value.question(call.caller, verified=value.verify)
    answer, rows = ask_served(
        call.project, question, offset=value.offset, privacy=privacy, watch=call.watch, asker=call.identity.text
    )
    receipt = {key: each for key, each in answer.receipt.items() if key != "sql"}
    receipt["notes"] = [call.shown_note(each) for each in receipt["notes"]]
    parts, late = _parts({"sql": answer.sql, "receipt": receipt}, value.include)
    return LayerRows(
        connection=call.named(answer.connection),
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows] if "rows" in value.include else [],
        row_count=rows.count,
        cut="bytes" if answer.cut == "bytes" else "rows" if answer.cut else None,
        totals=None if answer.totals is None or privacy else dict(answer.totals),
        truncated=answer.cut is not None,
        warnings=[*warning_texts(call, rows.warnings), *late, *privacy_warnings(privacy)],
        **parts,
    )


def _parts(parts: dict[str, Any], include: list[Part]) -> tuple[dict[str, Any], list[str]]:
    """Return the requested parts and a warning for each part that is too long for an answer with other parts."""
    kept = {name: part for name, part in parts.items() if name in include}
    long = [name for name, part in kept.items() if len(compact_json(part)) > _LONGEST_PART] if len(include) > 1 else []
    hints = [f"{name} is too long for this answer; request it alone with include: [{name}]" for name in long]
    return {name: part for name, part in kept.items() if name not in long}, hints


def privacy_warnings(privacy: bool) -> list[str]:
    """Return the warning of a server that returns no row values."""
    return ["row values are hidden because this server was started with --privacy"] if privacy else []


@tool("Explain a question", takes="sl_query", reach="layer")
def sl_explain(call: Call, value: LayerQuestion) -> Explanation:
    """Explain how a question would be answered, without running it: its facts, joins, filters and SQL. Use it to
    understand a number or a refusal by sl_query. Takes the arguments of an sl_query question."""
    return _explained(call, value)


def _explained(call: Call, value: LayerQuestion) -> Explanation:
    from ktx_cli.jobs.semantic.explain import explain_question
    from ktx_cli.jobs.semantic.layers import choose_layer
    from ktx_cli.jobs.serve.ask import hidden_names_redacted
    from ktx_cli.jobs.serve.state import user_attributes_required

    project = call.project
    question = value.question(call.caller)
    config = project.config()
    model = project.load_layer(project.layout, config, choose_layer(project.layout, config, question.connection))
    with user_attributes_required(), hidden_names_redacted(model, question):
        found = explain_question(project.layout, config, question, load=project.load_layer)
    found = replace(found, receipt={**found.receipt, "notes": [*map(call.shown_note, found.receipt["notes"])]})
    columns = [{key: each for key, each in column.items() if each is not None} for column in found.columns]
    return Explanation(
        columns=columns,
        steps=list(found.steps()),
        connection=call.named(found.connection),
        sql=found.sql,
        totals_sql=found.totals_sql,
    )


MOST_SQL_ROWS: Final = 10_000


class RunSql(Input):
    """The statement to run."""

    sql: str = Field(min_length=1, max_length=50_000, description="One SELECT in the dialect of the connection.")
    connection: Connection | None = Field(
        None, description="The database; required if there are several. _ktx_federated joins tables of several by id."
    )
    max_rows: int = Field(DEFAULT_ROWS, ge=1, le=MOST_SQL_ROWS, description="Maximum number of rows to read.")
    include_sql: bool = Field(False, description="Also return the statement that was run.")
    offset: Offset = 0


class SqlRows(Paged):
    """The rows of a statement."""

    part = "rows"
    verbatim = frozenset({"rows"})

    connection: str
    dialect: str
    sql: str | None = Field(None, description="The statement that was run, if requested.")
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`. Decimals and integers beyond 2^53 are strings."
    )
    row_count: int = Field(description="Rows read, on all pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="Why not all rows were read: rows (`max_rows` was reached) or bytes (they are too large)."
    )


@tool("Run SQL", open_world=True, reach="database", queries=True)
def sql_execution(call: Call, value: RunSql) -> SqlRows:
    """Run one read-only SELECT on a database. Use it only if no measure answers the question: try discover_data and
    sl_query first, and take names from context_read. Statements that write, read files, use the network or read hidden
    rows and columns are refused. Example: {"connection": "warehouse", "sql": "SELECT count(*) FROM shop.orders"}"""
    from ktx_cli.jobs.serve.ask import run_served

    privacy = call.options.privacy
    bounds: Any = {"max_rows": value.max_rows, "offset": value.offset, "asker": call.identity.text}
    bounds["caller"] = call.caller
    answer, rows = run_served(call.project, value.sql, value.connection, **bounds, privacy=privacy, watch=call.watch)
    return SqlRows(
        connection=call.named(answer.connection),
        dialect=answer.dialect,
        sql=_bounded(answer.sql) if value.include_sql else None,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows],
        row_count=rows.count,
        cut=answer.cut,
        truncated=answer.cut is not None,
        warnings=[*map(call.shown_note, answer.notes), *warning_texts(call, rows.warnings), *privacy_warnings(privacy)],
    )


class RunPipeline(Input):
    """The pipeline to run."""

    collection: str = Field(
        min_length=1, max_length=500, description="The collection; with its database if there are several: shop.orders."
    )
    pipeline: list[dict[str, Any]] = Field(
        max_length=50,
        description='Stages that only read, as Extended JSON: dates are {"$date": "2026-01-31T00:00:00Z"}.',
    )
    connection: Connection | None = Field(None, description="The MongoDB connection; required if there are several.")
    max_rows: int = Field(DEFAULT_ROWS, ge=1, le=MOST_SQL_ROWS, description="Maximum number of results to read.")
    offset: Offset = 0


class PipelineRows(Paged):
    """The results of a pipeline, as rows with a column for each field."""

    part = "rows"
    verbatim = frozenset({"rows"})

    connection: str
    collection: str
    columns: list[str]
    rows: list[list[Any]] = Field(
        description="Values in the order of `columns`; null if a result has no such field. Ids, dates and decimals are "
        "strings."
    )
    row_count: int = Field(description="Results read, on all pages.")
    cut: Literal["rows", "bytes"] | None = Field(
        None, description="Why not all results were read: rows (`max_rows` was reached) or bytes (they are too large)."
    )


@tool("Run an aggregation pipeline", open_world=True, reach="database", pipelines=True, queries=True)
def mongo_query(call: Call, value: RunPipeline) -> PipelineRows:
    """Run one read-only aggregation pipeline on a MongoDB collection. Use it only if no measure answers the question,
    and sql_execution refuses because a collection is too large. Stages and operators that are not known to only read,
    and hidden fields, are refused. Example: {"collection": "orders", "pipeline": [{"$group": {"_id": "$status", "n":
    {"$sum": 1}}}]}"""
    from ktx_cli.jobs.serve.ask import aggregate_served

    privacy = call.options.privacy
    bounds: Any = {"max_rows": value.max_rows, "offset": value.offset, "asker": call.identity.text}
    text = json.dumps(value.pipeline, ensure_ascii=False)
    chosen, caller = value.connection, call.caller
    answer, rows = aggregate_served(
        call.project, value.collection, text, chosen, caller=caller, **bounds, privacy=privacy, watch=call.watch
    )
    return PipelineRows(
        connection=call.named(answer.connection),
        collection=answer.collection,
        columns=list(answer.columns),
        rows=[list(row) for row in rows.rows],
        row_count=rows.count,
        cut=answer.cut,
        truncated=answer.cut is not None,
        warnings=[*warning_texts(call, rows.warnings), *privacy_warnings(privacy)],
    )


def _bounded(sql: str) -> str:
    return sql if len(sql) <= _LONGEST_PART else f"{sql[:_LONGEST_PART]}…"
