"""Which errors of a database are about the statement alone: found before a row was read, so that they hold no value.

What a database says while it reads rows may quote them, in any form: `CAST('a''' || name AS INTEGER)` has it quote a
name so that nobody can tell where the value ends.
"""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.connectors.worker.process import EngineError

_DUCKDB: Final = frozenset({"BinderException", "CatalogException", "ParserException", "SyntaxException"})
_MYSQL: Final = frozenset(
    {1046, 1052, 1054, 1055, 1064, 1066, 1096, 1109, 1111, 1140, 1142, 1143, 1146, 1222, 1241, 1248, 1305, 1370}
)
_TRINO: Final = frozenset(
    {
        "AMBIGUOUS_NAME", "CATALOG_NOT_FOUND", "COLUMN_NOT_FOUND", "EXPRESSION_NOT_AGGREGATE", "FUNCTION_NOT_FOUND",
        "MISSING_GROUP_BY", "PERMISSION_DENIED", "SCHEMA_NOT_FOUND", "SYNTAX_ERROR", "TABLE_NOT_FOUND",
    }
)  # fmt: skip
_SQLITE_NAMED: Final = re.compile(
    r"(?:no such (?:column|table|function|collation sequence)|ambiguous column name): (.+)"
)
_SQLITE: Final = re.compile(
    r'near "|(?:misuse of|wrong number of arguments to|sub-select returns|SELECTs to the left and right'
    r"|aggregate functions are not allowed|a GROUP BY clause|row value misused|incomplete input|unrecognized token)"
)
_DENIED: Final = "42501"


def tells_of_the_statement(error: BaseException, sql: str) -> bool:
    """Whether an error a driver raised (or one raised from it) is about the names and the form of `sql` alone.

    False where that is not known for sure: for what was found in rows, and for databases that do not say which it is.
    """
    driver = error.__cause__
    if driver is None:
        return False
    # What an engine raised in a worker, and what it raises itself, are told alike.
    module = driver.engine if isinstance(driver, EngineError) else type(driver).__module__.partition(".")[0]
    if module in ("duckdb", "_duckdb"):
        return driver_error_name(driver) in _DUCKDB
    if module in ("sqlite", "sqlite3"):
        return _of_sqlite(str(driver), sql)
    if module == "psycopg":
        return _of_postgres(driver)
    if module == "pymysql":
        return bool(driver.args) and driver.args[0] in _MYSQL
    return getattr(driver, "error_name", None) in _TRINO


def driver_error_name(driver: BaseException) -> str:
    """Return the name of the class of error that a driver raised."""
    return driver.kind if isinstance(driver, EngineError) else type(driver).__name__


def _of_sqlite(text: str, sql: str) -> bool:
    named = _SQLITE_NAMED.match(text)
    return named[1].casefold() in sql.casefold() if named else _SQLITE.match(text) is not None


def _of_postgres(driver: BaseException) -> bool:
    """Whether an error has a place in the statement: an input that is no jsonpath is a "syntax error" too, without."""
    state = str(getattr(driver, "sqlstate", None) or "")
    place = getattr(getattr(driver, "diag", None), "statement_position", None)
    return state == _DENIED or (state.startswith("42") and place is not None)
