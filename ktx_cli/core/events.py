"""The events that a run emits. The engine emits them and never prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """The base class of all events."""

    def to_json(self) -> dict[str, Any]:
        """Return `{"event": "step_started", ...fields}`."""
        return {"event": event_name(type(self)), **dataclasses.asdict(self)}


def event_name(kind: type[Event]) -> str:
    """Return `step_started` for `StepStarted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """A run that writes has started and holds the run lock."""

    run_id: str
    command: str


@dataclass(frozen=True, slots=True)
class RunFinished(Event):
    """The run has finished. `status` is the status of the report (`done`, `planned`, `unchanged`, ...).

    `seconds` is wall time.
    """

    run_id: str
    status: str
    seconds: float


@dataclass(frozen=True, slots=True)
class StepStarted(Event):
    """A step has started. `connection` is null for a step of the whole run."""

    step: str
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class StepProgress(Event):
    """`done` of `total` units in a step are complete. `total` is null if it is not known."""

    step: str
    done: int
    total: int | None = None
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A step has finished. `summary` is one short line; `seconds` is wall time."""

    step: str
    summary: str
    seconds: float
    connection: str | None = None


@dataclass(frozen=True, slots=True)
class UnitsPlanned(Event):
    """The number of work units that agents process for one of a connection's sources in this run."""

    connection: str
    kind: str
    units: int


@dataclass(frozen=True, slots=True)
class WorkUnitStarted(Event):
    """An agent has started a work unit. `files` is the number of raw files in it."""

    connection: str
    unit: str
    label: str
    files: int


@dataclass(frozen=True, slots=True)
class WorkUnitResumed(Event):
    """A work unit resumes after `steps` steps and `tool_calls` tool calls of an earlier run."""

    connection: str
    unit: str
    steps: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WorkUnitUsage(Event):
    """The model usage of a work unit in this run so far, with the same fields as `usage_so_far`."""

    connection: str
    unit: str
    tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class WorkUnitStep(Event):
    """A step of a unit's agent loop has finished: number `step` of at most `budget`.

    `tool_calls` is the number of tool calls in this run.
    """

    connection: str
    unit: str
    step: int
    budget: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class WorkUnitFinished(Event):
    """A work unit has ended as `done`, `failed`, `quarantined` or `left`; `reason` explains why it was not applied.

    `replayed` is true if an earlier run finished the unit, so that this run did not start it again.
    """

    connection: str
    unit: str
    status: str
    reason: str
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class ReconcileStep(Event):
    """A step of the reconcile loop has finished: number `step` of at most `budget`."""

    step: int
    budget: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class UsageSoFar(Event):
    """The model usage of the run so far: tokens, US dollars at list prices, and calls without a known price."""

    tokens: int
    usd: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """The run is waiting for something external, for at most `seconds` (null if there is no limit)."""

    reason: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CommandFinished(Event):
    """A command that writes a log has finished. This is the last line of the log.

    `run_id` and `status` describe the run that the command started, if any. `error` and `message` are the code and the
    message of its error; both are null at exit code 0.
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
    """A message that is neither progress nor a warning."""

    message: str


Emit = Callable[[Event], None]
"""A function that receives events; it must not raise."""


def ignore_events(event: Event) -> None:
    """Discard the event. Callers that need no progress pass this function."""


def event_of(document: Mapping[str, Any]) -> Event | None:
    """Return the event that `to_json` wrote, without its time `at`, or None if its type is unknown."""
    known = (kind for kind in globals().values() if isinstance(kind, type) and issubclass(kind, Event))
    kind = {event_name(each): each for each in known}.get(str(document.get("event")))
    if kind is None:
        return None
    try:
        return kind(**{name: value for name, value in document.items() if name not in ("event", "at")})
    except TypeError:
        return None
