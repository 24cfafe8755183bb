"""The SELECT of a sample in each dialect: which columns how, and which rows.

Where the engine can, the rows are spread over the table (blocks or a random sample); elsewhere they are its first
ones. An unchanged table gives the same rows every time, but on BigQuery and Trino, whose samples take no seed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.warehouses.dialect import dialect_named, quote, table_path
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind

BLOCKS = 40
"""Into how many stretches a table with row numbers is cut; the first rows of each are read."""

_WRAPPED: Final = re.compile(r"(?:nullable|lowcardinality)\((.*)\)")
_OPAQUE: Final = re.compile(
    r"json|jsonb|xml|geo\w*|point|line|lseg|box|path|polygon|circle|multi\w+|linestring|blob|\w+blob|bytea|binary|"
    r"varbinary|varbyte|bytes|image|raster|hstore|tsvector|tsquery|vector|halfvec|sparsevec|struct|map|row|array|list|"
    r"union|variant|object|super|hllsketch|hyperloglog|sql_variant|hierarchyid|rowversion|aggregatefunction|"
    r"simpleaggregatefunction|nested|tuple|dynamic|range|bit|varbit"
)
_TEXT: Final = re.compile(
    r"(?:(?:tiny|medium|long|n)?text|n?clob|string|name|set|fixedstring)\b|n?(?:var)?char|bpchar|character|national"
)
_SHORT_TEXT: Final = re.compile(
    r"(?:n?varchar2?|character varying|string|(?:n?char|character|fixedstring))\s*\(\s*(\d+)\s*\)"
)
_FIXED: Final = re.compile(r"uuid|uniqueidentifier|enum(?:8|16)?\b.*|inet|cidr|macaddr8?|ipv4|ipv6")


@dataclass(frozen=True, slots=True)
class RowRange:
    """The lowest and highest value of the integer that numbers a table's rows, and its SQL."""

    column: str
    low: int
    high: int

    @property
    def span(self) -> int:
        """How many rows there are at most."""
        return self.high - self.low + 1


def is_opaque(column: Column) -> bool:
    """Whether a column's values are not comparable, or no business of a profile: JSON, XML, geometry, bytes, arrays."""
    spelled = _spelled(column)
    if spelled.endswith("]") or spelled.startswith("_"):
        return True
    word = re.match(r'"?([a-z_0-9]*)', spelled)  # Postgres spells a `bit` of any length in quotes
    base = word[1] if word else ""
    if base == "bit":
        return column.type is not SemanticType.BOOLEAN
    if base == "timestamp":  # of SQL Server: a counter of changes
        return column.type is SemanticType.STRING
    return bool(_OPAQUE.fullmatch(base))


def value_of(column: Column, dialect: str, text: int) -> str:
    """Return the expression that reads a column: itself, or its first `text` characters where it may be long.

    What Python has no value for (an infinite date, one before the year 1, 24 o'clock) is read as NULL.
    """
    syntax, spelled = dialect_named(dialect), _spelled(column)
    name = syntax.quote(column.name)
    if column.type is not SemanticType.STRING:
        return syntax.readable(name, spelled)
    if not syntax.untyped_columns:
        short = _SHORT_TEXT.fullmatch(spelled)
        is_short = short is not None and int(short[1]) <= text and not syntax.is_padded(spelled)
        if is_short or _FIXED.fullmatch(spelled):
            return name
        name = name if _TEXT.match(spelled) else syntax.as_text(name)
    return syntax.beginning(name, text)


def select_rows(table: Table, columns: Sequence[Column], dialect: str, text: int, rows: str) -> str:
    """Return the SELECT of these columns, those with values first; `rows`: what follows the name of the table."""
    values = [value_of(column, dialect, text) for column in columns if not is_opaque(column)]
    values += [_presence(column, dialect) for column in columns if is_opaque(column)]
    return f"SELECT {', '.join(values) or '1'} FROM {table_path(table.ref, dialect)}{rows}"


def head(table: Table, columns: Sequence[Column], dialect: str, text: int, count: int) -> str:
    """Return the SELECT of the first rows, as the engine has them."""
    return dialect_named(dialect).limited(select_rows(table, columns, dialect, text, ""), count)


def sampling_clause(table: Table, dialect: str, count: int, *, rows: int, seed: int) -> tuple[str, SampleMethod] | None:
    """Return the engine's own clause for about `count` of the table's `rows` rows, None without one."""
    if table.kind not in (TableKind.TABLE, TableKind.MATERIALIZED_VIEW):
        return None
    percent = f"{min(100.0, max(0.0001, 120.0 * count / max(rows, 1))):.6f}"
    syntax = dialect_named(dialect)
    clause = syntax.sample_clause(count, percent, seed)
    if clause is None:
        return None
    return clause, SampleMethod.RANDOM if syntax.samples_single_rows else SampleMethod.BLOCKS


def sampled(table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, clause: str) -> str:
    """Return the SELECT of at most `count` rows by a `sampling_clause`."""
    return dialect_named(dialect).limited(select_rows(table, columns, dialect, text, clause), count)


def numbered(table: Table, dialect: str) -> str | None:
    """Return the SQL of the integer that numbers the rows of a table in about the order they are stored, if any."""
    return dialect_named(dialect).row_number(table) if table.kind is TableKind.TABLE else None


def stretches(
    table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, *, within: RowRange, seed: int
) -> str:
    """Return one SELECT of at most `count` rows in blocks, each at a seeded place of its own stretch of row numbers.

    No row can come twice. Fewer rows come where there are gaps in the numbers.
    """
    chance = random.Random(seed)
    number, span = within.column, within.span
    blocks = max(1, min(BLOCKS, count, span))
    path = table_path(table.ref, dialect)
    parts = []
    for block in range(blocks):
        rows = count * (block + 1) // blocks - count * block // blocks
        begin, last = within.low + span * block // blocks, within.low + span * (block + 1) // blocks - 1
        start = begin + int(chance.random() * max(0, last - begin + 2 - rows))
        where = f"{number} BETWEEN {start} AND {last} ORDER BY {number} LIMIT {rows}"
        parts.append(f"SELECT n FROM (SELECT {number} AS n FROM {path} WHERE {where}) AS b{block}")
    # The columns stand once: with each block they would make a statement that takes longer to parse than to run.
    chosen = f"SELECT n FROM ({' UNION ALL '.join(parts)}) AS blocks"
    return select_rows(table, columns, dialect, text, f" WHERE {number} IN ({chosen}) ORDER BY {number}")


def _spelled(column: Column) -> str:
    spelled = column.native_type.strip().lower()
    while found := _WRAPPED.fullmatch(spelled):
        spelled = found[1].strip()
    return spelled


def _presence(column: Column, dialect: str) -> str:
    return f"CASE WHEN {quote(column.name, dialect)} IS NULL THEN 0 ELSE 1 END"


class SampleMethod(StrEnum):
    """Which rows a sample holds."""

    ALL = "all"
    BLOCKS = "blocks"
    RANDOM = "random"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """At most so many rows, and bytes of values; texts are cut at `text` characters.

    `deadline`, of `core.clock.monotonic`: no statement begins after it.
    """

    rows: int = 10_000
    bytes: int = 64 * 1024 * 1024
    text: int = 256
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a table, column by column: `values[i]` are those of `columns[i]`, all lists as long as there are rows.

    `row_count`: the rows of the whole table, exact where `exact_count`, None when nobody knows. `opaque`: columns whose
    values are not read (JSON, geometry, bytes ...), with True for each row where there is a value. `failed`:
    column -> why the database would not give its values. `cut_by_bytes`: more rows would have taken too many bytes.
    """

    columns: tuple[str, ...]
    values: tuple[list[Any], ...]
    rows: int
    method: SampleMethod
    row_count: int | None
    exact_count: bool
    opaque: dict[str, list[bool]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    statements: int = 0
    cut_by_bytes: bool = False

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole table."""
        return self.method is SampleMethod.ALL
