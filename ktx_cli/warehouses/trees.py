"""Build small SQL expressions as sqlglot trees: calls, literals, arithmetic. Arguments are copied, never changed."""

from __future__ import annotations

import functools

from ktx_cli.faces import exp


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return a function call with the function's name in the dialect."""
    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def text(value: str) -> exp.Expr:
    """Return a string literal."""
    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """Return a whole number literal."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def word(name: str) -> exp.Expr:
    """Return a keyword argument, such as a unit of time."""
    return exp.Var(this=name)


@functools.cache
def data_type(name: str, dialect: str) -> exp.DataType:
    """Return a type by name, to be copied: parsing the type is the slowest part of a cast."""
    return exp.DataType.build(name, dialect=dialect)


def plus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a sum, with parentheses around the operands if needed."""
    return exp.Add(this=enclosed(left), expression=enclosed(right))


def minus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a difference."""
    return exp.Sub(this=enclosed(left), expression=enclosed(right))


def times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a product."""
    return exp.Mul(this=enclosed(left), expression=enclosed(right))


def multiple(value: exp.Expr, factor: int) -> exp.Expr:
    """Return a value times a number; for 1, only the value."""
    return value if factor == 1 else times(value, number(factor))


def remainder(left: exp.Expr, divisor: int) -> exp.Expr:
    """Return the remainder after dividing a non-negative number."""
    if left.find(exp.Literal) is left:
        return number(int(left.name) % divisor)
    return exp.Mod(this=enclosed(left), expression=number(divisor))


def negative(value: exp.Expr) -> exp.Expr:
    """Return the negative of a number."""
    return exp.Neg(this=enclosed(value))


def joined(*parts: exp.Expr) -> exp.Expr:
    """Return the concatenation of strings (or numbers as strings) with `||`."""
    return functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right, safe=True), map(enclosed, parts))


def enclosed(value: exp.Expr) -> exp.Expr:
    """Return an operand, in parentheses if an operator could split it."""
    return exp.Paren(this=value.copy()) if isinstance(value, exp.Binary | exp.Case | exp.Neg) else value.copy()


def number_of(value: exp.Expr) -> int | None:
    """Return a whole number literal, or None for other expressions."""
    if isinstance(value, exp.Neg):
        inner = number_of(value.this)
        return None if inner is None else -inner
    return int(value.name) if isinstance(value, exp.Literal) and not value.is_string else None
