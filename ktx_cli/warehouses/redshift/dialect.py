"""Redshift's SQL, which is derived from Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import SystemCatalog
from ktx_cli.warehouses.postgres.dialect import OPEN_CATALOG, PostgresDialect
from ktx_cli.warehouses.time_arithmetic import UTC, DateOrTimestamp
from ktx_cli.warehouses.trees import call, text

_OPEN_CATALOG: Final = """
pg_table_def pg_external_schema svv_all_columns svv_all_schemas svv_all_tables svv_columns svv_external_columns
svv_external_schemas svv_external_tables svv_redshift_columns svv_redshift_schemas svv_redshift_tables svv_table_info
svv_tables
"""


class RedshiftDialect(PostgresDialect):
    """The SQL of Redshift."""

    name = "redshift"
    title = "Redshift"
    text_cast = "CAST({} AS varchar)"
    text_hash = "md5({})"
    numeric_hashes = False
    distinct_estimate = "APPROXIMATE COUNT(DISTINCT {})"
    compares_missing_values = False
    sample = ""  # It has no clause for one.
    filters_aggregates = False
    rounds_percentiles = True
    rounds_averages = True
    decimal_type = "DECIMAL(38, 9)"
    explain_options = r"(?:verbose)?"
    headers_from = ""
    history = ""
    keeps_quoted_case = False
    unnests_paths = True
    system = SystemCatalog(
        schemas=frozenset({"pg_catalog", "pg_toast", "pg_internal", "sys"}),
        open=frozenset((OPEN_CATALOG + _OPEN_CATALOG).split()),
        prefix=("pg_", "stl_", "stv_", "svl_", "svv_", "svcs_", "sys_"),
    )

    def moved(self, value: exp.Expr, count: exp.Expr, unit: str, kind: DateOrTimestamp) -> exp.Expr:
        """Return a value shifted by DATEADD, which converts a date to a timestamp."""
        later = self._dateadd(value, count, unit)
        return self.as_date(later) if kind == "date" else later

    def from_utc(self, value: exp.Expr, zone: str) -> exp.Expr:
        """Return the local time in a zone at a UTC timestamp."""
        return call("CONVERT_TIMEZONE", text(UTC), text(zone), value)

    def readable(self, value: str, native_type: str) -> str:
        """Return the value unchanged."""
        return value

    def is_padded(self, native_type: str) -> bool:
        """Return False: trailing blanks are as stored."""
        return False

    def reader_role(self, name: str, database: str | None, schemas: Sequence[str]) -> str | None:
        """Return None: roles are created differently in Redshift."""
        return None


DIALECT = RedshiftDialect()
