"""Tests for the answer to a decision point. They fail if a definition stops following it, for any data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.semantic import (
    Alternative,
    DecisionPoint,
    Measure,
    Model,
    SemanticError,
    Source,
    Visibility,
    compile_query,
    rows_left_out,
    sql_name,
    with_source,
)
from ktx_cli.warehouses import dialect_named

_COUNT_OF_ROWS: Final = re.compile(r"count\s*\(\s*\*?\s*\)", re.IGNORECASE)
_NOISE: Final = "0.000000001"
"""The relative difference that a different order of additions can cause."""


def test_name(point: str) -> str:
    """Return the name of a decision's first test."""
    return f"decision {point}"


def is_test_of(point: str, name: object) -> bool:
    """Whether a test with this name belongs to the decision about a point."""
    base = test_name(point)
    return isinstance(name, str) and re.fullmatch(rf"{re.escape(base)}(?: \d+)?", name) is not None


def tests_of(
    model: Model, point: DecisionPoint, chosen: Alternative, source: str, measures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the `tests:` entries for the measures of a source that follow an answer.

    For a condition on rows, the measures must be zero for the excluded rows. For another date, every row must be in the
    period of that date. For another aggregate or no change, a measure must equal its aggregate. Measures that cannot be
    queried have no test. `model` contains the definitions after the answer.
    """
    found = model.sources[source]
    shown = [found.measures[name] for name in measures if found.measures[name].visibility is Visibility.PUBLIC]
    if not shown or found.visibility is not Visibility.PUBLIC:
        return []
    tests: list[dict[str, Any]] = []
    for query, invariant in _Writer(model, point, chosen, found).tests(shown):
        try:
            compile_query(model, query)
        except SemanticError:
            continue
        name = test_name(point.id) if not tests else f"{test_name(point.id)} {len(tests) + 1}"
        tests.append({"name": name, "query": query, "invariant": invariant})
    return tests


def fiscal_test(
    model: Model, point: DecisionPoint, month: int, source: str, measures: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the test that fiscal years begin in a given month, using the first measure of a source with a time."""
    for name in measures:
        asked = [{"expr": sql_name((source, name), model.dialect), "name": "value"}]
        dimension = {"field": "metric_time", "granularity": "fiscal_year", "name": "fiscal_year"}
        query = {"measures": asked, "dimensions": [dimension]}
        try:
            compile_query(model, query)
        except SemanticError:  # it has no time
            continue
        begins = dialect_named(model.dialect).extract("MONTH", exp.column("fiscal_year")).sql(model.dialect)
        invariant = f"fiscal_year is null or {begins} = {month}"
        return [{"name": test_name(point.id), "query": query, "invariant": invariant}]
    return []


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the tests of an answer for one source."""

    model: Model
    point: DecisionPoint
    chosen: Alternative
    source: Source

    def tests(self, measures: Sequence[Measure]) -> Iterator[tuple[dict[str, Any], str]]:
        """Yield the query and invariant for each test."""
        left_out = rows_left_out(self.model, self.point, self.chosen)
        if left_out is not None:
            asked = self._asked(measures)
            nothing = " and ".join(f"coalesce({each['name']}, 0) = 0" for each in asked)
            yield {"measures": asked, "filters": [left_out]}, nothing
        if self.chosen.time is not None:
            yield self._by_date(measures, self.chosen.time)
        if self.chosen.expr is not None or not self.chosen.changes:
            for group in self._alike(measures):
                try:
                    yield self._by_aggregate(group)
                except SemanticError:  # a template without a value; `ktx sl validate` reports what cannot be read
                    continue

    def _asked(self, measures: Sequence[Measure]) -> list[dict[str, str]]:
        """Return the query entries for measures, with names that an invariant can use."""
        return [
            {
                "expr": sql_name((self.source.name, each.name), self.model.dialect),
                "name": each.name if each.name.isidentifier() else f"measure_{number}",
            }
            for number, each in enumerate(measures, start=1)
        ]

    def _by_date(self, measures: Sequence[Measure], time: str) -> tuple[dict[str, Any], str]:
        """Return the test that the months of the measures equal the months in a column."""
        asked = self._asked(measures)
        column = sql_name((self.source.name, time), self.model.dialect)
        dimensions = [
            {"field": "metric_time", "granularity": "month", "name": "own_month"},
            {"field": column, "granularity": "month", "name": "decided_month"},
        ]
        same = "own_month = decided_month or (own_month is null and decided_month is null)"
        nothing = " and ".join(f"coalesce({each['name']}, 0) = 0" for each in asked)
        return {"measures": asked, "dimensions": dimensions}, f"{same} or ({nothing})"

    def _alike(self, measures: Sequence[Measure]) -> list[list[Measure]]:
        """Group the measures by row conditions and time."""
        groups: dict[tuple[Any, ...], list[Measure]] = {}
        for each in measures:
            groups.setdefault((each.filter, each.segments, each.time), []).append(each)
        return list(groups.values())

    def _by_aggregate(self, measures: Sequence[Measure]) -> tuple[dict[str, Any], str]:
        """Return the test that measures equal their aggregates over their rows."""
        first, source = measures[0], self.source.name
        conditions = [first.filter, *(self.source.segments[each].expr for each in first.segments)]
        query: dict[str, Any] = {"measures": [], "filters": []}
        query["filters"] = [with_source(self.model, source, each) for each in conditions if each is not None]
        checks = []
        for asked, measure in zip(self._asked(measures), measures, strict=True):
            expected = {"expr": self._aggregate(measure), "name": f"expected_{asked['name']}"}
            query["measures"] += [asked, expected]
            one, other = f"coalesce({asked['name']}, 0)", f"coalesce({expected['name']}, 0)"
            checks.append(f"abs({one} - {other}) <= {_NOISE} * abs({other})")
        return {key: value for key, value in query.items() if value}, " and ".join(checks)

    def _aggregate(self, measure: Measure) -> str:
        if _COUNT_OF_ROWS.fullmatch(measure.expr.strip()) and self.source.grain:
            return f"count({sql_name((self.source.name, self.source.grain[0]), self.model.dialect)})"
        return with_source(self.model, self.source.name, measure.expr)
