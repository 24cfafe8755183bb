"""Draws the events of a run on stderr: one moving view or lines for people, JSON Lines for programs, or nothing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from ktx_cli.cli import streams
from ktx_cli.cli.settings import ProgressMode, Settings, use_colour
from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.events import (
    Event,
    Notice,
    StepFinished,
    StepStarted,
    UnitsPlanned,
    Waiting,
    WorkUnitFinished,
    WorkUnitResumed,
    ignore_events,
)
from ktx_cli.core.text import one_line, plural

Clock = Callable[[], datetime]
"""Says when the event that is drawn happened: now, or, where a run is shown again, then."""


class Drawing(Protocol):
    """What draws events. `is_live`: it moves, so that whoever shows a run again keeps its pauses."""

    is_live: bool

    def emit(self, event: Event) -> None:
        """Draw an event; does not raise."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was, with the lines that stay; may be called again."""
        ...


class _Silent:
    """Draws nothing."""

    is_live = False
    emit = staticmethod(ignore_events)

    def close(self) -> None:
        """Do nothing."""


class _Plain:
    """A line for everything that is over, and for every wait."""

    is_live = False

    def emit(self, event: Event) -> None:
        """Write the line of an event that has one."""
        line = describe(event)
        if line is not None and not isinstance(event, StepStarted):
            streams.write_err(line + "\n")

    def close(self) -> None:
        """Do nothing."""


class _JsonLines:
    """A JSON document a line, with the time in `at`."""

    is_live = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def emit(self, event: Event) -> None:
        """Write an event."""
        streams.write_err(json.dumps({"at": isoformat(self._clock()), **event.to_json()}) + "\n")

    def close(self) -> None:
        """Do nothing."""


def drawing(settings: Settings, clock: Clock = now) -> Drawing:
    """Return what draws events under these settings.

    `auto` is a view that moves on a terminal that can draw over it and plain lines elsewhere; `--quiet` and `--json`
    are silent unless `--progress` asks for something.
    """
    mode = settings.progress
    if mode is None:
        mode = ProgressMode.NONE if settings.quiet or settings.json else ProgressMode.AUTO
    if mode is ProgressMode.NONE:
        return _Silent()
    if mode is ProgressMode.JSONL:
        return _JsonLines(clock)
    dumb = os.environ.get("TERM") == "dumb"
    if mode is ProgressMode.AUTO and sys.stderr.isatty() and not settings.plain and not dumb:
        from ktx_cli.cli.progress_live import LiveDrawing

        return LiveDrawing(sys.stderr, clock, colour=use_colour(sys.stderr))
    return _Plain()


def describe(event: Event) -> str | None:
    """Return the line a person reads for an event, safe for a terminal, or None for events that have none."""
    text = _text(event)
    return None if text is None else one_line(text, 2000)


def label_of(step: str, connection: str | None) -> str:
    """Return `shop: profile`, or the step alone where it is for the whole run."""
    return f"{connection}: {step}" if connection else step


def _text(event: Event) -> str | None:
    match event:
        case StepStarted(step=step, connection=connection):
            return f"{label_of(step, connection)} …"
        case StepFinished(step=step, summary=summary, connection=connection, seconds=seconds):
            return f"{label_of(step, connection)}: {summary} ({seconds:.1f} s)"
        case UnitsPlanned(connection=connection, units=units):
            return f"{connection}: {plural(units, 'unit')} for agents"
        case WorkUnitFinished(connection=connection, unit=unit, status=status, reason=reason):
            earlier = ", taken from an earlier run" if event.replayed else ""
            return f"{label_of(unit, connection)}: {status}{earlier}" + (f": {reason}" if reason else "")
        case WorkUnitResumed(connection=connection, unit=unit, steps=steps):
            return f"{label_of(unit, connection)} goes on after {plural(steps, 'step')} of an earlier run"
        case Waiting(reason=reason, seconds=seconds):
            return f"waiting: {reason}" + (f" (at most {seconds:.0f} s)" if seconds else "")
        case Notice(message=message):
            return message
    return None
