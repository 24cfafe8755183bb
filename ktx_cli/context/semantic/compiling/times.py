"""Times in the rows of a fact: cut to a grain, held against a stretch of time."""

from __future__ import annotations

from sqlglot import exp

from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.errors import SemanticError
from ktx_cli.context.semantic.expressions.names import Expression, Name, placeholder
from ktx_cli.context.semantic.model import DAY, HOUR, MINUTE, SECOND, Column
from ktx_cli.context.semantic.planning.plan import Dimension, TimeRange
from ktx_cli.context.semantic.time import Kind, truncate, within

_BELOW_DAY = (SECOND, MINUTE, HOUR)


def kind_of(column: Column | None) -> Kind:
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


def is_time_of(rows: Rows, dimension: Dimension, name: Name) -> bool:
    """Say whether a dimension cuts that column of the fact."""
    if dimension.grain is None or dimension.column is None:
        return False
    if dimension.column.is_metric_time:
        return rows.time == name
    path = rows.names.graph.path(rows.fact.name, dimension.column.hops, dimension.expression.via)
    return path is not None and not path.edges and dimension.column.column == name.column


def is_range_of(rows: Rows, asked: TimeRange, name: Name | None) -> bool:
    """Say whether a stretch of time is on that column of the fact."""
    asked_for = asked.expression.names[0]
    if asked_for.is_metric_time:
        return rows.time == name
    path = rows.names.graph.path(rows.fact.name, asked_for.hops, asked.expression.via)
    return name is not None and path is not None and not path.edges and asked_for.column == name.column


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
    found = within(value, asked.start, asked.end, kind_of(column), rows.build.clock(column))
    if found is None:
        raise AssertionError("a stretch of time without ends")
    return found


def counted_by(grain: str) -> str:
    """Return the grain at which rows are held against periods of a grain: days, or the grain itself below them."""
    return grain if grain in _BELOW_DAY else DAY


def _column(rows: Rows, expression: Expression) -> Column | None:
    """Return the column an expression is, or the first it reads."""
    if not expression.names:
        return None
    return rows.column_of(expression.names[0], expression)[1]
