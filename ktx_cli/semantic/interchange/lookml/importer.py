"""Import LookML as ktx sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.core import KtxError
from ktx_cli.semantic.interchange.drafts import Sources, checked, described, imported, reach
from ktx_cli.semantic.interchange.lookml.project import Block, read_project, references, replaced
from ktx_cli.semantic.interchange.lookml.views import (
    COLLATION,
    NO_CACHE,
    OWN_CONNECTION,
    SCREEN,
    Dimensions,
    Measures,
    View,
    World,
)
from ktx_cli.semantic.interchange.report import Imported, Report, UnresolvedError
from ktx_cli.semantic.load.joins import Sides, parse_on
from ktx_cli.semantic.model import Model

_TOPS: Final = {
    "week_start_day": "set semantic.week_start in ktx.yaml",
    "fiscal_month_offset": "set semantic.fiscal_year_start in ktx.yaml",
    "access_grant": "ktx does not support access grants; it hides the fields that require one",
    "datagroup": NO_CACHE,
    "persist_with": NO_CACHE,
    "persist_for": NO_CACHE,
    "named_value_format": SCREEN,
    "map_layer": SCREEN,
    "label": SCREEN,
    "case_sensitive": COLLATION,
    "test": "ktx does not import data tests for explores; write the test under `tests:` of the source",
    "connection": OWN_CONNECTION,
}
_VIEWS: Final = {
    "filter": "its value is only used in Liquid",
    "parameter": "its value is only used in Liquid",
    "set": SCREEN,
    "drill_fields": SCREEN,
    "suggestions": SCREEN,
    "view_label": SCREEN,
    "label": SCREEN,
    "required_access_grants": "ktx does not support access grants; write a row policy instead",
    "fields_hidden_by_default": SCREEN,
}
_USED: Final = (
    "dimension", "dimension_group", "measure", "sql_table_name", "derived_table", "extends", "extension", "description",
    "label",
)  # fmt: skip


def import_lookml(files: Mapping[str, str], model: Model | None, *, known_only: bool = False) -> Imported:
    """Return the ktx files for the views and explores of a LookML project.

    `files` maps paths to texts; only `.lkml` and `.lookml` files are read. `model` is the semantic layer of the
    connection: sources of its manifest are changed, not repeated. If `known_only` is true, views of tables outside the
    manifest are dropped. Invalid content is listed in the report and raises nothing.
    """
    report = Report()
    project = read_project(files, report)
    sources = Sources(model, report)
    world = World(project, sources, report, known_only=known_only)
    dimensions = Dimensions(world)
    explores = Explores(world, dimensions)
    explores.add_joins()
    for view in world.views.values():
        dimensions.add_all(view)
    measures = Measures(world, dimensions)
    for view in world.views.values():
        measures.add_all(view)
        _add_view(view, report)
    explores.add_rules()
    for top in project.tops:
        item = top.item
        item.skip("view", "explore", "include")
        item.report_rest(report, top.place.path, _TOPS)
    return imported(sources.drafts.values(), report, "lookml")


def _add_view(view: View, report: Report) -> None:
    """Add the properties of a view, and report unsupported ones."""
    item = view.block.item
    view.draft.description = described(item.text("description"), item.text("label")) or view.draft.description
    view.draft.label = item.text("label") or view.draft.label
    item.skip(*_USED)
    if view.block.values.get("required_access_grants"):
        view.draft.extra["visibility"] = "hidden"
        item.skip("required_access_grants")
        why = "ktx does not support access grants, so it hides the source"
        what = f"`required_access_grants` of view `{view.block.name}`"
        report.approximated(what, why, view.block.place, view.draft.name)
    for table in view.block.below("derived_table"):
        below = table.item
        below.skip("sql")
        below.report_rest(report, f"derived table of `{view.block.name}`")
    item.report_rest(report, f"view `{view.block.name}`", _VIEWS)


RELATIONSHIPS: Final = ("many_to_one", "one_to_one", "one_to_many")
_LEFT: Final = "left_outer"
_REASONS: Final = {
    **dict.fromkeys(("view_label", "group_label", "hidden", "fields", "tags", "required_joins", "query"), SCREEN),
    "always_filter": "ktx queries set their own filters; use a segment or filter in the query",
    "conditionally_filter": "ktx queries set their own filters; use a segment or filter in the query",
    "sql_always_having": "ktx queries set their own `having`",
    "aggregate_table": "ktx does not use aggregate tables",
    "persist_with": NO_CACHE,
    "persist_for": NO_CACHE,
    "cancel_grouping_fields": "it only affects the SQL of Looker",
    "case_sensitive": COLLATION,
    "sql_where": "ktx joins only support equality conditions",
    "required_access_grants": "ktx does not support access grants; write a row policy instead",
}
_EXPLORE_KEYS: Final = (
    "from", "view_name", "join", "label", "description", "sql_always_where", "access_filter", "extension",
)  # fmt: skip


class Explores:
    """Imports explores: first the joins of all explores, then the filters, which may use joined views."""

    def __init__(self, world: World, dimensions: Dimensions) -> None:
        self._world, self._dimensions, self._report = world, dimensions, world.report
        self._joins: dict[tuple[str, str], dict[str, Any]] = {}

    def add_joins(self) -> None:
        """Add the joins of all explores, and determine the views that each view reaches over them."""
        wanted = [
            item for item in self._world.project.explores.items() if item[1].values.get("extension") != "required"
        ]
        for name, explore in wanted:
            names = self._names(name, explore)
            for join in explore.below("join"):
                self._join(name, names, join)
        reach(view.draft for view in self._world.views.values())

    def add_rules(self) -> None:
        """Add segments for the fixed filters of explores, and row policies for their access filters."""
        for name, explore in self._world.project.explores.items():
            if explore.values.get("extension") == "required":
                continue
            base = self._base(name, explore)
            if base is None:
                self._report.dropped(f"explore `{name}`", "its view was not imported", explore.place)
                continue
            self._report.kept(f"explore `{name}`", explore.place, base.draft.name)
            base.draft.description = base.draft.description or _text(explore)
            base.draft.label = base.draft.label or explore.item.text("label")
            self._always(name, explore, base)
            for block in explore.below("access_filter"):
                self._policy(name, explore, block, base)
            item = explore.item
            item.skip(*_EXPLORE_KEYS)
            item.report_rest(self._report, f"explore `{name}`", _REASONS)

    def _base(self, name: str, explore: Block) -> View | None:
        return self._world.views.get(str(explore.values.get("from") or explore.values.get("view_name") or name))

    def _names(self, name: str, explore: Block) -> dict[str, View]:
        """Return an explore's views by the names that the explore uses."""
        result: dict[str, View] = {}
        base = self._base(name, explore)
        if base is not None:
            result[str(explore.values.get("view_name") or name)] = base
        for join in explore.below("join"):
            view = self._world.views.get(str(join.values.get("from") or join.name))
            if view is not None and join.name:
                result[join.name] = view
                self._world.call(join.name, view)
        return result

    def _join(self, explore: str, names: dict[str, View], block: Block) -> None:
        what = f"join `{block.name}` of explore `{explore}`"
        with self._report.dropping(what, block.place):
            self._read_join(explore, names, block, what)

    def _read_join(self, explore: str, names: dict[str, View], block: Block, what: str) -> None:
        item = block.item
        relationship = (item.text("relationship") or RELATIONSHIPS[0]).lower()
        kind = (item.text("type") or _LEFT).lower()
        target = names.get(block.name or "")
        if target is None:
            raise UnresolvedError("its view was not imported")
        if relationship not in RELATIONSHIPS or kind == "cross":
            raise UnresolvedError(f"ktx does not support {relationship} joins of type {kind}")
        sql = item.text("sql_on") or self._by_key(names, block, target)
        own_name, own = self._own_side(names, block, sql)
        hop, on = self._on(own_name, own, block, target, sql)
        self._add_join(own, target, hop, on, relationship, explore, block, what)
        target_text = f"{own.draft.name} -> {hop}"
        if kind != _LEFT:
            why = f"its type is {kind}; ktx keeps rows without a match, and lists unused dimension values on request"
            self._report.approximated(what, why, block.place, target_text)
        self._report.kept(what, block.place, target_text)
        item.skip("from", "outer_only")
        item.report_rest(self._report, what, _REASONS)

    def _by_key(self, names: dict[str, View], block: Block, target: View) -> str:
        """Return the `sql_on` that is equivalent to a `foreign_key`."""
        field = block.values.get("foreign_key")
        keys = [name for name, each in target.blocks("dimension").items() if each.values.get("primary_key") == "yes"]
        if not field or len(keys) != 1:
            raise UnresolvedError("`sql_on` is missing, or the view has no primary key")
        own = str(field) if "." in str(field) else f"{next(iter(names))}.{field}"
        return f"${{{own}}} = ${{{block.name}.{keys[0]}}}"

    def _own_side(self, names: dict[str, View], block: Block, sql: str) -> tuple[str, View]:
        """Return the view that the join starts from: the only other view in the condition."""
        others = list(dict.fromkeys(reference.split(".")[0] for reference in references(sql) if "." in reference))
        others = [other for other in others if other != block.name]
        if len(others) != 1 or others[0] not in names:
            shown = ", ".join(others) or "none"
            raise UnresolvedError(f"its condition must use exactly one other view, but uses {shown}")
        return others[0], names[others[0]]

    def _on(self, own_name: str, own: View, block: Block, target: View, sql: str) -> tuple[str, str]:
        """Return the name or alias of the joined source, and the condition in ktx syntax."""
        name = block.name or ""
        hop = target.draft.name if name == target.block.name and target is not own else name
        if hop != target.draft.name and hop in {view.draft.name for view in self._world.views.values()}:
            hop = f"{own.draft.name}_{name}"

        def find(reference: str) -> str:
            side, _, field = reference.rpartition(".")
            if side == name:
                return f"{hop}.{self._dimensions.sql_of(target, field)}"
            if side == own_name:
                return self._dimensions.sql_of(own, field)
            raise UnresolvedError(f"`${{{reference}}}` belongs to neither side of the join")

        on = " ".join(replaced(sql, find).split())
        columns = {*own.draft.columns, *(own.draft.base.columns if own.draft.base else ())}
        alias = None if hop == target.draft.name else hop
        parse_on(on, Sides(own.draft.name, target.draft.name, alias, own.draft.dialect, columns))
        return hop, on

    def _add_join(
        self, own: View, target: View, hop: str, on: str, relationship: str, explore: str, block: Block, what: str
    ) -> None:
        """Add a join once. If another explore has the same join with another condition, add an alias."""
        join = {"to": target.draft.name, "on": on, "relationship": relationship}
        if hop != target.draft.name:
            join["alias"] = hop
        known = self._joins.setdefault((own.draft.name, hop), join)
        if known is join:
            own.draft.joins.append(join)
        elif known != join:
            alias = f"{explore}_{hop}"
            join |= {"on": on.replace(f"{hop}.", f"{alias}."), "alias": alias}
            if self._joins.setdefault((own.draft.name, alias), join) is join:
                own.draft.joins.append(join)
            why = "another explore joins it differently, so this join has an alias"
            self._report.approximated(what, why, block.place, f"{own.draft.name} -> {alias}")

    def _always(self, name: str, explore: Block, base: View) -> None:
        sql = explore.values.get("sql_always_where")
        if not isinstance(sql, str):
            return
        what, place = f"`sql_always_where` of explore `{name}`", explore.places["sql_always_where"]
        with self._report.dropping(what, place):
            segment = {"name": f"{name}_always", "expr": self._condition(sql, base, name, explore)}
            base.draft.segments[segment["name"]] = segment
            why = "it becomes a segment, which queries must request explicitly"
            self._report.approximated(what, why, place, f"{base.draft.name}.{segment['name']}")

    def _condition(self, sql: str, base: View, name: str, explore: Block) -> str:
        """Return a condition on the rows of an explore's first view."""
        called = str(explore.values.get("view_name") or name)
        expr = replaced(sql, lambda each: self._dimensions.sql_of(base, each.removeprefix(f"{called}.")))
        checked(base.draft, expr, aggregate=False)
        return expr

    def _policy(self, name: str, explore: Block, block: Block, base: View) -> None:
        field, attribute = block.item.text("field"), block.item.text("user_attribute")
        what = f"`access_filter` of explore `{name}`"
        try:
            if not field or not attribute or not re.fullmatch(r"\w+", attribute):
                raise UnresolvedError("`field` is missing, or `user_attribute` is missing or invalid")
            column = self._condition(f"${{{field}}}", base, name, explore)
            if "." in column:
                raise UnresolvedError("its field is in another view; row policies only use columns of their own source")
        except KtxError as error:  # fail closed: without the filter, queries would return rows that Looker hides
            base.draft.extra["visibility"] = "hidden"
            why = f"{error.message}; ktx hides the source instead"
            self._report.approximated(what, why, block.place, base.draft.name)
            return
        policy = f"{name}_{attribute}_{column}"
        base.draft.policies[policy] = {"name": policy, "filter": f"{column} = {{{{ user.{attribute} }}}}"}
        why = "it applies to every query of the source, and to a single value of the attribute"
        self._report.approximated(what, why, block.place, f"{base.draft.name}.{policy}")


def _text(block: Block) -> str | None:
    return described(block.item.text("description"), block.item.text("label"))
