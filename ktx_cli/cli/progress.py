"""Draws the events of a run on stderr: lines for people, JSON Lines for programs, or nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable

from ktx_cli.cli import streams
from ktx_cli.cli.settings import ProgressMode, Settings
from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.events import (
    Emit,
    Event,
    Notice,
    ReconcileStep,
    RunFinished,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
    Waiting,
    WorkUnitFinished,
    WorkUnitStarted,
    WorkUnitStep,
    ignore_events,
)
from ktx_cli.core.text import one_line


def renderer(settings: Settings) -> Emit:
    """Return the emitter for these settings.

    `auto` is a moving line on a terminal that can draw over it and plain lines elsewhere; `--quiet` and `--json` are
    silent unless `--progress` asks for something.
    """
    mode = settings.progress
    if mode is None:
        mode = ProgressMode.NONE if settings.quiet or settings.json else ProgressMode.AUTO
    if mode is ProgressMode.NONE:
        return ignore_events
    if mode is ProgressMode.JSONL:
        return _write_json_line
    dumb = os.environ.get("TERM") == "dumb"
    if mode is ProgressMode.AUTO and sys.stderr.isatty() and not settings.plain and not dumb:
        return _MovingLine().emit
    return _write_plain


def _write_json_line(event: Event) -> None:
    streams.write_err(json.dumps({"at": isoformat(now()), **event.to_json()}) + "\n")


def _label(step: str, connection: str | None) -> str:
    return f"{connection}: {step}" if connection else step


def describe(event: Event) -> str | None:
    """Return the line a person reads for an event, safe for a terminal, or None for events that have none."""
    text = _text(event)
    return None if text is None else one_line(text, 2000)


def _text(event: Event) -> str | None:
    match event:
        case StepStarted(step=step, connection=connection):
            return f"{_label(step, connection)} …"
        case StepFinished(step=step, summary=summary, connection=connection, seconds=seconds):
            return f"{_label(step, connection)}: {summary} ({seconds:.1f} s)"
        case WorkUnitFinished(connection=connection, unit=unit, status=status, reason=reason):
            return f"{_label(unit, connection)}: {status}" + (f": {reason}" if reason else "")
        case Waiting(reason=reason, seconds=seconds):
            return f"waiting: {reason}" + (f" (at most {seconds:.0f} s)" if seconds else "")
        case Notice(message=message):
            return message
        case RunStarted() | RunFinished() | StepProgress() | WorkUnitStarted() | WorkUnitStep() | ReconcileStep():
            return None
    return None


def _write_plain(event: Event) -> None:
    line = describe(event)
    if line is not None and not isinstance(event, StepStarted):
        streams.write_err(line + "\n")


class _MovingLine:
    """One line that is drawn over while a step runs, and kept when it ends."""

    def __init__(self, write: Callable[[str], None] = streams.write_err) -> None:
        self._write = write

    def emit(self, event: Event) -> None:
        if isinstance(event, StepProgress):
            total = f"/{event.total}" if event.total is not None else ""
            self._draw(f"{_label(event.step, event.connection)} {event.done}{total}")
            return
        if isinstance(event, WorkUnitStep):
            self._draw(f"{_label(event.unit, event.connection)}: step {event.step} of at most {event.budget}")
            return
        if isinstance(event, ReconcileStep):
            self._draw(f"looking over everything: step {event.step} of at most {event.budget}")
            return
        line = describe(event)
        if line is not None and isinstance(event, StepStarted):
            self._draw(line)
        elif line is not None:
            self._write(f"\r\x1b[K{line}\n")
        elif isinstance(event, RunFinished):
            self._write("\r\x1b[K")

    def _draw(self, text: str) -> None:
        """Draw over the line, cut to the terminal's width: a line that wraps cannot be drawn over."""
        width = shutil.get_terminal_size((80, 24)).columns
        self._write(f"\r\x1b[K{one_line(text, max(width - 1, 1))}")
