"""The SQL of Snowflake."""

from __future__ import annotations

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.time_arithmetic import UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, text


class SnowflakeDialect(Dialect):
    """The SQL of Snowflake."""

    name = "snowflake"
    title = "Snowflake"
    text_cast = "CAST({} AS VARCHAR)"
    text_hash = "md5({})"
    distinct_estimate = "approx_count_distinct({})"
    sample = "SAMPLE SYSTEM ({percent}) SEED ({seed})"
    escapes_in_texts = True
    has_percentiles = True
    rounds_percentiles = True
    rounds_averages = True
    series_in_one_value = True
    timestamp_type = "TIMESTAMP_NTZ"
    counted_from = 1  # The first day of its week depends on the session.
    exact_row_counts = True
    explain_options = r"(?:using\s+(?:tabular|json|text))?"
    positional_columns = True
    recurses_without_word = True
    files_are_tables = True
    history = "account_usage"
    osi_name = "SNOWFLAKE"
    system = SystemCatalog(
        schemas=frozenset({"snowflake", "account_usage", "organization_usage", "reader_account_usage"})
    )

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return exp.Floor(this=super()._whole_quotient(count, step))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return self._dateadd(value, count, unit)

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return self.as_timestamp(call("CONVERT_TIMEZONE", text(zone), value))

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return call("CONVERT_TIMEZONE", text(UTC), text(zone), value)


DIALECT = SnowflakeDialect()
