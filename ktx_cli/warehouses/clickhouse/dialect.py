"""The SQL of ClickHouse."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType, StoredAs
from ktx_cli.warehouses.time_arithmetic import ENDS, FIRST, LAST, PERIOD, UTC, DateOrTimestamp, PeriodLength, ends
from ktx_cli.warehouses.trees import call, data_type, multiple, number, text

_OPEN_CATALOG: Final = """
columns contributors data_skipping_indices databases formats functions one parts parts_columns tables
time_zones
"""
# A value that may be absent, is dictionary-encoded, or is the plain state of an aggregation.
_WRAPPED: Final = re.compile(r"(?:nullable\(|lowcardinality\(|simpleaggregatefunction\(\w+(?:\(.*?\))?,)(.*)\)")
_MOVES: Final = {"second": "addSeconds", "day": "addDays", "month": "addMonths"}
_SOME_TEXTS: Final = {
    StoredAs.ISO_DATE: "1970-01-01",
    StoredAs.ISO_TIMESTAMP: "1970-01-01 00:00:00",
    StoredAs.ISO_TIMESTAMP_TZ: "1970-01-01 00:00:00",
    StoredAs.NUMBER_TEXT: "0",
    StoredAs.BOOLEAN_TEXT: "false",
}
"""Texts that are cast in the place of NULL, and not used."""
_TIME_FORMATS: Final = {"second": "%Y-%m-%d %H:%i:%S", "minute": "%Y-%m-%d %H:%i:00", "hour": "%Y-%m-%d %H:00:00"}


class ClickHouseDialect(Dialect):
    """The SQL of ClickHouse.

    Every DateTime is an instant: a timestamp without a zone is a `DateTime64(0, 'UTC')` of whole seconds. A number of
    seconds must be converted to a DateTime (`fromUnixTimestamp`) in the column's expression.
    """

    name = "clickhouse"
    title = "ClickHouse"
    compares_missing_values = False
    text_cast = "toString({})"
    text_hash = "lower(hex(MD5({})))"
    distinct_estimate = "uniqCombined64({})"
    name_quotes = ("`", "`")
    escapes_in_names = True
    escapes_in_texts = True
    quote_in_texts = r"\'"
    joins_by_any_condition = False
    correlates_queries = False
    series_in_one_value = True
    counted_from = 1900  # Its functions that truncate dates only return dates from 1970 to 2149.
    exact_row_counts = True
    explain_options = r"(?:ast|syntax|plan|pipeline|estimate)?"
    tables_query = "SELECT database, name FROM system.tables"
    columns_query = "SELECT name, type FROM system.columns WHERE table = '{}'"
    combines_aggregates = True
    format_has_widths = False
    files_are_tables = True
    tables_after_in = frozenset({"t", "(t)"})
    has_grants = True
    all_tables_form = "{}.*"
    grants_usage = False
    system = SystemCatalog(schemas=frozenset({"system"}), open=frozenset(_OPEN_CATALOG.split()))

    def semantic_type(self, native_type: str) -> SemanticType:
        """Return the type of a column, looking into `Nullable`, `LowCardinality` and `SimpleAggregateFunction`."""
        while wrapped := _WRAPPED.fullmatch(native_type.strip().lower()):
            native_type = wrapped[1]
        return super().semantic_type(native_type)

    def null_safe_join(self, one: exp.Expr, two: exp.Expr) -> exp.Expr:
        """Return IS NOT DISTINCT FROM, which older versions only allow in joins, where they refuse the other form."""
        return exp.NullSafeEQ(this=one, expression=two)

    def as_date(self, value: exp.Expr) -> exp.Expr:
        """Return a Date32, because a Date only covers 1970 to 2149."""
        return call("toDate32", value)

    def as_timestamp(self, value: exp.Expr) -> exp.Expr:
        """Return the local time in the value's own zone."""
        return _clock_reading(value, _TIME_FORMATS["second"])

    def _cast_text(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        filled = _filled(value, _SOME_TEXTS[stored_as])
        if stored_as is StoredAs.ISO_DATE:
            cast = self.as_date(filled)
        elif stored_as is StoredAs.ISO_TIMESTAMP:
            cast = call("toDateTime64", filled, number(0), text(UTC))
        elif stored_as is StoredAs.ISO_TIMESTAMP_TZ:
            cast = call("toDateTime64", call("parseDateTimeBestEffort", filled, text(UTC)), number(0), text(UTC))
        else:
            cast = super()._cast_text(filled, stored_as)
        return _unless_null(value, cast)

    def _boolean(self, value: exp.Expr) -> exp.Expr:
        cast = super()._boolean(value)
        word = cast.this
        cast.set("this", _filled(word, _SOME_TEXTS[StoredAs.BOOLEAN_TEXT]))
        return _unless_null(word, cast)

    def _timestamp_literal(self, moment: str) -> exp.Expr:
        return call("toDateTime64", text(moment), number(0), text(UTC))

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return call("intDiv", count, number(step))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return call(_MOVES[unit], value, count)

    def units_between(self, unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the seconds, days or months between two times."""
        return call("dateDiff", text(unit), start, end)

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour."""
        return _clock_reading(value, _TIME_FORMATS[unit])

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return _clock_reading(value, _TIME_FORMATS["second"], zone)

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return _clock_reading(value, _TIME_FORMATS["second"], zone)

    def _midnight(self, value: exp.Expr) -> exp.Expr:
        return _timestamp(self.cast(value, "String"))

    def spine(self, start: exp.Expr, end: exp.Expr, step: PeriodLength, most: int) -> exp.Select:
        """Return the date spine from the table of numbers. Its rows are counted first because dates end in 2299."""
        first, last, index = exp.column(FIRST, ENDS), exp.column(LAST, ENDS), exp.column("number", "numbers")
        numbers = exp.alias_(exp.Table(this=call("numbers", number(most))), "numbers", table=True)
        reached = exp.LTE(this=multiple(index, step.size), expression=self.units_between(step.unit, first, last))
        column = exp.alias_(self.later(first, index, step), PERIOD, quoted=True)
        return exp.select(column).from_(ends(start, end)).join(numbers, join_type="cross").where(reached)


def _clock_reading(value: exp.Expr, form: str, zone: str | None = None) -> exp.Expr:
    """Return the local time in a zone (None for the value's own), in a formatDateTime format."""
    return _timestamp(call("formatDateTime", value, text(form), *([text(zone)] if zone else [])))


def _timestamp(value: exp.Expr) -> exp.Expr:
    """Return a text that is a timestamp or NULL as a timestamp; `toDateTime64` fails for a column of NULL.

    For another text, it is NULL.
    """
    return exp.Cast(this=value.copy(), to=data_type(f"Nullable(DateTime64(0, '{UTC}'))", "clickhouse").copy())


def _filled(value: exp.Expr, some: str) -> exp.Expr:
    """Return a text with another one for NULL, which strict casts reject."""
    return exp.Coalesce(this=value.copy(), expressions=[text(some)])


def _unless_null(value: exp.Expr, cast: exp.Expr) -> exp.Expr:
    """Return NULL for a value that is NULL, and otherwise what was made of it."""
    missing = exp.Is(this=value.copy(), expression=exp.null())
    return exp.Case(ifs=[exp.If(this=missing, true=exp.null())], default=cast)


DIALECT = ClickHouseDialect()
