"""Small SQL expressions, each named for what it is: calls, texts, numbers, casts to the types times have."""

from __future__ import annotations

import functools
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from sqlglot import exp

DateOrTimestamp = Literal["date", "timestamp"]

_TIMESTAMPS: Final = {
    "mysql": "DATETIME(6)",  # without digits the cast of a fraction rounds up
    "snowflake": "TIMESTAMP_NTZ",
    "bigquery": "DATETIME",
    "tsql": "DATETIME2",
    "databricks": "TIMESTAMP_NTZ",
    "trino": "TIMESTAMP(12)",  # without digits the cast of a fraction rounds up
}
_CLICKHOUSE_FORMAT: Final = "%Y-%m-%d %H:%i:%S"


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Return the call of a function by the name the dialect has for it."""
    from sqlglot import exp

    return exp.Anonymous(this=name, expressions=[argument.copy() for argument in arguments])


def text(value: str) -> exp.Expr:
    """Return a text."""
    from sqlglot import exp

    return exp.Literal.string(value)


def number(value: int) -> exp.Expr:
    """Return a whole number."""
    from sqlglot import exp

    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def word(name: str) -> exp.Expr:
    """Return a keyword that is an argument: a unit."""
    from sqlglot import exp

    return exp.Var(this=name)


def cast(value: exp.Expr, type_name: str, dialect: str) -> exp.Expr:
    """Return the value as a type the dialect names so."""
    from sqlglot import exp

    return exp.Cast(this=value.copy(), to=_type(type_name, dialect).copy())


@functools.cache
def _type(name: str, dialect: str) -> exp.DataType:
    """Return a type by its name; parsing one takes longer than all else about a cast."""
    from sqlglot import exp

    return exp.DataType.build(name, dialect=dialect)


def as_date(value: exp.Expr, dialect: str) -> exp.Expr:
    """Return the date of a date or timestamp without a zone."""
    if dialect == "sqlite":
        return call("DATE", value)
    if dialect == "clickhouse":
        return call("toDate32", value)  # a Date ends in 2149 and begins in 1970
    return cast(value, "DATE", dialect)


def as_timestamp(value: exp.Expr, dialect: str, zone: str | None = None) -> exp.Expr:
    """Return a timestamp without a zone; in ClickHouse, whose values all have one, what the clocks of `zone` show.

    ClickHouse has no such type: the result is a `DateTime64(0, 'UTC')` of whole seconds.
    """
    if dialect == "sqlite":
        return call("DATETIME", value)
    if dialect == "clickhouse":
        return clock_reading(value, _CLICKHOUSE_FORMAT, zone)
    return cast(value, _TIMESTAMPS.get(dialect, "TIMESTAMP"), dialect)


def clock_reading(value: exp.Expr, form: str, zone: str | None) -> exp.Expr:
    """Return in ClickHouse what the clocks of a zone (None: the value's own) show, in a form of formatDateTime."""
    shown = call("formatDateTime", value, text(form), *([text(zone)] if zone else []))
    return call("toDateTime64", shown, number(0), text("UTC"))


def literal(value: date | datetime, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a typed literal of a date or of a timestamp without a zone, to compare with results of this package.

    In SQLite it is the text `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS`, as `localize` and `truncate` give it; a column as it
    is may have other forms (`T`, fractions, offsets), so compare `localize(column)`. Microseconds are left out:
    results are compared by whole seconds.
    """
    day = value.date() if isinstance(value, datetime) else value
    if kind == "date":
        return text(day.isoformat()) if dialect == "sqlite" else as_date(text(day.isoformat()), dialect)
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    written = moment.replace(tzinfo=None).isoformat(" ", "seconds")
    if dialect == "sqlite":
        return text(written)
    if dialect == "clickhouse":
        return call("toDateTime64", text(written), number(0), text("UTC"))
    if dialect == "mysql":
        return cast(text(written), "DATETIME", dialect)
    return as_timestamp(text(written), dialect)


def extract(part: str, value: exp.Expr, dialect: str) -> exp.Expr:
    """Return a part (`YEAR`, `MONTH`, `DAY`, `MINUTE`, `SECOND`) of a date or timestamp as a whole number."""
    from sqlglot import exp

    if dialect == "sqlite":
        forms = {"YEAR": "%Y", "MONTH": "%m", "DAY": "%d"}
        return cast(call("STRFTIME", text(forms[part]), value), "INTEGER", dialect)
    if dialect == "tsql":
        return call("DATEPART", word(part), value)
    found = exp.Extract(this=word(part), expression=value.copy())
    return cast(found, "INT", dialect) if dialect in ("postgres", "redshift") else found


def plus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a sum; both sides are put in brackets where they need them."""
    from sqlglot import exp

    return exp.Add(this=enclosed(left), expression=enclosed(right))


def minus(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a difference."""
    from sqlglot import exp

    return exp.Sub(this=enclosed(left), expression=enclosed(right))


def times(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a product."""
    from sqlglot import exp

    return exp.Mul(this=enclosed(left), expression=enclosed(right))


def floored(count: exp.Expr, step: int, dialect: str) -> exp.Expr:
    """Return the largest multiple of a step in a whole number that is not negative, where `/` may give a fraction."""
    from sqlglot import exp

    if step == 1:
        return count
    if dialect == "clickhouse":
        whole = call("intDiv", count, number(step))
    elif dialect == "mysql":
        whole = exp.IntDiv(this=enclosed(count), expression=number(step))
    else:
        whole = exp.Div(this=enclosed(count), expression=number(step), typed=dialect == "tsql")
        whole = exp.Floor(this=whole) if dialect == "snowflake" else whole
    return exp.Mul(this=whole, expression=number(step))


def remainder(left: exp.Expr, divisor: int) -> exp.Expr:
    """Return the remainder of a division of a number that is not negative."""
    from sqlglot import exp

    if left.find(exp.Literal) is left:
        return number(int(left.name) % divisor)
    return exp.Mod(this=enclosed(left), expression=number(divisor))


def negative(value: exp.Expr) -> exp.Expr:
    """Return the negative of a number."""
    from sqlglot import exp

    return exp.Neg(this=enclosed(value))


def joined(*parts: exp.Expr) -> exp.Expr:
    """Return texts (or numbers as texts) one behind the other, by `||`."""
    from functools import reduce

    from sqlglot import exp

    return reduce(lambda left, right: exp.DPipe(this=left, expression=right, safe=True), map(enclosed, parts))


def enclosed(value: exp.Expr) -> exp.Expr:
    """Return an operand, in brackets where an operator could take it apart."""
    from sqlglot import exp

    return exp.Paren(this=value.copy()) if isinstance(value, exp.Binary | exp.Case | exp.Neg) else value.copy()
