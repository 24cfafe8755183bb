"""What rules and the model are told about a table, and the hash that says whether it has to be described anew."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import one_line, plural
from ktx_cli.privacy import ValueKind
from ktx_cli.scan.profile.counts import ColumnProfile
from ktx_cli.semantic import Entry
from ktx_cli.warehouses import Column, Table, TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.profile.counts import TableProfile


Source = Literal["ai", "rules"]
TEXT_KEYS: Final[Mapping[Source, str]] = {"ai": "ai", "rules": "ktx"}
"""Under which key of `descriptions` a text of each source stands in the manifest."""

GENERATED_KEYS: Final = frozenset({"db", *TEXT_KEYS.values()})
"""Keys of `descriptions` that scans write; all others are people's and other tools'."""


@dataclass(frozen=True, slots=True, order=True)
class Join:
    """A join, declared or accepted: `child_columns[i]` refers to `parent_columns[i]`."""

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownTexts:
    """What people and other tools wrote: source -> text, for the table and by column."""

    table: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableFacts:
    """One table. `joins_out` lead from it, `joins_in` to it; one to itself is in both. `profile` None: not sampled."""

    table: Table
    profile: TableProfile | None = None
    joins_out: tuple[Join, ...] = ()
    joins_in: tuple[Join, ...] = ()
    texts: KnownTexts = KnownTexts()

    @property
    def ref(self) -> TableRef:
        """The table's identity."""
        return self.table.ref

    @property
    def neighbours(self) -> tuple[TableRef, ...]:
        """The other tables it is joined with, sorted."""
        found = {join.parent for join in self.joins_out} | {join.child for join in self.joins_in}
        return tuple(sorted(found - {self.ref}, key=ref_order))

    def column_profiles(self) -> dict[str, ColumnProfile]:
        """Return the profiles of the columns that could be read, by name."""
        profiles = self.profile.columns if self.profile else ()
        return {profile.name: profile for profile in profiles if profile.problem is None and profile.rows}


@dataclass(frozen=True, slots=True)
class Described:
    """The texts of one table. `text` None: there is nothing to say; so with columns that are not in `columns`."""

    ref: TableRef
    hash: str
    source: Source
    text: str | None
    columns: Mapping[str, str]


def ref_order(ref: TableRef) -> tuple[str, str]:
    """Return what tables are sorted by."""
    return ref.schema or "", ref.name


def join_order(join: Join) -> tuple[Any, ...]:
    """Return what joins are sorted by."""
    return ref_order(join.child), join.child_columns, ref_order(join.parent), join.parent_columns


def gather_facts(
    tables: Iterable[Table],
    *,
    profiles: Mapping[TableRef, TableProfile],
    accepted: Iterable[Join] = (),
    texts: Mapping[TableRef, KnownTexts] | None = None,
) -> list[TableFacts]:
    """Return the facts of every table, sorted by ref. `accepted`: joins beside the declared keys.

    A join to a table that is not among `tables` is left out.
    """
    by_ref = {table.ref: table for table in tables}
    declared = (
        Join(table.ref, key.columns, key.target, key.target_columns)
        for table in by_ref.values()
        for key in table.foreign_keys
    )
    out: dict[TableRef, list[Join]] = defaultdict(list)
    into: dict[TableRef, list[Join]] = defaultdict(list)
    for join in sorted({*declared, *accepted}, key=join_order):
        if join.child in by_ref and join.parent in by_ref:
            out[join.child].append(join)
            into[join.parent].append(join)
    known = texts or {}
    return [
        TableFacts(by_ref[ref], profiles.get(ref), tuple(out[ref]), tuple(into[ref]), known.get(ref, KnownTexts()))
        for ref in sorted(by_ref, key=ref_order)
    ]


def known_texts(entry: Entry) -> KnownTexts:
    """Return the texts of people and other tools in a manifest entry."""
    columns = entry.get("columns")
    found = {
        str(column["name"]): _persons(column)
        for column in (columns if isinstance(columns, list) else [])
        if isinstance(column, dict) and "name" in column
    }
    return KnownTexts(_persons(entry), {name: texts for name, texts in found.items() if texts})


def _persons(entry: Mapping[str, Any]) -> dict[str, str]:
    by_source = entry.get("descriptions")
    texts = {"description": entry.get("description"), **(by_source if isinstance(by_source, dict) else {})}
    return {
        str(source): text
        for source, text in texts.items()
        if source not in GENERATED_KEYS and isinstance(text, str) and text.strip()
    }


def content_hash(facts: TableFacts, version: str) -> str:
    """Return the sha256, in hex, of what makes a table's texts: structure, comments, names of neighbours, `version`.

    `version` is that of the prompt or the rules. Rows, statistics, values and people's texts are not in it.
    """
    neighbours = [[ref.schema, ref.name] for ref in facts.neighbours]
    return sha256_of([version, structure(facts.table), neighbours])


def structure_hash(table: Table, version: str) -> str:
    """Return the sha256, in hex, of a table's structure and comments alone, and of `version`."""
    return sha256_of([version, structure(table)])


def sha256_of(value: Any) -> str:
    """Return the sha256, in hex, of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def structure(table: Table) -> dict[str, Any]:
    """Return what is hashed of a table: no names of constraints, no indexes, no counts."""
    return {
        "ref": [table.ref.schema, table.ref.name],
        "kind": table.kind.value,
        "comment": table.comment,
        "columns": [_column(column) for column in table.columns],
        "primary_key": list(table.primary_key),
        "foreign_keys": sorted(
            [list(key.columns), key.target.schema or "", key.target.name, list(key.target_columns)]
            for key in table.foreign_keys
        ),
        "unique_keys": sorted(list(key.columns) for key in table.unique_keys),
        "view_sql": table.view_sql,
    }


def _column(column: Column) -> list[Any]:
    return [
        column.name,
        column.native_type,
        column.type.value,
        column.nullable,
        column.comment,
        column.default,
        column.generated,
    ]


FEW_ROWS: Final = 10
"""Below so many, rows are not told apart."""

MOST_VALUES: Final = 10
LONGEST_VALUE: Final = 30
MOST_COUNTED: Final = 20
"""A column with more values is no code."""

ROWS_A_VALUE: Final = 5
"""So many rows have to stand behind each value of a code, on average."""

SAMPLED_ROWS: Final = 1000
"""A smaller sample says nothing of values."""

_YEAR: Final = re.compile(r"(\d{4})-\d\d-\d\d")
_EMPTY: Final = ((0.9, "nearly every row"), (0.5, "most rows"), (0.1, "some rows"))


def rows_text(facts: TableFacts) -> str:
    """Return `at least 2,000 rows` or `about 3,000 rows`, an empty text where the count is not known.

    A count is given by the next lower 1, 2 or 5 with zeros, an estimate by its first digit.
    """
    count = facts.profile.row_count if facts.profile else None
    if facts.profile is None or count is None or (not facts.profile.exact_count and count <= 0):
        return ""
    if not facts.profile.exact_count:
        return f"about {plural(round(count, 1 - len(str(count))), 'row')}"
    if count < FEW_ROWS:
        return f"fewer than {FEW_ROWS} rows" if count else "no rows"
    scale = 10 ** (len(str(count)) - 1)
    step = max(each for each in (1, 2, 5) if each * scale <= count)
    return f"at least {step * scale:,} rows"


def empty_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return how much of a column is NULL, an empty text below a tenth."""
    if profile is None or not profile.rows:
        return ""
    sample = "" if _complete(facts) else " of a sample"
    if not profile.filled:
        return f"Empty in every row{sample}."
    share = profile.nulls / profile.rows
    return next((f"Empty in {words}{sample}." for least, words in _EMPTY if share >= least), "")


def years_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return `2021 to 2024`, where every row was looked at and values may be told."""
    if profile is None or not _complete(facts):
        return ""
    first, last = _year(profile.minimum), _year(profile.maximum)
    if first is None or last is None:
        return ""
    return first if first == last else f"{first} to {last}"


def values_text(facts: TableFacts, profile: ColumnProfile | None) -> str:
    """Return `3 values: open, paid, void` of a column with few values, without them where they may not be told.

    Of a sample only the values that are at least a hundredth of it, and that it is one.
    """
    if profile is None or profile.kind not in (ValueKind.TEXT, ValueKind.INTEGER) or not _is_few(profile):
        return ""
    if _complete(facts):
        values = _listed([value for value, _ in profile.top]) if len(profile.top) == profile.distinct else ""
        return plural(profile.distinct or 0, "value") + (f": {values}" if values else "")
    values = _listed([value for value, count in profile.top if count * 100 >= profile.rows])
    return f"in a sample mostly {values}" if values and profile.rows >= SAMPLED_ROWS else ""


def _is_few(profile: ColumnProfile) -> bool:
    distinct = profile.distinct or 0
    return 0 < distinct <= MOST_COUNTED and profile.filled >= ROWS_A_VALUE * distinct


def _listed(values: list[Any]) -> str:
    texts = sorted(map(str, values))
    plain = all(text and len(text) <= LONGEST_VALUE and one_line(text) == text for text in texts)
    return ", ".join(texts) if plain and len(texts) <= MOST_VALUES else ""


def _year(value: Any) -> str | None:
    found = _YEAR.match(str(value))
    return found[1] if found else None


def _complete(facts: TableFacts) -> bool:
    return facts.profile is not None and facts.profile.complete
