"""Cuts values into periods, and into a range: what is grouped by and what is filtered by, read by the same clock."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.model import HOUR, MINUTE, SECOND
from ktx_cli.context.semantic.time.calendar import FINE, too_fine
from ktx_cli.context.semantic.time.clock import Clock, Kind
from ktx_cli.context.semantic.time.dates import first_day
from ktx_cli.context.semantic.time.expressions import (
    as_date,
    as_timestamp,
    call,
    clock_reading,
    extract,
    literal,
    negative,
    text,
    word,
)
from ktx_cli.context.semantic.time.parsing import require_grain
from ktx_cli.context.semantic.time.reading import localize

if TYPE_CHECKING:
    from sqlglot import exp

_FORMS: Final = {SECOND: "%Y-%m-%d %H:%i:%S", MINUTE: "%Y-%m-%d %H:%i:00", HOUR: "%Y-%m-%d %H:00:00"}
_SQLITE_FORMS: Final = {grain: form.replace("%i", "%M") for grain, form in _FORMS.items()}


def truncate(value: exp.Expr, grain: str, kind: Kind, clock: Clock) -> exp.Expr:
    """Return the start of the period a value lies in, read by the clock.

    From the day on it is a date, for finer grains a timestamp without a zone, in the zone of the question. Values and
    results of SQLite are texts, see `localize`. Raises `SemanticError`: code `unknown_name` for an unknown grain, code
    `grain` for one under a day of a date.
    """
    require_grain(grain)
    if kind == "date" and grain in FINE:
        raise too_fine(grain)
    local = localize(value, kind, clock)
    if grain in FINE:
        return _to_the(grain, local, clock.dialect)
    day = local if kind == "date" else as_date(local, clock.dialect)
    return first_day(day, grain, clock.calendar, clock.dialect)


def within(
    value: exp.Expr, start: date | datetime | None, end: date | datetime | None, kind: Kind, clock: Clock
) -> exp.Expr | None:
    """Return the condition that a value lies in the half-open range from `start` to `end`; None without both.

    Ends are in the zone of the question. A date is in the range when its midnight is, which is what comparing it with
    a timestamp means.
    """
    from sqlglot import exp

    if start is None and end is None:
        return None
    local = localize(value, kind, clock)
    found: list[exp.Expr] = []
    if start is not None:
        found.append(exp.GTE(this=local.copy(), expression=_end(start, kind, clock.dialect)))
    if end is not None:
        found.append(exp.LT(this=local.copy(), expression=_end(end, kind, clock.dialect)))
    return exp.and_(*found)


def _end(value: date | datetime, kind: Kind, dialect: str) -> exp.Expr:
    if kind != "date":
        return literal(value, "timestamp", dialect)
    if isinstance(value, datetime) and value.time() != datetime.min.time():
        value = date.fromordinal(value.toordinal() + 1)  # the first midnight not before it
    return literal(value, "date", dialect)


def _to_the(grain: str, local: exp.Expr, dialect: str) -> exp.Expr:
    """Return a timestamp cut to a grain under a day."""
    if dialect == "sqlite":
        return call("STRFTIME", text(_SQLITE_FORMS[grain]), local)
    if dialect == "mysql":
        return as_timestamp(call("DATE_FORMAT", local, text(_FORMS[grain].replace("%S", "%s"))), dialect)
    if dialect == "clickhouse":
        return clock_reading(local, _FORMS[grain], None)
    if dialect == "tsql":
        return _in_sqlserver(grain, as_timestamp(local, dialect))
    if dialect == "bigquery":
        return call("DATETIME_TRUNC", local, word(grain.upper()))
    found = call("DATE_TRUNC", text(grain.upper()), local)
    return as_timestamp(found, dialect) if dialect == "databricks" else found


def _in_sqlserver(grain: str, local: exp.Expr) -> exp.Expr:
    """DATETRUNC is of SQL Server 2022. Hours and minutes since the year 1 fit into its numbers until 4083."""
    if grain == SECOND:
        return call("DATEADD", word("NANOSECOND"), negative(extract("NANOSECOND", local, "tsql")), local)
    origin, unit = literal(datetime(1, 1, 1), "timestamp", "tsql"), word(grain.upper())
    return call("DATEADD", unit, call("DATEDIFF", unit, origin, local), origin)
