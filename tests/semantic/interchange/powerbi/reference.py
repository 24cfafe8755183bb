"""What DAX computes, in plain Python: a second reading of the language, for measures of the market without time.

Blank is None. A filter context is a set of rows of `Sales`, each with the columns of the tables that it is related to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from ktx_cli.semantic.interchange.powerbi.dax import Binary, Call, Column, Dax, Let, Name, Number, Rows, Text, Unary

Row = dict[tuple[str, str], Any]
COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class OpenError(Exception):
    """The value is infinite, or an aggregate of no rows, where the report of an import states a difference."""


def arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Return a sum, difference, product or quotient of values that may be blank."""
    if sign in "+-":
        if left is None and right is None:
            return None
        return (left or 0) + (right or 0) if sign == "+" else (left or 0) - (right or 0)
    if sign == "*":
        return None if left is None or right is None else left * right
    if not right:
        raise OpenError
    return None if left is None else left / right


def compare(sign: str, left: Any, right: Any) -> bool:
    """Return a comparison in which blank counts as the zero of the other type, except for `==`."""
    if sign == "==":
        return bool(left == right) if None not in (left, right) else left is right
    if left is None and right is None:
        left = right = 0
    zeros = {str: "", bool: False, date: date(1899, 12, 30)}
    if left is None:
        left = zeros.get(type(right), 0)
    if right is None:
        right = zeros.get(type(left), 0)
    return COMPARED[sign](left, right)


class Reference:
    """Evaluates measures. `measures`: the expressions of the model by name."""

    def __init__(self, measures: dict[str, Dax]) -> None:
        self.measures = measures

    # One row.

    def row(self, node: Dax, row: Row) -> Any:
        """Return the value of an expression in a row."""
        if isinstance(node, Number):
            return float(node.text)
        if isinstance(node, Text):
            return node.value
        if isinstance(node, Column):
            return row[str(node.table), node.name]
        if isinstance(node, Unary):
            value = self.row(node.operand, row)
            return not value if node.operator == "NOT" else None if value is None else -value
        if isinstance(node, Binary) and node.operator in ("&&", "||"):
            sides = [bool(self.row(each, row)) for each in (node.left, node.right)]
            return all(sides) if node.operator == "&&" else any(sides)
        if isinstance(node, Binary) and node.operator == "IN":
            assert isinstance(node.right, Rows)
            value = self.row(node.left, row)
            return any(compare("==", value, self.row(each[0], row)) for each in node.right.rows)
        if isinstance(node, Binary):
            act = arithmetic if node.operator in "+-*/" else compare
            return act(node.operator, self.row(node.left, row), self.row(node.right, row))
        assert isinstance(node, Call), node
        return self.function(node, lambda each: self.row(each, row))

    def function(self, node: Call, value: Callable[[Any], Any]) -> Any:
        """Return the value of a function that rows and measures share."""
        given = list(node.arguments)
        if node.name == "BLANK":
            return None
        if node.name in ("TRUE", "FALSE"):
            return node.name == "TRUE"
        if node.name == "DATE":
            return date(*(int(value(each)) for each in given))
        if node.name == "RELATED":
            return value(given[0])
        if node.name == "ISBLANK":
            return value(given[0]) is None
        if node.name in ("AND", "OR"):
            sides = [bool(value(each)) for each in given]
            return all(sides) if node.name == "AND" else any(sides)
        if node.name == "NOT":
            return not value(given[0])
        if node.name == "IF":
            return value(given[1]) if value(given[0]) else value(given[2]) if len(given) > 2 else None
        if node.name == "COALESCE":
            return next((found for each in given if (found := value(each)) is not None), None)
        if node.name == "DIVIDE":
            top, bottom = value(given[0]), value(given[1])
            if not bottom:
                return value(given[2]) if len(given) > 2 else None
            return None if top is None else top / bottom
        assert node.name == "SWITCH", node.name
        subject, pairs = value(given[0]), given[1:]
        for test, result in zip(pairs[::2], pairs[1::2], strict=False):
            if compare("=", subject, value(test)):
                return value(result)
        return value(pairs[-1]) if len(pairs) % 2 else None

    # The rows of a query.

    def measure(self, node: Dax, rows: Sequence[Row], known: dict[str, Any]) -> Any:
        """Return the value of an expression for the rows of a query. `known`: the values of variables."""
        if isinstance(node, Number | Text):
            return self.row(node, {})
        if isinstance(node, Name):
            return known[node.name]
        if isinstance(node, Column):
            return self.measure(self.measures[node.name], rows, {})
        if isinstance(node, Let):
            for name, value in node.variables:
                known = {**known, name: self.measure(value, rows, known)}
            return self.measure(node.body, rows, known)
        if isinstance(node, Unary):
            value = self.measure(node.operand, rows, known)
            return not value if node.operator == "NOT" else None if value is None else -value
        if isinstance(node, Binary):
            left, right = (self.measure(each, rows, known) for each in (node.left, node.right))
            if node.operator in ("&&", "||"):
                return bool(left and right) if node.operator == "&&" else bool(left or right)
            return (arithmetic if node.operator in "+-*/" else compare)(node.operator, left, right)
        assert isinstance(node, Call), node
        if node.name == "CALCULATE":
            for each in node.arguments[1:]:
                rows = self.kept(each, rows)
            return self.measure(node.arguments[0], rows, known)  # type: ignore[arg-type]
        if node.name in ("SUM", "AVERAGE", "MIN", "MAX", "COUNT", "DISTINCTCOUNT", "COUNTROWS") or node.name[-1] == "X":
            return self.aggregate(node, rows)
        return self.function(node, lambda each: self.measure(each, rows, known))

    def kept(self, node: Any, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that meet a filter."""
        if isinstance(node, Call) and node.name in ("FILTER", "KEEPFILTERS"):
            node = node.arguments[-1]
        return [row for row in rows if self.row(node, row)]

    def aggregate(self, node: Call, rows: Sequence[Row]) -> Any:
        """Return an aggregate. One of no values is open, because ktx returns 0 for some of them."""
        first = node.arguments[0]
        if isinstance(first, Call):
            rows = self.kept(first, rows)
        name = node.name.removesuffix("X")
        if not rows:
            raise OpenError
        if name == "COUNTROWS":
            return len(rows)
        values = [self.row(node.arguments[-1], row) for row in rows]  # type: ignore[arg-type]
        if name == "DISTINCTCOUNT":
            return len(set(values))
        values = [each for each in values if each is not None]
        if not values:
            raise OpenError
        if name == "AVERAGE":
            return sum(values) / len(values)
        return {"SUM": sum, "MIN": min, "MAX": max, "COUNT": len}[name](values)
