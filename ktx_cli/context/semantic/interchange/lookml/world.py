"""The views of a LookML project as sources, and how their fields refer to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ktx_cli.context.semantic.interchange.drafts import SourceDraft, Sources
from ktx_cli.context.semantic.interchange.lookml.parser import Block
from ktx_cli.context.semantic.interchange.lookml.project import Project
from ktx_cli.context.semantic.interchange.lookml.sql import (
    TIMEFRAMES,
    UnresolvedError,
    cut,
    replaced,
    without_liquid,
)
from ktx_cli.context.semantic.interchange.result import Report

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
                raise UnresolvedError("its table is that of another view", hint="name the table")
            if self._known_only and not self.sources.knows(table):
                raise UnresolvedError(UNKNOWN_TABLE, hint="scan its database first")
            return self.sources.add(name, block.place, table=table.strip())
        except UnresolvedError as error:
            self.report.dropped(f"view `{name}`", error.message, block.place)
            return None

    def _derived(self, block: Block, above: list[str]) -> str:
        """Return the SQL of a derived table, other views' tables put in."""
        text = block.values.get("sql")
        if not isinstance(text, str) or not text.strip():
            raise UnresolvedError("its derived table has no `sql`", hint="write the SQL Looker makes of it")
        return replaced(text, lambda name: self._table_of(name, above)).rstrip("; \n")

    def _table_of(self, name: str, above: list[str]) -> str:
        view, _, what = name.partition(".")
        block = self.project.views.get(view)
        if what != _TABLE_NAME or block is None or view in above or len(above) > 20:
            raise UnresolvedError(f"`${{{name}}}` in its derived table is no table", hint="name the table")
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
