"""Determine an answer's number formats from column scales and the `format` and `unit` of measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from ktx_cli.core import NumberStyle
from ktx_cli.semantic.answer import CompiledQuery
from ktx_cli.semantic.expressions.fragments import percentile_of
from ktx_cli.semantic.expressions.names import Expression, Names
from ktx_cli.semantic.model import Column, Measure, SemanticError, Source
from ktx_cli.semantic.plan.plan import Leaf, Output, Plan
from ktx_cli.warehouses import SemanticType, decimal_places

ScaleOf = Callable[[Source, Column], int | None]
"""Returns the number of decimal places of a physical column, or None if unknown."""

_WITHOUT_CENTS: Final = ("CLP", "ISK", "JPY", "KRW", "PYG", "UGX", "VND", "XAF", "XOF", "XPF")
_WITH_MILLS: Final = ("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND")
_WITH_CENTS: Final = frozenset(
    re.findall(
        r"\w+",
        "AED ARS AUD BGN BRL CAD CHF CNY COP CZK DKK EGP EUR GBP HKD HUF IDR ILS INR KES MAD MXN MYR NGN NOK NZD PEN "
        "PHP PKR PLN QAR RON RUB SAR SEK SGD THB TRY TWD UAH USD ZAR",
    )
)

CURRENCY_DECIMALS: Final = (
    dict.fromkeys(_WITH_CENTS, 2) | dict.fromkeys(_WITHOUT_CENTS, 0) | dict.fromkeys(_WITH_MILLS, 3)
)
"""The decimal places of currencies (ISO 4217)."""

_POWER: Final = re.compile(r"1(0*)(?:\.0*)?")
_PERCENT: Final = NumberStyle(1, computed=True, percent=100, significant=2)
_PERCENT_UNITS: Final = ("%", "percent", "percentage", "pct")
_NAMED: Final = re.compile(r"(percent|percentage|decimal|fixed|usd|eur|gbp)_?(\d{1,2})?")
_PYTHON: Final = re.compile(r"[$€£]?,?\.(\d{1,2})([f%])")
_SPREADSHEET: Final = re.compile(r"[^#0.,;%\"]*(?:\"[^\"]*\")?[#0,]*[#0](?:\.([0#]+))?\s*(%)?[^#0.,;%]*(?:;.*)?")


@dataclass(frozen=True, slots=True)
class _Scale:
    """The decimal places of an expression, and whether it is a quotient or average."""

    decimals: int | None
    computed: bool = False


_UNKNOWN: Final = _Scale(None)
_WHOLE: Final = _Scale(0)


def number_styles(asked: CompiledQuery, scale_of: ScaleOf) -> list[NumberStyle | None]:
    """Return the number style of each column in the answer, or None if unknown."""
    scales = _Scales(asked.compiled.build.names, asked.plan, scale_of)
    return [
        *(scales.dimension(dimension.expression) for dimension in asked.plan.dimensions),
        *map(scales.output, asked.plan.outputs),
    ]


def sums_of_text(asked: CompiledQuery) -> list[tuple[str, str]]:
    """Return the sums and averages of string columns in a query, each as (`sum`, `customers.name`)."""
    traced = _Scales(asked.compiled.build.names, asked.plan, lambda source, column: None)
    found = [traced.sum_of_text(leaf) for leaf in asked.plan.leaves]
    return list(dict.fromkeys(each for each in found if each is not None))


def style_of_format(text: str | None) -> NumberStyle | None:
    """Parse a measure's `format`, or return None if it is unknown.

    It can be a name (`percent`, `currency`, `integer`, or LookML names such as `usd_0` and `decimal_2`), a spreadsheet
    pattern (`0.0%`, `#,##0.00`), or a d3 or Python pattern (`.1%`, `,.2f`).
    """
    name = (text or "").strip().lower()
    if name in ("integer", "count"):
        return _rounded(0)
    named = _NAMED.fullmatch(name)
    if named is not None:
        percent = named[1].startswith("percent")
        if named[2] is None:
            return _PERCENT if percent else _rounded(2, grouped=True)
        return _rounded(int(named[2]), percent=percent, grouped=not percent)
    pattern = _PYTHON.fullmatch(name) or _SPREADSHEET.fullmatch(name)
    if pattern is None or not name:
        return None
    digits = pattern[1] or ""
    decimals = int(digits) if digits.isdecimal() and pattern.re is _PYTHON else len(digits)
    return _rounded(decimals, percent=pattern[2] == "%", grouped="," in name)


def _rounded(decimals: int, *, percent: bool = False, grouped: bool = False) -> NumberStyle:
    return NumberStyle(decimals, computed=True, percent=100 if percent else 0, significant=0, grouped=grouped)


class _Scales:
    """Traces the columns of one answer to table columns."""

    def __init__(self, names: Names, plan: Plan, scale_of: ScaleOf) -> None:
        self._names = names
        self._plan = plan
        self._scale_of = scale_of

    def output(self, output: Output) -> NumberStyle:
        """Return a measure's style from its `format`, its `unit` or the scale of its columns, in this order."""
        measure = self._measure(output)
        unit = (output.unit or "").strip()
        currency = CURRENCY_DECIMALS.get(unit.upper())
        wanted = (output.format or "").strip().lower()
        if wanted == "currency":
            style: NumberStyle | None = _rounded(2 if currency is None else currency, grouped=True)
        else:
            style = style_of_format(wanted)
        if style is None and (
            unit.lower() in _PERCENT_UNITS or (measure is not None and measure.percent_of is not None)
        ):
            return NumberStyle(1, computed=True, percent=1, significant=2)
        if style is not None and style.percent and _is_hundredfold(output.formula):
            return NumberStyle(style.decimals, computed=True, percent=1, significant=style.significant)
        if style is not None:
            return style
        scale = self._scale(output.formula, self._of_leaf)
        if currency is not None and (scale.computed or scale.decimals is None):
            return NumberStyle(currency, computed=scale.computed)
        return NumberStyle(_wider(scale), computed=scale.computed)

    def dimension(self, expression: Expression) -> NumberStyle:
        """Return the style of a dimension's column."""
        scale = self._of_expression(expression, None)
        return NumberStyle(_wider(scale), computed=scale.computed)

    def _measure(self, output: Output) -> Measure | None:
        source, _, name = (output.ref or "").rpartition(".")
        found = self._names.model.sources.get(source)
        return None if found is None else found.measures.get(name)

    def _of_leaf(self, number: int) -> _Scale:
        if number < 0:
            return self._of_expression(self._plan.dimensions[-1 - number].expression, None)
        leaf = self._plan.leaves[number]
        if leaf.nested is not None:
            formulas = leaf.nested.formulas
            names = leaf.aggregate.names
            return self._aggregate(
                leaf.aggregate.tree, lambda place: self._scale(formulas[int(names[place].column)], self._of_leaf)
            )
        return self._of_expression(leaf.aggregate, leaf)

    def _of_expression(self, expression: Expression, leaf: Leaf | None) -> _Scale:
        def of(place: int) -> _Scale:
            found = self._column_of(expression, leaf, place)
            return _UNKNOWN if found is None else self._of_column(*found)

        return self._aggregate(expression.tree, of)

    def _column_of(self, expression: Expression, leaf: Leaf | None, place: int) -> tuple[Source, Column] | None:
        """Return the column that a placeholder stands for, with its source; None if there is none."""
        start, name = expression.home or ("" if leaf is None else leaf.fact), expression.names[place]
        if name.is_metric_time:
            return None
        try:
            path = self._names.graph.path(start, name.hops) if expression.home and name.hops else None
            end = path.end if path is not None else self._names.target_of(name.hops) if name.hops else start
        except SemanticError:
            return None
        source = self._names.model.sources[end]
        column = source.column(name.column)
        return None if column is None else (source, column)

    def sum_of_text(self, leaf: Leaf) -> tuple[str, str] | None:
        """Return the function and the column of a leaf that adds the values of a string column; None for others."""
        node = leaf.aggregate.tree
        while isinstance(node, exp.Filter | exp.Paren):
            node = node.this
        if leaf.nested is not None or not (
            isinstance(node, exp.Sum | exp.Avg) and isinstance(node.this, exp.Placeholder)
        ):
            return None
        source, column = self._column_of(leaf.aggregate, leaf, int(node.this.name)) or (None, None)
        if source is None or column is None or column.type is not SemanticType.STRING or column.expr is not None:
            return None
        return node.key, f"{source.name}.{column.name}"

    def _of_column(self, source: Source, column: Column) -> _Scale:
        if column.type is not SemanticType.NUMBER:
            return _UNKNOWN
        if column.expr is None:
            return _Scale(self._scale_of(source, column))
        try:
            return self._of_expression(self._names.computed(source, column), None)
        except (SemanticError, RecursionError):  # other checks report the error
            return _UNKNOWN

    def _aggregate(self, tree: exp.Expr, of: Callable[[int], _Scale]) -> _Scale:
        """Return the scale of an aggregate, or of an expression over columns."""
        node = tree
        while isinstance(node, exp.Filter | exp.Paren):
            node = node.this
        percentile = percentile_of(node)
        if percentile is not None:
            return _computed(self._scale(percentile[0], of))
        if isinstance(node, exp.Count | exp.CountIf | exp.ApproxDistinct):
            return _WHOLE
        if isinstance(node, exp.Sum | exp.Min | exp.Max):
            inner = node.this
            distinct = inner.expressions[0] if isinstance(inner, exp.Distinct) and inner.expressions else inner
            return self._scale(distinct, of)
        if isinstance(node, exp.AggFunc):
            return _computed(self._scale(node.this, of)) if isinstance(node.this, exp.Expr) else _UNKNOWN
        return self._scale(node, of)

    def _scale(self, tree: exp.Expr, of: Callable[[int], _Scale]) -> _Scale:
        """Return an expression's scale from the scales of its placeholders."""
        if isinstance(tree, exp.Placeholder):
            return of(int(tree.name))
        if isinstance(tree, exp.Literal):
            return _UNKNOWN if tree.is_string else _Scale(len(tree.name.partition(".")[2]))
        if isinstance(tree, exp.AggFunc | exp.Filter | exp.WithinGroup):
            return self._aggregate(tree, of)
        if isinstance(tree, exp.Paren | exp.Neg | exp.Abs | exp.Nullif):
            return self._scale(tree.this, of)
        if isinstance(tree, exp.Cast):
            return self._cast(tree, of)
        if isinstance(tree, exp.Round):
            digits = tree.args.get("decimals")
            return (
                _Scale(int(digits.name)) if isinstance(digits, exp.Literal) else _WHOLE if digits is None else _UNKNOWN
            )
        if isinstance(tree, exp.Div):
            return self._quotient(tree, of)
        parts = [self._scale(part, of) for part in _parts(tree)]
        if not parts or any(part.decimals is None for part in parts):
            return _Scale(None, any(part.computed for part in parts))
        decimals = [part.decimals or 0 for part in parts]
        whole = sum(decimals) if isinstance(tree, exp.Mul) else max(decimals)
        return _Scale(whole, any(part.computed for part in parts))

    def _quotient(self, tree: exp.Div, of: Callable[[int], _Scale]) -> _Scale:
        """Return the scale of a division. Cents divided by 100 are exact with two more digits."""
        scale, divisor = self._scale(tree.this, of), tree.expression.unnest()
        power = _POWER.fullmatch(divisor.name) if isinstance(divisor, exp.Literal) and divisor.is_number else None
        if power is None:
            return _computed(scale)
        return _Scale(None if scale.decimals is None else scale.decimals + len(power[1]), scale.computed)

    def _cast(self, tree: exp.Cast, of: Callable[[int], _Scale]) -> _Scale:
        spelled = decimal_places(tree.to.sql())
        return self._scale(tree.this, of) if spelled is None else _Scale(spelled)


def _parts(tree: exp.Expr) -> Sequence[exp.Expr]:
    """Return the operands that determine the digits of a sum, product or choice, or none."""
    if isinstance(tree, exp.Add | exp.Sub | exp.Mul | exp.Mod):
        return [tree.this, tree.expression]
    if isinstance(tree, exp.Coalesce):
        return [tree.this, *tree.expressions]
    if isinstance(tree, exp.Case):
        result = [branch.args["true"] for branch in tree.args["ifs"]]
        default = tree.args.get("default")
        chosen = result if default is None else [*result, default]
        return [each for each in chosen if not isinstance(each, exp.Null)]
    return []


def _computed(scale: _Scale) -> _Scale:
    return _Scale(scale.decimals, computed=True)


def _wider(scale: _Scale) -> int | None:
    """Return the digits to print. Averages and quotients have two more than their inputs."""
    if not scale.computed:
        return scale.decimals
    return (2 if scale.decimals is None else scale.decimals) + 2


def _is_hundredfold(formula: exp.Expr) -> bool:
    """Whether a formula is itself a percentage because it is multiplied by 100."""
    node = formula.unnest()
    while isinstance(node, exp.Div | exp.Cast):
        node = node.this.unnest()
    if not isinstance(node, exp.Mul):
        return False
    ends = (node.this.unnest(), node.expression.unnest())
    return any(isinstance(end, exp.Literal) and end.is_number and float(end.name) == 100 for end in ends) or any(
        _is_hundredfold(end) for end in ends if isinstance(end, exp.Mul | exp.Div)
    )
