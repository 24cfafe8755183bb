"""Keeps statements from what people hid by way of the database's own views: each is read as far as it leads.

What a view reads is what its definition says at the last scan. A name the scan did not see, a view whose definition
cannot be read, and a table that is kept elsewhere may lead anywhere, and are refused where something is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ktx_cli.core import one_line
from ktx_cli.faces import exp
from ktx_cli.protection.relations import Refused, Relations, parts_of, parts_of_ref
from ktx_cli.warehouses import FunctionList, StatementRefusedError, Table, TableKind, TableRef, dialect_named

Parse = Callable[[str], list[Any] | None]
"""Returns the trees of a text of SQL, None where it cannot be read."""

Judge = Callable[[list[Any], str], None]
"""Takes the trees of a view's query and what errors call the view; `Refused` where it reads what is hidden itself."""

_CATALOG: Final = frozenset(
    {"columns", "key_column_usage", "referential_constraints", "schemata", "table_constraints", "tables", "views"}
)
"""Tables of `information_schema` that tell of structure alone."""
_KINDS: Final = {
    TableKind.VIEW: "view",
    TableKind.MATERIALIZED_VIEW: "materialized view",
    TableKind.FOREIGN: "table that is kept elsewhere",
}
_SQLITE: Final = frozenset({"sqlite_master", "sqlite_schema"})


class Views:
    """What the tables a statement names lead to."""

    def __init__(self, relations: Relations, dialect: str, parse: Parse, judge: Judge) -> None:
        self._relations, self._dialect = relations, dialect
        self._parse, self._judge = parse, judge
        self._seen: set[TableRef] = set()

    def check(self, trees: Iterable[Any]) -> None:
        """Refuse trees that read, through views, what is hidden or what nobody can tell."""
        for tree in trees:
            for node in tree.find_all(exp.Table):
                parts = parts_of(node)
                found = self._relations.find(parts)
                if parts and not found and not _is_structure(parts) and not is_query_name(node):
                    raise Refused(
                        f"`{_shown(parts)}` is not in the last scan, so that nobody can tell whether it is a view of "
                        "what is hidden in this connection: read tables that are"
                    )
                for relation in found:
                    self._follow(relation)

    def follow(self, parts: tuple[str, ...]) -> None:
        """Refuse a table that reads, through views, what is hidden or what nobody can tell."""
        for relation in self._relations.find(parts):
            self._follow(relation)

    def _follow(self, relation: Table) -> None:
        if relation.kind is TableKind.TABLE or relation.ref in self._seen:
            return
        self._seen.add(relation.ref)
        shown = _shown(parts_of_ref(relation.ref))
        query = self._query(relation)
        if query is None:
            raise Refused(
                f"`{shown}` is a {_KINDS[relation.kind]}, and what it reads is not known here: it may "
                "be something that is hidden in this connection; read the tables behind it"
            )
        self._require_known_functions(query, shown)
        self._judge([query], shown)
        self.check([query])

    def _query(self, relation: Table) -> Any:
        """Return the tree of the query behind a view, None where it cannot be told."""
        trees = self._parse(relation.view_sql) if relation.view_sql else None
        if trees is None or len(trees) != 1:
            return None
        tree = trees[0].expression if isinstance(trees[0], exp.Create) else trees[0]
        return tree if isinstance(tree, exp.Query) else None

    def _require_known_functions(self, query: Any, shown: str) -> None:
        """Refuse a view that calls a function which may read tables itself."""
        if not dialect_named(self._dialect).functions():
            raise Refused(f"`{shown}` is a view, and what it calls is not known here; read the tables behind it")
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
                f"`{shown}` is a view that calls `{one_line(str(called), 60)}`, which may read what is hidden in this "
                "connection; read the tables behind it"
            )


def is_query_name(table: Any) -> bool:
    """Whether a table in a tree is the name of a query in a WITH around it, and nothing else in any database.

    Not where the WITH gives the name only later, nor in that query itself: there it is a table's, but in the second
    part of a recursive one.
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
    """Whether a WITH gives a table's name to a query; `within`: the WITH if the table is in it, in its `clause`."""
    for query in named.expressions:
        own = query is clause and within is not None
        if _same(query, table):
            return not own or (bool(named.args.get("recursive")) and _in_second_part(query, table))
        if own:
            return False
    return False


def _same(query: Any, table: Any) -> bool:
    """Whether a query is named as a table is, in the same letters and quotes, so that no database tells them apart."""
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


def _shown(parts: tuple[str, ...]) -> str:
    return one_line(".".join(parts), 120)
