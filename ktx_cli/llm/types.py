"""Backend-independent inputs, results and events of a model call, and how often each event occurs.

| event | how often |
|---|---|
| `Resumed` | once, first, if a loop resumes after the stored steps of an interrupted one |
| `TextDelta` | any number; only top-level text that the model writes for a reader |
| `ToolStarted` / `ToolFinished` | once each per tool call, with the same `call_id` |
| `StepFinished` | once per step, from 1, at most the budget |
| `UsageReported` | once per usage unit, also if the call fails |
| `RateLimitWait` | started, ticks, finished for each wait |
| `Final` | once, if the call succeeds |
| `Failed` | once, if it fails |
| `Done` | once, last, always |
"""

from __future__ import annotations

import operator
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from ktx_cli.core import Event, Record
from ktx_cli.llm.errors import LlmError

StopReason = Literal["natural", "budget", "error"]
CostBasis = Literal["list_price", "partial", "unknown"]
Output = TypeVar("Output", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Usage(Record):
    """Tokens. `input_tokens` are those neither read from a cache nor written to one."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def total(self) -> int:
        """The sum of all four counts."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(operator.add, astuple(self), astuple(other)))

    json_keys = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens=total")


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """US dollars. `list_price`: an estimate at list prices, also if a subscription pays; `partial`: such a sum, without

    the parts that have no price; `unknown`: no figure.
    """

    usd: float | None = None
    basis: CostBasis = "unknown"


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of a prompt. `cached`: other calls begin with the same text up to its end, so a provider
    should cache it.
    """

    text: str
    cached: bool = False


PromptText = str | Sequence[PromptPart]
"""A prompt: a text, or its parts in order, which every backend joins to the same text."""

BETWEEN_PARTS = "\n\n"


def parts_of(prompt: PromptText) -> tuple[PromptPart, ...]:
    """Return the parts of a prompt that contain text."""
    parts = (PromptPart(prompt),) if isinstance(prompt, str) else prompt
    return tuple(part for part in parts if part.text.strip())


def encodable(value: Any) -> Any:
    """Return a value without lone surrogates, which a model or a tool can write but UTF-8 cannot represent."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [encodable(one) for one in value]
    if isinstance(value, dict):
        return {encodable(key): encodable(one) for key, one in value.items()}
    return value


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs, `partial` if one of them is unknown."""
    figures = [cost.usd for cost in costs]
    known = [usd for usd in figures if usd is not None]
    if not known:
        return Cost()
    return Cost(sum(known), "list_price" if len(known) == len(figures) else "partial")


_ROUNDED_SECONDS = property(lambda timed: round(timed.seconds, 3))
"""The `seconds` of a result, rounded to the millisecond."""


@dataclass(frozen=True, slots=True)
class CallFacts(Record):
    """What a call did and used. `attempts` counts the requested answers beyond tool rounds, from 1;

    `seconds` is wall time without the governor's waits.
    """

    backend: str
    role: str
    model: str
    resolved_model: str | None = None
    steps: int = 0
    tool_calls: int = 0
    tool_failures: int = 0
    repairs: int = 0
    attempts: int = 1
    usage: Usage = Usage()
    cost: Cost = Cost()
    seconds: float = 0.0

    json_keys = (
        "backend", "role", "model", "resolved_model", "steps", "tool_calls", "tool_failures", "repairs", "attempts",
        "usage", "cost", "seconds=rounded_seconds",
    )  # fmt: skip

    rounded_seconds = _ROUNDED_SECONDS


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One executed tool call. `text` is what the model saw; `structured` stays in the process."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str
    text: str
    is_error: bool
    structured: Any = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TextResult:
    """The answer to a text call."""

    text: str
    facts: CallFacts
    stop_reason: StopReason = "natural"


@dataclass(frozen=True, slots=True)
class ObjectResult(Generic[Output]):
    """The answer to an object call: an instance of the requested model."""

    value: Output
    facts: CallFacts
    stop_reason: StopReason = "natural"


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The result of an agent loop. `error` is set if `stop_reason` is `error`."""

    text: str
    stop_reason: StopReason
    facts: CallFacts
    invocations: tuple[ToolInvocation, ...] = ()
    error: LlmError | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A finished step of a loop: `index` counts from 1 to at most `budget`."""

    index: int
    budget: int
    tool_names: tuple[str, ...] = ()


OnStepFinish = Callable[[Step], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class ProbeReport(Record):
    """The report of a probe: `account` briefly says where the credentials come from, without any secret.

    `isolation`: for a local session, what its process reported at its start; every check on it passed.
    """

    backend: str
    model: str
    resolved_model: str | None
    account: str
    seconds: float
    facts: CallFacts
    versions: Mapping[str, str] = field(default_factory=dict)
    isolation: Mapping[str, Any] = field(default_factory=dict)

    json_keys = (
        "backend", "model", "resolved_model", "account", "seconds=rounded_seconds", "versions", "isolation",
        "usage=facts.usage", "cost=facts.cost",
    )  # fmt: skip
    rounded_seconds = _ROUNDED_SECONDS


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The loop resumes after `steps` earlier steps with the tool calls in them."""

    steps: int
    tool_calls: int


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of text."""

    delta: str


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """The model called a tool; `name` is ktx's name for it, without a backend's prefix."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class ToolFinished(Event):
    """The call is over; `result` is the text that the model sees."""

    call_id: str
    name: str
    result: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class StepFinished(Event):
    """A step of a loop is over, including its tools."""

    index: int
    budget: int


@dataclass(frozen=True, slots=True)
class UsageReported(Event):
    """A usage fact, for billing; see `ktx_cli.llm.usage.UsageFact`."""

    fact: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RateLimitWait(Event):
    """A wait for the provider, with `seconds` remaining; `reason` is an error code."""

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
    """The stream is over."""


EmitLlm = Callable[[Event], None]
