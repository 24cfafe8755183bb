"""Write a data catalog without a model: what it states about tables into the manifest, terms and domains as pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import ResultWarning, listing, one_line, plural
from ktx_cli.semantic import Column, Model, Place, Report, Visibility
from ktx_cli.sources.data_catalogs.entities import (
    TERM,
    CatalogColumn,
    CatalogTable,
    Entities,
    databases_of,
    readable,
    restricted_columns,
)
from ktx_cli.sources.data_catalogs.pages import write_pages
from ktx_cli.sources.deliveries import Steps
from ktx_cli.sources.port import ProjectContext, Projection
from ktx_cli.sources.table_texts import Labels, LayerTable, Tables, Wanted, manifest_models, write

NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables match it"
_NO_DATABASE: Final = "no connection of the project is a database of its platform"
_DESCRIBED: Final = "another entry of the catalog already describes this table"
_NESTED: Final = "ktx describes columns, not the fields inside their values"
_LINKS: Final = "ktx does not follow links of a catalog"
_NO_COLUMN: Final = "has no such column"

_LONGEST_TEXT: Final = 4_000
"""The maximum length of a description."""
_LONGEST_LINE: Final = 400
_LABEL_LENGTH: Final = 200
_MOST_SHOWN: Final = 20
"""The maximum number of tables that warnings of one kind name."""
_MOST_SOURCES: Final = 8
"""The maximum number of columns that the description of a computed column names."""


def projected(tool: str, noun: str, entry: Any, entities: Entities, context: ProjectContext) -> Projection:
    """Write what a catalog states about the tables of the project's databases, and its terms and domains.

    `tool`: the key of texts in the manifest. `noun`: the name of the catalog.
    """
    return _Writer(tool, noun, entry, entities, context).projection()


@dataclass(slots=True)
class _Writer:
    """Converts the tables of a catalog into items for the manifest, and collects what refers to a concept.

    `used`: ID of a concept -> the tables and columns that have it, as `connection/source.column`.
    """

    tool: str
    noun: str
    entry: Any
    entities: Entities
    context: ProjectContext
    report: Report = field(default_factory=Report)
    wanted: Wanted = field(default_factory=Wanted)
    warnings: list[ResultWarning] = field(default_factory=list)
    used: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    guarded: list[ResultWarning] = field(default_factory=list)

    def projection(self) -> Projection:
        """Return what was written."""
        self.names = self.entities.names()
        labels = Labels(self.context, self.tool, self.report, self.wanted, self.warnings)
        for path, table, found in self._placed():
            self._write_table(path, table, found, labels)
        labels.write()
        self.warnings += self._missed_warnings()
        written = write(self.wanted, self.context, self.tool)
        pages = write_pages(self.noun, self.context, self.entities.concepts, self.used, self.report)
        terms = [path for path, each in self.entities.concepts.items() if each.kind == TERM and path in pages.raw]
        left = (f"{plural(len(terms), 'glossary term')} that may define measures and segments",) if terms else ()
        handled = frozenset((*self.entities.tables, *self.entities.concepts)) - set(terms)
        return Projection(
            {**{path: raw for path, raw in written.artifacts.items() if raw}, **pages.artifacts},
            {**written.owned, **pages.owned},
            self.report.sorted(),
            handled,
            left,
            (*self.warnings, *written.warnings, *pages.warnings),
        )

    def _placed(self) -> Iterator[tuple[str, CatalogTable, LayerTable]]:
        """Yield the raw file of each table of the catalog, the table, and the one in the manifest that it is."""
        models = manifest_models(self.context)
        for name, connection in self.entry.databases.items():
            if connection is not None and connection not in models:
                setting = f"connections.{self.context.connection}.databases.{name}"
                what = f"`{setting}` is `{connection}`, which is not a database of the project"
                self.warnings.append(ResultWarning("no_table", what, hint=f"use one of: {listing(models)}"))
        finders: dict[tuple[str, ...], Tables] = {}
        taken: set[tuple[str, str]] = set()
        for path, table in self.entities.tables.items():
            databases = databases_of(table, self.entry.databases)
            if databases not in finders:
                finders[databases] = Tables(_among(models, databases))
            what, place = f"table `{table.shown}`", Place(path)
            if not _among(models, databases):
                self.report.dropped(what, f"{_NO_DATABASE} `{table.platform or table.instance}`", place)
                continue
            found = next((tables for name in table.names if (tables := finders[databases].find(name))), [])
            key = (found[0].connection, found[0].source.name) if len(found) == 1 else None
            if key is None:
                self.report.dropped(what, SEVERAL_TABLES if found else NO_TABLE, place)
                self.missed.append(f"{table.shown} ({len(found)} matches)" if found else table.shown)
            elif key in taken:
                self.report.dropped(what, _DESCRIBED, place)
            else:
                taken.add(key)
                yield path, table, found[0]

    def _missed_warnings(self) -> Iterator[ResultWarning]:
        """Yield one warning about all tables on a platform of the project that no scanned database has."""
        if self.missed:
            shown = listing(sorted(self.missed), _MOST_SHOWN)
            what = f"{self.context.connection}: no scanned database has {plural(len(self.missed), 'table')}: {shown}"
            hint = "scan their database again if they are new, and check that it includes their schemas"
            if any(each.endswith(" matches)") for each in self.missed):
                hint = "map their platform to one connection with `databases`"
            yield ResultWarning("no_table", what, hint=hint, items=sorted(self.missed))
        yield from self.guarded[:_MOST_SHOWN]
        if len(self.guarded) > _MOST_SHOWN:
            rest = plural(len(self.guarded) - _MOST_SHOWN, "more table")
            what = f"and {rest} with columns that {self.noun} restricts and queries can read"
            yield ResultWarning("classified", what, hint="the report of the run lists all tables")

    def _write_table(self, path: str, table: CatalogTable, found: LayerTable, labels: Labels) -> None:
        what, place, target = f"table `{table.shown}`", Place(path), f"{found.connection}/{found.source.name}"
        text = self._description(table)
        if text:
            self._want(found, ("descriptions", self.tool), text, path)
        if table.tags:
            self._want(found, ("tags", self.tool), table.tags, path)
        if text or table.tags or table.columns:
            self.report.kept(f"texts of {what}", place, target)
        for concept in (*table.terms, *table.domains):
            self.used.setdefault(concept, []).append(target)
        self._label(labels, found, None, table.label, what, place)
        restricted = set(restricted_columns(table, self.names, self.entry.restricted_tags))
        guarded: list[str] = []
        for column in table.columns:
            own = found.source.column(column.name)
            if own is None or own.expr is not None:
                why = f"the table `{target}` {_NO_COLUMN}"
                self.report.dropped(f"column `{table.shown}.{column.name}`", why, place)
                continue
            self._write_column(path, table, column, found, own)
            self._label(labels, found, own.name, column.label, f"column `{table.shown}.{column.name}`", place)
            if column.name in restricted and _is_visible(found, own):
                guarded.append(own.name)
        if guarded:
            self.guarded.append(self._guarded(path, target, guarded))
        if table.nested:
            self.report.dropped(f"{plural(table.nested, 'nested field')} of {what}", _NESTED, place)
        if table.links:
            self.report.dropped(f"{plural(len(table.links), 'link')} of {what}", _LINKS, place)
        for key in table.foreign_keys:
            columns = listing(key.columns)
            self.report.approximated(
                f"foreign key {columns} of {what}", "scans use it as evidence for a join", place, target
            )

    def _write_column(
        self, path: str, table: CatalogTable, column: CatalogColumn, found: LayerTable, own: Column
    ) -> None:
        text = self._column_text(column)
        if text:
            self._want(found, ("columns", own.name, "descriptions", self.tool), text, path)
        is_key = table.primary_key == [column.name] or [column.name] in table.unique
        stated = {"not_null": column.not_null or column.name in table.primary_key, "unique": column.unique or is_key}
        rules = {rule: True for rule, holds in stated.items() if holds}
        if rules:
            self._want(found, ("columns", own.name, "constraints", self.tool), rules, path)
        for concept in column.terms:
            if _is_visible(found, own):
                self.used.setdefault(concept, []).append(f"{found.connection}/{found.source.name}.{own.name}")

    def _description(self, table: CatalogTable) -> str:
        """Return the description of a table, with its owners, domains and terms in lines below."""
        lines = [
            f"Deprecated: {_line(table.deprecated)}" if table.deprecated not in ("", "yes") else "",
            "Deprecated." if table.deprecated == "yes" else "",
            f"Owners: {_line(', '.join(table.owners))}" if table.owners else "",
            self._named("Domain", table.domains),
            self._named("Terms", table.terms),
        ]
        return "\n".join(filter(None, (_cut(table.description), *lines)))

    def _column_text(self, column: CatalogColumn) -> str:
        sources = listing(column.computed_from, _MOST_SOURCES) if column.computed_from else ""
        lines = (self._named("Terms", column.terms), f"Computed from {_line(sources)}." if sources else "")
        return "\n".join(filter(None, (_cut(column.description), *lines)))

    def _named(self, what: str, concepts: Iterable[str]) -> str:
        names = [readable(each, self.names) for each in concepts]
        return f"{what}: {_line(', '.join(names))}" if names else ""

    def _label(
        self, labels: Labels, found: LayerTable, column: str | None, label: str, what: str, place: Place
    ) -> None:
        label = " ".join(label.split())
        name = column or found.source.name
        if len(label) > _LABEL_LENGTH:
            self.report.dropped(f"display name of {what}", "it is too long for a label", place)
        elif label and label.casefold() != name.casefold():
            labels.add(found, column, label, f"display name of {what}", place)

    def _guarded(self, path: str, target: str, columns: list[str]) -> ResultWarning:
        pronoun = "it" if len(columns) == 1 else "them"
        what = f"{self.noun} restricts {listing(columns)} of `{target}`, but queries can read {pronoun}"
        hint = f"set `visibility: hidden` in `column_overrides` of an overlay file if agents must not read {pronoun}"
        return ResultWarning("classified", what, hint=hint, path=path)

    def _want(self, table: LayerTable, steps: Steps, value: Any, path: str) -> None:
        self.wanted.add(table.shard, ("tables", table.source.name, *steps), value, path)


def _among(models: Mapping[str, Model], databases: Iterable[str]) -> dict[str, Model]:
    """Return the models of connections, given by name or by dialect."""
    wanted = set(databases)
    return {name: model for name, model in models.items() if name in wanted or model.dialect in wanted}


def _is_visible(table: LayerTable, column: Column) -> bool:
    return Visibility.PUBLIC is table.source.visibility is (column.visibility or Visibility.PUBLIC)


def _line(text: str) -> str:
    return one_line(text, _LONGEST_LINE)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 1].rstrip()}…"
