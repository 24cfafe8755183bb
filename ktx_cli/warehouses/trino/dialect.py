"""The SQL of Trino."""

from __future__ import annotations

from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType, StoredAs
from ktx_cli.warehouses.time_arithmetic import UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, joined, number, text

_OPTION: Final = r"(?:format\s+(?:text|json)|type\s+(?:logical|distributed|validate|io))"


_STATEMENT_ERRORS: Final = frozenset(
    {
        "AMBIGUOUS_NAME", "CATALOG_NOT_FOUND", "COLUMN_NOT_FOUND", "EXPRESSION_NOT_AGGREGATE", "FUNCTION_NOT_FOUND",
        "MISSING_GROUP_BY", "PERMISSION_DENIED", "SCHEMA_NOT_FOUND", "SYNTAX_ERROR", "TABLE_NOT_FOUND",
    }
)  # fmt: skip


class TrinoDialect(Dialect):
    """The SQL of Trino."""

    name = "trino"
    title = "Trino"
    not_summed = frozenset({SemanticType.BOOLEAN, SemanticType.TIME})
    text_cast = "CAST({} AS varchar)"
    text_hash = "lower(to_hex(md5(to_utf8({}))))"
    distinct_estimate = "approx_distinct({})"
    sample = "TABLESAMPLE BERNOULLI ({percent})"
    filters_aggregates = True
    rounds_averages = True
    series_in_one_value = True
    has_try_cast = True
    timestamp_type = "TIMESTAMP(12)"  # Without digits, casting a fraction rounds up.
    samples_single_rows = True
    explain_options = rf"(?:analyze(?:\s+verbose)?|\(\s*{_OPTION}\s*\))?"
    folds_function_names = False
    has_grants = True
    system = SystemCatalog(schemas=frozenset({"system"}))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return call("DATE_ADD", text(unit.upper()), count, value)

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether the error's name indicates a mistake in the statement."""
        return getattr(error, "error_name", None) in _STATEMENT_ERRORS

    def truncated(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return the first day of the period that contains a date; here, DATE_TRUNC returns a date for a date."""
        return call("DATE_TRUNC", text(unit.upper()), value)

    def _cast_text(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        """Return a text of the form as a value of the type; a timestamp must have a blank before its time."""
        is_timestamp = stored_as in (StoredAs.ISO_TIMESTAMP, StoredAs.ISO_TIMESTAMP_TZ)
        if not is_timestamp:
            return super()._cast_text(value, stored_as)
        day, time = call("SUBSTR", value, number(1), number(10)), call("SUBSTR", value, number(12))
        return super()._cast_text(joined(day, text(" "), time), stored_as)

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return self.as_timestamp(self._at_zone(value, zone))

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return self.as_timestamp(self._at_zone(call("WITH_TIMEZONE", value, text(UTC)), zone))


DIALECT = TrinoDialect()
