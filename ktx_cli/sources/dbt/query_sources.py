"""Models that dbt does not materialize (ephemeral or disabled), as semantic-layer sources with `sql`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.core import KtxError, ResultWarning, file_stem, one_line, yaml
from ktx_cli.faces import exp
from ktx_cli.project import Layout, Workspace
from ktx_cli.protection import check_protected, read_relations, sources_of
from ktx_cli.semantic import Model, Place, Relation, Report, UnresolvedError, check_model, load_tree
from ktx_cli.sources.dbt.facts import TOOL, unique_columns
from ktx_cli.sources.dbt.models import EPHEMERAL_CTE, PASSED_ON, SqlModel
from ktx_cli.sources.dbt.project import Node, Project
from ktx_cli.sources.dbt.sql import parse_query
from ktx_cli.sources.port import ProjectContext
from ktx_cli.sources.table_texts import LayerTable, Wanted, leave_broken, model_without_ours, want_files
from ktx_cli.warehouses import PARSER_FAULTS, SemanticType, StatementPolicy

_MOST_INLINED: Final = 30
_MOST_COLUMNS: Final = 500
_TYPES: Final = {
    SemanticType.NUMBER: "DOUBLE", SemanticType.TIME: "TIMESTAMP", SemanticType.BOOLEAN: "BOOLEAN",
    SemanticType.STRING: "VARCHAR",
}  # fmt: skip


class _Unfit(Exception):
    """The reason why a model cannot become a source."""


def want_sources(
    project: Project,
    models: Mapping[Relation, SqlModel],
    tables: Mapping[Relation, LayerTable],
    context: ProjectContext,
    wanted: Wanted,
    report: Report,
) -> list[ResultWarning]:
    """Add a source for each model that is not materialized and whose SQL compiles; report why others are skipped.

    Returns the warnings about connections whose files cannot be read, which get no sources.
    """
    by_connection: defaultdict[str, list[SqlModel]] = defaultdict(list)
    for model in models.values():
        if is_candidate(model.node):
            by_connection[model.connection].append(model)
    warnings: list[ResultWarning] = []
    for connection, several in sorted(by_connection.items()):
        if connection not in context.models:
            for model in several:
                _dropped(model, "none of the tables that it reads has been scanned", report)
            continue
        broken = leave_broken(context, connection, wanted)
        if broken is not None:
            warnings.append(broken)
            for model in several:
                _dropped(model, broken.message, report)
            continue
        _want(connection, several, _Compiler(connection, project, models, tables, context), context, wanted, report)
    return warnings


def is_candidate(node: Node) -> bool:
    """Return whether a node has no table because of its materialization but has SQL that defines its rows."""
    return node.virtual is not None and node.query is not None and node.materialized in PASSED_ON


def _dropped(model: SqlModel, why: str, report: Report) -> None:
    node = model.node
    report.dropped(f"{node.kind} `{node.shown}`", node.virtual or "", node.item.place)
    report.dropped(f"SQL of `{node.shown}`", one_line(why, 300), Place(model.path))


def _want(
    connection: str,
    several: list[SqlModel],
    compiler: _Compiler,
    context: ProjectContext,
    wanted: Wanted,
    report: Report,
) -> None:
    documents: dict[str, dict[str, Any]] = {}
    for model in several:
        try:
            documents[model.path] = compiler.document(model)
        except _Unfit as error:
            _dropped(model, str(error), report)
    wrong = _errors(connection, documents, compiler.layer, context)
    files: dict[str, str] = {}
    made = Report()
    for model in several:
        document = documents.get(model.path)
        if document is None:
            continue
        name = document["name"]
        if name in wrong:
            _dropped(model, wrong[name], report)
            continue
        files[f"{file_stem(name)}.yaml"] = yaml.dump(document)
        made.kept(f"SQL of `{name}`", Place(model.path), name)
        report.kept(f"SQL of `{name}`", Place(model.path), f"{connection}/{name}")
        report.kept(f"{model.node.kind} `{name}`", model.node.item.place, f"{connection}/{name}")
    want_files(files, made.items, connection, context.workspace, TOOL, wanted)


def _errors(
    connection: str, documents: Mapping[str, Mapping[str, Any]], layer: Model, context: ProjectContext
) -> dict[str, str]:
    """Return source -> the first error that its definition would cause in the semantic layer."""
    if not documents:
        return {}
    trial, folder = Workspace(context.workspace), Layout.context_paths(connection)[0]
    for document in documents.values():
        trial.write(f"{folder}/{file_stem(document['name'])}.yaml", yaml.dump(dict(document)).encode())
    names = {document["name"] for document in documents.values()}
    after = load_tree(trial, connection, layer.dialect, layer.calendar)
    own = replace(after, sources={name: after.sources[name] for name in sorted(names) if name in after.sources})
    found = dict.fromkeys(names - own.sources.keys(), "the semantic layer cannot use it")
    for each in (*after.problems, *check_model(own)):
        if each.severity == "error" and each.location.object in names:
            found.setdefault(str(each.location.object), each.message)
    return found


@dataclass(slots=True)
class _Compiler:
    """Compiles a connection's models to queries on scanned tables."""

    connection: str
    project: Project
    models: Mapping[Relation, SqlModel]
    tables: Mapping[Relation, LayerTable]
    context: ProjectContext
    layer: Model = field(init=False)

    def __post_init__(self) -> None:
        self.layer = model_without_ours(self.context, self.connection)

    def document(self, model: SqlModel) -> dict[str, Any]:
        """Return the source definition for a model. Raises `_Unfit` if no definition is possible."""
        name = model.node.shown
        alike = next((each for each in self.layer.sources if each.casefold() == name.casefold()), None)
        if alike is not None:
            raise _Unfit(f"`{alike}` is already a source of `{self.connection}`")
        self._require_readable(model)
        tree, used = self._tree(model, typed=False)
        sql = tree.sql(dialect=model.dialect or None, pretty=True)
        self._require_open(sql, used)
        columns = self._columns(model)
        grain = self._grain(model, {each["name"] for each in columns}) or self._inherited(model, (model.node.relation,))
        return {
            "name": name,
            "sql": sql,
            **({"descriptions": {TOOL: text}} if (text := self._text(model.node.item.text("description"))) else {}),
            **({"grain": grain} if grain else {}),
            "columns": columns,
        }

    @staticmethod
    def _require_readable(model: SqlModel) -> None:
        facts = model.facts
        if facts.problem is not None:
            raise _Unfit(facts.problem)
        if not model.rendered.is_resolved:
            raise _Unfit(f"only dbt can resolve {', '.join(f'`{each}`' for each in facts.unresolved[:3])}")
        if not facts.has_all_columns or not 0 < len(facts.columns) <= _MOST_COLUMNS:
            raise _Unfit("its columns are unknown")

    def _tree(self, model: SqlModel, *, typed: bool) -> tuple[Any, dict[Relation, LayerTable]]:
        """Return the query on tables, with CTEs for models without a table, and the tables.

        `typed`: give each table a plain name under which `_schema` has its columns.
        """
        used: dict[Relation, LayerTable] = {}
        inlined: dict[Relation, Any] = {}
        try:
            tree = self._expanded(model, used, inlined, (model.node.relation,), typed)
        except (RecursionError, *PARSER_FAULTS):
            raise _Unfit(f"it cannot be parsed as {model.dialect}") from None
        if inlined:
            clause = tree.args.get("with_")
            first = [_cte(relation, query) for relation, query in inlined.items()]
            rest = [] if clause is None else clause.expressions
            is_recursive = bool(clause is not None and clause.args.get("recursive"))
            tree.set("with_", exp.With(expressions=[*first, *rest], recursive=is_recursive))
        return tree, used

    def _expanded(
        self,
        model: SqlModel,
        used: dict[Relation, LayerTable],
        inlined: dict[Relation, Any],
        trail: tuple[Relation, ...],
        typed: bool,
    ) -> Any:
        tree = parse_query(model.rendered.sql, model.dialect)
        names = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
        for node in list(tree.find_all(exp.Table)):
            relation = model.rendered.references.get(node.name)
            if relation is None:
                if node.name.casefold() not in names or node.db:
                    raise _Unfit(f"it reads `{node.name}` without `ref` or `source`")
                continue
            table = self.tables.get(relation)
            if table is not None:
                used[relation] = self._of_connection(table, names)
                parts = (_typed_name(relation),) if typed else table.source.table or ()
                new = exp.Table(**dict(zip(("this", "db", "catalog"), map(_identifier, reversed(parts)), strict=False)))
                alias = node.alias or (table.source.table or ("",))[-1]
            else:
                self._inline(relation, used, inlined, trail, typed)
                new, alias = exp.to_table(_cte_name(relation)), node.alias
            if alias and alias != new.name:
                new.set("alias", exp.TableAlias(this=_identifier(alias)))
            for key in ("joins", "pivots", "sample"):
                if node.args.get(key):
                    new.set(key, node.args[key])
            node.replace(new)
        return tree

    def _inline(
        self,
        relation: Relation,
        used: dict[Relation, LayerTable],
        inlined: dict[Relation, Any],
        trail: tuple[Relation, ...],
        typed: bool,
    ) -> None:
        """Add a model without a table to the CTEs, after the models that it reads."""
        shown, model = ".".join(relation[1:]), self.models.get(relation)
        if relation in inlined:
            return
        if model is None or model.node.virtual is None:
            raise _Unfit(f"`{shown}` has no scanned table")
        if relation in trail or len(inlined) >= _MOST_INLINED:
            raise _Unfit(f"`{shown}` depends on itself, or on too many models without tables")
        if not model.rendered.is_resolved or model.facts.problem is not None:
            raise _Unfit(f"the SQL of `{shown}`, which it reads, cannot be resolved")
        inlined[relation] = self._expanded(model, used, inlined, (*trail, relation), typed)
        inlined[relation] = inlined.pop(relation)

    def _of_connection(self, table: LayerTable, names: set[str]) -> LayerTable:
        if table.connection != self.connection:
            raise _Unfit(f"`{table.source.name}` is in another connection, `{table.connection}`")
        parts = table.source.table or ()
        if len(parts) == 1 and parts[0].casefold() in names:
            raise _Unfit(f"one of its CTEs has the same name as a table that it reads: `{parts[0]}`")
        return table

    def _require_open(self, sql: str, used: Mapping[Relation, LayerTable]) -> None:
        """Raise an error if anything that the query reads is protected, or if the guard would refuse the query."""
        for table in used.values():
            parts = table.source.table or ()
            for source in sources_of(self.layer, parts):
                if source.is_protected:
                    raise _Unfit(f"it reads `{source.name}`, which has policies or hidden columns")
        try:
            check_protected(self.layer, sql, read_relations(self.context.workspace, self.connection))
            StatementPolicy(self.connection).check(sql, self.layer.dialect, max_rows=1)
        except KtxError as error:
            raise _Unfit(error.problem) from None

    def _columns(self, model: SqlModel) -> list[dict[str, Any]]:
        """Return the columns with types derived from the tables, and descriptions from the dbt YAML."""
        types = self._types(model)
        texts = {item.text("name"): item.text("description") for item in model.node.item.items("columns")}
        found = []
        for index, column in enumerate(model.facts.columns):
            text = self._text(texts.get(column.name))
            entry: dict[str, Any] = {"name": column.name, **(types[index] if index < len(types) else {})}
            found.append(entry | ({"descriptions": {TOOL: text}} if text else {}))
        return found

    def _types(self, model: SqlModel) -> list[dict[str, str]]:
        """Return the type of each column. Raises `_Unfit` if the query names a column that does not exist."""
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.annotate_types import annotate_types
        from sqlglot.optimizer.qualify import qualify

        tree, used = self._tree(model, typed=True)
        schema: dict[str, object] = {_typed_name(relation): _schema(table) for relation, table in used.items()}
        try:
            tree = qualify(tree, schema=schema, dialect=model.dialect or None, quote_identifiers=False)
            tree = annotate_types(tree, schema=schema, dialect=model.dialect or None)
        except SqlglotError as error:
            raise _Unfit(f"its columns cannot be resolved: {one_line(str(error), 160)}") from None
        except (RecursionError, *PARSER_FAULTS):
            raise _Unfit("its columns cannot be resolved") from None
        selects = tree.selects
        if len(selects) != len(model.facts.columns):
            raise _Unfit("its columns are unknown")
        return [dict(_type_of(each)) for each in selects]

    @staticmethod
    def _grain(model: SqlModel, names: set[str]) -> list[str]:
        for columns in (*([each] for each in unique_columns(model.node.item)), [*model.facts.grain]):
            if columns and names.issuperset(columns):
                return list(columns)
        return []

    def _inherited(self, model: SqlModel, trail: tuple[Relation, ...]) -> list[str]:
        """Return the grain of a model that only selects rows and columns from one table or model."""

        def key_of(table: Any) -> list[str]:
            relation = model.rendered.references.get(table.name)
            known = None if relation is None else self.tables.get(relation)
            if known is not None:
                return list(known.source.grain) if known.source.keyed else []
            other = None if relation is None or relation in trail else self.models.get(relation)
            if other is None:
                return []
            names = {each.name for each in other.facts.columns}
            return self._grain(other, names) or self._inherited(other, (*trail, other.node.relation))

        try:
            found = _kept_key(parse_query(model.rendered.sql, model.dialect), {}, key_of)
        except (RecursionError, *PARSER_FAULTS):
            return []
        return found if {each.name for each in model.facts.columns}.issuperset(found) else []

    def _text(self, text: str | None) -> str:
        try:
            return self.project.texts.rendered(text) if text else ""
        except UnresolvedError:
            return ""


_MORE_ROWS: Final = ("joins", "laterals", "group", "pivots", "connect", "match")
"""Clauses that make the rows of a SELECT differ from the rows of the table that it reads."""


def _kept_key(query: Any, around: Mapping[str, tuple[Any, Any]], key_of: Callable[[Any], list[str]]) -> list[str]:
    """Return the key of a query's rows if it only filters rows and picks columns of one relation, else nothing.

    `around`: the CTEs that it may read, by name. `key_of`: returns the key of a table.
    """
    source = query.args.get("from_")
    table = None if source is None else source.this
    if not isinstance(query, exp.Select) or not isinstance(table, exp.Table):
        return []
    if any(query.args.get(clause) or table.args.get(clause) for clause in _MORE_ROWS):
        return []
    if any(each.args["alias"].columns for each in query.ctes) or table.alias_column_names:
        return []
    ctes = dict(around)
    for each in query.ctes:
        ctes[each.alias.casefold()] = (each.this, dict(ctes))
    read = None if table.db else ctes.get(table.name.casefold())
    key = key_of(table) if read is None else _kept_key(read[0], read[1], key_of)
    names: dict[str, str] = {}
    for each in query.expressions:
        column = each.this if isinstance(each, exp.Alias) else each
        if each.is_star:
            star = each if isinstance(each, exp.Star) else each.this
            if star.args.get("rename") or star.args.get("replace"):
                return []
            left_out = {one.name.casefold() for one in star.args.get("except_") or ()}
            names |= {one.casefold(): one for one in key if one.casefold() not in left_out}
        elif isinstance(column, exp.Column):
            names.setdefault(column.name.casefold(), each.alias_or_name)
        elif column.find(exp.UDTF, exp.GenerateSeries, exp.Anonymous):
            return []
    kept = [names.get(one.casefold(), "") for one in key]
    return kept if all(kept) else []


def _cte_name(relation: Relation) -> str:
    return EPHEMERAL_CTE + relation[-1]


def _cte(relation: Relation, query: Any) -> Any:
    return exp.CTE(this=query, alias=exp.TableAlias(this=exp.to_identifier(_cte_name(relation))))


def _typed_name(relation: Relation) -> str:
    return "_".join(("table", *relation)).lower().replace("-", "_")


def _identifier(name: str) -> Any:
    return exp.to_identifier(name)


def _schema(table: LayerTable) -> dict[str, str]:
    return {
        each.name: "DATE" if each.is_date else _TYPES[each.type]
        for each in table.source.columns.values()
        if each.expr is None
    }


def _type_of(projection: Any) -> Iterator[tuple[str, str]]:
    """Yield the manifest keys for a column's type, or nothing if the type is unknown."""
    kind = projection.type
    if kind is None:
        return
    for word, types in (
        ("number", exp.DataType.NUMERIC_TYPES), ("time", exp.DataType.TEMPORAL_TYPES),
        ("string", exp.DataType.TEXT_TYPES), ("boolean", {exp.DataType.Type.BOOLEAN}),
    ):  # fmt: skip
        if kind.this in types:
            yield "type", word
    if kind.this is exp.DataType.Type.DATE:
        yield "natural_granularity", "day"
