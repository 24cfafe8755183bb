"""The value dictionary: the values of columns with few values, which let agents write filters without reading rows.

A list comes from the type (native enums), from the sample if that is the whole table, or else from one statement per
table. If the statement fails or takes too long, the list has the values of the sample and is marked as incomplete.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import SourceError, monotonic, plain_value
from ktx_cli.privacy import Refusal, ValueKind, refusal
from ktx_cli.project import Privacy
from ktx_cli.scan.profile.profiler import ColumnProfile, SampledTable
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.semantic import ColumnValues
from ktx_cli.warehouses import ObjectProblem, dialect_named, enum_values, lost_its_session, reason, table_path, value_of

if TYPE_CHECKING:
    from ktx_cli.warehouses import Column, Connector, Table, TableRef

_LISTED: Final = (ValueKind.TEXT, ValueKind.BOOLEAN, ValueKind.MIXED)


@dataclass(frozen=True, slots=True)
class DictionaryLimits:
    """The limits of value lists: at most `distinct` values (`codes` for integers) of `length` characters each.

    Tables with more than `rows` rows are not queried; their lists come from the sample.
    """

    distinct: int = 200
    codes: int = 50
    largest_code: int = 99_999
    length: int = 120
    rows: int = 10_000_000


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A connection's lists, the hidden columns with the reason, and problems with reading lists."""

    columns: tuple[ColumnValues, ...] = ()
    hidden: tuple[tuple[TableRef, str, Refusal], ...] = ()
    problems: tuple[ObjectProblem, ...] = ()
    statements: int = 0


def build_dictionary(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    *,
    privacy: Privacy,
    limits: DictionaryLimits,
    deadline: float,
    failures: Failures = STRICT,
) -> Dictionary:
    """Return the dictionary of a connection, which is empty if privacy is `strict`. `deadline` uses
    `core.clock.monotonic`.

    If a table or column fails, the others continue; raises `SourceError` only if the database is unreachable.
    `failures` notes unexpected errors; the strict default raises them.
    """
    if privacy == "strict":
        return Dictionary()
    samples = {each.profile.ref: each for each in sampled}
    reader = ValueReader(connector, limits.distinct, limits.length, deadline)
    columns: list[ColumnValues] = []
    hidden: list[tuple[TableRef, str, Refusal]] = []
    for table in tables:
        if table.ref not in samples:
            continue
        with failures.stage(Stage.VALUES, table.ref):
            listed, refused = _of_table(table, samples[table.ref], reader, limits)
            columns += listed
            hidden += refused
    return Dictionary(tuple(columns), tuple(hidden), tuple(reader.problems), reader.statements)


def _of_table(
    table: Table, sample: SampledTable, reader: ValueReader, limits: DictionaryLimits
) -> tuple[list[ColumnValues], list[tuple[TableRef, str, Refusal]]]:
    """Return a table's lists, and the columns whose values are hidden."""
    columns: list[ColumnValues] = []
    hidden: list[tuple[TableRef, str, Refusal]] = []
    for found in _lists(table, sample, reader, limits):
        refused = refusal(table.ref.name, found.column, found.kind, tuple(found.counts))
        if refused is None:
            columns.append(_values(table, found, limits))
        else:
            hidden.append((table.ref, found.column, refused))
    return columns, hidden


@dataclass(frozen=True, slots=True)
class _Found:
    column: str
    kind: ValueKind
    counts: Mapping[Any, int | None]
    complete: bool


def _lists(table: Table, sample: SampledTable, reader: ValueReader, limits: DictionaryLimits) -> Iterator[_Found]:
    """Add the list for every column of a table that has few values."""
    profiles = {each.name: each for each in sample.profile.columns}
    lookups = []
    for column in table.columns:
        declared = enum_values(column.native_type)
        if declared:
            seen = sample.counts.get(column.name, {})
            yield _Found(column.name, ValueKind.TEXT, {value: seen.get(value) for value in declared}, complete=True)
        elif column.name in sample.counts and _is_lookup(profiles[column.name], sample, limits):
            lookups.append(column)
    asked = [column for column in lookups if not _suffices(sample, profiles[column.name], reader.connector.dialect)]
    affordable = (sample.profile.row_count or 0) <= limits.rows
    full = reader.read(table, asked) if asked and affordable else {}
    for column in lookups:
        name, kind = column.name, profiles[column.name].kind
        if column not in asked:
            yield _Found(name, kind, sample.counts[name], complete=True)
        elif name not in full:
            yield _Found(name, kind, sample.counts[name], complete=False)
        elif (counts := full[name]) is not None:
            yield _Found(name, kind, counts, complete=True)


def _is_lookup(profile: ColumnProfile, sample: SampledTable, limits: DictionaryLimits) -> bool:
    """Return whether the sample suggests few values: text, booleans, or integers that are codes."""
    if not profile.distinct:
        return False
    if profile.kind is ValueKind.INTEGER:
        largest = max(abs(value) for value in sample.counts[profile.name])
        return profile.distinct <= limits.codes and largest <= limits.largest_code and not profile.unique
    return profile.kind in _LISTED and profile.distinct <= limits.distinct


def _suffices(sample: SampledTable, profile: ColumnProfile, dialect: str) -> bool:
    """Return whether the sample has every value of a column in the database's spelling."""
    is_folded = dialect_named(dialect).folds_texts and profile.kind is not ValueKind.INTEGER
    return sample.profile.complete and not is_folded


def _values(table: Table, found: _Found, limits: DictionaryLimits) -> ColumnValues:
    ordered = sorted(found.counts.items(), key=lambda each: (-(each[1] or 0), str(each[0])))
    values = tuple((_cut(plain_value(value), limits.length), count) for value, count in ordered)
    return ColumnValues(table.ref, found.column, values, found.complete)


def _cut(value: Any, length: int) -> Any:
    return value[:length] if isinstance(value, str) else value


COLUMNS_AT_ONCE = 40
"""The number of columns per statement. SQLite limits both the parts of a union (500) and the width of rows."""

Counts = dict[Any, int]
"""Value -> its row count."""


@dataclass(slots=True)
class ValueReader:
    """Reads at most `most` values of a column, truncated to `text` characters, until `deadline`
    (`core.clock.monotonic`).
    """

    connector: Connector
    most: int
    text: int
    deadline: float
    problems: list[ObjectProblem] = field(default_factory=list)
    statements: int = 0

    def read(self, table: Table, columns: Sequence[Column]) -> dict[str, Counts | None]:
        """Return column -> all its values, or None if there are more than `most`; omit columns that could not be read.

        Raises `SourceError` only if the database is unreachable.
        """
        found: dict[str, Counts | None] = {}
        for start in range(0, len(columns), COLUMNS_AT_ONCE):
            found |= self._together(table, columns[start : start + COLUMNS_AT_ONCE])
        return found

    def _together(self, table: Table, columns: Sequence[Column]) -> dict[str, Counts | None]:
        if monotonic() > self.deadline:
            return {}
        dialect = self.connector.dialect
        try:
            lists = self._lists(list_values(table, columns, dialect, most=self.most, text=self.text))
        except SourceError as error:
            if error.code not in ("query", "read_only") or lost_its_session(error):
                return self._failed(table, None, error)
            lists = None
        if lists is None:
            return dict(each for column in columns for each in self._alone(table, column))
        return {column.name: self._few(counts) for column, counts in zip(columns, lists, strict=True)}

    def _alone(self, table: Table, column: Column) -> Iterator[tuple[str, Counts | None]]:
        if monotonic() > self.deadline:
            return
        try:
            lists = self._lists(list_one(table, column, self.connector.dialect, most=self.most, text=self.text))
        except SourceError as error:
            self._failed(table, column, error)
        else:
            yield column.name, None if lists is None else self._few(lists[0])

    def _lists(self, listing: Listing) -> list[Counts] | None:
        """Return the values of every column in a statement, or None if it returned more rows than expected."""
        self.statements += 1
        result = self.connector.query(listing.sql, max_rows=listing.rows + 1)
        if len(result.rows) > listing.rows:
            return None
        lists: list[Counts] = [{} for _ in range(listing.columns)]
        for place, value, count in filter(None, map(listing.read, result.rows)):
            lists[place][value] = lists[place].get(value, 0) + count
        return lists

    def _few(self, counts: Counts) -> Counts | None:
        return counts if len(counts) <= self.most else None

    def _failed(self, table: Table, column: Column | None, error: SourceError) -> dict[str, Counts | None]:
        if error.code == "connection":
            raise error
        what = "values" if column is None else f"values of {column.name}"
        self.problems.append(ObjectProblem(table.ref, what, reason(error.message)))
        return {}


@dataclass(frozen=True, slots=True)
class Listing:
    """A statement, and a function that reads its rows: (column position, value, count), or None for NULL."""

    sql: str
    rows: int
    """The number of rows above which a list is incomplete."""
    columns: int
    flagged: bool

    def read(self, row: Sequence[Any]) -> tuple[int, Any, int] | None:
        """Return a result row's column, one of its values, and the number of table rows with that value."""
        count = int(row[-1])
        if self.flagged:
            place = next(at for at in range(self.columns) if int(row[self.columns + at]) == 0)
        else:
            place = int(row[0])
        value = row[place if self.flagged else place + 1]
        return None if value is None else (place, value, count)


def list_values(table: Table, columns: Sequence[Column], dialect: str, *, most: int, text: int) -> Listing:
    """Return one statement for all columns: with grouping sets if the dialect has them, else a union.

    `most`: the maximum number of values per column; the statement reads one more to detect that there are more. `text`:
    the number of characters to which values are truncated.
    """
    if not dialect_named(dialect).has_grouping_sets:
        return _union(table, columns, dialect, most=most, text=text)
    names = [f"v{place}" for place in range(len(columns))]
    values = ", ".join(
        f"{value_of(column, dialect, text)} AS {name}" for column, name in zip(columns, names, strict=True)
    )
    flags = ", ".join(f"GROUPING({name})" for name in names)
    sets = ", ".join(f"({name})" for name in names)
    rows = (most + 2) * len(columns)
    source = f"SELECT {values} FROM {table_path(table.ref, dialect)}"
    sql = f"SELECT {', '.join(names)}, {flags}, COUNT(*) FROM ({source}) AS s GROUP BY GROUPING SETS ({sets})"
    return Listing(dialect_named(dialect).limited(sql, rows + 1), rows, len(columns), flagged=True)


def list_one(table: Table, column: Column, dialect: str, *, most: int, text: int) -> Listing:
    """Return the statement for a single column."""
    return Listing(_branch(table, [column], 0, dialect, most, text), most + 2, 1, flagged=False)


def _union(table: Table, columns: Sequence[Column], dialect: str, *, most: int, text: int) -> Listing:
    branches = [_branch(table, columns, place, dialect, most, text) for place in range(len(columns))]
    return Listing(" UNION ALL ".join(branches), (most + 2) * len(columns), len(columns), flagged=False)


def _branch(table: Table, columns: Sequence[Column], place: int, dialect: str, most: int, text: int) -> str:
    """Return the SELECT of one column's values, in a separate column to keep types and collations apart."""
    value = value_of(columns[place], dialect, text)
    inner = f"SELECT {value} AS v FROM {table_path(table.ref, dialect)}"
    counts = f"SELECT v, COUNT(*) AS n FROM ({inner}) AS s GROUP BY v"
    grouped = dialect_named(dialect).limited(counts, most + 2)
    places = ", ".join("v" if at == place else "NULL" for at in range(len(columns)))
    return f"SELECT {place}, {places}, n FROM ({grouped}) AS b"
