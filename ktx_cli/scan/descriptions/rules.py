"""Descriptions by rules from keys, joins, types, names and row statistics. They do not explain business meaning.

Values of rows are shown if the profile holds them. A table gets at most three sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ktx_cli.core import listing, plural
from ktx_cli.privacy import ValueKind
from ktx_cli.scan.descriptions.facts import Described, content_hash, empty_text, rows_text, values_text, years_text
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.names import tokens, word_set
from ktx_cli.semantic import physical_name, quoted
from ktx_cli.warehouses import Column, SemanticType, TableKind, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.descriptions.facts import Join, TableContext

RULES_VERSION: Final = "rules 2"
"""Increase this number when the rules' texts for the same table change."""

LOOKUP_COLUMNS: Final = 4
"""The maximum number of columns in a lookup table."""

MOST_NOTABLE: Final = 3
"""The maximum number of columns of one kind that a table's text names."""

_KINDS: Final = {
    TableKind.VIEW: "View",
    TableKind.MATERIALIZED_VIEW: "Materialized view",
    TableKind.FOREIGN: "Foreign table",
}


def describe_by_rules(facts: TableContext) -> Described:
    """Return the description of a table. Equal contexts give equal texts."""
    columns = {column.name: column_text(facts, column) for column in facts.table.columns}
    return Described(
        ref=facts.ref,
        hash=content_hash(facts, RULES_VERSION),
        source="rules",
        text=_table_text(facts),
        columns={name: text for name, text in columns.items() if text and not repeats_name(text, name)},
    )


def repeats_name(text: str, name: str) -> bool:
    """Return whether a text only repeats words of the name."""
    return set(tokens(text)) <= set(tokens(name))


def _table_text(facts: TableContext) -> str | None:
    parts = [_what(facts), _notable(facts), _references(facts)]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts if part) or None


def _what(facts: TableContext) -> str:
    row, rows = _row(facts), rows_text(facts)
    if row is None:
        return f"{rows}, no key is declared" if rows else ""
    return f"{row}; {rows}" if rows else row


def _row(facts: TableContext) -> str | None:
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


def _other_key(facts: TableContext) -> tuple[str, ...]:
    """Return the columns of the first unique key without NULLs."""
    filled = {column.name for column in facts.table.columns if not column.nullable}
    return min((key.columns for key in facts.table.unique_keys if filled.issuperset(key.columns)), default=())


def _linked(facts: TableContext) -> list[str]:
    """Return the tables that a junction table links: at least two, referenced by columns of its key."""
    key = facts.table.primary_key
    joins = [join for join in facts.joins_out if set(join.child_columns) <= set(key)]
    covered = {column for join in joins for column in join.child_columns}
    if len(key) < 2 or covered != set(key) or len({join.child_columns for join in joins}) < 2:
        return []
    return _names(join.parent for join in joins)


def _is_lookup(facts: TableContext) -> bool:
    columns = facts.table.columns
    others = [join for join in facts.joins_in if join.child != facts.ref]
    has_label = any(
        column.type is SemanticType.STRING and column.name not in facts.table.primary_key for column in columns
    )
    small = 2 <= len(columns) <= LOOKUP_COLUMNS and len(facts.table.primary_key) == 1
    return small and has_label and bool(others) and not facts.joins_out


def _notable(facts: TableContext) -> str:
    """Return the dates, measures and codes of a table with their ranges and values."""
    if _is_lookup(facts):
        return ""
    columns, profiles = facts.table.columns, facts.column_profiles()

    def shown(column: Column, seen: Callable[[TableContext, ColumnProfile | None], str]) -> str:
        parts = seen(facts, profiles.get(column.name)).partition(": ")
        return f"{quoted(column.name)} ({parts[2] or parts[0]})" if parts[0] else quoted(column.name)

    kinds = {
        "dates": [shown(column, years_text) for column in columns if date_text(column).startswith("Date")],
        "measures": [quoted(column.name) for column in columns if is_measure(facts, column)],
        "codes": [shown(column, values_text) for column in columns if is_code(facts, column)],
    }
    return "; ".join(f"{kind}: {listing(names, MOST_NOTABLE)}" for kind, names in kinds.items() if names)


def _references(facts: TableContext) -> str:
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


def column_text(facts: TableContext, column: Column) -> str | None:
    """Return the sentences about a column, or None if the column does not need any."""
    profile = facts.column_profiles().get(column.name)
    references = [_reference_text(facts, join) for join in facts.joins_out if column.name in join.child_columns]
    sentences = [_key_text(facts, column), *references, _unique_text(facts, column)]
    sentences += [_role_text(facts, column, profile), "Computed by the database." if column.generated else ""]
    if column.name not in facts.table.primary_key:
        sentences.append(empty_text(facts, profile))
    return " ".join(sentence for sentence in sentences if sentence) or None


def _key_text(facts: TableContext, column: Column) -> str:
    key = facts.table.primary_key
    if column.name not in key:
        return ""
    return "Key of the table." if len(key) == 1 else f"Part of the key ({', '.join(map(quoted, key))})."


def _reference_text(facts: TableContext, join: Join) -> str:
    target = f"{physical_name(join.parent)} ({', '.join(map(quoted, join.parent_columns))})"
    if join.parent == facts.ref:
        target = f"another row of this table ({', '.join(map(quoted, join.parent_columns))})"
    if len(join.child_columns) == 1:
        return f"References {target}."
    *first, last = map(quoted, join.child_columns)
    return f"Together, {', '.join(first)} and {last} reference {target}."


def _unique_text(facts: TableContext, column: Column) -> str:
    alone = any(key.columns == (column.name,) for key in facts.table.unique_keys)
    return "Unique." if alone and facts.table.primary_key != (column.name,) else ""


def _role_text(facts: TableContext, column: Column, profile: ColumnProfile | None) -> str:
    """Return the role of a column: a flag, a date, a number in a unit, a code with its values."""
    if column.type is SemanticType.BOOLEAN:
        return "Flag: true or false."
    dated = date_text(column)
    if dated:
        years = years_text(facts, profile)
        return f"{dated}, {years}." if years else f"{dated}."
    measured = unit(facts, column)
    if measured:
        return f"Amount {measured}." if is_measure(facts, column) else f"Number {measured}."
    return _values(facts, column, profile)


def _values(facts: TableContext, column: Column, profile: ColumnProfile | None) -> str:
    if is_linked(facts, column) or is_measure(facts, column):
        return ""
    if profile is None or not (profile.kind is ValueKind.TEXT or is_code(facts, column) or is_flag(column)):
        return ""
    values = values_text(facts, profile)
    if not values:
        return ""
    flag = is_flag(column) and profile.distinct is not None and profile.distinct <= 2
    role = "Flag" if flag else "Code" if is_code(facts, column) else ""
    if not role:
        return f"{values[0].upper()}{values[1:]}."
    return f"{role} with {values}." if values[0].isdigit() else f"{role}, {values}."


_MEASURES: Final = word_set(
    "amount amt price total subtotal cost costs revenue fee fees tax discount balance quantity qty budget sales"
    " profit betrag preis summe menge umsatz kosten rabatt saldo montant prix quantite remise chiffre importe"
    " precio cantidad descuento importo prezzo quantita sconto valor preco quantidade desconto bedrag prijs aantal"
    " korting"
)
_CODES: Final = word_set(
    "status state type kind category class level tier code method channel segment priority severity stage phase"
    " mode reason typ art kategorie klasse stufe zustand statut categorie niveau estado estatus tipo categoria"
    " nivel stato livello situacao soort toestand"
)
_FLAGS: Final = word_set("is has flag")
_UNITS: Final[Mapping[str, str]] = {
    **{name: f"in {name}" for name in ("cents", "milliseconds", "seconds", "minutes", "hours", "days", "bytes")},
    **dict.fromkeys(("ms", "msec", "millis"), "in milliseconds"),
    "secs": "in seconds",
    "kb": "in kilobytes",
    "mb": "in megabytes",
    "gb": "in gigabytes",
    "kg": "in kilograms",
    "km": "in kilometres",
    "kwh": "in kilowatt-hours",
    **{code: f"in {code.upper()}" for code in ("usd", "eur", "gbp", "chf", "jpy", "cad", "aud", "sek", "pln", "brl")},
}
"""The last word of a name -> the unit. `m`, `s`, `min` and `pct` are absent because they are ambiguous."""

_ZONED: Final = re.compile(r"with time zone|timestamptz|datetimeoffset|timestamp_tz|timestamp_ltz", re.IGNORECASE)
_CLOCK: Final = re.compile(r"date.*time|timestamp", re.IGNORECASE)


def is_linked(facts: TableContext, column: Column) -> bool:
    """Return whether a column is part of the key or of a foreign key."""
    return column.name in facts.table.primary_key or any(column.name in join.child_columns for join in facts.joins_out)


def is_measure(facts: TableContext, column: Column) -> bool:
    """Return whether a column is a number with a name like that of an amount, but not a key."""
    if column.type is not SemanticType.NUMBER or is_linked(facts, column):
        return False
    return bool(_MEASURES.intersection(tokens(column.name)))


def unit(facts: TableContext, column: Column) -> str | None:
    """Return the unit that a name ends with (`in cents` for `total_cents`), or None if it is uncertain."""
    words = tokens(column.name)
    if column.type is not SemanticType.NUMBER or len(words) < 2 or is_linked(facts, column):
        return None
    found = _UNITS.get(words[-1])
    if found == "in cents" and words[-2] in _UNITS:
        return f"in cents of {words[-2].upper()}"
    return found


def is_code(facts: TableContext, column: Column) -> bool:
    """Return whether a column has a name like that of a status, a type or a code, and can be one."""
    if column.type not in (SemanticType.STRING, SemanticType.NUMBER) or is_linked(facts, column):
        return False
    words = tokens(column.name)
    return bool(words) and words[-1] in _CODES


def is_flag(column: Column) -> bool:
    """Return whether a column has a name like that of a flag."""
    return bool(_FLAGS.intersection(tokens(column.name)[:1] + tokens(column.name)[-1:]))


def date_text(column: Column) -> str:
    """Return what a column's type implies about time, or an empty string."""
    native = column.native_type
    if column.type is not SemanticType.TIME:
        return ""
    if _ZONED.search(native):
        return "Date and time, with time zone"
    if _CLOCK.search(native):
        return "Date and time"
    if "date" in native.lower():
        return "Date"
    return "Time of day" if native.lower().startswith("time") else ""
