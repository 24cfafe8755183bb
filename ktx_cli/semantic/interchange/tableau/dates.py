"""Translate the date functions of Tableau with the date arithmetic that ktx has for every dialect."""

from __future__ import annotations

from datetime import date
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.report import UnresolvedError
from ktx_cli.semantic.interchange.tableau.values import Value, grouped, together, whole
from ktx_cli.warehouses import Dialect, dialect_named

UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
"""The date parts that times can be truncated to."""

_YEAR: Final = 2000
_MONTHS: Final = {"year": 12, "quarter": 3, "month": 1}
_STEPS: Final = {
    "year": (12, "month"), "quarter": (3, "month"), "month": (1, "month"), "week": (7, "day"), "day": (1, "day"),
    "hour": (3600, "second"), "minute": (60, "second"), "second": (1, "second"),
}  # fmt: skip
_PER: Final = {"hour": 24, "minute": 60, "second": 60}
_SYNONYMS: Final = {
    "weekday": "day", "dayofyear": "day", "iso-week": "week", "iso-weekday": "day", "iso-year": "year",
    "iso-quarter": "quarter",
}  # fmt: skip
MONDAY: Final = 1
"""The number of Monday as a first day of the week, counted from Sunday."""


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


class Dates:
    """The date functions in one dialect. Methods return trees and copy their arguments."""

    def __init__(self, dialect: str) -> None:
        self._syntax: Dialect = dialect_named(dialect)

    def added(self, unit: str, count: Value, time: Value, sign: int = 1) -> Value:
        """Return a date or time plus a number of units, which may be an expression."""
        size, step = _STEPS[_SYNONYMS.get(unit, unit)]
        number = whole(count.sql)
        amount = _number(abs(number) * size) if number is not None else grouped(count.sql.copy())
        if number is None and size > 1:
            amount = exp.Mul(this=amount, expression=_number(size))
        if (sign < 0) != (number is not None and number < 0):
            amount = exp.Neg(this=grouped(amount))
        if time.type == "date" and step != "second":
            return together(self._syntax.moved(self._day(time.sql), amount, step, "date"), "date", time, count)
        start = time.sql if time.type == "datetime" else self._syntax.as_timestamp(time.sql)
        return together(self._syntax.moved(grouped(start), amount, step, "timestamp"), "datetime", time, count)

    def cut(self, unit: str, time: exp.Expr, week_start: int) -> exp.Expr:
        """Return the first moment of the period with a time. `week_start` is 0 for Sunday to 6 for Saturday."""
        if unit in _MONTHS:
            return self._syntax.first_of_period(self._day(time), _MONTHS[unit], 1)
        if unit == "week":
            return self._week(time, week_start)
        return self._day(time) if unit == "day" else self._syntax.truncated_time(self._syntax.as_timestamp(time), unit)

    def part(self, unit: str, time: exp.Expr, week_start: int) -> exp.Expr:
        """Return a date part as a whole number. Raises `UnresolvedError` for an unknown one."""
        if unit in ("year", "month", "day"):
            return self._syntax.extract(unit.upper(), time)
        if unit in ("quarter", *_PER):
            return exp.Extract(this=exp.var(unit.upper()), expression=time.copy())
        if unit == "dayofyear":
            return self._count(self.days(self.cut("year", time, 0), time))
        if unit in ("weekday", "iso-weekday"):
            start = MONDAY if unit == "iso-weekday" else week_start
            return self._count(self.days(self._week(time, start), time))
        if unit == "week":
            first = self.cut("year", time, 0)
            return self._count(self._weeks(self._week(first, week_start), self._week(time, week_start)))
        if unit in ("iso-week", "iso-year"):
            thursday = self._moved(self._week(time, MONDAY), 3)
            if unit == "iso-year":
                return self._syntax.extract("YEAR", thursday)
            days = self.days(self.cut("year", thursday, 0), thursday)
            return self._count(exp.Floor(this=_sevenths(days)))
        raise UnresolvedError(f"ktx does not support the date part `{unit}`")

    def between(self, unit: str, start: exp.Expr, end: exp.Expr, week_start: int) -> exp.Expr:
        """Return how many periods begin between two times. Raises `UnresolvedError` for an unknown date part."""
        unit = _SYNONYMS.get(unit, unit)
        if unit == "year":
            return exp.Sub(this=self.part("year", end, 0), expression=self.part("year", start, 0))
        if unit in ("quarter", "month"):
            years = exp.paren(self.between("year", start, end, 0), copy=False)
            return self._further(years, 12 // _MONTHS[unit], unit, start, end)
        if unit == "week":
            return self._weeks(self._week(start, week_start), self._week(end, week_start))
        if unit == "day":
            return self.days(start, end)
        if unit in _PER:
            units = [each for each in _PER if list(_PER).index(each) <= list(_PER).index(unit)]
            passed = self.days(start, end)
            for each in units:
                passed = self._further(grouped(passed), _PER[each], each, start, end)
            return passed
        raise UnresolvedError(f"ktx does not support the date part `{unit}`")

    def days(self, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the days from the date of a time to that of another one."""
        return exp.DateDiff(this=self._day(end), expression=self._day(start), unit=exp.var("DAY"))

    def made(self, year: exp.Expr, month: exp.Expr, day: exp.Expr) -> exp.Expr:
        """Return the date with a year, month and day, counted from a fixed date, as not every database builds dates."""
        years = exp.paren(exp.Sub(this=grouped(year), expression=_number(_YEAR)), copy=False)
        months = exp.Add(this=exp.Mul(this=years, expression=_number(12)), expression=grouped(month))
        first = self._syntax.literal(date(_YEAR - 1, 12, 1), "date")  # a month before January
        start = self._syntax.moved(first, months, "month", "date")
        return self._syntax.moved(start, exp.Sub(this=grouped(day), expression=_number(1)), "day", "date")

    def _further(self, passed: exp.Expr, count: int, unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the periods of a smaller unit that have passed, given those of the larger unit."""
        larger = exp.Mul(this=passed, expression=_number(count))
        return exp.Sub(
            this=exp.Add(this=larger, expression=self.part(unit, end, 0)), expression=self.part(unit, start, 0)
        )

    def _day(self, time: exp.Expr) -> exp.Expr:
        is_date = isinstance(time, exp.Cast) and time.is_type("date")
        return time.copy() if is_date else self._syntax.as_date(time)

    def _moved(self, day: exp.Expr, days: int) -> exp.Expr:
        return self._syntax.moved(day, _number(days), "day", "date") if days else day

    def _week(self, time: exp.Expr, week_start: int) -> exp.Expr:
        """Return the first day of the week of a time."""
        day = self._day(time)
        if week_start in (0, MONDAY):
            return self._syntax.first_of_week(day, sunday=week_start == 0)
        shift = 7 - week_start  # as long as the days that the week starts before Sunday
        return self._back(self._syntax.first_of_week(self._moved(day, shift), sunday=True), shift)

    def _back(self, day: exp.Expr, days: int) -> exp.Expr:
        return self._syntax.moved(day, exp.Neg(this=_number(days)), "day", "date")

    def _weeks(self, first: exp.Expr, last: exp.Expr) -> exp.Expr:
        """Return the weeks between the first days of two weeks."""
        return exp.cast(_sevenths(self.days(first, last)), "bigint")

    def _count(self, before: exp.Expr) -> exp.Expr:
        return exp.cast(exp.Add(this=grouped(before), expression=_number(1)), "bigint")


def _sevenths(days: exp.Expr) -> exp.Expr:
    return exp.Div(this=exp.cast(days, "double"), expression=_number(7), typed=True)
