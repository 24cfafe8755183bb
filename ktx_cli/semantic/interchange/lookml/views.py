"""The views of a LookML project as sources, and how their fields refer to each other."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic.interchange.drafts import (
    TAKEN,
    ColumnDraft,
    SourceDraft,
    Sources,
    described,
    fault,
    plain_name,
    read,
)
from ktx_cli.semantic.interchange.lookml.parser import Block
from ktx_cli.semantic.interchange.lookml.project import (
    TIMEFRAMES,
    Project,
    UnresolvedSqlError,
    cut,
    replaced,
    without_liquid,
)
from ktx_cli.semantic.interchange.report import Item, Report

UNKNOWN_TABLE: Final = "the scanned database has no such table"
"""Why a view is left out where only known tables count."""

_TABLE_NAME: Final = "SQL_TABLE_NAME"


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a field became: a column and its ktx type, or a measure (`kind` None)."""

    name: str
    kind: str | None


@dataclass(slots=True)
class View:
    """A view and its source. `fields`: name -> what it became, None where it is dropped."""

    block: Block
    draft: SourceDraft
    fields: dict[str, Resolved | None] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)

    def blocks(self, *keys: str) -> dict[str, Block]:
        """Return its fields of some kinds by name."""
        return {block.name: block for block in self.block.below(*keys) if block.name}


class World:
    """All views. `names`: what explores call a view -> the view's name, empty where that is not one view."""

    def __init__(self, project: Project, sources: Sources, report: Report, *, known_only: bool = False) -> None:
        self.project, self.sources, self.report, self._known_only = project, sources, report, known_only
        self.views: dict[str, View] = {}
        self.names: dict[str, str] = {}
        for name, block in project.views.items():
            if block.values.get("extension") == "required":
                report.kept(f"view `{name}`", block.place, "(what extends it)")
                continue
            draft = self._draft(name, block)
            if draft is not None:
                self.views[name] = View(block, draft)
                self.names[name] = name
                report.kept(f"view `{name}`", block.place, draft.name)

    def _draft(self, name: str, block: Block) -> SourceDraft | None:
        """Return the source of a view, None after a report."""
        derived = block.below("derived_table")
        try:
            if derived:
                sql = self._derived(derived[-1], [name])
                return self.sources.add(name, block.place, sql=sql)
            table = without_liquid(str(block.values.get("sql_table_name") or name))
            if "${" in table:
                raise UnresolvedSqlError("its table is that of another view", hint="name the table")
            if self._known_only and not self.sources.knows(table):
                raise UnresolvedSqlError(UNKNOWN_TABLE, hint="scan its database first")
            return self.sources.add(name, block.place, table=table.strip())
        except UnresolvedSqlError as error:
            self.report.dropped(f"view `{name}`", error.message, block.place)
            return None

    def _derived(self, block: Block, above: list[str]) -> str:
        """Return the SQL of a derived table, other views' tables put in."""
        text = block.values.get("sql")
        if not isinstance(text, str) or not text.strip():
            raise UnresolvedSqlError("its derived table has no `sql`", hint="write the SQL Looker makes of it")
        return replaced(text, lambda name: self._table_of(name, above)).rstrip("; \n")

    def _table_of(self, name: str, above: list[str]) -> str:
        view, _, what = name.partition(".")
        block = self.project.views.get(view)
        if what != _TABLE_NAME or block is None or view in above or len(above) > 20:
            raise UnresolvedSqlError(f"`${{{name}}}` in its derived table is no table", hint="name the table")
        derived = block.below("derived_table")
        if derived:
            return f"({self._derived(derived[-1], [*above, view])})"
        return without_liquid(str(block.values.get("sql_table_name") or view))

    def call(self, name: str, view: View) -> None:
        """Note that an explore calls a view so; a name of several views is none."""
        own = str(view.block.name)
        self.names[name] = own if self.names.get(name, own) == own else ""

    def view_of(self, name: str) -> View | None:
        """Return the view an explore calls so."""
        return self.views.get(self.names.get(name, ""))


def group_of(view: View, name: str) -> tuple[str, str] | None:
    """Return (dimension group, timeframe) of a name such as `created_month`; the longest group that fits."""
    groups = view.blocks("dimension_group")
    for timeframe in sorted(TIMEFRAMES, key=len, reverse=True):
        group = name.removesuffix(f"_{timeframe}")
        if group != name and group in groups:
            return group, timeframe
    return None


def cut_of(view: View, column: Resolved, timeframe: str, prefix: str = "") -> str:
    """Return the SQL of a dimension group's timeframe."""
    return cut(prefix + column.name, timeframe, view.draft.dialect)


TYPES: Final = {
    "string": "string", "number": "number", "yesno": "boolean", "zipcode": "string", "tier": "string", "bin": "string",
    "date": "time", "date_time": "time", "date_raw": "time", "int": "number", "case": "string",
}  # fmt: skip
SCREEN: Final = "it is about Looker's screen"
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
    "convert_tz": "ktx shifts timestamps by the column's and the question's time zone, never dates",
    "tags": "a column has no tags here",
}  # fmt: skip


class Dimensions:
    """Resolves the dimensions of all views, each when it is first named."""

    def __init__(self, world: World) -> None:
        self._world, self._report = world, world.report

    def add_all(self, view: View) -> None:
        """Resolve all dimensions of a view, and what its keys and times are."""
        blocks = view.blocks("dimension", "dimension_group")
        for name in blocks:
            self.field(view, name)
        keys = [name for name, block in blocks.items() if block.values.get("primary_key") == "yes"]
        result = [resolved for name in keys if (resolved := view.fields.get(name)) is not None]
        view.draft.grain = tuple(resolved.name for resolved in result)
        times = [each for name, each in view.fields.items() if each and name in view.blocks("dimension_group")]
        if len(times) == 1:
            view.draft.time = times[0].name
            why = "LookML has no default time: the only dimension group is taken"
            what = f"default time of `{view.block.name}`"
            self._report.approximated(what, why, view.block.place, f"{view.draft.name}.{times[0].name}")

    def field(self, view: View, name: str) -> Resolved | None:
        """Return the column of a dimension or a dimension group, None where it is dropped or there is none."""
        if name in view.fields:
            return view.fields[name]
        block = view.blocks("dimension", "dimension_group").get(name)
        if block is None or name in view.open:
            return None
        view.open.append(name)
        what = f"{block.key.replace('_', ' ')} `{view.block.name}.{name}`"
        try:
            resolved = self._resolve(view, block, name, what)
        except KtxError as error:
            self._report.dropped(what, error.message, block.place)
            resolved = None
        view.open.pop()
        view.fields[name] = resolved
        return resolved

    def sql_of(self, view: View, name: str) -> str:
        """Return how definitions of a view name a field, such as `status`, `created_month` or `customers.region`."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        prefix = "" if target is view else f"{other}."
        if target is None or (prefix and other not in view.draft.hops):
            raise UnresolvedSqlError(
                f"`${{{name}}}` is of no view it is joined to", hint="join that view in an explore"
            )
        resolved = self.field(target, own)
        if resolved is not None:
            return prefix + resolved.name
        group = group_of(target, own)
        column = self.field(target, group[0]) if group else None
        if group is None or column is None:
            raise UnresolvedSqlError(f"`${{{name}}}` is no field that was imported", hint="write SQL in its place")
        return cut_of(target, column, group[1], prefix)

    def kind_of(self, view: View, name: str) -> str:
        """Return the ktx type of a field a filter names."""
        other, _, own = name.rpartition(".")
        target = view if other in ("", view.block.name) else self._world.view_of(other)
        resolved = self.field(target, own) if target is not None else None
        return (resolved.kind if resolved else None) or ("time" if target and group_of(target, own) else "string")

    def _resolve(self, view: View, block: Block, name: str, what: str) -> Resolved | None:
        item = block.item
        word = (item.text("type") or ("time" if block.key == "dimension_group" else "string")).lower()
        kind = "time" if block.key == "dimension_group" and word == "time" else TYPES.get(word)
        if kind is None or item.text("datatype") in ("epoch", "yyyymmdd"):
            shown = word if kind is None else f"{word} of {item.text('datatype')}"
            self._report.dropped(what, f"its type is `{shown}`, which ktx has not", block.place)
            return None
        expr = self._expression(view, block, name, word)
        column = self._column(view, name, expr, kind, what, block)
        if column is None:
            return None
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

    def _column(self, view: View, name: str, expr: str, kind: str, what: str, block: Block) -> str | None:
        """Return the column of an expression, None after a report."""
        draft = view.draft
        plain = plain_name(expr)
        if plain is not None and plain.casefold() == name.casefold():
            found = draft.require(plain, kind)
            if found is None:
                self._report.dropped(what, f"`{draft.name}` has no column `{plain}` that can be named", block.place)
            return found
        why = fault(draft, expr, aggregate=False)
        if why is not None:
            self._report.dropped(what, why, block.place)
            return None
        if plain is not None:
            draft.require(plain, kind)
        column = draft.compute(name, expr, kind, read(expr, draft.dialect).columns)
        if column.name != name:
            self._report.approximated(f"the name of {what}", TAKEN, block.place,
                                      f"{draft.name}.{column.name}")  # fmt: skip
        return column.name

    def _describe(self, view: View, name: str, item: Item, kind: str, block: Block) -> None:
        column = view.draft.column(name)
        column.type = column.type or kind
        column.description = described(item.text("description"), item.text("label"))
        restricted = bool(item.words("required_access_grants"))
        column.visibility = _visibility(column, restricted=restricted, hidden=item.flag("hidden"))
        if kind == "time":
            column.extra["role"] = "time"
            if item.text("datatype") == "date" or item.text("type") == "date":
                column.extra["natural_granularity"] = "day"
        if restricted:
            why = "who has the access grant is not asked here: no question may use it"
            what = f"`required_access_grants` of {block.key} `{block.name}`"
            self._report.approximated(what, why, block.place, f"{view.draft.name}.{name}")

    def _report_rest(self, view: View, block: Block, item: Item, word: str, column: str, what: str) -> None:
        target = f"{view.draft.name}.{column}"
        item.skip("sql", "case", "tiers", "bins", "primary_key", "datatype", "type")
        strange = [each for each in item.words("timeframes") if each not in TIMEFRAMES]
        if strange:
            why = f"ktx has no such grain: {', '.join(strange)}"
            self._report.dropped(f"`timeframes` of {what}", why, block.places.get("timeframes", block.place))
        if word in ("tier", "bin"):
            item.skip("style")
            self._report.approximated(what, "its labels may read otherwise than Looker's", block.place, target)
        self._report.kept(what, block.place, target)
        item.report_rest(self._report, what, REASONS)


def _visibility(column: ColumnDraft, *, restricted: bool, hidden: bool) -> str | None:
    """Return who sees a dimension; a computed one without a visibility of its own is as hidden as what it reads."""
    if restricted:
        return "hidden"
    if column.expr is None:
        return "internal" if hidden else None
    return "internal" if hidden and column.visibility == "public" else column.visibility


def _tiers(column: str, tiers: Any, style: str) -> str:
    """Return the CASE a tier is; `integer` labels read `10 to 19`, all others as intervals."""
    try:
        ends = sorted(float(str(tier)) for tier in tiers or ())
    except ValueError:
        ends = []
    if not ends:
        raise UnresolvedSqlError("its tiers are no numbers", hint="write tiers: [10, 20]")
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
