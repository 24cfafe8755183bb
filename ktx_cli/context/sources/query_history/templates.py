"""Statements that differ only in what they look for, taken together: how often, by how many, how long."""

from __future__ import annotations

import functools
import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ktx_cli.context.sources.query_history import filters
from ktx_cli.context.sources.query_history.blanking import Redact, without_literals
from ktx_cli.context.sources.query_history.filters import Dropped, ServiceFilter
from ktx_cli.context.sources.query_history.model import Observation
from ktx_cli.context.sources.query_history.readings import Reading, Readings
from ktx_cli.context.sources.query_history.scope import HistoryScope
from ktx_cli.context.sources.query_history.statements import (
    Statement,
    UnreadableStatementError,
    read_statement,
)
from ktx_cli.context.sources.query_history.tables import NamedTable, Tables
from ktx_cli.project.config.query_history import QueryHistory

_REPEATED: Final = re.compile(r"(?:\s*,\s*(?:'x'|\d+))+")
_SAME: Final = re.compile(r"\s+|\bas\b|\d+", re.IGNORECASE)


@dataclass(slots=True, eq=False)
class Template:
    """A statement and all its executions. `slow_ms`: the highest of what was said; `marks`: why it stands apart."""

    statement: Statement
    executions: int = 0
    failed: int = 0
    users: dict[str | None, int] = field(default_factory=dict)
    slow_ms: float | None = None
    last_seen: datetime | None = None
    marks: set[str] = field(default_factory=set)

    @property
    def known_users(self) -> set[str]:
        """Who sent it, as far as that is known."""
        return {user for user in self.users if user is not None}

    def add(self, seen: Observation) -> None:
        """Count an observation."""
        self.executions += seen.executions
        self.failed += seen.failed
        self.users[seen.user] = self.users.get(seen.user, 0) + seen.executions
        self.slow_ms = max(filter(None, (self.slow_ms, seen.slow_ms, seen.mean_ms)), default=None)
        self.last_seen = max(filter(None, (self.last_seen, seen.last_seen)), default=None)


@dataclass(slots=True)
class Gathered:
    """The templates that count, by id; `unread`: id of a text -> why it could not be read."""

    templates: dict[str, Template] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    dropped: Dropped = field(default_factory=Dropped)


@dataclass(frozen=True, slots=True)
class Gathering:
    """What decides which statements count. `where`: the settings' place in `ktx.yaml`.

    `readings`: what is known of statements from earlier runs.
    """

    dialect: str
    tables: Tables
    scope: HistoryScope
    settings: QueryHistory
    redact: Redact
    where: str
    readings: Readings = field(default_factory=Readings)

    def gather(self, observations: Iterable[Observation]) -> Gathered:
        """Read every statement, take together those that are the same, and leave out what does not count."""
        found = Gathered()
        asked = self._asked(observations, found)
        totals: Counter[str] = Counter()
        for seen, reading in asked:
            totals[reading.loose] += seen.executions
        read: dict[str, Statement | None] = {}
        for seen, reading in asked:
            # Most statements of a history are rare, and reading one takes a parser milliseconds.
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

    def _asked(self, observations: Iterable[Observation], found: Gathered) -> list[tuple[Observation, Reading]]:
        """Return the queries, each with what is known of its text without a parser."""
        asked = []
        for seen in observations:
            reason = filters.noise(seen)
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
            plain = without_literals(text, self.dialect)
        except SqlglotError:
            return Reading(None)
        hash_of, sender = self.readings.hash_of, filters.orchestrator_of(text, self.dialect)
        return Reading(hash_of(plain), hash_of(_loose(plain)), sender)

    def _statement(self, name: str, text: str, found: Gathered) -> Statement | None:
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

    def _count(self, seen: Observation, sender: str | None, statement: Statement, found: Gathered) -> None:
        reason = self._reason(statement)
        if reason is not None:
            found.dropped.add(reason)
            return
        template = found.templates.setdefault(statement.id, Template(statement))
        template.add(seen)
        template.marks.add(sender or "")

    def _reason(self, statement: Statement) -> str | None:
        if statement.system:
            return "on system tables"
        if statement.trivial and (self.settings.filters.drop_trivial_probes or not statement.tables):
            return "asks for nothing"
        return None if any(table in self.scope for table in statement.tables) else "out of scope"

    def _sift(self, found: Gathered) -> None:
        """Leave out what is rare, fails, or comes from service accounts and orchestrators alone; mark the rest."""
        services = ServiceFilter(self.settings.filters, self.where)
        for identity, template in list(found.templates.items()):
            is_service = services.covers(template.users, template.executions)
            # What a person sends too is a person's question.
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
        if filters.mostly_fails(template.failed, template.executions, self.settings.filters):
            return "mostly fails"
        if service_mode == "exclude":
            return "sent by service accounts alone"
        if orchestrated and self.settings.filters.orchestrators.mode == "exclude":
            return "sent by orchestrators alone"
        return None


def in_scope(statement: Statement, scope: HistoryScope) -> tuple[NamedTable, ...]:
    """Return the tables of a statement whose queries count."""
    return tuple(table for table in statement.tables if table in scope)


def _loose(text: str) -> str:
    """Return what statements that may turn out to be the same have in common: no numbers, lists, blanks, capitals."""
    return _SAME.sub("", _REPEATED.sub("", text)).casefold()


def _name_of(text: str) -> str:
    """Return a name for a statement that cannot be shown: its length and its hash."""
    return f"{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]} ({len(text):,} characters)"
