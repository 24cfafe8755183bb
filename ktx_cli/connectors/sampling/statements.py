"""The SELECT of a sample in each dialect: which columns how, and which rows.

Where the engine can, the rows are spread over the table (blocks or a seeded random sample); elsewhere they are its
first ones. A seed gives the same rows of an unchanged table every time.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.connectors.identifiers import quote, table_path
from ktx_cli.connectors.port import Column, SemanticType, Table, TableKind
from ktx_cli.connectors.sampling.model import SampleMethod

BLOCKS = 40
"""Into how many stretches a table with row numbers is cut; the first rows of each are read."""

_OPAQUE: Final = re.compile(
    r"json|jsonb|xml|geo\w*|point|line|lseg|box|path|polygon|circle|multi\w+|linestring|blob|\w+blob|bytea|binary|varbinary|bytes|image|"
    r"raster|hstore|tsvector|tsquery|vector|halfvec|sparsevec|struct|map|row|array|list|union|variant|object|super|"
    r"hllsketch|sql_variant|hierarchyid|aggregatefunction|simpleaggregatefunction|nested|tuple|dynamic|bit|varbit"
)
_SHORT_TEXT: Final = re.compile(
    r"(?:var)?(?:char|character|varying|nchar|nvarchar|varchar2|bpchar|string)\w*\s*\(\s*(\d+)"
)
_PREFIX: Final = {"duckdb": "system.main."}
"""Where a database may hold functions of its own that go before the engine's."""
_FIXED: Final = re.compile(r"uuid|uniqueidentifier|enum\b.*|inet|cidr|macaddr8?|ltree|citext")


@dataclass(frozen=True, slots=True)
class RowRange:
    """The lowest and highest value of the integer that numbers a table's rows, and its SQL."""

    column: str
    low: int
    high: int


def is_opaque(column: Column) -> bool:
    """Whether a column's values are not comparable, or no business of a profile: JSON, XML, geometry, bytes, arrays."""
    spelled = column.native_type.strip().lower()
    if spelled.endswith("]") or spelled.startswith("_"):
        return True
    word = re.match(r"[a-z_0-9]*", re.sub(r"^(nullable|lowcardinality)\(", "", spelled))
    base = word.group() if word else ""
    if base == "bit" and column.type is SemanticType.BOOLEAN:
        return False
    return bool(_OPAQUE.fullmatch(base))


def value_of(column: Column, dialect: str, text: int) -> str:
    """Return the expression that reads a column: itself, or its first `text` characters where it may be long."""
    name = quote(column.name, dialect)
    if column.type is not SemanticType.STRING:
        return name
    spelled = column.native_type.strip().lower()
    short = _SHORT_TEXT.match(spelled)
    if dialect == "sqlite":
        return f"CASE typeof({name}) WHEN 'text' THEN substr({name}, 1, {text}) WHEN 'blob' THEN x'' ELSE {name} END"
    if (short and int(short.group(1)) <= text) or _FIXED.fullmatch(spelled):
        return name
    if dialect == "tsql":
        return f"LEFT({name}, {text})"
    if dialect == "postgres" and not re.match(r"text|char|varchar|character|bpchar|name", spelled):
        return name
    return f"{_PREFIX.get(dialect, '')}substr({name}, 1, {text})"


def select_rows(table: Table, columns: Sequence[Column], dialect: str, text: int, rows: str) -> str:
    """Return the SELECT of these columns; `rows`: what follows the name of the table, `{values}` and all."""
    values = [f"{value_of(each, dialect, text)}" for each in columns if not is_opaque(each)]
    values += [_presence(each, dialect) for each in columns if is_opaque(each)]
    return f"SELECT {', '.join(values) or '1'} FROM {table_path(table.ref, dialect)}{rows}"


def head(table: Table, columns: Sequence[Column], dialect: str, text: int, count: int) -> str:
    """Return the SELECT of the first rows, as the engine has them."""
    statement = select_rows(table, columns, dialect, text, "")
    if dialect == "tsql":
        return statement.replace("SELECT ", f"SELECT TOP ({count}) ", 1)
    return f"{statement} LIMIT {count}"


def spread(
    table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, *, rows: int, seed: int
) -> tuple[str, SampleMethod] | None:
    """Return the SELECT of about `count` of the table's `rows` rows by the engine's own sampling, None without one."""
    if table.kind not in (TableKind.TABLE, TableKind.MATERIALIZED_VIEW):
        return None
    percent = min(100.0, max(0.0001, 120.0 * count / max(rows, 1)))
    clause = {
        "postgres": f" TABLESAMPLE SYSTEM ({percent:.6f}) REPEATABLE ({seed})",
        "tsql": f" TABLESAMPLE ({percent:.6f} PERCENT) REPEATABLE ({max(seed, 1)})",
        "snowflake": f" SAMPLE SYSTEM ({percent:.6f}) SEED ({seed})",
        "bigquery": f" TABLESAMPLE SYSTEM ({percent:.6f} PERCENT)",
        "databricks": f" TABLESAMPLE ({percent:.6f} PERCENT) REPEATABLE ({seed})",
        "trino": f" TABLESAMPLE BERNOULLI ({percent:.6f})",
        "duckdb": f" TABLESAMPLE reservoir({count} ROWS) REPEATABLE ({seed})",
    }.get(dialect)
    if clause is None:
        return None
    statement = select_rows(table, columns, dialect, text, clause)
    if dialect == "duckdb":
        return statement, SampleMethod.RANDOM
    if dialect == "tsql":
        return statement.replace("SELECT ", f"SELECT TOP ({count}) ", 1), SampleMethod.BLOCKS
    return f"{statement} LIMIT {count}", SampleMethod.RANDOM if dialect == "trino" else SampleMethod.BLOCKS


def numbered(table: Table, dialect: str) -> str | None:
    """Return the SQL of the integer that numbers the rows of a table in about the order they are stored, if any."""
    if table.kind is not TableKind.TABLE:
        return None
    names = {column.name.lower() for column in table.columns}
    if dialect == "sqlite":
        return next((name for name in ("_rowid_", "rowid", "oid") if name not in names), None)
    if dialect == "duckdb":
        return "rowid" if "rowid" not in names and table.ref.schema is not None else None
    if dialect == "mysql" and len(table.primary_key) == 1:
        (key,) = table.primary_key
        native = next(column.native_type.lower() for column in table.columns if column.name == key)
        return quote(key, dialect) if re.match(r"(tiny|small|medium|big)?int", native) else None
    return None


def stretches(
    table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, *, within: RowRange, seed: int
) -> str:
    """Return one SELECT of `count` rows in blocks, each at a seeded place of its own stretch of the row numbers."""
    chance = random.Random(seed)
    blocks = max(1, min(BLOCKS, count, within.high - within.low + 1))
    each = max(1, count // blocks)
    width = (within.high - within.low + 1) / blocks
    parts = []
    for number in range(blocks):
        begin, end = within.low + int(number * width), within.low + int((number + 1) * width)
        start = begin + int(chance.random() * max(0, end - begin - each))
        where = f" WHERE {within.column} >= {start} AND {within.column} < {end} ORDER BY {within.column} LIMIT {each}"
        inner = select_rows(table, columns, dialect, text, where)
        parts.append(f"SELECT * FROM ({inner}) AS b{number}" if dialect != "mysql" else f"({inner})")
    return " UNION ALL ".join(parts)


def _presence(column: Column, dialect: str) -> str:
    name = quote(column.name, dialect)
    return f"CASE WHEN {name} IS NULL THEN 0 ELSE 1 END"
