"""The context for describing a table, its descriptions, their committed record, and the describer port."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from ktx_cli.core import Command, Hint, KtxError, Record, ResultWarning, listing, one_line, plural
from ktx_cli.privacy import ValueKind
from ktx_cli.scan.stages import connection_warning
from ktx_cli.semantic import Entry
from ktx_cli.warehouses import Column, Table, TableRef, ref_order

if TYPE_CHECKING:
    from ktx_cli.scan.profile.profiler import ColumnProfile, TableProfile
    from ktx_cli.scan.relationships.hints import JoinHint
    from ktx_cli.scan.relationships.record import RelationshipRecord
    from ktx_cli.scan.relationships.undecided import UndecidedColumn

Source = Literal["ai", "rules"]
TEXT_KEYS: Final[Mapping[Source, str]] = {"ai": "ai", "rules": "ktx"}
"""The manifest key in `descriptions` for the texts from each source."""

GENERATED_KEYS: Final = frozenset({"db", *TEXT_KEYS.values()})
"""The keys in `descriptions` that scans write. All others belong to people and other tools."""


@dataclass(frozen=True, slots=True, order=True)
class Join:
    """A join, declared or accepted: `child_columns[i]` refers to `parent_columns[i]`."""

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownTexts:
    """The texts written by people and other tools: source -> text, for the table and by column."""

    table: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TableContext:
    """A table with everything that a describer knows about it. `profile` is None if it was not sampled.

    `joins_out` start at the table and `joins_in` end at it; a join of the table to itself is in both.
    """

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
        """The tables that it is joined to, sorted."""
        found = {join.parent for join in self.joins_out} | {join.child for join in self.joins_in}
        return tuple(sorted(found - {self.ref}, key=ref_order))

    def column_profiles(self) -> dict[str, ColumnProfile]:
        """Return the profiles of the columns that could be read, by name."""
        profiles = self.profile.columns if self.profile else ()
        return {profile.name: profile for profile in profiles if profile.problem is None and profile.rows}


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one table. `text` is None if the table needs none; columns that need none are absent."""

    ref: TableRef
    hash: str
    source: Source
    text: str | None
    columns: Mapping[str, str]


def join_order(join: Join) -> tuple[Any, ...]:
    """Return a join's sort key."""
    return ref_order(join.child), join.child_columns, ref_order(join.parent), join.parent_columns


def gather_facts(
    tables: Iterable[Table],
    *,
    profiles: Mapping[TableRef, TableProfile],
    accepted: Iterable[Join] = (),
    texts: Mapping[TableRef, KnownTexts] | None = None,
) -> list[TableContext]:
    """Return the context of every table, sorted by reference. `accepted`: joins besides the declared foreign keys.

    A join to a table that is not among `tables` is ignored.
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
        TableContext(by_ref[ref], profiles.get(ref), tuple(out[ref]), tuple(into[ref]), known.get(ref, KnownTexts()))
        for ref in sorted(by_ref, key=ref_order)
    ]


def mappings_in(entry: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the mappings in a list of a manifest entry. People edit shards, so the list may contain anything."""
    found = entry.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def known_texts(entry: Entry) -> KnownTexts:
    """Return the texts written by people and other tools in a manifest entry."""
    found = {str(each["name"]): _persons(each) for each in mappings_in(entry, "columns") if "name" in each}
    return KnownTexts(_persons(entry), {name: texts for name, texts in found.items() if texts})


def _persons(entry: Mapping[str, Any]) -> dict[str, str]:
    by_source = entry.get("descriptions")
    texts = {"description": entry.get("description"), **(by_source if isinstance(by_source, dict) else {})}
    return {
        str(source): text
        for source, text in texts.items()
        if source not in GENERATED_KEYS and isinstance(text, str) and text.strip()
    }


def content_hash(facts: TableContext, version: str) -> str:
    """Return the SHA-256 of the input for a table's texts: structure, comments, neighbour names and `version`.

    `version` is that of the prompt or the rules. Rows, statistics, values and texts by people are not part of it.
    """
    neighbours = [[ref.schema, ref.name] for ref in facts.neighbours]
    return sha256_of([version, structure(facts.table), neighbours])


def structure_hash(table: Table, version: str) -> str:
    """Return the SHA-256 of a table's structure, comments and `version`."""
    return sha256_of([version, structure(table)])


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of a JSON value in hexadecimal."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def structure(table: Table) -> dict[str, Any]:
    """Return the part of a table that is hashed: without constraint names, indexes and counts."""
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
    typed = [column.name, column.native_type, column.type.value, column.nullable]
    return [*typed, column.comment, column.default, column.generated]


FEW_ROWS: Final = 10
"""Row counts below this number are all reported the same way."""

MOST_VALUES: Final = 10
LONGEST_VALUE: Final = 30
MOST_COUNTED: Final = 20
"""The maximum number of distinct values in a code column."""

ROWS_A_VALUE: Final = 5
"""The minimum average number of rows per value of a code."""

SAMPLED_ROWS: Final = 1000
"""The minimum sample size for listing values."""

_YEAR: Final = re.compile(r"(\d{4})-\d\d-\d\d")
_EMPTY: Final = ((0.9, "nearly every row"), (0.5, "most rows"), (0.1, "some rows"))


def rows_text(facts: TableContext) -> str:
    """Return `at least 2,000 rows` or `about 3,000 rows`, or an empty string if the count is unknown.

    A count is rounded down to 1, 2 or 5 with zeros, an estimate to its first digit.
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


def empty_text(facts: TableContext, profile: ColumnProfile | None) -> str:
    """Return a description of how much of a column is NULL; empty if less than a tenth."""
    if profile is None or not profile.rows:
        return ""
    sample = "" if _complete(facts) else " of a sample"
    if not profile.filled:
        return f"Empty in every row{sample}."
    share = profile.nulls / profile.rows
    return next((f"Empty in {words}{sample}." for least, words in _EMPTY if share >= least), "")


def years_text(facts: TableContext, profile: ColumnProfile | None) -> str:
    """Return `2021 to 2024`, if all rows were read and values may be shown."""
    if profile is None or not _complete(facts):
        return ""
    first, last = _year(profile.minimum), _year(profile.maximum)
    if first is None or last is None:
        return ""
    return first if first == last else f"{first} to {last}"


def values_text(facts: TableContext, profile: ColumnProfile | None) -> str:
    """Return `3 values: open, paid, void` for a column with few values, or only their number if they may not be shown.

    From a sample, only values in at least one percent of its rows are listed.
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


def _complete(facts: TableContext) -> bool:
    return facts.profile is not None and facts.profile.complete


DESCRIPTIONS: Final = "descriptions.json"
FORMAT: Final = 1


def read_descriptions(content: bytes, where: str) -> dict[TableRef, Described]:
    """Return the descriptions by table. Raises `KtxError` if the file is damaged or was written by a newer ktx."""
    try:
        document = json.loads(content)
        found = [_table(each) for each in document["tables"]] if document["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(where, type(error).__name__) from error
    if found is None:
        message = f"{where} has format {document['format']!r}, but this ktx reads format {FORMAT}"
        raise KtxError(message, hint="update ktx, or restore the file from git")
    by_ref = {each.ref: each for each in found}
    if len(by_ref) != len(found):
        raise _damaged(where, "a table appears twice")
    return by_ref


def record_bytes(record: Iterable[Described]) -> bytes:
    """Return the file content with one sorted line per table and column, for readable diffs."""
    tables = ",\n".join(_lines(each) for each in sorted(record, key=lambda each: ref_order(each.ref)))
    listed = f"[\n{tables}\n ]" if tables else "[]"
    return f'{{\n "format": {FORMAT},\n "tables": {listed}\n}}\n'.encode("utf-8", "surrogatepass")


def updated_record(
    old: Mapping[TableRef, Described], new: Iterable[Described], tables: Iterable[Table]
) -> dict[TableRef, Described]:
    """Return the record to write. An old text is kept until there is a new one or its table or column is removed.

    Texts by the model are never replaced by those of rules; texts by rules are replaced as a whole.
    """
    latest = {each.ref: each for each in new}
    record: dict[TableRef, Described] = {}
    for table in sorted(tables, key=lambda table: ref_order(table.ref)):
        merged = _merged(old.get(table.ref), latest.get(table.ref))
        if merged is not None:
            record[table.ref] = _trimmed(merged, {column.name for column in table.columns})
    return record


def with_descriptions(entry: Entry, described: Described | None) -> Entry:
    """Return a generated manifest entry with the texts of a table and its columns, under the key for their source."""
    if described is None:
        return entry
    key = TEXT_KEYS[described.source]
    columns = [_described(column, key, described.columns.get(str(column["name"]))) for column in entry["columns"]]
    return {**_described(entry, key, described.text), "columns": columns}


def _described(fields: dict[str, Any], key: str, text: str | None) -> dict[str, Any]:
    """Return the fields that have a text. New `descriptions` come after `table` in an entry, and last in a column."""
    if text is None:
        return fields
    if "descriptions" in fields or "table" not in fields:
        return {**fields, "descriptions": {**fields.get("descriptions", {}), key: text}}
    return {"table": fields["table"], "descriptions": {key: text}, **fields}


def _merged(old: Described | None, new: Described | None) -> Described | None:
    if old is None or new is None:
        return new or old
    if old.source != new.source:
        return old if old.source == "ai" else new
    if new.source == "rules" or old.hash == new.hash:
        return new
    return Described(new.ref, new.hash, new.source, new.text or old.text, {**old.columns, **new.columns})


def _trimmed(described: Described, columns: set[str]) -> Described:
    kept = {name: text for name, text in described.columns.items() if name in columns}
    return Described(described.ref, described.hash, described.source, described.text, kept)


def _lines(described: Described) -> str:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    head = {
        **({} if described.ref.schema is None else {"schema": described.ref.schema}),
        "table": described.ref.name,
        "hash": described.hash,
        "source": described.source,
        **({} if described.text is None else {"text": described.text}),
    }
    columns = ",\n".join(f"   {encode(name)}: {encode(described.columns[name])}" for name in sorted(described.columns))
    return f'  {encode(head)[:-1]}, "columns": {{\n{columns}\n  }}}}' if columns else f"  {encode(head)}"


def _table(fields: dict[str, Any]) -> Described:
    columns = {_text(name): _text(text) for name, text in fields.get("columns", {}).items()}
    schema, text = fields.get("schema"), fields.get("text")
    if fields["source"] not in TEXT_KEYS:
        raise ValueError("unknown source")
    return Described(
        ref=TableRef(None if schema is None else _text(schema), _text(fields["table"])),
        hash=_text(fields["hash"]),
        source=fields["source"],
        text=None if text is None else _text(text),
        columns=columns,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def _damaged(where: str, problem: str) -> KtxError:
    return KtxError(
        f"the record of descriptions {where} is damaged ({problem})",
        hint=Hint(
            "{}; or delete the file and let the next scan describe all tables again",
            Command("checkout", "--", where, program="git"),
        ),
        details={"path": where},
    )


@dataclass(frozen=True, slots=True)
class DescriptionInput:
    """The tables to describe. `profiles`: in the form that the model may see. `recorded`: descriptions from earlier
    scans.

    `texts`: reads the texts by people and other tools.
    """

    tables: Sequence[Table]
    relationships: RelationshipRecord
    profiles: Sequence[TableProfile]
    recorded: Mapping[TableRef, Described]
    texts: Callable[[], Mapping[TableRef, KnownTexts]]

    def facts(self, texts: Mapping[TableRef, KnownTexts] | None = None) -> list[TableContext]:
        """Return the context of every table, including accepted joins."""
        accepted = (
            Join(each.child, each.child_columns, each.parent, each.parent_columns)
            for each in self.relationships.accepted()
        )
        profiles = {profile.ref: profile for profile in self.profiles}
        return gather_facts(self.tables, profiles=profiles, accepted=accepted, texts=texts)


@dataclass(frozen=True, slots=True)
class DescriptionReport(Record):
    """The result of describing a connection. `by`: `llm` or `deterministic`. `described`: the described tables.

    `asked`: the tables in model calls. `failed`: table -> why it has no new text; the next run retries it.
    `proposed`: the number of undecided columns for which the model chose a parent, or None if it was not asked about
    any. `unproposed`: errors of these calls. `to_ask`: the estimate of a dry run. `stopped`: the error after which no
    more calls were made.
    """

    by: str
    described: int = 0
    asked: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)
    proposed: int | None = None
    unproposed: tuple[str, ...] = ()
    to_ask: Estimate | None = None
    stopped: KtxError | None = None

    @property
    def summary(self) -> str:
        """Return a short summary."""
        ask = self.to_ask
        if ask is not None and ask.calls:
            tables = f"{plural(ask.tables, 'table')} to describe"
            return f"estimated model use: {tables}, {plural(ask.calls, 'call')}, about {ask.tokens:,} tokens"
        asked = f", {self.asked:,} sent to the model" if self.by == "llm" else ""
        return f"{self.described:,} described{asked}" + (f", {len(self.failed):,} failed" if self.failed else "")

    def left_out(self) -> list[str]:
        """Return what remains to be done in the next run."""
        tables = f"descriptions of {listing(self.failed)}" if self.failed else ""
        joins = "join proposals" if self.unproposed else ""
        return [each for each in (tables, joins) if each]

    def warnings(self, connection: str) -> list[ResultWarning]:
        """Return warnings that state what failed and why."""
        found = []
        hint = (self.stopped.hint if self.stopped else None) or Command("scan", connection, "--depth", "enriched")
        if self.failed:
            why = listing(f"{table} ({why})" for table, why in self.failed.items())
            message = f"no new descriptions for {plural(len(self.failed), 'table')}: {why}"
            found.append(connection_warning("not_described", connection, message, hint, tables=list(self.failed)))
        if self.unproposed:
            message = f"the model could not be asked about all undecided joins: {listing(self.unproposed)}"
            found.append(connection_warning("not_proposed", connection, message, hint))
        return found

    json_keys = ("by", "described", "asked", "failed", "proposed", "to_ask", "stopped")


Texts = tuple[Sequence[Described], DescriptionReport]


@dataclass(frozen=True, slots=True)
class ProposalInput:
    """The columns whose parent is undecided, and all tables. `profiles`: in the form that the model may see."""

    tables: Sequence[Table]
    profiles: Sequence[TableProfile]
    undecided: Sequence[UndecidedColumn]

    def facts(self) -> dict[TableRef, TableContext]:
        """Return the context of every table, including the declared keys."""
        profiles = {profile.ref: profile for profile in self.profiles}
        return {facts.ref: facts for facts in gather_facts(self.tables, profiles=profiles)}


class Proposer(Protocol):
    """Proposes parents for undecided columns."""

    @property
    def version(self) -> str:
        """Differs if the same columns should be asked about again."""

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[Sequence[JoinHint], DescriptionReport]:
        """Return hints for the proposed parents and against rejected ones."""


class Describer(Protocol):
    """Describes tables for one connection. Each step adds to `report`."""

    @property
    def report(self) -> DescriptionReport:
        """The report before the first step."""

    @property
    def proposer(self) -> Proposer | None:
        """Proposes parents for undecided columns, or None if nobody is asked."""

    def describe(self, wanted: DescriptionInput, report: DescriptionReport) -> Texts:
        """Return new and earlier descriptions. A table without a new one keeps its old text."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of model calls: `tables` to describe, `calls`, and `tokens` of their prompts."""

    tables: int = 0
    calls: int = 0
    tokens: int = 0

    def __add__(self, other: Estimate) -> Estimate:
        return Estimate(self.tables + other.tables, self.calls + other.calls, self.tokens + other.tokens)
