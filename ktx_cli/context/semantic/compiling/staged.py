"""Rows picked before they are aggregated: each of the fact's rows once, or those of the last moment alone."""

from __future__ import annotations

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import column, identifier
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.expressions.names import Expression, Name, placeholder
from ktx_cli.context.semantic.model import SemiAdditive


class Stage:
    """The inner query of two: dimensions `d0`, ..., what aggregates read `c0`, ..., and what decides about a row."""

    def __init__(self, rows: Rows, *, distinct: bool) -> None:
        self.rows = rows
        self._distinct = distinct
        self._selected: dict[str, exp.Expr] = {}
        self._columns: dict[str, str] = {}
        self._last: SemiAdditive | None = None

    def dimensions(self, values: dict[int, exp.Expr]) -> None:
        """Select what is grouped by."""
        for number, value in values.items():
            self._selected[f"d{number}"] = value

    def bind(self, expression: Expression) -> exp.Expr:
        """Return an expression over the outer query's columns; what it reads is selected inside."""
        return self.rows.bound(expression, lambda name: self._outer(self.rows.value(name, expression)))

    def select(self, name: str, value: exp.Expr) -> None:
        """Select one column more."""
        self._selected[name] = value

    def only_last(
        self,
        semi: SemiAdditive,
        over: Name,
        values: dict[int, exp.Expr],
        partition: list[int],
        where: list[exp.Expr],
        among: list[exp.Expr],
    ) -> None:
        """Find the last (first) moment of each period, see `last`; the conditions `where` come after that.

        `among`: conditions of the measure on the moments that are looked at.
        """
        self._last = semi
        moment = self._value(over)
        parts = [values[number].copy() for number in partition] + [self._value(Name((), name)) for name in semi.per]
        pick = exp.Min if semi.take == "first" else exp.Max
        self._selected["t"] = moment
        looked_at = moment.copy()
        if among:
            looked_at = exp.Case(ifs=[exp.If(this=exp.and_(*among, copy=False), true=looked_at)])
        self._selected["t_last"] = exp.Window(this=pick(this=looked_at), partition_by=parts)
        if where:
            one, zero = exp.Literal.number(1), exp.Literal.number(0)
            kept = exp.and_(*where, copy=False)
            self._selected["kept"] = exp.Case(ifs=[exp.If(this=kept, true=one)], default=zero)

    def inner(self) -> exp.Select:
        """Return the inner query."""
        selected = dict(self._selected)
        if self._distinct:
            for number, name in enumerate(self.rows.fact.grain):
                selected[f"g{number}"] = self.rows.own(name)
        aliased = [exp.Alias(this=value, alias=identifier(name)) for name, value in selected.items()]
        query = self.rows.select(aliased or [exp.Literal.number(1)])
        return query.distinct(copy=False) if self._distinct else query

    def outer_conditions(self, relation: str) -> list[exp.Expr]:
        """Return what the outer query keeps."""
        if "kept" not in self._selected:
            return []
        return [exp.EQ(this=column("kept", relation), expression=exp.Literal.number(1))]

    def last(self) -> exp.Expr | None:
        """Return the condition that a row is of the last moment; groups without such rows stay, with nothing."""
        return None if self._last is None else exp.EQ(this=column("t"), expression=column("t_last"))

    def _outer(self, value: exp.Expr) -> exp.Expr:
        key = value.sql()
        if key not in self._columns:
            self._columns[key] = f"c{len(self._columns)}"
            self._selected[self._columns[key]] = value
        return column(self._columns[key])

    def _value(self, name: Name) -> exp.Expr:
        return self.rows.bind(Expression(placeholder(0), (name,), None, str(name)))
