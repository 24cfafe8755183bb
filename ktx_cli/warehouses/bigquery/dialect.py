"""The SQL of BigQuery."""

from __future__ import annotations

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType
from ktx_cli.warehouses.time_arithmetic import UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, text, word


class BigQueryDialect(Dialect):
    """The SQL of BigQuery."""

    name = "bigquery"
    title = "BigQuery"
    not_summed = frozenset({SemanticType.BOOLEAN, SemanticType.TIME})
    text_cast = "CAST({} AS STRING)"
    text_hash = "to_hex(md5({}))"
    distinct_estimate = "approx_count_distinct({})"
    sample = "TABLESAMPLE SYSTEM ({percent} PERCENT)"
    name_quotes = ("`", "`")
    escapes_in_names = True
    escapes_in_texts = True
    quote_in_texts = r"\'"
    texts_in_double_quotes = True
    dotted_names = True
    series_in_one_value = True
    has_try_cast = True
    decimal_type = "NUMERIC"
    timestamp_type = "DATETIME"
    exact_row_counts = True
    tables_query = "SELECT table_name FROM DATASET.INFORMATION_SCHEMA.TABLES"
    columns_query = "SELECT column_name, data_type FROM DATASET.INFORMATION_SCHEMA.COLUMNS WHERE table_name = '{}'"
    free_places = frozenset({"hll_count", "kll_quantiles", "net", "safe"})
    reads_lists_by_path = True
    history = "jobs"
    osi_name = "BIGQUERY"
    system = SystemCatalog(
        closed_information=("jobs", "sessions", "streaming", "object_privileges", "effective_", "write_api")
    )

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units."""
        return call("DATE_ADD" if kind == "date" else "DATETIME_ADD", value, self._interval(count, unit))

    def truncated(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return the first day of the period that contains a date."""
        return call("DATE_TRUNC", value, word(unit.upper()))

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour."""
        return call("DATETIME_TRUNC", value, word(unit.upper()))

    def first_of_week(self, value: exp.Expr, *, sunday: bool) -> exp.Expr:
        """Return the Monday or Sunday on or before a date."""
        return call("DATE_TRUNC", value, call("WEEK", word("SUNDAY" if sunday else "MONDAY")))

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant."""
        return call("DATETIME", value, text(zone))

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return call("DATETIME", call("TIMESTAMP", value, text(UTC)), text(zone))


DIALECT = BigQueryDialect()
