"""The connections as `ktx status` and `ktx connection list` show them: what is configured and what is built of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ktx_cli.core.clock import now
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.jobs.ingest.ledger import LastFetch, LastScan, last_fetches, last_scans
from ktx_cli.jobs.readiness.checks.secrets import secrets_finding
from ktx_cli.jobs.readiness.facts.counting import Counts, counted_by_runs, counts_of
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.project.config import Database
from ktx_cli.project.state import read_state

_SECRETS = {None: "ok", Level.SKIP: "unverified", Level.WARN: "unresolved", Level.FAIL: "unresolved"}
_STANDING = ("accepted", "manual")
"""What holds for a found join that stands."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One connection: what is configured and what is built of it."""

    id: str
    driver: str
    is_database: bool
    counts: Counts
    last_scan: LastScan | None
    secrets: Finding | None = None
    """What is wrong with its secret references; None: they resolve."""
    last_fetch: LastFetch | None = None
    """Of a context source, or of a database's query history."""
    moment: datetime = field(default_factory=now)
    """When this was asked."""
    disabled: bool = False
    """Whether ktx.yaml has something wrong about it, so that nothing reads it."""

    @property
    def kind(self) -> str:
        """`database`, `source` or `disabled`."""
        return "disabled" if self.disabled else "database" if self.is_database else "source"

    @property
    def joins(self) -> int | None:
        """How many found joins stand; None: no scan looked at the rows."""
        found = self.counts.relationships
        return None if found is None else sum(found.get(each, 0) for each in _STANDING)

    @property
    def to_review(self) -> int | None:
        """How many found joins wait for a person; None: no scan looked at the rows."""
        found = self.counts.relationships
        return None if found is None else found.get("review", 0)

    @property
    def age_seconds(self) -> int | None:
        """How long ago a database was scanned last, or a source fetched; None: never."""
        if not self.is_database:
            return self.fetch_age_seconds
        return None if self.last_scan is None else seconds_since(self.last_scan.finished, self.moment)

    @property
    def fetch_age_seconds(self) -> int | None:
        """How long ago a source, or a database's query history, was fetched; None: never."""
        return None if self.last_fetch is None else seconds_since(self.last_fetch.finished, self.moment)

    def to_json(self) -> dict[str, Any]:
        """Return the connection as it stands in the envelope."""
        return {
            "id": self.id,
            "driver": self.driver,
            "kind": self.kind,
            **self.counts.to_json(),
            "last_scan": None if self.last_scan is None else self.last_scan.finished,
            "last_fetch": None if self.last_fetch is None else self.last_fetch.to_json(),
            "age_seconds": self.age_seconds,
            "secrets": _SECRETS[None if self.secrets is None else self.secrets.level],
        }


def connection_statuses(context: CheckContext) -> tuple[tuple[ConnectionStatus, ...], list[ResultWarning]]:
    """Return every connection by id with what is built of it, and what could not be read; starts no program."""
    warnings: list[ResultWarning] = []
    try:
        scans, fetches = read_state(context.layout, _last) or ({}, {})
    except KtxError as error:
        scans, fetches = {}, {}
        warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
    disabled = context.loaded.config.disabled()
    kept, moment = counted_by_runs(context.layout), now()
    found = []
    for connection, entry in sorted(context.loaded.config.connections.items()):
        counts, problems = counts_of(context, connection, kept)
        warnings += problems
        found.append(
            ConnectionStatus(
                connection,
                entry.driver,
                isinstance(entry, Database),
                counts,
                scans.get(connection),
                None if connection in disabled else secrets_finding(context, connection, entry),
                fetches.get(connection),
                moment,
                disabled=connection in disabled,
            )
        )
    return tuple(found), warnings


def seconds_since(moment: str, until: datetime) -> int | None:
    """Return the seconds since a moment in ISO form, 0 for one to come; None for what is no moment."""
    try:
        return max(0, round((until - datetime.fromisoformat(moment)).total_seconds()))
    except (ValueError, TypeError):
        return None


def _last(database: sqlite3.Connection) -> tuple[Mapping[str, LastScan], Mapping[str, LastFetch]]:
    return last_scans(database), last_fetches(database)
