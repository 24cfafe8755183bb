"""The arguments that put a question to the semantic layer, as agents give them: flat, each documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.context.semantic.model import GRAINS
from ktx_cli.context.semantic.query import DEFAULT_LIMIT, LONGEST, MOST_ITEMS, MOST_ROWS
from ktx_cli.jobs.semantic.questions import Question
from ktx_cli.mcp.tool import Connection, Input

Text = Annotated[str, Field(min_length=1, max_length=LONGEST)]
_GRAINS: Final = ", ".join(GRAINS)
_OUTSIDE: Final = frozenset({"connection", "grain", "verify", "include", "offset", "skip"})
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
    granularity: Text | None = Field(None, description=f"What a time is cut to: {_GRAINS}.")
    name: Text | None = Field(None, description="What its column in the answer is called.")
    via: Text | list[Text] | None = Field(
        None, description="Names of the joins to go through, where there are several."
    )


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
    last: Text | None = Field(None, description="As long a time before now: `30 days`.")
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
        None, description="Show members without facts. Without it: where all dimensions are of one source."
    )
    time_range: AskedRange | None = Field(None, description="Which stretch of time.")
    comparison: Text | None = Field(None, description="Compare with a time before: `1 year`, or `previous_period`.")
    totals: bool = Field(False, description="The measures without any dimension too.")
    fill: bool = Field(False, description="Show every period between the first and the last.")
    grain: Text | None = Field(
        None, description=f"Cut the times among the dimensions; without one, `metric_time` is added: {_GRAINS}."
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
