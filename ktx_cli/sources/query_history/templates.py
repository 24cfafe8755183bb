"""Group statements into templates, except those sent by ktx, orchestrators and services."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import file_stem
from ktx_cli.project import HistoryFilters, QueryHistory, read_bytes, write_atomic
from ktx_cli.sources.query_history.literals import Blank, Shape, Use, marked, texts_of, unmarked
from ktx_cli.sources.query_history.model import HistoryScope, Observation, executions_rank
from ktx_cli.sources.query_history.statements import (
    ObservedJoin,
    Statement,
    UnreadableStatementError,
    comments,
    compiled,
    read_statement,
)
from ktx_cli.sources.query_history.tables import NamedTable, Redact, Tables
from ktx_cli.warehouses import TAG, leading_keyword

QUERIES: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})
"""The words that a query can begin with. Other statements (SHOW, SET, EXPLAIN, INSERT) are not questions."""

_ORCHESTRATORS: Final[Mapping[str, re.Pattern[str]]] = {
    "dbt": re.compile(r'"app"\s*:\s*"dbt"'),
    "Airflow": re.compile(r"\bairflow\b|\bdag_id\b", re.IGNORECASE),
    "Dagster": re.compile(r"\bdagster\b", re.IGNORECASE),
    "Looker": re.compile(r"\bLooker Query Context\b|\bBuilding persistent derived table\b"),
    "Metabase": re.compile(r"\bMetabase::"),
    "Hex": re.compile(r"\bHex query metadata\b"),
}
"""The text that orchestrators write into a comment in each of their statements."""


@dataclass(slots=True)
class Dropped:
    """The number of ignored statements, by reason."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str, count: int = 1) -> None:
        """Add to the count for a reason."""
        self.counts[reason] = self.counts.get(reason, 0) + count


def is_query(text: str) -> bool:
    """Return whether a statement is a query."""
    return leading_keyword(_without_line_comments(text))[0] in QUERIES


def is_own(text: str) -> bool:
    """Return whether ktx sent a statement, based on its marker."""
    return text.lstrip().startswith(TAG)


def orchestrator_of(text: str, dialect: str) -> str | None:
    """Return the program that sent a statement, based on its comment, or None."""
    from sqlglot.errors import SqlglotError

    if "--" not in text and "/*" not in text and "#" not in text:
        return None
    try:
        comment = comments(text, dialect)
    except SqlglotError:
        return None
    return next((name for name, mark in _ORCHESTRATORS.items() if mark.search(comment)), None)


class ServiceFilter:
    """Recognizes statements that only service accounts send."""

    def __init__(self, filters: HistoryFilters, where: str) -> None:
        self.mode = filters.service_accounts.mode
        self._patterns = compiled(filters.service_accounts.patterns, f"{where}.filters.serviceAccounts.patterns")

    def covers(self, users: Mapping[str | None, int], executions: int) -> bool:
        """Return whether matching users sent all executions. An unknown user does not match."""
        if not self._patterns or executions <= 0:
            return False
        return sum(count for user, count in users.items() if user is not None and self._matches(user)) >= executions

    def _matches(self, user: str) -> bool:
        return any(pattern.search(user) for pattern in self._patterns)


def mostly_fails(failed: int, executions: int, filters: HistoryFilters) -> bool:
    """Return whether a statement is ignored because it always fails, or fails at the rate in the settings."""
    rate = failed / executions if executions else 0.0
    if rate >= 1:
        return True
    share, least = filters.drop_failed_below.error_rate, filters.drop_failed_below.executions
    return share is not None and failed > 0 and rate >= share and executions >= (least or 0)


def noise(observation: Observation) -> str | None:
    """Return why a statement is ignored before it is parsed, or None if it is not ignored."""
    if is_own(observation.text):
        return "sent by ktx"
    return None if is_query(observation.text) else "not a query"


def _without_line_comments(text: str) -> str:
    """Return a text without leading `#` and `--` lines, which servers interpret differently."""
    lines = text.lstrip().splitlines()
    while lines and lines[0].lstrip().startswith(("--", "#")):
        lines.pop(0)
    return "\n".join(lines)


FORMAT: Final = 2
"""Increase this number when the parsing of a statement changes."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The facts about a text that need no parser. `text`: its hash without strings, or None if a string is
    unterminated.

    `loose`: the hash of the common form of texts that may be equal. `sender`: the program that sent it.
    """

    text: str | None
    loose: str = ""
    sender: str | None = None


@dataclass(slots=True)
class Readings:
    """The parsed statements of one history. `key` computes the hashes. Only facts used since loading are stored.

    `basis`: everything other than the text that affects parsing. Statements with another basis are not used.
    """

    basis: str = ""
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _old: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    _texts: dict[str, list[Any]] = field(default_factory=dict, repr=False)
    _statements: dict[str, Any] = field(default_factory=dict, repr=False)
    _cuts: dict[str, list[int]] = field(default_factory=dict, repr=False)
    _tables: Tables | None = None

    @classmethod
    def load(cls, folder: Path, connection: str, basis: str, tables: Tables) -> Readings:
        """Return the stored facts for a connection's history, or nothing if damaged or on a different basis."""
        content = read_bytes(_place(folder, connection))
        try:
            stored = json.loads(content or b"{}")
            if stored["basis"] == basis:
                old = {name: dict(stored[name]) for name in ("texts", "statements", "cuts")}
                return cls(basis, bytes.fromhex(stored["key"]), old, _tables=tables)
        except (ValueError, KeyError, TypeError, AttributeError):
            pass  # It is recreated.
        return cls(basis, _tables=tables)

    def save(self, folder: Path, connection: str) -> None:
        """Store the facts that were used if they differ from the stored ones. Raises `StorageError`."""
        found = {"texts": self._texts, "statements": self._statements, "cuts": self._cuts}
        if self._old == found:
            return
        document = {"basis": self.basis, "key": self.key.hex(), **found}
        place = _place(folder, connection)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(place, json.dumps(document, separators=(",", ":")).encode("utf-8", "surrogatepass"), mode=0o600)

    def hash_of(self, text: str) -> str:
        """Return a text's key."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self.key, digest_size=16).hexdigest()

    def reading(self, text: str, read: Callable[[str], Reading]) -> Reading:
        """Return the stored facts about a text; `read` computes them if they are missing."""
        name = self.hash_of(text)
        kept = self._texts.get(name) or self._old.get("texts", {}).get(name)
        if kept is None:
            made = read(text)
            kept = [made.text, made.loose, made.sender]
        self._texts[name] = kept
        return Reading(*kept)

    def statement(self, name: str, read: Callable[[], Statement | str]) -> Statement | str:
        """Return the parsed statement for a text by its hash, or why it cannot be parsed; `read` computes it."""
        kept = self._statements.get(name) or self._old.get("statements", {}).get(name)
        if kept is not None:
            self._statements[name] = kept
            return kept if isinstance(kept, str) else _statement(kept, self._table)
        found = read()
        self._statements[name] = found if isinstance(found, str) else _plain(found)
        return found

    def cuts(self, text: str, find: Callable[[], list[int]]) -> list[int]:
        """Return the positions that split a text into statements; `find` computes them if they are unknown."""
        name = self.hash_of(text)
        kept = self._old.get("cuts", {}).get(name)
        self._cuts[name] = find() if kept is None else kept
        return self._cuts[name]

    def _table(self, display: str, parts: Iterable[str], source: str | None) -> NamedTable:
        made = NamedTable(display, tuple(parts), source)
        return made if self._tables is None else self._tables.same(made)


def basis_of(dialect: str, redactions: Iterable[str], tables: Tables) -> str:
    """Return a digest of everything but the text that affects how a statement is parsed.

    Only numeric column values are included; texts are compared each time.
    """
    import importlib.metadata

    known = [
        [
            table.display,
            table.parts,
            table.source,
            sorted(table.columns.items()),
            sorted(table.types.items()),
            [
                [column, numbers]
                for column, values in sorted(table.values.items())
                if (numbers := sorted(value for value in values if value.isdecimal()))
            ],
        ]
        for table in tables.known
    ]
    parts = [FORMAT, importlib.metadata.version("sqlglot"), dialect, [*redactions], known]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _place(folder: Path, connection: str) -> Path:
    return folder / "query-history" / f"{file_stem(connection)}.json"


def _plain(statement: Statement) -> dict[str, Any]:
    """Return a statement as JSON, with tables by their index in a list."""
    numbers: dict[NamedTable, int] = {table: number for number, table in enumerate(statement.tables)}

    def of(table: NamedTable) -> int:
        return numbers.setdefault(table, len(numbers))

    found: dict[str, Any] = {
        "id": statement.id,
        "sql": statement.sql,
        "count": len(statement.tables),
        "columns": [[of(table), clause, column] for table, clause, column in _by_table(statement.columns)],
        "joins": [[of(join.left), of(join.right), [list(pair) for pair in join.pairs]] for join in statement.joins],
        "filters": _shapes(statement.filters, of),
        "groupings": _shapes(statement.groupings, of),
        "trivial": statement.trivial,
        "system": statement.system,
        "shape": _plain_shape(statement.shape, of),
    }
    return found | {"tables": [[table.display, list(table.parts), table.source] for table in numbers]}


def _by_table(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=lambda item: (item[0].display, *item[1:]))


def _shapes(items: Iterable[tuple[NamedTable, Shape]], of: Callable[[NamedTable], int]) -> list[Any]:
    ordered = sorted(items, key=lambda item: (item[0].display, repr(item[1])))
    return [[of(table), _plain_shape(shape, of)] for table, shape in ordered]


def _plain_shape(shape: Shape, of: Callable[[NamedTable], int]) -> list[Any]:
    """Return a statement's text as JSON: a list for each place with literals."""
    return [
        part
        if isinstance(part, str)
        else [
            part.use.value,
            list(part.marks),
            list(part.fixed),
            part.hides,
            part.stand_in,
            None if part.table is None else of(part.table),
            part.column,
            part.folds,
        ]
        for part in shape.parts
    ]


def _shape(kept: Iterable[Any], tables: Sequence[NamedTable]) -> Shape:
    return Shape(tuple(part if isinstance(part, str) else _blank(*part, tables=tables) for part in kept))


def _blank(
    use: str,
    marks: Iterable[int],
    fixed: Iterable[str],
    hides: bool,
    stand_in: str,
    table: int | None,
    column: str,
    folds: bool,
    *,
    tables: Sequence[NamedTable],
) -> Blank:
    owner = None if table is None else tables[table]
    return Blank(Use(use), tuple(marks), tuple(fixed), hides, stand_in, owner, column, folds)


def _statement(kept: Mapping[str, Any], table: Callable[[str, Iterable[str], str | None], NamedTable]) -> Statement:
    tables = [table(*each) for each in kept["tables"]]
    return Statement(
        kept["id"],
        kept["sql"],
        tuple(tables[: kept["count"]]),
        frozenset((tables[number], clause, column) for number, clause, column in kept["columns"]),
        tuple(
            ObservedJoin(tables[left], tables[right], tuple((own, other) for own, other in pairs))
            for left, right, pairs in kept["joins"]
        ),
        frozenset((tables[number], _shape(parts, tables)) for number, parts in kept["filters"]),
        frozenset((tables[number], _shape(parts, tables)) for number, parts in kept["groupings"]),
        kept["trivial"],
        kept["system"],
        _shape(kept["shape"], tables),
    )


_REPEATED: Final = re.compile(r"(?:\s*,\s*(?:'x'|\d+))+")
_SAME: Final = re.compile(r"\s+|\bas\b|\d+", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Template:
    """A statement and all its executions. `slow_ms`: the highest reported value. `marks`: why it is kept separate.

    `texts`: its text in a form that a database accepts -> executions; texts differ in the literals that are kept.
    `filters`, `groupings`: (table, text) -> executions. `values`: (column, kept value) -> executions.
    """

    statement: Statement
    executions: int = 0
    failed: int = 0
    users: dict[str | None, int] = field(default_factory=dict)
    slow_ms: float | None = None
    last_seen: datetime | None = None
    marks: set[str] = field(default_factory=set)
    texts: Counter[str] = field(default_factory=Counter)
    filters: Counter[tuple[NamedTable, str]] = field(default_factory=Counter)
    groupings: Counter[tuple[NamedTable, str]] = field(default_factory=Counter)
    values: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def known_users(self) -> set[str]:
        """The users who sent the statement, as far as known."""
        return {user for user in self.users if user is not None}

    def add(self, seen: Observation) -> None:
        """Count one observation."""
        self.executions += seen.executions
        self.failed += seen.failed
        self.users[seen.user] = self.users.get(seen.user, 0) + seen.executions
        self.slow_ms = max(filter(None, (self.slow_ms, seen.slow_ms, seen.mean_ms)), default=None)
        self.last_seen = max(filter(None, (self.last_seen, seen.last_seen)), default=None)

    def add_texts(
        self, statement: Statement, texts: Sequence[str | None], executions: int, rules: TemplateRules
    ) -> None:
        """Count the parts of an observation that its structure lacks because they contain kept literals."""
        redact, dialect = rules.redact, rules.dialect
        self.texts[redact(statement.shape.runnable(texts, dialect))] += executions
        for table, shape in statement.filters:
            self.filters[table, redact(shape.shown(texts, dialect))] += executions
        for table, shape in statement.groupings:
            self.groupings[table, redact(shape.shown(texts, dialect))] += executions
        for blank in statement.shape.blanks:
            if blank.use is Use.VALUE and blank.table is not None:
                for value in blank.kept(texts):
                    self.values[redact(f"{blank.table.display}.{blank.column}"), redact(value)] += executions

    @property
    def text(self) -> str:
        """The most frequent text; within a bucket, the first by name, so that small changes have no effect."""
        return min(self.texts, key=lambda text: (-executions_rank(self.texts[text]), text))


@dataclass(slots=True)
class TemplateSet:
    """The qualifying templates, by ID. `unread`: text ID -> why the text could not be parsed."""

    templates: dict[str, Template] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    dropped: Dropped = field(default_factory=Dropped)


@dataclass(frozen=True, slots=True)
class TemplateRules:
    """The criteria that decide which statements qualify. `where`: the location of the settings in `ktx.yaml`.

    `readings`: parsed statements of earlier runs.
    """

    dialect: str
    tables: Tables
    scope: HistoryScope
    settings: QueryHistory
    redact: Redact
    where: str
    readings: Readings = field(default_factory=Readings)

    def select(self, observations: Iterable[Observation]) -> TemplateSet:
        """Parse every statement, combine equal ones, and drop those that do not qualify."""
        found = TemplateSet()
        asked = self._asked(observations, found)
        totals: Counter[str] = Counter()
        for seen, reading in asked:
            totals[reading.loose] += seen.executions
        read: dict[str, Statement | None] = {}
        for seen, reading in asked:
            # Most statements of a history are infrequent, and parsing one takes milliseconds.
            if totals[reading.loose] < self.settings.min_executions:
                found.dropped.add("rare")
                continue
            name = reading.text or ""
            if name not in read:
                read[name] = self._statement(name, seen.text, found)
            statement = read[name]
            if statement is not None:
                self._count(seen, reading.sender, statement, found)
        self._sift(found)
        return found

    def _asked(self, observations: Iterable[Observation], found: TemplateSet) -> list[tuple[Observation, Reading]]:
        """Return the queries, each with the facts about its text that need no parser."""
        asked = []
        for seen in observations:
            reason = noise(seen)
            if reason is not None:
                found.dropped.add(reason)
                continue
            reading = self.readings.reading(seen.text, self._looked_at)
            if reading.text is None:
                found.unread[_name_of(seen.text)] = "it cannot be parsed"
            else:
                asked.append((seen, reading))
        return asked

    def _looked_at(self, text: str) -> Reading:
        from sqlglot.errors import SqlglotError

        try:
            plain = marked(text, self.dialect)
        except SqlglotError:
            return Reading(None)
        hash_of, sender = self.readings.hash_of, orchestrator_of(text, self.dialect)
        return Reading(hash_of(plain), hash_of(_loose(unmarked(plain))), sender)

    def _statement(self, name: str, text: str, found: TemplateSet) -> Statement | None:
        statement = self.readings.statement(name, functools.partial(self._read, text))
        if isinstance(statement, str):
            found.unread[_name_of(text)] = statement
            return None
        return statement

    def _read(self, text: str) -> Statement | str:
        try:
            return read_statement(text, self.dialect, self.tables, self.redact)
        except UnreadableStatementError as error:
            return str(error)

    def _count(self, seen: Observation, sender: str | None, statement: Statement, found: TemplateSet) -> None:
        reason = self._reason(statement)
        if reason is not None:
            found.dropped.add(reason)
            return
        template = found.templates.setdefault(statement.id, Template(statement))
        template.add(seen)
        has_texts = any(blank.marks for blank in statement.shape.blanks)
        template.add_texts(statement, texts_of(seen.text, self.dialect) if has_texts else (), seen.executions, self)
        template.marks.add(sender or "")

    def _reason(self, statement: Statement) -> str | None:
        if statement.system:
            return "on system tables"
        if statement.trivial and (self.settings.filters.drop_trivial_probes or not statement.tables):
            return "requests no data"
        return None if any(table in self.scope for table in statement.tables) else "out of scope"

    def _sift(self, found: TemplateSet) -> None:
        """Drop statements that are rare, fail, or come only from service accounts and orchestrators; mark others."""
        services = ServiceFilter(self.settings.filters, self.where)
        for identity, template in list(found.templates.items()):
            is_service = services.covers(template.users, template.executions)
            # A statement that a person also sends is a person's question.
            senders = set() if "" in template.marks else template.marks
            reason = self._left_out(template, services.mode if is_service else "include", bool(senders))
            if reason is not None:
                found.dropped.add(reason)
                del found.templates[identity]
                continue
            marks = {"service account"} if is_service and services.mode == "mark-only" else set()
            marked = senders if self.settings.filters.orchestrators.mode == "mark-only" else set()
            template.marks = marks | marked

    def _left_out(self, template: Template, service_mode: str, orchestrated: bool) -> str | None:
        if template.executions < self.settings.min_executions:
            return "rare"
        if mostly_fails(template.failed, template.executions, self.settings.filters):
            return "mostly fails"
        if service_mode == "exclude":
            return "sent only by service accounts"
        if orchestrated and self.settings.filters.orchestrators.mode == "exclude":
            return "sent only by orchestrators"
        return None


def in_scope(statement: Statement, scope: HistoryScope) -> tuple[NamedTable, ...]:
    """Return the tables in a statement for which queries qualify."""
    return tuple(table for table in statement.tables if table in scope)


def _loose(text: str) -> str:
    """Return the common form of statements that may be equal: without numbers, lists, blanks and capitals."""
    return _SAME.sub("", _REPEATED.sub("", text)).casefold()


def _name_of(text: str) -> str:
    """Return a name for a statement that cannot be shown, from its length and hash."""
    return f"{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]} ({len(text):,} characters)"
