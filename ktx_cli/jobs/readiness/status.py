"""The facts `ktx status` shows: no database is opened, nothing is written, git only reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ktx_cli.context.scan.catalog import ParsedCopies
from ktx_cli.context.scan.review import Standing, counted, read_review
from ktx_cli.core.errors import KtxError, NotReadyError, ResultWarning
from ktx_cli.jobs.ingest.ledger import LastFetch, LastScan, last_fetches, last_runs, last_scans
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.readiness.profiles import check_profiles
from ktx_cli.jobs.readiness.project import check_lease, check_repository
from ktx_cli.jobs.readiness.registry import READINESS, named, run_checks
from ktx_cli.jobs.readiness.secrets import secrets_finding
from ktx_cli.jobs.relationships import WorkingFiles
from ktx_cli.project.config import Database, load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state

_SECRETS = {None: "ok", Level.SKIP: "unverified", Level.WARN: "unresolved", Level.FAIL: "unresolved"}


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One connection: what is configured and what is built of it."""

    id: str
    driver: str
    is_database: bool
    sources: int
    columns: int
    last_scan: LastScan | None
    secrets: Finding | None = None
    """What is wrong with its secret references; None: they resolve."""
    relationships: Mapping[str, int] | None = None
    """How many found joins there are by what holds for them; None: no scan looked at the rows."""
    last_fetch: LastFetch | None = None
    """Of a context source, or of a database's query history."""

    @property
    def joins(self) -> int:
        """How many found joins stand."""
        return sum((self.relationships or {}).get(each.value, 0) for each in (Standing.ACCEPTED, Standing.MANUAL))

    @property
    def to_review(self) -> int:
        """How many found joins wait for a person."""
        return (self.relationships or {}).get(Standing.REVIEW.value, 0)

    def to_json(self) -> dict[str, Any]:
        """Return the connection as it stands in the envelope."""
        return {
            "id": self.id,
            "driver": self.driver,
            "kind": "database" if self.is_database else "source",
            "sources": self.sources,
            "columns": self.columns,
            "relationships": None if self.relationships is None else dict(self.relationships),
            "last_scan": None if self.last_scan is None else self.last_scan.finished,
            "last_fetch": None if self.last_fetch is None else self.last_fetch.to_json(),
            "secrets": _SECRETS[None if self.secrets is None else self.secrets.level],
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Everything `ktx status` shows."""

    project_dir: Path
    connections: tuple[ConnectionStatus, ...]
    findings: tuple[Finding, ...]
    runs: tuple[dict[str, str | None], ...]
    warnings: tuple[ResultWarning, ...]

    @property
    def ready(self) -> bool:
        """Nothing that a run or an agent needs is missing."""
        return not self._failed()

    @property
    def next_command(self) -> str | None:
        """The one command worth typing now; None when everything was scanned and nothing is left undone."""
        failed = self._failed()
        if failed:
            return failed[0].hint or "ktx doctor"
        last = self.runs[0]["status"] if self.runs else None
        if last == "failed" or any(finding.level is Level.FAIL for finding in self.findings):
            return "ktx doctor"
        never = [c.id for c in self.connections if c.is_database and c.last_scan is None]
        if len(never) == 1:
            return f"ktx ingest {never[0]}"
        cut_off = last == "interrupted" or any(f.check == "lease" and f.level is Level.WARN for f in self.findings)
        return "ktx ingest" if never or cut_off else None

    def error(self) -> KtxError | None:
        """Return the error the command ends with when the project is not ready."""
        failed = self._failed()
        return NotReadyError(f"not ready: {failed[0].message}", hint=failed[0].hint) if failed else None

    def _failed(self) -> list[Finding]:
        return [f for f in self.findings if f.level is Level.FAIL and f.check in READINESS]

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "project_dir": str(self.project_dir),
            "ready": self.ready,
            "next": self.next_command,
            "checks": [finding.to_json() for finding in self.findings],
            "connections": [connection.to_json() for connection in self.connections],
            "runs": list(self.runs),
        }


def project_status(project_dir: Path, environ: Mapping[str, str]) -> Status:
    """Collect the facts; raises `ConfigError` for a broken `ktx.yaml`."""
    layout = Layout(project_dir)
    loaded = load_config(layout.config)
    context = CheckContext(layout, loaded, environ)
    findings = run_checks(context, named(READINESS))
    findings += [*check_profiles(context), *check_repository(context), *check_lease(context)]
    connections, warnings = connection_statuses(context)
    try:
        runs = read_state(layout, last_runs) or []
    except KtxError:  # named by connection_statuses and by the lease's check
        runs = []
    return Status(project_dir, connections, tuple(findings), tuple(runs), tuple(warnings))


def connection_statuses(context: CheckContext) -> tuple[tuple[ConnectionStatus, ...], list[ResultWarning]]:
    """Return every connection by id with what is built of it, and what could not be read; starts no program."""
    warnings = context.loaded.warnings()
    try:
        scans, fetches = read_state(context.layout, _last) or ({}, {})
    except KtxError as error:
        scans, fetches = {}, {}
        warnings.append(ResultWarning("state_unreadable", error.message, hint=error.hint))
    found = []
    for connection, entry in sorted(context.loaded.config.connections.items()):
        manifest = context.manifests[connection]
        warnings += manifest.problems
        sources, columns = len(manifest.tables), manifest.column_count
        secrets = secrets_finding(context, connection, entry)
        relationships = _relationships(context, connection, warnings)
        found.append(
            ConnectionStatus(
                connection,
                entry.driver,
                isinstance(entry, Database),
                sources,
                columns,
                scans.get(connection),
                secrets,
                relationships,
                fetches.get(connection),
            )
        )
    return tuple(found), warnings


def _last(database: sqlite3.Connection) -> tuple[dict[str, LastScan], dict[str, LastFetch]]:
    return last_scans(database), last_fetches(database)


def _relationships(context: CheckContext, connection: str, warnings: list[ResultWarning]) -> Mapping[str, int] | None:
    """Return what `ktx scan relationships` would list, counted; a record that cannot be read is a warning."""
    if context.manifests[connection].problems:  # named there, and nothing can be told without all shards
        return None
    try:
        review = read_review(WorkingFiles(context.project_dir), connection, ParsedCopies(context.layout, connection))
    except KtxError as error:
        warnings.append(ResultWarning("relationships_unreadable", error.message, hint=error.hint))
        return None
    return None if review is None else counted(review.edges)
