"""Everything that can happen in a run, as data; the engine emits these and never prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; subclasses say what."""

    def to_json(self) -> dict[str, Any]:
        """Return `{"event": "step_started", ...fields}`."""
        return {"event": event_name(type(self)), **dataclasses.asdict(self)}


def event_name(kind: type[Event]) -> str:
    """Return `step_started` for `StepStarted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run that writes has begun and holds the run lock."""

    run_id: str
    command: str


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The run is over; `status` is the report's (`done`, `planned`, `unchanged`, ...), `seconds` is wall time."""

    run_id: str
    status: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """A named step for one connection (None: for the whole run) has begun."""

    step: str
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class StepProgress(Event):
    """`done` of `total` units of a step; `total` None when it is not known."""

    step: str
    done: int
    total: int | None = None
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A step is over; `summary` is one short line, `seconds` wall time."""

    step: str
    summary: str
    seconds: float
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class UnitsPlanned(Event):
    """How many work units agents have to work through for a source of a connection in this run."""

    connection: str
    kind: str
    units: int


@dataclass(frozen=True, slots=True)
class WorkUnitStarted(Event):
    """An agent has begun with a piece of a source; `files` is how many raw files it is to work through."""

    connection: str
    unit: str
    label: str
    files: int


@dataclass(frozen=True, slots=True)
class WorkUnitResumed(Event):
    """A unit that has begun goes on after `steps` of an earlier run, with the `tool_calls` in them."""

    connection: str
    unit: str
    steps: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WorkUnitUsage(Event):
    """What models took for a unit in this run until now; `tokens`, `usd` and `unpriced` as of the whole run."""

    connection: str
    unit: str
    tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class WorkUnitStep(Event):
    """A step of a unit's loop is over: the `step`th of at most `budget`; `tool_calls` counts those of this run."""

    connection: str
    unit: str
    step: int
    budget: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WorkUnitFinished(Event):
    """A unit is over: `done`, `failed`, `quarantined` or `left`; `reason` says why where it did not land.

    `replayed`: an earlier run had finished it, so that none began with it in this one.
    """

    connection: str
    unit: str
    status: str
    reason: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ReconcileStep(Event):
    """A step of the loop that looks over everything is over: the `step`th of at most `budget`."""

    step: int
    budget: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class UsageSoFar(Event):
    """What the models of the run took until now: all tokens, US dollars at list prices, calls that have no price."""

    tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The run waits for something outside it, for at most `seconds` (None: without a limit)."""

    reason: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """A command that keeps a log is over: the last line of the log. `run_id`: of the run it made, `status`: of that.

    `error` is the code of the error it ended with, `message` says it; both are None at exit code 0.
    """

    command: str
    exit_code: int
    seconds: float
    run_id: str | None = None
    status: str | None = None
    error: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something worth a line that is neither progress nor a warning."""

    message: str


Emit = Callable[[Event], None]
"""Takes an event; must not raise."""


def ignore_events(event: Event) -> None:
    """Drop the event: the emitter for callers that want no progress."""


def event_of(document: Mapping[str, Any]) -> Event | None:
    """Return the event that `to_json` wrote (`at`, the time, is no field); None for what is none this version knows."""
    known = (kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, Event))
    kind = {event_name(each): each for each in known}.get(str(document.get("event")))
    if kind is None:
        return None
    try:
        return kind(**{name: value for name, value in document.items() if name not in ("event", "at")})
    except TypeError:
        return None
