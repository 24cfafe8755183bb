"""Extract facts from a dbt model's SQL: filters, CASE mappings, fallbacks, comments, and column origins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import KtxError, one_line
from ktx_cli.faces import exp
from ktx_cli.semantic import Relation
from ktx_cli.sources.dbt.templates import Comment, Rendered
from ktx_cli.warehouses import PARSER_FAULTS, require_shallow, silence_parser

_LONGEST_TEXT: Final = 400
_MOST_RULES: Final = 200
_MOST_COLUMNS: Final = 500
_DEEPEST: Final = 40
"""The maximum depth of nested queries that a column is traced through."""


class RuleKind(StrEnum):
    """The kinds of facts in a query."""

    FILTER = "filter"
    GROUP_FILTER = "group filter"
    JOIN_FILTER = "join filter"
    LATEST = "one row"
    DISTINCT = "distinct"
    MAPPING = "mapping"
    FALLBACK = "fallback"


FILTERS: Final = (RuleKind.FILTER, RuleKind.GROUP_FILTER, RuleKind.JOIN_FILTER, RuleKind.LATEST)
"""The rules that determine a model's rows."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A part of a query that determines its rows or the meaning of its values.

    `text`: the SQL. `scope`: the CTE that contains it, empty for the query itself. `line`: in the file, 0 if unknown.
    `column`: the output column that it computes.
    """

    kind: RuleKind
    text: str
    scope: str = ""
    line: int = 0
    column: str = ""

    @property
    def shown(self) -> str:
        """A description of the rule, with its SQL."""
        where = f" (in `{self.scope}`)" if self.scope else ""
        column = f"`{self.column}`" if self.column else "a value"
        return {
            RuleKind.FILTER: f"keeps rows where `{self.text}`",
            RuleKind.GROUP_FILTER: f"keeps groups where `{self.text}`",
            RuleKind.JOIN_FILTER: f"joins only rows where `{self.text}`",
            RuleKind.LATEST: f"keeps {self.text}",
            RuleKind.DISTINCT: f"keeps distinct rows: {self.text}",
            RuleKind.MAPPING: f"{column} is `{self.text}`",
            RuleKind.FALLBACK: f"{column} has a fallback: `{self.text}`",
        }[self.kind] + where


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column of a model. `origins`: the columns of models and sources that it is computed from, as far as known.

    `expression`: how it is computed, empty for an unchanged column.
    """

    name: str
    expression: str = ""
    origins: tuple[tuple[Relation, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The facts in a model's SQL.

    `references`: the models and sources that it reads. `grain`: the columns by which its rows are grouped.
    `has_all_columns`: whether all output columns are known, unlike with `SELECT *` from a table that was not scanned.
    `unresolved`: Jinja that only dbt can resolve. `problem`: why the query could not be read, or None.
    """

    name: str
    path: str
    references: tuple[Relation, ...] = ()
    rules: tuple[Rule, ...] = ()
    comments: tuple[Comment, ...] = ()
    columns: tuple[OutputColumn, ...] = ()
    grain: tuple[str, ...] = ()
    has_all_columns: bool = False
    unresolved: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def filters(self) -> tuple[Rule, ...]:
        """The rules that determine which rows there are."""
        return tuple(rule for rule in self.rules if rule.kind in FILTERS)

    @property
    def says_something(self) -> bool:
        """Whether there is anything to write about the model."""
        return bool(self.rules or self.problem) or any(comment.is_telling for comment in self.comments)

    @property
    def lines(self) -> tuple[str, ...]:
        """The rules and comments, one line each, in file order."""
        entries = [(rule.line, rule.shown) for rule in self.rules]
        entries += [(each.line, f"comment: {one_line(each.text)}") for each in self.comments if each.is_telling]
        lines = [f"line {line}: {text}" if line else text for line, text in sorted(entries)]
        if self.unresolved:
            lines.append(
                f"only dbt can resolve: {', '.join(f'`{one_line(each, 80)}`' for each in self.unresolved[:5])}"
            )
        if self.problem:
            lines.append(f"its SQL could not be read: {self.problem}")
        return tuple(lines)


Origins = tuple[tuple[Relation, str], ...]
"""Columns of models and sources."""

_Output = dict[str, tuple[str, Origins]]
"""Query column -> its expression (empty if unchanged) and its origins."""

Columns = Mapping[Relation, tuple[str, ...]]
"""The columns of models and sources, as far as known."""


def parse_query(sql: str, dialect: str) -> Any:
    """Return the tree of the single query in a text. Raises `ValueError` if missing or too deeply nested."""
    import sqlglot
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        speaker = sqlglot.Dialect.get_or_raise(dialect or None)
        tokens = speaker.tokenize(sql)
        require_shallow(tokens)
        trees = [tree for tree in speaker.parser().parse(tokens, sql) if tree is not None]
    except KtxError as error:
        raise ValueError("it is too long or nested too deeply") from error
    except (SqlglotError, RecursionError, *PARSER_FAULTS) as error:
        raise ValueError(f"it cannot be parsed as {dialect or 'SQL'}") from error
    queries = [tree for tree in trees if isinstance(tree, exp.Query)]
    if len(trees) != 1 or len(queries) != 1:
        raise ValueError("it is not a single query")
    return queries[0]


def read_facts(
    name: str, path: str, rendered: Rendered, dialect: str, columns: Columns | None = None, own: str = ""
) -> ModelFacts:
    """Return the facts in a model's SQL. Never raises an error because of a file's content.

    `columns`: the columns of the relations that it refers to. `own`: the name of the model's own table, whose
    conditions concern incremental runs.
    """
    references = tuple(dict.fromkeys((*rendered.references.values(), *rendered.mentioned)))
    problem = rendered.problem or None
    base = ModelFacts(
        name, path, references, comments=rendered.comments, unresolved=rendered.unresolved, problem=problem
    )
    if problem:
        return base
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_query(rendered.sql, dialect)
        reader = _Reader(tree, rendered, dialect, columns or {}, own)
        rules = reader.rules()
        if rendered.is_compiled:
            rules = [replace(rule, line=0) for rule in rules]
        return replace(
            base, rules=tuple(rules), grain=reader.grain(), columns=reader.columns(),
            has_all_columns=reader.has_all_columns,
        )  # fmt: skip
    except ValueError as error:
        return replace(base, problem=one_line(str(error)))
    except (SqlglotError, RecursionError, *PARSER_FAULTS):
        return replace(base, problem=f"it cannot be parsed as {dialect or 'SQL'}")


def query_lines(sql: str, dialect: str) -> list[str]:
    """Return the facts about a query's rows and columns in words, with SQL, or nothing if the query cannot be read."""
    facts = read_facts("", "", Rendered(sql), dialect)
    computed = {column.name for column in facts.columns if column.expression}
    rules = [rule.shown for rule in facts.rules if rule.kind in FILTERS or rule.scope or rule.column not in computed]
    return list(
        dict.fromkeys((*rules, *(f"`{each.name}` is `{each.expression}`" for each in facts.columns if each.expression)))
    )


class _Reader:
    """Reads the tree of one query."""

    def __init__(self, tree: Any, rendered: Rendered, dialect: str, columns: Columns, own: str) -> None:
        self._tree, self._rendered, self._dialect, self._known, self._own = tree, rendered, dialect, columns, own
        self._ctes = {cte.alias: cte.this for cte in tree.find_all(exp.CTE)}
        self._outputs: dict[int, _Output] = {}
        self._open: set[int] = set()
        self.has_all_columns = True

    def rules(self) -> list[Rule]:
        """Return the rules of all queries in the tree, by line."""
        found: dict[Rule, None] = {}
        for select in self._tree.find_all(exp.Select):
            scope = _scope(select)
            if scope is None:
                continue
            for rule in self._of_select(select, scope):
                found.setdefault(rule)
                if len(found) >= _MOST_RULES:
                    break
        return sorted(found, key=lambda rule: (rule.line, rule.kind, rule.text, rule.column))

    def _of_select(self, select: Any, scope: str) -> Iterator[Rule]:
        numbered = self._numbered(select)
        for kind, clause in (
            (RuleKind.FILTER, "where"),
            (RuleKind.GROUP_FILTER, "having"),
            (RuleKind.FILTER, "qualify"),
        ):
            node = select.args.get(clause)
            for condition in _conditions(node.this) if node is not None else ():
                yield from self._condition(kind, condition, scope, numbered)
        for join in select.args.get("joins") or ():
            on = join.args.get("on")
            for condition in _conditions(on) if on is not None else ():
                if not _is_key(condition):
                    yield from self._condition(RuleKind.JOIN_FILTER, condition, scope, {})
        distinct = select.args.get("distinct")
        if distinct is not None:
            yield self._distinct(select, distinct, scope)
        for projection in select.expressions:
            yield from self._values(projection, scope)

    def _condition(self, kind: RuleKind, condition: Any, scope: str, numbered: Mapping[str, Any]) -> Iterator[Rule]:
        if isinstance(condition, exp.Boolean | exp.Literal) or self._is_trivial(condition):
            return
        if self._own and any(table.name.casefold() == self._own for table in condition.find_all(exp.Table)):
            return
        window = self._dedup(condition, numbered)
        if window is not None:
            yield Rule(RuleKind.LATEST, self._one_row(window, condition), scope, _line(condition) or _line(window))
        else:
            yield Rule(kind, self._text(condition), scope, _line(condition))

    @staticmethod
    def _is_trivial(condition: Any) -> bool:
        return isinstance(condition, exp.EQ) and all(
            isinstance(side, exp.Literal) for side in (condition.this, condition.expression)
        )

    def _numbered(self, select: Any) -> dict[str, Any]:
        """Return the row numbers that a query's sources compute, by column."""
        found: dict[str, Any] = {}
        sources = [self._query_of(each) for each in _sources(select)]
        for query in (select, *filter(None, sources)):
            for projection in query.expressions if isinstance(query, exp.Select) else ():
                window = projection.unalias()
                if _is_row_number(window):
                    found[projection.alias_or_name.casefold()] = window
        return found

    def _query_of(self, source: Any) -> Any:
        if isinstance(source, exp.Subquery):
            return source.this
        return self._ctes.get(source.name) if isinstance(source, exp.Table) and not source.db else None

    @staticmethod
    def _dedup(condition: Any, numbered: Mapping[str, Any]) -> Any:
        """Return the row number whose first row a condition selects, or None for other conditions."""
        if not isinstance(condition, exp.EQ) or condition.expression.sql() != "1":
            return None
        if isinstance(condition.this, exp.Column):
            return numbered.get(condition.this.name.casefold())
        return condition.this if _is_row_number(condition.this) else None

    def _one_row(self, window: Any, condition: Any) -> str:
        parts = ", ".join(map(self._text, window.args.get("partition_by") or ()))
        order = window.args.get("order")
        ordered = ", ".join(map(self._text, order.expressions)) if order is not None else ""
        each = f"one row for each `{parts}`" if parts else "one row"
        return each + (f", the first by `{ordered}`" if ordered else "")

    def _distinct(self, select: Any, distinct: Any, scope: str) -> Rule:
        on = distinct.args.get("on")
        if on is None:
            names = ", ".join(each.alias_or_name or self._text(each) for each in select.expressions)
            return Rule(
                RuleKind.DISTINCT,
                f"`{self._cut(names)}`",
                scope,
                _line(select.expressions[0]) if select.expressions else 0,
            )
        order = select.args.get("order")
        keys = ", ".join(map(self._text, on.expressions or [on]))
        ordered = ", ".join(map(self._text, order.expressions)) if order is not None else ""
        text = f"one row for each `{keys}`" + (f", the first by `{ordered}`" if ordered else "")
        return Rule(RuleKind.LATEST, text, scope, _line(on))

    def _values(self, projection: Any, scope: str) -> Iterator[Rule]:
        """Yield the outermost mappings and fallbacks in an output column."""
        stack = [projection]
        while stack:
            node = stack.pop()
            kind = _kind_of_value(node)
            if kind is not None:
                yield Rule(kind, self._text(node), scope, _line(node), self._cut(projection.alias_or_name))
            elif not isinstance(node, exp.Query):
                stack += list(node.iter_expressions())

    def _text(self, node: Any) -> str:
        written = node.transform(_negated, self._dialect or None) if node.find(exp.Not) is not None else node
        return self._cut(written.sql(dialect=self._dialect or None, comments=False))

    def _cut(self, sql: str) -> str:
        return one_line(self._rendered.shown(sql).replace("`", '"'), _LONGEST_TEXT)

    def grain(self) -> tuple[str, ...]:
        """Return the columns by which the query's rows are grouped."""
        query = self._tree
        while isinstance(query, exp.Subquery):
            query = query.this
        group = query.args.get("group") if isinstance(query, exp.Select) else None
        if group is None or not group.expressions:
            return ()
        return tuple(self._grouped(each, query) for each in group.expressions)

    def _grouped(self, each: Any, query: Any) -> str:
        """Return a GROUP BY key, with a position resolved to its column."""
        if isinstance(each, exp.Literal) and not each.is_string and each.name.isdigit():
            index = int(each.name) - 1
            if 0 <= index < len(query.expressions):
                return self._cut(query.expressions[index].alias_or_name or self._text(query.expressions[index]))
        return self._text(each)

    def columns(self) -> tuple[OutputColumn, ...]:
        """Return a query's columns with their origins."""
        output = self._output(self._tree, 0)
        return tuple(
            OutputColumn(name, text, origins) for name, (text, origins) in list(output.items())[:_MOST_COLUMNS]
        )

    def _output(self, query: Any, depth: int) -> _Output:
        """Return a query's columns: name -> expression, and origins."""
        while isinstance(query, exp.Subquery):
            query = query.this
        known = self._outputs.get(id(query))
        if known is not None:
            return known
        if query is None or depth > _DEEPEST or id(query) in self._open:
            self.has_all_columns = False
            return {}
        self._open.add(id(query))
        if isinstance(query, exp.SetOperation):
            found = self._of_both(query, depth)
        elif isinstance(query, exp.Select):
            found = self._of_columns(query, depth)
        else:
            self.has_all_columns, found = False, {}
        self._open.discard(id(query))
        self._outputs[id(query)] = found
        return found

    def _of_both(self, query: Any, depth: int) -> _Output:
        left, right = self._output(query.this, depth + 1), self._output(query.expression, depth + 1)
        others = list(right.values())
        found = {}
        for index, (name, (text, origins)) in enumerate(left.items()):
            other_text, other = others[index] if index < len(others) else ("", ())
            found[name] = (text or other_text, tuple(dict.fromkeys((*origins, *other))))
        return found

    def _of_columns(self, select: Any, depth: int) -> _Output:
        sources = {each.alias_or_name: each for each in _sources(select)}
        found: _Output = {}
        for projection in select.expressions:
            inner = projection.unalias()
            if inner.is_star:
                found |= self._starred(inner, sources, depth)
            elif projection.alias_or_name in self._rendered.open:
                self.has_all_columns = False
            else:
                text = "" if isinstance(inner, exp.Column) else self._text(inner)
                found[self._cut(projection.alias_or_name or text)] = (text, self._origins(inner, sources, depth))
        return found

    def _starred(self, star: Any, sources: Mapping[str, Any], depth: int) -> _Output:
        table = star.table if isinstance(star, exp.Column) else ""
        found: _Output = {}
        mark = star.this if isinstance(star, exp.Column) else star
        if any(mark.args.get(key) for key in ("replace", "rename")):
            self.has_all_columns = False
        left_out = {each.name.casefold() for each in mark.args.get("except_") or mark.args.get("except") or ()}
        for name, source in sources.items():
            if not table or table == name:
                for column, origins in self._columns_of(source, depth).items():
                    if column.casefold() not in left_out:
                        found.setdefault(column, ("", origins))
        return found

    def _columns_of(self, source: Any, depth: int) -> dict[str, Origins]:
        """Return the columns of a FROM clause item with their origins."""
        query = self._query_of(source)
        if query is not None:
            return {name: origins for name, (_, origins) in self._output(query, depth + 1).items()}
        relation = self._rendered.references.get(source.name) if isinstance(source, exp.Table) else None
        columns = self._known.get(relation) if relation is not None else None
        if relation is None or columns is None:
            self.has_all_columns = False
            return {}
        return {column: ((relation, column),) for column in columns}

    def _origins(self, node: Any, sources: Mapping[str, Any], depth: int) -> Origins:
        found: dict[tuple[Relation, str], None] = {}
        for column in node.find_all(exp.Column):
            for origin in self._origin(column, sources, depth):
                found.setdefault(origin)
        return tuple(found)

    def _origin(self, column: Any, sources: Mapping[str, Any], depth: int) -> Origins:
        candidates = [sources[column.table]] if column.table in sources else [] if column.table else [*sources.values()]
        for source in candidates:
            relation = self._rendered.references.get(source.name) if isinstance(source, exp.Table) else None
            if relation is not None and relation not in self._known and len(candidates) == 1:
                return ((relation, column.name),)
            if self._query_of(source) is None and (relation is None or relation not in self._known):
                continue
            columns = {name.casefold(): origins for name, origins in self._columns_of(source, depth).items()}
            if column.name.casefold() in columns:
                return columns[column.name.casefold()]
        return ()


def _sources(select: Any) -> list[Any]:
    """Return the FROM and JOIN items of a query."""
    clause = select.args.get("from_") or select.args.get("from")
    joins = select.args.get("joins") or ()
    return [each.this for each in (clause, *joins) if each is not None and each.this is not None]


def _scope(select: Any) -> str | None:
    """Return the name of the CTE that contains a query: empty without a CTE, None for a query inside a condition."""
    node = select.parent
    while node is not None:
        if isinstance(node, exp.CTE):
            return str(node.alias)
        if isinstance(node, exp.Where | exp.Having | exp.Qualify | exp.Exists | exp.In):
            return None
        node = node.parent
    return ""


def _conditions(node: Any) -> list[Any]:
    """Return the parts of a condition that are combined with AND."""
    found, stack = [], [node]
    while stack:
        each = stack.pop()
        while isinstance(each, exp.Paren):
            each = each.this
        if isinstance(each, exp.And):
            stack += [each.expression, each.this]
        else:
            found.append(each)
    return found


def _is_key(condition: Any) -> bool:
    """Return whether a join condition compares a column on one side with a column on the other."""
    if isinstance(condition, exp.Boolean):
        return True
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [{column.table for column in side.find_all(exp.Column)} for side in (condition.this, condition.expression)]
    return all(sides)


def _negated(node: Any, dialect: str | None) -> Any:
    """Return `NOT x IS NULL` and `NOT x IN (1)` in the usual form: `x IS NOT NULL`, `x NOT IN (1)`."""
    inner = node.this if isinstance(node, exp.Not) else None
    if isinstance(inner, exp.Is):
        right = inner.expression.sql(dialect=dialect, comments=False)
        return exp.Is(this=inner.this, expression=exp.Var(this=f"NOT {right}"))
    if isinstance(inner, exp.In | exp.Like | exp.ILike | exp.Between):
        left = exp.Var(this=f"{inner.this.sql(dialect=dialect, comments=False)} NOT")
        return type(inner)(**{**inner.args, "this": left})
    return node


def _is_row_number(node: Any) -> bool:
    return isinstance(node, exp.Window) and isinstance(node.this, exp.RowNumber | exp.Rank | exp.DenseRank)


def _kind_of_value(node: Any) -> RuleKind | None:
    if isinstance(node, exp.Case | exp.If | exp.DecodeCase):
        return RuleKind.MAPPING
    if isinstance(node, exp.Coalesce | exp.Nullif):
        return RuleKind.FALLBACK
    return None


def _line(node: Any) -> int:
    """Return the line at which a part of a query begins, or 0 if unknown."""
    lines = (each.meta.get("line") for each in node.find_all(exp.Identifier))
    return min((int(line) for line in lines if line), default=0)
