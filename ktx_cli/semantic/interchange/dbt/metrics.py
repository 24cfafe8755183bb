"""Import dbt metrics as measures. A metric belongs to the source of its first input; inputs are imported first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic.interchange.dbt import project as dbt
from ktx_cli.semantic.interchange.drafts import SourceDraft, checked, described, filled, plain_name, quoted, with_names
from ktx_cli.semantic.interchange.report import Item, Report, UnresolvedError
from ktx_cli.semantic.load.columns import SEARCH_TEXTS

if TYPE_CHECKING:
    pass

_FILLED: Final = "ktx includes empty periods if a query sets `fill: true`: counts are 0, other values are null"
_MISSING: Final = "it combines sources: without rows, a sum or count is 0 in ktx and null in dbt"
_REASONS: Final = {
    "config": dbt.STEERS,
    "meta": "it does not affect queries",
    "time_granularity": "ktx queries set the grain themselves",
}


@dataclass(frozen=True, slots=True)
class Found:
    """An imported measure: its semantic model and its name."""

    semantic: dbt.Semantic
    name: str

    @property
    def ref(self) -> str:
        """The measure's qualified name for reports."""
        return f"{self.semantic.draft.name}.{self.name}"

    def sql(self, home: dbt.Semantic) -> str:
        """Return the measure's name in formulas of a semantic model."""
        parts = (self.name,) if self.semantic is home else (self.semantic.draft.name, self.name)
        return ".".join(quoted(part, home.draft.dialect) for part in parts)


@dataclass(frozen=True, slots=True)
class Entry:
    """A metric in the input. `home` is the semantic model that contains it in the newer YAML spec."""

    item: Item
    home: dbt.Semantic | None = None


class Metrics:
    """Imports metrics, with their inputs first."""

    def __init__(self, semantics: list[dbt.Semantic], variables: Mapping[str, Any], report: Report) -> None:
        self._variables, self._report = variables, report
        self._semantics = semantics
        self._entries: dict[str, Entry] = {}
        self._measures: dict[str, Found] = {}
        self._found: dict[str, Found | None] = {}

    def run(self, metrics: list[Item]) -> None:
        """Add all measures and metrics to the sources."""
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
                why = "`name` is missing or contains a dot"
                why = "another metric has the same name" if name in self._entries else why
                self._report.dropped(f"metric `{name or '?'}`", why, entry.item.place)
            elif _is_disabled(entry.item):
                self._report.dropped(f"metric `{name}`", "it is disabled", entry.item.place)
            else:
                self._entries[name] = entry

    def _add_measures(self, semantic: dbt.Semantic) -> None:
        """Add the measures of the older YAML spec. A metric with the same name takes precedence over a measure."""
        reader = MeasureReader(semantic, dbt.Scope(semantic, self._variables), self._report)
        for item in semantic.measures:
            name = item.text("name") or ""
            what = f"measure `{name or '?'}` of `{semantic.name}`"
            if not name or name in self._measures or "." in name:
                why = "`name` is missing or contains a dot"
                why = "another measure has the same name" if name in self._measures else why
                self._report.dropped(what, why, item.place)
                continue
            shown = name if name not in self._entries or self._exposes(self._entries[name], name) else f"{name}_measure"
            with self._report.dropping(what, item.place):
                measure = reader.read(item, shown if item.has("expr") else name, what)
                measure["name"] = shown
                self._write(Found(semantic, shown), measure, what, item)
                self._measures[name] = Found(semantic, shown)
                if item.flag("create_metric"):
                    self._found.setdefault(name, Found(semantic, shown))
            reader.rest(item, what)

    def _exposes(self, entry: Entry, measure: str) -> bool:
        """Return whether a metric only exposes a measure."""
        params = entry.item.item("type_params")
        wanted = dbt.read_input(params.value("measure"), entry.item.place) if params else None
        simple = (entry.item.text("type") or "").lower() == "simple" and not entry.item.has("filter")
        return simple and wanted is not None and wanted.name == measure and wanted.is_plain

    def _write(self, found: Found, measure: dict[str, Any], what: str, item: Item, why: str = "") -> None:
        found.semantic.draft.measures[found.name] = measure
        self._report.kept(what, item.place, found.ref, why)

    def _metric(self, name: str) -> Found | None:
        """Return the measure for a metric, or None if it was dropped."""
        if name in self._found or name not in self._entries:
            return self._found.get(name)
        entry = self._entries[name]
        what = f"metric `{name}`"
        readers = {
            "simple": self._simple, "ratio": self._ratio, "derived": self._derived, "cumulative": self._cumulative,
        }  # fmt: skip
        read = readers.get((entry.item.text("type") or "").lower(), self._unknown)
        self._found[name] = None  # so that a metric that depends on itself is found
        with self._report.dropping(what, entry.item.place):
            self._found[name] = read(entry, name, what)
            if self._found[name] is not None:
                self._rest(entry, what)
        return self._found[name]

    def _rest(self, entry: Entry, what: str) -> None:
        params = entry.item.item("type_params")
        if params is not None:
            params.skip("measure", "numerator", "denominator", "expr", "metrics", "window", "grain_to_date")
            params.skip("cumulative_type_params", "metric", "input_measures")
            params.report_rest(self._report, what, _REASONS)
        entry.item.report_rest(self._report, what, _REASONS)

    def _unknown(self, entry: Entry, _name: str, _what: str) -> Found:
        kind = entry.item.text("type")
        why = "ktx does not support conversion measures" if kind == "conversion" else "unknown type"
        raise UnresolvedError(f"its type is `{kind}`: {why}")

    def _params(self, entry: Entry) -> Item:
        """Return the mapping with the keys of the metric type, which is `type_params` in the older YAML spec."""
        return entry.item.item("type_params") or entry.item

    def _simple(self, entry: Entry, name: str, what: str) -> Found:
        if entry.item.has("agg") and entry.home is not None:
            return self._aggregate(entry, entry.home, name, what)
        wanted = dbt.read_input(self._params(entry).value("measure"), entry.item.place)
        found = self._measures.get(wanted.name) if wanted else None
        if wanted is None or found is None:
            raise UnresolvedError(f"its measure `{wanted.name}` was not imported" if wanted else "it has no measure")
        wanted = wanted.with_filters(dbt.read_filters(entry.item, "filter"))
        self._note_fill(entry, wanted, what, f"{found.semantic.draft.name}.{name}")
        if wanted.is_plain and found.name == name:
            self._describe(entry, found.semantic.draft.measures[name])
            self._report.kept(what, entry.item.place, found.ref)
            return found
        scope = dbt.Scope(found.semantic, self._variables)
        measure = {"name": name, "expr": found.sql(found.semantic), "filter": scope.condition(wanted.filters)}
        return self._add(entry, found.semantic, name, measure, what)

    def _aggregate(self, entry: Entry, home: dbt.Semantic, name: str, what: str) -> Found:
        """Add a simple metric of the newer YAML spec."""
        scope = dbt.Scope(home, self._variables)
        measure = MeasureReader(home, scope, self._report).read(entry.item, name, what)
        measure["filter"] = scope.condition(dbt.read_filters(entry.item, "filter"))
        if entry.item.flag("join_to_timespine") | entry.item.has("fill_nulls_with"):
            entry.item.skip("fill_nulls_with")
            self._report.approximated(what, _FILLED, entry.item.place, f"{home.draft.name}.{name}")
        return self._add(entry, home, name, measure, what)

    def _add(
        self, entry: Entry, semantic: dbt.Semantic, name: str, measure: Mapping[str, Any], what: str, why: str = ""
    ) -> Found:
        """Check a measure's filter, and add the measure with the metric's description."""
        written = filled(measure)
        draft = semantic.draft
        _check_filter(draft, written.get("filter"), "its filter")
        if name in draft.measures:
            raise UnresolvedError(f"`{draft.name}` already has a measure with this name")
        self._describe(entry, written)
        found = Found(semantic, name)
        self._write(found, written, what, entry.item, why)
        return found

    def _describe(self, entry: Entry, measure: dict[str, Any]) -> None:
        label = entry.item.text("label")
        text = described(entry.item.text("description"), label)
        if text:
            measure["descriptions"] = {"dbt": text}
        if label:
            measure["label"] = label
        measure.update(_search_texts(entry.item))

    def _note_fill(self, entry: Entry, wanted: dbt.Input, what: str, target: str) -> None:
        if wanted.fill:
            self._report.approximated(what, _FILLED, entry.item.place, target)

    def _input(self, entry: Entry, wanted: dbt.Input, name: str, what: str) -> Found:
        """Return the measure for an input. For a filter or time offset, an internal measure is added."""
        found = self._metric(wanted.name) or self._measures.get(wanted.name)
        if found is None:
            raise UnresolvedError(f"its input `{wanted.name}` was not imported")
        self._note_fill(entry, wanted, what, f"{found.semantic.draft.name}.{name}")
        if wanted.is_plain:
            return found
        if wanted.offset_to_grain:
            raise UnresolvedError(f"ktx does not support `offset_to_grain` (here {wanted.offset_to_grain})")
        offset = dbt.window(wanted.offset)
        if wanted.offset and offset is None:
            raise UnresolvedError(f"its `offset_window` is `{wanted.offset}`, which is not a time span")
        draft = found.semantic.draft
        condition = dbt.Scope(found.semantic, self._variables).condition(wanted.filters)
        _check_filter(draft, condition, f"the filter of its input `{wanted.name}`")
        own, number = f"{name}__{wanted.alias}", 2
        while own in draft.measures:
            own, number = f"{name}__{wanted.alias}_{number}", number + 1
        draft.measures[own] = filled({
            "name": own, "expr": found.sql(found.semantic), "filter": condition, "offset": offset,
            "visibility": "internal",
        })  # fmt: skip
        return Found(found.semantic, own)

    def _inputs(self, entry: Entry, inputs: Sequence[dbt.Input], name: str, what: str) -> list[Found] | None:
        """Return the measures of all inputs, or None if an input was reported as dropped."""
        found = []
        for each in inputs:
            with self._report.dropping(what, entry.item.place):
                found.append(self._input(entry, each, name, what))
        return found if len(found) == len(inputs) else None

    def _ratio(self, entry: Entry, name: str, what: str) -> Found | None:
        params = self._params(entry)
        inputs = [dbt.read_input(params.value(key), entry.item.place) for key in ("numerator", "denominator")]
        own = dbt.read_filters(entry.item, "filter")
        if None in inputs:
            raise UnresolvedError("`numerator` or `denominator` is missing")
        result = self._inputs(entry, [each.with_filters(own) for each in inputs if each], name, what)
        if result is None:
            return None
        over, under = result
        home = over.semantic
        expr = f"{over.sql(home)} / {under.sql(home)}"
        why = _MISSING if under.semantic is not home else ""
        return self._add(entry, home, name, {"name": name, "expr": expr}, what, why)

    def _derived(self, entry: Entry, name: str, what: str) -> Found | None:
        params = self._params(entry)
        own = dbt.read_filters(entry.item, "filter")
        listed = params.value("metrics") or params.value("input_metrics") or []
        inputs = [dbt.read_input(each, entry.item.place) for each in listed if isinstance(listed, list)]
        text = params.text("expr")
        if not inputs or text is None or None in inputs:
            raise UnresolvedError("`expr` or `metrics` is missing")
        several = {each.alias: each.with_filters(own) for each in inputs if each}
        result = self._inputs(entry, list(several.values()), name, what)
        if result is None:
            return None
        found = dict(zip(several, result, strict=True))
        home = next(iter(found.values())).semantic
        refs = {alias: each.sql(home) for alias, each in found.items()}
        expr = with_names(text, refs)
        checked(home.draft, expr, aggregate=True, measures=refs.values())
        why = _MISSING if any(each.semantic is not home for each in found.values()) else ""
        return self._add(entry, home, name, {"name": name, "expr": expr}, what, why)

    def _cumulative(self, entry: Entry, name: str, what: str) -> Found:
        params = self._params(entry)
        below = params.item("cumulative_type_params")
        places = [each for each in (below, params) if each is not None]
        value = params.value("measure") or params.value("input_metric") or (below.value("metric") if below else None)
        wanted = dbt.read_input(value, entry.item.place)
        if wanted is None:
            raise UnresolvedError("it has neither a measure nor a metric")
        found = self._input(entry, wanted, name, what)
        length, grain, taken = (
            next((text for place in places if (text := place.text(key))), None)
            for key in ("window", "grain_to_date", "period_agg")
        )
        cumulative = filled({"window": dbt.window(length), "to_date": dbt.to_date(grain)})
        if (length and "window" not in cumulative) or (grain and "to_date" not in cumulative) or (length and grain):
            raise UnresolvedError(f"ktx does not support the window `{length or grain}`")
        condition = dbt.Scope(found.semantic, self._variables).condition(dbt.read_filters(entry.item, "filter"))
        measure = {"name": name, "expr": found.sql(found.semantic), "filter": condition, "cumulative": cumulative}
        why = "" if taken == "last" else f"ktx uses the value at the end of a period, dbt the {taken or 'first'} value"
        added = self._add(entry, found.semantic, name, measure, what, why)
        added.semantic.draft.measures[added.name]["cumulative"] = cumulative  # even if it is empty
        return added

    def _hide_inputs(self) -> None:
        """Hide measures of the older YAML spec that metrics expose under other names, as dbt does."""
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


def _check_filter(draft: SourceDraft, condition: str | None, what: str) -> None:
    """Raise `UnresolvedError` if the source cannot evaluate a filter."""
    try:
        if condition:
            checked(draft, condition, aggregate=False)
    except KtxError as error:
        raise UnresolvedError(f"{what}: {error.message}") from error


def _search_texts(item: Item) -> dict[str, list[str]]:
    """Return the `questions` and `synonyms` in `config.meta` or `meta` of a metric."""
    config = item.values.get("config")
    below = config.get("meta") if isinstance(config, Mapping) else None
    found: dict[str, list[str]] = {}
    for holder, meta, rest in (("config", below, {*(config or ())} - {"meta"}), ("meta", item.values.get("meta"), ())):
        if not isinstance(meta, Mapping):
            continue
        for key in SEARCH_TEXTS:
            texts = Item(meta, lambda *_: item.place).words(key)
            if texts:
                found.setdefault(key, texts)
        if found and not rest and not meta.keys() - found.keys():
            item.skip(holder)
    return found


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
    "config": dbt.STEERS,
    "meta": "it does not affect queries",
    "percentile_type": "only `continuous` and `discrete` are supported",
}


class MeasureReader:
    """Converts the aggregates of one semantic model."""

    def __init__(self, semantic: dbt.Semantic, scope: dbt.Scope, report: Report) -> None:
        self._semantic, self._scope, self._report = semantic, scope, report

    def read(self, item: Item, name: str, what: str) -> dict[str, Any]:
        """Return the measure for an entry with `agg`. Unknown keys stay unread."""
        expr = self._aggregate(item, name, what)
        measure: dict[str, Any] = {"name": name, "expr": expr}
        self._add_time(item, measure)
        self._add_semi_additive(item, measure, what)
        measure["label"] = item.text("label")
        description = described(item.text("description"), measure["label"])
        measure["descriptions"] = {"dbt": description} if description else None
        checked(self._semantic.draft, expr, aggregate=True)
        return filled(measure)

    def rest(self, item: Item, what: str) -> None:
        """Report the unread keys of an entry."""
        item.report_rest(self._report, what, _UNREAD_KEYS)

    def _aggregate(self, item: Item, name: str, what: str) -> str:
        agg = (item.text("agg") or "").lower()
        expr = self._own(self._scope.render(item.text("expr") or name))
        if expr != "*":
            checked(self._semantic.draft, expr, aggregate=False)
        if agg == "percentile":
            return self._percentile(item, expr, what)
        if agg not in _AGGREGATES:
            raise UnresolvedError(f"unknown aggregate `{agg}`")
        return _AGGREGATES[agg](expr)

    def _own(self, expr: str) -> str:
        """Return the column for a bare name: the column of the table, not a renamed dimension."""
        plain = plain_name(expr)
        found = self._semantic.draft.find(plain) if plain else None
        return quoted(found, self._semantic.draft.dialect) if found is not None else expr

    def _percentile(self, item: Item, expr: str, what: str) -> str:
        params = item.item("agg_params") or item
        fraction = params.number("percentile")
        if fraction is not None and fraction > 1:
            fraction /= 100
        if fraction is None or not 0 <= fraction <= 1:
            raise UnresolvedError("its `percentile` is not a number from 0 to 100")
        discrete = params.flag("use_discrete_percentile") or params.text("percentile_type") == "discrete"
        approximate = params.flag("use_approximate_percentile")
        if discrete or approximate:
            form = "the discrete percentile" if discrete else "an approximate percentile"
            why = f"dbt computes {form}, ktx the continuous percentile"
            self._report.approximated(what, why, item.place, f"{self._semantic.draft.name}.{item.text('name')}")
        if params is not item:
            params.report_rest(self._report, what)
        return f"percentile({expr}, {fraction:g})"

    def _add_time(self, item: Item, measure: dict[str, Any]) -> None:
        wanted = item.text("agg_time_dimension")
        if wanted is not None and wanted != self._semantic.time:
            measure["time"] = self._dimension(wanted)
            if measure["time"] is None:
                raise UnresolvedError(f"its `agg_time_dimension` `{wanted}` is not an imported dimension")

    def _add_semi_additive(self, item: Item, measure: dict[str, Any], what: str) -> None:
        below = item.item("non_additive_dimension")
        if below is None:
            return
        name = below.text("name") or ""
        column = self._dimension(self._semantic.time or name if name == dbt.METRIC_TIME else name)
        take = _TAKES.get((below.text("window_choice") or below.text("window_agg") or "min").lower())
        groups = below.words("window_groupings") or below.words("group_by")
        keys = [self._key(group) for group in groups]
        if column is None or take is None or None in keys:
            message = "its `non_additive_dimension` uses a dimension that was not imported, or is not min or max"
            raise UnresolvedError(message)
        measure["semi_additive"] = filled({"over": column, "take": take, "per": keys})
        below.report_rest(self._report, what)

    def _dimension(self, name: str) -> str | None:
        found = self._semantic.dimensions.get(name.rsplit("__", 1)[-1])
        return found.column if found is not None else None

    def _key(self, name: str) -> str | None:
        found = self._semantic.entities.get(name)
        return found.column if found is not None else self._dimension(name)
