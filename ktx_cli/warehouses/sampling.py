"""A table's sample: its SELECT in each dialect, and a reader that isolates columns refused by the database.

If the engine supports it, the rows are spread over the table (blocks or a random sample); otherwise they are its first
rows. An unchanged table gives the same rows every time, except on BigQuery and Trino, whose samples accept no seed.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, SourceError, monotonic
from ktx_cli.warehouses.base import LockedError, lost_its_session, reason
from ktx_cli.warehouses.dialect import dialect_named, quote, table_path, value_list
from ktx_cli.warehouses.port import (
    Column,
    Connector,
    OverBudgetError,
    QueryResult,
    SemanticType,
    Table,
    TableKind,
    TableRef,
    may_ask,
    samples_itself,
)

BLOCKS = 40
"""The number of segments into which a table with row numbers is divided; the first rows in each are read."""

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
_ENDING: Final = ") AS blocks)"
_SCANNING: Final = re.compile(
    r"\b(WHERE|(GROUP|ORDER) BY|JOIN|UNION|DISTINCT|OVER)\b|\b(count|sum|min|max|avg)\(", re.IGNORECASE
)
_SAMPLING: Final = re.compile(r"\b(TABLE)?SAMPLE\b|\bUSING SAMPLE\b", re.IGNORECASE)
_FIXED: Final = re.compile(r"uuid|uniqueidentifier|enum(?:8|16)?\b.*|inet|cidr|macaddr8?|ipv4|ipv6")


@dataclass(frozen=True, slots=True)
class RowRange:
    """The minimum and maximum of the integer that numbers a table's rows, and its SQL."""

    column: str
    low: int
    high: int

    @property
    def span(self) -> int:
        """The maximum number of rows in the range."""
        return self.high - self.low + 1


def is_opaque(column: Column) -> bool:
    """Return whether a column's values are not comparable or not profiled: JSON, XML, geometry, bytes, arrays."""
    spelled = spelled_type(column)
    if spelled.endswith("]") or spelled.startswith("_"):
        return True
    word = re.match(r'"?([a-z_0-9]*)', spelled)  # Postgres writes a `bit` of any length in quotes.
    base = word[1] if word else ""
    if base == "bit":
        return column.type is not SemanticType.BOOLEAN
    if base == "timestamp":  # In SQL Server, a counter of changes.
        return column.type is SemanticType.STRING
    return bool(_OPAQUE.fullmatch(base))


def value_of(column: Column, dialect: str, text: int) -> str:
    """Return the expression that reads a column: itself, or its first `text` characters if it may be long.

    What Python cannot represent (an infinite date, one before the year 1, 24:00) is read as NULL.
    """
    syntax, spelled = dialect_named(dialect), spelled_type(column)
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
    """Return the SELECT for these columns: values first, then whether each opaque column has one. `rows`: the SQL after
    the table name.
    """
    values = [value_of(column, dialect, text) for column in columns if not is_opaque(column)]
    values += [_presence(column, dialect) for column in columns if is_opaque(column)]
    return f"SELECT {', '.join(values) or '1'} FROM {table_path(table.ref, dialect)}{rows}"


def head(table: Table, columns: Sequence[Column], dialect: str, text: int, count: int) -> str:
    """Return the SELECT for the first rows in the engine's order."""
    return dialect_named(dialect).limited(select_rows(table, columns, dialect, text, ""), count)


def sampling_clause(table: Table, dialect: str, count: int, *, rows: int, seed: int) -> tuple[str, SampleMethod] | None:
    """Return the engine's clause for about `count` of the table's `rows` rows, or None if there is none."""
    if table.kind not in (TableKind.TABLE, TableKind.MATERIALIZED_VIEW):
        return None
    percent = f"{min(100.0, max(0.0001, 120.0 * count / max(rows, 1))):.6f}"
    syntax = dialect_named(dialect)
    clause = syntax.sample_clause(count, percent, seed)
    if clause is None:
        return None
    return clause, SampleMethod.RANDOM if syntax.samples_single_rows else SampleMethod.BLOCKS


def sampled(table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, clause: str) -> str:
    """Return the SELECT for at most `count` rows with a `sampling_clause`."""
    return dialect_named(dialect).limited(select_rows(table, columns, dialect, text, clause), count)


def numbered(table: Table, dialect: str) -> str | None:
    """Return the SQL for the integer that numbers a table's rows in approximate storage order, if any."""
    return dialect_named(dialect).row_number(table) if table.kind is TableKind.TABLE else None


def stretches(
    table: Table, columns: Sequence[Column], dialect: str, text: int, count: int, *, within: RowRange, seed: int
) -> str:
    """Return one SELECT for at most `count` rows in blocks, each at a seeded position in a segment of row numbers.

    No row is returned twice. Gaps in the numbers result in fewer rows.
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
    # The columns are listed once; repeated per block, the statement would take longer to parse than to run.
    chosen = f"SELECT n FROM ({' UNION ALL '.join(parts)}{_ENDING}"
    return select_rows(table, columns, dialect, text, f" WHERE {number} IN ({chosen} ORDER BY {number}")


def reads_all_rows(sql: str, dialect: str, max_rows: int) -> bool:
    """Return whether a statement reads all rows of its tables, and not only those that it returns, as samples do.

    An engine that decides row by row what is in a sample reads all of them, too.
    """
    if max_rows <= 1:  # Aggregates of the whole table.
        return True
    if _ENDING in sql:
        return False
    if _SAMPLING.search(sql) is not None and dialect_named(dialect).samples_single_rows:
        return True
    return _SCANNING.search(sql) is not None


def spelled_type(column: Column) -> str:
    """Return a column's type in lower case, without wrappers such as `Nullable`."""
    spelled = column.native_type.strip().lower()
    while found := _WRAPPED.fullmatch(spelled):
        spelled = found[1].strip()
    return spelled


def _presence(column: Column, dialect: str) -> str:
    return f"CASE WHEN {quote(column.name, dialect)} IS NULL THEN 0 ELSE 1 END"


class SampleMethod(StrEnum):
    """The kinds of samples."""

    ALL = "all"
    BLOCKS = "blocks"
    RANDOM = "random"
    HEAD = "head"


@dataclass(frozen=True, slots=True)
class SampleLimits:
    """The maximum number of rows and bytes of values; texts are truncated to `text` characters.

    `deadline`, of `core.clock.monotonic`: no statement starts after it.
    """

    rows: int = 10_000
    bytes: int = 64 * 1024 * 1024
    text: int = 256
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A table's rows, column by column: `values[i]` are the values of `columns[i]`, with one item per row.

    `row_count`: the rows of the whole table, exact if `exact_count` is true, None if unknown. `opaque`: columns whose
    values are not read (JSON, geometry, bytes ...), with True for each row that has a value. `failed`: column -> why
    the database refused its values. `cut_by_bytes`: more rows would have taken too many bytes.
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


FIRST_ROWS = 1000
"""The number of rows read first from an unknown table: most tables are smaller, and the rows show their width."""

FEWEST_ROWS = 10
"""The number of rows read regardless of their bytes."""

_REFUSED: Final = frozenset({"query", "read_only"})
"""Error codes that a single column may have caused."""

_VALUE_BYTES: Final = 32
_TEXT_BYTES: Final = 50
"""The approximate memory use of a value, and of a text in addition to its characters."""

Shape = Callable[[Sequence[Column]], str]
"""The SELECT for some rows, with any of the table's columns."""


def read_sample(connector: Connector, table: Table, limits: SampleLimits, *, seed: int = 0) -> Sample:
    """Return at most `limits.rows` rows of a table, and fewer if their values would take more than `limits.bytes`.

    If the database cannot return a column, only that column fails. Raises `SourceError` if the table cannot be read at
    all, and with the code `timeout` after `limits.deadline`; `details["statements"]` is the number of statements sent.
    """
    reading = _Reading(connector, table, limits, seed, list(table.columns))
    try:
        return reading.read()
    except SourceError as error:
        error.details["statements"] = reading.statements
        raise


def why(error: SourceError) -> str:
    """Return a database's error as one short line, without the connection's name."""
    return reason(error.problem)


@dataclass(slots=True)
class _Reading:
    """A table being read. `columns`: those that have not failed yet."""

    connector: Connector
    table: Table
    limits: SampleLimits
    seed: int
    columns: list[Column]
    failed: dict[str, str] = field(default_factory=dict)
    statements: int = 0
    cut: bool = False

    def read(self) -> Sample:
        wanted, first = self.limits.rows, self._first()
        if first:
            rows, whole = self._head(first)
            if whole:
                return self._all(rows)
            wanted = self._affordable(rows)
        count, exact = self._count(wanted)
        if count is None or count > wanted:
            found = self._spread(wanted, count)
            if found is not None:
                return self._sample(*found, count, exact=exact)
        rows, whole = self._head(wanted)
        if whole:
            return self._all(rows)
        known = None if count is None or count <= len(rows) else count
        return self._sample(rows, SampleMethod.HEAD, known, exact=exact and known is not None)

    def _first(self) -> int:
        """Return how many rows to read first: all if there are few and they fit, none if there are many."""
        texts = sum(column.type is SemanticType.STRING and not is_opaque(column) for column in self.columns)
        widest = texts * (self.limits.text + _TEXT_BYTES) + (len(self.columns) - texts) * _VALUE_BYTES
        fitting, known = self.limits.bytes // max(widest, 1), self.table.row_estimate
        if known is None or fitting < self.limits.rows:
            return min(FIRST_ROWS, self.limits.rows, max(FEWEST_ROWS, fitting))
        return self.limits.rows if known <= self.limits.rows else 0

    def _affordable(self, rows: Sequence[Sequence[Any]]) -> int:
        """Return how many rows fit into the byte limit, based on the first rows, and record whether it applies."""
        probe = rows[:: max(1, len(rows) // 200)]
        width = sum(_size(value) for row in probe for value in row) / max(1, len(probe))
        fitting = max(FEWEST_ROWS, int(self.limits.bytes / max(width, 1.0)))
        self.cut = self.cut or fitting < self.limits.rows
        return min(fitting, self.limits.rows)

    def _head(self, count: int) -> tuple[Sequence[tuple[Any, ...]], bool]:
        """Return the first rows, and whether there are no others."""
        dialect, text = self.connector.dialect, self.limits.text
        result = self._rows(lambda columns: head(self.table, columns, dialect, text, count + 1), count + 1)
        self.cut = self.cut or result.truncated
        return result.rows[:count], len(result.rows) <= count and not result.truncated

    def _spread(self, wanted: int, count: int | None) -> tuple[Sequence[tuple[Any, ...]], SampleMethod] | None:
        """Return rows spread over the table, or None if the engine does not support this or returns too few."""
        for shape, method, enough in self._shapes(wanted, count):
            try:
                result = self._rows(shape, wanted)
            except SourceError as error:
                if not _leaves_another_way(error):
                    raise
                continue
            if len(result.rows) >= enough or result.truncated:
                self.cut = self.cut or result.truncated
                return result.rows, method
        return None

    def _shapes(self, wanted: int, count: int | None) -> Iterator[tuple[Shape, SampleMethod, int]]:
        """Yield ways to spread a sample, and the number of rows that is enough in view of gaps and partially filled
        pages.

        None if the row numbers show that all rows are wanted, whatever the catalog's count.
        """
        dialect, text, seed = self.connector.dialect, self.limits.text, self.seed
        within = self._range()
        if within is not None and within.span <= wanted:
            return
        if within is not None:
            yield (
                lambda columns: stretches(self.table, columns, dialect, text, wanted, within=within, seed=seed),
                SampleMethod.BLOCKS,
                max(1, wanted // 2),
            )
        found = None if count is None else sampling_clause(self.table, dialect, wanted, rows=count, seed=seed)
        if found is not None:
            clause, method = found
            method = SampleMethod.BLOCKS if samples_itself(self.connector) else method
            shape: Shape = lambda columns: sampled(self.table, columns, dialect, text, wanted, clause)  # noqa: E731
            yield shape, method, max(1, wanted // 4)

    def _range(self) -> RowRange | None:
        number = None if samples_itself(self.connector) else numbered(self.table, self.connector.dialect)
        if number is None:
            return None
        path = table_path(self.table.ref, self.connector.dialect)
        try:
            ((low, high),) = self._ask(f"SELECT min({number}), max({number}) FROM {path}", 1).rows
        except SourceError as error:
            if not _leaves_another_way(error):  # A table without row numbers.
                raise
            return None
        return None if low is None else RowRange(number, int(low), int(high))

    def _count(self, wanted: int) -> tuple[int | None, bool]:
        """Return the number of rows, and whether it is exact: the catalog's count if that is accurate enough."""
        known, syntax = self.table.row_estimate, dialect_named(self.connector.dialect)
        if known is not None and known > wanted and not syntax.counts_without_reading:
            return known, syntax.exact_row_counts
        try:
            ((count,),) = self._ask(f"SELECT count(*) FROM {syntax.path(self.table.ref)}", 1).rows
        except SourceError as error:
            if not _leaves_another_way(error):
                raise
            return known, False
        return int(count), True

    def _rows(self, shape: Shape, most: int) -> QueryResult:
        """Return the rows of the columns that have not failed; columns that the database now refuses are marked as
        failed.
        """
        try:
            return self._ask(shape(self.columns), most)
        except SourceError as error:
            if not _refuses(error) or not self.columns:
                raise
            problem = error
        self._ask(shape(()), most)  # Raises if no column is the cause.
        self.columns = self._halves(shape, most, self.columns, problem)
        return self._ask(shape(self.columns), most)

    def _halves(self, shape: Shape, most: int, columns: list[Column], error: SourceError) -> list[Column]:
        """Return the refused columns that can be read separately, and record why the others cannot."""
        if len(columns) == 1:
            self.failed[columns[0].name] = why(error)
            return []
        middle = len(columns) // 2
        return [*self._readable(shape, most, columns[:middle]), *self._readable(shape, most, columns[middle:])]

    def _readable(self, shape: Shape, most: int, columns: list[Column]) -> list[Column]:
        try:
            self._ask(shape(columns), most)
        except SourceError as error:
            if not _refuses(error):
                raise
            return self._halves(shape, most, columns, error)
        return columns

    def _ask(self, statement: str, rows: int) -> QueryResult:
        is_late = self.limits.deadline is not None and monotonic() >= self.limits.deadline
        if not may_ask(self.connector, statement, max_rows=rows, is_late=is_late):
            if not is_late:
                raise OverBudgetError
            message = "the time limit for samples was reached"
            raise SourceError(message, hint=Command("config", "set", "scan.budget.seconds", "SECONDS"), code="timeout")
        self.statements += 1
        return self.connector.query(statement, max_rows=rows)

    def _all(self, rows: Sequence[tuple[Any, ...]]) -> Sample:
        self.cut = False
        return self._sample(rows, SampleMethod.ALL, len(rows), exact=True)

    def _sample(
        self, rows: Sequence[tuple[Any, ...]], method: SampleMethod, count: int | None, *, exact: bool
    ) -> Sample:
        plain = [column for column in self.columns if not is_opaque(column)]
        opaque = [column.name for column in self.columns if is_opaque(column)]
        lists = [list(values) for values in zip(*rows, strict=True)] or [[] for _ in self.columns]
        values = zip(plain, lists, strict=False)
        return Sample(
            columns=tuple(each.name for each in plain),
            values=tuple(_dates(each, found, self.connector.dialect) for each, found in values),
            rows=len(rows),
            method=method,
            row_count=count,
            exact_count=exact,
            opaque={name: [bool(each) for each in lists[len(plain) + at]] for at, name in enumerate(opaque)},
            failed=self.failed,
            statements=self.statements,
            cut_by_bytes=self.cut,
        )


def _refuses(error: SourceError) -> bool:
    """Return whether a single column may be the cause, and retrying with other columns is harmless."""
    return error.code in _REFUSED and not lost_its_session(error)


def _leaves_another_way(error: SourceError) -> bool:
    """Return whether other rows may still be readable; after a lock, a retry would only wait again."""
    return _refuses(error) or (error.code == "timeout" and not isinstance(error, LockedError))


def _dates(column: Column, values: list[Any], dialect: str) -> list[Any]:
    """Return the values of a column, with None for dates that Python cannot represent."""
    if column.type is not SemanticType.TIME or not dialect_named(dialect).dates_as_texts:
        return values
    return [None if isinstance(value, str) else value for value in values]


def _size(value: Any) -> int:
    return len(value) + _TEXT_BYTES if isinstance(value, str | bytes) else _VALUE_BYTES


def exact_texts(connector: Connector, tables: Sequence[Table]) -> tuple[dict[TableRef, frozenset[str]], int]:
    """Return table -> its case-sensitive columns, and the number of statements used.

    Nothing for dialects whose texts are always case-sensitive, and if a server does not report it. Raises `SourceError`
    if the server is unreachable.
    """
    condition = dialect_named(connector.dialect).exact_texts
    schemas = sorted({table.ref.schema for table in tables if table.ref.schema is not None})
    if not condition or not schemas:
        return {}, 0
    statement = (
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME FROM INFORMATION_SCHEMA.COLUMNS "
        f"WHERE {condition} AND TABLE_SCHEMA IN ({value_list(schemas, connector.dialect)})"
    )
    try:
        rows = connector.query(statement, max_rows=1_000_000).rows
    except SourceError as error:
        if error.code == "connection":
            raise
        return {}, 1
    result: dict[TableRef, set[str]] = defaultdict(set)
    for schema, table, column in rows:
        result[TableRef(str(schema), str(table))].add(str(column))
    return {ref: frozenset(names) for ref, names in result.items()}, 1
