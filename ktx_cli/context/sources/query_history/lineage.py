"""Where the columns of a statement come from: through subqueries and WITH down to a table's own column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ktx_cli.context.sources.query_history.tables import NamedTable, Tables, table_parts

if TYPE_CHECKING:
    from sqlglot import exp

Origin = tuple[NamedTable, str]
"""A table and one of its columns."""

_MAX_STEPS = 50


class Lineage:
    """The scopes of a statement, and the tables its names stand for."""

    def __init__(self, scopes: list[Any], tables: dict[str, NamedTable]) -> None:
        self.scopes = scopes
        self._tables = tables

    @classmethod
    def of(cls, tree: exp.Expr, dialect: str, tables: Tables) -> Lineage:
        """Give every column its table, by the columns the semantic layer knows.

        Where a name fits nowhere, columns keep what the statement itself says of them.
        """
        from sqlglot.errors import SqlglotError
        from sqlglot.optimizer.scope import traverse_scope

        copy = tree.copy()
        keyed = _keyed(copy, tables)
        try:
            return cls(list(traverse_scope(_qualified(copy, dialect, keyed))), keyed)
        except SqlglotError:
            copy = tree.copy()
            keyed = _keyed(copy, tables)
            return cls(list(traverse_scope(copy)), keyed)

    def columns(self) -> Iterator[tuple[Any, Any]]:
        """Yield every column with the scope it stands in."""
        from sqlglot import exp

        for scope in self.scopes:
            for node in scope.find_all(exp.Column):
                yield node, scope

    def origin(self, column: Any, scope: Any) -> Origin | None:
        """Return the table's column a column is, None for one that is computed or not known."""
        from sqlglot import exp

        for _ in range(_MAX_STEPS):
            source = _source(scope, column.table)
            if isinstance(source, exp.Table):
                return self._own(source, column.name)
            if source is None:
                return None
            scope = source
            while isinstance(scope.expression, exp.SetOperation) and scope.union_scopes:
                scope = scope.union_scopes[0]
            selected = next((each for each in scope.expression.selects if each.alias_or_name == column.name), None)
            column = selected.unalias() if selected is not None else None
            if not isinstance(column, exp.Column):
                return None
        return None

    def _own(self, node: Any, name: str) -> Origin | None:
        table = self._tables.get(node.name)
        column = table.column(name) if table is not None else None
        return None if table is None or column is None else (table, column)


def _qualified(tree: exp.Expr, dialect: str, keyed: Mapping[str, NamedTable]) -> exp.Expr:
    from sqlglot.optimizer.qualify import qualify

    known = {key: dict.fromkeys(table.columns, "text") for key, table in keyed.items()}
    schema: dict[str, object] = {key: columns for key, columns in known.items() if columns}
    return qualify(
        tree,
        schema=schema,
        dialect=dialect,
        validate_qualify_columns=False,
        allow_partial_qualification=True,
        quote_identifiers=False,
        identify=False,
    )


def _source(scope: Any, name: str) -> Any:
    """Return what a name stands for here, or in a query around it; without a name the only thing here."""
    if not name:
        return next(iter(scope.sources.values())) if len(scope.sources) == 1 else None
    while scope is not None:
        if name in scope.sources:
            return scope.sources[name]
        scope = scope.parent
    return None


def _keyed(tree: exp.Expr, tables: Tables) -> dict[str, NamedTable]:
    """Give every table of a tree one plain name of its own, and return what each is.

    So the parser's schema needs no levels, and `Orders`, `orders` and `shop.orders` are one table.
    """
    from sqlglot import exp

    defined = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    keys: dict[NamedTable, str] = {}
    for node in list(tree.find_all(exp.Table)):
        if not isinstance(node.this, exp.Identifier) or (not node.db and node.name.lower() in defined):
            continue
        table = tables.find(table_parts(node))
        key = keys.setdefault(table, f"ktx_table_{len(keys)}")
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=node.this.args.get("quoted"))))
        node.set("this", exp.to_identifier(key))
        node.set("db", None)
        node.set("catalog", None)
    return {key: table for table, key in keys.items()}
