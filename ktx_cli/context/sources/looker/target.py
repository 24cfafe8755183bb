"""The table an explore reads: its `sql_table_name`, as Looker gives it, as the name of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

_LONGEST: Final = 2_000
_TEMPLATE: Final = re.compile(r"\$\{|\{\{|\{%|@\{")


class Why(StrEnum):
    """Why an explore has no table here."""

    NO_CONNECTION = "no_connection_mapping"
    TEMPLATE = "looker_template_unresolved"
    DERIVED = "derived_table_not_supported"
    NO_TABLE = "no_physical_table"
    SEVERAL = "multiple_table_references"
    UNREADABLE = "parse_error"


@dataclass(frozen=True, slots=True)
class Target:
    """A table of a connection (`parts` outermost first), or the reason there is none (`why`)."""

    connection: str | None
    parts: tuple[str, ...] = ()
    why: Why | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a raw file."""
        if self.why is not None:
            return {"connection": self.connection, "why": self.why.value}
        return {"connection": self.connection, "table": list(self.parts)}

    @classmethod
    def stored(cls, value: Mapping[str, Any] | None) -> Target:
        """Return it from a raw file."""
        if not value:
            return cls(None, why=Why.NO_TABLE)
        why = value.get("why")
        return cls(value.get("connection"), tuple(value.get("table") or ()), None if why is None else Why(why))


def target_of(sql_table_name: object, connection: str | None) -> Target:
    """Return the table of a `sql_table_name`; `connection` is the one mapped to Looker's, None for none."""
    if connection is None:
        return Target(None, why=Why.NO_CONNECTION)
    text = sql_table_name.strip().rstrip(";").strip() if isinstance(sql_table_name, str) else ""
    if not text:
        return Target(connection, why=Why.NO_TABLE)
    if _TEMPLATE.search(text):
        return Target(connection, why=Why.TEMPLATE)
    if text.startswith("(") or re.match(r"(?i)(?:select|with)\b", text):
        return Target(connection, why=Why.DERIVED)
    found = _parsed(text) if len(text) <= _LONGEST and ";" not in text else Why.UNREADABLE
    return Target(connection, why=found) if isinstance(found, Why) else Target(connection, found)


def _parsed(text: str) -> tuple[str, ...] | Why:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    for dialect in _dialects(text):
        try:
            tree = sqlglot.parse_one(f"SELECT * FROM {text}", read=dialect)
        except (SqlglotError, RecursionError):
            continue
        tables = list(tree.find_all(exp.Table))
        if len(tables) > 1:
            return Why.SEVERAL
        if len(tables) == 1 and _is_alone(tree, tables[0]):
            return tuple(part.name for part in tables[0].parts)
    return Why.UNREADABLE


def _dialects(text: str) -> Iterator[str]:
    """Yield the dialects whose quotes stand in a name."""
    if "`" in text:
        yield from ("bigquery", "mysql")
    elif "[" in text:
        yield "tsql"
    else:
        yield from ("postgres", "bigquery", "snowflake")


def _is_alone(tree: Any, table: Any) -> bool:
    """Say whether a query is nothing but the table, with an alias at most."""
    from sqlglot import exp

    plain = exp.select("*").from_(table.copy())
    named = all(isinstance(part, exp.Identifier) and part.name for part in table.parts)
    return bool(named and isinstance(tree, exp.Select) and tree == plain)
