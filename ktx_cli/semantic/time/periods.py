"""Cuts values into periods, and into a range: what is grouped by and what is filtered by, read by the same clock."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Final

from ktx_cli.semantic.model import HOUR, MINUTE, SECOND
from ktx_cli.semantic.time.calendar import FINE, STEPS, UTC_NAME, Clock, Kind, require_grain, too_fine
from ktx_cli.semantic.time.expressions import (
    DateOrTimestamp,
    as_date,
    as_timestamp,
    call,
    clock_reading,
    extract,
    joined,
    literal,
    minus,
    moved,
    negative,
    number,
    text,
    times,
    word,
)
from ktx_cli.semantic.time.zones import between_zones, first_day, of_instant, utc_of_instant

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


_OFFSET: Final = "*[+-]??:??"
_BARE_COMPARABLE: Final = frozenset({"mysql", "tsql"})
"""Dialects in which a cast of a column to its own type costs its index."""


def localize(value: exp.Expr, kind: Kind, clock: Clock) -> exp.Expr:
    """Return a value as it is compared and cut: a date, or a timestamp without a zone in the zone of the question.

    A timestamp is taken to be in the column's zone, an instant is what it is, a date stays the date.

    In SQLite the value is an ISO text (blank or `T`, fractions, `Z` or an offset, which both kinds of timestamps heed)
    or a number of seconds since 1970, and the result a text of whole seconds; anything else becomes NULL. In ClickHouse
    every DateTime is an instant, and a number has to be made one (`fromUnixTimestamp`) in the column's expression.
    """
    dialect = clock.dialect
    if kind == "date":
        return as_date(_date_text(value) if dialect == "sqlite" else value, dialect)
    if dialect == "sqlite":
        return _localized_in_sqlite(value, kind, clock)
    if kind == "instant":
        found = of_instant(value, clock.target, dialect)
        return (
            between_zones(utc_of_instant(value, dialect), UTC_NAME, clock.target, dialect) if found is None else found
        )
    bare = dialect in _BARE_COMPARABLE
    return between_zones(value.copy() if bare else as_timestamp(value, dialect), clock.source, clock.target, dialect)


def compared(value: exp.Expr, kind: DateOrTimestamp, own_zone: str | None) -> exp.Expr:
    """Return a value of SQLite as a text that is less, equal or greater as the time is.

    It is what `localize` gives in the column's own zone, followed by the fraction of the second. A text that has that
    form already, as most have, is taken as it is: reading the others takes several times as long.
    """
    from sqlglot import exp

    found = localize(value, kind, Clock("sqlite", zone=own_zone, own_zone=own_zone))
    if kind == "timestamp":
        found = joined(found, _fraction(value))
    plain = call("DATE" if kind == "date" else "DATETIME", value)
    is_plain = exp.EQ(this=plain, expression=value.copy())
    return exp.Case(ifs=[exp.If(this=is_plain, true=value.copy())], default=found)


def is_number(value: exp.Expr) -> exp.Expr:
    """Return the condition that a value of SQLite is no text: seconds since 1970, or missing."""
    from sqlglot import exp

    return exp.NEQ(this=call("TYPEOF", value), expression=text("text"))


def _localized_in_sqlite(value: exp.Expr, kind: Kind, clock: Clock) -> exp.Expr:
    """A text with `Z` or an offset, and a number, say themselves what moment they mean."""
    from sqlglot import exp

    moment = call("DATETIME", _whole_seconds(value))
    of_utc = between_zones(moment, UTC_NAME, clock.target, "sqlite")
    of_source = between_zones(moment, clock.source, clock.target, "sqlite")
    if kind == "instant" or of_source == of_utc:
        return of_utc
    known = exp.or_(is_number(value), _is_like(value, "*Z"), _is_like(value, _OFFSET))
    return exp.Case(ifs=[exp.If(this=known, true=of_utc)], default=of_source)


def _whole_seconds(value: exp.Expr) -> exp.Expr:
    """Return the text without its fraction: newer versions of SQLite would round it up, into the next day even."""
    from sqlglot import exp

    bare = call("SUBSTR", value, number(1), number(19))
    point = exp.NEQ(this=call("SUBSTR", value, number(20), number(1)), expression=text("."))
    ifs = [
        exp.If(this=is_number(value), true=call("DATETIME", value, text("unixepoch"))),
        exp.If(this=point, true=value.copy()),
        exp.If(this=_is_like(value, _OFFSET), true=joined(bare, call("SUBSTR", value, number(-6)))),
    ]
    return exp.Case(ifs=ifs, default=bare.copy())


def _date_text(value: exp.Expr) -> exp.Expr:
    from sqlglot import exp

    moment = call("DATE", value, text("unixepoch"))
    day = call("SUBSTR", value, number(1), number(10))
    return exp.Case(ifs=[exp.If(this=is_number(value), true=moment)], default=day)


def _fraction(value: exp.Expr) -> exp.Expr:
    """Return the fraction of a text's second with its point and without zeros at its end, empty where it has none."""
    from sqlglot import exp

    point = exp.NEQ(this=call("SUBSTR", value, number(20), number(1)), expression=text("."))
    length = minus(call("LENGTH", value), number(25))
    ifs = [
        exp.If(this=point, true=text("")),
        exp.If(this=_is_like(value, _OFFSET), true=call("SUBSTR", value, number(20), length)),
    ]
    digits = exp.Case(ifs=ifs, default=call("SUBSTR", value, number(20)))
    return call("RTRIM", call("RTRIM", digits, text("0Z")), text("."))


def _is_like(value: exp.Expr, pattern: str) -> exp.Expr:
    from sqlglot import exp

    return exp.Glob(this=value.copy(), expression=text(pattern))


PERIOD: Final = "period"
"""The name of the spine's column."""

_FIRST, _LAST, _DIGIT, _ENDS = "first_period", "last_period", "digit", "ends"


def capacity(grain: str) -> int:
    """Return how many periods a spine of the grain has at most.

    100,000, but 10,000 months or quarters and 1,000 years: more would leave the years that dialects know.
    """
    require_grain(grain)
    size, base = STEPS[grain]
    return 100_000 if base != "month" else 1_000 if size == 12 else 10_000


def spine(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Select:
    """Return a query whose column `period` has every period's start from `start` to `end`, both included, in no order.

    Both are results of `truncate` of the same grain, or queries of one such value; no row where one is NULL. It has no
    WITH, so it may stand anywhere. Behind `capacity(grain)` periods it ends: `overflow` tells, and the caller must
    refuse such a range. Periods under a day go by the wall clock: an hour the clocks skip is one of them.
    """
    require_grain(grain)
    if clock.dialect == "clickhouse":
        return _in_clickhouse(start, end, grain)
    return _of_digits(start, end, grain, clock.dialect)


def overflow(start: exp.Expr, end: exp.Expr, grain: str, clock: Clock) -> exp.Expr:
    """Return the condition that a spine from `start` to `end` would leave periods out."""
    from sqlglot import exp

    last = _steps_later(start, number(capacity(grain) - 1), grain, clock.dialect)
    return exp.LT(this=last, expression=end.copy())


def _of_digits(start: exp.Expr, end: exp.Expr, grain: str, dialect: str) -> exp.Select:
    """Return the spine as a join of digits, the same in each dialect: recursion and series have other limits in each.

    A digit's rows are dropped as soon as the higher digits alone lead behind the end.
    """
    from sqlglot import exp

    first, last = exp.column(_FIRST, _ENDS), exp.column(_LAST, _ENDS)
    count: exp.Expr | None = None
    conditions: list[exp.Expr] = []
    names = [f"d{place}" for place in range(len(str(capacity(grain))) - 1, 0, -1)]
    for place, name in enumerate(names):
        weight = 10 ** (len(names) - 1 - place)
        digit = exp.column(_DIGIT, name)
        part = times(digit, number(weight)) if weight > 1 else digit
        count = part if count is None else exp.Add(this=count.copy(), expression=part)
        conditions.append(exp.LTE(this=_steps_later(first, count, grain, dialect), expression=last.copy()))
    assert count is not None  # there is more than one digit
    column = exp.alias_(_steps_later(first, count, grain, dialect), PERIOD, quoted=True)
    query = exp.select(column).from_(_ends(start, end))
    for name in names:
        query = query.join(_digits(name), join_type="cross")
    return query.where(*conditions)


def _in_clickhouse(start: exp.Expr, end: exp.Expr, grain: str) -> exp.Select:
    """Return the spine from the numbers table; how many there are is counted first, since dates end in 2299 there."""
    from sqlglot import exp

    size, base = STEPS[grain]
    first, last, index = exp.column(_FIRST, _ENDS), exp.column(_LAST, _ENDS), exp.column("number", "numbers")
    apart = call("dateDiff", text(base), first, last)
    numbers = exp.alias_(exp.Table(this=call("numbers", number(capacity(grain)))), "numbers", table=True)
    period = _steps_later(first, index, grain, "clickhouse")
    reached = exp.LTE(this=times(index, number(size)) if size > 1 else index, expression=apart)
    column = exp.alias_(period, PERIOD, quoted=True)
    query = exp.select(column).from_(_ends(start, end)).join(numbers, join_type="cross")
    return query.where(reached)


def _steps_later(value: exp.Expr, count: exp.Expr, grain: str, dialect: str) -> exp.Expr:
    size, base = STEPS[grain]
    kind: DateOrTimestamp = "timestamp" if grain in FINE else "date"
    return moved(value, times(count, number(size)) if size > 1 else count, base, kind, dialect)


def _ends(start: exp.Expr, end: exp.Expr) -> exp.Subquery:
    from sqlglot import exp

    return exp.select(exp.alias_(start.copy(), _FIRST), exp.alias_(end.copy(), _LAST)).subquery(_ENDS)


def _digits(name: str) -> exp.Subquery:
    from sqlglot import exp

    rows = exp.union(*(exp.select(exp.alias_(number(digit), _DIGIT)) for digit in range(10)), distinct=False)
    return rows.subquery(name)
