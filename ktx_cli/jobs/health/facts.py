"""The facts of `ktx status` about connections and clients; context is counted from files, or as a run counted them.

A run keeps the counts in `.ktx/cache`, with the sizes and times of the files they came from: to count a warehouse of
thousands of tables takes longer than `ktx status` may. What was edited since is counted again, and never written here.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, Record, ResultWarning, listing, now
from ktx_cli.project import (
    DATABASE_SOURCE,
    Database,
    WorkingTree,
    hash_of,
    read_bytes,
    read_state,
    signatures_below,
    write_atomic,
)
from ktx_cli.scan import LastScan, last_scans
from ktx_cli.semantic import SUFFIXES, Manifest, load_manifest, quoted
from ktx_cli.sources import LastFetch, last_fetches

if TYPE_CHECKING:
    from ktx_cli.jobs.clients.listing import ClientState
    from ktx_cli.jobs.clients.targets import Where
    from ktx_cli.jobs.health.model import CheckContext, CheckResult
    from ktx_cli.jobs.serve.daemon import ServerStatus
    from ktx_cli.project import KtxConfig, Layout


FORMAT: Final = 1

Edge = frozenset[frozenset[str]]
"""Of a join the columns it equates."""


@dataclass(frozen=True, slots=True)
class Counts(Record):
    """The contents of the files of one connection, counted.

    `sources`: the tables a scan found; `own_sources`: those people wrote; `columns` and `measures`: of both. `joins`:
    each once, from whichever of its two sources it is written. `relationships`: found joins by what holds for them,
    None where no scan looked at the rows.
    """

    sources: int = 0
    columns: int = 0
    own_sources: int = 0
    measures: int = 0
    joins: int = 0
    relationships: Mapping[str, int] | None = None


def counted_by_runs(layout: Layout) -> dict[str, tuple[str, Counts]]:
    """Return connection -> signature of its files and what the last run counted in them; disposable."""
    try:
        stored = json.loads(read_bytes(_path(layout)) or b"{}")
        kept = stored["connections"].items() if stored.get("format") == FORMAT else ()
        return {name: (counted["signature"], Counts(**counted["counts"])) for name, counted in kept}
    except (ValueError, TypeError, KeyError, AttributeError, KtxError):
        return {}


def counts_of(
    context: CheckContext, connection: str, kept: Mapping[str, tuple[str, Counts]]
) -> tuple[Counts, list[ResultWarning]]:
    """Return what is in the files of a connection, and what of them could not be read."""
    known = kept.get(connection)
    if known is not None and known[0] == _signature(context.layout, connection):
        return known[1], []
    return _counted(context.layout, connection, context.manifests[connection])


def keep_counts(layout: Layout, config: KtxConfig) -> None:
    """Count what changed since the last run, and keep it; for runs only, which hold the run lock."""
    kept = counted_by_runs(layout)
    wanted: dict[str, tuple[str, Counts]] = {}
    for connection in config.connections:
        signature = _signature(layout, connection)
        known = kept.get(connection)
        if known is not None and known[0] == signature:
            wanted[connection] = known
            continue
        counts, problems = _counted(layout, connection, load_manifest(layout, connection))
        if not problems:
            wanted[connection] = (signature, counts)
    if wanted != kept:
        stored = {
            name: {"signature": signature, "counts": counts.to_json()} for name, (signature, counts) in wanted.items()
        }
        write_atomic(_path(layout), json.dumps({"format": FORMAT, "connections": stored}).encode())


def _path(layout: Layout) -> Path:
    return layout.cache / "counts.json"


def _signature(layout: Layout, connection: str) -> str:
    """Return what tells one state of a connection's files from another: the manifest of raw tables names them all."""
    folder, _ = layout.context_paths(connection)
    signatures = signatures_below(layout.root, folder, SUFFIXES)
    raw = layout.raw_path(connection, DATABASE_SOURCE)
    try:
        with os.scandir(layout.root / raw) as entries:
            for entry in entries:
                if entry.is_file():
                    stat = entry.stat()
                    signatures[f"{raw}/{entry.name}"] = f"{stat.st_size} {stat.st_mtime_ns}"
    except OSError:
        pass
    return hash_of(f"{path} {signatures[path]}" for path in sorted(signatures))


def _counted(layout: Layout, connection: str, manifest: Manifest) -> tuple[Counts, list[ResultWarning]]:
    """Return the counts and the problems, of which those of the manifest are named first."""
    from ktx_cli.jobs.review import join_status_counts
    from ktx_cli.scan import AuthoredSources

    authored = AuthoredSources.read(WorkingTree(layout.root), connection)
    problems = [*manifest.problems, *authored.warnings]
    relationships = None if manifest.problems else join_status_counts(layout, connection, problems.append)
    files = [file for files in authored.files.values() for file in files]
    entries = [*manifest.tables.items(), *((str(file.document["name"]), file.document) for file in files)]
    disabled = {_edge(on, source) for source, files in authored.files.items() for file in files for on in file.disabled}
    counts = Counts(
        sources=len(manifest.tables),
        columns=len({(source, name) for source, fields in entries for name in _names(fields, "columns")}),
        own_sources=sum(not file.is_overlay for file in files),
        measures=len({(source, name) for source, fields in entries for name in _names(fields, "measures")}),
        joins=len(set(_joins(entries)) - disabled),
        relationships=relationships,
    )
    return counts, problems


def _joins(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[Edge]:
    for source, entry in entries:
        for join in _listed(entry, "joins"):
            if isinstance(join, dict):
                yield _edge(str(join.get("on")), source)


def _edge(on: str, source: str) -> Edge:
    """Return the columns a join of a source equates: the same for the join as the other source has it."""
    return frozenset(frozenset(_full(side, source) for side in pair.split("=")) for pair in on.split(" and "))


def _full(side: str, source: str) -> str:
    name = side.strip()
    return name if "." in name else f"{quoted(source)}.{name}"


def _names(entry: Mapping[str, Any], key: str) -> Iterator[str]:
    return (str(item.get("name")) for item in _listed(entry, key) if isinstance(item, dict))


def _listed(entry: Mapping[str, Any], key: str) -> list[Any]:
    items = entry.get(key)
    return items if isinstance(items, list) else []


_SECRETS = {None: "ok", "skip": "unverified", "warn": "unresolved", "fail": "unresolved"}
_ACTIVE = ("accepted", "manual")
"""The statuses of an inferred join that is in effect."""


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One connection: what is configured and what is built of it."""

    id: str
    driver: str
    is_database: bool
    counts: Counts
    last_scan: LastScan | None
    secrets: CheckResult | None = None
    """The problem with its secret references; None: they resolve."""
    last_fetch: LastFetch | None = None
    """Of a context source, or of a database's query history."""
    moment: datetime = field(default_factory=now)
    """The time of these facts."""
    disabled: bool = False
    """Whether ktx.yaml has something wrong about it, so that nothing reads it."""

    @property
    def kind(self) -> str:
        """`database`, `source` or `disabled`."""
        return "disabled" if self.disabled else "database" if self.is_database else "source"

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
    from ktx_cli.jobs.health.machine_checks import secrets_finding

    warnings: list[ResultWarning] = []
    try:
        scans, fetches = read_state(context.layout, _last) or ({}, {})
    except KtxError as error:
        scans, fetches = {}, {}
        warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
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
            )
        )
    return tuple(statuses), warnings


def seconds_since(moment: str, until: datetime) -> int | None:
    """Return the seconds since a moment in ISO form, 0 for one to come; None for what is no moment."""
    try:
        return max(0, round((until - datetime.fromisoformat(moment)).total_seconds()))
    except (ValueError, TypeError):
        return None


def _last(database: sqlite3.Connection) -> tuple[Mapping[str, LastScan], Mapping[str, LastFetch]]:
    return last_scans(database), last_fetches(database)


@dataclass(frozen=True, slots=True)
class ClientFacts:
    """The clients that know this project, and the server; None: it was not started. `problems`: what cannot be told."""

    folder: str
    clients: tuple[ClientState, ...] = ()
    server: ServerStatus | None = None
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {
            "agents": [client.to_json() for client in self.clients],
            "mcp": {"status": "stopped"} if self.server is None else self.server.to_json(self.folder),
        }

    @property
    def agents_text(self) -> str:
        """The clients in one line."""
        clients = [f"{client.target} ({client.scope}{_unlike_installed(client.state)})" for client in self.clients]
        return listing([*clients, *self.problems], 8) if clients or self.problems else "in none"

    @property
    def server_text(self) -> str:
        """The server in one line."""
        if self.server is None or self.server.state is None:
            return "stopped" if self.server is None else self.server.problem or self.server.status
        state = self.server.state
        problem = f", {self.server.problem}" if self.server.problem else ""
        return f"{self.server.status}: {state.url(self.folder)}, pid {state.pid}, since {state.since}{problem}"


def client_facts(layout: Layout, environ: Mapping[str, str]) -> ClientFacts:
    """Look at the files of the clients and of the server; nothing is started."""
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
    """Say whether a file of a client has the word ktx, without which none can start its server."""
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
