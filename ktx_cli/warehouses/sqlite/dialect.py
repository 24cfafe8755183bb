"""SQLite's SQL, which has no time types: times are ISO texts, or numbers of seconds since 1970.

A text has a blank or `T` between date and time, and may have a fraction, `Z` or an offset; anything else becomes NULL.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import StoredAs, Table
from ktx_cli.warehouses.time_arithmetic import MONTH, UTC, DateOrTimestamp, Stretch, TimeKind, YearlyChange, is_constant
from ktx_cli.warehouses.trees import call, enclosed, joined, minus, number, number_of, text

_OPEN_CATALOG: Final = """
pragma_foreign_key_list pragma_index_info pragma_index_list pragma_index_xinfo pragma_table_info pragma_table_list
pragma_table_xinfo
"""
_TIME_FORMATS: Final = {"second": "%Y-%m-%d %H:%M:%S", "minute": "%Y-%m-%d %H:%M:00", "hour": "%Y-%m-%d %H:00:00"}
_PARTS: Final = {
    "year": "%Y",
    "month": "%m",
    "day": "%d",
    "hour": "%H",
    "minute": "%M",
    "second": "%S",
    "dow": "%w",
    "dayofweek": "%w",
    "doy": "%j",
    "dayofyear": "%j",
}
_STARTS: Final = {"year": ("start of year",), "month": ("start of month",), "week": ("-6 days", "weekday 1"), "day": ()}
_MOMENT: Final = "ktx_moment"
_OFFSET: Final = "*[+-]??:??"


_NAME_ERROR: Final = re.compile(r"(?:no such (?:column|table|function|collation sequence)|ambiguous column name): (.+)")
_FORM_ERROR: Final = re.compile(
    r'near "|(?:misuse of|wrong number of arguments to|sub-select returns|SELECTs to the left and right'
    r"|aggregate functions are not allowed|a GROUP BY clause|row value misused|incomplete input|unrecognized token)"
)


class SqliteDialect(Dialect):
    """The SQL of SQLite. Its timestamps are texts of whole seconds, `YYYY-MM-DD HH:MM:SS`."""

    name = "sqlite"
    title = "SQLite"
    has_grouping_sets = False
    filters_aggregates = True
    time_difference = "julianday({0}) - julianday({1})"
    times_are_texts = True
    has_zones = False
    casts_strictly = False
    untyped_columns = True
    is_local = True
    explain_options = r"(?:query\s+plan)?"
    tables_query = "SELECT name, type FROM sqlite_schema"
    columns_query = "SELECT name, type FROM pragma_table_info('{}')"
    catalog_hint = "read sqlite_schema, or pragma_table_info('TABLE')"
    headers_from = "text"
    row_ids = frozenset({"rowid", "oid", "_rowid_"})
    recurses_without_word = True
    tables_after_in = frozenset({"t", "'t'"})
    own_types_are_harmless = True
    system = SystemCatalog(
        open=frozenset(_OPEN_CATALOG.split()),
        prefix="pragma_",
        names=frozenset({"dbstat", "sqlite_dbpage", "sqlite_memstat", "sqlite_stmt", "sqlite_stmts", "fsdir"}),
    )

    def fenced(self, query: exp.Select) -> exp.Select:
        """Return a query that is not merged into the outer one, because of a limit that does not drop any rows."""
        return query.limit(-1, copy=False)

    def floor(self, value: exp.Expr) -> exp.Expr:
        """Return the whole part of a number, because FLOOR is not in every build."""
        return exp.Cast(this=value.copy(), to=exp.DataType.build("bigint"))

    # Times

    def as_date(self, value: exp.Expr) -> exp.Expr:
        """Return the date of a text or number."""
        return call("DATE", value)

    def as_timestamp(self, value: exp.Expr) -> exp.Expr:
        """Return a text or number as a timestamp."""
        return call("DATETIME", value)

    def _date_literal(self, day: date) -> exp.Expr:
        return text(day.isoformat())

    def _timestamp_literal(self, moment: str) -> exp.Expr:
        return text(moment)

    def extract(self, part: str, value: exp.Expr) -> exp.Expr:
        """Return part of a time as a whole number."""
        return self.cast(call("STRFTIME", text(_PARTS[part.lower()]), value), "INTEGER")

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units; a variable number of months must be added to the first day of a month."""
        name, written = "DATE" if kind == "date" else "DATETIME", number_of(count)
        if written is None:
            return call(name, value, joined(count, text(f" {unit}s")))
        plain = call(name, value, text(f"{written:+d} {unit}s"))
        if unit != MONTH:
            return plain
        last: exp.Expr = call("DATE", value, text("start of month"), text(f"{written + 1:+d} months"), text("-1 days"))
        if kind == "timestamp":
            last = joined(last, call("SUBSTR", call("DATETIME", value), number(11)))
        return exp.Least(
            this=plain, expressions=[last]
        )  # Of two texts, the one that overflowed into the next month is larger.

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour."""
        return call("STRFTIME", text(_TIME_FORMATS[unit]), value)

    def first_of_period(self, value: exp.Expr, months: int, first_month: int) -> exp.Expr:
        """Return the first day of the period that contains a date."""
        month = call("DATE", value, text("start of month"))
        return month if months == 1 else self._back_to(month, value, months, first_month)

    def first_of_week(self, value: exp.Expr, *, sunday: bool) -> exp.Expr:
        """Return the Monday or Sunday on or before a date."""
        return call("DATE", value, text("-6 days"), text("weekday 0" if sunday else "weekday 1"))

    def localize(self, value: exp.Expr, kind: TimeKind, source: str, target: str) -> exp.Expr:
        """Return a column's value in the form used for comparing and truncating it.

        A text with `Z` or an offset, and a number, determine their instant themselves.
        """
        if kind == "date":
            return self.as_date(_date_text(value))
        moment = self.as_timestamp(self._whole_seconds(value))
        of_utc = self.between_zones(moment, UTC, target)
        of_source = self.between_zones(moment, source, target)
        if kind == "instant" or of_source == of_utc:
            return of_utc
        known = exp.or_(self.is_number(value), _is_like(value, "*Z"), _is_like(value, _OFFSET))
        return exp.Case(ifs=[exp.If(this=known, true=of_utc)], default=of_source)

    def comparable_time(self, value: exp.Expr, kind: DateOrTimestamp, zone: str) -> exp.Expr:
        """Return the result of `localize` in the column's own zone, followed by the fraction of the second.

        A text that already has that form, as most have, is used unchanged, because parsing takes several times as long.
        """
        localized = self.localize(value, kind, zone, zone)
        if kind == "timestamp":
            localized = joined(localized, _fraction(value))
        plain = call("DATE" if kind == "date" else "DATETIME", value)
        is_plain = exp.EQ(this=plain, expression=value.copy())
        return exp.Case(ifs=[exp.If(this=is_plain, true=value.copy())], default=localized)

    def typed_value(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a stored value as a value of its type; ISO texts and numbers of seconds are times as they are."""
        if stored_as is StoredAs.EPOCH_MILLISECONDS:
            return exp.paren(exp.Div(this=enclosed(value), expression=exp.Literal.number("1000.0"), typed=True))
        if stored_as is StoredAs.NUMBER_TEXT:
            return exp.Case(ifs=[exp.If(this=self._is_written_number(value), true=self.cast(value, "NUMERIC"))])
        if stored_as is StoredAs.BOOLEAN_TEXT:
            return super().typed_value(value, stored_as)
        return value.copy()

    def _differs(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr | None:
        """Return the condition that a text is in another form; SQLite has no patterns, but parsers of its own."""
        if stored_as is StoredAs.JSON_TEXT:
            return exp.not_(call("JSON_VALID", value))
        if stored_as in (StoredAs.NUMBER_TEXT, StoredAs.BOOLEAN_TEXT):
            return super()._differs(value, stored_as)
        day = call("SUBSTR", value, number(1), number(10))
        moved = call("DATE", day, text("+0 days"))  # It turns February 30 into March 1.
        is_day = call("COALESCE", exp.EQ(this=moved, expression=day), number(0))
        length = call("LENGTH", value)
        if stored_as is StoredAs.ISO_DATE:
            return exp.or_(exp.not_(is_day), exp.NEQ(this=length, expression=number(10)), copy=False)
        unread = exp.Is(this=call("DATETIME", value), expression=exp.null())
        return exp.or_(exp.not_(is_day), exp.EQ(this=length, expression=number(10)), unread, copy=False)

    def _is_written_number(self, value: exp.Expr) -> exp.Expr:
        """Return the condition that a text is a number as JSON writes it."""
        kinds = exp.In(this=call("JSON_TYPE", value), expressions=[text("integer"), text("real")])
        return exp.Case(ifs=[exp.If(this=call("JSON_VALID", value), true=kinds)])

    def is_number(self, value: exp.Expr) -> exp.Expr:
        """Return the condition that a time is not text: it is a number of seconds since 1970, or NULL."""
        return _is_number(value)

    def date_part(self, part: str, value: exp.Expr) -> exp.Expr | None:
        """Return EXTRACT expressed with STRFTIME."""
        if part in _PARTS:
            return _integer(_PARTS[part], value)
        if part == "quarter":
            number_of_thirds = exp.paren(_integer("%m", value) + 2), 3
        elif part in ("week", "isoweek", "weekofyear"):
            thursday = call("DATE", value, text("-3 days"), text("weekday 4"))
            number_of_thirds = exp.paren(_integer("%j", thursday) + 6), 7
        else:
            return None
        dividend, divisor = number_of_thirds
        return exp.paren(exp.Div(this=dividend, expression=number(divisor), typed=True))

    def date_cut(self, unit: str, value: exp.Expr) -> exp.Expr | None:
        """Return DATE_TRUNC expressed with DATE modifiers or a format."""
        if unit in _STARTS:
            return call("DATE", value, *map(text, _STARTS[unit]))
        if unit in _TIME_FORMATS:
            return self.truncated_time(value, unit)
        if unit == "quarter":
            back = exp.paren(exp.Mod(this=exp.paren(_integer("%m", value) + 2), expression=number(3)))
            return call("DATE", value, text("start of month"), joined(text("-"), back, text(" months")))
        return None

    def cut_operand(self, made: exp.Expr) -> exp.Expr:
        """Return the operand of an expression created by `date_part` or `date_cut`."""
        function = made if isinstance(made, exp.Anonymous) else made.find(exp.Anonymous)
        assert function is not None
        while isinstance(function.expressions[-1], exp.Anonymous) and not function.expressions[-1].meta:
            function = function.expressions[-1]
        operand: exp.Expr = function.expressions[1] if function.name == "STRFTIME" else function.expressions[0]
        return operand

    def _by_changes(self, value: exp.Expr, changes: tuple[Stretch, ...]) -> exp.Expr:
        """Return a timestamp shifted by the difference between two zones.

        Reading a value is a long expression, so a value that is needed several times is written once, in an outer
        query.
        """
        if is_constant(changes):
            return super()._by_changes(value, changes)
        later = super()._by_changes(exp.column(_MOMENT), changes)
        inner = exp.select(exp.alias_(value.copy(), _MOMENT)).subquery(_MOMENT)
        return exp.select(later).from_(inner).subquery()

    def _yearly(self, value: exp.Expr, change: YearlyChange) -> exp.Expr:
        time = str(timedelta(seconds=change.seconds)).zfill(8)
        modifiers = (f"+{change.month - 1} months", f"+{change.day - 1} days", f"weekday {(change.weekday + 1) % 7}")
        return call("STRFTIME", text(f"%Y-%m-%d {time}"), value, text("start of year"), *map(text, modifiers))

    def _whole_seconds(self, value: exp.Expr) -> exp.Expr:
        """Return the text without its fraction, which newer versions would round up, even into the next day."""
        bare = call("SUBSTR", value, number(1), number(19))
        ifs = [
            exp.If(this=_is_number(value), true=call("DATETIME", value, text("unixepoch"))),
            exp.If(this=_has_no_point(value), true=value.copy()),
            exp.If(this=_is_like(value, _OFFSET), true=joined(bare, call("SUBSTR", value, number(-6)))),
        ]
        return exp.Case(ifs=ifs, default=bare.copy())

    # Samples

    def beginning(self, value: str, length: int) -> str:
        """Return the first characters of a text, the first bytes of a blob in hexadecimal, or other values as is."""
        blob = f"lower(hex(substr({value}, 1, {length // 2})))"
        return (
            f"CASE typeof({value}) WHEN 'text' THEN substr({value}, 1, {length}) WHEN 'blob' THEN {blob} "
            f"ELSE {value} END"
        )

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether the message indicates a mistake in the statement, which must contain any quoted name."""
        message = str(error)
        named = _NAME_ERROR.match(message)
        return named[1].casefold() in sql.casefold() if named else _FORM_ERROR.match(message) is not None

    def row_number(self, table: Table) -> str | None:
        """Return SQLite's row number, under a name that is not used by a column."""
        names = {column.name.lower() for column in table.columns}
        return next((name for name in ("_rowid_", "rowid", "oid") if name not in names), None)


def _is_number(value: exp.Expr) -> exp.Expr:
    return exp.NEQ(this=call("TYPEOF", value), expression=text("text"))


def _has_no_point(value: exp.Expr) -> exp.Expr:
    return exp.NEQ(this=call("SUBSTR", value, number(20), number(1)), expression=text("."))


def _is_like(value: exp.Expr, pattern: str) -> exp.Expr:
    return exp.Glob(this=value.copy(), expression=text(pattern))


def _date_text(value: exp.Expr) -> exp.Expr:
    moment = call("DATE", value, text("unixepoch"))
    day = call("SUBSTR", value, number(1), number(10))
    return exp.Case(ifs=[exp.If(this=_is_number(value), true=moment)], default=day)


def _fraction(value: exp.Expr) -> exp.Expr:
    """Return the fraction of the seconds in a text, with its point and without trailing zeros, or an empty string."""
    length = minus(call("LENGTH", value), number(25))
    ifs = [
        exp.If(this=_has_no_point(value), true=text("")),
        exp.If(this=_is_like(value, _OFFSET), true=call("SUBSTR", value, number(20), length)),
    ]
    digits = exp.Case(ifs=ifs, default=call("SUBSTR", value, number(20)))
    return call("RTRIM", call("RTRIM", digits, text("0Z")), text("."))


def _integer(form: str, value: exp.Expr) -> exp.Cast:
    return exp.Cast(this=call("STRFTIME", text(form), value), to=exp.DataType.build("integer"))


DIALECT = SqliteDialect()
