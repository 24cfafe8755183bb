"""Translate the formulas of calculated fields into SQL expressions that have the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.dates import Dates
from ktx_cli.semantic.interchange.tableau.formula import (
    Binary,
    Branches,
    Call,
    Constant,
    Field,
    Lod,
    Membership,
    Node,
    Unary,
)
from ktx_cli.semantic.interchange.tableau.functions import Settings, apply
from ktx_cli.semantic.interchange.tableau.values import (
    AGGREGATE,
    CONSTANT,
    TIMES,
    Value,
    alike,
    constant,
    divisor_of,
    grouped,
    one_type,
    operand,
    quotient,
    require_numbers,
    together,
)


class Scope(Settings, Protocol):
    """What the names in a formula stand for. The methods raise `UnresolvedError` for what ktx cannot express."""

    def field(self, field: Field) -> Value:
        """Return a field, parameter or calculated field."""

    def rows(self, field: Field) -> Value | None:
        """Return the count of a table's rows, or None if the field does not stand for them."""

    def members(self, field: Field) -> Value | None:
        """Return the condition for the members of a set, or None if the field is not a set."""

    def fixed(self, node: Lod) -> Value:
        """Return the value of a FIXED expression for each row."""

    def included(self, node: Lod) -> Value:
        """Return the measure that an INCLUDE expression aggregates, for a measure with two levels."""


AGGREGATES: Final = frozenset(
    ("SUM", "AVG", "COUNT", "COUNTD", "MIN", "MAX", "MEDIAN", "STDEV", "STDEVP", "VAR", "VARP", "PERCENTILE", "ATTR",
     "CORR", "COVAR", "COVARP")
)  # fmt: skip
"""The aggregate functions that ktx can express."""


def translated(node: Node, scope: Scope) -> Value:
    """Return the SQL for a formula. Raises `UnresolvedError`, with the reason, if ktx cannot express it."""
    return _Translator(scope).value(node)


class _Translator:
    """Translates one formula, node by node."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    def value(self, node: Node) -> Value:
        match node:
            case Constant():
                return constant(node)
            case Field():
                return self._scope.members(node) or self._scope.field(node)
            case Unary():
                return self._unary(node)
            case Binary():
                return self._binary(node)
            case Membership():
                return self._membership(node)
            case Branches():
                return self._branches(node)
            case Lod():
                if node.kind == "FIXED":
                    return self._scope.fixed(node)
                why = "use a measure with `percent_of`" if node.kind == "EXCLUDE" else "aggregate it directly"
                raise UnresolvedError(f"its {node.kind} expression depends on the dimensions of a view; {why}")
            case Call():
                return self._call(node)

    def _unary(self, node: Unary) -> Value:
        value = self.value(node.operand)
        if node.operator == "NOT":
            return together(exp.Not(this=grouped(value.sql)), "boolean", value)
        require_numbers("`-`", value)
        return together(exp.Neg(this=operand(value)), value.type, value)

    def _binary(self, node: Binary) -> Value:
        left, right, operator = self.value(node.left), self.value(node.right), node.operator
        if operator in ("AND", "OR"):
            kind = exp.And if operator == "AND" else exp.Or
            return together(kind(this=grouped(left.sql), expression=grouped(right.sql)), "boolean", left, right)
        if operator in _COMPARED:
            return _compared(_COMPARED[operator], left, right)
        if operator in ("+", "-") and {left.type, right.type} & {"string", *TIMES}:
            return self._other_sum(operator, left, right)
        require_numbers(f"`{operator}`", left, right)
        if operator == "/":
            return quotient(left, right)
        one, two = operand(left), operand(right)
        kind_of = "integer" if left.type == right.type == "integer" else "real"
        if operator == "%":
            return together(exp.Mod(this=one, expression=divisor_of(two)), kind_of, left, right, nullable=True)
        if operator == "^":
            return together(exp.Pow(this=one, expression=two), "real", left, right)
        reckon = {"+": exp.Add, "-": exp.Sub, "*": exp.Mul}[operator]
        return together(reckon(this=one, expression=two), kind_of, left, right)

    def _other_sum(self, operator: str, left: Value, right: Value) -> Value:
        """Return a sum of texts, a date plus or minus days, or the days between two dates."""
        if operator == "+" and left.type in ("string", "null") and right.type in ("string", "null"):
            sql = exp.DPipe(this=grouped(left.sql), expression=grouped(right.sql), safe=False)
            return together(sql, "string", left, right)
        if left.type in TIMES and right.type == "integer":
            return Dates(self._scope.dialect).added("day", right, left, -1 if operator == "-" else 1)
        if operator == "-" and left.type == right.type == "date":
            return together(Dates(self._scope.dialect).days(right.sql, left.sql), "integer", left, right)
        kinds = " and ".join(each.type or "unknown" for each in (left, right))
        raise UnresolvedError(f"ktx cannot apply `{operator}` to values of the types {kinds}")

    def _membership(self, node: Membership) -> Value:
        if node.of_set:
            option = node.options[0]
            found = self._scope.members(option) if isinstance(option, Field) else None
            if found is None:
                raise UnresolvedError("it uses a set whose members ktx cannot list")
            return found
        value, options = self.value(node.value), [self.value(each) for each in node.options]
        if any(each.level != CONSTANT for each in options):
            raise UnresolvedError("the list after IN contains more than constants")
        options = [alike(each, value) for each in options if each.type != "null"]
        return together(
            exp.In(this=grouped(value.sql), expressions=[each.sql for each in options]), "boolean", value, *options
        )

    def _branches(self, node: Branches) -> Value:
        subject = self.value(node.subject) if node.subject is not None else None
        pairs = [(self.value(one), self.value(two)) for one, two in node.pairs]
        otherwise = self.value(node.otherwise) if node.otherwise is not None else None
        case = exp.Case()
        for test, result in pairs:
            condition = test if subject is None else _compared("EQ", replace(subject, sql=subject.sql.copy()), test)
            case = case.when(condition.sql, result.sql, copy=False)
        results = [result for _, result in pairs]
        if otherwise is not None:
            results.append(otherwise)
            if otherwise.type != "null":
                case = case.else_(otherwise.sql, copy=False)
        used = [each for pair in pairs for each in pair] + results + ([subject] if subject is not None else [])
        is_nullable = otherwise is None or any(each.is_nullable for each in results)
        return together(case, one_type(results), *used, nullable=is_nullable)

    def _call(self, node: Call) -> Value:
        if node.name in AGGREGATES and not (node.name in ("MIN", "MAX") and len(node.arguments) == 2):
            return self._aggregate(node)
        return apply(node.name, [self.value(each) for each in node.arguments], self._scope)

    def _aggregate(self, node: Call) -> Value:
        expected = 2 if node.name in ("PERCENTILE", "CORR", "COVAR", "COVARP") else 1
        if len(node.arguments) != expected:
            raise UnresolvedError(f"`{node.name}` has {len(node.arguments)} arguments")
        first = node.arguments[0]
        rows = self._scope.rows(first) if isinstance(first, Field) else None
        if rows is not None and node.name in ("COUNT", "SUM"):
            return rows
        is_included = isinstance(first, Lod) and first.kind == "INCLUDE"
        values = [self._scope.included(first) if isinstance(first, Lod) and is_included else self.value(first)]
        values += [self.value(each) for each in node.arguments[1:]]
        if any(each.level == AGGREGATE for each in values) and not is_included:
            raise UnresolvedError("it aggregates an aggregate")
        return _aggregated(node.name, values)


_COMPARED: Final = {"=": "EQ", "<>": "NEQ", "<": "LT", "<=": "LTE", ">": "GT", ">=": "GTE"}


def _compared(kind: str, left: Value, right: Value) -> Value:
    one, two = alike(left, right), alike(right, left)
    sql = getattr(exp, kind)(this=grouped(one.sql), expression=grouped(two.sql))
    return together(sql, "boolean", one, two)


_SAME_TYPE: Final = ("MIN", "MAX", "ATTR")
_OF_NUMBERS: Final = ("SUM", "AVG", "MEDIAN", "STDEV", "STDEVP", "VAR", "VARP", "PERCENTILE", "CORR", "COVAR", "COVARP")
_ATTRIBUTE: Final = "it has no value where Tableau shows `*` because there are several"


def _aggregated(name: str, values: list[Value]) -> Value:
    """Return an aggregate of values of rows, or of the measure of an INCLUDE expression."""
    first = values[0]
    if name in _OF_NUMBERS:
        require_numbers(name, *values)
    sql = _BUILT[name](*(each.sql for each in values))
    kind = first.type if name in _SAME_TYPE or name == "SUM" else "integer" if name.startswith("COUNT") else "real"
    notes = first.notes + ((_ATTRIBUTE,) if name == "ATTR" else ())
    is_nullable = not name.startswith("COUNT") and (
        first.is_nullable or name not in ("SUM", "AVG", "MIN", "MAX", "MEDIAN")
    )
    return Value(sql, kind, AGGREGATE, is_nullable, is_sum=name == "SUM", notes=notes)


def _attribute(value: exp.Expr) -> exp.Expr:
    least, most = exp.Min(this=value), exp.Max(this=value.copy())
    return exp.Case().when(exp.EQ(this=least, expression=most), least.copy(), copy=False)


def _percentile(value: exp.Expr, fraction: exp.Expr) -> exp.Expr:
    if not isinstance(fraction, exp.Literal) or fraction.is_string or not 0 <= float(fraction.this) <= 1:
        raise UnresolvedError("its percentile is not a constant from 0 to 1")
    return exp.Anonymous(this="percentile", expressions=[value, fraction])


_BUILT: Final[dict[str, Callable[..., exp.Expr]]] = {
    "SUM": lambda x: exp.Sum(this=x),
    "AVG": lambda x: exp.Avg(this=x),
    "COUNT": lambda x: exp.Count(this=x),
    "COUNTD": lambda x: exp.Count(this=exp.Distinct(expressions=[x])),
    "MIN": lambda x: exp.Min(this=x),
    "MAX": lambda x: exp.Max(this=x),
    "MEDIAN": lambda x: exp.Median(this=x),
    "STDEV": lambda x: exp.StddevSamp(this=x),
    "STDEVP": lambda x: exp.StddevPop(this=x),
    "VAR": lambda x: exp.Variance(this=x),
    "VARP": lambda x: exp.VariancePop(this=x),
    "PERCENTILE": _percentile,
    "ATTR": _attribute,
    "CORR": lambda x, y: exp.Corr(this=x, expression=y),
    "COVAR": lambda x, y: exp.CovarSamp(this=x, expression=y),
    "COVARP": lambda x, y: exp.CovarPop(this=x, expression=y),
}
