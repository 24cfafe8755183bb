"""Usage facts: what each unit of model work took, with a key that counts it once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.llm.types import Cost, Usage

ORIGINS: Final[Mapping[str, tuple[str, str]]] = {
    "anthropic": ("anthropic_api", "messages"),
    "vertex": ("anthropic_api", "messages"),
    "gateway": ("anthropic_api", "messages"),
    "claude-code": ("anthropic_sdk", "claude_sdk"),
    "claude-cli": ("claude_cli", "claude_print"),
}
"""`source` and `executor_type` of a backend's facts."""


@dataclass(frozen=True, slots=True)
class UsageFact:
    """The tokens and the cost of one unit: a session of Claude Code, a message of the API.

    `complete` is False when the unit ended before the provider said what it took.
    """

    run_id: str
    attempt: int
    unit_id: str
    backend: str
    role: str
    command: str
    model: str | None
    usage: Usage
    cost: Cost
    complete: bool = True
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The system that counted."""
        return ORIGINS[self.backend][0]

    @property
    def executor_type(self) -> str:
        """What ran the unit."""
        return ORIGINS[self.backend][1]

    @property
    def idempotency_key(self) -> str:
        """`run_id/attempt/unit_id`: equal for every report of the same unit."""
        return f"{self.run_id}/{self.attempt}/{self.unit_id}"

    def to_json(self) -> dict[str, Any]:
        """Return the fact as plain values."""
        return {
            "run_id": self.run_id,
            "attempt": self.attempt,
            "usage_unit_id": self.unit_id,
            "source": self.source,
            "executor_type": self.executor_type,
            "backend": self.backend,
            "role": self.role,
            "command": self.command,
            "model": self.model,
            **self.usage.to_json(),
            "cost_usd": self.cost.usd,
            "cost_basis": self.cost.basis,
            "complete": self.complete,
            "raw": dict(self.raw),
        }


UsageSink = Callable[[UsageFact], None]


def ignore_usage(fact: UsageFact) -> None:
    """Drop the fact."""
