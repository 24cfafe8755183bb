"""Reduces a database's own type names to the four types the semantic layer knows."""

from __future__ import annotations

import re

from ktx_cli.connectors.port import SemanticType

_NUMBER = re.compile(
    r"(tiny|small|medium|big|huge|u)*int(eger)?\d*|u(tiny|small|big|huge)int|numeric|number|dec(imal)?|fixed|"
    r"real|(b|dec)?float\d*|double|(small)?money|big(num|numeric|decimal)|varint|year|serial|bigserial"
)
_TIME = re.compile(r"(date|time|datetime)\d*|timestamp\w*|timetz|smalldatetime|datetimeoffset")
_BOOLEAN = re.compile(r"bool(ean)?")
# A value that may be absent, is kept in a dictionary, or is the state of an aggregation that is a plain value.
_WRAPPED = re.compile(r"(?:nullable\(|lowcardinality\(|simpleaggregatefunction\(\w+(?:\(.*?\))?,)(.*)\)")
_UNSIGNED = re.compile(r"^(unsigned|signed)\s+(big\s+)?")

_SCALED = re.compile(r"\b(?:numeric|number|decimal|dec|fixed)\s*\(\s*\d+\s*(?:,\s*(\d+)\s*)?\)")
_WHOLE = re.compile(r"\b(?:(?:tiny|small|medium|big|huge|u)*int(?:eger)?\d*|(?:big|small)?serial\d*)\b")

_POSTGRES_CATEGORIES = {"N": SemanticType.NUMBER, "B": SemanticType.BOOLEAN, "D": SemanticType.TIME}


def semantic_type(dialect: str, native_type: str) -> SemanticType:
    """Return the type of a column from its type as the database spells it (Postgres has `postgres_type`).

    What is neither number, time nor boolean (text, JSON, arrays, structs, UUIDs, bytes, intervals, geometries, an
    absent type) is a string. MySQL's `tinyint(1)` and `bit(1)` and SQL Server's `bit` are booleans; every dialect's
    time of day is a time, and SQL Server's `timestamp`, which counts changes of a row, is none. ClickHouse's
    `Nullable(T)`, `LowCardinality(T)` and `SimpleAggregateFunction(f, T)` are as `T`.
    """
    spelled = native_type.strip().lower()
    if dialect == "clickhouse":
        spelled = _unwrapped(spelled)
    if dialect == "mysql" and re.match(r"(tinyint|bit)\(1\)", spelled):
        return SemanticType.BOOLEAN
    if dialect == "tsql" and spelled in ("bit", "timestamp"):
        return SemanticType.BOOLEAN if spelled == "bit" else SemanticType.STRING
    if spelled.endswith("]"):
        return SemanticType.STRING
    word = re.match(r"\w*", _UNSIGNED.sub("", spelled))
    base = word.group() if word else ""
    if _BOOLEAN.fullmatch(base):
        return SemanticType.BOOLEAN
    if _NUMBER.fullmatch(base):
        return SemanticType.NUMBER
    return SemanticType.TIME if _TIME.fullmatch(base) else SemanticType.STRING


def _unwrapped(spelled: str) -> str:
    while found := _WRAPPED.fullmatch(spelled):
        spelled = found[1].strip()
    return spelled


def postgres_type(category: str) -> SemanticType:
    """Return the type from `pg_type.typcategory`, which a domain shares with its base type."""
    return _POSTGRES_CATEGORIES.get(category, SemanticType.STRING)


def decimal_places(native_type: str) -> int | None:
    """Return how many digits behind the point a column's numbers have, by its type as the database spells it.

    None where the type does not say: floats, decimals without a scale, and what is no number.
    """
    spelled = native_type.strip().lower()
    if spelled.endswith("]"):
        return None
    scaled = _SCALED.search(spelled)
    if scaled is not None:
        return int(scaled[1] or 0)
    return 0 if _WHOLE.search(spelled) else None
