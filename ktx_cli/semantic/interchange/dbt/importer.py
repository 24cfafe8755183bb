"""Import dbt YAML as ktx sources: entities and dimensions become columns, keys and joins."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.semantic.interchange.dbt import project as dbt
from ktx_cli.semantic.interchange.dbt.metrics import Metrics
from ktx_cli.semantic.interchange.drafts import (
    TAKEN,
    ColumnDraft,
    SourceDraft,
    Sources,
    imported,
    on_text,
    plain_name,
    reach,
)
from ktx_cli.semantic.interchange.report import Imported, Item, Report, UnresolvedError
from ktx_cli.semantic.load.columns import NATURAL as GRAINS
from ktx_cli.semantic.model import Model, Place
from ktx_cli.warehouses import dialect_named

if TYPE_CHECKING:
    from ktx_cli.semantic.interchange.drafts import ColumnDraft, SourceDraft

_CUT: Final = re.compile(
    r"date_trunc\(\s*'(?P<grain>\w+)'\s*,\s*(?P<cut>\w+)\s*\)|(?:cast\(\s*(?P<cast>\w+)\s+as\s+date\s*\)|"
    r"date\(\s*(?P<date>\w+)\s*\)|(?P<short>\w+)::date)", re.IGNORECASE,
)  # fmt: skip


def add_columns(semantic: dbt.Semantic, scope: dbt.Scope, report: Report) -> None:
    """Add the columns for a semantic model's entities and dimensions."""
    for entity in semantic.entities.values():
        _add_entity(semantic, entity, scope, report)
    for dimension in semantic.dimensions.values():
        _add_dimension(semantic, dimension, scope, report)
    _set_time(semantic, report)
    primary = semantic.entities.get(semantic.primary or "")
    if primary is not None and primary.kind == dbt.PRIMARY and primary.column:
        semantic.draft.grain = (primary.column,)


def _add_entity(semantic: dbt.Semantic, entity: dbt.Entity, scope: dbt.Scope, report: Report) -> None:
    what = f"entity `{entity.name}` of `{semantic.name}`"
    with report.dropping(what, entity.place):
        if entity.kind == dbt.NATURAL:
            raise UnresolvedError("the key of a slowly changing dimension does not support joins on equality")
        column = _column(semantic, entity, None, what, scope, report)
        column.description = column.description or entity.description
        column.label = column.label or entity.label
        if entity.kind == dbt.UNIQUE:
            column.extra["tests"] = {"dbt": ["unique"]}
        report.kept(what, entity.place, f"{semantic.draft.name}.{column.name}")


def _add_dimension(semantic: dbt.Semantic, dimension: dbt.Dimension, scope: dbt.Scope, report: Report) -> None:
    what = f"dimension `{dimension.name}` of `{semantic.name}`"
    cut = _CUT.fullmatch(dimension.expr.strip())
    own = cut and (cut["cut"] or cut["cast"] or cut["date"] or cut["short"])
    if cut and own and own.casefold() == dimension.name.casefold():
        dimension.expr, dimension.grain = dimension.name, (cut["grain"] or "day").lower()
    with report.dropping(what, dimension.place):
        column = _column(semantic, dimension, "time" if dimension.is_time else None, what, scope, report)
        column.description = dimension.description or column.description
        column.label = dimension.label or column.label
        why = ""
        if cut and own == dimension.expr:
            why = f"ktx uses the column unchanged and assumes that its values have the grain {dimension.grain}"
        if dimension.is_time:
            column.type, column.extra["role"] = "time", "time"
            if dimension.grain in GRAINS:
                column.extra["natural_granularity"] = dimension.grain
            else:
                why = f"ktx does not support the grain `{dimension.grain}`"
                dimension.grain = None
        report.kept(what, dimension.place, f"{semantic.draft.name}.{column.name}", why)


def _column(
    semantic: dbt.Semantic,
    of: dbt.Entity | dbt.Dimension,
    kind: str | None,
    what: str,
    scope: dbt.Scope,
    report: Report,
) -> ColumnDraft:
    """Return the column for an entity or dimension. It is computed unless its `expr` is a plain name."""
    draft, expr = semantic.draft, scope.render(of.expr)
    plain = plain_name(expr)
    known = draft.base.column(plain) if plain is not None and draft.base is not None else None
    if known is not None:
        kind = kind or known.type.value
    column, is_renamed = draft.define(of.name, expr, kind, otherwise=None, renames=isinstance(of, dbt.Entity))
    of.column = column.name
    if is_renamed:
        report.approximated(f"the name of {what}", TAKEN, of.place, column.name)
    if column.expr is not None and column.type is None:
        column.type = "string"
        report.approximated(f"the type of {what}", "unknown from its SQL; ktx assumes string", of.place, column.name)
    column.visibility = None if column.visibility == "internal" else column.visibility
    return column


def _set_time(semantic: dbt.Semantic, report: Report) -> None:
    if semantic.time is None:
        return
    dimension = semantic.dimensions.get(semantic.time)
    if dimension is None or dimension.column is None:
        why = "it is not an imported dimension"
        report.dropped(f"default time `{semantic.time}` of `{semantic.name}`", why, semantic.place)
        return
    semantic.draft.time = dimension.column


def add_joins(semantics: list[dbt.Semantic], report: Report) -> None:
    """Join semantic models that share an entity: many-to-one if it is a key of one, one-to-one if of both."""
    wanted: dict[tuple[str, str], list[tuple[dbt.Semantic, dbt.Semantic, str, str]]] = {}
    for one, other in itertools.permutations(semantics, 2):
        for name in one.entities:
            relationship = _relationship(one, other, name)
            if relationship is not None:
                wanted.setdefault((one.draft.name, other.draft.name), []).append((one, other, name, relationship))
    for several in wanted.values():
        for one, other, name, relationship in several:
            alias = _free_alias(name, semantics) if len(several) > 1 else None
            _join(one, other, name, relationship, alias, report)
    joined = {edge.entity for semantic in semantics for edge in semantic.edges}
    for semantic in semantics:
        for entity in semantic.entities.values():
            if entity.kind == dbt.FOREIGN and entity.name not in joined and entity.column:
                why = "it is not a key of any imported semantic model; ktx adds its column without a join"
                what = f"join by entity `{entity.name}` of `{semantic.name}`"
                report.approximated(what, why, entity.place, f"{semantic.draft.name}.{entity.column}")


def _relationship(one: dbt.Semantic, other: dbt.Semantic, name: str) -> str | None:
    """Return the relationship of a join on an entity. If it is a key of both, only one direction is joined."""
    own, its = one.entities[name], other.entities.get(name)
    if its is None or not own.column or not its.column or not its.is_key:
        return None
    if own.kind == dbt.FOREIGN:
        return "many_to_one"
    return "one_to_one" if one.draft.name < other.draft.name else None


def _free_alias(name: str, semantics: Iterable[dbt.Semantic]) -> str:
    names = {semantic.draft.name for semantic in semantics}
    while name in names:
        name = f"{name}_key"
    return name


def _join(
    one: dbt.Semantic, other: dbt.Semantic, name: str, relationship: str, alias: str | None, report: Report
) -> None:
    own, its = one.entities[name], other.entities[name]
    hop = alias or other.draft.name
    on = on_text([(own.column or "", its.column or "")], hop)
    join = {"to": other.draft.name, "on": on, "relationship": relationship}
    if alias:
        join["alias"] = alias
    one.draft.joins.append(join)
    one.edges.append(dbt.Edge(name, other, hop))
    if relationship == "one_to_one" and alias is None:
        other.edges.append(dbt.Edge(name, one, one.draft.name))
    report.kept(f"join by entity `{name}` of `{one.name}`", own.place, f"{one.draft.name} -> {hop}")


_TESTS: Final = ("unique", "not_null")
_KNOWN: Final = (
    "name", "semantic_model", "agg_time_dimension", "primary_entity", "derived_semantics", "metrics", "columns",
    "latest_version", "versions", "docs", "access",
)  # fmt: skip
_REASONS: Final = {
    "config": dbt.STEERS,
    "meta": "it does not affect queries",
    "time_spine": "ktx computes time periods without a table",
    "tests": "ktx does not use tests of a whole model",
    "data_tests": "ktx does not use tests of a whole model",
    "constraints": "ktx reads constraints from the database in a scan",
}


@dataclass(frozen=True, slots=True)
class Reference:
    """A `relationships` test: the values of a column must exist in `field` of the relation `to`."""

    draft: SourceDraft
    column: str
    to: str
    field: str
    what: str
    place: Place


def add_properties(item: Item, draft: SourceDraft, report: Report) -> list[Reference]:
    """Add the facts of a `models:` entry to a source, and return the references that its tests check."""
    text = item.text("description")
    if text:
        several = [each.strip() for each in (draft.description, text) if each]
        draft.description = " ".join(dict.fromkeys(several))
        report.kept(f"description of `{draft.name}`", item.at("description"), draft.name)
    result = [each for column in item.items("columns") for each in _add_column(column, draft, report)]
    item.skip(*_KNOWN)
    item.report_rest(report, f"model `{draft.name}`", _REASONS)
    return result


def _add_column(item: Item, draft: SourceDraft, report: Report) -> list[Reference]:
    name = item.text("name")
    what = f"column `{name or '?'}` of `{draft.name}`"
    if name is None or (draft.base is not None and draft.physical(name) is None):
        report.dropped(what, f"the table of `{draft.name}` does not have this column", item.place)
        return []
    column = draft.column(draft.physical(name) or name)
    if column.expr is not None:
        report.dropped(what, "a computed column has the same name", item.place)
        return []
    column.visibility = None if column.visibility == "internal" else column.visibility
    _describe(item, column, what, draft, report)
    found = _add_tests(item, column, what, draft, report)
    item.skip("entity", "dimension", "granularity", "quote")
    item.report_rest(report, what, _REASONS)
    return found


def _describe(item: Item, column: ColumnDraft, what: str, draft: SourceDraft, report: Report) -> None:
    text, native = item.text("description"), item.text("data_type")
    if text and column.description:
        why = "the dimension or entity already has a description"
        report.dropped(f"description of {what}", why, item.at("description"))
    elif text:
        column.description = text
        report.kept(what, item.place, f"{draft.name}.{column.name}")
    if native and draft.base is None and column.type is None:
        column.type = dialect_named(draft.dialect).semantic_type(native).value


def _add_tests(item: Item, column: ColumnDraft, what: str, draft: SourceDraft, report: Report) -> list[Reference]:
    tests: list[str] = []
    references: list[Reference] = []
    for key in ("tests", "data_tests"):
        for test in item.listed(key):
            name, arguments = _test(test)
            label, target = f"test `{name}` of {what}", f"{draft.name}.{column.name}"
            values, to = _values(arguments), _reference(arguments)
            if name in _TESTS:
                tests.append(name)
                report.kept(label, item.at(key), target)
            elif name == "accepted_values" and values:
                column.extra["enum_values"] = {"dbt": values}
                report.kept(label, item.at(key), target)
            elif name == "relationships" and to is not None:
                references.append(Reference(draft, column.name, *to, label, item.at(key)))
            else:
                report.dropped(label, "ktx does not use this test", item.at(key))
    if tests:
        column.extra["tests"] = {"dbt": list(dict.fromkeys([*column.extra.get("tests", {}).get("dbt", []), *tests]))}
    return references


def _reference(arguments: Any) -> tuple[str, str] | None:
    to, field = (arguments.get("to"), arguments.get("field")) if isinstance(arguments, Mapping) else (None, None)
    return (to, field) if isinstance(to, str) and isinstance(field, str) else None


def add_references(references: Iterable[Reference], drafts: Mapping[str, SourceDraft], report: Report) -> None:
    """Add a join for each `relationships` test whose target column is unique. `drafts` are by relation."""
    for reference in references:
        target = drafts.get(reference.to)
        field = target.find(reference.field) if target is not None else None
        if target is None or field is None:
            report.dropped(reference.what, f"`{reference.to}` was not imported", reference.place)
        elif not _is_unique(target, field):
            report.dropped(reference.what, f"`{field}` is not known to be unique in `{target.name}`", reference.place)
        elif any(join["to"] == target.name for join in reference.draft.joins):
            report.kept(reference.what, reference.place, f"{reference.draft.name} -> {target.name}")
        else:
            on = on_text([(reference.column, field)], target.name)
            reference.draft.joins.append({"to": target.name, "on": on, "relationship": "many_to_one"})
            report.kept(reference.what, reference.place, f"{reference.draft.name} -> {target.name}")


def _is_unique(draft: SourceDraft, field: str) -> bool:
    column = draft.columns.get(field)
    tested = column is not None and "unique" in column.extra.get("tests", {}).get("dbt", ())
    known = draft.base is not None and draft.base.keyed and draft.base.grain == (field,)
    return tested or known or draft.grain == (field,)


def _test(test: Any) -> tuple[str, Any]:
    if isinstance(test, Mapping):
        name = test.get("test_name") or next(iter(test), "")
        below = test.get(name, test)
        arguments = below.get("arguments", below) if isinstance(below, Mapping) else below
        return str(name), arguments
    return str(test), None


def _values(arguments: Any) -> list[str]:
    values = arguments.get("values") if isinstance(arguments, Mapping) else None
    return [str(value) for value in values if isinstance(value, str | int | float)] if isinstance(values, list) else []


NO_ONE_TABLE: Final = "its table is in no scanned database, or in several"
"""The reason why a semantic model is dropped if only known tables are imported."""

_BRACES: Final = re.compile(r"^\{\{(.*)\}\}$", re.DOTALL)


Relation = tuple[str, ...]
"""The target of `model:` in a semantic model: `("ref", name)` or `("source", source, table)`."""


def import_dbt(
    files: Mapping[str, str],
    model: Model | None,
    *,
    tables: Mapping[Relation, str] | None = None,
    properties: bool = True,
) -> Imported:
    """Return the ktx files for the semantic models, metrics, models and columns of a dbt project.

    `files` maps paths to texts; only `.yml` and `.yaml` files are read. `model` is the semantic layer of the
    connection: sources of its manifest are changed, not repeated. `tables` maps the known relations to their tables;
    semantic models of other relations are dropped. If `properties` is false, properties of models and columns are
    neither imported nor reported. Invalid content is listed in the report and raises nothing.
    """
    report = Report()
    documents = dbt.read_documents(files, report, rest=properties)
    sources = Sources(model, report)
    configs = {name: item for item in documents.models if (name := item.text("name"))}
    semantics = _semantics(documents, configs, tables, sources, report)
    models = _Models(configs, semantics, sources, report)
    if properties:
        models.add(documents)
    for semantic in semantics:
        add_columns(semantic, dbt.Scope(semantic, documents.variables), report)
    add_joins(semantics, report)
    models.join()
    reach(sources.drafts.values())
    Metrics(semantics, documents.variables, report).run(documents.metrics)
    return imported(sources.drafts.values(), report, "dbt")


def _semantics(
    documents: dbt.Documents,
    configs: Mapping[str, Item],
    tables: Mapping[Relation, str] | None,
    sources: Sources,
    report: Report,
) -> list[dbt.Semantic]:
    """Return the semantic models with their sources."""
    read = [dbt.read_older(item, report) for item in documents.semantic_models]
    read += [dbt.read_newer(item, report) for item in documents.models]
    result: list[dbt.Semantic] = []
    for semantic in filter(None, read):
        table = _table(semantic.relation, configs)
        if table is not None and tables is not None:
            table = tables.get(relation_of(semantic.relation) or ())
            if table is None or not sources.knows(table):
                report.dropped(f"semantic model `{semantic.name}`", NO_ONE_TABLE, semantic.place)
                continue
        if table is None:
            why = f"its `model` is `{semantic.relation}` instead of ref('name') or source('schema', 'table')"
            report.dropped(f"semantic model `{semantic.name}`", why, semantic.place)
        elif any(each.name == semantic.name for each in result):
            why = "another semantic model has the same name"
            report.dropped(f"semantic model `{semantic.name}`", why, semantic.place)
        else:
            semantic.draft = sources.add(semantic.name, semantic.place, table=table)
            semantic.draft.description, semantic.draft.label = semantic.description, semantic.label
            report.kept(f"semantic model `{semantic.name}`", semantic.place, semantic.draft.name)
            result.append(semantic)
    return result


def relation_of(text: str) -> Relation | None:
    """Return the relation of `ref('name')` or `source('schema', 'table')`, with or without braces, or None."""
    inner = _BRACES.match(text.strip())
    try:
        call: dbt.Call = dbt.parse_call(inner[1] if inner else text)
    except UnresolvedError:
        return None
    words = [argument for argument in call.arguments if isinstance(argument, str) and argument]
    if call.name == "source" and len(words) == 2:
        return ("source", *words)
    return ("ref", words[-1]) if call.name == "ref" and words else None


def _table(text: str, configs: Mapping[str, Item]) -> str | None:
    """Return a relation's table, with the schema and alias from the dbt YAML."""
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
    """The dbt models and sources that were imported or are in the manifest, with their descriptions and tests."""

    def __init__(
        self, configs: Mapping[str, Item], semantics: list[dbt.Semantic], sources: Sources, report: Report
    ) -> None:
        self._configs, self._sources, self._report = configs, sources, report
        tables = {_table(semantic.relation, configs): semantic.draft for semantic in reversed(semantics)}
        self._drafts = {table: draft for table, draft in tables.items() if table is not None}
        self._references: list[Reference] = []

    def add(self, documents: dbt.Documents) -> None:
        """Add the entries of `models:` and `sources:`."""
        for item in documents.models:
            self._add(item, _table(f"ref({item.text('name')!r})", self._configs))
        for source in documents.sources:
            schema = source.text("schema") or source.text("name") or ""
            for item in source.items("tables"):
                name = item.text("identifier") or item.text("name") or ""
                self._add(item, ".".join(_quoted(part) for part in (schema, name) if part) or None)
            source.skip("name", "schema", "database", "description", "version")
            source.report_rest(self._report, f"source `{source.text('name')}`", {"config": "it configures dbt"})

    def join(self) -> None:
        """Add the joins that tests describe, after the joins on entities."""
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
            why = "it has no semantic model, and the manifest has no table with this name"
            self._report.dropped(f"model `{name or '?'}`", why, item.place)
