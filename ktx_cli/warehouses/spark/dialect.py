"""The SQL of Spark, from which that of Databricks is derived."""

from __future__ import annotations

import functools
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect
from ktx_cli.warehouses.port import SemanticType
from ktx_cli.warehouses.time_arithmetic import DAY, MONTH, UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, number, plus, text

FILE_FORMATS: Final = frozenset(
    {"csv", "parquet", "json", "orc", "text", "avro", "delta", "binaryfile", "iceberg", "xml", "image", "jdbc", "kafka"}
    | {"hudi", "libsvm", "sql"}
)
"""The names before a path in FROM that Spark reads as a file format instead of a schema."""


class SparkDialect(Dialect):
    """The SQL of Spark in ANSI mode, with UTC as the time zone of the session."""

    name = "spark"
    title = "Spark SQL"
    not_summed = frozenset({SemanticType.BOOLEAN, SemanticType.TIME})
    text_cast = "CAST({} AS STRING)"
    text_hash = "md5({})"
    distinct_estimate = "approx_count_distinct({})"
    distinct_error = 0.05
    sample = "TABLESAMPLE ({percent} PERCENT) REPEATABLE ({seed})"
    name_quotes = ("`", "`")
    escapes_in_texts = True
    quote_in_texts = r"\'"
    doubled_quotes_vary = True
    texts_in_double_quotes = True
    filters_aggregates = True
    rounds_averages = True
    series_in_one_value = True
    has_try_cast = True
    timestamp_type = "TIMESTAMP_NTZ"
    samples_single_rows = True
    explain_options = r"(?:extended|codegen|cost|formatted)?"
    files_are_tables = True
    file_formats = FILE_FORMATS
    tables_query = ""

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

    def readable(self, value: str, native_type: str) -> str:
        """Return the SQL for a value; NULL for a date or time outside the years 1 to 9999."""
        if not native_type.startswith(("date", "timestamp")):
            return value
        return f"CASE WHEN {value} >= DATE '0001-01-02' AND {value} < DATE '9999-12-31' THEN {value} END"

    def rendered(self, tree: exp.Expr, *, copy: bool = True) -> str:
        """Return the SQL of a statement, with the functions and clauses that it has."""
        generator = _generator(self.name)(dialect=self.name, comments=False, normalize_functions=False)
        return str(generator.generate(tree, copy=copy))


@functools.cache
def _generator(name: str) -> Any:
    """Return the generator that writes what Spark 4 has, and the parser's own one replaces.

    That one writes an exact percentile as an approximate one, drops PARSE_JSON, puts the limit of a query with QUALIFY
    before its condition, and writes the seed of a sample with a word that Spark does not know.
    """
    from sqlglot import Dialect as Grammar
    from sqlglot.dialects.databricks import Databricks

    own = Grammar.get_or_raise(name).generator_class
    transforms = {kind: write for kind, write in own.TRANSFORMS.items() if kind is not exp.WithinGroup}
    transforms[exp.Select] = Databricks.Generator.TRANSFORMS[exp.Select]
    changed = {"TRANSFORMS": transforms, "PARSE_JSON_NAME": "PARSE_JSON", "TABLESAMPLE_SEED_KEYWORD": "REPEATABLE"}
    return type("SparkGenerator", (own,), changed)


DIALECT = SparkDialect()
