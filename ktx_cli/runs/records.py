"""The runs of a project: their rows in the state database, and their files on disk.

Either may be missing: the state database is disposable, and old events and reports are pruned.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import (
    RUN_ID,
    Command,
    Hint,
    KtxError,
    Record,
    ResultWarning,
    StorageError,
    UsageError,
    did_you_mean,
    isoformat,
    listing,
    now,
)
from ktx_cli.llm import UsageRow, usage_by
from ktx_cli.project import (
    Layout,
    StateDatabase,
    clock_of,
    current_holder,
    open_for_writing,
    read_bytes,
    read_state,
    shared_state_of,
    transaction,
    write_atomic,
)
from ktx_cli.runs.transcripts import Transcript, first_line, last_line, parse_document, read_lines, transcripts_of

LATEST: Final = "latest"
RUNNING: Final = "running"
KILLED: Final = "killed"
"""A run that ended without a report: its process is gone, and at most a commit remains."""


_ALL_RUNS: Final = "SELECT run_id, command, status, started, finished, commit_id FROM runs"


@dataclass(frozen=True, slots=True)
class RunRecord(Record):
    """A summary of a run. `units`: status -> number of work units. `usd` None: no call has a price.

    `seconds` of a killed run: until its last heartbeat. `has_events`: it can be replayed.
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

    json_keys = (
        "run_id", "command", "status", "started", "finished", "seconds", "commit", "units", "tokens", "cost_usd=usd",
        "unpriced_calls=unpriced", "has_events",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunRows:
    """The runs in the state database. `rows`: run id -> command, status, started, finished, commit."""

    rows: Mapping[str, tuple[str, str, str, str | None, str | None]] = field(default_factory=dict)
    running: str | None = None
    usage: Mapping[str, UsageRow] = field(default_factory=dict)
    problem: KtxError | None = None
    """Why they are not known."""

    @property
    def warnings(self) -> list[ResultWarning]:
        """The problem as a warning."""
        problem = self.problem
        return [] if problem is None else [ResultWarning("state_unreadable", problem.message, hint=problem.hint)]


def start_run(database: StateDatabase, run_id: str, command: str) -> None:
    """Record that a run has started; an interrupted run with the same id starts again."""
    database.execute(
        "INSERT OR REPLACE INTO runs (run_id, command, status, started) VALUES (?, ?, 'running', ?)",
        (run_id, command, isoformat(now())),
    )


def finish_run(database: StateDatabase, run_id: str, status: str, commit: str | None) -> None:
    """Record how a run ended."""
    database.execute(
        "UPDATE runs SET status = ?, finished = ?, commit_id = ? WHERE run_id = ?",
        (status, isoformat(now()), commit, run_id),
    )


def last_runs(database: StateDatabase, limit: int = 3) -> list[dict[str, str | None]]:
    """Return the runs, newest first; one that did not end and does not hold the run lock was `killed`."""
    running = _running(database)
    names = ("run_id", "command", "status", "started", "finished", "commit")
    rows = database.execute(f"{_ALL_RUNS} ORDER BY run_id DESC LIMIT ?", (limit,))
    runs = [dict(zip(names, row, strict=True)) for row in rows]
    killed = {"status": KILLED}
    return [run | killed if run["status"] == RUNNING and run["run_id"] != running else run for run in runs]


def _running(database: StateDatabase) -> str | None:
    """Return the id of the run that holds the run lock."""
    holder = current_holder(database)
    return holder.run_id if holder is not None and holder.is_alive(clock_of(database)) else None


def list_runs(layout: Layout, limit: int | None = None) -> tuple[list[RunRecord], list[ResultWarning]]:
    """Return up to `limit` runs, newest first, with warnings about what could not be read; None returns all."""
    known = _known(layout)
    ids = _ids(layout, known)[:limit]
    records: list[RunRecord] = []
    for start in range(0, len(ids), REPORTS_AT_ONCE):
        some = ids[start : start + REPORTS_AT_ONCE]
        reports = read_reports(layout, some)
        records += [_record(layout, known, run_id, reports.get(run_id)) for run_id in some]
    return records, known.warnings


def find_run(layout: Layout, text: str, first: Command | None = None) -> tuple[RunRecord, list[ResultWarning]]:
    """Return the run for an id, its unique prefix, or `latest`; raises `UsageError` for anything else.

    `first`: the command that makes such a run, for the hint in a project without any; None: `ktx ingest`. Without any
    run on this disk, it raises the error of a state that cannot be read.
    """
    known = _known(layout)
    ids = _ids(layout, known)
    if not ids and known.problem is not None:
        raise known.problem
    if not ids:
        raise UsageError("this project has no runs yet", hint=first or Command("ingest"))
    found = ids[:1] if text == LATEST else [each for each in ids if each.startswith(text)] if text else []
    exact = [each for each in found if each == text]
    if len(exact or found) != 1:
        raise _no_run(text, ids, found)
    run_id = (exact or found)[0]
    return _record(layout, known, run_id, read_report(layout, run_id)), known.warnings


def _no_run(text: str, ids: Sequence[str], found: Sequence[str]) -> UsageError:
    if found:
        return UsageError(f"several runs begin with `{text}`", hint=f"use one of {listing(found)}")
    near = did_you_mean(text, [LATEST, *ids])
    every = Hint("use `{}`; to list all runs: {}", LATEST, Command("runs", "list"))
    return UsageError(f"there is no run `{text}`", hint=f"did you mean `{near}`?" if near else every)


def save_report(layout: Layout, run_id: str, report: Mapping[str, Any]) -> None:
    """Write a run's report, also to the shared state if there is one; raises `StorageError`."""
    text = json.dumps(report, indent=1, ensure_ascii=False) + "\n"
    write_atomic(layout.run_report(run_id), text.encode("utf-8", "surrogatepass"), mode=0o600)
    if shared_state_of(layout) is not None:
        with open_for_writing(layout) as database, transaction(database):
            database.execute("INSERT OR REPLACE INTO run_reports VALUES (?, ?)", (run_id, json.dumps(report)))
            kept = "SELECT run_id FROM run_reports ORDER BY run_id DESC LIMIT ?"
            database.execute(f"DELETE FROM run_reports WHERE run_id NOT IN ({kept})", (MOST_REPORTS,))


def read_report(layout: Layout, run_id: str) -> dict[str, Any] | None:
    """Return a run's report as written, or None if it is missing or cannot be read."""
    return read_reports(layout, (run_id,)).get(run_id)


def read_reports(layout: Layout, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the reports of runs as written, without those that are missing or cannot be read."""
    texts: dict[str, bytes | str] = {}
    absent: list[str] = []
    for run_id in run_ids:
        with contextlib.suppress(KtxError):
            text = read_bytes(layout.run_report(run_id))
            if text is None:
                absent.append(run_id)
            else:
                texts[run_id] = text

    def stored(database: StateDatabase) -> list[tuple[str, str]]:
        places = ", ".join("?" * len(absent))
        query = f"SELECT run_id, report FROM run_reports WHERE run_id IN ({places})"
        found: list[tuple[str, str]] = database.execute(query, absent).fetchall()
        return found

    with contextlib.suppress(KtxError):
        if absent and shared_state_of(layout) is not None:
            texts |= read_state(layout, stored) or {}
    return {run_id: report for run_id, text in texts.items() if (report := parse_document(text)) is not None}


def units_of(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the work units in a report, each with its `connection` and `kind`."""
    return [
        {"connection": source.get("connection"), "kind": source.get("kind"), **unit}
        for source in report.get("sources") or ()
        for unit in source.get("units") or ()
    ]


def _known(layout: Layout) -> RunRows:
    older: list[ResultWarning] = []
    try:
        found = read_state(layout, _read_rows, older.append)
    except KtxError as error:
        return RunRows(problem=error)
    problem = StorageError(older[0].message, hint=older[0].hint) if older else None
    return found or RunRows(problem=problem)


def _read_rows(database: StateDatabase) -> RunRows:
    rows = database.execute(_ALL_RUNS).fetchall()
    running = _running(database)
    usage = {row.keys[0]: row for row in usage_by(database, ("run",))}
    return RunRows({row[0]: tuple(row[1:]) for row in rows}, running, usage)


def _ids(layout: Layout, known: RunRows) -> list[str]:
    """Return the ids of all runs, newest first."""
    try:
        left = {path.name.removesuffix(".json") for path in layout.runs.iterdir()}
    except OSError:
        left = set()
    ids = {*known.rows, *(name for name in left if RUN_ID.fullmatch(name))}
    begun = {run_id: known.rows[run_id][2] if run_id in known.rows else isoformat(_begun(run_id)) for run_id in ids}
    return sorted(ids, key=lambda run_id: (begun[run_id], run_id), reverse=True)


def _begun(run_id: str) -> datetime:
    """Return when a run started, to the second, according to its id."""
    return datetime.strptime(run_id[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)


def _record(layout: Layout, known: RunRows, run_id: str, written: Mapping[str, Any] | None) -> RunRecord:
    report = written or {}
    events = layout.run_events(run_id)
    command, status, started, finished, commit = known.rows.get(run_id) or _from_disk(run_id, report, events)
    if status == RUNNING and known.running != run_id:
        status = KILLED
    last = last_line(events) if status in (RUNNING, KILLED) else None
    until = finished or (str(last["at"]) if last and "at" in last else None)
    took = report.get("seconds")
    seconds = took if isinstance(took, int | float) and took else _between(started, until)
    rounded = None if seconds is None else round(float(seconds), 3)
    units = Counter(str(unit.get("status")) for unit in units_of(report))
    usage = _usage(known.usage.get(run_id), report)
    return RunRecord(
        run_id, command, status, started, finished, rounded, commit, units, *usage, has_events=events.is_file()
    )


def _from_disk(run_id: str, report: Mapping[str, Any], events: Path) -> tuple[str, str, str, str | None, str | None]:
    """Return what the database would contain about a run if the database had not been lost."""
    begun = first_line(events, lambda each: each.get("event") == "run_started") or {}
    last = last_line(events) or {}
    ended = last if last.get("event") == "run_finished" else {}
    status = report.get("status") or ended.get("status") or RUNNING
    command = str(report.get("command") or begun.get("command") or "unknown")
    started = str(begun.get("at") or isoformat(_begun(run_id)))
    return command, str(status), started, ended.get("at"), report.get("commit")


def _usage(row: UsageRow | None, report: Mapping[str, Any]) -> tuple[int, float | None, int]:
    if row is not None:
        return row.usage.total, row.cost.usd, row.unpriced
    took = report.get("usage") or {}
    tokens, unpriced = int(took.get("tokens") or 0), int(took.get("unpriced") or 0)
    return tokens, (float(took.get("usd") or 0.0) or None) if tokens else None, unpriced


def _between(started: str, finished: str | None) -> float | None:
    try:
        begun, ended = (None if text is None else datetime.fromisoformat(text) for text in (started, finished))
    except ValueError:
        return None
    return None if begun is None or ended is None else max(0.0, (ended - begun).total_seconds())


ROLE: Final = "writer"
"""The role of the agents that process units."""

EARLIER_ROLE: Final = "candidateExtraction"
"""The role of these agents in runs of versions without `writer`."""

RUNS_AVERAGED: Final = 20
"""Number of most recent runs to consider."""


@dataclass(frozen=True, slots=True)
class EarlierUsage:
    """The usage of the newest runs in which agents processed `units` work units, by role."""

    runs: int
    units: int
    roles: Mapping[str, UsageRow]


def earlier_usage(layout: Layout) -> EarlierUsage | None:
    """Return the usage of the newest runs in which agents processed units, or None if nothing is known."""
    try:
        rows = read_state(layout, lambda database: usage_by(database, ("run", "role"))) or []
    except KtxError:  # the run itself has already warned about it
        return None
    taken: dict[str, dict[str, UsageRow]] = {}
    for row in rows:
        run_id, role = row.keys
        taken.setdefault(run_id, {})[role] = replace(row, keys=(role,))
    for roles in taken.values():
        if ROLE not in roles and EARLIER_ROLE in roles:
            roles[ROLE] = replace(roles.pop(EARLIER_ROLE), keys=(ROLE,))
    newest = sorted((run_id for run_id, roles in taken.items() if ROLE in roles), reverse=True)[:RUNS_AVERAGED]
    reports = read_reports(layout, newest)
    worked = {run_id: units for run_id in newest if (units := _worked(reports.get(run_id)))}
    if not worked:
        return None
    sums: dict[str, UsageRow] = {}
    for run_id in worked:
        for role, usage in taken[run_id].items():
            sums[role] = sums[role] + usage if role in sums else usage
    return EarlierUsage(len(worked), sum(worked.values()), dict(sorted(sums.items())))


def _worked(report: Mapping[str, Any] | None) -> int:
    """Return the number of units that a run processed; those replayed from an earlier run cost nothing."""
    return sum(bool(unit.get("steps")) and not unit.get("replayed") for unit in units_of(report or {}))


log = logging.getLogger(__name__)

RUNS_KEPT: Final = 50
"""Number of newest runs whose events and transcripts are always kept."""

MOST_DAYS: Final = 90
"""Number of days for which files are kept; those of the newest `ALWAYS` runs are kept forever."""

ALWAYS: Final = 5
MOST_REPORTS: Final = 1_000

REPORTS_AT_ONCE: Final = 100
"""How many reports are in memory."""

_RUN: Final = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")


def prune_runs(layout: Layout, *, keep: str) -> None:
    """Remove files of old runs, except those of the run `keep`; the caller holds the run lock. Failures are ignored."""
    try:
        found = sorted((path for path in layout.runs.iterdir() if _RUN.match(path.name)), reverse=True)
    except OSError as error:
        log.debug("cannot list old runs: %s", error)
        return
    oldest = time.time() - MOST_DAYS * 86_400
    folders = [path for path in found if _RUN.fullmatch(path.name) and path.name != keep]
    _remove(folders[RUNS_KEPT:])
    _remove(path for path in folders[ALWAYS:RUNS_KEPT] if _changed(path) < oldest)
    _remove([path for path in found if path.suffix == ".json"][MOST_REPORTS:])


def _changed(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        try:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        except OSError as error:
            log.debug("%s stays: %s", path, error)


BY: Final = ("role", "model")
"""The dimensions by which a run's usage is grouped."""

CUT_OFF: Final = "cut off"
RECORDS: Final = ("contradictions", "conflicts", "evictions", "resolutions", "fallbacks")


@dataclass(frozen=True, slots=True)
class RunDetails(Record):
    """A run with all its details.

    `report` is None if the run was killed, is still running or is too old; `units` are then those in its events.
    `artifacts`: written file -> the raw files it comes from. `records`: what agents recorded, each with its `record`
    (see `RECORDS`) and its origin in `by`.
    """

    record: RunRecord
    report: Mapping[str, Any] | None
    units: tuple[Mapping[str, Any], ...]
    artifacts: Mapping[str, tuple[str, ...]]
    records: tuple[Mapping[str, Any], ...]
    usage: tuple[UsageRow, ...]
    transcripts: tuple[Transcript, ...]
    warnings: tuple[ResultWarning, ...] = ()

    json_keys = ("run=record", "report", "units", "artifacts", "records", "usage=usage_by_kind", "transcripts")

    def usage_by_kind(self) -> list[dict[str, Any]]:
        """Return the usage grouped by its dimensions."""
        return [row.to_json(BY) for row in self.usage]


def run_details(layout: Layout, text: str) -> RunDetails:
    """Return the run that a text identifies; raises the errors of `find_run`."""
    record, warnings = find_run(layout, text)
    run_id, usage = record.run_id, []
    report = read_report(layout, run_id)
    units = tuple(_units_in(layout, run_id) if report is None else units_of(report))
    found = report or {}
    with contextlib.suppress(KtxError):  # `find_run` has already warned about it
        usage = read_state(layout, lambda database: usage_by(database, BY, run=run_id)) or []
    parts = (units, _artifacts(found), tuple(records_in(found)), tuple(usage), tuple(transcripts_of(layout, run_id)))
    return RunDetails(record, report, *parts, tuple(warnings))


def _units_in(layout: Layout, run_id: str) -> list[dict[str, Any]]:
    """Return the units in a run's events, with their last state."""
    units: dict[tuple[object, object], dict[str, Any]] = {}
    before: dict[tuple[object, object], int] = {}
    for event in read_lines(layout.run_events(run_id)):
        key = (event.get("connection"), event.get("unit"))
        match event.get("event"):
            case "work_unit_started":
                units[key] = _details_begun(event)
            case "work_unit_resumed" if key in units:
                units[key].update(steps=event.get("steps"), tool_calls=event.get("tool_calls"), resumed=True)
                before[key] = event.get("tool_calls") or 0
            case "work_unit_step" if key in units:
                calls = (event.get("tool_calls") or 0) + before.get(key, 0)
                units[key].update(steps=event.get("step"), tool_calls=calls)
            case "work_unit_finished":
                replayed = event.get("replayed", False)
                found = units.setdefault(key, _details_begun(event)) if replayed else units.get(key, {})
                found.update(status=event.get("status"), reason=event.get("reason"), replayed=replayed)
    return list(units.values())


def _details_begun(event: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: event.get(name) for name in ("connection", "unit")}
    label = event.get("label") or event.get("unit")
    return {**named, "label": label, "status": CUT_OFF, "reason": "", "steps": 0, "tool_calls": 0}


def _artifacts(report: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for source in report.get("sources") or ():
        for artifacts in (source.get("artifacts"), source.get("produced")):
            for artifact, raw in (artifacts or {}).items():
                found.setdefault(artifact, set()).update(f"{source.get('connection')}: {path}" for path in raw)
    return {artifact: tuple(sorted(raw)) for artifact, raw in sorted(found.items())}


def records_in(report: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield the records of a run's agents according to its report, without those of units that were not merged.

    Each has its `record` (see `RECORDS`) and its origin in `by`.
    """
    for unit in units_of(report):
        if unit.get("status") == "done":
            yield from _noted(unit.get("records") or {}, f"{unit['connection']}:{unit.get('unit')}")
    yield from _noted(report.get("reconciled") or {}, "reconcile")


def _noted(notes: Mapping[str, Any], by: str) -> Iterable[dict[str, Any]]:
    for name in RECORDS:
        for each in notes.get(name) or ():
            yield {"record": name, "by": by, **each}
