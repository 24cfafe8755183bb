"""Reduces a database's own type names to the four types the semantic layer knows."""

from __future__ import annotations

import re

from ktx_cli.connectors.port import SemanticType

_NUMBER = re.compile(
    r"(tiny|small|medium|big|huge|u)*int(eger)?\d*|u(tiny|small|big|huge)int|numeric|number|dec(imal)?|fixed|"
    r"real|float\d*|double|money|bignum|varint|year|serial|bigserial"
)
_TIME = re.compile(r"date|time|datetime\d*|timestamp\w*|timetz|smalldatetime|datetimeoffset")
_BOOLEAN = re.compile(r"bool(ean)?")
_UNSIGNED = re.compile(r"^(unsigned|signed)\s+(big\s+)?")

_POSTGRES_CATEGORIES = {"N": SemanticType.NUMBER, "B": SemanticType.BOOLEAN, "D": SemanticType.TIME}


def semantic_type(dialect: str, native_type: str) -> SemanticType:
    """Return the type of a SQLite, DuckDB or MySQL column from its type as the database spells it.

    What is neither number, time nor boolean (text, JSON, arrays, structs, UUIDs, bytes, intervals, geometries, an
    absent type) is a string. MySQL's `tinyint(1)` and `bit(1)` are booleans; every dialect's time of day is a time.
    """
    spelled = native_type.strip().lower()
    if dialect == "mysql" and re.match(r"(tinyint|bit)\(1\)", spelled):
        return SemanticType.BOOLEAN
    if spelled.endswith("]"):
        return SemanticType.STRING
    word = re.match(r"\w*", _UNSIGNED.sub("", spelled))
    base = word.group() if word else ""
    if _BOOLEAN.fullmatch(base):
        return SemanticType.BOOLEAN
    if _NUMBER.fullmatch(base):
        return SemanticType.NUMBER
    return SemanticType.TIME if _TIME.fullmatch(base) else SemanticType.STRING


def postgres_type(category: str) -> SemanticType:
    """Return the type from `pg_type.typcategory`, which a domain shares with its base type."""
    return _POSTGRES_CATEGORIES.get(category, SemanticType.STRING)
