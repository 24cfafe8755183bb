"""What a running model call says while it runs, and how often.

| event | how often |
|---|---|
| `Resumed` | once, first, where a loop goes on after steps that are kept of an interrupted one |
| `TextDelta` | any number; only top-level text the model writes for a reader |
| `ToolStarted` / `ToolFinished` | once each for a tool call, with the same `call_id` |
| `StepFinished` | once a step, from 1, at most the budget |
| `UsageReported` | once a usage unit, also when the call fails |
| `RateLimitWait` | started, ticks, finished for each wait |
| `Final` | once, when the call succeeds |
| `Failed` | once, when it does not |
| `Done` | once, last, always |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ktx_cli.core import Event


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The loop goes on after `steps` that were done before, with the calls of tools in them."""

    steps: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of text."""

    delta: str


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """The model called a tool; `name` is ours, without a backend's prefix."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """The call is over; `result` is the text the model sees."""

    call_id: str
    name: str
    result: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A step of a loop is over, its tools included."""

    index: int
    budget: int


@dataclass(frozen=True, slots=True)
class UsageReported(Event):
    """A usage fact, for billing; see `ktx_cli.llm.usage.UsageFact`."""

    fact: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RateLimitWait(Event):
    """A wait for the provider: `seconds` are left, `reason` is an error code."""

    state: Literal["started", "tick", "finished"]
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class Final(Event):
    """The call succeeded."""

    run_id: str
    request_id: str
    content: str
    stop_reason: str
    usage: Mapping[str, int]
    ok: bool = True
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The call failed. `error_code` is the executor's; `details["code"]` is that of `ktx_cli.llm.errors`."""

    run_id: str
    request_id: str
    error_code: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done(Event):
    """Nothing follows."""


EmitLlm = Callable[[Event], None]
