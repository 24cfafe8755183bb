"""Metrics as measures: each by the source of its first input, what it is computed from before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic.interchange.dbt.project import (
    METRIC_TIME,
    Input,
    Scope,
    Semantic,
    UnresolvedJinjaError,
    read_filters,
    read_input,
    to_date,
    window,
)
from ktx_cli.semantic.interchange.drafts import described, fault, filled, plain_name, quoted, with_names
from ktx_cli.semantic.interchange.report import Item, Report

_FILLED: Final = "ktx shows empty periods where a question says `fill: true`; a count is 0 there, any other value empty"
_MISSING: Final = "inputs of several sources: where one has no rows, a sum or count is 0 here and empty in dbt"
_REASONS: Final = {
    "config": "it steers dbt, and means nothing for questions",
    "meta": "it means nothing for questions",
    "time_granularity": "a question says its grain",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A measure that was written: by which semantic model, under which name."""

    semantic: Semantic
    name: str

    @property
    def ref(self) -> str:
        """What it is called in reports."""
        return f"{self.semantic.draft.name}.{self.name}"

    def sql(self, home: Semantic) -> str:
        """Return how formulas of a semantic model name it."""
        parts = (self.name,) if self.semantic is home else (self.semantic.draft.name, self.name)
        return ".".join(quoted(part, home.draft.dialect) for part in parts)


@dataclass(frozen=True, slots=True)
class Entry:
    """A metric as written; `home`: the semantic model whose entry it stands in, in the newer form."""

    item: Item
    home: Semantic | None = None


class Metrics:
    """Resolves metrics one by one, those they are made of first."""

    def __init__(self, semantics: list[Semantic], variables: Mapping[str, Any], report: Report) -> None:
        self._variables, self._report = variables, report
        self._semantics = semantics
        self._entries: dict[str, Entry] = {}
        self._measures: dict[str, Found] = {}
        self._found: dict[str, Found | None] = {}
        self._open: list[str] = []

    def run(self, metrics: list[Item]) -> None:
        """Write all measures and metrics into the sources."""
        self._collect(metrics)
        for semantic in self._semantics:
            self._add_measures(semantic)
        for name in self._entries:
            self._metric(name)
        self._hide_inputs()

    def _collect(self, metrics: list[Item]) -> None:
        entries = [Entry(item, semantic) for semantic in self._semantics for item in semantic.metrics]
        for entry in (*entries, *map(Entry, metrics)):
            name = entry.item.text("name")
            if name is None or name in self._entries or "." in name:
                why = "another metric has the name" if name in self._entries else "it has no name, or one with a dot"
                self._report.dropped(f"metric `{name or '?'}`", why, entry.item.place)
            elif _is_disabled(entry.item):
                self._report.dropped(f"metric `{name}`", "it is disabled", entry.item.place)
            else:
                self._entries[name] = entry

    def _add_measures(self, semantic: Semantic) -> None:
        """Write the measures of the older form; one gives its name up for a metric that is something else."""
        reader = MeasureReader(semantic, Scope(semantic, self._variables), self._report)
        for item in semantic.measures:
            name = item.text("name") or ""
            what = f"measure `{name or '?'}` of `{semantic.name}`"
            if not name or name in self._measures or "." in name:
                why = "another measure has the name" if name in self._measures else "it has no name, or one with a dot"
                self._report.dropped(what, why, item.place)
                continue
            shown = name if name not in self._entries or self._exposes(self._entries[name], name) else f"{name}_measure"
            measure = reader.read(item, shown if item.has("expr") else name, what)
            if measure is not None:
                measure["name"] = shown
                self._write(Found(semantic, shown), measure, what, item)
                self._measures[name] = Found(semantic, shown)
                if item.flag("create_metric"):
                    self._found.setdefault(name, Found(semantic, shown))
            reader.rest(item, what)

    def _exposes(self, entry: Entry, measure: str) -> bool:
        """Say whether a metric is a measure and nothing more."""
        params = entry.item.item("type_params")
        wanted = read_input(params.value("measure"), entry.item.place) if params else None
        simple = (entry.item.text("type") or "").lower() == "simple" and not entry.item.has("filter")
        return simple and wanted is not None and wanted.name == measure and wanted.is_plain

    def _write(self, found: Found, measure: dict[str, Any], what: str, item: Item, why: str = "") -> None:
        found.semantic.draft.measures[found.name] = measure
        if why:
            self._report.approximated(what, why, item.place, found.ref)
        else:
            self._report.kept(what, item.place, found.ref)

    def _metric(self, name: str) -> Found | None:
        """Return the measure of a metric, None where it is dropped."""
        if name in self._found or name not in self._entries:
            return self._found.get(name)
        if name in self._open:
            return None
        self._open.append(name)
        entry = self._entries[name]
        what = f"metric `{name}`"
        readers = {
            "simple": self._simple, "ratio": self._ratio, "derived": self._derived, "cumulative": self._cumulative,
        }  # fmt: skip
        read = readers.get((entry.item.text("type") or "").lower(), self._unknown)
        try:
            found = read(entry, name, what)
        except KtxError as error:
            self._report.dropped(what, error.message, entry.item.place)
            found = None
        self._found[name] = found
        self._open.pop()
        if found is not None:
            self._rest(entry, what)
        return found

    def _rest(self, entry: Entry, what: str) -> None:
        params = entry.item.item("type_params")
        if params is not None:
            params.skip("measure", "numerator", "denominator", "expr", "metrics", "window", "grain_to_date")
            params.skip("cumulative_type_params", "metric", "input_measures")
            params.report_rest(self._report, what, _REASONS)
        entry.item.report_rest(self._report, what, _REASONS)

    def _unknown(self, entry: Entry, _name: str, what: str) -> Found | None:
        kind = entry.item.text("type")
        why = "ktx has no measure over pairs of events" if kind == "conversion" else "no such type is known"
        self._report.dropped(what, f"its type is `{kind}`: {why}", entry.item.place)
        return None

    def _params(self, entry: Entry) -> Item:
        """Return the mapping the type's own keys stand in: below `type_params` in the older form."""
        return entry.item.item("type_params") or entry.item

    def _simple(self, entry: Entry, name: str, what: str) -> Found | None:
        if entry.item.has("agg") and entry.home is not None:
            return self._aggregate(entry, entry.home, name, what)
        params = self._params(entry)
        wanted = read_input(params.value("measure"), entry.item.place)
        found = self._measures.get(wanted.name) if wanted else None
        if wanted is None or found is None:
            named = f"its measure `{wanted.name}` was not imported" if wanted else "it names no measure"
            self._report.dropped(what, named, entry.item.place)
            return None
        wanted = wanted.with_filters(read_filters(entry.item, "filter"))
        self._note_fill(entry, wanted, what, f"{found.semantic.draft.name}.{name}")
        if wanted.is_plain and found.name == name:
            self._describe(entry, found.semantic.draft.measures[name])
            self._report.kept(what, entry.item.place, found.ref)
            return found
        scope = Scope(found.semantic, self._variables)
        measure = {"name": name, "expr": found.sql(found.semantic), "filter": scope.condition(wanted.filters)}
        return self._add(entry, found.semantic, name, measure, what)

    def _aggregate(self, entry: Entry, home: Semantic, name: str, what: str) -> Found | None:
        """Write a simple metric of the newer form."""
        scope = Scope(home, self._variables)
        reader = MeasureReader(home, scope, self._report)
        measure = reader.read(entry.item, name, what)
        if measure is None:
            return None
        measure["filter"] = scope.condition(read_filters(entry.item, "filter"))
        if entry.item.flag("join_to_timespine") | entry.item.has("fill_nulls_with"):
            entry.item.skip("fill_nulls_with")
            self._report.approximated(what, _FILLED, entry.item.place, f"{home.draft.name}.{name}")
        return self._add(entry, home, name, measure, what)

    def _add(
        self, entry: Entry, semantic: Semantic, name: str, measure: Mapping[str, Any], what: str, why: str = ""
    ) -> Found | None:
        """Write a measure after a check of its filter; described as the metric is."""
        written = filled(measure)
        draft = semantic.draft
        fault_found = fault(draft, written["filter"], aggregate=False) if "filter" in written else None
        if fault_found is not None:
            self._report.dropped(what, f"its filter: {fault_found}", entry.item.place)
            return None
        if name in draft.measures:
            self._report.dropped(what, f"`{draft.name}` has another measure of that name", entry.item.place)
            return None
        self._describe(entry, written)
        found = Found(semantic, name)
        self._write(found, written, what, entry.item, why)
        return found

    def _describe(self, entry: Entry, measure: dict[str, Any]) -> None:
        text = described(entry.item.text("description"), entry.item.text("label"))
        if text:
            measure["descriptions"] = {"dbt": text}

    def _note_fill(self, entry: Entry, wanted: Input, what: str, target: str) -> None:
        if wanted.fill:
            self._report.approximated(what, _FILLED, entry.item.place, target)

    def _input(self, entry: Entry, wanted: Input, name: str, what: str) -> Found | None:
        """Return the measure of an input, a hidden one of its own where it is filtered or moved in time."""
        found = self._metric(wanted.name) or self._measures.get(wanted.name)
        if found is None:
            self._report.dropped(what, f"its input `{wanted.name}` was not imported", entry.item.place)
            return None
        self._note_fill(entry, wanted, what, f"{found.semantic.draft.name}.{name}")
        if wanted.is_plain:
            return found
        if wanted.offset_to_grain:
            why = f"ktx has no value at the start of a {wanted.offset_to_grain} (`offset_to_grain`)"
            self._report.dropped(what, why, entry.item.place)
            return None
        offset = window(wanted.offset)
        if wanted.offset and offset is None:
            self._report.dropped(what, f"its `offset_window` is `{wanted.offset}`, no length of time", entry.item.place)
            return None
        return self._helper(entry, found, wanted, offset, name, what)

    def _helper(
        self, entry: Entry, found: Found, wanted: Input, offset: str | None, name: str, what: str
    ) -> Found | None:
        scope, draft = Scope(found.semantic, self._variables), found.semantic.draft
        condition = scope.condition(wanted.filters)
        why = fault(draft, condition, aggregate=False) if condition else None
        if why is not None:
            self._report.dropped(what, f"the filter of its input `{wanted.name}`: {why}", entry.item.place)
            return None
        own, number = f"{name}__{wanted.alias}", 2
        while own in draft.measures:
            own, number = f"{name}__{wanted.alias}_{number}", number + 1
        draft.measures[own] = filled({
            "name": own, "expr": found.sql(found.semantic), "filter": condition, "offset": offset,
            "visibility": "internal",
        })  # fmt: skip
        return Found(found.semantic, own)

    def _ratio(self, entry: Entry, name: str, what: str) -> Found | None:
        params = self._params(entry)
        inputs = [read_input(params.value(key), entry.item.place) for key in ("numerator", "denominator")]
        own = read_filters(entry.item, "filter")
        if None in inputs:
            self._report.dropped(what, "it has no `numerator` or no `denominator`", entry.item.place)
            return None
        result = [self._input(entry, each.with_filters(own), name, what) for each in inputs if each]
        if result[0] is None or result[1] is None:
            return None
        home = result[0].semantic
        expr = " / ".join(each.sql(home) for each in result if each)
        why = _MISSING if result[1].semantic is not home else ""
        return self._add(entry, home, name, {"name": name, "expr": expr}, what, why)

    def _derived(self, entry: Entry, name: str, what: str) -> Found | None:
        params = self._params(entry)
        own = read_filters(entry.item, "filter")
        listed = params.value("metrics") or params.value("input_metrics") or []
        inputs = [read_input(each, entry.item.place) for each in listed if isinstance(listed, list)]
        text = params.text("expr")
        if not inputs or text is None or None in inputs:
            self._report.dropped(what, "it has no `expr` or names no metrics", entry.item.place)
            return None
        found = {each.alias: self._input(entry, each.with_filters(own), name, what) for each in inputs if each}
        if None in found.values():
            return None
        several = {alias: each for alias, each in found.items() if each}
        home = next(iter(several.values())).semantic
        refs = {alias: each.sql(home) for alias, each in several.items()}
        expr = with_names(text, refs)
        problem = fault(home.draft, expr, aggregate=True, measures=refs.values())
        if problem is not None:
            self._report.dropped(what, problem, entry.item.place)
            return None
        why = _MISSING if any(each.semantic is not home for each in several.values()) else ""
        return self._add(entry, home, name, {"name": name, "expr": expr}, what, why)

    def _cumulative(self, entry: Entry, name: str, what: str) -> Found | None:
        params = self._params(entry)
        below = params.item("cumulative_type_params")
        places = [each for each in (below, params) if each is not None]
        value = params.value("measure") or params.value("input_metric") or (below.value("metric") if below else None)
        wanted = read_input(value, entry.item.place)
        if wanted is None:
            self._report.dropped(what, "it names no measure and no metric", entry.item.place)
            return None
        found = self._input(entry, wanted, name, what)
        if found is None:
            return None
        length, grain, taken = (
            next((text for place in places if (text := place.text(key))), None)
            for key in ("window", "grain_to_date", "period_agg")
        )
        cumulative = filled({"window": window(length), "to_date": to_date(grain)})
        if (length and "window" not in cumulative) or (grain and "to_date" not in cumulative) or (length and grain):
            self._report.dropped(what, f"`{length or grain}` is no window ktx has", entry.item.place)
            return None
        condition = Scope(found.semantic, self._variables).condition(read_filters(entry.item, "filter"))
        measure = {
            **filled({"name": name, "expr": found.sql(found.semantic), "filter": condition}),
            "cumulative": cumulative,
        }
        why = "" if taken == "last" else f"a period has the value at its end; dbt takes its {taken or 'first'} value"
        return self._add_cumulative(entry, found, measure, what, why)

    def _add_cumulative(self, entry: Entry, found: Found, measure: dict[str, Any], what: str, why: str) -> Found | None:
        added = self._add(entry, found.semantic, measure["name"], measure, what, why)
        if added is not None:
            added.semantic.draft.measures[added.name]["cumulative"] = measure["cumulative"]
        return added

    def _hide_inputs(self) -> None:
        """Keep measures of the older form that metrics expose under other names out of questions, as dbt does."""
        exposed = {found.ref for found in self._found.values() if found is not None}
        for found in self._measures.values():
            draft = found.semantic.draft
            used = any(
                found.sql(found.semantic) == measure["expr"]
                for name, measure in draft.measures.items()
                if name != found.name
            )
            if used and found.ref not in exposed:
                draft.measures[found.name]["visibility"] = "internal"


def _is_disabled(item: Item) -> bool:
    config = item.item("config")
    return config is not None and config.has("enabled") and not config.flag("enabled")


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
_UNREAD_KEYS: Final = {
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
        item.report_rest(self._report, what, _UNREAD_KEYS)

    def _aggregate(self, item: Item, name: str, what: str) -> str | None:
        agg = (item.text("agg") or "").lower()
        try:
            expr = self._scope.render(item.text("expr") or name)
        except UnresolvedJinjaError as error:
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
