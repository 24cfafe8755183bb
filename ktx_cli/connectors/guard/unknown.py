"""What helps when a database refuses a statement: the nearest name it has, or the query that lists the names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from ktx_cli.connectors.guard.instead import catalog_query
from ktx_cli.core.errors import SourceError
from ktx_cli.core.text import did_you_mean

_NAME: Final = r"[\"'`\[]*(?P<name>[^\"'`\]\s,;:()]+)"
_COLUMN: Final = re.compile(
    rf"(?:no such column: |unknown column |referenced column |invalid column name |(?<!\w)column |invalid identifier |"
    rf"unrecognized name: |unknown expression identifier |parameter with name ){_NAME}",
    re.IGNORECASE,
)
_TABLE: Final = re.compile(
    rf"(?:no such table: |table with name |relation |invalid object name |object |unknown table expression identifier |"
    rf"not found: table |the table or view |(?<!\w)table ){_NAME}",
    re.IGNORECASE,
)
_SUGGESTION: Final = re.compile(
    r"\s*(?:Candidate bindings: |(?:HINT:\s*)?Did you mean )\"(?P<name>[^\"]+)\".*", re.DOTALL
)
_MISSING: Final = re.compile(
    r"no such|unknown|not found|does(?: not|n't) (?:exist|have a column)|invalid|unrecognized|"
    r"cannot be (?:resolved|found)",
    re.IGNORECASE,
)


def with_hint(error: SourceError, dialect: str, tables: Iterable[str], columns: Iterable[str]) -> SourceError:
    """Return a database's error with a hint: a near name of `tables` or `columns`, else where the names are listed.

    A hint that it has already gives way to a near name alone. Errors that are not about the statement stay as they
    are.
    """
    if error.code != "query":
        return error
    text = error.message.partition("): ")[2] or error.message
    near = _near(text, _COLUMN, columns) or _near(text, _TABLE, tables) or _suggested(text)
    error.hint = (f"did you mean `{near}`?" if near else error.hint) or _listed(text, dialect)
    if near:
        error.message = _SUGGESTION.sub("", error.message).rstrip()
    return error


def names_are_missing(error: SourceError) -> bool:
    """Say whether a database's error is about a table or a column that it does not have."""
    return _MISSING.search(error.message) is not None


def _suggested(text: str) -> str | None:
    """Return the name that the database itself suggests."""
    found = _SUGGESTION.search(text)
    return found["name"] if found else None


def _near(text: str, pattern: re.Pattern[str], known: Iterable[str]) -> str | None:
    """Return the known name that is near the one that is missing; one that is there elsewhere has none."""
    found = pattern.search(text) if _MISSING.search(text) else None
    name, names = _last(found["name"]) if found else "", list(known)
    return did_you_mean(name, names) if name and name not in names else None


def _listed(text: str, dialect: str) -> str:
    if not _MISSING.search(text):
        return f"correct the statement for {dialect}"
    if _COLUMN.search(text):
        return f"to see the columns of a table: {catalog_query(dialect, 'TABLE')}"
    if _TABLE.search(text):
        return f"to see the tables: {catalog_query(dialect)}"
    return f"correct the statement for {dialect}"


def _last(name: str) -> str:
    return name.rstrip(".!").rpartition(".")[2]
