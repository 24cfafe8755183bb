"""dbt's YAML as the files of ktx."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ktx_cli.semantic.interchange.dbt.columns import Reference, add_columns, add_joins, add_properties, add_references
from ktx_cli.semantic.interchange.dbt.entries import Semantic, read_newer, read_older
from ktx_cli.semantic.interchange.dbt.metrics import Metrics
from ktx_cli.semantic.interchange.dbt.project import (
    Call,
    Documents,
    Scope,
    UnresolvedJinjaError,
    parse_call,
    read_documents,
)
from ktx_cli.semantic.interchange.drafts import Sources
from ktx_cli.semantic.interchange.report import Imported, Item, Report
from ktx_cli.semantic.interchange.writer import imported, reach
from ktx_cli.semantic.model import Model

DEFAULT_DIALECT: Final = "duckdb"
NO_ONE_TABLE: Final = "no scanned database has its table, or several have"
"""Why a semantic model is left out where the tables are known."""

_BRACES: Final = re.compile(r"^\{\{(.*)\}\}$", re.DOTALL)


Relation = tuple[str, ...]
"""What `model:` of a semantic model refers to: `("ref", name)` or `("source", source, table)`."""


def import_dbt(
    files: Mapping[str, str],
    model: Model | None,
    *,
    dialect: str | None = None,
    tables: Mapping[Relation, str] | None = None,
    properties: bool = True,
) -> Imported:
    """Return ktx's files for dbt's semantic models, metrics and what it says of models and columns.

    `files`: path -> text of a dbt project; all but `.yml` and `.yaml` are left out. `model`: the connection's semantic
    layer, whose manifest's sources are then changed, not repeated. `dialect`: sqlglot's name for the SQL of the
    expressions; the model's, else DuckDB's. `tables`: the only relations that are known, each with its table; a
    semantic model of another one is dropped. `properties` False: what is said of models and columns is left out, of
    the report too. Raises nothing for what the files hold: it is in the report.
    """
    report = Report()
    documents = read_documents(files, report, rest=properties)
    sources = Sources(model, dialect or (model.dialect if model else DEFAULT_DIALECT), report)
    configs = {name: item for item in documents.models if (name := item.text("name"))}
    semantics = _semantics(documents, configs, tables, sources, report)
    models = _Models(configs, semantics, sources, report)
    if properties:
        models.add(documents)
    for semantic in semantics:
        add_columns(semantic, Scope(semantic, documents.variables), report)
    add_joins(semantics, report)
    models.join()
    reach(sources.drafts.values())
    Metrics(semantics, documents.variables, report).run(documents.metrics)
    return imported(sources.drafts.values(), report, "dbt")


def _semantics(
    documents: Documents,
    configs: Mapping[str, Item],
    tables: Mapping[Relation, str] | None,
    sources: Sources,
    report: Report,
) -> list[Semantic]:
    """Return the semantic models, each with its source."""
    read = [read_older(item, report) for item in documents.semantic_models]
    read += [read_newer(item, report) for item in documents.models]
    result: list[Semantic] = []
    for semantic in filter(None, read):
        table = _table(semantic.relation, configs)
        if table is not None and tables is not None:
            table = tables.get(relation_of(semantic.relation) or ())
            if table is None or not sources.knows(table):
                report.dropped(f"semantic model `{semantic.name}`", NO_ONE_TABLE, semantic.place)
                continue
        if table is None:
            why = f"its `model` is `{semantic.relation}`, not ref('name') or source('schema', 'table')"
            report.dropped(f"semantic model `{semantic.name}`", why, semantic.place)
        elif any(each.name == semantic.name for each in result):
            report.dropped(f"semantic model `{semantic.name}`", "another one has the name", semantic.place)
        else:
            semantic.draft = sources.add(semantic.name, semantic.place, table=table)
            semantic.draft.description = semantic.description
            report.kept(f"semantic model `{semantic.name}`", semantic.place, semantic.draft.name)
            result.append(semantic)
    return result


def relation_of(text: str) -> Relation | None:
    """Return what `ref('name')` or `source('schema', 'table')` refers to, in braces or not; None for anything else."""
    inner = _BRACES.match(text.strip())
    try:
        call: Call = parse_call(inner[1] if inner else text)
    except UnresolvedJinjaError:
        return None
    words = [argument for argument in call.arguments if isinstance(argument, str) and argument]
    if call.name == "source" and len(words) == 2:
        return ("source", *words)
    return ("ref", words[-1]) if call.name == "ref" and words else None


def _table(text: str, configs: Mapping[str, Item]) -> str | None:
    """Return the table of a relation, with the schema and alias dbt's YAML says of it."""
    relation = relation_of(text)
    if relation is None:
        return None
    kind, *words = relation
    if kind == "source":
        return ".".join(map(_quoted, words))
    config = configs[words[-1]].item("config") if words[-1] in configs else None
    schema, alias = (config.text("schema"), config.text("alias")) if config else (None, None)
    return ".".join(_quoted(part) for part in (schema, alias or words[-1]) if part)


def _quoted(part: str) -> str:
    return part if re.fullmatch(r"\w+", part) else '"' + part.replace('"', '""') + '"'


class _Models:
    """What dbt says of models and sources that became sources, or that the manifest has."""

    def __init__(
        self, configs: Mapping[str, Item], semantics: list[Semantic], sources: Sources, report: Report
    ) -> None:
        self._configs, self._sources, self._report = configs, sources, report
        tables = {_table(semantic.relation, configs): semantic.draft for semantic in reversed(semantics)}
        self._drafts = {table: draft for table, draft in tables.items() if table is not None}
        self._references: list[Reference] = []

    def add(self, documents: Documents) -> None:
        """Add the entries of `models:` and `sources:`."""
        for item in documents.models:
            self._add(item, _table(f"ref({item.text('name')!r})", self._configs))
        for source in documents.sources:
            schema = source.text("schema") or source.text("name") or ""
            for item in source.items("tables"):
                name = item.text("identifier") or item.text("name") or ""
                self._add(item, ".".join(_quoted(part) for part in (schema, name) if part) or None)
            source.skip("name", "schema", "database", "description", "version")
            source.report_rest(self._report, f"source `{source.text('name')}`", {"config": "it steers dbt"})

    def join(self) -> None:
        """Join what tests say belongs together, after the joins by entities."""
        relations = {reference.to: _table(reference.to, self._configs) for reference in self._references}
        drafts = {to: self._drafts[table] for to, table in relations.items() if table in self._drafts}
        add_references(self._references, drafts, self._report)

    def _add(self, item: Item, table: str | None) -> None:
        name = item.text("name")
        if table and table not in self._drafts and name and self._sources.has_table(table):
            self._drafts[table] = self._sources.add(name, item.place, table=table)
        draft = self._drafts.get(table or "")
        if draft is not None:
            self._references += add_properties(item, draft, self._report)
        else:
            why = "it has no semantic model, and the manifest has no table of that name"
            self._report.dropped(f"model `{name or '?'}`", why, item.place)
