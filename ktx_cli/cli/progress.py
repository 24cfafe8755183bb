"""Draws the events of a run on stderr: a live view or lines for people, JSON Lines for programs, or nothing."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, Final, Protocol

from rich.console import Console, ConsoleRenderable, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import wrapped
from ktx_cli.cli.settings import ProgressMode, Settings, use_colour
from ktx_cli.core import (
    Event,
    Notice,
    ReconcileStep,
    RunFinished,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
    UnitsPlanned,
    UsageSoFar,
    Waiting,
    WorkUnitFinished,
    WorkUnitResumed,
    WorkUnitStarted,
    WorkUnitStep,
    WorkUnitUsage,
    ignore_events,
    isoformat,
    now,
    one_line,
    plural,
)

Clock = Callable[[], datetime]
"""Returns the time of the event being drawn: now, or a replayed event's time."""


class Drawing(Protocol):
    """Draws events. `is_live`: it moves, so a replay keeps the pauses of the run."""

    is_live: bool

    def emit(self, event: Event) -> None:
        """Draw an event; does not raise."""
        ...

    def close(self) -> None:
        """Restore the terminal, keeping the permanent lines; may be called again."""
        ...


class _Silent:
    """Draws nothing."""

    is_live = False
    emit = staticmethod(ignore_events)

    def close(self) -> None:
        """Do nothing."""


class _Plain:
    """Draws a line for every finished step and every wait."""

    is_live = False

    def emit(self, event: Event) -> None:
        """Write the line of an event, if it has one."""
        line = describe(event)
        if line is not None and not isinstance(event, StepStarted):
            streams.write_err(line + "\n")

    def close(self) -> None:
        """Do nothing."""


class _JsonLines:
    """Draws one JSON document per line, with the time in `at`."""

    is_live = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def emit(self, event: Event) -> None:
        """Write an event."""
        streams.write_err(json.dumps({"at": isoformat(self._clock()), **event.to_json()}) + "\n")

    def close(self) -> None:
        """Do nothing."""


def drawing(settings: Settings, clock: Clock = now) -> Drawing:
    """Return the event drawer for these settings.

    `auto` is a live view on a terminal that supports it and plain lines elsewhere; `--quiet` and `--json` are silent
    unless `--progress` is given.
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
        return LiveDrawing(sys.stderr, clock, colour=use_colour(sys.stderr))
    return _Plain()


def describe(event: Event) -> str | None:
    """Return the line for an event, safe for a terminal, or None for events without a line."""
    text = _text(event)
    return None if text is None else one_line(text, 2000)


def label_of(step: str, connection: str | None) -> str:
    """Return `shop: profile`, or only the step if it is for the whole run."""
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
            earlier = ", from an earlier run" if event.replayed else ""
            return f"{label_of(unit, connection)}: {status}{earlier}" + (f": {reason}" if reason else "")
        case WorkUnitResumed(connection=connection, unit=unit, steps=steps):
            return f"{label_of(unit, connection)} continues after {plural(steps, 'step')} of an earlier run"
        case Waiting(reason=reason, seconds=seconds):
            return f"waiting: {reason}" + (f" (at most {seconds:.0f} s)" if seconds else "")
        case Notice(message=message):
            return message
    return None


_SHOWN: Final = (StepStarted, UnitsPlanned, Waiting, WorkUnitResumed)
"""Events that the view itself shows, without a permanent line."""

UNITS: Final = "units"
"""The step that is shown as the lines of the sources and their units."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the view. `style` is a rich style."""

    text: str
    style: str = ""


@dataclass(slots=True)
class _RunningStep:
    since: datetime
    done: int | None = None
    total: int | None = None
    was_started: bool = True


@dataclass(slots=True)
class _Unit:
    since: datetime
    label: str
    step: int = 0
    budget: int = 0
    calls: int = 0
    before: int = 0
    usage: WorkUnitUsage | None = None


@dataclass(slots=True)
class RunView:
    """The state of the view. Nothing is drawn while nothing is in progress."""

    command: str = ""
    since: datetime | None = None
    steps: dict[tuple[str, str | None], _RunningStep] = field(default_factory=dict)
    planned: dict[str, UnitsPlanned] = field(default_factory=dict)
    ended: dict[str, Counter[str]] = field(default_factory=dict)
    replayed: Counter[str] = field(default_factory=Counter)
    units: dict[tuple[str, str], _Unit] = field(default_factory=dict)
    reconcile: ReconcileStep | None = None
    usage: UsageSoFar | None = None
    wait: tuple[str, datetime | None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether something is in progress."""
        return bool(self.since or self.steps or self.units or self.wait)

    def take(self, event: Event, at: datetime) -> str | None:
        """Process an event; return the permanent line above the view, None if there is none.

        It names units that were not merged; the others are counted in the view.
        """
        self._note(event, at)
        if isinstance(event, WorkUnitFinished) and not event.reason:
            return None
        return None if isinstance(event, _SHOWN) else describe(event)

    def _note(self, event: Event, at: datetime) -> None:
        match event:
            case RunStarted(command=command):
                self.command, self.since, self.wait = command, at, None
            case RunFinished():
                self._forget()
            case StepStarted(step=step, connection=connection):
                self.steps[step, connection], self.reconcile = _RunningStep(at), None  # the next event begins something
            case StepProgress():
                self._progress(event, at)
            case StepFinished(step=step, connection=connection):
                self.steps.pop((step, connection), None)
            case UnitsPlanned(connection=connection):
                self.planned[connection] = event
            case UsageSoFar():
                self.usage = event
            case ReconcileStep():
                self.reconcile = event
            case Waiting(reason=reason, seconds=seconds):
                self.wait = (reason, None if seconds is None else at + timedelta(seconds=seconds))
            case _:
                self._note_unit(event, at)

    def _note_unit(self, event: Event, at: datetime) -> None:
        match event:
            case WorkUnitStarted(connection=connection, unit=unit):
                self.units[connection, unit] = _Unit(at, unit)
            case WorkUnitStep(connection=connection, unit=unit, step=step, budget=budget, tool_calls=calls):
                found = self.units.setdefault((connection, unit), _Unit(at, unit))
                found.step, found.budget, found.calls = step, budget, calls
            case WorkUnitResumed(connection=connection, unit=unit, steps=steps, tool_calls=calls):
                found = self.units.setdefault((connection, unit), _Unit(at, unit))
                found.step, found.before = steps, calls
            case WorkUnitUsage(connection=connection, unit=unit):
                if (connection, unit) in self.units:
                    self.units[connection, unit].usage = event
            case WorkUnitFinished(connection=connection, unit=unit, status=status, replayed=replayed):
                self.units.pop((connection, unit), None)
                self.ended.setdefault(connection, Counter())[status] += 1
                self.replayed[connection] += replayed

    def _progress(self, event: StepProgress, at: datetime) -> None:
        key = (event.step, event.connection)
        found = self.steps.setdefault(key, _RunningStep(at, was_started=False))
        found.done, found.total = event.done, event.total
        if not found.was_started and event.done == event.total:
            del self.steps[key]

    def _forget(self) -> None:
        self.since = self.usage = self.reconcile = self.wait = None
        for each in (self.steps, self.planned, self.ended, self.replayed, self.units):
            each.clear()

    def lines(self, at: datetime, most: int) -> list[Line]:
        """Return the work in progress at a time, in at most `most` lines (3 or more)."""
        head, foot = list(self._head(at)), list(self._foot(at))
        body = [*self._steps(at), *self._sources(at)]
        room = max(1, most - len(head) - len(foot))
        if len(body) > room:
            body = [*body[: room - 1], Line(f"  … and {len(body) - room + 1} more", "dim")]
        return [*head, *body, *foot][:most]

    def _head(self, at: datetime) -> Iterator[Line]:
        if self.since is not None:
            parts = [one_line(self.command, 40), _seconds(at - self.since)]
            parts += [] if self.usage is None else [_taken(self.usage)]
            yield Line(" · ".join(parts), "bold")

    def _foot(self, at: datetime) -> Iterator[Line]:
        if self.reconcile is not None:
            yield Line(f"  reconciling the run: step {self.reconcile.step} of at most {self.reconcile.budget}")
        if self.wait is not None and (self.wait[1] is None or at < self.wait[1]):
            left = "" if self.wait[1] is None else f" (at most {_seconds(self.wait[1] - at)})"
            yield Line(f"  waiting: {one_line(self.wait[0])}{left}", "yellow")

    def _steps(self, at: datetime) -> Iterator[Line]:
        for (step, connection), found in self.steps.items():
            if step != UNITS or not self.planned:
                done = "" if found.done is None else f" {found.done:,}"
                total = "" if found.total is None else f"/{found.total:,}"
                yield Line(f"  {one_line(label_of(step, connection))}{done}{total} · {_seconds(at - found.since)}")

    def _sources(self, at: datetime) -> Iterator[Line]:
        """Yield a line for each source that agents process, followed by one for each unit in progress."""
        under_way = dict.fromkeys(connection for connection, _ in self.units)
        is_open = (UNITS, None) in self.steps
        for connection in dict.fromkeys((*(self.planned if is_open else ()), *under_way)):
            yield Line(f"  {one_line(connection)}: {self._count(connection, is_open)}")
            for (of, _), unit in self.units.items():
                if of == connection:
                    yield Line(f"    {one_line(unit.label, 60)}: {_so_far(unit)} · {_seconds(at - unit.since)}", "dim")

    def _count(self, connection: str, is_open: bool) -> str:
        ended, planned = self.ended.get(connection, Counter()), self.planned.get(connection)
        of = f" of {planned.units:,}" if planned and is_open else ""
        others = [f"{count} {status}" for status, count in sorted(ended.items()) if status != "done"]
        earlier = [f"{self.replayed[connection]:,} of them from an earlier run"] if self.replayed[connection] else []
        return ", ".join([f"{ended['done']:,}{of} units done", *earlier, *others])


def _so_far(unit: _Unit) -> str:
    calls = plural(unit.before + unit.calls, "tool call")
    done = "begun" if not unit.step else f"step {unit.step} of at most {unit.budget}, {calls}"
    if unit.step and not unit.budget:
        done = f"continues after step {unit.step} of an earlier run"
    return done if unit.usage is None else f"{done}, {_taken(unit.usage)}"


def _taken(usage: UsageSoFar | WorkUnitUsage) -> str:
    unknown = " +?" if usage.unpriced else ""
    return f"{usage.tokens:,} tokens, ${usage.usd:.4f}{unknown}"


def _seconds(passed: timedelta) -> str:
    """Return `12 s`, `3:05`, `1:02:09`."""
    seconds = max(0, int(passed.total_seconds()))
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}" if minutes else f"{rest} s"


WIDEST: Final = 100
"""Maximum width of a line, so that a narrowed window does not break it in two."""

MOST_LINES: Final = 20
PER_SECOND: Final = 8

_Draw = Callable[[], list[Text]]


class LiveDrawing:
    """Draws a `RunView`; other output to stderr appears above it."""

    is_live = True

    def __init__(self, stream: IO[str], clock: Clock, *, colour: bool) -> None:
        self._view = RunView()
        self._clock = clock
        self._console = Console(
            file=stream, force_terminal=True, no_color=not colour, color_system="auto" if colour else None,
            highlight=False, markup=False, emoji=False, legacy_windows=False,
        )  # fmt: skip
        self._region: _Region | None = None
        self._known = threading.Lock()  # over the view; rich draws it under its own locks, so nothing waits inside
        self._drawing = threading.RLock()  # over the region

    def emit(self, event: Event) -> None:
        """Process an event; the view redraws itself."""
        with self._known:
            line = self._view.take(event, self._clock())
            is_active = self._view.is_active
        with self._drawing, contextlib.suppress(OSError, ValueError):  # an unread stderr must not stop the work
            if line is not None:
                text = Text("\n".join(wrapped(line, self._console.width, indent="  ")))
                if self._region is None:
                    self._console.print(text, soft_wrap=True)
                else:
                    self._region.print_above(text)
            if is_active and self._region is None:
                self._region = _Region(self._console, self._drawn)
                self._region.start()
            elif not is_active:
                self.close()
            elif line is not None and self._region is not None:
                self._region.refresh()

    def close(self) -> None:
        """Remove the view and show the cursor again."""
        with self._drawing, contextlib.suppress(OSError, ValueError):
            region, self._region = self._region, None
            if region is not None:
                region.stop()

    def _drawn(self) -> list[Text]:
        size = self._console.size
        with self._known:
            lines = self._view.lines(self._clock(), max(3, min(MOST_LINES, size.height - 1)))
        texts = [Text(line.text, line.style, no_wrap=True) for line in lines]
        for text in texts:
            text.truncate(max(1, min(WIDEST, size.width - 1)), overflow="ellipsis")
        return texts


class _Region(Live):
    """The lines that are redrawn. A narrowed terminal breaks lines in two: those are erased too."""

    def __init__(self, console: Console, draw: _Draw) -> None:
        self._draw = draw
        self._cells: list[int] = []
        super().__init__(
            console=console, get_renderable=self._render, refresh_per_second=PER_SECOND, transient=True,
            redirect_stdout=False, redirect_stderr=True,
        )  # fmt: skip

    def print_above(self, text: Text) -> None:
        """Print lines above the region. No redraw comes between the erasing of its old lines and the output."""
        with self._lock:
            self.console.print(text, soft_wrap=True)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """See `rich.console.RenderHook`: the output, preceded by the control codes that erase the old lines."""
        return [self._broken_lines(), *super().process_renderables(renderables)]

    def _broken_lines(self) -> Control:
        width = max(1, self.console.width)
        more = sum(max(0, cells - 1) // width for cells in self._cells)
        return Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * more)

    def _render(self) -> Group:
        texts = self._draw()
        self._cells = [text.cell_len for text in texts]
        return Group(*texts)
