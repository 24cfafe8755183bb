"""quackbase's SQL: DuckDB's, but for what is said here."""

from sqlglot.dialects.duckdb import DuckDB

from ktx_cli.warehouses.duckdb.dialect import DuckDbDialect


class Quackbase(DuckDB):
    """The dialect for sqlglot, which parses and writes statements."""


class QuackbaseDialect(DuckDbDialect):
    """The dialect for ktx: how it quotes, samples, compares and counts time."""

    name = "quackbase"
    title = "quackbase"


DIALECT = QuackbaseDialect()
