"""DuckDB's SQL, which also reads data files."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import Dialect, SystemCatalog
from ktx_cli.warehouses.port import SemanticType, StoredAs, Table
from ktx_cli.warehouses.time_arithmetic import DAY, MONTH, DateOrTimestamp
from ktx_cli.warehouses.trees import call, number, number_of, plus, times

_STATEMENT_ERRORS: Final = frozenset({"BinderException", "CatalogException", "ParserException", "SyntaxException"})


class DuckDbDialect(Dialect):
    """The SQL of DuckDB."""

    name = "duckdb"
    title = "DuckDB"
    not_summed = frozenset({SemanticType.TIME})
    text_cast = "CAST({} AS VARCHAR)"
    text_hash = "(system.main.hash({}, '{version}') >> 4)"
    numeric_hashes = True
    distinct_estimate = "approx_count_distinct({})"
    distinct_error = 0.05
    sample = "TABLESAMPLE reservoir({count} ROWS) REPEATABLE ({seed})"
    filters_aggregates = True
    has_percentiles = True
    rounds_percentiles = True
    series_in_one_value = True
    dates_as_texts = True
    counts_without_reading = True  # Its catalog also counts deleted rows.
    samples_single_rows = True
    generated_columns_vary = True  # Unlike SQLite, it allows calls of now() and random().
    is_local = True
    has_try_cast = True
    explain_options = ""
    pivots_are_statements = True
    free_places = frozenset({"system.main", "pg_catalog"})
    own_types_are_harmless = True
    files_are_tables = True
    system = SystemCatalog(names=frozenset({"duckdb_secrets", "duckdb_logs"}))

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by units; days and seconds without an INTERVAL.

        For DuckDB up to 2.0, a month equals 30 days: of `x + INTERVAL 1 MONTH` and `x + INTERVAL 30 DAY` in one
        statement, it computes only the first, and returns it for both.
        """
        if unit == MONTH:
            return super().moved(value, count, unit, kind)
        written = number_of(count)
        if kind == "date":
            return plus(value, count if written is not None else self.cast(count, "INT"))
        micros = (86_400 if unit == DAY else 1) * 1_000_000
        length = times(self.cast(count, "BIGINT"), number(micros)) if written is None else number(written * micros)
        return call("MAKE_TIMESTAMP", plus(call("EPOCH_US", value), length))

    def _of_epoch(self, value: exp.Expr, stored_as: StoredAs) -> exp.Expr:
        micros = 1_000_000 if stored_as is StoredAs.EPOCH_SECONDS else 1_000
        return call("MAKE_TIMESTAMP", times(self.cast(value, "BIGINT"), number(micros)))

    def beginning(self, value: str, length: int) -> str:
        """Return the first characters of a text. The schema matters, because a database may define its own `substr`."""
        return f"system.main.substr({value}, 1, {length})"

    def hashed(self, value: str) -> str:
        """Return the SQL for the hash of a text, which differs between versions of DuckDB."""
        return self.text_hash.format(value, version=_version())

    def is_statement_error(self, error: BaseException, sql: str) -> bool:
        """Return whether the error's class indicates a mistake in the statement."""
        return getattr(error, "kind", type(error).__name__) in _STATEMENT_ERRORS

    def row_number(self, table: Table) -> str | None:
        """Return DuckDB's own row number."""
        names = {column.name.lower() for column in table.columns}
        return "rowid" if "rowid" not in names and table.ref.schema is not None else None


@functools.cache
def _version() -> str:
    try:
        return metadata.version("duckdb")
    except metadata.PackageNotFoundError:
        return ""  # Then no database is read either.


DIALECT = DuckDbDialect()
