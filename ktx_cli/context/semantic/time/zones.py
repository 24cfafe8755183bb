"""What the clocks of a time zone show, in SQL.

From UTC to a zone, dialects that carry the IANA zones themselves are asked (`_OWN_ZONES`). SQLite has none, SQL Server
others, and MySQL and MariaDB only where somebody loaded them: there the zone's own changes are written into the
statement, as a CASE over yearly rules and single changes (`transitions`). From 1970 to 2037 that is exact, behind it
the last rule holds on; before 1970 the offset is the one of its first day, where other dialects know the history.

From a zone to UTC the CASE is used in every dialect: a wall-clock time that comes twice or is left out is read
differently by each of them, here as by Python (`fold=0`: the first of the two, the offset before the gap).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.model import DAY, MONTH, SECOND, YEAR, CalendarSettings
from ktx_cli.context.semantic.time.clock import UTC
from ktx_cli.context.semantic.time.dates import first_day, first_of_week, units_between
from ktx_cli.context.semantic.time.expressions import (
    as_date,
    as_timestamp,
    call,
    cast,
    enclosed,
    extract,
    floored,
    literal,
    number,
    text,
)
from ktx_cli.context.semantic.time.moving import moved
from ktx_cli.context.semantic.time.transitions import FIRST_YEAR, LAST_YEAR, Stretch, YearlyChange, stretches

if TYPE_CHECKING:
    from sqlglot import exp

_OWN_ZONES: Final = frozenset(
    {"duckdb", "postgres", "snowflake", "bigquery", "clickhouse", "redshift", "databricks", "trino"}
)
_ALIAS: Final = "ktx_moment"


def between_zones(value: exp.Expr, source: str, target: str, dialect: str) -> exp.Expr:
    """Return what the clocks of `target` show when those of `source` show a value; both timestamps without a zone."""
    if _are_equal(source, target):
        return value
    if dialect not in _OWN_ZONES:
        return _by_changes(value, source, target, dialect)
    utc = value if _are_equal(source, UTC) else _by_changes(value, source, UTC, dialect)
    return utc if _are_equal(UTC, target) else _by_dialect(utc, target, dialect)


def of_instant(value: exp.Expr, zone: str, dialect: str) -> exp.Expr | None:
    """Return the wall clock of a zone at an instant where the dialect converts at once, else None."""
    if dialect in ("duckdb", "postgres", "redshift"):
        return _at_zone(value, zone)
    if dialect == "snowflake":
        return as_timestamp(call("CONVERT_TIMEZONE", text(zone), value), dialect)
    if dialect == "bigquery":
        return call("DATETIME", value, text(zone))
    if dialect == "trino":
        return as_timestamp(_at_zone(value, zone), dialect)
    return as_timestamp(value, dialect, zone) if dialect == "clickhouse" else None


def utc_of_instant(value: exp.Expr, dialect: str) -> exp.Expr:
    """Return the UTC of an instant, in the dialects `of_instant` has no answer for but SQLite; whole seconds."""
    epoch = literal(datetime(1970, 1, 1), "timestamp", dialect)
    if dialect == "mysql":  # of a TIMESTAMP column this is what is stored, whatever the zone of the session
        return moved(epoch, call("UNIX_TIMESTAMP", value), SECOND, "timestamp", dialect)
    if dialect == "databricks":
        return moved(epoch, call("UNIX_SECONDS", value), SECOND, "timestamp", dialect)
    return as_timestamp(call("SWITCHOFFSET", value, text("+00:00")), dialect)


def _are_equal(source: str, target: str) -> bool:
    found = stretches(source, target)
    return _is_constant(found) and not found[0].before


def _is_constant(found: tuple[Stretch, ...]) -> bool:
    return len(found) == 1 and not found[0].rule and not found[0].listed


def _by_dialect(value: exp.Expr, zone: str, dialect: str) -> exp.Expr:
    if dialect in ("snowflake", "redshift", "databricks"):
        return call("CONVERT_TIMEZONE", text(UTC), text(zone), value)
    if dialect == "bigquery":
        return call("DATETIME", call("TIMESTAMP", value, text(UTC)), text(zone))
    if dialect == "trino":
        return as_timestamp(_at_zone(call("WITH_TIMEZONE", value, text(UTC)), zone), dialect)
    if dialect == "clickhouse":
        return as_timestamp(value, dialect, zone)
    return _at_zone(_at_zone(value, UTC), zone)


def _at_zone(value: exp.Expr, zone: str) -> exp.Expr:
    from sqlglot import exp

    return exp.AtTimeZone(this=enclosed(value), zone=text(zone))


def _by_changes(value: exp.Expr, source: str, target: str, dialect: str) -> exp.Expr:
    """Return the value moved by the difference of two zones."""
    found = stretches(source, target)
    if dialect == "sqlite" and not _is_constant(found):
        return _named_once(value, found)
    start = as_timestamp(value, dialect) if dialect == "tsql" else value
    return moved(start, _difference(value, found, dialect), SECOND, "timestamp", dialect)


def _named_once(value: exp.Expr, found: tuple[Stretch, ...]) -> exp.Expr:
    """Return the moved value in SQLite, where reading a value is long: it is written once, in a query around it."""
    from sqlglot import exp

    moment = exp.column(_ALIAS)
    later = moved(moment, _difference(moment, found, "sqlite"), SECOND, "timestamp", "sqlite")
    inner = exp.select(exp.alias_(value.copy(), _ALIAS)).subquery(_ALIAS)
    return exp.select(later).from_(inner).subquery()


def _difference(value: exp.Expr, found: tuple[Stretch, ...], dialect: str) -> exp.Expr:
    """Return the seconds to add to a value, as a number or a CASE."""
    from sqlglot import exp

    cases: list[exp.If] = []
    if found[0].rule:
        cases.append(_when(value, _timestamp(datetime(FIRST_YEAR, 1, 1), dialect), number(found[0].before)))
    for stretch in found:
        before = stretch.before
        for change in stretch.listed:
            cases.append(_when(value, _timestamp(change.at, dialect), number(before)))
            before = change.after
        if stretch.rule and stretch.last < LAST_YEAR:
            end = _timestamp(datetime(stretch.last + 1, 1, 1), dialect)
            cases.append(_when(value, end, _of_rule(value, stretch, dialect)))
    last = _of_rule(value, found[-1], dialect) if found[-1].rule else number(before)
    return exp.Case(ifs=cases, default=last) if cases else last


def _of_rule(value: exp.Expr, stretch: Stretch, dialect: str) -> exp.Expr:
    from sqlglot import exp

    before, cases = stretch.before, []
    for change in stretch.rule:
        cases.append(_when(value, _yearly(value, change, dialect), number(before)))
        before = change.after
    return exp.Case(ifs=cases, default=number(before))


def _timestamp(value: datetime, dialect: str) -> exp.Expr:
    return literal(value, "timestamp", dialect)


def _when(value: exp.Expr, limit: exp.Expr, then: exp.Expr) -> exp.If:
    from sqlglot import exp

    return exp.If(this=exp.LT(this=value.copy(), expression=limit), true=then)


def _yearly(value: exp.Expr, change: YearlyChange, dialect: str) -> exp.Expr:
    """Return when the change is in the value's year: the Monday up to six days behind its day, moved to its weekday."""
    if dialect == "sqlite":
        return _yearly_in_sqlite(value, change)
    if dialect in ("mysql", "tsql"):
        return _yearly_by_weeks(value, change, dialect)
    first = first_day(as_date(value, dialect), YEAR, CalendarSettings(), dialect)
    month = moved(first, number(change.month - 1), MONTH, "date", dialect) if change.month > 1 else first
    day = moved(month, number(change.day - 1 + 6 - change.weekday), DAY, "date", dialect)
    monday = first_of_week(day, dialect, sunday=False)
    seconds = number(change.weekday * 86_400 + change.seconds)
    return moved(_midnight(monday, dialect), seconds, SECOND, "timestamp", dialect)


def _yearly_by_weeks(value: exp.Expr, change: YearlyChange, dialect: str) -> exp.Expr:
    """Return the change as the first one after 1900 and whole weeks: it is short, and it stands there many times."""
    if dialect == "mysql":
        month_and_day = text(f"-{change.month:02}-{change.day:02}")
        day = as_date(call("CONCAT", extract("YEAR", value, dialect), month_and_day), dialect)
    else:
        parts = extract("YEAR", value, dialect), number(change.month), number(change.day)
        day = call("DATEFROMPARTS", *parts)
    monday = date(1900, 1, 1)
    passed = units_between(DAY, literal(monday + timedelta(days=change.weekday - 6), "date", dialect), day, dialect)
    first = datetime(1900, 1, 1) + timedelta(days=change.weekday, seconds=change.seconds)
    return moved(literal(first, "timestamp", dialect), floored(passed, 7, dialect), DAY, "timestamp", dialect)


def _midnight(value: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "clickhouse":
        return call("toDateTime64", cast(value, "String", dialect), number(0), text(UTC))
    return as_timestamp(value, dialect)


def _yearly_in_sqlite(value: exp.Expr, change: YearlyChange) -> exp.Expr:
    time = str(timedelta(seconds=change.seconds)).zfill(8)
    modifiers = (f"+{change.month - 1} months", f"+{change.day - 1} days", f"weekday {(change.weekday + 1) % 7}")
    return call("STRFTIME", text(f"%Y-%m-%d {time}"), value, text("start of year"), *map(text, modifiers))
