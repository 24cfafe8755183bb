"""Translated parts of formulas, and the operations on them that keep Tableau's rules for NULL, numbers and dates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.formula import Constant

CONSTANT, ROW, AGGREGATE = 0, 1, 2
"""What an expression has one value for: everything, each row, or each group."""

NUMBERS: Final = ("integer", "real")
TIMES: Final = ("date", "datetime")


@dataclass(frozen=True, slots=True)
class Value:
    """A translated expression: its SQL, its data type in Tableau (empty if unknown), and its level.

    `is_nullable`: whether it can be NULL. `is_sum`: whether it is a sum, which ktx counts as 0 in arithmetic if there
    is nothing to sum. `notes` say how its values can differ.
    """

    sql: exp.Expr
    type: str
    level: int
    is_nullable: bool = True
    is_sum: bool = False
    notes: tuple[str, ...] = ()


def together(sql: exp.Expr, kind: str, *values: Value, nullable: bool | None = None, note: str = "") -> Value:
    """Return a value computed from others. Raises `UnresolvedError` if they mix rows and groups."""
    levels = {each.level for each in values} - {CONSTANT}
    if len(levels) > 1:
        raise UnresolvedError("it mixes values of rows and aggregates")
    notes = dict.fromkeys(note for each in values for note in each.notes)
    if note:
        notes[note] = None
    if nullable is None:
        nullable = any(each.is_nullable for each in values)
    return Value(sql, kind, max(levels, default=CONSTANT), nullable, notes=tuple(notes))


def grouped(tree: exp.Expr) -> exp.Expr:
    """Return an operand, in parentheses if it is an operation itself."""
    is_operation = isinstance(tree, exp.Binary | exp.Neg | exp.Not | exp.In | exp.Between)
    return exp.paren(tree, copy=False) if is_operation and not isinstance(tree, exp.Dot) else tree


def operand(value: Value) -> exp.Expr:
    """Return an operand of arithmetic. A sum without values stays NULL; ktx would count it as 0."""
    if value.level == AGGREGATE and value.is_sum and value.is_nullable:
        return exp.Nullif(this=value.sql, expression=exp.null())
    return grouped(value.sql)


def quotient(left: Value, right: Value) -> Value:
    """Return a division with decimals, which is NULL if the divisor is 0. ktx divides aggregates in the same way."""
    dividend, divisor = operand(left), grouped(right.sql)
    if AGGREGATE in (left.level, right.level):
        return together(exp.Div(this=dividend, expression=divisor, typed=True), "real", left, right, nullable=True)
    dividend, divisor = _inner(dividend), _inner(divisor)
    is_safe = _is_not_zero(divisor)
    sql = exp.Div(this=exp.cast(dividend, "double"), expression=divisor_of(divisor), typed=True)
    return together(sql, "real", left, right, nullable=True if not is_safe else None)


def divisor_of(tree: exp.Expr) -> exp.Expr:
    """Return a divisor that is NULL instead of 0."""
    return tree if _is_not_zero(tree) else exp.Nullif(this=tree, expression=exp.Literal.number(0))


def _is_not_zero(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and not tree.is_string and float(tree.this) != 0


def _inner(tree: exp.Expr) -> exp.Expr:
    return tree.this if isinstance(tree, exp.Paren) else tree


def alike(value: Value, other: Value) -> Value:
    """Return a value to compare with another one: a text constant that is compared with a date becomes a date."""
    is_text = value.type == "string" and value.level == CONSTANT and isinstance(value.sql, exp.Literal)
    return constant(Constant("date", str(value.sql.this))) if is_text and other.type in TIMES else value


def one_type(values: Iterable[Value]) -> str:
    """Return the common data type of branches. Raises `UnresolvedError` if there is none."""
    kinds = {each.type for each in values} - {"null", ""}
    if len(kinds) < 2:
        return next(iter(kinds), "")
    if kinds <= {*NUMBERS}:
        return "real"
    if kinds <= {*TIMES}:
        return "datetime"
    raise UnresolvedError(f"its branches have different types: {', '.join(sorted(kinds))}")


def require_numbers(what: str, *values: Value) -> None:
    """Raise `UnresolvedError` if a value is known to be something else than a number."""
    strange = next((each.type for each in values if each.type not in (*NUMBERS, "", "null")), None)
    if strange is not None:
        raise UnresolvedError(f"it applies {what} to a value of type {strange}")


_DATE_FORMS: Final = (
    "%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%d %H:%M", "%m/%d/%Y %H:%M:%S", "%B %d, %Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p", "%Y-%m-%dT%H:%M:%S",
)  # fmt: skip


def constant(node: Constant) -> Value:
    """Return a constant. Raises `UnresolvedError` for a date in an unknown form."""
    if node.kind == "null":
        return Value(exp.null(), "null", CONSTANT)
    if node.kind == "boolean":
        return Value(exp.Boolean(this=node.text == "TRUE"), "boolean", CONSTANT, is_nullable=False)
    if node.kind == "string":
        return Value(exp.Literal.string(node.text), "string", CONSTANT, is_nullable=False)
    if node.kind != "date":
        text = re.sub(r"\.(?!\d)", ".0", node.text)
        return Value(exp.Literal.number(f"0{text}" if text.startswith(".") else text), node.kind, CONSTANT, False)
    time = _time(node.text)
    if isinstance(time, datetime):
        return Value(exp.cast(exp.Literal.string(time.isoformat(" ")), "timestamp"), "datetime", CONSTANT, False)
    return Value(exp.cast(exp.Literal.string(time.isoformat()), "date"), "date", CONSTANT, False)


def _time(text: str) -> date | datetime:
    for form in _DATE_FORMS:
        try:
            found = datetime.strptime(text.strip(), form)
        except ValueError:
            continue
        return found if "%H" in form or "%I" in form else found.date()
    raise UnresolvedError(f"ktx does not know the form of the date `{text}`")


def whole(tree: exp.Expr) -> int | None:
    """Return the number if a tree is a constant whole number."""
    sign = 1
    while isinstance(tree, exp.Neg | exp.Paren):
        sign, tree = (-sign if isinstance(tree, exp.Neg) else sign), tree.this
    is_whole = isinstance(tree, exp.Literal) and not tree.is_string and str(tree.this).isdecimal()
    return sign * int(tree.this) if is_whole else None
