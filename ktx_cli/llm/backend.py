"""The port inside `llm/`: what a backend gets, what it notes while it works, and what it gives back."""

from __future__ import annotations

import inspect
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ktx_cli.llm.events import EmitLlm, Resumed, StepFinished, TextDelta, ToolFinished, ToolStarted, UsageReported
from ktx_cli.llm.journal import LoopJournal
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import CallFacts, Cost, OnStepFinish, Step, StopReason, ToolInvocation, Usage, total_cost
from ktx_cli.llm.usage import UsageFact, UsageSink

log = logging.getLogger(__name__)

Kind = Literal["text", "object", "loop", "probe"]

OBJECT_ATTEMPTS = 5
"""Answers a model may give to one object call until one fits; what Claude Code allows, kept on every backend."""


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One call for a backend. `schema` and `check` belong to object calls: `check` raises for a value that does not
    fit, with words the model can use. `stream`: somebody reads the answer as it is written. `run_id` and `trace_id`
    are those of a request of the executor's. `journal` keeps the steps of a loop that is to go on when interrupted.
    `label` is what people call the work, for transcripts."""

    kind: Kind
    backend: str
    role: str
    model: str
    prompt: str
    system: str = ""
    tools: Mapping[str, RuntimeTool] = field(default_factory=dict)
    step_budget: int = 1
    stream: bool = False
    schema: Mapping[str, Any] | None = None
    check: Callable[[Any], Any] | None = None
    run_id: str | None = None
    trace_id: str = ""
    journal: LoopJournal | None = None
    label: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended when it did not raise. `value` is the checked object of an object call."""

    text: str
    stop_reason: StopReason = "natural"
    value: Any = None


class CallRecord:
    """What happens in a call, noted as it happens, so that a failed call is counted too.

    `retries` counts how often a backend asked the model again by itself. `isolation`: what a Claude Code process said
    it was started with, after the checks on it.
    """

    def __init__(
        self,
        spec: CallSpec,
        *,
        run_id: str,
        command: str,
        emit: EmitLlm,
        usage_sink: UsageSink,
        on_step_finish: OnStepFinish | None = None,
    ) -> None:
        self.spec = spec
        self.attempt = 0
        self.resolved_model: str | None = None
        self.steps = 0
        self.repairs = 0
        self.attempts = 1
        self.retries = 0
        self.waited = 0.0
        self.usage = Usage()
        self.invocations: list[ToolInvocation] = []
        self.isolation: dict[str, Any] = {}
        self.emit = emit
        self._run_id = run_id
        self._command = command
        self._usage_sink = usage_sink
        self._on_step_finish = on_step_finish
        self._failed_calls: set[str] = set()
        self._started_calls: set[str] = set()
        self._units: list[str] = []
        self._costs: list[Cost] = []

    @property
    def cost(self) -> Cost:
        """What the units took so far."""
        return total_cost(self._costs)

    @property
    def tools_ran(self) -> bool:
        """Say whether a tool was called; a call with tools that ran is never replayed."""
        return bool(self._started_calls)

    @property
    def tool_failures(self) -> int:
        """How many tool calls failed, each counted once."""
        return len(self._failed_calls)

    def resume(self, steps: int, invocations: Iterable[ToolInvocation]) -> None:
        """Note what an interrupted loop did before: its steps and tool calls count, its tokens were reported then."""
        self.steps = steps
        for invocation in invocations:
            self._started_calls.add(invocation.call_id)
            self.invocations.append(invocation)
            if invocation.is_error:
                self._failed_calls.add(invocation.call_id)
        if steps:
            self.emit(Resumed(steps, len(self._started_calls)))

    def wait(self, seconds: float) -> None:
        """Note seconds spent on waits for a slot or a rate limit."""
        self.waited += seconds

    def text_delta(self, delta: str) -> None:
        """Note a piece of the answer."""
        if delta:
            self.emit(TextDelta(delta))

    def tool_started(self, call_id: str, name: str, arguments: Mapping[str, Any] | str) -> None:
        """Note that the model called a tool; the second note of a call is dropped."""
        if call_id not in self._started_calls:
            self._started_calls.add(call_id)
            self.emit(ToolStarted(call_id, name, arguments))

    def tool_finished(self, invocation: ToolInvocation) -> None:
        """Note the end of a tool call."""
        self.tool_started(invocation.call_id, invocation.name, invocation.arguments)
        self.invocations.append(invocation)
        if invocation.is_error:
            self._failed_calls.add(invocation.call_id)
        self.emit(ToolFinished(invocation.call_id, invocation.name, invocation.text, invocation.is_error))

    async def step_finished(self, tool_names: tuple[str, ...] = ()) -> None:
        """Note the end of a step and tell the caller; what the caller raises is logged and goes no further."""
        self.steps += 1
        self.emit(StepFinished(self.steps, self.spec.step_budget))
        if self._on_step_finish is None:
            return
        try:
            waiting = self._on_step_finish(Step(self.steps, self.spec.step_budget, tool_names))
            if inspect.isawaitable(waiting):
                await waiting
        except Exception as error:  # a progress display must not end a run
            log.warning("on_step_finish failed: %s", type(error).__name__, exc_info=error)

    def unit(
        self,
        unit_id: str,
        usage: Usage,
        cost: Cost,
        *,
        complete: bool = True,
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        """Report what a unit took, once; a second report of the unit is dropped. A unit without an id gets one."""
        unit_id = unit_id or f"unit-{uuid.uuid4().hex}"
        if unit_id in self._units:
            return
        self._units.append(unit_id)
        self.usage += usage
        self._costs.append(cost)
        fact = UsageFact(
            self._run_id,
            self.attempt,
            unit_id,
            self.spec.backend,
            self.spec.role,
            self._command,
            self.resolved_model or self.spec.model,
            usage,
            cost,
            complete,
            raw or {},
        )
        self._usage_sink(fact)
        self.emit(UsageReported(fact.to_json()))

    def facts(self, seconds: float) -> CallFacts:
        """Return what the call did so far."""
        return CallFacts(
            self.spec.backend,
            self.spec.role,
            self.spec.model,
            self.resolved_model,
            self.steps,
            len(self._started_calls),
            self.tool_failures,
            self.repairs,
            self.attempts,
            self.usage,
            self.cost,
            seconds,
            tuple(self._units),
        )


Watch = Callable[[CallSpec], EmitLlm | None]
"""Told of a call before it begins; returns who is told its events as they happen, None: nobody. Must not raise."""


def watch_nothing(spec: CallSpec) -> None:
    """Watch no call."""


class Backend(Protocol):
    """A way to run models. Cancelling `run` stops the work and leaves nothing behind."""

    name: str

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Carry out one call; raises `LlmError`."""
        ...

    async def account(self) -> str:
        """Return in a few words where the credentials come from, without asking a model; raises `LlmError`."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return what runs the models: name to version or path."""
        ...

    async def aclose(self) -> None:
        """Free every process and connection."""
        ...
