"""Measures of the older form and simple metrics of the newer one: an aggregate and what goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ktx_cli.context.semantic.interchange.dbt.entries import Semantic
from ktx_cli.context.semantic.interchange.dbt.jinja import UnresolvedError
from ktx_cli.context.semantic.interchange.dbt.scope import METRIC_TIME, Scope
from ktx_cli.context.semantic.interchange.drafts import described, filled
from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.interchange.sql import fault, plain_name, quoted

_AGGREGATES: Final[dict[str, Callable[[str], str]]] = {
    "sum": lambda expr: f"sum({expr})",
    "min": lambda expr: f"min({expr})",
    "max": lambda expr: f"max({expr})",
    "average": lambda expr: f"avg({expr})",
    "avg": lambda expr: f"avg({expr})",
    "median": lambda expr: f"median({expr})",
    "count": lambda expr: "count(*)" if expr.strip() in ("1", "*") else f"count({expr})",
    "count_distinct": lambda expr: f"count(distinct {expr})",
    "sum_boolean": lambda expr: f"sum(case when {expr} then 1 else 0 end)",
}
_TAKES: Final = {"min": "first", "max": "last"}
_REASONS: Final = {
    "config": "it steers dbt, and means nothing for questions",
    "meta": "it means nothing for questions",
    "percentile_type": "only `continuous` and `discrete` are known",
}


class MeasureReader:
    """Reads the aggregates of one semantic model."""

    def __init__(self, semantic: Semantic, scope: Scope, report: Report) -> None:
        self._semantic, self._scope, self._report = semantic, scope, report

    def read(self, item: Item, name: str, what: str) -> dict[str, Any] | None:
        """Return the measure of an entry with `agg`, None after a report; keys it does not know are left unread."""
        expr = self._aggregate(item, name, what)
        if expr is None:
            return None
        measure: dict[str, Any] = {"name": name, "expr": expr}
        if not self._add_time(item, measure, what) or not self._add_semi_additive(item, measure, what):
            return None
        description = described(item.text("description"), item.text("label"))
        measure["descriptions"] = {"dbt": description} if description else None
        why = fault(self._semantic.draft, expr, aggregate=True)
        if why is not None:
            self._report.dropped(what, why, item.place)
            return None
        return filled(measure)

    def rest(self, item: Item, what: str) -> None:
        """Report what of an entry was not read."""
        item.report_rest(self._report, what, _REASONS)

    def _aggregate(self, item: Item, name: str, what: str) -> str | None:
        agg = (item.text("agg") or "").lower()
        try:
            expr = self._scope.render(item.text("expr") or name)
        except UnresolvedError as error:
            self._report.dropped(what, error.message, item.place)
            return None
        expr = self._own(expr)
        why = fault(self._semantic.draft, expr, aggregate=False) if expr != "*" else None
        if why is not None:
            self._report.dropped(what, why, item.place)
            return None
        if agg == "percentile":
            return self._percentile(item, expr, what)
        if agg not in _AGGREGATES:
            self._report.dropped(what, f"the aggregate `{agg}` is not known", item.place)
            return None
        return _AGGREGATES[agg](expr)

    def _own(self, expr: str) -> str:
        """Return the column for a bare name: a dimension that had to be renamed is not meant, the table's column is."""
        plain = plain_name(expr)
        found = self._semantic.draft.find(plain) if plain else None
        return quoted(found, self._semantic.draft.dialect) if found is not None else expr

    def _percentile(self, item: Item, expr: str, what: str) -> str | None:
        params = item.item("agg_params") or item
        fraction = params.number("percentile")
        if fraction is not None and fraction > 1:
            fraction /= 100
        if fraction is None or not 0 <= fraction <= 1:
            self._report.dropped(what, "its `percentile` is no number from 0 to 100", item.place)
            return None
        discrete = params.flag("use_discrete_percentile") or params.text("percentile_type") == "discrete"
        approximate = params.flag("use_approximate_percentile")
        if discrete or approximate:
            form = "a value that occurs" if discrete else "an approximate one"
            why = f"dbt takes {form}; ktx computes the continuous percentile"
            self._report.approximated(what, why, item.place, f"{self._semantic.draft.name}.{item.text('name')}")
        if params is not item:
            params.report_rest(self._report, what)
        return f"percentile({expr}, {fraction:g})"

    def _add_time(self, item: Item, measure: dict[str, Any], what: str) -> bool:
        wanted = item.text("agg_time_dimension")
        if wanted is None or wanted == self._semantic.time:
            return True
        column = self._dimension(wanted)
        if column is None:
            self._report.dropped(what, f"its time `{wanted}` is no dimension that was imported", item.place)
            return False
        measure["time"] = column
        return True

    def _add_semi_additive(self, item: Item, measure: dict[str, Any], what: str) -> bool:
        below = item.item("non_additive_dimension")
        if below is None:
            return True
        name = below.text("name") or ""
        column = self._dimension(self._semantic.time or name if name == METRIC_TIME else name)
        take = _TAKES.get((below.text("window_choice") or below.text("window_agg") or "min").lower())
        groups = below.words("window_groupings") or below.words("group_by")
        keys = [self._key(group) for group in groups]
        if column is None or take is None or None in keys:
            why = "its `non_additive_dimension` names what was not imported, or a choice that is not min or max"
            self._report.dropped(what, why, item.place)
            return False
        measure["semi_additive"] = filled({"over": column, "take": take, "per": keys})
        below.report_rest(self._report, what)
        return True

    def _dimension(self, name: str) -> str | None:
        found = self._semantic.dimensions.get(name.rsplit("__", 1)[-1])
        return found.column if found is not None else None

    def _key(self, name: str) -> str | None:
        found = self._semantic.entities.get(name)
        return found.column if found is not None else self._dimension(name)
