"""EXPLAIN in front of a query: its options from a list, the query behind it checked as any other."""

from __future__ import annotations

import re
from typing import Final

from ktx_cli.connectors.guard.errors import refused

_WORD: Final = re.compile(r"\s*explain\b", re.IGNORECASE)
_SWITCHES: Final = r"(?:analyze|verbose|costs|buffers|timing|summary|settings)(?:\s+(?:on|off|true|false))?"
_POSTGRES: Final = rf"(?:{_SWITCHES}|format\s+(?:text|json|xml|yaml))"
_TRINO: Final = r"(?:format\s+(?:text|json)|type\s+(?:logical|distributed|validate|io))"
_FORMS: Final = {
    "sqlite": r"(?:query\s+plan)?",
    "duckdb": r"",
    "postgres": rf"(?:\(\s*{_POSTGRES}(?:\s*,\s*{_POSTGRES})*\s*\)|analyze(?:\s+verbose)?|verbose|)",
    "redshift": r"(?:verbose)?",
    "mysql": r"(?:extended|partitions|format\s*=\s*(?:json|traditional|tree))?",
    "snowflake": r"(?:using\s+(?:tabular|json|text))?",
    "clickhouse": r"(?:ast|syntax|plan|pipeline|estimate)?",
    "databricks": r"(?:extended|codegen|cost|formatted)?",
    "trino": rf"(?:analyze(?:\s+verbose)?|\(\s*{_TRINO}\s*\))?",
}


def explained(sql: str, dialect: str) -> tuple[str, str]:
    """Return the EXPLAIN at the beginning of a statement, in its one spelling, and the query behind it.

    The first is empty where there is none. Raises `StatementRefusedError` for options that are not on the list.
    """
    begin = _WORD.match(sql)
    if begin is None:
        return "", sql
    form = _FORMS.get(dialect)
    if form is None:
        raise refused("root", "`EXPLAIN`", f"is nothing {dialect} has")
    options = re.compile(rf"\s*({form})(?=[\s(])", re.IGNORECASE).match(sql, begin.end())
    if options is None:
        raise refused("root", "`EXPLAIN` with these options", "is not let through", hint="EXPLAIN SELECT ...")
    words = " ".join(options[1].split())
    return f"EXPLAIN {words}".strip(), sql[options.end() :]
