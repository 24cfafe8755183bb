"""A dbt project's SQL models: their rules, and the compiled SQL if it is current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ktx_cli.semantic import Model, Relation
from ktx_cli.sources.dbt.project import Node, OlderVersion, Project
from ktx_cli.sources.dbt.sql import ModelFacts, read_facts
from ktx_cli.sources.dbt.templates import Rendered, Texts, rendered
from ktx_cli.sources.table_texts import LayerTable

PASSED_ON: Final = ("ephemeral", "view", "")
"""Materializations that do not keep their own rows: rows that they filter are missing from all dependent models."""

EPHEMERAL_CTE: Final = "__dbt__cte__"
"""The names that dbt gives to the CTEs of ephemeral models."""


@dataclass(frozen=True, slots=True)
class SqlModel:
    """A model with its parsed SQL.

    `connection`: the connection of the tables that it reads, empty if none of them was scanned. `rendered`: the SQL
    that `facts` come from.
    """

    node: Node
    path: str
    connection: str
    dialect: str
    rendered: Rendered
    facts: ModelFacts
    table: LayerTable | None = None


def read_models(
    project: Project, tables: Mapping[Relation, LayerTable], models: Mapping[str, Model]
) -> dict[Relation, SqlModel]:
    """Return the models that have SQL, each after the models that it reads. Unreadable models contain the reason.

    `tables`: relation -> its table. `models`: the semantic layers of the databases.
    """
    reader = _Reader(project.texts, tables, models)
    nodes = {node.relation: node for node in project.nodes if node.query is not None}
    for node in _in_order(nodes):
        reader.read(node)
    return reader.found


def _in_order(nodes: Mapping[Relation, Node]) -> Iterator[Node]:
    """Yield each node after the nodes that it refers to. In a cycle, which dbt rejects, keep the original order."""
    done: set[Relation] = set()
    for start in nodes:
        stack = [(start, False)]
        while stack:
            relation, is_ready = stack.pop()
            if is_ready:
                yield nodes[relation]
            elif relation not in done and relation in nodes:
                done.add(relation)
                stack.append((relation, True))
                stack += [(each, False) for each in reversed(references_of(nodes[relation]))]


def references_of(node: Node | OlderVersion) -> list[Relation]:
    """Return the models and sources that the SQL file of a node or a version refers to."""
    query = node.query
    return [] if query is None else [*query.rendered.references.values(), *query.rendered.mentioned]


class _Reader:
    def __init__(self, texts: Texts, tables: Mapping[Relation, LayerTable], models: Mapping[str, Model]) -> None:
        self._texts, self._tables, self._models = texts, tables, models
        self._columns: dict[Relation, tuple[str, ...]] = {
            relation: tuple(each.name for each in table.source.columns.values() if each.expr is None)
            for relation, table in tables.items()
        }
        self.found: dict[Relation, SqlModel] = {}

    def read(self, node: Node) -> None:
        """Read a node's SQL."""
        query, table = node.query, self._tables.get(node.relation)
        assert query is not None
        connection = self._connection(node)
        dialect = self._models[connection].dialect if connection in self._models else self._dialect()
        text = rendered(query.text, self._texts, dialect)
        if not text.is_resolved and (compiled := self._compiled(node, text, dialect)) is not None:
            text = compiled
        own = "" if table is None or table.source.table is None else table.source.table[-1].casefold()
        facts = read_facts(node.shown, query.path, text, dialect, self._columns, own)
        if node.relation not in self._columns and facts.has_all_columns:
            self._columns[node.relation] = tuple(each.name for each in facts.columns)
        self.found[node.relation] = SqlModel(node, query.path, connection, dialect, text, facts, table)

    def _connection(self, node: Node) -> str:
        """Return the connection of the model's table, or else of most of the relations that the model reads."""
        if node.relation in self._tables:
            return self._tables[node.relation].connection
        counts: Counter[str] = Counter()
        for relation in references_of(node):
            if relation in self._tables:
                counts[self._tables[relation].connection] += 1
            elif relation in self.found and self.found[relation].connection:
                counts[self.found[relation].connection] += 1
        return min(counts, key=lambda each: (-counts[each], each)) if counts else ""

    def _dialect(self) -> str:
        dialects = {model.dialect for model in self._models.values()}
        return dialects.pop() if len(dialects) == 1 else ""

    def _compiled(self, node: Node, text: Rendered, dialect: str) -> Rendered | None:
        """Return the compiled SQL of the current file, or None if it is unknown.

        Its line numbers differ from the file's. Conditions that dbt adds in incremental runs name the model's own
        table.
        """
        code = node.known.compiled_of(node.query.text) if node.known and node.query else ""
        if not code or node.known is None:
            return None
        named = _with_references(code, node.known.reads, self._tables, dialect)
        if named is None:
            return None
        sql, references = named
        return replace(
            text, sql=sql, references=references, open={}, omitted=(), mentioned=(), is_compiled=True, problem=""
        )  # fmt: skip


def _with_references(
    code: str, reads: Iterable[Relation], tables: Mapping[Relation, LayerTable], dialect: str
) -> tuple[str, dict[str, Relation]] | None:
    """Return compiled SQL with placeholders for its models and sources, or None if it cannot be read."""
    from ktx_cli.faces import exp
    from ktx_cli.sources.dbt.sql import parse_query

    try:
        tree = parse_query(code, dialect)
        references: dict[str, Relation] = {}
        by_name = {relation[-1].casefold(): relation for relation in reads}
        by_name |= {
            each.source.table[-1].casefold(): relation
            for relation in reads
            if (each := tables.get(relation)) is not None and each.source.table
        }
        for cte in list(tree.find_all(exp.CTE)):
            if cte.alias.startswith(EPHEMERAL_CTE):
                by_name[cte.alias.casefold()] = ("ref", cte.alias.removeprefix(EPHEMERAL_CTE))
                cte.pop()
        clause = tree.args.get("with_") or tree.args.get("with")
        if clause is not None and not clause.expressions:
            clause.pop()
        ctes = {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}
        for table in list(tree.find_all(exp.Table)):
            found = by_name.get(table.name.casefold())
            if found is None or (table.name.casefold() in ctes and not table.db):
                continue
            placeholder = f"ktx_part_{list(by_name.values()).index(found)}_"
            references[placeholder] = found
            alias = table.alias or table.name
            table.replace(exp.alias_(exp.to_table(placeholder), alias, table=True))
        return tree.sql(dialect=dialect or None), references
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError):
        return None
