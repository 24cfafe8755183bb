"""Spans for the steps of a run, from the events that the run emits."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ktx_cli.core import Event, RunFinished, RunStarted, StepFinished, StepStarted
from ktx_cli.telemetry.operations import Operation, Value, begin, record, set_run


@dataclass(slots=True)
class StepSpans:
    """A listener that turns the steps of a run into spans; thread-safe.

    A step belongs to the step in progress in whose thread or task it began. One that fails emits no end; its span ends,
    as failed, with the step around it or with the command.
    """

    _open: list[tuple[tuple[str, str | None], Operation]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _command: str = ""

    def __call__(self, event: Event) -> None:
        """Receive an event."""
        match event:
            case RunStarted(run_id=run_id, command=command):
                self._command = str(command).removeprefix("ktx ").split(" ")[0]
                set_run(run_id)
            case RunFinished(run_id=run_id, status=status, seconds=seconds):
                set_run(run_id)
                facts: dict[str, Value] = {"ktx.command": self._command, "ktx.run.status": status}
                record("ktx.run.duration", seconds, facts)
            case StepStarted(step=step, connection=connection):
                self._begin(step, connection)
            case StepFinished(step=step, connection=connection):
                self._end(step, connection)

    def close(self) -> None:
        """End the spans of steps that did not finish."""
        with self._lock:
            unfinished, self._open = self._open, []
        for _, each in reversed(unfinished):
            each.fail("_OTHER")
            each.end()

    def _begin(self, step: str, connection: str | None) -> None:
        attributes: dict[str, Value] = {"ktx.step": step.split(" ")[0]}
        if connection is not None:
            attributes["ktx.connection"] = connection
        found = begin("step", attributes)
        found.enter()
        with self._lock:
            self._open.append(((step, connection), found))

    def _end(self, step: str, connection: str | None) -> None:
        with self._lock:
            place = next((n for n, (key, _) in enumerate(self._open) if key == (step, connection)), None)
            if place is None:
                return
            _, ended = self._open.pop(place)
            inner = [pair for pair in self._open[place:] if pair[1].is_within(ended)]
            self._open = [pair for pair in self._open if pair not in inner]
        for _, each in reversed(inner):
            each.fail("_OTHER")
            each.end()
        ended.leave()
        ended.end()
