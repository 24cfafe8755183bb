"""The tables, columns by clause, joins, conditions and groupings of one statement."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import ConfigError, Hint, SettingPath
from ktx_cli.faces import exp
from ktx_cli.sources.query_history.literals import (
    BLANK,
    Literals,
    Shape,
    comparisons,
    marked,
    number_literals,
    spliced,
    tokens_of,
    unmarked,
)
from ktx_cli.sources.query_history.tables import NamedTable, Redact, Tables, is_system, table_parts
from ktx_cli.warehouses import PARSER_FAULTS

REDACTED: Final = "[redacted]"


def without_literals(sql: str, dialect: str) -> str:
    """Return a statement without comments, with all strings and parameters made equal and numbers unchanged.

    Numbers may be positions and sizes of types; `shown` removes them. Raises `SqlglotError` for an unterminated string.
    """
    return unmarked(marked(sql, dialect))


def shown(sql: str, dialect: str) -> str:
    """Return a statement on one line with `?` for each literal. Raises `SqlglotError` for an unterminated string."""
    return spliced(sql, tokens_of(sql, dialect), lambda kind, number: BLANK, numbers=True)


def comments(sql: str, dialect: str) -> str:
    """Return a statement's comments, one per line."""
    return "\n".join(comment for token in tokens_of(sql, dialect) for comment in token.comments)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts text that matches the project's own patterns; it is called with every text to store."""

    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, patterns: Iterable[str], where: str) -> Redactor:
        """Compile the patterns. `where` names their setting. Raises `ConfigError` for an invalid pattern."""
        return cls(compiled(patterns, where))

    def __call__(self, text: str) -> str:
        """Return the text with every match redacted."""
        for pattern in self.patterns:
            text = pattern.sub(REDACTED, text)
        return text


def compiled(patterns: Iterable[str], where: str) -> tuple[re.Pattern[str], ...]:
    """Compile a setting's regular expressions, which may begin with `(?i)`. Raises `ConfigError` if one is invalid."""
    return tuple(_compiled(text, f"{where}[{position}]") for position, text in enumerate(patterns))


def _compiled(text: str, where: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(
            f"`{where}` in ktx.yaml is not a regular expression: {error}",
            hint=Hint(
                "correct {}: put a backslash before special characters that should match literally", SettingPath(where)
            ),
        ) from error


MAX_CHARACTERS: Final = 100_000
"""The maximum length of a statement that is parsed."""

MAX_PART: Final = 300
"""The maximum length of a listed condition or grouping expression."""

_CLAUSES: Final = {"where": "where", "qualify": "where", "group": "groupBy", "joins": "join"}
"""The part of a SELECT that contains a column -> the column's clause; in any other part, it is selected."""


class UnreadableStatementError(Exception):
    """Raised for a statement that cannot be read. The text says why, without quoting the statement."""


@dataclass(frozen=True, slots=True)
class ObservedJoin:
    """Two tables joined by equal columns: `pairs[i]` is (column of `left`, column of `right`)."""

    left: NamedTable
    right: NamedTable
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """The content that a statement reads. `sql`: its text with `?` for literals, redacted by the project's patterns.
    `id`: a hash of that text.

    `columns`: (table, clause, column). `filters`, `groupings`: (table, expression). `trivial`: whether it requests no
    data. `shape`: its text with places for literals. Statements with one `id` may differ in the literals that are kept.
    """

    id: str
    sql: str
    tables: tuple[NamedTable, ...]
    columns: frozenset[tuple[NamedTable, str, str]] = frozenset()
    joins: tuple[ObservedJoin, ...] = ()
    filters: frozenset[tuple[NamedTable, Shape]] = frozenset()
    groupings: frozenset[tuple[NamedTable, Shape]] = frozenset()
    trivial: bool = False
    system: bool = False
    shape: Shape = field(default=Shape())


def read_statement(text: str, dialect: str, tables: Tables, redact: Redact) -> Statement:
    """Return the tables, columns and conditions in a query. Raises `UnreadableStatementError`."""
    from sqlglot.errors import SqlglotError

    if len(text) > MAX_CHARACTERS:
        raise UnreadableStatementError(f"it has {len(text):,} characters")
    try:
        return _read(_parsed(text, dialect), dialect, tables, redact)
    except SqlglotError as error:
        raise UnreadableStatementError("it cannot be parsed") from error
    except RecursionError:
        raise UnreadableStatementError("it is nested too deeply") from None
    except PARSER_FAULTS as error:
        raise UnreadableStatementError(f"the parser failed on it ({type(error).__name__})") from error


def _parsed(text: str, dialect: str) -> exp.Expr:
    from sqlglot import ErrorLevel, parse_one

    tree: Any = parse_one(marked(text, dialect), read=dialect, error_level=ErrorLevel.IMMEDIATE)
    if not isinstance(tree, exp.Query):
        raise UnreadableStatementError("it is not a query")
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    number_literals(tree)
    return tree


def _with_short_lists(tree: exp.Expr) -> exp.Expr:
    """Return a copy in which every list of constants has one item, which makes lists of any length equal."""
    copy = tree.copy()
    for found in list(copy.find_all(exp.In)):
        if len(found.expressions) > 1 and all(map(_is_constant, found.expressions)):
            found.set("expressions", found.expressions[:1])
    return copy


def _read(tree: exp.Expr, dialect: str, tables: Tables, redact: Redact) -> Statement:
    sql = redact(shown(unmarked(_with_short_lists(tree).sql(dialect, comments=False, copy=False)), dialect))
    identity = hashlib.sha256(sql.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    named = _tables_in(tree)
    found = tuple(sorted({tables.find(parts) for parts in named}, key=lambda table: table.display))
    if not found or any(is_system(parts, dialect) for parts in named):
        return Statement(identity, sql, found, trivial=not found, system=bool(found))
    trivial = _is_trivial(tree)
    lineage = Lineage.of(tree, dialect, tables)
    literals = Literals.of(tree, dialect, comparisons(lineage.scopes, lineage.origin))
    reader = _Reader(lineage, literals, redact)
    return Statement(
        identity,
        sql,
        found,
        frozenset(reader.columns()),
        tuple(reader.joins()),
        frozenset(reader.filters()),
        frozenset(reader.groupings()),
        trivial,
        shape=literals.shape(tree, redact),
    )


def _tables_in(tree: exp.Expr) -> list[tuple[str, ...]]:
    """Return the names of all tables, except those defined in a WITH clause."""
    defined = {each.alias_or_name.lower() for each in tree.find_all(exp.CTE)}
    nodes = (node for node in tree.find_all(exp.Table) if isinstance(node.this, exp.Identifier))
    return [table_parts(node) for node in nodes if node.db or node.name.lower() not in defined]


def _is_constant(node: exp.Expr) -> bool:
    return not any(isinstance(each, exp.Column | exp.Query) for each in node.walk())


def _is_trivial(tree: exp.Expr) -> bool:
    """Return whether a query only checks that a table exists: `SELECT 1 FROM t`, `... LIMIT 0`, `... WHERE 1 = 0`."""
    if not isinstance(tree, exp.Select):
        return False
    limit = tree.args.get("limit")
    if isinstance(limit, exp.Limit) and limit.expression.name == "0":
        return True
    if (where := tree.args.get("where")) is not None:
        return _is_false(where.this)
    reads_columns = any(not _is_constant(each) or each.find(exp.Star, exp.AggFunc) for each in tree.expressions)
    return not reads_columns and not tree.find(exp.Join, exp.Group)


def _is_false(node: exp.Expr) -> bool:
    """Return whether a condition is never true: `FALSE`, `1 = 0`."""
    if isinstance(node, exp.Boolean):
        return not node.this
    numbers = [each for each in (node.args.get("this"), node.args.get("expression")) if isinstance(each, exp.Literal)]
    return isinstance(node, exp.EQ) and len({each.this for each in numbers if not each.is_string}) == 2


class _Reader:
    """The parts of a statement, each with its table."""

    def __init__(self, lineage: Lineage, literals: Literals, redact: Redact) -> None:
        self._lineage = lineage
        self._literals = literals
        self._redact = redact

    def columns(self) -> Iterator[tuple[NamedTable, str, str]]:
        """Yield (table, clause, column)."""
        for node, scope in self._lineage.columns():
            origin = self._lineage.origin(node, scope)
            if origin is not None:
                yield origin[0], _clause(node), origin[1]

    def joins(self) -> list[ObservedJoin]:
        """Return the joined tables, each pair once per place in the statement."""
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
        """Return the two columns that an equality joins, in the order of their tables' names."""
        left, right = node.this.unnest(), node.expression.unnest()
        if not isinstance(left, exp.Column) or not isinstance(right, exp.Column) or left.table == right.table:
            return None
        one, other = self._lineage.origin(left, scope), self._lineage.origin(right, scope)
        if one is None or other is None:
            return None
        first, second = sorted((one, other), key=lambda each: (each[0].display, each[1]))
        return first, second

    def filters(self) -> Iterator[tuple[NamedTable, Shape]]:
        """Yield the conditions that concern only one table, with its columns unqualified."""
        for scope in self._lineage.scopes:
            where = scope.expression.args.get("where")
            for condition in (
                where.this.flatten() if where and isinstance(where.this, exp.And) else [where and where.this]
            ):
                yield from self._of_one_table(condition, scope)

    def groupings(self) -> Iterator[tuple[NamedTable, Shape]]:
        """Yield the grouping expressions that concern only one table."""
        for scope in self._lineage.scopes:
            group = scope.expression.args.get("group")
            for expression in group.expressions if group else ():
                yield from self._of_one_table(expression, scope)

    def _of_one_table(self, node: exp.Expr | None, scope: Any) -> Iterator[tuple[NamedTable, Shape]]:
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
        shape = self._literals.shape(copy, self._redact)
        if len(owners) == 1 and len(shape.shown()) <= MAX_PART:
            yield owners.pop(), shape


def _clause(node: exp.Expr) -> str:
    """Return a column's clause: `select`, `where`, `groupBy` or `join`."""
    child: exp.Expr = node
    while child.parent is not None and not isinstance(child.parent, exp.Query):
        child = child.parent
    return _CLAUSES.get(child.arg_key or "", "select")


Origin = tuple[NamedTable, str]
"""A table and one of its columns."""

_MAX_STEPS = 50


class Lineage:
    """The scopes of a statement, and the tables that its names refer to."""

    def __init__(self, scopes: list[Any], tables: dict[str, NamedTable]) -> None:
        self.scopes = scopes
        self._tables = tables

    @classmethod
    def of(cls, tree: exp.Expr, dialect: str, tables: Tables) -> Lineage:
        """Assign each column to its table, using the columns in the semantic layer.

        If a name matches none, columns keep the qualification in the statement.
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
        """Yield each column with its scope."""
        for scope in self.scopes:
            for node in scope.find_all(exp.Column):
                yield node, scope

    def origin(self, column: Any, scope: Any) -> Origin | None:
        """Return the table column that a column refers to, or None if it is computed or unknown."""
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
    """Return the relation that a name refers to here or in an outer query; without a name, the single relation here."""
    if not name:
        return next(iter(scope.sources.values())) if len(scope.sources) == 1 else None
    while scope is not None:
        if name in scope.sources:
            return scope.sources[name]
        scope = scope.parent
    return None


def _keyed(tree: exp.Expr, tables: Tables) -> dict[str, NamedTable]:
    """Give every table in a tree a unique plain name, and return the tables by name.

    The parser's schema then needs no levels, and `Orders`, `orders` and `shop.orders` are one table.
    """
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
