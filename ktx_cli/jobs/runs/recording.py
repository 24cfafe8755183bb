"""Keeps what happens in a run while it happens: its events, and the transcripts of its agents."""

from __future__ import annotations

import threading
from typing import Any, Final

from ktx_cli.core.clock import isoformat, monotonic, now
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, Event, RunStarted, StepProgress
from ktx_cli.jobs.runs.lines import LineFile
from ktx_cli.jobs.runs.pruning import prune_runs
from ktx_cli.jobs.runs.transcripts import Transcripts
from ktx_cli.jobs.runs.unit_calls import UnitCalls
from ktx_cli.llm.backend import CallSpec
from ktx_cli.llm.events import EmitLlm
from ktx_cli.project.files import storage_error
from ktx_cli.project.layout import Layout

MOST_OF_EVENTS: Final = 16_000_000
"""Bytes of the events of one run."""

MOST_WAITING: Final = 1_000
"""Events that are remembered of the time before a run holds the lease."""

PROGRESS_SECONDS: Final = 0.2
"""Of a step that says more often how far it is, the rest is not kept."""


class Recorder:
    """Passes events on to `tell`, and keeps them from the moment the run holds the lease: before that, and in a dry
    run, nothing is written. That it cannot write is a warning, for the run goes on."""

    def __init__(self, layout: Layout, run_id: str, tell: Emit) -> None:
        self.warnings: list[ResultWarning] = []
        self._layout, self._run_id, self._tell = layout, run_id, tell
        self._file = LineFile(layout.run_events(run_id), MOST_OF_EVENTS)
        self._transcripts: Transcripts | None = None
        self._waiting: list[tuple[str, dict[str, Any]]] = []
        self._said: dict[tuple[str, str | None], float] = {}
        self._has_failed = False
        self._units = UnitCalls(self.emit)
        self._lock = threading.RLock()

    def emit(self, event: Event) -> None:
        """Keep an event and pass it on."""
        self._units.heard(event)
        with self._lock:
            self._keep(event)
        self._tell(event)

    def watch(self, spec: CallSpec) -> EmitLlm | None:
        """Keep the transcript of a call, and tell what that of a unit takes; see `ktx_cli.llm.backend.Watch`."""
        kept = None if self._transcripts is None or self._has_failed else self._transcripts.watch(spec)
        told = self._units.watch(spec)
        if kept is None or told is None:
            return kept or told

        def both(event: Event) -> None:
            kept(event)
            told(event)

        return both

    def close(self) -> list[ResultWarning]:
        """Close the file of events, and return what could not be kept."""
        with self._lock:
            self._file.close()
        return self.warnings

    def _keep(self, event: Event) -> None:
        if self._has_failed or (isinstance(event, StepProgress) and self._too_soon(event)):
            return
        self._waiting.append((isoformat(now()), event.to_json()))
        if isinstance(event, RunStarted) and event.run_id == self._run_id:
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
        folder = self._layout.run_transcripts(self._run_id)
        try:
            for each in (self._layout.runs, folder.parent, folder):
                each.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self._warn(error)
        self._transcripts = Transcripts(folder, self._warn)
        prune_runs(self._layout, keep=self._run_id)

    def _too_soon(self, event: StepProgress) -> bool:
        key, moment = (event.step, event.connection), monotonic()
        if event.done != event.total and moment - self._said.get(key, float("-inf")) < PROGRESS_SECONDS:
            return True
        self._said[key] = moment
        return False

    def _warn(self, error: OSError) -> None:
        if not self._has_failed:
            self._has_failed = True
            found = storage_error(self._layout.run_folder(self._run_id), error)
            message = f"what happens in this run is not kept in full: {found.message}"
            self.warnings.append(ResultWarning("events_not_written", message, hint=found.hint))
