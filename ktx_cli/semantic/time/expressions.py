"""Small SQL expressions, each named for what it is: calls, texts, numbers, casts to the types times have."""

from __future__ import annotations

import functools
from datetime import date, datetime
from typing import TYPE_CHECKING, Final, Literal

from ktx_cli.semantic.model import DAY, MONTH, SECOND
from ktx_cli.semantic.time.calendar import FINE, STEPS, require_grain, too_fine

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


_CLICKHOUSE: Final = {SECOND: "addSeconds", DAY: "addDays", MONTH: "addMonths"}
_DATEADD: Final = frozenset({"snowflake", "tsql", "redshift"})


def shift(value: exp.Expr, count: int, unit: str, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a date or a timestamp without a zone moved by calendar units; a negative count goes back.

    The 31st of January and one month is the last day of February. The result is of the same kind. Raises
    `SemanticError` (code `grain`) for a unit under a day of a date.
    """
    require_grain(unit)
    if kind == "date" and unit in FINE:
        raise too_fine(unit)
    size, base = STEPS[unit]
    return moved(value, number(count * size), base, kind, dialect)


def next_period(value: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    """Return the start of the period behind the one that begins at `value`, a result of `truncate` of that grain."""
    return shift(value, 1, grain, "timestamp" if grain in FINE else "date", dialect)


def moved(value: exp.Expr, count: exp.Expr, base: str, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    """Return a value moved by a whole number of seconds, days or months; the number may be an expression.

    In SQLite months that are an expression must be added to the first of a month.
    """
    if dialect == "sqlite":
        return _in_sqlite(value, count, base, kind)
    if dialect == "databricks":
        return _in_databricks(value, count, base, kind)
    if dialect == "duckdb" and base != MONTH:
        return _in_duckdb(value, count, base, kind)
    if dialect == "clickhouse":
        return call(_CLICKHOUSE[base], value, count)
    if dialect == "trino":
        return call("DATE_ADD", text(base.upper()), count, value)
    if dialect in _DATEADD:
        later = call("DATEADD", word(base.upper()), count, value)
        return as_date(later, dialect) if kind == "date" and dialect == "redshift" else later
    return _by_interval(value, count, base, kind, dialect)


def _by_interval(value: exp.Expr, count: exp.Expr, base: str, kind: DateOrTimestamp, dialect: str) -> exp.Expr:
    from sqlglot import exp

    if dialect == "postgres":
        written = _written(count)
        unit = exp.Interval(this=text(f"{1 if written is None else written} {base.upper()}"))
        later = plus(value, times(unit, count) if written is None else unit)
    else:
        given = count if isinstance(count, exp.Literal) else exp.Paren(this=count.copy())
        span = exp.Interval(this=given.copy(), unit=word(base.upper()))
        if dialect == "mysql":
            return call("DATE_ADD", value, span)
        if dialect == "bigquery":
            return call("DATE_ADD" if kind == "date" else "DATETIME_ADD", value, span)
        later = plus(value, span)
    return as_date(later, dialect) if kind == "date" else later


def _in_duckdb(value: exp.Expr, count: exp.Expr, base: str, kind: DateOrTimestamp) -> exp.Expr:
    """Return a value moved by days or seconds without an INTERVAL.

    To DuckDB 2.0 a month equals 30 days: of `x + INTERVAL 1 MONTH` and `x + INTERVAL 30 DAY` in one statement it
    computes only the first, and gives it for both.
    """
    if kind == "date":
        return plus(value, count if _written(count) is not None else cast(count, "INT", "duckdb"))
    micros = (86_400 if base == DAY else 1) * 1_000_000
    written = _written(count)
    length = times(cast(count, "BIGINT", "duckdb"), number(micros)) if written is None else number(written * micros)
    return call("MAKE_TIMESTAMP", plus(call("EPOCH_US", value), length))


def _in_databricks(value: exp.Expr, count: exp.Expr, base: str, kind: DateOrTimestamp) -> exp.Expr:
    """DATEADD would give a timestamp of the session's zone."""
    if kind == "date":
        return call("ADD_MONTHS" if base == MONTH else "DATE_ADD", value, count)
    if base == MONTH:
        return plus(value, call("MAKE_YM_INTERVAL", number(0), count))
    days, seconds = (count, number(0)) if base == DAY else (number(0), count)
    return plus(value, call("MAKE_DT_INTERVAL", days, number(0), number(0), seconds))


def _in_sqlite(value: exp.Expr, count: exp.Expr, base: str, kind: DateOrTimestamp) -> exp.Expr:
    name = "DATE" if kind == "date" else "DATETIME"
    written = _written(count)
    if base != MONTH or written is None:
        return call(name, value, _modifier(count, base))
    plain = call(name, value, text(f"{written:+d} months"))
    last: exp.Expr = call("DATE", value, text("start of month"), text(f"{written + 1:+d} months"), text("-1 days"))
    if kind == "timestamp":
        last = joined(last, call("SUBSTR", call("DATETIME", value), number(11)))
    from sqlglot import exp

    return exp.Least(this=plain, expressions=[last])  # texts: what went into the next month is the larger one


def _modifier(count: exp.Expr, base: str) -> exp.Expr:
    written = _written(count)
    return joined(count, text(f" {base}s")) if written is None else text(f"{written:+d} {base}s")


def _written(count: exp.Expr) -> int | None:
    """Return a number that is written out."""
    from sqlglot import exp

    if isinstance(count, exp.Neg):
        inner = _written(count.this)
        return None if inner is None else -inner
    return int(count.name) if isinstance(count, exp.Literal) and not count.is_string else None
