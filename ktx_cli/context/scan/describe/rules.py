"""Descriptions by rules: what keys, joins and types say, in words; nothing about meaning, rows or values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from ktx_cli.connectors.port import Column, SemanticType, TableKind, TableRef
from ktx_cli.context.scan.describe.facts import Described, Join, TableFacts, content_hash
from ktx_cli.context.scan.names import physical_name, quoted
from ktx_cli.context.scan.relationships.names import tokens
from ktx_cli.core.text import listing, plural

RULES_VERSION: Final = "rules 1"
"""Raised when the rules would say something else of the same table."""

LOOKUP_COLUMNS: Final = 4
"""A table with more columns is no lookup table."""

_KINDS: Final = {
    TableKind.VIEW: "View",
    TableKind.MATERIALIZED_VIEW: "Materialized view",
    TableKind.FOREIGN: "Foreign table",
}
_ZONED: Final = re.compile(r"with time zone|timestamptz|datetimeoffset|timestamp_tz|timestamp_ltz", re.IGNORECASE)
_CLOCK: Final = re.compile(r"date.*time|timestamp", re.IGNORECASE)


def describe_by_rules(facts: TableFacts) -> Described:
    """Return what the structure of a table says; the same text for the same structure, whatever its rows are."""
    columns = {column.name: _column_text(facts, column) for column in facts.table.columns}
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
    sentences = [_what(facts), *_references(facts)]
    return " ".join(sentence for sentence in sentences if sentence) or None


def _what(facts: TableFacts) -> str | None:
    table = facts.table
    if table.kind in _KINDS:
        return f"{_KINDS[table.kind]} with {plural(len(table.columns), 'column')}."
    linked = _linked(facts)
    if linked:
        more = len(table.columns) - len(table.primary_key)
        extra = f", with {plural(more, 'further column')}" if more else ""
        return f"Links {_and(linked)}: one row for each combination of {_and(map(quoted, table.primary_key))}{extra}."
    if _is_lookup(facts):
        return f"Lookup table of {_and(quoted(column.name) for column in table.columns)}."
    if table.primary_key:
        return f"One row for each {_and(map(quoted, table.primary_key))}, with {plural(len(table.columns), 'column')}."
    return None


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


def _references(facts: TableFacts) -> list[str]:
    parents = _names(join.parent for join in facts.joins_out if join.parent != facts.ref)
    children = _names(join.child for join in facts.joins_in if join.child != facts.ref)
    itself = any(join.parent == facts.ref for join in facts.joins_out)
    return [
        f"References {listing(parents)}." if parents and not _linked(facts) else "",
        "Its rows reference each other." if itself else "",
        f"Referenced by {listing(children)}." if children else "",
    ]


def _column_text(facts: TableFacts, column: Column) -> str | None:
    sentences = [_key_text(facts, column), *_reference_texts(facts, column), _unique_text(facts, column)]
    sentences += [_type_text(column), "Computed by the database." if column.generated else ""]
    return " ".join(sentence for sentence in sentences if sentence) or None


def _key_text(facts: TableFacts, column: Column) -> str:
    key = facts.table.primary_key
    if column.name not in key:
        return ""
    return "Key of the table." if len(key) == 1 else f"Part of the key ({', '.join(map(quoted, key))})."


def _reference_texts(facts: TableFacts, column: Column) -> list[str]:
    return [_reference_text(facts, join) for join in facts.joins_out if column.name in join.child_columns]


def _reference_text(facts: TableFacts, join: Join) -> str:
    target = f"{physical_name(join.parent)} ({', '.join(map(quoted, join.parent_columns))})"
    if join.parent == facts.ref:
        target = f"another row of this table ({', '.join(map(quoted, join.parent_columns))})"
    if len(join.child_columns) == 1:
        return f"References {target}."
    return f"Together, {_and(map(quoted, join.child_columns))} reference {target}."


def _unique_text(facts: TableFacts, column: Column) -> str:
    alone = any(key.columns == (column.name,) for key in facts.table.unique_keys)
    return "Unique." if alone and facts.table.primary_key != (column.name,) else ""


def _type_text(column: Column) -> str:
    if column.type is SemanticType.BOOLEAN:
        return "Flag: true or false."
    if column.type is not SemanticType.TIME:
        return ""
    native = column.native_type
    if _ZONED.search(native):
        return "Date and time, with time zone."
    if _CLOCK.search(native):
        return "Date and time."
    if "date" in native.lower():
        return "Date."
    return "Time of day." if native.lower().startswith("time") else ""


def _names(refs: Iterable[TableRef]) -> list[str]:
    return list(dict.fromkeys(map(physical_name, refs)))


def _and(words: Iterable[str]) -> str:
    items: Sequence[str] = list(words)
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
