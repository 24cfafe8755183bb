"""The SQL of Athena, which is derived from Trino: engine version 3 runs queries as Trino does.

Its other statements follow Hive, and ktx sends none of them but SHOW CREATE VIEW.
"""

from __future__ import annotations

from ktx_cli.warehouses.trino.dialect import TrinoDialect


class AthenaDialect(TrinoDialect):
    """The SQL of queries in Athena."""

    name = "athena"
    title = "Amazon Athena"
    has_grants = False
    sample = ""  # It would scan the whole table, which is billed, and give other rows each time.


DIALECT = AthenaDialect()
