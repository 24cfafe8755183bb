"""The SQL of Snowflake."""

from __future__ import annotations

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog, lower_words_in
from ktx_cli.warehouses.time_arithmetic import UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, text


class SnowflakeDialect(Dialect):
    """The SQL of Snowflake."""

    name = "snowflake"
    title = "Snowflake"
    escapes_in_texts = True
    has_percentiles = True
    rounds_percentiles = True
    rounds_averages = True
    series_in_one_value = True
    timestamp_type = "TIMESTAMP_NTZ"
    counted_from = 1  # its week begins where a session says
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

    def functions(self) -> frozenset[str]:
        """Return the names of functions that only compute."""
        return lower_words_in(__package__, "functions.txt")

    def _whole_quotient(self, count: exp.Expr, step: int) -> exp.Expr:
        return exp.Floor(this=super()._whole_quotient(count, step))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value moved by units."""
        return self._dateadd(value, count, unit)

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return what the clocks of a zone show at an instant."""
        return self.as_timestamp(call("CONVERT_TIMEZONE", text(zone), value))

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return what the clocks of a zone show at a timestamp of UTC."""
        return call("CONVERT_TIMEZONE", text(UTC), text(zone), value)

    def as_text(self, value: str) -> str:
        """Return a value as a text."""
        return f"CAST({value} AS VARCHAR)"

    def sample_clause(self, count: int, percent: str, seed: int) -> str | None:
        """Return the clause for a sample of blocks."""
        return f" SAMPLE SYSTEM ({percent}) SEED ({seed})"


DIALECT = SnowflakeDialect()
