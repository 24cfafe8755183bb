"""Reads a value by a clock: the wall-clock time in the question's zone, whatever form the column has it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ktx_cli.context.semantic.time.clock import UTC, Clock, Kind
from ktx_cli.context.semantic.time.expressions import (
    DateOrTimestamp,
    as_date,
    as_timestamp,
    call,
    joined,
    minus,
    number,
    text,
)
from ktx_cli.context.semantic.time.zones import between_zones, of_instant, utc_of_instant

if TYPE_CHECKING:
    from sqlglot import exp

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
        return between_zones(utc_of_instant(value, dialect), UTC, clock.target, dialect) if found is None else found
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
    of_utc = between_zones(moment, UTC, clock.target, "sqlite")
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
