"""Records a run's events while it happens, and its agents' transcripts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    Emit,
    Event,
    KtxError,
    ResultWarning,
    RunStarted,
    StepProgress,
    WorkUnitFinished,
    WorkUnitResumed,
    WorkUnitStarted,
    WorkUnitUsage,
    event_of,
    isoformat,
    monotonic,
    now,
)
from ktx_cli.llm import Resumed, UsageReported
from ktx_cli.project import Layout, storage_error
from ktx_cli.runs.records import prune_runs
from ktx_cli.runs.transcripts import CUT, LineFile, Transcripts, read_lines

if TYPE_CHECKING:
    from ktx_cli.llm import CallSpec, EmitLlm

MOST_OF_EVENTS: Final = 16_000_000
"""Maximum size in bytes of one run's events."""

MOST_WAITING: Final = 1_000
"""Maximum number of events to buffer before a run holds the run lock."""

PROGRESS_SECONDS: Final = 0.2
"""Maximum number of progress events per step; further events are not stored."""


class Recorder:
    """Collects the warnings of a run, passes its events on to `listener`, and stores both.

    Events are written once the run holds the run lock, and not in a dry run. A failure to write them is a warning,
    because the run continues.
    """

    def __init__(self, layout: Layout, run_id: str, listener: Emit, warnings: Iterable[ResultWarning] = ()) -> None:
        self.run_id = run_id
        self.warnings = list(warnings)
        self._failure: ResultWarning | None = None
        self._layout, self._listener = layout, listener
        self._file = LineFile(layout.run_events(run_id), MOST_OF_EVENTS)
        self._transcripts: Transcripts | None = None
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._said: dict[tuple[str, str | None], float] = {}
        self._units = UnitCalls(self.emit)
        self._lock = threading.RLock()

    def emit(self, event: Event) -> None:
        """Store an event and pass it on."""
        self._units.observe(event)
        with self._lock:
            self._keep(event)
        self._listener(event)

    def watch(self, spec: CallSpec) -> EmitLlm | None:
        """Store the transcript of a call, and report the usage of its unit; see `ktx_cli.llm.agent_loop.Watch`."""
        kept = None if self._transcripts is None or self._failure is not None else self._transcripts.watch(spec)
        counted = self._units.watch(spec)
        if kept is None or counted is None:
            return kept or counted

        def both(event: Event) -> None:
            kept(event)
            counted(event)

        return both

    def warn(self, warning: ResultWarning) -> None:
        """Add a warning unless it already exists."""
        with self._lock:
            if warning not in self.warnings:
                self.warnings.append(warning)

    def warn_of(self, warnings: Iterable[ResultWarning]) -> None:
        """Add several warnings."""
        for warning in warnings:
            self.warn(warning)

    def close(self) -> None:
        """Close the event file, and warn if it could not be written; a missing report has the same cause."""
        with self._lock:
            self._file.close()
        if self._failure is not None and all(each.code != "report_not_written" for each in self.warnings):
            self.warn(self._failure)

    def _keep(self, event: Event) -> None:
        if self._failure is not None or (isinstance(event, StepProgress) and self._too_soon(event)):
            return
        self._waiting.append((isoformat(now()), event.to_json()))
        if isinstance(event, RunStarted) and event.run_id == self.run_id:
            self._begin()
        if self._transcripts is None:
            del self._waiting[:-MOST_WAITING]
            return
        waiting, self._waiting = self._waiting, []
        try:
            for at, document in waiting:
                self._file.write(document, at=at)
        except OSError as error:
            self._warn(error)

    def _begin(self) -> None:
        folder = self._layout.run_transcripts(self.run_id)
        try:
            for each in (self._layout.runs, folder.parent, folder):
                each.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._warn(error)
        self._transcripts = Transcripts(folder, self._warn)
        prune_runs(self._layout, keep=self.run_id)

    def _too_soon(self, event: StepProgress) -> bool:
        key, moment = (event.step, event.connection), monotonic()
        if event.done != event.total and moment - self._said.get(key, float("-inf")) < PROGRESS_SECONDS:
            return True
        self._said[key] = moment
        return False

    def _warn(self, error: OSError) -> None:
        if self._failure is None:
            found = storage_error(self._layout.run_folder(self.run_id), error)
            message = f"the record of this run is incomplete: {found.message}"
            self._failure = ResultWarning("events_not_written", message, hint=found.hint)


LONGEST: Final = 2.0
"""Maximum length of a pause, in seconds."""


def stored_events(layout: Layout, run_id: str) -> list[dict[str, Any]]:
    """Return the stored events of a run, each with its time in `at`; raises `KtxError` if there are none."""
    found = list(read_lines(layout.run_events(run_id)))
    if not found:
        raise KtxError(f"the events of run {run_id} no longer exist", hint=Command("runs", "show", run_id))
    return found


class Replay:
    """Replays a run's events: `speed` times as fast, or without pauses if it is 0.

    `now` is the time of the last event. Events that this version does not know are skipped.
    """

    speed = 0.0

    def __init__(self, documents: list[dict[str, Any]]) -> None:
        self.is_cut = bool(documents) and documents[-1].get("event") == CUT["event"]
        self.unknown = 0
        self._documents = documents
        self._at = _moment(documents[0]) or datetime.fromisoformat("1970-01-01T00:00:00Z")

    def now(self) -> datetime:
        """Return the time of the last replayed event."""
        return self._at

    def __iter__(self) -> Iterator[Event]:
        for document in self._documents:
            event = event_of(document)
            if event is None:
                self.unknown += document.get("event") != CUT["event"]
                continue
            self._wait(_moment(document) or self._at)
            yield event

    def _wait(self, until: datetime) -> None:
        """Wait for the time between two events."""
        passed = (until - self._at).total_seconds()
        if self.speed > 0 and passed > 0:
            time.sleep(min(passed / self.speed, LONGEST))
        self._at = max(self._at, until)


def _moment(document: dict[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(document.get("at")))
    except ValueError:
        return None


_Unit = tuple[str, str]


class UnitCalls:
    """Watches the agent loops of units, which are identified by label (`docs:refunds.md`). Thread-safe."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._taken: dict[_Unit, WorkUnitUsage] = {}
        self._lock = threading.Lock()

    def observe(self, event: Event) -> None:
        """Record the start and end of units."""
        with self._lock:
            if isinstance(event, WorkUnitStarted):
                self._taken[event.connection, event.unit] = WorkUnitUsage(event.connection, event.unit, 0, 0.0, 0)
            elif isinstance(event, WorkUnitFinished):
                self._taken.pop((event.connection, event.unit), None)

    def watch(self, spec: CallSpec) -> EmitLlm | None:
        """Watch a call that runs a unit's loop; see `ktx_cli.llm.agent_loop.Watch`."""
        connection, _, name = spec.label.partition(":")
        unit = (connection, name)
        if spec.kind != "loop" or unit not in self._taken:
            return None
        return lambda event: self._observe(unit, event)

    def _observe(self, unit: _Unit, event: Event) -> None:
        if isinstance(event, Resumed):
            self._emit(WorkUnitResumed(*unit, event.steps, event.tool_calls))
        elif isinstance(event, UsageReported):
            with self._lock:
                before = self._taken.get(unit)
                taken = None if before is None else _sum(before, event.fact)
                if taken is not None:
                    self._taken[unit] = taken
            if taken is not None:
                self._emit(taken)


def _sum(before: WorkUnitUsage, fact: Mapping[str, Any]) -> WorkUnitUsage:
    usd = fact["cost_usd"]
    tokens, unpriced = before.tokens + fact["total_tokens"], before.unpriced + (usd is None)
    return replace(before, tokens=tokens, usd=round(before.usd + (usd or 0.0), 6), unpriced=unpriced)
