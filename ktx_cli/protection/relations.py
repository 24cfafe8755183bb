"""The relations that the last scan found in a database: which names are tables, and which are views (with SQL)."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, Recent, one_line
from ktx_cli.faces import exp
from ktx_cli.llm import ToolError
from ktx_cli.project import DATABASE_SOURCE, Layout, Tree
from ktx_cli.scan import MANIFEST, read_manifest, read_table, snapshot_path
from ktx_cli.semantic import Model, Source, lookup_of, same_table
from ktx_cli.warehouses import FunctionList, StatementRefusedError, TableKind, TableRef, dialect_named, runs_pipelines
from ktx_cli.warehouses import Table as StoredTable

if TYPE_CHECKING:
    from sqlglot.optimizer.scope import Scope


_MOST_KEPT: Final = 8


class Relations:
    """The relations of one connection, by name. `of_documents`: they are collections of documents and their arrays."""

    def __init__(self, tables: Iterable[StoredTable] = (), *, of_documents: bool = False) -> None:
        self.of_documents = of_documents
        self._named: dict[str, list[StoredTable]] = defaultdict(list)
        for table in tables:
            self._named[table.ref.name.casefold()].append(table)

    def find(self, parts: tuple[str, ...]) -> list[StoredTable]:
        """Return the relations that a name may refer to; a name without a schema matches those of every schema."""
        named = self._named.get(parts[-1].casefold(), []) if parts else []
        return [each for each in named if same_table(parts_of_ref(each.ref), parts)]


_KEPT: Final[Recent[Relations]] = Recent(_MOST_KEPT)


def read_relations(tree: Tree, connection: str) -> Relations:
    """Return the relations in a connection's snapshot in a tree; missing or damaged ones are unknown."""
    folder = Layout.raw_path(connection, DATABASE_SOURCE)
    listing = tree.read(snapshot_path(connection))
    if listing is None:
        return Relations()
    paths = tuple(tree.paths(f"{folder}/"))
    return _KEPT.get((connection, listing, paths), lambda: _relations(tree, folder, listing))


def _relations(tree: Tree, folder: str, listing: bytes) -> Relations:
    try:
        driver, hashes = read_manifest(listing, f"{folder}/{MANIFEST}")
    except KtxError:  # an unreadable list contains no tables; the next scan rewrites it and reports that
        return Relations()
    return Relations(_tables(tree, folder, hashes), of_documents=runs_pipelines(driver))


def _tables(tree: Tree, folder: str, hashes: Mapping[str, str]) -> Iterable[StoredTable]:
    """Yield the tables whose files are unchanged since the scan wrote them."""
    for path, sha256 in hashes.items():
        content = tree.read(f"{folder}/{path}")
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            continue
        try:
            yield read_table(content, path)
        except KtxError:  # written by a version that knows more kinds of tables
            continue


def parts_of_ref(ref: TableRef) -> tuple[str, ...]:
    """Return the parts of a relation's name, outermost first."""
    return (ref.name,) if ref.schema is None else (ref.schema, ref.name)


class Refused(ToolError):
    """A call that had no effect; the message explains to the model why, and what to do instead."""


_TABLE: Final = "table:"


@dataclass(frozen=True, slots=True)
class Need:
    """A name that a writer used: `shown` is its display form, and any one of the ledger entries `ids` suffices.

    `tool`: the call that would look up the name.
    """

    shown: str
    ids: frozenset[str]
    tool: str


def source_id(connection: str, source: str) -> str:
    """Return the entry for a source."""
    return f"{connection}/{source.casefold()}"


def table_ids(model: Model, parts: tuple[str, ...], member: str | None = None) -> frozenset[str]:
    """Return the entries for a table by its database name, or for one of its columns; any one of them suffices.

    The entries are those of the sources that read the table, its own, and, for a name without a schema, those of any
    schema.
    """
    names = {".".join(parts), parts[-1], f"*.{parts[-1]}" if len(parts) == 1 else parts[-1]}
    return _table_entries(model, parts, names, member)


def _table_entries(model: Model, parts: tuple[str, ...], names: set[str], member: str | None) -> frozenset[str]:
    ending = "" if member is None else f".{member.casefold()}"
    found = {f"{source_id(model.connection, each.name)}{ending}" for each in sources_of(model, parts)}
    return frozenset(found | {f"{model.connection}/{_TABLE}{name.casefold()}{ending}" for name in names})


def sources_of(model: Model, parts: tuple[str, ...]) -> list[Source]:
    """Return the sources that read a table; a name without a schema matches those of every schema."""
    found = lookup_of(model).of_table(parts[-1]) if parts else model.sources.values()
    return [source for source in found if source.table is not None and same_table(source.table, parts)]


Table = tuple[str, ...]
"""The parts of a table's name, outermost first."""

_TAGS = re.compile(r"\{%.*?%\}|\{#.*?#\}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Named:
    """The tables and columns that a statement names.

    `columns`: (the possible tables, the column). `stars`: tables read with all columns.
    """

    tables: frozenset[Table] = frozenset()
    columns: frozenset[tuple[frozenset[Table], str]] = frozenset()
    stars: frozenset[Table] = frozenset()


def names_in(sql: str, dialect: str, *, tags: bool = False) -> Named | None:
    """Return what a statement names, or None for text that is not valid SQL in the dialect.

    `tags`: the text may contain Metabase's `{% … %}`. Statements sent to a database contain none, and text between a
    `{%` and a `%}` in their comments is read like everything else.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    from ktx_cli.semantic import TEMPLATE
    from ktx_cli.warehouses import silence_parser

    silence_parser()
    text = TEMPLATE.sub("NULL", _TAGS.sub("", sql) if tags else sql)
    try:
        trees = [tree for tree in sqlglot.parse(text, read=dialect or None) if tree is not None]
        scopes = [scope for tree in trees for scope in traverse_scope(tree)]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return None
    return _named(trees, scopes) if trees else None


def _named(trees: Iterable[Any], scopes: Iterable[Scope]) -> Named:
    scopes = list(scopes)
    queries = {cte.alias.casefold() for tree in trees for cte in tree.find_all(exp.CTE)}
    tables = frozenset(
        parts
        for tree in trees
        for table in tree.find_all(exp.Table)
        if (parts := parts_of(table)) and not (len(parts) == 1 and parts[0].casefold() in queries)
    )
    # Outside of the query that defines it, the name of a query is that of a table.
    tables |= {found for scope in scopes for source in scope.sources.values() if (found := _table(source))}
    columns = frozenset(found for scope in scopes for found in _columns(scope))
    stars = frozenset(table for scope in scopes for table in _stars(scope))
    return Named(tables, columns, stars)


def _columns(scope: Scope) -> Iterator[tuple[frozenset[Table], str]]:
    """Yield the table columns that a query names, without columns of its subqueries and aliases."""
    selected = _selected(scope)
    for column in scope.columns:
        name = column.name
        if not name or name == "*":
            continue
        if column.table:
            table = _table(_sources(scope).get(column.table))
            if table is not None:
                yield frozenset([table]), name
        elif not _is_alias(column, selected):
            own = list(scope.sources.values())
            tables = frozenset(filter(None, map(_table, own)))
            if tables and len(tables) == len({id(each) for each in own}):
                yield tables, name


def _is_alias(column: Any, selected: list[Any]) -> bool:
    """Return whether a bare name may refer to an expression: one selected before, or any in ORDER BY."""
    behind = column.find_ancestor(exp.Order, exp.Group, exp.Having, exp.Qualify, exp.Select)
    before = selected
    if isinstance(behind, exp.Select):
        ancestors = {id(column)}
        node = column
        while node.parent is not None and node is not behind:
            node = node.parent
            ancestors.add(id(node))
        place = next((index for index, each in enumerate(selected) if id(each) in ancestors), None)
        before = [] if place is None else selected[:place]
    return any(each.alias and each.alias.casefold() == column.name.casefold() for each in before)


def _stars(scope: Scope) -> Iterator[Table]:
    for each in _selected(scope):
        if isinstance(each, exp.Star):
            yield from filter(None, map(_table, scope.sources.values()))
        elif isinstance(each, exp.Column) and isinstance(each.this, exp.Star):
            table = _table(_sources(scope).get(each.table))
            if table is not None:
                yield table


def _selected(scope: Scope) -> list[Any]:
    return list(getattr(scope.expression, "selects", ()) or ())


def _sources(scope: Scope) -> dict[str, Any]:
    """Return the tables that a query may name: its own, then those of the enclosing queries."""
    found: dict[str, Any] = {}
    here: Scope | None = scope
    while here is not None:
        found = {**dict(here.sources), **found}
        here = here.parent
    return found


def _table(source: Any) -> Table | None:
    return parts_of(source) or None if isinstance(source, exp.Table) else None


def parts_of(table: Any) -> Table:
    """Return the parts of a table's name in a tree; none for a function that returns rows."""
    if not isinstance(table.this, exp.Identifier):
        return ()
    return tuple(part.name for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part)


def needs_of(named: Named, model: Model) -> list[Need]:
    """Return the lookups that a statement requires: its tables, and the columns of those that it names."""
    result = [table_need(model, table) for table in named.tables]
    for tables, column in named.columns:
        having = [table for table in tables if _has(model, table, column)] or sorted(tables)
        ids = frozenset(id for table in having for id in table_ids(model, table, column))
        result.append(Need(f"{_shown(having[0])}.{column}", ids, _call(model, having[0])))
    return result


def table_need(model: Model, table: Table) -> Need:
    """Return the lookup required for a table, by its name in the database."""
    return Need(_shown(table), table_ids(model, table), _call(model, table))


def column_need(model: Model, table: Table, column: str) -> Need:
    """Return the lookup required for a table's column, by its name in the database."""
    return Need(f"{_shown(table)}.{column}", table_ids(model, table, column), _call(model, table))


def _has(model: Model, table: Table, column: str) -> bool:
    return any(source.column(column) is not None for source in sources_of(model, table))


def _call(model: Model, table: Table) -> str:
    known = bool(sources_of(model, table))
    return "entity_details" if known else "sql_execution with a statement that reads it, or discover_data for its name"


def _shown(table: Table) -> str:
    return ".".join(table)


Parse = Callable[[str], list[Any] | None]
"""Returns the trees of SQL text, or None if it cannot be parsed."""

Judge = Callable[[list[Any], str], None]
"""Checks the trees of a view's query, with the view's name for errors; raises `Refused` if it reads hidden data."""

_CATALOG: Final = frozenset(
    {"columns", "key_column_usage", "referential_constraints", "schemata", "table_constraints", "tables", "views"}
)
"""Tables in `information_schema` that only contain structure."""
_KINDS: Final = {
    TableKind.VIEW: "view",
    TableKind.MATERIALIZED_VIEW: "materialized view",
    TableKind.FOREIGN: "table that is stored elsewhere",
}
_SQLITE: Final = frozenset({"sqlite_master", "sqlite_schema"})


class Views:
    """The relations behind the tables in a statement."""

    def __init__(self, relations: Relations, dialect: str, parse: Parse, judge: Judge) -> None:
        self._relations, self._dialect = relations, dialect
        self._parse, self._judge = parse, judge
        self._seen: set[TableRef] = set()

    def check(self, trees: Iterable[Any]) -> None:
        """Refuse trees that read hidden or undeterminable data through views."""
        for tree in trees:
            for node in tree.find_all(exp.Table):
                parts = parts_of(node)
                found = self._relations.find(parts)
                if parts and not found and not _is_structure(parts) and not is_query_name(node):
                    raise Refused(
                        f"the last scan did not find `{_called(parts)}`, so it may be a view of data that is "
                        "hidden in this connection: read tables that the scan found"
                    )
                for relation in found:
                    self._follow(relation)

    def follow(self, parts: tuple[str, ...]) -> None:
        """Refuse a table that reads hidden or undeterminable data through views."""
        for relation in self._relations.find(parts):
            self._follow(relation)

    def _follow(self, relation: StoredTable) -> None:
        if relation.kind is TableKind.TABLE or relation.ref in self._seen:
            return
        self._seen.add(relation.ref)
        shown = _called(parts_of_ref(relation.ref))
        query = self._query(relation)
        if query is None:
            raise Refused(
                f"`{shown}` is a {_KINDS[relation.kind]} with unknown content, which may be hidden in this "
                "connection; read the underlying tables"
            )
        self._require_known_functions(query, shown)
        self._judge([query], shown)
        self.check([query])

    def _query(self, relation: StoredTable) -> Any:
        """Return the tree of a view's query, or None if it cannot be determined."""
        trees = self._parse(relation.view_sql) if relation.view_sql else None
        if trees is None or len(trees) != 1:
            return None
        tree = trees[0].expression if isinstance(trees[0], exp.Create) else trees[0]
        return tree if isinstance(tree, exp.Query) else None

    def _require_known_functions(self, query: Any, shown: str) -> None:
        """Refuse a view that calls a function that may itself read tables."""
        if not dialect_named(self._dialect).functions():
            raise Refused(f"`{shown}` is a view that calls unknown functions; read the underlying tables")
        known = FunctionList(self._dialect)
        operator = query.find(exp.Operator)
        called = None if operator is None else operator.args["operator"]
        for function in query.find_all(exp.Func) if operator is None else ():
            try:
                known.require(function)
            except StatementRefusedError:
                called = known.name_of(function)
                break
        if called is not None:
            raise Refused(
                f"`{shown}` is a view that calls `{one_line(str(called), 60)}`, which may read hidden data of "
                "this connection; read the underlying tables"
            )


def is_query_name(table: Any) -> bool:
    """Return whether a table name in a tree refers, in every database, to a query in an enclosing WITH.

    It does not if the WITH only defines the name later, nor in that query itself, where the name is a table's, except
    in the second part of a recursive one.
    """
    if table.args.get("db") or table.args.get("catalog"):
        return False
    inner, here = table, table.parent
    clause: Any = None
    while here is not None:
        named = here.args.get("with_")
        if named is not None and _names(named, table, inner if inner is named else None, clause):
            return True
        inner, clause, here = here, inner, here.parent
    return False


def _names(named: Any, table: Any, within: Any, clause: Any) -> bool:
    """Return whether a WITH gives a table's name to a query; `within`: the WITH if the table is in it,
    in its `clause`.
    """
    for query in named.expressions:
        own = query is clause and within is not None
        if _same(query, table):
            return not own or (bool(named.args.get("recursive")) and _in_second_part(query, table))
        if own:
            return False
    return False


def _same(query: Any, table: Any) -> bool:
    """Return whether a query has the same name as a table, in letters and quotes, so that no database distinguishes
    them.
    """
    alias = query.args.get("alias")
    name = alias.this if alias is not None else None
    rows = isinstance(query.this, exp.Query) and not query.args.get("scalar")  # ClickHouse's may be a single value
    return (
        rows
        and name is not None
        and (name.name, bool(name.args.get("quoted"))) == (table.name, bool(table.this.args.get("quoted")))
    )


def _in_second_part(query: Any, table: Any) -> bool:
    union = query.this
    second = union.expression if isinstance(union, exp.Union) else None
    return second is not None and any(node is table for node in second.find_all(exp.Table))


def _is_structure(parts: tuple[str, ...]) -> bool:
    outer, name = (parts[-2].casefold() if len(parts) > 1 else ""), parts[-1].casefold()
    return (outer == "information_schema" and name in _CATALOG) or (outer in ("", "main") and name in _SQLITE)


def _called(parts: tuple[str, ...]) -> str:
    return one_line(".".join(parts), 120)
