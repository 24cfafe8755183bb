"""Calendar arithmetic in SQL: a value so many seconds, days or months later, the same in every dialect.

A day that a month does not have becomes the month's last. That is what adding months does in every dialect here but
SQLite, whose `date(x, '+1 months')` goes on into the next month. Where ADD_MONTHS keeps the end of a month an end
(Snowflake, Redshift), DATEADD is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.model import DAY, MONTH, SECOND
from ktx_cli.context.semantic.time.calendar import FINE, STEPS, too_fine
from ktx_cli.context.semantic.time.expressions import (
    DateOrTimestamp,
    as_date,
    call,
    cast,
    joined,
    number,
    plus,
    text,
    times,
    word,
)
from ktx_cli.context.semantic.time.parsing import require_grain

if TYPE_CHECKING:
    from sqlglot import exp

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
