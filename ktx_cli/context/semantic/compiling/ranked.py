"""Percentiles where the dialect has none to aggregate by: rows numbered in their order, the two neighbours weighed.

The continuous percentile of SQL: position p * (n - 1), counted from 0, between two values by linear interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import column, identifier, named
from ktx_cli.context.semantic.expressions.aggregates import NATIVE_PERCENTILES, percentile_of


def needs_ranks(aggregate: exp.Expr, dialect: str) -> bool:
    """Say whether an aggregate is a percentile the dialect cannot aggregate by."""
    return dialect not in NATIVE_PERCENTILES and percentile_of(aggregate) is not None


def rank_query(relation: str, value: exp.Expr, keys: Sequence[str], where: Sequence[exp.Expr]) -> exp.Select:
    """Return the rows of a named query with their value `x`, its rank `r` from 1 and how many there are, `n`."""
    selected = [exp.Alias(this=column(key, relation), alias=identifier(key)) for key in keys]
    parts = [column(key, relation) for key in keys]
    missing = exp.Case(
        ifs=[exp.If(this=exp.Is(this=value.copy(), expression=exp.null()), true=exp.Literal.number(1))],
        default=exp.Literal.number(0),
    )
    order = exp.Order(expressions=[_ascending(missing), _ascending(value.copy())])
    rank = exp.Window(this=exp.RowNumber(), partition_by=[each.copy() for each in parts], order=order)
    count = exp.Window(this=exp.Count(this=value.copy(), big_int=True), partition_by=[each.copy() for each in parts])
    columns = {"x": value, "r": rank, "n": count}
    selected += [exp.Alias(this=each, alias=identifier(name)) for name, each in columns.items()]
    query = exp.select(*selected, copy=False).from_(named(relation), copy=False)
    return query.where(*where, copy=False)


def weighed(fraction: exp.Expr, relation: str, dialect: str) -> exp.Expr:
    """Return the percentile as a sum over ranked rows."""
    last = exp.Sub(this=column("n", relation), expression=exp.Literal.number(1))
    position = exp.Mul(this=exp.paren(fraction.copy()), expression=exp.paren(last))
    below = _floor(position, dialect)
    share = exp.paren(exp.Sub(this=position.copy(), expression=below.copy()))
    rest = exp.paren(exp.Sub(this=exp.Literal.number("1.0"), expression=share.copy()))
    value = column("x", relation)

    def at(step: int) -> exp.Expr:
        place = exp.Add(this=below.copy(), expression=exp.Literal.number(step))
        return exp.EQ(this=column("r", relation), expression=place)

    cases = [
        exp.If(this=at(1), true=exp.Mul(this=value, expression=rest)),
        exp.If(this=at(2), true=exp.Mul(this=value.copy(), expression=share)),
    ]
    return exp.Sum(this=exp.Case(ifs=cases))


def _ascending(value: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=value, desc=False, nulls_first=None)


def _floor(value: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "sqlite":
        return exp.Cast(this=value.copy(), to=exp.DataType.build("bigint"))
    return exp.Floor(this=value.copy())
