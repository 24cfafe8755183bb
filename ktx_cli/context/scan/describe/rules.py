"""Descriptions by rules: what keys, joins, types and names say, and what was seen of the rows; nothing about meaning.

Values of rows are told where the profile of the facts still holds them. A table gets at most three sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ktx_cli.connectors.port import Column, SemanticType, TableKind, TableRef
from ktx_cli.context.scan.describe.column_rules import column_text
from ktx_cli.context.scan.describe.evidence import rows_text, values_text, years_text
from ktx_cli.context.scan.describe.facts import Described, TableFacts, content_hash
from ktx_cli.context.scan.describe.roles import date_text, is_code, is_measure
from ktx_cli.context.scan.names import physical_name, quoted
from ktx_cli.context.scan.profiling.model import ColumnProfile
from ktx_cli.context.scan.relationships.names import tokens
from ktx_cli.core.text import listing, plural

RULES_VERSION: Final = "rules 2"
"""Raised when the rules would say something else of the same table."""

LOOKUP_COLUMNS: Final = 4
"""A table with more columns is no lookup table."""

MOST_NOTABLE: Final = 3
"""Columns of a kind that a table's text names."""

_KINDS: Final = {
    TableKind.VIEW: "View",
    TableKind.MATERIALIZED_VIEW: "Materialized view",
    TableKind.FOREIGN: "Foreign table",
}


def describe_by_rules(facts: TableFacts) -> Described:
    """Return what structure and profile of a table say; the same text for the same facts."""
    columns = {column.name: column_text(facts, column) for column in facts.table.columns}
    return Described(
        ref=facts.ref,
        hash=content_hash(facts, RULES_VERSION),
        source="rules",
        text=_table_text(facts),
        columns={name: text for name, text in columns.items() if text and not repeats_name(text, name)},
    )


def repeats_name(text: str, name: str) -> bool:
    """Say whether a text holds no word that is not in the name."""
    return set(tokens(text)) <= set(tokens(name))


def _table_text(facts: TableFacts) -> str | None:
    parts = [_what(facts), _notable(facts), _references(facts)]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part) or None


def _what(facts: TableFacts) -> str:
    row, rows = _row(facts), rows_text(facts)
    if row is None:
        return f"{rows}, no key is declared" if rows else ""
    return f"{row}; {rows}" if rows else row


def _row(facts: TableFacts) -> str | None:
    table = facts.table
    if table.kind in _KINDS:
        return f"{_KINDS[table.kind]} with {plural(len(table.columns), 'column')}"
    linked = _linked(facts)
    if linked:
        return f"Links {_and(linked)}: one row for each combination of {_and(map(quoted, table.primary_key))}"
    if _is_lookup(facts):
        return f"Lookup table of {_and(quoted(column.name) for column in table.columns)}"
    key = table.primary_key or _other_key(facts)
    return f"One row for each {_and(map(quoted, key))}" if key else None


def _other_key(facts: TableFacts) -> tuple[str, ...]:
    """Return the first unique key, by its columns, that holds no NULL."""
    filled = {column.name for column in facts.table.columns if not column.nullable}
    return min((key.columns for key in facts.table.unique_keys if filled.issuperset(key.columns)), default=())


def _linked(facts: TableFacts) -> list[str]:
    """Return the tables a junction links: those its key is made of references to, at least two."""
    key = facts.table.primary_key
    joins = [join for join in facts.joins_out if set(join.child_columns) <= set(key)]
    covered = {column for join in joins for column in join.child_columns}
    if len(key) < 2 or covered != set(key) or len({join.child_columns for join in joins}) < 2:
        return []
    return _names(join.parent for join in joins)


def _is_lookup(facts: TableFacts) -> bool:
    columns = facts.table.columns
    others = [join for join in facts.joins_in if join.child != facts.ref]
    has_label = any(
        column.type is SemanticType.STRING and column.name not in facts.table.primary_key for column in columns
    )
    small = 2 <= len(columns) <= LOOKUP_COLUMNS and len(facts.table.primary_key) == 1
    return small and has_label and bool(others) and not facts.joins_out


def _notable(facts: TableFacts) -> str:
    """Return the dates, measures and codes of a table, and what was seen in them."""
    if _is_lookup(facts):
        return ""
    columns, profiles = facts.table.columns, facts.column_profiles()

    def shown(column: Column, seen: Callable[[TableFacts, ColumnProfile | None], str]) -> str:
        said = seen(facts, profiles.get(column.name)).partition(": ")
        return f"{quoted(column.name)} ({said[2] or said[0]})" if said[0] else quoted(column.name)

    kinds = {
        "dates": [shown(column, years_text) for column in columns if date_text(column).startswith("Date")],
        "measures": [quoted(column.name) for column in columns if is_measure(facts, column)],
        "codes": [shown(column, values_text) for column in columns if is_code(facts, column)],
    }
    return "; ".join(f"{kind}: {listing(names, MOST_NOTABLE)}" for kind, names in kinds.items() if names)


def _references(facts: TableFacts) -> str:
    linked = bool(_linked(facts))
    parents = _names(join.parent for join in facts.joins_out if join.parent != facts.ref)
    children = _names(join.child for join in facts.joins_in if join.child != facts.ref)
    itself = any(join.parent == facts.ref for join in facts.joins_out)
    parts = [
        f"references {listing(parents)}" if parents and not linked else "",
        "its rows reference each other" if itself else "",
        f"referenced by {listing(children)}" if children else "",
    ]
    return "; ".join(filter(None, parts))


def _names(refs: Iterable[TableRef]) -> list[str]:
    return list(dict.fromkeys(map(physical_name, refs)))


def _and(words: Iterable[str]) -> str:
    items: Sequence[str] = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
