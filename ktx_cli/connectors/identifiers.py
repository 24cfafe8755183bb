"""Names and values as SQL text, in the spelling of each dialect; for ktx's own statements."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ktx_cli.connectors.port import TableRef

_BACKTICKS: Final = frozenset({"mysql", "bigquery", "databricks", "clickhouse"})
_BACKSLASHES: Final = frozenset({"bigquery", "clickhouse"})
"""Dialects in which a backslash escapes inside a quoted name."""


def quote(name: str, dialect: str) -> str:
    """Return a name in the quotes of the dialect, whatever characters it has."""
    if dialect in _BACKTICKS:
        if dialect in _BACKSLASHES:
            return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"
        return "`" + name.replace("`", "``") + "`"
    if dialect == "tsql":
        return "[" + name.replace("]", "]]") + "]"
    return '"' + name.replace('"', '""') + '"'


def table_path(ref: TableRef, dialect: str) -> str:
    """Return the table's name with its schema, each part quoted."""
    parts = (ref.name,) if ref.schema is None else (ref.schema, ref.name)
    return ".".join(quote(part, dialect) for part in parts)


def column_list(names: Iterable[str], dialect: str, *, of: str | None = None) -> str:
    """Return the names with commas; `of`: the alias of the relation they belong to."""
    prefix = "" if of is None else f"{of}."
    return ", ".join(prefix + quote(name, dialect) for name in names)


def value_list(values: Sequence[Any], dialect: str) -> str:
    """Return values of rows as SQL literals with commas.

    Raises `ValueError` for a value of a type that has no literal.
    """
    return ", ".join(_literal(value, dialect) for value in values)


def _literal(value: Any, dialect: str) -> str:
    from sqlglot import exp

    if dialect == "tsql" and isinstance(value, str):
        return exp.National(this=value).sql(dialect=dialect)  # without the N, other characters become `?`
    return exp.convert(value).sql(dialect=dialect)
