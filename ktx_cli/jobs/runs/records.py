"""The runs of a project as they are known: from the state database, and from what is left of each on the disk.

Either may be gone: the state database is disposable, and old events and reports are pruned. Nothing is written.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.clock import RUN_ID, isoformat
from ktx_cli.core.errors import KtxError, ResultWarning, UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.jobs.runs.lines import first_line, last_line
from ktx_cli.llm.usage_store import UsageRow, usage_by
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout
from ktx_cli.project.leases import current_holder
from ktx_cli.project.state import read_state

LATEST: Final = "latest"
RUNNING: Final = "running"
KILLED: Final = "killed"
"""A run that ended without saying so: its process is gone, and nothing of it is committed but what a commit holds."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run in a few words. `units`: status -> how many work units. `usd` None: no call has a price.

    `seconds` of a run that was killed: until it was last heard of. `has_events`: it can be replayed.
    """

    run_id: str
    command: str
    status: str
    started: str
    finished: str | None
    seconds: float | None
    commit: str | None
    units: Mapping[str, int] = field(default_factory=dict)
    tokens: int = 0
    usd: float | None = None
    unpriced: int = 0
    has_events: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain values."""
        return {
            "run_id": self.run_id,
            "command": self.command,
            "status": self.status,
            "started": self.started,
            "finished": self.finished,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
            "commit": self.commit,
            "units": dict(self.units),
            "tokens": self.tokens,
            "cost_usd": self.usd,
            "unpriced_calls": self.unpriced,
            "has_events": self.has_events,
        }


@dataclass(frozen=True, slots=True)
class Known:
    """What the state database says of runs. `rows`: run id -> command, status, started, finished, commit."""

    rows: Mapping[str, tuple[str, str, str, str | None, str | None]] = field(default_factory=dict)
    running: str | None = None
    usage: Mapping[str, UsageRow] = field(default_factory=dict)


def list_runs(layout: Layout, limit: int | None = None) -> tuple[list[RunRecord], list[ResultWarning]]:
    """Return the newest runs first, and what could not be read; `limit` None: all."""
    known, warnings = _known(layout)
    ids = _ids(layout, known)
    return [_record(layout, known, run_id) for run_id in ids[:limit]], warnings


def find_run(layout: Layout, text: str) -> tuple[RunRecord, list[ResultWarning]]:
    """Return the run that a text names: an id, its unique beginning, or `latest`; raises `UsageError` for any other."""
    known, warnings = _known(layout)
    ids = _ids(layout, known)
    if not ids:
        raise UsageError("this project has no run yet", hint="ktx ingest")
    found = ids[:1] if text == LATEST else [each for each in ids if each.startswith(text)] if text else []
    exact = [each for each in found if each == text]
    if len(exact or found) != 1:
        raise _no_run(text, ids, found)
    return _record(layout, known, (exact or found)[0]), warnings


def _no_run(text: str, ids: Sequence[str], found: Sequence[str]) -> UsageError:
    if found:
        return UsageError(f"several runs begin with `{text}`", hint=f"one of {listing(found)}")
    near = did_you_mean(text, [LATEST, *ids])
    return UsageError(f"there is no run `{text}`", hint=f"did you mean `{near}`?" if near else "ktx runs list")


def read_report(layout: Layout, run_id: str) -> dict[str, Any] | None:
    """Return the report of a run as it was written; None where there is none, or it cannot be read."""
    try:
        text = read_bytes(layout.run_report(run_id))
        report = None if text is None else json.loads(text)
    except (KtxError, ValueError):
        return None
    return report if isinstance(report, dict) else None


def units_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the work units of a report, each with its `connection` and `kind`."""
    return [
        {"connection": source.get("connection"), "kind": source.get("kind"), **unit}
        for source in report.get("sources") or ()
        for unit in source.get("units") or ()
    ]


def _known(layout: Layout) -> tuple[Known, list[ResultWarning]]:
    try:
        return read_state(layout, _ask) or Known(), []
    except KtxError as error:
        return Known(), [ResultWarning("state_unreadable", error.message, hint=error.hint)]


def _ask(database: sqlite3.Connection) -> Known:
    rows = database.execute("SELECT run_id, command, status, started, finished, commit_id FROM runs").fetchall()
    holder = current_holder(database)
    running = holder.run_id if holder is not None and holder.is_alive(time.time()) else None
    usage = {row.keys[0]: row for row in usage_by(database, ("run",))}
    return Known({row[0]: tuple(row[1:]) for row in rows}, running, usage)


def _ids(layout: Layout, known: Known) -> list[str]:
    """Return the ids of all runs, the newest first."""
    try:
        left = {path.name.removesuffix(".json") for path in layout.runs.iterdir()}
    except OSError:
        left = set()
    ids = {*known.rows, *(name for name in left if RUN_ID.fullmatch(name))}
    begun = {run_id: known.rows[run_id][2] if run_id in known.rows else isoformat(_begun(run_id)) for run_id in ids}
    return sorted(ids, key=lambda run_id: (begun[run_id], run_id), reverse=True)


def _begun(run_id: str) -> datetime:
    """Return when a run began, to the second, as its id says."""
    return datetime.strptime(run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)


def _record(layout: Layout, known: Known, run_id: str) -> RunRecord:
    report = read_report(layout, run_id) or {}
    events = layout.run_events(run_id)
    command, status, started, finished, commit = known.rows.get(run_id) or _from_disk(run_id, report, events)
    if status == RUNNING and known.running != run_id:
        status = KILLED
    last = last_line(events) if status in (RUNNING, KILLED) else None
    until = finished or (str(last["at"]) if last and "at" in last else None)
    tokens, usd, unpriced = _usage(known.usage.get(run_id), report)
    return RunRecord(
        run_id,
        command,
        status,
        started,
        finished,
        _seconds(report.get("seconds")) or _between(started, until),
        commit,
        Counter(str(unit.get("status")) for unit in units_of(report)),
        tokens,
        usd,
        unpriced,
        events.is_file(),
    )


def _from_disk(run_id: str, report: Mapping[str, Any], events: Path) -> tuple[str, str, str, str | None, str | None]:
    """Return what the database would say of a run, had it not been lost."""
    begun = first_line(events, lambda each: each.get("event") == "run_started") or {}
    last = last_line(events) or {}
    ended = last if last.get("event") == "run_finished" else {}
    status = report.get("status") or ended.get("status") or RUNNING
    command = str(report.get("command") or begun.get("command") or "unknown")
    return (
        command,
        str(status),
        str(begun.get("at") or isoformat(_begun(run_id))),
        ended.get("at"),
        report.get("commit"),
    )


def _usage(row: UsageRow | None, report: Mapping[str, Any]) -> tuple[int, float | None, int]:
    if row is not None:
        return row.usage.total, row.cost.usd, row.unpriced
    took = report.get("usage") or {}
    tokens, unpriced = int(took.get("tokens") or 0), int(took.get("unpriced") or 0)
    return tokens, (float(took.get("usd") or 0.0) or None) if tokens else None, unpriced


def _seconds(said: object) -> float | None:
    return float(said) if isinstance(said, int | float) else None


def _between(started: str, finished: str | None) -> float | None:
    try:
        return None if finished is None else max(0.0, (_moment(finished) - _moment(started)).total_seconds())
    except ValueError:
        return None


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
