"""Values of rows: three-valued logic, comparison, arithmetic, functions; and expressions over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.nodes import Call, Case, Lit, Node, Op, Ref, is_aggregate

Look = Callable[[Node], Any]
"""Gives the value of a reference, a slot, or an aggregate."""


def exact(value: Any) -> Any:
    """Return a value as the oracle counts with it: a Decimal as a Fraction."""
    return Fraction(value) if isinstance(value, Decimal) else value


def evaluate(node: Node, look: Look) -> Any:
    """Return the value of an expression; `look` answers for references, slots and aggregates."""
    if isinstance(node, Lit):
        return node.value
    if isinstance(node, Op):
        return _operate(node, look)
    if isinstance(node, Case):
        taken = next((then for when, then in node.whens if evaluate(when, look) is True), node.default)
        return evaluate(taken, look)
    if isinstance(node, Ref) or is_aggregate(node) or not isinstance(node, Call):
        return look(node)
    return _call(node.name, [evaluate(arg, look) for arg in node.args])


def _operate(node: Op, look: Look) -> Any:
    values = [evaluate(arg, look) for arg in node.args]
    name = node.name
    if name == "and":
        return False if False in map(truth, values) else None if None in values else True
    if name == "or":
        return True if True in map(truth, values) else None if None in values else False
    if name == "not":
        return None if values[0] is None else not truth(values[0])
    if name == "null":
        return values[0] is None
    if name == "in":
        return _in(values[0], values[1:])
    if name == "between":
        return _both(compare(">=", values[0], values[1]), compare("<=", values[0], values[2]))
    if None in values:
        return None
    if name == "like":
        return _like(*values)
    return compare(name, *values) if name in _ORDER else arithmetic(name, *values)


def truth(value: Any) -> bool | None:
    """Return a value as a condition: TRUE, FALSE or unknown."""
    return None if value is None else bool(value)


def _both(left: bool | None, right: bool | None) -> bool | None:
    return False if left is False or right is False else None if left is None or right is None else True


def _in(value: Any, members: Sequence[Any]) -> bool | None:
    found = [compare("=", value, member) for member in members]
    return True if True in found else None if None in found else False


_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "<>": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def compare(name: str, left: Any, right: Any) -> bool | None:
    """Compare as SQL does: unknown with NULL; a text beside a date or timestamp is read as one."""
    if left is None or right is None:
        return None
    if isinstance(left, date) or isinstance(right, date):
        left, right = moment(left), moment(right)
    return _ORDER[name](left, right)


def moment(value: Any) -> datetime:
    """Return a date, timestamp or ISO text as a timestamp."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def arithmetic(name: str, *values: Any) -> Any:
    """Count exactly; division by zero is NULL."""
    if name == "neg":
        return -values[0]
    left, right = values
    if name == "||":
        return f"{left}{right}"
    if name == "/":
        return (
            None
            if right == 0
            else left / right
            if isinstance(left, float) or isinstance(right, float)
            else Fraction(left) / right
        )
    if name == "%":
        return None if right == 0 else left - right * int(left / right)
    return left + right if name == "+" else left - right if name == "-" else left * right


def _like(value: str, pattern: str) -> bool:
    parts = (".*" if char == "%" else "." if char == "_" else re.escape(char) for char in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _call(name: str, values: list[Any]) -> Any:
    if name == "coalesce":
        return next((value for value in values if value is not None), None)
    if name == "nullif":
        return None if compare("=", *values) is True else values[0]
    if name == "safe_divide":
        return None if None in values else arithmetic("/", *values)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise OracleError("query", f"the oracle has no function `{name}`")
    return None if values[0] is None else function(*values)


def _round(value: Any, digits: int = 0) -> Any:
    scale = 10**digits
    scaled = abs(Fraction(value)) * scale
    whole = (scaled + Fraction(1, 2)).__floor__()
    return Fraction(whole, scale) * (-1 if value < 0 else 1)


def _cast(value: Any, target: str) -> Any:
    if target in ("date",):
        return moment(value).date()
    if target in ("varchar", "text"):
        return str(value)
    if target in ("double", "float", "real", "decimal", "numeric"):
        return exact(value)
    return int(value)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
    "length": len,
    "abs": abs,
    "round": _round,
    "cast": _cast,
}
