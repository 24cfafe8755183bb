"""What `ktx status` shows about connections and clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ktx_cli.core import KtxError, ResultWarning, listing, now
from ktx_cli.jobs.counts import Counts, counted_by_runs, counts_of
from ktx_cli.project import Database, StateDatabase, read_bytes, read_state
from ktx_cli.scan import LastScan, last_scans
from ktx_cli.sources import LastFetch, last_fetches

if TYPE_CHECKING:
    from ktx_cli.jobs.clients.listing import ClientState
    from ktx_cli.jobs.clients.targets import Where
    from ktx_cli.jobs.health.model import CheckContext, CheckResult
    from ktx_cli.jobs.serve.daemon import ServerStatus
    from ktx_cli.project import Layout


_SECRETS = {None: "ok", "skip": "unverified", "warn": "unresolved", "fail": "unresolved"}
_ACTIVE = ("accepted", "manual")
"""The statuses of an inferred join that is in effect."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One connection: its configuration and its context."""

    id: str
    driver: str
    is_database: bool
    counts: Counts
    last_scan: LastScan | None
    secrets: CheckResult | None = None
    """The problem with the connection's secret references; None if they resolve."""
    last_fetch: LastFetch | None = None
    """For a context source, or the query history of a database."""
    moment: datetime = field(default_factory=now)
    """The time at which these facts were collected."""
    disabled: bool = False
    """Whether the entry in ktx.yaml has an error, so that it is ignored."""
    is_unread: bool = False
    """Whether the state cannot be read, so that nobody knows when the connection was scanned or fetched last."""

    @property
    def kind(self) -> str:
        """`database`, `source` or `disabled`."""
        return "disabled" if self.disabled else "database" if self.is_database else "source"

    @property
    def is_unseen(self) -> bool:
        """Whether the state has neither a scan nor a fetch of it, as in a new clone; not before the first scan."""
        is_known = self.is_unread or self.disabled or self.last_scan is not None or self.last_fetch is not None
        return not is_known and (not self.is_database or self.counts.sources > 0)

    @property
    def joins(self) -> int | None:
        """The number of inferred joins in effect; None: no scan read rows."""
        counts = self.counts.relationships
        return None if counts is None else sum(counts.get(standing, 0) for standing in _ACTIVE)

    @property
    def to_review(self) -> int | None:
        """The number of inferred joins to review; None: no scan read rows."""
        counts = self.counts.relationships
        return None if counts is None else counts.get("review", 0)

    @property
    def age_seconds(self) -> int | None:
        """The time since a database was scanned or a source was fetched; None: never."""
        if not self.is_database:
            return self.fetch_age_seconds
        return None if self.last_scan is None else seconds_since(self.last_scan.finished, self.moment)

    @property
    def fetch_age_seconds(self) -> int | None:
        """The time since a source, or a database's query history, was fetched; None: never."""
        return None if self.last_fetch is None else seconds_since(self.last_fetch.finished, self.moment)

    def to_json(self) -> dict[str, Any]:
        """Return the connection for the JSON output."""
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
    """Return every connection by id with the state of its context, and the unreadable files; starts no program."""
    from ktx_cli.jobs.health.machine_checks import secrets_finding

    warnings: list[ResultWarning] = []
    is_unread = False
    try:
        scans, fetches = read_state(context.layout, _last, warnings.append) or ({}, {})
        is_unread = bool(warnings)
    except KtxError as error:
        scans, fetches, is_unread = {}, {}, True
        warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint, cause=error))
    disabled = context.loaded.config.disabled()
    kept, moment = counted_by_runs(context.layout), now()
    statuses = []
    for connection, entry in sorted(context.loaded.config.connections.items()):
        counts, problems = counts_of(context, connection, kept)
        warnings += problems
        statuses.append(
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
                is_unread=is_unread,
            )
        )
    return tuple(statuses), warnings


def seconds_since(moment: str, until: datetime) -> int | None:
    """Return the seconds since a time in ISO format, 0 for the future; None for an invalid time."""
    try:
        return max(0, round((until - datetime.fromisoformat(moment)).total_seconds()))
    except (ValueError, TypeError):
        return None


def _last(database: StateDatabase) -> tuple[Mapping[str, LastScan], Mapping[str, LastFetch]]:
    return last_scans(database), last_fetches(database)


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """The clients with this project, and the server; None if it was not started. `problems`: what could not be
    determined.
    """

    folder: str
    clients: tuple[ClientState, ...] = ()
    server: ServerStatus | None = None
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts for the JSON output."""
        return {
            "agents": [client.to_json() for client in self.clients],
            "mcp": {"status": "stopped"} if self.server is None else self.server.to_json(self.folder),
        }

    @property
    def agents_text(self) -> str:
        """The clients as one line."""
        clients = [f"{client.target} ({client.place}{_unlike_installed(client.state)})" for client in self.clients]
        return (
            listing([*clients, *self.problems], 8) if clients or self.problems else "not installed in any agent client"
        )

    @property
    def server_text(self) -> str:
        """The server as one line."""
        if self.server is None or self.server.state is None:
            return "stopped" if self.server is None else self.server.problem or self.server.status
        state = self.server.state
        problem = f", {self.server.problem}" if self.server.problem else ""
        return f"{self.server.status}: {state.url(self.folder)}, pid {state.pid}, since {state.since}{problem}"


def client_facts(layout: Layout, environ: Mapping[str, str]) -> ClientFacts:
    """Inspect the files of the clients and of the server; starts nothing."""
    from ktx_cli.jobs.clients.targets import Where

    clients: tuple[ClientState, ...] = ()
    problems: list[str] = []
    try:
        clients = _installed(layout, Where(layout.root, environ))
    except KtxError as error:
        problems.append(error.message)
    return ClientFacts(str(layout.root), clients, _server(layout, problems), tuple(problems))


def _installed(layout: Layout, where: Where) -> tuple[ClientState, ...]:
    if not layout.agents_manifest.exists() and not _is_named(where):
        return ()
    from ktx_cli.jobs.clients.listing import NOT_INSTALLED, list_clients

    return tuple(client for client in list_clients(where) if client.state != NOT_INSTALLED)


def _is_named(where: Where) -> bool:
    """Return whether a client's file contains the word ktx, without which it cannot start a server."""
    from ktx_cli.jobs.clients.targets import CLIENTS

    places = (place for client in CLIENTS.values() for place in client.places.values())
    files = {path for place in places for path in where.configs(place)}
    return any(b"ktx" in (read_bytes(path) or b"") for path in sorted(files))


def _server(layout: Layout, problems: list[str]) -> ServerStatus | None:
    if not layout.mcp_state.exists():
        return None
    from ktx_cli.jobs.serve.daemon import server_status

    try:
        return server_status(layout)
    except KtxError as error:
        problems.append(error.message)
        return None


def _unlike_installed(state: str) -> str:
    return "" if state == "installed" else f", {state}"
