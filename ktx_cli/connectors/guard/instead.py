"""SHOW, DESCRIBE, PRAGMA and SUMMARIZE are no queries: which SELECT over the catalog answers the same question."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.connectors.guard.errors import READING, refused
from ktx_cli.connectors.guard.functions import SETTINGS
from ktx_cli.core.text import shell_words

_WORD: Final = re.compile(r"\s*(show|describe|desc|pragma|summarize|explain)\b\s*(.*)", re.IGNORECASE | re.DOTALL)
_QUERY: Final = re.compile(r"[\s(]*(select|with|values|from)\b", re.IGNORECASE)
_TABLE: Final = re.compile(
    r"(?:(?:full|extended|formatted)\s+)*(?:(?:columns|fields|indexes|index|keys|table_info|table_xinfo)\b\s*)?"
    r"(?:(?:from|in|table)\s+)?[\s('\"`\[]*([\w$.\"`]+)",
    re.IGNORECASE,
)
_OF_A_TABLE: Final = re.compile(r"(?:(?:full|extended)\s+)*(?:columns|fields|indexes|index|keys|table_x?info)\b", re.I)

_INFORMATION: Final = (
    "SELECT table_schema, table_name FROM information_schema.tables",
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{}'",
)
_CATALOG: Final = {
    "sqlite": (
        "SELECT name, type FROM sqlite_schema",
        "SELECT name, type FROM pragma_table_info('{}')",
    ),
    "clickhouse": (
        "SELECT database, name FROM system.tables",
        "SELECT name, type FROM system.columns WHERE table = '{}'",
    ),
    "bigquery": (
        "SELECT table_name FROM DATASET.INFORMATION_SCHEMA.TABLES",
        "SELECT column_name, data_type FROM DATASET.INFORMATION_SCHEMA.COLUMNS WHERE table_name = '{}'",
    ),
}
_BACKSLASH: Final = frozenset({"bigquery", "databricks", "clickhouse"})
_SETTING: Final = frozenset({"postgres", "redshift"})


def require_no_description(sql: str, dialect: str, connection: str) -> None:
    """Raise for a statement that describes; the hint is the query, or the command, that answers it."""
    found = _WORD.match(sql)
    if found is None:
        return
    word, rest = found[1].upper(), found[2].strip().rstrip(";")
    if word == "EXPLAIN" and (dialect != "mysql" or not re.fullmatch(r"[\w`.]+", rest)):
        return  # with a table's name alone it describes the table on MySQL
    raise refused("root", f"`{word}`", "is not a query", hint=_answer(word, rest, dialect, connection))


def catalog_query(dialect: str, table: str | None = None) -> str:
    """Return the query that lists the tables of a database, or the columns of one."""
    tables, columns = _CATALOG.get(dialect, _INFORMATION)
    quote = r"\'" if dialect in _BACKSLASH else "''"
    return tables if table is None else columns.format(table.replace("'", quote))


def _answer(word: str, rest: str, dialect: str, connection: str) -> str:
    scan = shell_words("ktx", "scan", connection, "--depth", "profile")
    if word == "SUMMARIZE":
        return f"{scan} counts and measures columns"
    if _QUERY.match(rest):
        return READING
    if word == "SHOW" and dialect in _SETTING and rest.lower() in SETTINGS:
        return f"SELECT current_setting('{rest}')"
    named = _TABLE.match(rest) if word != "SHOW" or _OF_A_TABLE.match(rest) else None
    if word == "PRAGMA" and not _OF_A_TABLE.match(rest):
        named = None
    table = named[1].strip("\"`'").rpartition(".")[2].strip("\"`'") if named else None
    return catalog_query(dialect, table or None)
