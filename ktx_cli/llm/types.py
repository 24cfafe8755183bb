"""What goes into a model call and what comes out, in words no backend owns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel

from ktx_cli.core import Record
from ktx_cli.llm.errors import LlmError

Role = Literal["default", "triage", "candidateExtraction", "curator", "reconcile", "repair"]
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
        """All four together."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    json_keys = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens=total")


@dataclass(frozen=True, slots=True)
class Cost(Record):
    """US dollars. `list_price`: an estimate at list prices, also where a subscription pays; `partial`: such a sum, and
    some of what it is about has no price; `unknown`: no figure."""

    usd: float | None = None
    basis: CostBasis = "unknown"


def total_cost(costs: Iterable[Cost]) -> Cost:
    """Return the sum of costs; one without a figure makes it `partial`."""
    figures = [cost.usd for cost in costs]
    known = [usd for usd in figures if usd is not None]
    if not known:
        return Cost()
    return Cost(sum(known), "list_price" if len(known) == len(figures) else "partial")


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a call did and took. `attempts` counts the answers asked of the model beyond tool rounds, from 1;
    `seconds` is wall time without the governor's waits."""

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
    unit_ids: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return {
            "backend": self.backend,
            "role": self.role,
            "model": self.model,
            "resolved_model": self.resolved_model,
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "tool_failures": self.tool_failures,
            "repairs": self.repairs,
            "attempts": self.attempts,
            "usage": self.usage.to_json(),
            "cost": self.cost.to_json(),
            "seconds": round(self.seconds, 3),
        }


@dataclass(frozen=True, slots=True)
class ToolInvocation:
    """One tool call as it happened. `text` is what the model saw; `structured` stays in the process."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str
    text: str
    is_error: bool
    structured: Any = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class TextResult:
    """The answer of a text call."""

    text: str
    facts: CallFacts
    stop_reason: StopReason = "natural"


@dataclass(frozen=True, slots=True)
class ObjectResult(Generic[Output]):
    """The answer of an object call: an instance of the model that was asked for."""

    value: Output
    facts: CallFacts
    stop_reason: StopReason = "natural"


@dataclass(frozen=True, slots=True)
class LoopResult:
    """The end of an agent loop. `error` is set where `stop_reason` is `error`."""

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
class ProbeReport:
    """What a probe found: `account` says where the credentials come from, in a few words, without a secret.

    `isolation`: of a Claude Code process, what it said it was started with; every check on it passed.
    """

    backend: str
    model: str
    resolved_model: str | None
    account: str
    seconds: float
    facts: CallFacts
    versions: Mapping[str, str] = field(default_factory=dict)
    isolation: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "backend": self.backend,
            "model": self.model,
            "resolved_model": self.resolved_model,
            "account": self.account,
            "seconds": round(self.seconds, 3),
            "versions": dict(self.versions),
            "isolation": dict(self.isolation),
            "usage": self.facts.usage.to_json(),
            "cost": self.facts.cost.to_json(),
        }
