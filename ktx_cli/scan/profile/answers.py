"""The answers of statements that a scan keeps for the next one, so that it only sends those about changed tables.

What a scan finds out is a function of the answers that a database gives to its statements. An answer is kept with the
evidence (see `TableEvident`) of each table that its statement names, and is used again while none of them has changed.
The next scan then computes the same result as one that sends every statement, from statements about the rest.

Answers are written as they arrive, so that a scan that is killed continues there. Those that may have values that must
not be stored wait until these have been checked: samples, and lists of all values of a column. If a table has such
values, none of its answers is kept but numbers of rows: it is read again in every scan.
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import functools
import hashlib
import ipaddress
import json
import re
import threading
import uuid
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Record, SourceError, isoformat, monotonic, now, plural
from ktx_cli.project import StateDatabase, transaction, translated
from ktx_cli.warehouses import (
    Column,
    Connector,
    ForwardingConnector,
    OverBudgetError,
    QueryResult,
    SemanticType,
    Table,
    TableRef,
    bytes_read,
    dialect_named,
    reads_all_rows,
    table_path,
)

Evidence = Mapping[TableRef, str]
"""Table -> a string that changes with its rows. Tables for which that is unknown are absent."""

_COUNT: Final = re.compile(r"SELECT count\(", re.IGNORECASE)
_AFTER: Final = re.compile(r"\b(?:FROM|JOIN)\s+", re.IGNORECASE)
_NO_SCHEMA: Final = ""
STORAGE_RULES: Final = 2
"""Increase this number when other answers may be stored, so that those of earlier rules are not used."""

UNUSED_SCANS: Final = 5
"""After how many scans without a use for it an answer is deleted, even if none of them was complete."""

FLUSHED: Final = 50
"""The number of answers that are written together at most."""

FLUSH_SECONDS: Final = 1.0
"""How long the answers about finished tables may wait for others."""


@dataclass(frozen=True, slots=True)
class ProfileCounts(Record):
    """How many tables a scan of rows profiled.

    `changed`: those that may have changed since they were last read. `profiled`: those that statements were sent about.
    `reused`: those with the results of an earlier scan. `waiting`: those that a later scan profiles, because the
    budget was used up; they have the results of an earlier scan, or none. `skipped`: those that are not profiled at all
    because of `scan.views` and `scan.profile`.
    """

    tables: int
    changed: int = 0
    profiled: int = 0
    reused: int = 0
    waiting: int = 0
    skipped: int = 0

    json_keys = ("tables", "changed", "profiled", "reused", "waiting", "skipped")

    @property
    def text(self) -> str:
        """The counts for a person; empty if all tables were profiled, or none because nothing changed."""
        if not self.waiting and not (self.profiled and self.reused):
            return ""
        later = f", {plural(self.waiting, 'table')} waiting for a later scan" if self.waiting else ""
        return f"{plural(self.profiled, 'table')} profiled, {self.reused:,} reused{later}"


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The answer of a statement. `content`: see `encoded`.

    `tables`: those it names, with their evidence, and without evidence those whose values the statement contains.
    """

    statement: str
    tables: tuple[tuple[TableRef, str | None], ...]
    content: bytes
    counts: bool = False
    """Whether it has only numbers of rows, which are no values."""
    unused: int = 0
    """How many scans in a row had no use for it."""


@dataclass(frozen=True, slots=True)
class KnownTable:
    """What the last scan that read a table knew of it: the evidence, the catalog's row count, and when it was read.

    `sample_rows`: the rows that its sample could have. `sample_setting`: the setting that this followed from.
    """

    evidence: str | None
    row_estimate: int | None
    sample_rows: int
    sample_setting: int
    read: str


@dataclass(frozen=True, slots=True)
class AnswerStore:
    """The stored answers of one connection. Every method raises `StorageError` if the state database does not work.

    A table has one row in `scanned_tables`; what else a scan keeps of a table or its columns refers to its names.
    """

    database: StateDatabase
    state: Path
    connection: str

    def answers(self) -> dict[str, StoredAnswer]:
        """Return statement digest -> answer, of those that the current rules about private values let pass."""
        with translated(self.state):
            rows = self.database.execute(
                "SELECT statement, tables, counts, unused, answer FROM scan_answers WHERE connection = ? AND rules = ?",
                (self.connection, privacy_rules()),
            ).fetchall()
        found = {}
        for statement, tables, counts, unused, content in rows:
            named = tuple((TableRef(schema, name), evidence) for schema, name, evidence in json.loads(tables))
            found[statement] = StoredAnswer(statement, named, bytes(content), bool(counts), unused)
        return found

    def tables(self) -> dict[TableRef, KnownTable]:
        """Return table -> what the last scan that read it knew."""
        with translated(self.state):
            rows = self.database.execute(
                "SELECT schema_name, table_name, evidence, row_estimate, sample_rows, sample_setting, read_at"
                " FROM scanned_tables WHERE connection = ?",
                (self.connection,),
            ).fetchall()
        return {TableRef(schema or None, name): KnownTable(*rest) for schema, name, *rest in rows}

    def add(self, answers: Iterable[StoredAnswer], tables: Mapping[TableRef, KnownTable]) -> None:
        """Store answers and the known state of tables, replacing earlier ones."""
        rules = privacy_rules()
        texts = [
            (
                self.connection,
                each.statement,
                json.dumps([[ref.schema, ref.name, evidence] for ref, evidence in each.tables]),
                int(each.counts),
                rules,
                each.content,
            )
            for each in answers
        ]
        known = [
            (
                *(self.connection, ref.schema or _NO_SCHEMA, ref.name),
                *(each.evidence, each.row_estimate, each.sample_rows, each.sample_setting, each.read),
            )
            for ref, each in tables.items()
        ]
        with translated(self.state), transaction(self.database):
            self.database.executemany(
                "INSERT INTO scan_answers (connection, statement, tables, counts, rules, answer)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (connection, statement) DO UPDATE SET"
                " tables = excluded.tables, counts = excluded.counts, rules = excluded.rules, unused = 0,"
                " answer = excluded.answer",
                texts,
            )
            self.database.executemany(
                "INSERT INTO scanned_tables"
                " (connection, schema_name, table_name, evidence, row_estimate, sample_rows, sample_setting, read_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (connection, schema_name, table_name) DO UPDATE SET"
                " evidence = excluded.evidence, row_estimate = excluded.row_estimate,"
                " sample_rows = excluded.sample_rows, sample_setting = excluded.sample_setting,"
                " read_at = excluded.read_at",
                known,
            )

    def purge(self) -> None:
        """Delete the answers, of any connection, that other rules about private values let pass."""
        rules = (privacy_rules(),)
        with translated(self.state):
            if self.database.execute("SELECT 1 FROM scan_answers WHERE rules <> ? LIMIT 1", rules).fetchone():
                with _secure_deletion(self.database):
                    self.database.execute("DELETE FROM scan_answers WHERE rules <> ?", rules)

    def remove(self, statements: Iterable[str], tables: Iterable[TableRef] = ()) -> None:
        """Delete answers and the known state of tables."""
        gone = [(self.connection, each) for each in statements]
        dropped = [(self.connection, ref.schema or _NO_SCHEMA, ref.name) for ref in tables]
        if not gone and not dropped:
            return
        with translated(self.state), _secure_deletion(self.database):
            self.database.executemany("DELETE FROM scan_answers WHERE connection = ? AND statement = ?", gone)
            self.database.executemany(
                "DELETE FROM scanned_tables WHERE connection = ? AND schema_name = ? AND table_name = ?", dropped
            )

    def set_unused(self, scans: Mapping[str, int]) -> None:
        """Store how many scans in a row had no use for answers."""
        rows = [(count, self.connection, statement) for statement, count in scans.items()]
        if rows:
            with translated(self.state), transaction(self.database):
                self.database.executemany(
                    "UPDATE scan_answers SET unused = ? WHERE connection = ? AND statement = ?", rows
                )


@contextlib.contextmanager
def _secure_deletion(database: StateDatabase) -> Iterator[None]:
    """Run a transaction whose deleted values do not remain in the free pages of the file."""
    database.execute("PRAGMA secure_delete = ON")
    with transaction(database):
        yield


def forget_answers(database: StateDatabase, connection: str) -> None:
    """Delete the answers of a connection, inside a transaction."""
    for table in ("scan_answers", "scanned_tables"):
        database.execute(f"DELETE FROM {table} WHERE connection = ?", (connection,))


class RecallingConnector(ForwardingConnector):
    """Answers the statements of a scan from stored answers, and stores the answers of those that it sends.

    `evidence`: the evidence of all tables, read before their rows. `unstored`: the tables with values that must not be
    stored, as far as they are known; `everything_private`: no values may be stored at all. `anew`: tables whose stored
    answers do not count. `gigabytes`: what the statements that are sent may read at most: as the database says before
    it runs them, or else by the rows and the named columns. Closing it does not close the inner connector. It may be
    used by several threads.
    """

    def __init__(
        self,
        inner: Connector,
        tables: Sequence[Table],
        store: AnswerStore | None = None,
        evidence: Evidence | None = None,
        *,
        unstored: Collection[TableRef] = (),
        anew: Collection[TableRef] = (),
        everything_private: bool = False,
        gigabytes: float | None = None,
    ) -> None:
        super().__init__(inner)
        self._tables = {table.ref: table for table in tables}
        self._by_path = {table_path(table.ref, inner.dialect): table.ref for table in tables}
        self._lengths = sorted({len(path) for path in self._by_path}, reverse=True)
        self._evidence = dict(evidence or {})
        self._present: dict[TableRef, str | None] = {}
        self._store = store
        self._private = everything_private
        self._anew = frozenset(anew)
        self.unstored = set(unstored)
        """The tables with values that must not be stored, as far as they are known."""
        self._lock = threading.Lock()
        if store is not None:
            store.purge()
        self._stored = {} if store is None else store.answers()
        self.known = {} if store is None else store.tables()
        self._waiting: dict[TableRef, list[StoredAnswer]] = defaultdict(list)
        self._new: list[StoredAnswer] = []
        self._written: dict[str, StoredAnswer] = {}  # Without their contents.
        self._tables_read: dict[TableRef, KnownTable] = {}
        self._used: set[str] = set()
        self._are_waiting = True
        self._flushed = monotonic()
        self._most_bytes = None if gigabytes is None else int(gigabytes * 1024**3)
        self._bytes = 0
        self._rows = {table.ref: table.row_estimate for table in tables}
        self._contained: dict[str, tuple[TableRef, ...]] = {}
        self.is_over_budget = False
        """Whether a statement was not sent because of the bytes that may be read."""
        self.sent: Counter[TableRef] = Counter()
        """Table -> the number of statements about it that were sent."""
        self.statements = 0
        """The number of statements that were sent."""
        self.recalled = 0
        """The number of statements that were not sent."""
        self.pinned: set[TableRef] = set()
        """Changed tables for which the last scan's answers count, because their turn comes in a later scan."""
        self.changed = frozenset(ref for ref in self._tables if not self._is_unchanged(ref))
        """The tables that may have changed since they were last read: new ones, and those without evidence too."""
        self._forget_private()

    def rows_before(self, setting: int) -> int | None:
        """Return the rows that most samples of earlier scans with the same setting could have, or None without any."""
        counts = Counter(each.sample_rows for each in self.known.values() if each.sample_setting == setting)
        return max(counts, key=lambda rows: (counts[rows], rows), default=None)

    def _is_unchanged(self, ref: TableRef) -> bool:
        known = self.known.get(ref)
        return known is not None and known.evidence is not None and known.evidence == self._evidence.get(ref)

    def affords(self, sql: str, *, max_rows: int = 1000) -> bool:
        """See `ForwardingConnector`. A statement that the database refuses is left to `query`."""
        named = self._named(sql)
        if self._is_spent(sql, named):
            return False
        try:
            wanted, _ = self._bytes_of(sql, named, max_rows)
        except SourceError:
            return True
        return self._fits(wanted)

    def attribute(self, sql: str, tables: Iterable[TableRef]) -> None:
        """See `ForwardingConnector`: the answer is not stored if one of the tables has values that must not be."""
        with self._lock:
            self._contained[sql] = tuple(dict.fromkeys(tables))

    def recalls(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> bool:
        """Return whether a statement is answered without being sent."""
        return self._recalled(self._digest(sql, parameters, max_rows)) is not None

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """See `Connector`."""
        digest = self._digest(sql, parameters, max_rows)
        answer = self._recalled(digest)
        contained = self._contained.pop(sql, ())
        if answer is not None:
            with self._lock:
                self.recalled += 1
                self._used.add(digest)
            return decoded(answer.content)
        named = self._named(sql)
        reserved, is_sample = self._bytes_of(sql, named, max_rows)
        with self._lock:
            if not self._fits(reserved):
                raise OverBudgetError
            self._bytes += reserved
            self.statements += 1
            self.sent.update(named)
        result = super().query(sql, parameters, max_rows=max_rows)
        self._learn(sql, named, result, reserved if is_sample else None)
        self._keep(digest, sql, named, contained, result)
        return result

    def close(self) -> None:
        """Do nothing."""

    def pin(self, ref: TableRef) -> Table | None:
        """Let the stored answers count for a table although it changed, and return it as the last scan knew it.

        Return None if no scan has read it.
        """
        known = self.known.get(ref)
        if known is None or known.evidence is None or ref in self._anew:
            return None
        with self._lock:
            self.pinned.add(ref)
            self._present[ref] = self._evidence.get(ref)
            self._evidence[ref] = known.evidence
        return replace(self._tables[ref], row_estimate=known.row_estimate)

    def unpin(self, ref: TableRef) -> None:
        """Let the stored answers no longer count for a table that changed."""
        with self._lock:
            if ref not in self.pinned:
                return
            self.pinned.remove(ref)
            present = self._present.pop(ref)
            if present is None:
                self._evidence.pop(ref, None)
            else:
                self._evidence[ref] = present

    def settle(self, ref: TableRef, sample_rows: int, sample_setting: int, *, may_store: bool) -> None:
        """Store the answers about a table's sample, or drop them because they have values that must not be stored."""
        self._release(ref, may_store=may_store)
        with self._lock:
            if ref in self._evidence and ref not in self.pinned and self.sent[ref]:
                estimate = self._tables[ref].row_estimate
                sampled = (sample_rows, sample_setting)
                self._tables_read[ref] = KnownTable(self._evidence[ref], estimate, *sampled, isoformat(now()))
        self._flush_some()

    def end_sampling(self) -> None:
        """Store the answers of further statements at once: they have numbers of rows, hashes, or sampled values."""
        self._drop_waiting()

    def begin_lists(self) -> None:
        """Let further answers wait until `settle_lists`: they have values that no sample has."""
        self._are_waiting = True

    def settle_lists(self, ref: TableRef, *, may_store: bool) -> None:
        """Store the answers about a table's values, or delete all its answers, because some must not be stored."""
        self._release(ref, may_store=may_store)
        if not may_store:
            self.flush()
            self._forget_private()
        self._flush_some()

    def end_lists(self) -> None:
        """Drop the answers that still wait, because nobody checked their values, and store further ones at once."""
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        with self._lock:
            self._are_waiting = False
            self._waiting.clear()
        self.flush()

    def _release(self, ref: TableRef, *, may_store: bool) -> None:
        with self._lock:
            waiting = self._waiting.pop(ref, [])
            if ref in self.pinned:  # Those that count for it stay: they are about the rows of its profile.
                waiting = []
            self._new += waiting if may_store else [each for each in waiting if each.counts]
            if not may_store:
                self.unstored.add(ref)

    def _flush_some(self) -> None:
        if len(self._new) >= FLUSHED or monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the new answers. Call it only from the thread that opened the state database."""
        with self._lock:
            self._flushed = monotonic()
            new, self._new = self._new, []
            tables, self._tables_read = self._tables_read, {}
        if self._store is not None and (new or tables):
            self._store.add(new, tables)
            self._used |= {each.statement for each in new}
            self._written |= {each.statement: replace(each, content=b"") for each in new}
            self.known |= tables

    def finish(self, *, is_complete: bool) -> None:
        """Write the new answers, and delete gone tables and the answers that no later scan uses.

        These are all that a complete scan had no use for. After another scan, they are those about former rows of
        tables that were read, and those that `UNUSED_SCANS` scans had no use for: statements about sampled values
        change with the samples.
        """
        self.flush()
        self._forget_private()
        if self._store is None:
            return
        current = {ref for ref in self._tables if ref not in self.pinned and self._is_unchanged(ref)}
        gone, unused = set[str](), dict[str, int]()
        for each in self._stored.values():
            if each.statement in self._used:
                if each.unused and each.statement not in self._written:
                    unused[each.statement] = 0
            elif (
                is_complete
                or each.unused + 1 >= UNUSED_SCANS
                or any(
                    ref not in self._tables or (ref in current and evidence not in (None, self._evidence.get(ref)))
                    for ref, evidence in each.tables
                )
            ):
                gone.add(each.statement)
            else:
                unused[each.statement] = each.unused + 1
        self._store.set_unused(unused)
        self._store.remove(gone, [ref for ref in self.known if ref not in self._tables])

    def _digest(self, sql: str, parameters: Sequence[Any], max_rows: int) -> str:
        text = "\0".join((self.dialect, sql, repr(tuple(parameters)), str(max_rows)))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _recalled(self, digest: str) -> StoredAnswer | None:
        answer = self._stored.get(digest)
        if answer is None or any(
            evidence is not None and (self._evidence.get(ref) != evidence or ref in self._anew)
            for ref, evidence in answer.tables
        ):
            return None
        return answer

    def _named(self, sql: str) -> list[TableRef]:
        """Return the tables that a statement reads."""
        found: dict[TableRef, None] = {}
        for match in _AFTER.finditer(sql):
            start = match.end()
            for length in self._lengths:
                ref = self._by_path.get(sql[start : start + length])
                if ref is not None:
                    found[ref] = None
                    break
        return list(found)

    def _keep(
        self, digest: str, sql: str, named: Sequence[TableRef], contained: Sequence[TableRef], result: QueryResult
    ) -> None:
        if self._store is None or not named:
            return
        all_tables = dict.fromkeys((*named, *contained))
        evidence = [(ref, self._evidence.get(ref)) for ref in named]
        counts = _COUNT.match(sql) is not None and len(result.rows) == 1
        is_private = not counts and (self._private or not self.unstored.isdisjoint(all_tables))
        if is_private or any(text is None for _, text in evidence):
            return
        content = encoded(result)
        if content is None:
            return
        others = ((ref, None) for ref in all_tables if ref not in named)
        answer = StoredAnswer(digest, (*evidence, *others), content, counts)
        with self._lock:
            if self._are_waiting and len(named) == 1:
                self._waiting[named[0]].append(answer)
            else:
                self._new.append(answer)

    def _fits(self, wanted: int) -> bool:
        fits = self._most_bytes is None or self._bytes + wanted <= self._most_bytes
        self.is_over_budget = self.is_over_budget or not fits
        return fits

    def _is_spent(self, sql: str, named: Sequence[TableRef]) -> bool:
        """Whether next to nothing is left for a statement that reads values: the database need not be asked for more.

        One that names no column, or reads a table without rows, may read no bytes.
        """
        if self._most_bytes is None or self._bytes < _SPENT * self._most_bytes:
            return False
        if not any(self._rows[ref] and self._widths(sql, ref) for ref in named):
            return False
        self.is_over_budget = True
        return True

    def _bytes_of(self, sql: str, named: Sequence[TableRef], max_rows: int) -> tuple[int, bool]:
        """Return how many bytes a statement reads, and whether that is only known after it.

        They are what the database says, or else the values of the columns that the statement names: in all rows, or in
        those that a sample returns at most.
        """
        if self._most_bytes is None:
            return 0, False
        read = bytes_read(self.inner, sql)
        if read is not None:
            return read, False
        if len(named) != 1 or reads_all_rows(sql, self.dialect, max_rows):
            return sum((self._rows[ref] or 0) * self._width(sql, ref) for ref in named), False
        rows = self._rows[named[0]]
        return (max_rows if rows is None else min(rows, max_rows)) * self._width(sql, named[0]), True

    def _widths(self, sql: str, ref: TableRef) -> list[int]:
        """Return the widths of the columns that a statement names."""
        syntax = dialect_named(self.dialect)
        return [_width(column) for column in self._tables[ref].columns if syntax.quote(column.name) in sql]

    def _width(self, sql: str, ref: TableRef) -> int:
        counts_without_reading = dialect_named(self.dialect).counts_without_reading
        return sum(self._widths(sql, ref)) or (0 if counts_without_reading else _VALUE_WIDTH)

    def _learn(self, sql: str, named: Sequence[TableRef], result: QueryResult, reserved: int | None) -> None:
        """Note how many rows a table has. `reserved`: the bytes of a sample, which are corrected to its rows."""
        if self._most_bytes is None or len(named) != 1:
            return
        (ref,) = named
        with self._lock:
            if sql == f"SELECT count(*) FROM {table_path(ref, self.dialect)}":
                self._rows[ref] = int(result.rows[0][0])
            elif reserved is not None:
                self._bytes += len(result.rows) * self._width(sql, ref) - reserved
                self._rows[ref] = max(self._rows[ref] or 0, len(result.rows))

    def _forget_private(self) -> None:
        """Delete stored answers with values that must not be stored any more."""
        gone = {
            each.statement
            for each in (*self._stored.values(), *self._written.values())
            if not each.counts and (self._private or any(ref in self.unstored for ref, _ in each.tables))
        }
        for statement in gone:
            self._stored.pop(statement, None)
            self._written.pop(statement, None)
        if self._store is not None:
            self._store.remove(gone)


@functools.cache
def privacy_rules() -> str:
    """Return a digest of the rules about private values: answers that other rules let pass are deleted."""
    package = Path(__file__).parents[2] / "privacy"
    digest = hashlib.sha256(str(STORAGE_RULES).encode())
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".json", ".txt")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_PLAIN: Final = frozenset({type(None), bool, int, float, str})
"""The types that JSON keeps."""


def _delta(value: datetime.timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], Any]]]] = {
    decimal.Decimal: ("decimal", str),
    datetime.datetime: ("datetime", datetime.datetime.isoformat),
    datetime.date: ("date", datetime.date.isoformat),
    datetime.time: ("time", datetime.time.isoformat),
    datetime.timedelta: ("delta", _delta),
    bytes: ("bytes", bytes.hex),
    uuid.UUID: ("uuid", str),
    **{
        each: ("address", lambda value: [type(value).__name__, str(value)])
        for each in (
            *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network),
            *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
        )
    },
}
"""Type -> its name in stored answers, and how a value is written."""

_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "decimal": decimal.Decimal,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
    "delta": lambda parts: datetime.timedelta(parts[0], parts[1], parts[2]),
    "bytes": bytes.fromhex,
    "uuid": uuid.UUID,
    "address": lambda parts: getattr(ipaddress, parts[0])(parts[1]),
}


class NotStoredError(Exception):
    """Raised for a statement whose answer is not stored."""


class StoredOnlyConnector(ForwardingConnector):
    """Sends no statement: answers those whose answers a `RecallingConnector` has, and refuses the others.

    `answered`: the number of answered statements.
    """

    answered = 0

    def affords(self, sql: str, *, max_rows: int = 1000) -> bool:
        """Return True without asking the database what the statement would read: `query` does not send it."""
        return True

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        """Answer a statement. Raises `NotStoredError` for one that would have to be sent."""
        if not self.recalls(sql, parameters, max_rows=max_rows):
            raise NotStoredError
        self.answered += 1
        return super().query(sql, parameters, max_rows=max_rows)


def encoded(result: QueryResult) -> bytes | None:
    """Return a result as bytes, or None if it has values of types that would not come back as they are."""
    columns = []
    for values in zip(*result.rows, strict=True):
        kinds = set(map(type, values))
        if kinds <= _PLAIN:
            columns.append(["", values])
            continue
        others = kinds - {type(None)}
        if len(others) == 1 and (writer := _WRITERS.get(others.pop())) is not None:
            name, write = writer
            columns.append([name, [None if value is None else write(value) for value in values]])
            continue
        if not all(kind in _PLAIN or kind in _WRITERS for kind in kinds):
            return None
        columns.append(["mixed", [_tagged(value) for value in values]])
    document = [result.columns, len(result.rows), columns, result.truncated]
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)


def decoded(content: bytes) -> QueryResult:
    """Return the result that `encoded` wrote."""
    names, count, columns, truncated = json.loads(zlib.decompress(content))
    lists = [_values(kind, values) for kind, values in columns]
    rows = tuple(zip(*lists, strict=True)) if lists else ((),) * count
    return QueryResult(tuple(names), rows, truncated)


def _tagged(value: Any) -> Any:
    if type(value) in _PLAIN:
        return ["", value]
    name, write = _WRITERS[type(value)]
    return [name, write(value)]


def _values(kind: str, values: list[Any]) -> list[Any]:
    if not kind:
        return values
    if kind == "mixed":
        return [value if not name else _READERS[name](value) for name, value in values]
    read = _READERS[kind]
    return [None if value is None else read(value) for value in values]


_TEXT_WIDTH: Final = 32
_VALUE_WIDTH: Final = 8
_SPENT: Final = 0.999
"""The part of the bytes that may be read after which statements are refused without asking the database."""


def _width(column: Column) -> int:
    return _TEXT_WIDTH if column.type is SemanticType.STRING else _VALUE_WIDTH
