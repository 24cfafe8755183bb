"""Import LookML views as sources, with their dimensions and measures and the references between fields."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.lookml.project import TIMEFRAMES, Block, Project, cut, replaced, without_liquid
from ktx_cli.semantic.interchange.report import Item, Report, UnresolvedError

if TYPE_CHECKING:
    pass

UNKNOWN_TABLE: Final = "the table is not in the scanned database"
"""The reason why a view is dropped if only known tables are imported."""

_TABLE_NAME: Final = "SQL_TABLE_NAME"


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of importing a field: a column with its ktx type, or a measure (`kind` is None)."""

    name: str
    kind: str | None


@dataclass(slots=True)
class View:
    """A view and its source. `fields` maps names to their results, or None for dropped fields."""

    block: Block
    draft: drafts.SourceDraft
    fields: dict[str, Resolved | None] = field(default_factory=dict)

    def blocks(self, *keys: str) -> dict[str, Block]:
        """Return the fields of certain kinds by name."""
        return {block.name: block for block in self.block.below(*keys) if block.name}


class World:
    """All views. `names` maps names that explores use to view names, or to an empty string if ambiguous."""

    def __init__(self, project: Project, sources: drafts.Sources, report: Report, *, known_only: bool = False) -> None:
        self.project, self.sources, self.report, self._known_only = project, sources, report, known_only
        self.views: dict[str, View] = {}
        self.names: dict[str, str] = {}
        for name, block in project.views.items():
            if block.values.get("extension") == "required":
                report.kept(f"view `{name}`", block.place, "(the views that extend it)")
                continue
            with report.dropping(f"view `{name}`", block.place):
                self.views[name] = View(block, self._draft(name, block))
                self.names[name] = name
                report.kept(f"view `{name}`", block.place, self.views[name].draft.name)

    def _draft(self, name: str, block: Block) -> drafts.SourceDraft:
        """Return the source for a view."""
        derived = block.below("derived_table")
        if derived:
            return self.sources.add(name, block.place, sql=self._derived(derived[-1], [name]))
        table = without_liquid(str(block.values.get("sql_table_name") or name))
        if "${" in table:
            raise UnresolvedError("its table is the table of another view")
        if self._known_only and not self.sources.knows(table):
            raise UnresolvedError(UNKNOWN_TABLE)
        return self.sources.add(name, block.place, table=table.strip())

    def _derived(self, block: Block, above: list[str]) -> str:
        """Return the SQL of a derived table, with references to other views replaced by their tables."""
        text = block.values.get("sql")
        if not isinstance(text, str) or not text.strip():
            raise UnresolvedError("its derived table has no `sql`")
        return replaced(text, lambda name: self._table_of(name, above)).rstrip("; \n")

    def _table_of(self, name: str, above: list[str]) -> str:
        view, _, what = name.partition(".")
        block = self.project.views.get(view)
        if what != _TABLE_NAME or block is None or view in above or len(above) > 20:
            raise UnresolvedError(f"its derived table refers to `${{{name}}}`, which is not a table")
        derived = block.below("derived_table")
        if derived:
            return f"({self._derived(derived[-1], [*above, view])})"
        return without_liquid(str(block.values.get("sql_table_name") or view))

    def call(self, name: str, view: View) -> None:
        """Record the name that an explore uses for a view. A name for several views is ambiguous."""
        own = str(view.block.name)
        self.names[name] = own if self.names.get(name, own) == own else ""

    def view_of(self, name: str) -> View | None:
        """Return the view for a name that explores use."""
        return self.views.get(self.names.get(name, ""))


def group_of(view: View, name: str) -> tuple[str, str] | None:
    """Split a name such as `created_month` into dimension group and timeframe. The longest group name wins."""
    groups = view.blocks("dimension_group")
    for timeframe in sorted(TIMEFRAMES, key=len, reverse=True):
        group = name.removesuffix(f"_{timeframe}")
        if group != name and group in groups:
            return group, timeframe
    return None


def cut_of(view: View, column: Resolved, timeframe: str, prefix: str = "") -> str:
    """Return the SQL for a timeframe of a dimension group."""
    return cut(prefix + column.name, timeframe, view.draft.dialect)


TYPES: Final = {
    "string": "string", "number": "number", "yesno": "boolean", "zipcode": "string", "tier": "string", "bin": "string",
    "date": "time", "date_time": "time", "date_raw": "time", "int": "number", "case": "string",
}  # fmt: skip
SCREEN: Final = "it only affects the display in Looker"
NO_CACHE: Final = "ktx does not cache results"
COLLATION: Final = "the database determines how texts are compared"
OWN_CONNECTION: Final = "ktx settings determine the connection, not LookML"
IRRELEVANT: Final = frozenset({SCREEN, NO_CACHE, COLLATION, OWN_CONNECTION})
"""Reasons for dropping a part that ktx does not need."""
REASONS: Final = {
    **dict.fromkeys(
        (
            "drill_fields", "html", "link", "action", "group_label", "group_item_label", "view_label", "order_by_field",
            "suggest_dimension", "suggest_explore", "suggestions", "can_filter", "value_format", "value_format_name",
            "style", "alpha_sort", "allow_fill", "bypass_suggest_filters", "full_suggestions", "map_layer_name",
            "skip_drill_filter", "fanout_on", "direction", "convert_tz_screen", "list_field", "alias",
        ),
        SCREEN,
    ),
    "convert_tz": "ktx converts timestamps between the time zones of column and query, and never converts dates",
    "tags": "ktx columns have no tags",
}  # fmt: skip


class Dimensions:
    """Imports the dimensions of all views. A dimension is imported when something first refers to it."""

    def __init__(self, world: World) -> None:
        self._world, self._report = world, world.report

    def add_all(self, view: View) -> None:
        """Import all dimensions of a view, its key and its default time."""
        blocks = view.blocks("dimension", "dimension_group")
        for name in blocks:
            self.field(view, name)
        keys = [name for name, block in blocks.items() if block.values.get("primary_key") == "yes"]
        result = [resolved for name in keys if (resolved := view.fields.get(name)) is not None]
        view.draft.grain = tuple(resolved.name for resolved in result)
        times = [each for name, each in view.fields.items() if each and name in view.blocks("dimension_group")]
        if len(times) == 1:
            view.draft.time = times[0].name
            why = "LookML has no default time; ktx uses the single dimension group"
            what = f"default time of `{view.block.name}`"
            self._report.approximated(what, why, view.block.place, f"{view.draft.name}.{times[0].name}")

    def field(self, view: View, name: str) -> Resolved | None:
        """Return the column for a dimension or dimension group, or None if it is unknown or was dropped."""
        if name in view.fields:
            return view.fields[name]
        block = view.blocks("dimension", "dimension_group").get(name)
        if block is None:
            return None
        view.fields[name] = None  # so that a field that refers to itself is found
        what = f"{block.key.replace('_', ' ')} `{view.block.name}.{name}`"
        with self._report.dropping(what, block.place):
            view.fields[name] = self._resolve(view, block, name, what)
        return view.fields[name]

    def sql_of(self, view: View, name: str) -> str:
        """Return the SQL for a field in a view's definitions, such as `status` or `customers.region`."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        prefix = "" if target is view else f"{other}."
        if target is None or (prefix and other not in view.draft.hops):
            raise UnresolvedError(f"`${{{name}}}` is not a field of a joined view")
        resolved = self.field(target, own)
        if resolved is not None:
            return prefix + resolved.name
        group = group_of(target, own)
        column = self.field(target, group[0]) if group else None
        if group is None or column is None:
            raise UnresolvedError(f"`${{{name}}}` is not an imported field")
        return cut_of(target, column, group[1], prefix)

    def kind_of(self, view: View, name: str) -> str:
        """Return the ktx type of a filter's field."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        resolved = self.field(target, own) if target is not None else None
        return (resolved.kind if resolved else None) or ("time" if target and group_of(target, own) else "string")

    def _resolve(self, view: View, block: Block, name: str, what: str) -> Resolved:
        item = block.item
        word = (item.text("type") or ("time" if block.key == "dimension_group" else "string")).lower()
        kind = "time" if block.key == "dimension_group" and word == "time" else TYPES.get(word)
        if kind is None or item.text("datatype") in ("epoch", "yyyymmdd"):
            shown = word if kind is None else f"{word} of {item.text('datatype')}"
            raise UnresolvedError(f"ktx does not support its type `{shown}`")
        draft, is_renamed = view.draft.define(name, self._expression(view, block, name, word), kind)
        column = draft.name
        if is_renamed:
            self._report.approximated(f"the name of {what}", drafts.TAKEN, block.place, f"{view.draft.name}.{column}")
        self._describe(view, column, item, kind, block)
        self._report_rest(view, block, item, word, column, what)
        return Resolved(column, kind)

    def _expression(self, view: View, block: Block, name: str, word: str) -> str:
        if block.below("case"):
            return self._case(view, block.below("case")[-1])
        sql = block.values.get("sql")
        text = replaced(sql if isinstance(sql, str) and sql else name, lambda each: self.sql_of(view, each))
        tiers = block.values.get("tiers") or block.values.get("bins")
        return _tiers(text, tiers, str(block.values.get("style"))) if word in ("tier", "bin") else text

    def _case(self, view: View, block: Block) -> str:
        whens = []
        for when in block.below("when"):
            condition = replaced(str(when.values.get("sql") or ""), lambda each: self.sql_of(view, each))
            whens.append(f"WHEN {condition} THEN {_literal(str(when.values.get('label', '')))}")
        otherwise = block.values.get("else")
        end = f" ELSE {_literal(str(otherwise))}" if otherwise is not None else ""
        return f"CASE {' '.join(whens)}{end} END"

    def _describe(self, view: View, name: str, item: Item, kind: str, block: Block) -> None:
        column = view.draft.column(name)
        column.type = column.type or kind
        column.label = item.text("label")
        column.description = drafts.described(item.text("description"), column.label)
        restricted = bool(item.words("required_access_grants"))
        column.visibility = _visibility(column, restricted=restricted, hidden=item.flag("hidden"))
        if kind == "time":
            column.extra["role"] = "time"
            if item.text("datatype") == "date" or item.text("type") == "date":
                column.extra["natural_granularity"] = "day"
        if restricted:
            why = "ktx does not support access grants, so it hides the field"
            what = f"`required_access_grants` of {block.key} `{block.name}`"
            self._report.approximated(what, why, block.place, f"{view.draft.name}.{name}")

    def _report_rest(self, view: View, block: Block, item: Item, word: str, column: str, what: str) -> None:
        target = f"{view.draft.name}.{column}"
        item.skip("sql", "case", "tiers", "bins", "primary_key", "datatype", "type")
        strange = [each for each in item.words("timeframes") if each not in TIMEFRAMES]
        if strange:
            why = f"not supported by ktx: {', '.join(strange)}"
            self._report.dropped(f"`timeframes` of {what}", why, block.places.get("timeframes", block.place))
        if word in ("tier", "bin"):
            item.skip("style")
            self._report.approximated(what, "its labels may differ from those of Looker", block.place, target)
        self._report.kept(what, block.place, target)
        item.report_rest(self._report, what, REASONS)


def _visibility(column: drafts.ColumnDraft, *, restricted: bool, hidden: bool) -> str | None:
    """Return the visibility of a dimension. A computed dimension without one inherits it from the columns it reads."""
    if restricted:
        return "hidden"
    if column.expr is None:
        return "internal" if hidden else None
    return "internal" if hidden and column.visibility == "public" else column.visibility


def _tiers(column: str, tiers: Any, style: str) -> str:
    """Return the CASE expression for a tier. `integer` labels look like `10 to 19`, other labels are intervals."""
    try:
        ends = sorted(float(str(tier)) for tier in tiers or ())
    except ValueError:
        ends = []
    if not ends:
        raise UnresolvedError("its tiers are not numbers")
    whole = style == "integer" and all(end == int(end) for end in ends)
    parts = [f"WHEN {column} IS NULL THEN 'Undefined'"]
    parts.append(
        f"WHEN {column} < {ends[0]:g} THEN {_literal(f'Below {ends[0]:g}' if whole else f'(-inf, {ends[0]:g})')}"
    )
    for low, high in itertools.pairwise(ends):
        label = f"{low:g} to {high - 1:g}" if whole else f"[{low:g}, {high:g})"
        parts.append(f"WHEN {column} < {high:g} THEN {_literal(label)}")
    last = f"{ends[-1]:g} or Above" if whole else f"[{ends[-1]:g}, inf)"
    return f"CASE {' '.join(parts)} ELSE {_literal(last)} END"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_AGGREGATES: Final[dict[str, Callable[[str], str]]] = {
    "count_distinct": lambda sql: f"count(distinct {sql})",
    "sum": lambda sql: f"sum({sql})",
    "average": lambda sql: f"avg({sql})",
    "min": lambda sql: f"min({sql})",
    "max": lambda sql: f"max({sql})",
    "median": lambda sql: f"median({sql})",
    "sum_distinct": lambda sql: f"sum({sql})",
    "average_distinct": lambda sql: f"avg({sql})",
    "median_distinct": lambda sql: f"median({sql})",
}
_FORMULAS: Final = ("number", "string", "yesno", "date", "date_time", "int")
_MEASURES: Final = {
    "list": "a list of values is not a measure; query the dimension instead",
    "running_total": "it depends on the rows of a result; use a `cumulative` measure instead",
    "percent_of_previous": "it depends on the rows of a result; use `comparison` in a query instead",
}
_PERIODS: Final = ("year", "quarter", "month", "week", "date", "day")


class Measures:
    """Imports the measures of all views. A measure is imported when something first refers to it."""

    def __init__(self, world: World, dimensions: Dimensions) -> None:
        self._world, self._dimensions, self._report = world, dimensions, world.report

    def add_all(self, view: View) -> None:
        """Import all measures of a view."""
        for name in view.blocks("measure"):
            self.measure(view, name)

    def measure(self, view: View, name: str) -> Resolved | None:
        """Return a measure, or None if it is unknown or was dropped."""
        key = f"measure {name}"
        if key in view.fields:
            return view.fields[key]
        block = view.blocks("measure").get(name)
        if block is None:
            return None
        view.fields[key] = None  # so that a field that refers to itself is found
        what = f"measure `{view.block.name}.{name}`"
        with self._report.dropping(what, block.place):
            view.draft.measures[name] = self._resolve(view, block, name, what)
            view.fields[key] = Resolved(name, None)
        return view.fields[key]

    def _resolve(self, view: View, block: Block, name: str, what: str) -> dict[str, Any]:
        item = block.item
        word = (item.text("type") or "string").lower()
        if "." in name:
            raise UnresolvedError("its name contains a dot")
        if word in _MEASURES:
            raise UnresolvedError(_MEASURES[word])
        own = self._expression(view, item, word)
        limit = self._filter(view, block)
        drafts.checked(view.draft, own["expr"], aggregate=True, measures=own.pop("uses"))
        if limit:
            drafts.checked(view.draft, limit, aggregate=False)
        shown = self._shown(item)
        self._report_rest(view, block, item, word, what)
        return drafts.filled({"name": name, **own, "filter": limit, **shown})

    def _expression(self, view: View, item: Item, word: str) -> dict[str, Any]:
        """Return `expr`, the further keys of the measure, and the measures it uses."""
        sql = item.text("sql")
        if word == "count":
            return {"expr": "count(*)", "uses": ()}
        if word == "period_over_period":
            return self._period(view, item)
        if sql is None:
            raise UnresolvedError("it has no `sql`")
        if word in _FORMULAS or word == "percent_of_total":
            uses: list[str] = []
            expr = replaced(sql, lambda each: self._operand(view, each, uses))
            whole = {"percent_of": "total"} if word == "percent_of_total" else {}
            return {"expr": expr, "uses": uses, **whole}
        text = replaced(sql, lambda each: self._dimensions.sql_of(view, each))
        drafts.checked(view.draft, text, aggregate=False)
        if word in ("percentile", "percentile_distinct"):
            fraction = item.number("percentile")
            if fraction is None or not 0 <= fraction <= 100:
                raise UnresolvedError("its `percentile` is not a number from 0 to 100")
            return {"expr": f"percentile({text}, {fraction / 100:g})", "uses": ()}
        if word not in _AGGREGATES:
            raise UnresolvedError(f"ktx does not support its type `{word}`")
        return {"expr": _AGGREGATES[word](text), "uses": ()}

    def _operand(self, view: View, name: str, uses: list[str]) -> str:
        """Return the measure that a formula refers to, or the dimension inside an aggregate."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        found = self.measure(target, own) if target is not None else None
        if target is None or found is None:
            return self._dimensions.sql_of(view, name)
        uses.append(found.name if target is view else f"{target.draft.name}.{found.name}")
        return uses[-1]

    def _period(self, view: View, item: Item) -> dict[str, Any]:
        based, period, kind = item.text("based_on") or "", (item.text("period") or "").lower(), item.text("kind")
        item.skip("based_on_time", "value_to_date")
        if period not in _PERIODS or kind not in (None, "previous"):
            raise UnresolvedError(f"ktx does not support the period `{period}` with the kind `{kind}`")
        uses: list[str] = []
        expr = self._operand(view, based, uses)
        if not uses:
            raise UnresolvedError(f"`based_on` is `{based}`, which is not an imported measure")
        return {"expr": expr, "offset": f"1 {'day' if period == 'date' else period}", "uses": uses}

    def _filter(self, view: View, block: Block) -> str | None:
        """Combine `filters` into one condition. Reads the current and both older forms."""
        pairs = [each for each in block.values.get("filters") or () if isinstance(each, tuple)]
        for below in block.below("filters"):
            if "field" in below.values:
                pairs.append((below.values["field"], below.values.get("value", "")))
            else:
                pairs += [(key, value) for key, value in below.values.items()]
        named = [(str(name), str(value)) for name, value in pairs]
        own = self._dimensions
        return drafts.all_of(
            [condition(own.sql_of(view, name), own.kind_of(view, name), value) for name, value in named]
        )

    def _shown(self, item: Item) -> dict[str, Any]:
        text = drafts.described(item.text("description"), item.text("label"))
        restricted = bool(item.words("required_access_grants"))
        return {
            "label": item.text("label"),
            "descriptions": {"lookml": text} if text else None,
            "visibility": "hidden" if restricted else "internal" if item.flag("hidden") else None,
            "format": item.text("value_format_name") or item.text("value_format"),
        }

    def _report_rest(self, view: View, block: Block, item: Item, word: str, what: str) -> None:
        target = f"{view.draft.name}.{block.name}"
        item.skip("filters", "type", "percentile", "sql_distinct_key")
        if word.endswith("_distinct") and word != "count_distinct":
            why = f"each row of `{view.draft.name}` counts once; ktx ignores `sql_distinct_key`"
            self._report.approximated(what, why, block.place, target)
        if item.has("required_access_grants"):
            why = "ktx does not support access grants, so it hides the field"
            self._report.approximated(f"`required_access_grants` of {what}", why, block.place, target)
        self._report.kept(what, block.place, target)
        item.report_rest(self._report, what, REASONS)


_NUMBER: Final = r"-?\d+(?:\.\d+)?"
_COMPARED: Final = re.compile(rf"(<=|>=|<>|!=|<|>|=)?\s*({_NUMBER})")
_BETWEEN: Final = re.compile(rf"({_NUMBER})\s+to\s+({_NUMBER})", re.IGNORECASE)
_INTERVAL: Final = re.compile(rf"([\[(])\s*({_NUMBER}|-inf)?\s*,\s*({_NUMBER}|inf)?\s*([\])])", re.IGNORECASE)


def condition(column: str, kind: str, text: str) -> str:
    """Return the SQL condition for a filter expression on a column of a ktx type.

    Raises `UnresolvedError` for unsupported expressions such as relative dates.
    """
    stripped = text.strip()
    if not stripped:
        raise UnresolvedError("its filter is empty and matches any value")
    if kind == "boolean":
        return _boolean(column, stripped)
    if kind == "number":
        return _numbers(column, stripped)
    if kind == "time":
        raise UnresolvedError(f"ktx does not support the date filter `{stripped}`")
    return _texts(column, stripped)


def _boolean(column: str, text: str) -> str:
    word = text.lower()
    if word in ("yes", "true"):
        return column
    if word in ("no", "false"):
        return f"NOT coalesce({column}, FALSE)"
    raise UnresolvedError(f"the filter value `{text}` is neither yes nor no")


def _numbers(column: str, text: str) -> str:
    parts = re.split(r",(?![^\[(]*[\])])|\s+OR\s+", text, flags=re.IGNORECASE)
    several = [each for part in parts if (each := part.strip())]
    wanted = [_number(column, each) for each in several if not _is_negative(each)]
    refused = [_number(column, each[4:].strip()) for each in several if _is_negative(each)]
    return _combined(column, wanted, refused)


def _is_negative(text: str) -> bool:
    return text.lower().startswith("not ") and text.lower() != "not null"


def _number(column: str, text: str) -> str:
    if text.lower() in ("null", "not null"):
        return f"{column} IS {text.upper()}"
    if (found := _COMPARED.fullmatch(text)) is not None:
        return f"{column} {(found[1] or '=').replace('!=', '<>')} {found[2]}"
    if (found := _BETWEEN.fullmatch(text)) is not None:
        return f"{column} BETWEEN {found[1]} AND {found[2]}"
    if (found := _INTERVAL.fullmatch(text)) is not None:
        return _interval(column, found)
    both = re.split(r"\s+AND\s+", text, flags=re.IGNORECASE)
    if len(both) > 1:
        return " AND ".join(_number(column, each.strip()) for each in both)
    raise UnresolvedError(f"ktx does not support the number filter `{text}`")


def _interval(column: str, found: re.Match[str]) -> str:
    ends = []
    if found[2] and found[2].lower() != "-inf":
        ends.append(f"{column} {'>=' if found[1] == '[' else '>'} {found[2]}")
    if found[3] and found[3].lower() != "inf":
        ends.append(f"{column} {'<=' if found[4] == ']' else '<'} {found[3]}")
    return " AND ".join(ends) or f"{column} IS NOT NULL"


def _texts(column: str, text: str) -> str:
    several = [each.strip() for each in re.findall(r'\s*((?:"[^"]*"|\^.|[^,])+)', text)]
    wanted = [each for each in several if each and not each.startswith("-")]
    refused = [each[1:] for each in several if each.startswith("-") and each != "-"]
    return _combined(column, _texts_are(column, wanted), _texts_are(column, refused))


def _texts_are(column: str, values: list[str]) -> list[str]:
    plain = [
        _literal(_unescaped(value)) for value in values if "%" not in value.replace("^%", "") and not _is_word(value)
    ]
    patterns = [value for value in values if "%" in value.replace("^%", "")]
    found = [f"{column} IN ({', '.join(plain)})" if len(plain) > 1 else f"{column} = {plain[0]}"] if plain else []
    found += [f"{column} LIKE {_literal(_unescaped(pattern))}" for pattern in patterns]
    return found + [_word(column, value) for value in values if _is_word(value)]


def _is_word(text: str) -> bool:
    return text.upper() in ("NULL", "EMPTY")


def _word(column: str, text: str) -> str:
    return f"{column} IS NULL" if text.upper() == "NULL" else f"({column} IS NULL OR {column} = '')"


def _unescaped(text: str) -> str:
    quoted = re.fullmatch(r'"([^"]*)"', text)
    return re.sub(r"\^(.)", r"\1", quoted[1] if quoted else text)


def _combined(column: str, wanted: list[str], refused: list[str]) -> str:
    """Return a condition for one of the wanted and none of the refused values. As in Looker, null is not refused."""
    found = [wanted[0] if len(wanted) == 1 else f"({' OR '.join(wanted)})"] if wanted else []
    for each in refused:
        unknown = "" if "IS NULL" in each or wanted else f" OR {column} IS NULL"
        found.append(f"(NOT ({each}){unknown})")
    if not found:
        raise UnresolvedError("its filter has no condition")
    return " AND ".join(found)
