"""FIXED expressions as sources with one row for each combination of their dimensions, which their tables join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange import drafts
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.formula import Field, Lod
from ktx_cli.semantic.interchange.tableau.tables import TYPES, Node, Shared, Tables, column_of, keys_in, slug
from ktx_cli.semantic.interchange.tableau.translation import Scope, translated
from ktx_cli.semantic.interchange.tableau.values import AGGREGATE, ROW, Value, grouped
from ktx_cli.semantic.interchange.tableau.workbook import PARAMETERS, Column

JOINED: Final = "Tableau reads the joined rows; ktx reads each row of `{}` once"
"""The note on a FIXED expression over a table that a join repeats."""

OMITTED: Final = "it omits rows whose dimensions have no value; in Tableau they are a group"
"""The note on a FIXED expression with dimensions that can be NULL."""

DEEPEST: Final = 15
"""How many levels of calculated fields may use each other."""

TOO_DEEP: Final = f"calculated fields use each other in more than {DEEPEST} levels"
ORIGIN: Final = "tableau"
"""The key of `SourceDraft.extra` for the `_Origin` of a source, which is not part of its file."""


class Fields(Scope, Protocol):
    """The fields of a data source, and how the values of calculated ones are computed."""

    def value_of(self, column: Column, scope: Scope) -> Value:
        """Return the value of a calculated field, with the names in its formula read in a scope."""


@dataclass(slots=True)
class _Origin:
    """What the query of a source for FIXED expressions reads: its FROM, its dimensions in SQL, and its aggregates."""

    tables: str
    dimensions: dict[str, str]
    nullable: tuple[str, ...]
    aggregates: dict[str, str] = field(default_factory=dict)


class Levels:
    """Adds the sources for the FIXED expressions of a data source."""

    def __init__(self, tables: Tables, shared: Shared) -> None:
        self._tables, self._shared, self._dialect = tables, shared, shared.sources.dialect

    def fixed(self, node: Lod, fields: Fields, title: str) -> Value:
        """Return the value of a FIXED expression. Raises `UnresolvedError` if ktx cannot express it.

        `title` is its aggregate as people see it.
        """
        if not node.dimensions:
            raise UnresolvedError("its FIXED expression has no dimensions; for a share of a total, use `percent_of`")
        inside = _Inside(fields, self._tables)
        dimensions = [translated(each, inside) for each in node.dimensions]
        value = translated(node.value, inside)
        if value.level != AGGREGATE or any(each.level != ROW for each in dimensions):
            raise UnresolvedError("its FIXED expression is not an aggregate for columns")
        if not all(isinstance(each.sql, exp.Column) for each in dimensions):
            raise UnresolvedError("a dimension of its FIXED expression is computed; ktx joins on columns")
        owner, rows = self._owner(dimensions), self._rows(inside.owners)
        for each in inside.owners:
            _require_open(each)
        made = self._source(owner, rows, dimensions, inside.owners)
        column = self._column(made, value, inside.owners, title)
        nullable = made.draft.extra[ORIGIN].nullable
        notes = [OMITTED] if nullable else []
        if self._tables.is_joined and rows is not self._tables.base:
            notes.append(JOINED.format(rows.draft.name))
        return Value(column_of(column, made.key), value.type, ROW, notes=(*value.notes, *notes))

    def _owner(self, dimensions: Sequence[Value]) -> Node:
        """Return the single table that has the dimensions."""
        keys = {each.sql.table for each in dimensions if isinstance(each.sql, exp.Column)}
        found = [node for node in self._tables.nodes.values() if node.key in keys]
        if len(found) != 1:
            raise UnresolvedError("the dimensions of its FIXED expression are in several tables")
        return found[0]

    def _rows(self, owners: Sequence[Node]) -> Node:
        """Return the table whose rows the expression aggregates."""
        found = self._tables.host(node.key for node in owners)
        if found is None or self._tables.way(found, owners) is None:
            raise UnresolvedError("no table has at most one row of each table of its FIXED expression")
        return found

    def _source(self, owner: Node, rows: Node, dimensions: Sequence[Value], owners: Sequence[Node]) -> Node:
        """Return the source for dimensions, joined to their table."""
        names = [each.sql.name for each in dimensions]
        key = f"{rows.key} by {owner.key}: {', '.join(sorted(names))}"
        if key in self._tables.nodes:
            return self._tables.nodes[key]
        way = self._tables.way(rows, [*owners, owner]) or []
        origin = self._origin(rows, way, dimensions, is_unmatched=rows is not owner)
        shared = (origin.tables, tuple(sorted(origin.dimensions.items())))
        draft = self._shared.by_table.get(shared)
        if draft is None:
            title = slug(f"{rows.draft.name}_by_{'_'.join(sorted(names))}")
            draft = self._shared.sources.add(title, self._tables.source.place, sql="SELECT")
            self._shared.by_table[shared] = draft
            draft.grain = tuple(names)
            draft.description = f"One row for each combination of {', '.join(names)} in {rows.draft.name}."
            for name, each in zip(names, dimensions, strict=True):
                draft.columns[name] = drafts.ColumnDraft(name, TYPES.get(each.type, "string"))
            draft.extra[ORIGIN] = origin
            on = drafts.on_text([(name, name) for name in names], draft.name)
            owner.draft.joins.append({"to": draft.name, "on": on, "relationship": "many_to_one"})
        node = Node(f"ktx_table_{len(self._tables.nodes)}", None, draft)
        self._tables.add(key, node)
        self._tables.connect(owner, node, draft.name, [(name, name) for name in names])
        drafts.reach(self._shared.sources.drafts.values())
        return node

    def _origin(
        self, rows: Node, way: Sequence[tuple[Node, Node, list[tuple[str, str]]]], dimensions: Sequence[Value],
        *, is_unmatched: bool,
    ) -> _Origin:  # fmt: skip
        """Return what the query reads. Rows without a match have no dimensions, so that they are omitted, too."""
        joined = self._table(rows, alone=not way)
        for many, one, pairs in way:
            equal = [f"{self._name(a, many)} = {self._name(b, one)}" for a, b in pairs]
            joined += f" LEFT JOIN {self._table(one, alone=False)} ON {' AND '.join(equal)}"
        shown = {each.sql.name: self._sql(each.sql, alone=not way) for each in dimensions}
        nullable = [each.sql.name for each in dimensions if is_unmatched or each.is_nullable]
        return _Origin(joined, shown, tuple(nullable))

    def _table(self, node: Node, *, alone: bool) -> str:
        base = node.draft.base
        parts = base.table if base is not None else node.relation.parts if node.relation is not None else ()
        name = ".".join(drafts.quoted(part, self._dialect) for part in parts or ())
        return name if alone else f"{name} AS {drafts.quoted(self._alias(node), self._dialect)}"

    def _alias(self, node: Node) -> str:
        """Return the name of a table in a query, its name in the data source."""
        return slug(next(name for name, each in self._tables.nodes.items() if each is node))

    def _name(self, column: str, node: Node) -> str:
        return f"{drafts.quoted(self._alias(node), self._dialect)}.{drafts.quoted(column, self._dialect)}"

    def _sql(self, tree: exp.Expr, *, alone: bool) -> str:
        """Return an expression of the query, with the names of tables that it has there."""
        aliases = {node.key: self._alias(node) for node in self._tables.nodes.values() if node.relation is not None}

        def put(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Count) and isinstance(node.this, exp.Column) and node.this.name == "*":
                return exp.Count(this=exp.Star())
            if not isinstance(node, exp.Column) or node.table not in aliases:
                return node
            return column_of(node.name, "" if alone else aliases[node.table])

        return str(tree.copy().transform(put).sql(self._dialect))

    def _column(self, node: Node, value: Value, owners: Sequence[Node], title: str) -> str:
        """Add an aggregate to a source, and return the name of its column."""
        origin: _Origin = node.draft.extra[ORIGIN]
        text = self._sql(value.sql, alone=" JOIN " not in origin.tables)
        known = next((name for name, each in origin.aggregates.items() if each == text), None)
        if known is not None:
            return known
        wanted = slug(title)[:60].strip("_")
        name, number = wanted, 2
        while name in node.draft.columns:
            name, number = f"{wanted}_{number}", number + 1
        origin.aggregates[name] = text
        node.draft.columns[name] = drafts.ColumnDraft(name, TYPES.get(value.type, "number"), description=title)
        keys = ", ".join(origin.dimensions.values())
        chosen = [
            sql if sql == drafts.quoted(each, self._dialect) else f"{sql} AS {drafts.quoted(each, self._dialect)}"
            for each, sql in {**origin.dimensions, **origin.aggregates}.items()
        ]
        present = " AND ".join(f"{origin.dimensions[each]} IS NOT NULL" for each in origin.nullable)
        where = f" WHERE {present}" if present else ""
        node.draft.sql = f"SELECT {', '.join(chosen)} FROM {origin.tables}{where} GROUP BY {keys}"
        return name


def _require_open(node: Node) -> None:
    """Raise `UnresolvedError` for a table that a query of its own must not or cannot read."""
    if node.relation is None or node.draft.sql is not None:
        raise UnresolvedError("its FIXED expression reads a query instead of a table")
    base = node.draft.base
    if base is not None and (base.is_protected or not base.has_public_columns):
        raise UnresolvedError("its FIXED expression reads a table with restricted rows or columns")


class _Inside:
    """The names in a FIXED expression: columns of tables, with calculated fields written out."""

    def __init__(self, fields: Fields, tables: Tables) -> None:
        self._fields, self._tables = fields, tables
        self.owners: list[Node] = []
        self.dialect, self.week_start = fields.dialect, fields.week_start
        self.knows_week_start = fields.knows_week_start
        self._open: list[str] = []

    def field(self, field: Field) -> Value:
        """Implements `Scope`."""
        if field.parts[0] == PARAMETERS:
            raise UnresolvedError("its FIXED expression uses a parameter")
        column = self._tables.source.columns.get(field.parts[-1])
        if column is not None and column.kind != "column":
            if column.name in self._open or len(self._open) >= DEEPEST:
                raise UnresolvedError("it refers to itself" if column.name in self._open else TOO_DEEP)
            self._open.append(column.name)
            value = self._fields.value_of(column, self)
            self._open.pop()
            return replace(value, sql=grouped(value.sql)) if value.level != AGGREGATE else value
        value = self._fields.field(field)
        self._own(value.sql)
        return value

    def _own(self, column: exp.Expr) -> None:
        """Record the table of a column. Raises `UnresolvedError` for one that a query cannot read as it is."""
        keys = keys_in(column)
        for node in self._tables.nodes.values():
            if node.key not in keys:
                continue
            if node not in self.owners:
                self.owners.append(node)
            known = node.draft.base.column(column.name) if node.draft.base is not None else None
            if known is not None and (known.expr is not None or known.stored_as is not None):
                raise UnresolvedError(f"its FIXED expression reads `{column.name}`, which ktx computes or converts")

    def rows(self, field: Field) -> Value | None:
        """Implements `Scope`."""
        found = self._fields.rows(field)
        if found is not None:
            self._own(found.sql.this)
        return found

    def members(self, field: Field) -> Value | None:
        """Implements `Scope`."""
        if field.parts[-1] in self._tables.source.sets:
            raise UnresolvedError("its FIXED expression uses a set")
        return None

    def fixed(self, node: Lod) -> Value:
        """Implements `Scope`."""
        raise UnresolvedError(f"its {node.kind} expression contains another one")

    included = fixed
