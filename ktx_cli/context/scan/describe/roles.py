"""What the name and the type of a column say it is for: a date, a measure and its unit, a flag, a code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ktx_cli.connectors.port import Column, SemanticType
from ktx_cli.context.scan.describe.facts import TableFacts
from ktx_cli.context.scan.relationships.names import tokens


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_MEASURES: Final = _set(
    "amount amt price total subtotal cost costs revenue fee fees tax discount balance quantity qty budget sales profit"
    " betrag preis summe menge umsatz kosten rabatt saldo montant prix quantite remise chiffre importe precio cantidad"
    " descuento importo prezzo quantita sconto valor preco quantidade desconto bedrag prijs aantal korting"
)
_CODES: Final = _set(
    "status state type kind category class level tier code method channel segment priority severity stage phase mode"
    " reason typ art kategorie klasse stufe zustand statut categorie niveau estado estatus tipo categoria nivel stato"
    " livello situacao soort toestand"
)
_FLAGS: Final = _set("is has flag")
_UNITS: Final[Mapping[str, str]] = {
    "cents": "in cents",
    "ms": "in milliseconds",
    "msec": "in milliseconds",
    "millis": "in milliseconds",
    "milliseconds": "in milliseconds",
    "seconds": "in seconds",
    "secs": "in seconds",
    "minutes": "in minutes",
    "hours": "in hours",
    "days": "in days",
    "bytes": "in bytes",
    "kb": "in kilobytes",
    "mb": "in megabytes",
    "gb": "in gigabytes",
    "kg": "in kilograms",
    "km": "in kilometres",
    "kwh": "in kilowatt-hours",
    **{code: f"in {code.upper()}" for code in ("usd", "eur", "gbp", "chf", "jpy", "cad", "aud", "sek", "pln", "brl")},
}
"""Last word of a name -> the unit; `m`, `s`, `min` and `pct` are not in it, they may mean something else."""

_ZONED: Final = re.compile(r"with time zone|timestamptz|datetimeoffset|timestamp_tz|timestamp_ltz", re.IGNORECASE)
_CLOCK: Final = re.compile(r"date.*time|timestamp", re.IGNORECASE)


def is_linked(facts: TableFacts, column: Column) -> bool:
    """Say whether a column is of the key or of a join that leads away."""
    return column.name in facts.table.primary_key or any(column.name in join.child_columns for join in facts.joins_out)


def is_measure(facts: TableFacts, column: Column) -> bool:
    """Say whether a column is a number that is named like an amount, and no key."""
    if column.type is not SemanticType.NUMBER or is_linked(facts, column):
        return False
    return bool(_MEASURES.intersection(tokens(column.name)))


def unit(facts: TableFacts, column: Column) -> str | None:
    """Return the unit a name ends with (`in cents` of `total_cents`), None where it is not sure."""
    words = tokens(column.name)
    if column.type is not SemanticType.NUMBER or len(words) < 2 or is_linked(facts, column):
        return None
    found = _UNITS.get(words[-1])
    if found == "in cents" and words[-2] in _UNITS:
        return f"in cents of {words[-2].upper()}"
    return found


def is_code(facts: TableFacts, column: Column) -> bool:
    """Say whether a column is named like a status, a type or a code, and can be one."""
    if column.type not in (SemanticType.STRING, SemanticType.NUMBER) or is_linked(facts, column):
        return False
    words = tokens(column.name)
    return bool(words) and words[-1] in _CODES


def is_flag(column: Column) -> bool:
    """Say whether a column is named like a flag."""
    return bool(_FLAGS.intersection(tokens(column.name)[:1] + tokens(column.name)[-1:]))


def date_text(column: Column) -> str:
    """Return what the type of a column says of time, an empty text where it says nothing."""
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
