"""What the values of columns say: the value dictionary, and columns that store values of another type.

The value dictionary has the values of columns with few values, so that filters can be written without reading rows. A
list comes from the type (native enums), from the sample if that is the whole table, or else from one statement per
table. If the statement fails or takes too long, the list has the values of the sample and is marked as incomplete.

A column that stores times, numbers, booleans or JSON as another type is recognized if every value is in one unambiguous
form. One in which a few are not keeps its type, and is reported. If the sample is not the whole table, one statement
per table counts the values of all rows that do not fit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import SourceError, monotonic, plain_value
from ktx_cli.faces import exp
from ktx_cli.privacy import Refusal, Sign, ValueKind, refusal
from ktx_cli.project import Privacy
from ktx_cli.scan.profile.profiler import ColumnProfile, SampledTable
from ktx_cli.scan.snapshot import StoredColumn, StoredColumns
from ktx_cli.scan.stages import STRICT, Failures, Stage
from ktx_cli.semantic import ColumnValues
from ktx_cli.warehouses import (
    EPOCHS,
    FALSE_WORDS,
    PATTERNS,
    TRUE_WORDS,
    ObjectProblem,
    SampleLimits,
    SemanticType,
    StoredAs,
    dialect_named,
    enum_values,
    lost_its_session,
    may_ask,
    reason,
    table_path,
    value_of,
)

if TYPE_CHECKING:
    from ktx_cli.warehouses import Column, Connector, Dialect, Table, TableRef

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
    checked: Callable[[TableRef, Sequence[Refusal]], None] = lambda ref, refused: None,
) -> Dictionary:
    """Return the dictionary of a connection, which is empty if privacy is `strict`. `deadline` uses
    `core.clock.monotonic`.

    If a table or column fails, the others continue; raises `SourceError` only if the database is unreachable.
    `failures` notes unexpected errors; the strict default raises them. `checked` is called after each table, with the
    reasons why values of its columns are hidden.
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
            checked(table.ref, [why for _, _, why in refused])
            columns += listed
            hidden += refused
    return Dictionary(tuple(columns), tuple(hidden), tuple(reader.problems), reader.statements)


def _of_table(
    table: Table, sample: SampledTable, reader: ValueReader, limits: DictionaryLimits
) -> tuple[list[ColumnValues], list[tuple[TableRef, str, Refusal]]]:
    """Return a table's lists, and the columns whose values are hidden."""
    columns: list[ColumnValues] = []
    hidden: list[tuple[TableRef, str, Refusal]] = []
    restricted = {each.name for each in sample.profile.columns if each.is_restricted}
    for found in _lists(table, sample, reader, limits):
        values, is_restricted = tuple(found.counts), found.column in restricted
        is_known = sample.is_storable and found.counts is sample.counts.get(found.column)
        refused = refusal(
            table.ref.name, found.column, found.kind, values, is_restricted=is_restricted, is_impersonal=is_known
        )
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
        listing = list_values(table, columns, self.connector.dialect, most=self.most, text=self.text)
        if not self._may_ask(listing):
            return {}
        try:
            lists = self._lists(listing)
        except SourceError as error:
            if error.code not in ("query", "read_only") or lost_its_session(error):
                return self._failed(table, None, error)
            lists = None
        if lists is None:
            return dict(each for column in columns for each in self._alone(table, column))
        return {column.name: self._few(counts) for column, counts in zip(columns, lists, strict=True)}

    def _alone(self, table: Table, column: Column) -> Iterator[tuple[str, Counts | None]]:
        listing = list_one(table, column, self.connector.dialect, most=self.most, text=self.text)
        if not self._may_ask(listing):
            return
        try:
            lists = self._lists(listing)
        except SourceError as error:
            self._failed(table, column, error)
        else:
            yield column.name, None if lists is None else self._few(lists[0])

    def _may_ask(self, listing: Listing) -> bool:
        is_late = monotonic() > self.deadline
        return may_ask(self.connector, listing.sql, max_rows=listing.rows + 1, is_late=is_late)

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


REPORTED: Final = 0.1
"""The share of values in another form up to which a column is reported."""

_GLANCE: Final = 40
"""The number of distinct values that tell whether a form is worth comparing with all."""

_LONGEST: Final = SampleLimits().text
"""The length to which the texts of a sample are truncated."""

_LONGEST_EXAMPLE: Final = 40
_MOST_DIGITS: Final = 15
_MOST_DECIMALS: Final = 9
_CODE_LENGTH: Final = 4
"""The number of digits from which whole numbers of the same length are codes, such as years and postcodes."""

_FEWEST_IDS: Final = 20
"""The number of different whole numbers from which they are ids if none repeats."""

_CODE_WORDS: Final = frozenset(
    {
        *("id", "ids", "key", "code", "codes", "no", "nr", "num", "number", "zip", "plz", "post", "postcode", "postal"),
        *("phone", "tel", "telephone", "mobile", "fax", "sku", "ean", "gtin", "isbn", "upc", "iban", "bic", "vat"),
        *("ref", "reference", "account", "serial", "version", "year", "fiscal", "uuid", "guid", "hash", "token"),
    }
)
"""Words of a name whose digits are not a quantity."""

_CODE_SIGNS: Final = frozenset(
    {Sign.PHONE, Sign.ADDRESS, Sign.BANK, Sign.NATIONAL, Sign.SECRET, Sign.NETWORK, Sign.IDENTIFIER}
)
_TIME_WORDS: Final = frozenset(
    {
        *("at", "on", "ts", "time", "timestamp", "date", "datetime", "epoch", "when", "since", "until"),
        *("created", "updated", "modified", "deleted", "started", "ended", "expires", "seen"),
    }
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNCLEAR: Final = re.compile(r"\d{1,2}([/.-])\d{1,2}\1(?:\d{4}|\d{2})(?:[ T]\d{1,2}:\d{2}.*)?")
_TEXT_PATTERNS: Final = {form: re.compile(pattern) for form, pattern in PATTERNS.items()}
_WORD_PAIRS: Final = tuple(map(frozenset, zip(TRUE_WORDS, FALSE_WORDS, strict=True)))


@dataclass(frozen=True, slots=True)
class Recognized:
    """A column in one form, or almost. `example`: a value in another form, if it may be shown.

    `to_check`: whether the sample alone does not suffice, because it has truncated values.
    """

    column: StoredColumn
    example: str | None = None
    to_check: bool = False


@dataclass(frozen=True, slots=True)
class Recognition:
    """The recognized columns by table, what could not be checked, and the number of statements."""

    tables: Mapping[TableRef, tuple[Recognized, ...]] = field(default_factory=dict)
    problems: tuple[ObjectProblem, ...] = ()
    statements: int = 0

    @property
    def columns(self) -> StoredColumns:
        """The recognized columns without examples."""
        return {ref: tuple(each.column for each in found) for ref, found in self.tables.items()}

    @property
    def examples(self) -> dict[tuple[TableRef, str], str]:
        """Table and column -> a value in another form that may be shown."""
        found = ((ref, each) for ref, columns in self.tables.items() for each in columns)
        return {(ref, each.column.name): each.example for ref, each in found if each.example is not None}


def recognize_columns(
    connector: Connector,
    tables: Sequence[Table],
    sampled: Sequence[SampledTable],
    *,
    privacy: Privacy,
    keys: AbstractSet[tuple[TableRef, str]] = frozenset(),
    deadline: float,
    failures: Failures = STRICT,
) -> Recognition:
    """Return the columns of all tables that store another type. `deadline`: of `core.clock.monotonic`.

    `keys`: the columns of keys and joins, whose digits are not numbers. Raises `SourceError` only if the database is
    unreachable. `failures` notes unexpected errors; the strict default raises them.
    """
    samples = {each.profile.ref: each for each in sampled}
    found: dict[TableRef, tuple[Recognized, ...]] = {}
    check = _RowCheck(connector, deadline)
    for table in tables:
        if table.ref not in samples:
            continue
        with failures.stage(Stage.TYPES, table.ref):
            sample = samples[table.ref]
            columns = [each for column in table.columns if (each := recognize(table, column, sample, keys, privacy))]
            columns = check.all_rows(table, columns, is_complete=sample.profile.complete)
            if columns:
                found[table.ref] = tuple(columns)
    return Recognition(found, tuple(check.problems), check.statements)


def recognize(
    table: Table,
    column: Column,
    sample: SampledTable,
    keys: AbstractSet[tuple[TableRef, str]] = frozenset(),
    privacy: Privacy = "strict",
) -> Recognized | None:
    """Return how a column stores values of another type, or None if it does not."""
    counts = sample.counts.get(column.name)
    profile = next((each for each in sample.profile.columns if each.name == column.name), None)
    if not counts or profile is None or column.values:
        return None
    is_key = (table.ref, column.name) in keys or column.name in _declared_keys(table)
    if column.type is SemanticType.NUMBER and profile.kind is ValueKind.INTEGER:
        found = None if is_key or not _is_time_name(column.name) else _epoch(counts)
    elif column.type is SemanticType.STRING and profile.kind is ValueKind.TEXT:
        found = _text(table, profile, {text: n for text, n in counts.items() if text.strip()}, is_key=is_key)
    else:
        return None
    if found is None:
        return None
    stored_as, misfits, to_check = found
    values = sum(count for value, count in counts.items() if not isinstance(value, str) or value.strip())
    missed = sum(counts[value] for value in misfits)
    stored = StoredColumn(column.name, stored_as, values, missed, sample.profile.complete)
    return Recognized(stored, _example(table, profile, counts, misfits, privacy), to_check)


_Form = tuple[StoredAs | None, list[Any], bool]
"""The form, the values in another form, and whether the database has to check truncated values."""


def _epoch(counts: Mapping[int, int]) -> _Form | None:
    for stored_as, (low, high) in EPOCHS.items():
        misfits = [value for value in counts if not low <= value < high]
        if _is_near(counts, misfits):
            return stored_as, misfits, False
    return None


def _text(table: Table, profile: ColumnProfile, counts: Mapping[str, int], *, is_key: bool) -> _Form | None:
    if not counts:
        return None
    for stored_as, fits in _FORMS.items():
        if sum(map(fits, islice(counts, _GLANCE))) * 2 < min(len(counts), _GLANCE):
            continue
        misfits = [text for text in counts if not fits(text)]
        if not _is_near(counts, misfits):
            continue
        if stored_as is StoredAs.NUMBER_TEXT and (is_key or _are_codes(table, profile, counts, misfits)):
            return None
        return stored_as, misfits, False
    if _is_boolean(counts) and not is_key:
        return StoredAs.BOOLEAN_TEXT, [], False
    if all(map(_UNCLEAR.fullmatch, counts)):
        return None, [], False
    return _json(counts)


def _is_near(counts: Mapping[Any, int], misfits: Sequence[Any]) -> bool:
    return sum(counts[value] for value in misfits) <= REPORTED * sum(counts.values())


def _is_date(text: str) -> bool:
    return _parses(StoredAs.ISO_DATE, date.fromisoformat, text)


def _is_timestamp(text: str) -> bool:
    return _parses(StoredAs.ISO_TIMESTAMP, datetime.fromisoformat, text)


def _is_instant(text: str) -> bool:
    return _parses(StoredAs.ISO_TIMESTAMP_TZ, datetime.fromisoformat, text)


def _parses(stored_as: StoredAs, parse: Callable[[str], Any], text: str) -> bool:
    written = text.upper()  # A database that ignores letter case has them in lower case.
    if _TEXT_PATTERNS[stored_as].match(written) is None:
        return False
    try:
        parse(written.rstrip())
    except ValueError:
        return False
    return not written.startswith("0000")


def _is_number(text: str) -> bool:
    if _TEXT_PATTERNS[StoredAs.NUMBER_TEXT].match(text) is None:
        return False
    whole, _, decimals = text.strip().lstrip("-").partition(".")
    return len(whole) <= _MOST_DIGITS and len(decimals) <= _MOST_DECIMALS


_FORMS: Final[Mapping[StoredAs, Callable[[str], bool]]] = {
    StoredAs.ISO_DATE: _is_date,
    StoredAs.ISO_TIMESTAMP: _is_timestamp,
    StoredAs.ISO_TIMESTAMP_TZ: _is_instant,
    StoredAs.NUMBER_TEXT: _is_number,
}


def _are_codes(table: Table, profile: ColumnProfile, counts: Mapping[str, int], misfits: Sequence[str]) -> bool:
    """Return whether digits are not a quantity: ids, phone numbers, postcodes, years."""
    if _CODE_WORDS.intersection(_words(profile.name)) or any(text.strip().isdigit() for text in misfits):
        return True  # The digits of a misfit begin with 0, or are too many.
    refused = refusal(table.ref.name, profile.name, profile.kind, tuple(counts))
    if refused is not None and refused.sign in _CODE_SIGNS:
        return True
    numbers = [text.strip() for text in counts if text not in misfits]
    if not all(text.isdigit() for text in numbers):
        return False
    if set(numbers) <= {"0", "1"}:
        return True
    lengths = {len(text) for text in numbers}
    is_fixed = len(lengths) == 1 and min(lengths) >= _CODE_LENGTH
    return is_fixed or (len(numbers) >= _FEWEST_IDS and len(numbers) == sum(counts[text] for text in counts))


def _is_boolean(counts: Mapping[str, int]) -> bool:
    """Return whether the texts are both words of one pair: `NO` alone may be a country."""
    words = {text.strip().lower() for text in counts}
    return words in _WORD_PAIRS


def _json(counts: Mapping[str, int]) -> _Form | None:
    truncated = [text for text in counts if len(text) >= _LONGEST and text.lstrip()[:1] in ("{", "[")]
    return (StoredAs.JSON_TEXT, [], bool(truncated)) if all(map(_is_json, counts)) else None


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    if len(text) >= _LONGEST:
        return True
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_time_name(name: str) -> bool:
    words = _words(name)
    return bool(words) and (words[-1] in _TIME_WORDS or bool({"timestamp", "epoch", "datetime"} & set(words)))


def _declared_keys(table: Table) -> set[str]:
    unique, foreign = (key.columns for key in table.unique_keys), (key.columns for key in table.foreign_keys)
    return {name for columns in (table.primary_key, *unique, *foreign) for name in columns}


def _example(
    table: Table, profile: ColumnProfile, counts: Mapping[Any, int], misfits: Sequence[Any], privacy: Privacy
) -> str | None:
    """Return a short value in another form, unless the values of the column, or these values, may be personal data."""
    if privacy == "strict" or not misfits:
        return None
    for values in (tuple(counts), tuple(misfits)):
        is_restricted = profile.is_restricted
        refused = refusal(table.ref.name, profile.name, profile.kind, values, is_restricted=is_restricted)
        if refused is not None and refused.personal:
            return None
    shown = [str(value).strip() for value in misfits if len(str(value)) <= _LONGEST_EXAMPLE]
    return next((text for text in sorted(shown) if text.isprintable()), None)


@dataclass(slots=True)
class _RowCheck:
    """Counts the values of whole tables that do not fit, with one statement for each table."""

    connector: Connector
    deadline: float
    problems: list[ObjectProblem] = field(default_factory=list)
    statements: int = 0

    def all_rows(self, table: Table, columns: Sequence[Recognized], *, is_complete: bool) -> list[Recognized]:
        """Return the columns with the counts of all rows, where the database can tell."""
        syntax = dialect_named(self.connector.dialect)
        asked = [
            each for each in columns if (each.to_check or not is_complete) and _misfit(each.column, syntax) is not None
        ]
        counts = self._counts(table, asked, syntax) if asked else None
        kept = [each for each in columns if each not in asked and not each.to_check]
        for each, (values, misfits) in zip(asked, counts or (), strict=False):
            if misfits <= REPORTED * values:
                kept.append(replace(each, column=replace(each.column, values=values, misfits=misfits, every_row=True)))
        if counts is None:
            kept += [each for each in asked if not each.to_check]
        order = {column.name: number for number, column in enumerate(table.columns)}
        return sorted(kept, key=lambda each: order[each.column.name])

    def _counts(self, table: Table, columns: Sequence[Recognized], syntax: Dialect) -> list[tuple[int, int]] | None:
        """Return the number of values of each column, and of those that do not fit; None if the statement failed."""
        sql = f"SELECT {', '.join(_counted(columns, syntax))} FROM {table_path(table.ref, syntax.name)}"
        if not may_ask(self.connector, sql, max_rows=1, is_late=monotonic() >= self.deadline):
            return None
        self.statements += 1
        try:
            row = self.connector.query(sql, max_rows=1).rows[0]
        except SourceError as error:
            if error.code == "connection" or lost_its_session(error):
                raise
            self.problems.append(ObjectProblem(table.ref, "stored types", reason(error.message)))
            return None
        numbers = [int(value or 0) for value in row]
        return list(zip(numbers[::2], numbers[1::2], strict=True))


def _misfit(stored: StoredColumn, syntax: Dialect) -> exp.Expr | None:
    if stored.stored_as is None:
        return None
    return syntax.misfit(exp.column(exp.to_identifier(stored.name, quoted=True)), stored.stored_as)


def _counted(columns: Iterable[Recognized], syntax: Dialect) -> Iterator[str]:
    """Yield the aggregates for the values of each column, and for those that do not fit."""
    for each in columns:
        misfit = _misfit(each.column, syntax)
        assert misfit is not None
        assert each.column.stored_as is not None
        value: exp.Expr = exp.column(exp.to_identifier(each.column.name, quoted=True))
        if each.column.stored_as.native is SemanticType.STRING:
            value = syntax.present_text(value)
        one = exp.Case(ifs=[exp.If(this=misfit, true=exp.Literal.number(1))])
        yield from (exp.Count(this=counted).sql(syntax.name) for counted in (value, one))
