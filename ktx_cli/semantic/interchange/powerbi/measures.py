"""Write the DAX measures of a model as measures of ktx.

A part of a formula with conditions or periods of its own becomes an internal measure unless it is the whole measure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import Dialect

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.powerbi.dax import parse_dax
from ktx_cli.semantic.interchange.powerbi.formulas import Formula, Known, Leaf, Scope, Wrapped
from ktx_cli.semantic.interchange.powerbi.model import Measure, Table
from ktx_cli.semantic.interchange.powerbi.translation import Translation
from ktx_cli.semantic.interchange.powerbi.world import MAX_CHAIN, TOO_DEEP, Entity, World, column_tree, slug
from ktx_cli.semantic.interchange.report import UnresolvedError

TOOL: Final = "powerbi"

_WORDS: Final = frozenset({"name", "descriptions"})
"""The keys in which equal measures may differ."""


class Measures:
    """Imports the measures of a model. A measure is imported when something first refers to it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[str, Known | str] = {}
        """Name in Power BI -> the imported measure, or the reason why it was not imported."""
        self._open: list[str] = []
        self._shelves: dict[str, _Shelf] = {}

    def add_all(self) -> None:
        """Import all measures."""
        for table in self._world.model.tables.values():
            for measure in table.measures.values():
                self._add(table, measure)

    def known(self, name: str) -> Known | None:
        """Return the imported measure with a name, or None if the model has none.

        Raises `UnresolvedError` if it cannot be imported.
        """
        found = self._world.model.measure(name)
        if found is None:
            return None
        result = self._add(*found)
        if isinstance(result, str):
            raise UnresolvedError(result)
        return result

    def _add(self, table: Table, measure: Measure) -> Known | str:
        """Import a measure once, and return it, or the reason for measures that use it."""
        if measure.name not in self._known:
            if len(self._open) >= MAX_CHAIN:
                return f"it depends on more than {MAX_CHAIN} measures in a row"
            what = f"measure `{table.name}[{measure.name}]`"
            self._known[measure.name] = f"it uses the measure `[{measure.name}]`, which was not imported"
            self._open.append(measure.name)
            with self._world.report.dropping(what, measure.place):
                try:
                    self._known[measure.name] = self._import(measure, what)
                except RecursionError:
                    raise UnresolvedError(TOO_DEEP) from None
            self._open.pop()
        return self._known[measure.name]

    def _import(self, measure: Measure, what: str) -> Known:
        translation = Translation(self._world, self.known)
        formula = translation.formula(parse_dax(measure.expression), Scope())
        if not formula.entities:
            raise UnresolvedError("it aggregates nothing")
        home = self._world.entities[formula.entities[0]]
        shown = {
            "label": measure.name if measure.name != slug(measure.name) else None,
            "descriptions": {TOOL: measure.description or measure.name},
            "visibility": "internal" if measure.hidden else None,
            "format": format_of(measure.format),
        }
        entry = _Entry(self._world, translation, measure.name, self._shelf)
        name = entry.add(formula, home, drafts.filled(shown))
        target = f"{home.draft.name}.{name}"
        for note in translation.notes:
            self._world.report.approximated(what, note, measure.place, target)
        self._world.report.kept(what, measure.place, target)
        return Known(home, name, formula)

    def _shelf(self, draft: drafts.SourceDraft) -> _Shelf:
        """Return the measures of a source, including those of other models."""
        if draft.name not in self._shelves:
            self._shelves[draft.name] = _Shelf()
            for entry in draft.measures.values():
                self._shelves[draft.name].add(entry)
        return self._shelves[draft.name]


@dataclass(slots=True)
class _Shelf:
    """The measures of a source: their names in lower case, and definition -> name."""

    names: set[str] = field(default_factory=set)
    known: dict[str, str] = field(default_factory=dict)

    def add(self, entry: Mapping[str, Any]) -> None:
        self.names.add(str(entry["name"]).casefold())
        self.known.setdefault(_definition(entry), str(entry["name"]))


def _definition(entry: Mapping[str, Any]) -> str:
    """Return what a measure computes and how it is shown, as text."""
    return json.dumps({key: value for key, value in entry.items() if key not in _WORDS}, sort_keys=True)


class _Entry:
    """Writes one measure and the internal measures that it needs. `title`: its name in Power BI."""

    def __init__(
        self, world: World, translation: Translation, title: str, shelf: Callable[[drafts.SourceDraft], _Shelf]
    ) -> None:
        self._world, self._translation, self._title, self._shelf = world, translation, title, shelf
        self._added: list[tuple[Entity, dict[str, Any]]] = []

    def add(self, formula: Formula, home: Entity, shown: Mapping[str, Any]) -> str:
        """Add the measure to its source, and return its name. Nothing is added if it cannot be written."""
        keys: Mapping[str, Any] = {}
        part = self._translation.only_part(formula)
        if isinstance(part, Wrapped) and part.entity is home:
            formula, keys = part.formula, part.keys
        expr = self._expr(formula, home, keys)
        name = self._place(home, slug(self._title), {"expr": expr, **keys, **shown})
        for entity, entry in self._added:
            entity.draft.measures[entry["name"]] = entry
            self._shelf(entity.draft).add(entry)
        return name

    def _place(self, home: Entity, name: str, entry: dict[str, Any]) -> str:
        """Return the name of an equal measure that the source already has, or add the measure with a free name."""
        own, draft, shelf = _Shelf(), home.draft, self._shelf(home.draft)
        for entity, each in self._added:
            if entity is home:
                own.add(each)
        definition = _definition(entry)
        same = shelf.known.get(definition) or own.known.get(definition)
        if same is not None:
            return same
        columns = {each.casefold() for each in (*draft.columns, *(draft.base.columns if draft.base else ()))}
        taken = columns | shelf.names | own.names
        stem = f"{name}_measure" if name in columns else name
        free, number = stem, 2
        while free in taken:
            free, number = f"{stem}_{number}", number + 1
        self._added.append((home, {"name": free, **entry}))
        return free

    def _expr(self, formula: Formula, home: Entity, keys: Mapping[str, Any]) -> str:
        """Return the `expr` of a measure of a source; it aggregates measures instead of columns if `keys` has `per`."""
        uses: list[str] = []

        def replaced(node: exp.Expr) -> exp.Expr:
            if not isinstance(node, exp.Placeholder):
                return node
            part = self._translation.parts[int(node.name)]
            if isinstance(part, Leaf) and part.entity is home:
                return part.tree.copy()
            name = part.name if isinstance(part, Known) else self._internal(part)
            table = None if part.entity is home else part.entity.draft.name
            uses.append(name if table is None else f"{table}.{name}")
            return column_tree(name, self._world.dialect, table)

        tree = formula.tree.copy()
        syntax = Dialect.get_or_raise(self._world.dialect)
        for division in tree.find_all(exp.Div):  # ktx makes those between measures exact
            division.set("typed", syntax.TYPED_DIVISION)
            division.set("safe", syntax.SAFE_DIVISION)
        expr = str(tree.transform(replaced).sql(self._world.dialect))
        if "per" not in keys:
            drafts.checked(home.draft, expr, aggregate=True, measures=uses)
        return expr

    def _internal(self, part: Leaf | Wrapped) -> str:
        """Return the name of an internal measure for a part; equal parts share one."""
        formula = self._translation.leaf_formula(part) if isinstance(part, Leaf) else part.formula
        keys = {} if isinstance(part, Leaf) else dict(part.keys)
        shown = {"descriptions": {TOOL: f"Part of {self._title}"}, "visibility": "internal"}
        entry = {"expr": self._expr(formula, part.entity, keys), **keys, **shown}
        return self._place(part.entity, f"{slug(self._title)}_part", entry)


def format_of(text: str | None) -> str | None:
    """Return the ktx format for a format string: the one for positive numbers, without escapes."""
    first = (text or "").split(";")[0].replace("\\", "").replace('"', "").strip()
    named = {"percent": "percent", "currency": "currency", "standard": "#,##0.00", "fixed": "0.00"}
    return named.get(first.lower()) or (first if any(sign in first for sign in "0#") else None)
