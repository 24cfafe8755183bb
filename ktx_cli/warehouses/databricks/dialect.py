"""The SQL of Databricks."""

from __future__ import annotations

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType
from ktx_cli.warehouses.time_arithmetic import DAY, MONTH, UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, number, plus, text


class DatabricksDialect(Dialect):
    """The SQL of Databricks."""

    name = "databricks"
    title = "Databricks"
    not_summed = frozenset({SemanticType.BOOLEAN, SemanticType.TIME})
    text_cast = "CAST({} AS STRING)"
    sample = "TABLESAMPLE ({percent} PERCENT) REPEATABLE ({seed})"
    name_quotes = ("`", "`")
    escapes_in_texts = True
    quote_in_texts = r"\'"
    texts_in_double_quotes = True
    filters_aggregates = True
    rounds_averages = True
    series_in_one_value = True
    has_try_cast = True
    timestamp_type = "TIMESTAMP_NTZ"
    explain_options = r"(?:extended|codegen|cost|formatted)?"
    files_are_tables = True
    file_formats = frozenset(
        {"csv", "parquet", "json", "orc", "text", "avro", "delta", "binaryfile", "iceberg", "xml", "excel", "image"}
        | {"jdbc", "kafka", "cloudfiles", "hudi", "libsvm", "sql"}
    )
    osi_name = "DATABRICKS"
    system = SystemCatalog(schemas=frozenset({"system"}))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units. DATEADD would return a timestamp in the session's zone."""
        if kind == "date":
            return call("ADD_MONTHS" if unit == MONTH else "DATE_ADD", value, count)
        if unit == MONTH:
            return plus(value, call("MAKE_YM_INTERVAL", number(0), count))
        days, seconds = (count, number(0)) if unit == DAY else (number(0), count)
        return plus(value, call("MAKE_DT_INTERVAL", days, number(0), number(0), seconds))

    def truncated_time(self, value: exp.Expr, unit: str) -> exp.Expr:
        """Return a timestamp truncated to the second, minute or hour."""
        return self.as_timestamp(super().truncated_time(value, unit))

    def of_instant(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at an instant, in whole seconds."""
        return self._since_epoch(call("UNIX_SECONDS", value), zone)

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return call("CONVERT_TIMEZONE", text(UTC), text(zone), value)


DIALECT = DatabricksDialect()
