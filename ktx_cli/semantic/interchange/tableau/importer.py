"""Import the data sources of Tableau files as ktx sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ktx_cli.core import KtxError, plural
from ktx_cli.semantic.interchange.drafts import Sources, imported, reach
from ktx_cli.semantic.interchange.report import Imported, Report
from ktx_cli.semantic.interchange.tableau.calculations import DEFAULT_AGGREGATES, Calculations
from ktx_cli.semantic.interchange.tableau.formula import Field
from ktx_cli.semantic.interchange.tableau.levels import ORIGIN
from ktx_cli.semantic.interchange.tableau.tables import TABLEAU_UNKNOWN, TYPES, Shared, Tables
from ktx_cli.semantic.interchange.tableau.values import ROW
from ktx_cli.semantic.interchange.tableau.workbook import (
    FILE_DATA,
    NOT_PUBLISHED,
    ROWS,
    VIEWS,
    Column,
    TableauData,
    read_data_sources,
)
from ktx_cli.semantic.model import Model

DISPLAY: Final = "it only affects the display in Tableau"
"""The reason why a part is dropped that only concerns views."""

TABLEAU_IRRELEVANT: Final = frozenset({DISPLAY, FILE_DATA, NOT_PUBLISHED, TABLEAU_UNKNOWN, VIEWS})
"""Reasons for dropping a part that agents can do nothing about."""


def import_tableau(files: Mapping[str, str], model: Model | None, *, known_only: bool = False) -> Imported:
    """Return the ktx files for the data sources of Tableau workbooks and data source files.

    `files` maps paths to the XML in the files; only files with `TABLEAU_SUFFIXES` are read. `model` is the semantic
    layer of the connection: sources of its manifest are changed, not repeated. If `known_only` is true, tables outside
    the manifest are dropped. Invalid content is listed in the report and raises nothing.
    """
    report = Report()
    return import_data_sources(read_data_sources(files, report), model, report, known_only=known_only)


def import_data_sources(
    found: Iterable[TableauData], model: Model | None, report: Report, *, known_only: bool = False
) -> Imported:
    """Return the ktx files for data sources, as `import_tableau` does. The report may have items already."""
    shared = Shared(Sources(model, report), report, known_only)
    several = [Tables(each, shared) for each in found]
    for tables in several:
        tables.add_joins()
    reach(shared.sources.drafts.values())
    for tables in several:
        _DataSource(tables, shared).add()
    for draft in shared.sources.drafts.values():
        draft.extra.pop(ORIGIN, None)
    return imported(shared.sources.drafts.values(), report, "tableau")


class _DataSource:
    """Imports the fields of one data source."""

    def __init__(self, tables: Tables, shared: Shared) -> None:
        self._tables, self._source, self._report = tables, tables.source, shared.report
        self._fields = Calculations(tables, shared)

    def add(self) -> None:
        """Add descriptions, calculated fields, sets and filters."""
        source, base = self._source, self._tables.base
        what = f"data source `{source.title}`"
        if base is None:
            if source.relations:
                lost = set(self._tables.lost.values())
                why = lost.pop() if len(lost) == 1 else "ktx cannot use any of its tables"
                fields = plural(sum(each.kind != "column" for each in source.columns.values()), "calculated field")
                self._report.dropped(f"{what} with {fields}", why, source.place)
            return
        self._report.kept(what, source.place, base.draft.name)
        self._types()
        for column in source.columns.values():
            self._column(column) if column.kind == "column" else self._calculated(column)
        for column in source.columns.values():
            self._total(column)
        for selection in source.sets.values():
            set_name = f"set `{selection.name}` of `{source.title}`"
            with self._report.dropping(set_name, selection.place):
                target, notes = self._fields.add_segment(selection, selection.name)
                self._report.kept(set_name, selection.place, target, "; ".join(notes))
        self._filters()

    def _types(self) -> None:
        """Declare the columns of tables that are not in the manifest."""
        for relation, remote, kind in self._source.fields.values():
            node = self._tables.nodes.get(relation)
            if node is not None and node.draft.base is None and kind in TYPES:
                found = node.draft.require(remote, TYPES[kind])
                if found is not None:
                    node.draft.columns[found].visibility = None
                    if kind == "date":
                        node.draft.columns[found].extra["natural_granularity"] = "day"

    def _column(self, column: Column) -> None:
        """Add the label, description and default measure of a field of a table."""
        if column.datatype == "table" or column.name.startswith(ROWS) or column.datatype == "":
            return
        what = f"field `{column.title}` of `{self._source.title}`"
        with self._report.dropping(what, column.place):
            found = self._tables.column(column.name)
            if found is None:
                return
            value = self._fields.field(Field((column.name,)))
            node, target = found[0], f"{found[0].draft.name}.{value.sql.name}"
            draft = node.draft.column(value.sql.name)
            draft.label = draft.label or column.caption or None
            draft.description = draft.description or column.description or None
            if draft.visibility == "internal" and node.draft.base is None:
                draft.visibility = None
            if column.has_aliases:
                self._report.dropped(f"aliases of {what}", DISPLAY, column.place)
            self._report.kept(what, column.place, target)

    def _calculated(self, column: Column) -> None:
        found = self._fields.calculated(column)
        if isinstance(found, str):
            shown = self._fields.shown(column)
            why = f"{found}. Formula: {shown}" if shown and found not in (TABLEAU_UNKNOWN, FILE_DATA) else found
            self._report.dropped(self._fields.what(column), why, column.place)
            return

    def _total(self, column: Column) -> None:
        """Add the measure that aggregates a numeric field as Tableau does by default."""
        function = column.aggregation.lower()
        if column.role != "measure" or function not in DEFAULT_AGGREGATES or column.datatype not in ("integer", "real"):
            return
        try:
            value = self._fields.field(Field((column.name,)))
        except KtxError:  # reported with the field
            return
        what = f"default aggregation of {self._fields.what(column)}"
        if value.level == ROW:
            with self._report.dropping(what, column.place):
                self._report.kept(what, column.place, self._fields.add_measure_of(column, function, value))

    def _filters(self) -> None:
        """Add segments for the filters of a data source, which Tableau applies to every query."""
        for selection in self._source.filters:
            title = f"{selection.field or selection.name} filter"
            what = f"filter of `{self._source.title}` on `{selection.field or selection.name}`"
            with self._report.dropping(what, selection.place):
                target, _ = self._fields.add_segment(selection, title)
                why = "it becomes a segment, which queries must request explicitly"
                self._report.approximated(what, why, selection.place, target)
