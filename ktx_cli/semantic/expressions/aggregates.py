"""Aggregates in a tree: which they are, what they do with nothing, and how a condition gets into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlglot import exp

from ktx_cli.semantic.model import SemanticError
from ktx_cli.warehouses import Dialect, dialect_named

COUNT, SUM, OTHER = "count", "sum", "other"
"""What an aggregate gives for no rows: 0 in any case, 0 inside a formula, nothing."""

_IGNORES_NULL: Final = (
    exp.Sum,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Count,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Variance,
    exp.VariancePop,
    exp.Median,
    exp.Quantile,
    exp.ApproxDistinct,
    exp.ApproxQuantile,
    exp.LogicalAnd,
    exp.LogicalOr,
    exp.GroupConcat,
    exp.Corr,
    exp.CovarPop,
    exp.CovarSamp,
)


def is_aggregate(node: exp.Expr) -> bool:
    """Say whether a node is an aggregate, with its FILTER or WITHIN GROUP around it."""
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def has_aggregate(tree: exp.Expr) -> bool:
    """Say whether there is an aggregate in the tree."""
    return any(is_aggregate(node) for node in tree.walk())


def kind_of(aggregate: exp.Expr) -> str:
    """Return what the aggregate gives for no rows: `count`, `sum` or `other`."""
    inner = aggregate
    while isinstance(inner, exp.Filter | exp.WithinGroup | exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.Count | exp.CountIf | exp.ApproxDistinct):
        return COUNT
    return SUM if isinstance(inner, exp.Sum) else OTHER


def counts_rows(aggregate: exp.Expr) -> bool:
    """Say whether it is count(*), or count of a constant."""
    return isinstance(aggregate, exp.Count) and (
        aggregate.this is None or isinstance(aggregate.this, exp.Star | exp.Literal | exp.Boolean)
    )


def distinct_columns(aggregate: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of count(distinct a, b, ...) where there are several, else none."""
    if isinstance(aggregate, exp.Count) and isinstance(aggregate.this, exp.Distinct):
        result: list[exp.Expr] = aggregate.this.expressions
        if len(result) == 1 and isinstance(result[0], exp.Tuple):
            result = result[0].expressions
        return result if len(result) > 1 else []
    return []


def percentile_of(aggregate: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return (what is ranked, the fraction) of a median or a continuous percentile, else None."""
    if isinstance(aggregate, exp.Median):
        return aggregate.this, exp.Literal.number("0.5")
    if isinstance(aggregate, exp.Quantile):
        return aggregate.this, aggregate.args["quantile"]
    if isinstance(aggregate, exp.WithinGroup) and isinstance(aggregate.this, exp.PercentileCont):
        ordered = aggregate.expression.expressions[0]
        if isinstance(ordered, exp.Ordered) and not ordered.args.get("desc"):
            return ordered.this, aggregate.this.this
    return None


def with_condition(aggregate: exp.Expr, condition: exp.Expr | None, dialect: str) -> exp.Expr:
    """Return the aggregate over the rows for which the condition holds. The trees given are used up."""
    if isinstance(aggregate, exp.Filter):
        own = aggregate.expression.this
        condition = own if condition is None else exp.and_(condition, own, copy=False)
        aggregate = aggregate.this
    syntax = dialect_named(dialect)
    aggregate = _exact(aggregate, syntax)
    if condition is None:
        return aggregate
    if counts_rows(aggregate):
        return exp.Count(this=_case(condition, exp.Literal.number(1)), big_int=True)
    if isinstance(aggregate, exp.WithinGroup):
        ordered = aggregate.expression.expressions[0]
        ordered.set("this", _case(condition, ordered.this))
        return aggregate
    if isinstance(aggregate, exp.CountIf):
        aggregate.set("this", exp.and_(condition, aggregate.this, copy=False))
        return aggregate
    if isinstance(aggregate, _IGNORES_NULL):
        return _inside(aggregate, lambda argument: _case(condition, argument))
    if syntax.filters_aggregates:
        return exp.Filter(this=aggregate, expression=exp.Where(this=condition))
    raise SemanticError(
        f"{aggregate.sql(dialect)} cannot be filtered in {dialect}: it may count rows without a value",
        hint="put the condition into a source with `sql:`, or use another aggregate",
        code="definition",
    )


def _inside(aggregate: exp.Expr, wrap: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    argument = aggregate.this
    if isinstance(argument, exp.Distinct):
        argument.set("expressions", [wrap(value) for value in argument.expressions])
    elif isinstance(argument, exp.Order):
        argument.set("this", wrap(argument.this))
    else:
        aggregate.set("this", wrap(argument))
    return aggregate


def _exact(aggregate: exp.Expr, syntax: Dialect) -> exp.Expr:
    """Return the aggregate as the dialect computes it right: averages with decimals, percentiles by one name."""
    percentile = percentile_of(aggregate)
    if percentile is not None and syntax.has_percentiles:
        value, fraction = percentile
        if syntax.rounds_percentiles:
            value = _double(value)
        order = exp.Order(expressions=[exp.Ordered(this=value, desc=False, nulls_first=False)])
        return exp.WithinGroup(this=exp.PercentileCont(this=fraction), expression=order)
    if syntax.rounds_averages and isinstance(aggregate, exp.Avg):
        return _inside(aggregate, _double)
    return aggregate


def _double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType.build("double"))


def _case(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
