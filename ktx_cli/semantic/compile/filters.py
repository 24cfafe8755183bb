"""The question's conditions on the rows of one fact: held against the row, or against the rows joined to it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ktx_cli.semantic.compile.rows import Rows
from ktx_cli.semantic.expressions.names import Expression, Name, placeholder
from ktx_cli.semantic.graph import Edge
from ktx_cli.semantic.model import DAY, HOUR, MINUTE, SECOND, Column, SemanticError
from ktx_cli.semantic.plan.axis import TimeReader
from ktx_cli.semantic.plan.plan import Dimension, Plan, RowFilter, TimeRange
from ktx_cli.semantic.time.periods import truncate, within
from ktx_cli.warehouses import TimeKind


def row_conditions(rows: Rows, plan: Plan, filters: Sequence[RowFilter] | None = None) -> list[exp.Expr]:
    """Return the conditions every row of the fact must meet; `SemanticError` where one cannot be held against it.

    A condition over rows the fact has several of is met when one of these, or none where there is none, meets it; those
    over the same joins must be met by the same row. Rows already joined for a dimension are filtered themselves.
    `filters`: some of the plan's conditions, None for all.
    """
    result: list[exp.Expr] = []
    apart: list[tuple[set[tuple[Edge, ...]], list[Expression]]] = []
    uses = rows.build.use(rows.fact.name).filters
    for condition in plan.filters if filters is None else filters:
        if condition.facts is not None and rows.fact.name not in condition.facts:
            continue
        prefixes = {prefix for prefix in _prefixes(rows, condition) if prefix not in rows.joins}
        if not prefixes:
            result.append(exp.paren(rows.bind(condition.expression), copy=False))
            uses[condition.expression.text] = "where"
            continue
        uses[condition.expression.text] = "semi_join"
        group = (prefixes, [condition.expression])
        for other in [other for other in apart if other[0] & prefixes]:
            group = (group[0] | other[0], [*other[1], *group[1]])
            apart.remove(other)
        apart.append(group)
    return result + [_exists(rows, conditions) for _, conditions in apart]


def _prefixes(rows: Rows, condition: RowFilter) -> set[tuple[Edge, ...]]:
    try:
        return rows.many_prefixes(condition.expression)
    except SemanticError as error:
        if error.code != "unreachable":
            raise
        text = condition.expression.text
        raise SemanticError(
            f"the filter `{text}` cannot reach `{rows.fact.name}`: {error.message}",
            hint=f'say which facts it is for: {{"expr": "{text}", "facts": [...]}}, or leave one of the two out',
            code="unreachable_filter",
            details={"fact": rows.fact.name, "filter": text},
        ) from None


def _exists(rows: Rows, conditions: list[Expression]) -> exp.Expr:
    """Return the condition that one of the joined rows of a fact's row meets all conditions."""
    rows.require_key("a filter over its details")
    inner = Rows(rows.build, rows.fact.name, alias=f"{rows.alias}__any", time=rows.time)
    bound = [exp.paren(inner.bind(condition), copy=False) for condition in conditions]
    if not rows.build.syntax.correlates_queries:
        return _in(rows, inner, bound)
    query = inner.select([exp.Literal.number(1)])
    for condition in (inner.same_row(rows), *bound):
        query = query.where(condition, copy=False)
    return exp.Exists(this=query)


def _in(rows: Rows, inner: Rows, bound: Sequence[exp.Expr]) -> exp.Expr:
    """Return the same for a dialect without queries that look outside."""
    query = inner.select([inner.own(name) for name in inner.fact.grain])
    query = query.where(*bound, copy=False)
    key = [rows.own(name) for name in rows.fact.grain]
    left = key[0] if len(key) == 1 else exp.Tuple(expressions=key)
    return exp.In(this=left, query=exp.Subquery(this=query))


_BELOW_DAY = (SECOND, MINUTE, HOUR)


def kind_of(column: Column | None) -> TimeKind:
    """Return what the values of a time column are."""
    return "date" if column is not None and column.is_date else "timestamp"


def dimension_value(rows: Rows, dimension: Dimension) -> exp.Expr:
    """Return what rows are grouped by."""
    return cut_value(rows, dimension, rows.bind(dimension.expression), _column(rows, dimension.expression))


def cut_value(rows: Rows, dimension: Dimension, value: exp.Expr, column: Column | None) -> exp.Expr:
    """Return the value of a dimension cut to its grain; `column`: what it is read from."""
    if dimension.grain is None:
        return value
    return truncate(value, dimension.grain, kind_of(column), rows.build.clock(column))


def cut(rows: Rows, time: Name | Expression, grain: str) -> exp.Expr:
    """Return a column, cut to a grain."""
    expression = time if isinstance(time, Expression) else Expression(placeholder(0), (time,), None, str(time))
    column = _column(rows, expression)
    return truncate(rows.bind(expression), grain, kind_of(column), rows.build.clock(column))


def in_range(rows: Rows, asked: TimeRange) -> exp.Expr:
    """Return the condition that a row is in a stretch of time."""
    if rows.many_prefixes(asked.expression):
        raise SemanticError(
            f"the time_range on `{asked.expression.text}` cannot reach `{rows.fact.name}`, which has several of it",
            hint='"time_range": {"field": "metric_time", ...} takes the time of each fact',
            code="unreachable_filter",
            details={"fact": rows.fact.name},
        )
    column = _column(rows, asked.expression)
    value = rows.bind(asked.expression)
    condition = within(value, asked.start, asked.end, kind_of(column), rows.build.clock(column))
    if condition is None:
        raise AssertionError("a stretch of time without ends")
    return condition


def counted_by(grain: str) -> str:
    """Return the grain at which rows are held against periods of a grain: days, or the grain itself below them."""
    return grain if grain in _BELOW_DAY else DAY


def _column(rows: Rows, expression: Expression) -> Column | None:
    """Return the column an expression is, or the first it reads."""
    if not expression.names:
        return None
    return rows.column_of(expression.names[0], expression)[1]


def split_by_time(filters: Sequence[RowFilter], times: TimeReader) -> tuple[list[RowFilter], list[RowFilter]]:
    """Return the conditions on that time alone, and all others."""
    on_time = [condition for condition in filters if times.read(condition.expression) is not None]
    return on_time, [condition for condition in filters if condition not in on_time]


def note_of_rest(fact: str, take: str, over: Name, rest: Sequence[RowFilter]) -> str:
    """Return what the receipt says of conditions that come after the moment was found."""
    texts = ", ".join(f"`{condition.expression.text}`" for condition in rest)
    return (
        f"the {take} {over} is looked for among all rows of {fact}: {texts} holds after that; "
        f"conditions on {over} alone and the time_range hold before it"
    )
