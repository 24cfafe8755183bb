"""What is under way in a run, put together from its events: the lines of the view that moves, without a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ktx_cli.cli.progress import describe, label_of
from ktx_cli.core.events import (
    Event,
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
)
from ktx_cli.core.text import one_line, plural

_SHOWN: Final = (StepStarted, UnitsPlanned, Waiting, WorkUnitResumed)
"""Events that the view itself shows, without a line that stays."""

UNITS: Final = "units"
"""The step whose lines are those of the sources and their units."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the view. `style` as rich has it."""

    text: str
    style: str = ""


@dataclass(slots=True)
class _Step:
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
    """The state of what is drawn. Nothing is drawn while nothing is under way."""

    command: str = ""
    since: datetime | None = None
    steps: dict[tuple[str, str | None], _Step] = field(default_factory=dict)
    planned: dict[str, UnitsPlanned] = field(default_factory=dict)
    ended: dict[str, Counter[str]] = field(default_factory=dict)
    replayed: Counter[str] = field(default_factory=Counter)
    units: dict[tuple[str, str], _Unit] = field(default_factory=dict)
    reconcile: ReconcileStep | None = None
    usage: UsageSoFar | None = None
    wait: tuple[str, datetime | None] | None = None

    @property
    def is_active(self) -> bool:
        """Whether something is under way."""
        return bool(self.since or self.steps or self.units or self.wait)

    def take(self, event: Event, at: datetime) -> str | None:
        """Take in an event that happened at a time; return the line that stays above the view, None where none does.

        Of units it names those that did not land; the others are counted in the view.
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
                self.steps[step, connection], self.reconcile = _Step(at), None  # what comes next is begun
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
        found = self.steps.setdefault(key, _Step(at, was_started=False))
        found.done, found.total = event.done, event.total
        if not found.was_started and event.done == event.total:
            del self.steps[key]

    def _forget(self) -> None:
        self.since = self.usage = self.reconcile = self.wait = None
        for each in (self.steps, self.planned, self.ended, self.replayed, self.units):
            each.clear()

    def lines(self, at: datetime, most: int) -> list[Line]:
        """Return what is under way at a time, in at most `most` lines (3 or more)."""
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
            yield Line(f"  looking over everything: step {self.reconcile.step} of at most {self.reconcile.budget}")
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
        """Yield a line for each source that agents work on, below it one for each unit under way."""
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
        earlier = [f"{self.replayed[connection]:,} of them by an earlier run"] if self.replayed[connection] else []
        return ", ".join([f"{ended['done']:,}{of} units done", *earlier, *others])


def _so_far(unit: _Unit) -> str:
    calls = plural(unit.before + unit.calls, "tool call")
    done = "begun" if not unit.step else f"step {unit.step} of at most {unit.budget}, {calls}"
    if unit.step and not unit.budget:
        done = f"goes on after step {unit.step} of an earlier run"
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
