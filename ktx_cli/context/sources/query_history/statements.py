"""What one statement reads: its tables, the columns by clause, the joins, the conditions; and its text without data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.context.sources.query_history.blanking import Redact, shown, without_literals
from ktx_cli.context.sources.query_history.lineage import Lineage
from ktx_cli.context.sources.query_history.tables import NamedTable, Tables, is_system, table_parts

if TYPE_CHECKING:
    from sqlglot import exp

MAX_CHARACTERS: Final = 100_000
"""How long a statement may be to be parsed."""

MAX_PART: Final = 300
"""How long a condition or a group-by expression may be to be told."""

_FAULTS: Final = (ValueError, LookupError, AttributeError, TypeError, AssertionError, NotImplementedError)
"""What the parser raises of texts it did not foresee, besides its own errors."""

_CLAUSES: Final = {"where": "where", "qualify": "where", "group": "groupBy", "joins": "join"}
"""The part of a SELECT a column is in -> the clause it counts for; in any other part it is selected."""


class UnreadableStatementError(Exception):
    """A statement that cannot be read; the text says why, without a word of the statement."""


@dataclass(frozen=True, slots=True)
class ObservedJoin:
    """Two tables joined by equal columns: `pairs[i]` is (column of `left`, column of `right`)."""

    left: NamedTable
    right: NamedTable
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """What a statement reads. `sql`: its text, every literal `?`, blanked as the project says; `id`: of that text.

    `columns`: (table, clause, column). `filters`, `groupings`: (table, expression). `trivial`: it asks for nothing.
    """

    id: str
    sql: str
    tables: tuple[NamedTable, ...]
    columns: frozenset[tuple[NamedTable, str, str]] = frozenset()
    joins: tuple[ObservedJoin, ...] = ()
    filters: frozenset[tuple[NamedTable, str]] = frozenset()
    groupings: frozenset[tuple[NamedTable, str]] = frozenset()
    trivial: bool = False
    system: bool = False


def read_statement(text: str, dialect: str, tables: Tables, redact: Redact) -> Statement:
    """Return what a query reads. Raises `UnreadableStatementError` for one that cannot be read."""
    from sqlglot.errors import SqlglotError

    if len(text) > MAX_CHARACTERS:
        raise UnreadableStatementError(f"it has {len(text):,} characters")
    try:
        tree = _parsed(text, dialect)
        return _read(tree, dialect, tables, redact)
    except SqlglotError as error:
        raise UnreadableStatementError("it cannot be parsed") from error
    except RecursionError:
        raise UnreadableStatementError("it is nested too deep") from None
    except _FAULTS as error:
        raise UnreadableStatementError(f"the parser failed on it ({type(error).__name__})") from error


def _parsed(text: str, dialect: str) -> exp.Expr:
    from sqlglot import ErrorLevel, exp, parse_one

    tree: Any = parse_one(without_literals(text, dialect), read=dialect, error_level=ErrorLevel.IMMEDIATE)
    if not isinstance(tree, exp.Query):
        raise UnreadableStatementError("it is no query")
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    for found in list(tree.find_all(exp.In)):
        if len(found.expressions) > 1 and all(map(_is_constant, found.expressions)):
            found.set("expressions", found.expressions[:1])
    return tree


def _read(tree: exp.Expr, dialect: str, tables: Tables, redact: Redact) -> Statement:
    sql = _text(tree, dialect, redact)
    identity = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    named = _tables_in(tree)
    found = tuple(sorted({tables.find(parts) for parts in named}, key=lambda table: table.display))
    if not found or any(is_system(parts, dialect) for parts in named):
        return Statement(identity, sql, found, trivial=not found, system=bool(found))
    trivial = _is_trivial(tree)
    lineage = Lineage.of(tree, dialect, tables)
    reader = _Reader(lineage, dialect, redact)
    return Statement(
        identity,
        sql,
        found,
        frozenset(reader.columns()),
        tuple(reader.joins()),
        frozenset(reader.filters()),
        frozenset(reader.groupings()),
        trivial,
    )


def _tables_in(tree: exp.Expr) -> list[tuple[str, ...]]:
    """Return the names of all tables but those a WITH defines."""
    from sqlglot import exp

    defined = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    nodes = (node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Identifier))
    return [table_parts(node) for node in nodes if node.db or node.name.lower() not in defined]


def _is_constant(node: exp.Expr) -> bool:
    from sqlglot import exp

    return not any(isinstance(each, exp.Column | exp.Query) for each in node.walk())


def _is_trivial(tree: exp.Expr) -> bool:
    """Say whether a query only looks whether a table is there: `SELECT 1 FROM t`, `... LIMIT 0`, `... WHERE 1 = 0`."""
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return False
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression.name == "0":
        return True
    if (where := tree.args.get("where")) is not None:
        return _is_false(where.this)
    told = any(not _is_constant(each) or each.find(exp.Star, exp.AggFunc) for each in tree.expressions)
    return not told and not tree.find(exp.Join, exp.Group)


def _is_false(node: exp.Expr) -> bool:
    """Say whether a condition holds for no row: `FALSE`, `1 = 0`."""
    from sqlglot import exp

    if isinstance(node, exp.Boolean):
        return not node.this
    numbers = [each for each in (node.args.get("this"), node.args.get("expression")) if isinstance(each, exp.Literal)]
    return isinstance(node, exp.EQ) and len({each.this for each in numbers if not each.is_string}) == 2


def _text(node: exp.Expr, dialect: str, redact: Redact) -> str:
    return redact(shown(node.sql(dialect, comments=False), dialect))


class _Reader:
    """The parts of a statement, each by the table it is about."""

    def __init__(self, lineage: Lineage, dialect: str, redact: Redact) -> None:
        self._lineage = lineage
        self._dialect = dialect
        self._redact = redact

    def columns(self) -> Iterator[tuple[NamedTable, str, str]]:
        """Yield (table, clause, column)."""
        for node, scope in self._lineage.columns():
            origin = self._lineage.origin(node, scope)
            if origin is not None:
                yield origin[0], _clause(node), origin[1]

    def joins(self) -> list[ObservedJoin]:
        """Return what tables are joined, each pair of tables once for each place in the statement."""
        from sqlglot import exp

        found: dict[tuple[int, NamedTable, NamedTable], set[tuple[str, str]]] = {}
        for scope in self._lineage.scopes:
            for node in scope.find_all(exp.EQ):
                pair = self._joined(node, scope)
                if pair is not None:
                    (left, own), (right, other) = pair
                    place = id(node.find_ancestor(exp.Join, exp.Where, exp.Select))
                    found.setdefault((place, left, right), set()).add((own, other))
        joins = {ObservedJoin(left, right, tuple(sorted(pairs))) for (_, left, right), pairs in found.items()}
        return sorted(joins, key=lambda join: (join.left.display, join.right.display, join.pairs))

    def _joined(self, node: exp.Expr, scope: Any) -> tuple[tuple[NamedTable, str], tuple[NamedTable, str]] | None:
        """Return the two columns an equality joins, in the order of their tables' names."""
        from sqlglot import exp

        left, right = node.this.unnest(), node.expression.unnest()
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column) or left.table == right.table:
            return None
        one, other = self._lineage.origin(left, scope), self._lineage.origin(right, scope)
        if one is None or other is None:
            return None
        first, second = sorted((one, other), key=lambda each: (each[0].display, each[1]))
        return first, second

    def filters(self) -> Iterator[tuple[NamedTable, str]]:
        """Yield the conditions on one table alone, its columns without the table's name."""
        from sqlglot import exp

        for scope in self._lineage.scopes:
            where = scope.expression.args.get("where")
            for condition in (
                where.this.flatten() if where and isinstance(where.this, exp.And) else [where and where.this]
            ):
                yield from self._told(condition, scope)

    def groupings(self) -> Iterator[tuple[NamedTable, str]]:
        """Yield what rows are grouped by, as far as it is of one table alone."""
        for scope in self._lineage.scopes:
            group = scope.expression.args.get("group")
            for expression in group.expressions if group else ():
                yield from self._told(expression, scope)

    def _told(self, node: exp.Expr | None, scope: Any) -> Iterator[tuple[NamedTable, str]]:
        from sqlglot import exp

        if node is None or node.find(exp.Query):
            return
        copy = node.copy()
        owners = set()
        for column, twin in zip(node.find_all(exp.Column), list(copy.find_all(exp.Column)), strict=True):
            origin = self._lineage.origin(column, scope)
            if origin is None:
                return
            owners.add(origin[0])
            bare = exp.column(origin[1], quoted=column.this.args.get("quoted"))
            if twin is copy:
                copy = bare
            else:
                twin.replace(bare)
        text = _text(copy, self._dialect, self._redact)
        if len(owners) == 1 and len(text) <= MAX_PART:
            yield owners.pop(), text


def _clause(node: exp.Expr) -> str:
    """Return the clause of a column: `select`, `where`, `groupBy` or `join`."""
    from sqlglot import exp

    child: exp.Expr = node
    while child.parent is not None and not isinstance(child.parent, exp.Query):
        child = child.parent
    return _CLAUSES.get(child.arg_key or "", "select")
