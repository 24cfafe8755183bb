"""The SQL of Databricks, which is derived from Spark."""

from __future__ import annotations

from ktx_cli.warehouses.dialect import Dialect, SystemCatalog, lower_words_in
from ktx_cli.warehouses.spark.dialect import FILE_FORMATS, SparkDialect


class DatabricksDialect(SparkDialect):
    """The SQL of Databricks."""

    name = "databricks"
    title = "Databricks"
    doubled_quotes_vary = False
    samples_single_rows = False
    file_formats = FILE_FORMATS | {"excel", "cloudfiles"}
    tables_query = Dialect.tables_query
    osi_name = "DATABRICKS"
    system = SystemCatalog(schemas=frozenset({"system"}))

    readable = Dialect.readable

    def functions(self) -> frozenset[str]:
        """Return the functions of its own list alone: a name that only Spark has may be a function of the database."""
        return lower_words_in(__package__, "functions.txt")


DIALECT = DatabricksDialect()
