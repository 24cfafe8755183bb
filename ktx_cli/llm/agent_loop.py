"""Runs agent loops on turn-based models and journals their steps.

An interrupted loop resumes after its last stored tool result.

Backends whose history ktx itself holds keep a journal: those of `OwnLoopBackend`, `claude-cli`, and `codex`,
which takes a history. Sessions of Claude Code have none: such a loop starts again.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import inspect
import json
import logging
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pydantic import ValidationError

from ktx_cli.core import ResultWarning
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.tools import RuntimeTool, invoke, parse_arguments, place
from ktx_cli.llm.types import (
    CallFacts,
    Cost,
    EmitLlm,
    OnStepFinish,
    PromptPart,
    Resumed,
    Step,
    StepFinished,
    StopReason,
    TextDelta,
    ToolFinished,
    ToolInvocation,
    ToolStarted,
    Usage,
    UsageReported,
    total_cost,
)
from ktx_cli.llm.usage import UsageFact, UsageSink
from ktx_cli.project import EffortLevel, KtxConfig

if TYPE_CHECKING:
    from ktx_cli.llm.governor import Governor

StoredStep = Mapping[str, Any]
"""A finished step as JSON: its model turns and tool results."""


class LoopJournal(Protocol):
    """Stores the steps of one loop. `key` identifies the loop: its model, prompts and tools."""

    def load(self, key: str) -> Sequence[StoredStep]:
        """Return the stored steps, oldest first; none if they belong to a loop with another key."""
        ...

    async def append(self, key: str, step: StoredStep) -> None:
        """Store a step; return only once it would survive a killed process."""
        ...


def key_of(spec: CallSpec) -> str:
    """Return a key that identifies a loop, so that steps stored for another loop are never resumed."""
    tools = {name: (tool.description, tool.input_schema()) for name, tool in sorted(spec.tools.items())}
    final_text = [spec.backend, spec.model, spec.system, spec.prompt, tools]
    return hashlib.sha256(json.dumps(final_text, sort_keys=True).encode()).hexdigest()


def step_to_json(entries: Iterable[Entry]) -> StoredStep:
    """Return a step as JSON, without structured tool results, which stay in the process."""
    return {"entries": [_entry_to_json(entry) for entry in entries]}


def entries_of(step: StoredStep) -> list[Entry]:
    """Return the history entries that a stored step added."""
    return [
        Entry(
            entry["kind"],
            entry["text"],
            entry["turn"] and _turn(entry["turn"]),
            tuple(ToolInvocation(**result) for result in entry["results"]),
        )
        for entry in step["entries"]
    ]


def taken_by(steps: Iterable[StoredStep]) -> tuple[Usage, Cost]:
    """Return the usage of the turns in stored steps."""
    turns = [entry.turn for step in steps for entry in entries_of(step) if entry.turn is not None]
    return sum((turn.usage for turn in turns), Usage()), total_cost(turn.cost for turn in turns)


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    names = ("call_id", "name", "arguments", "text", "is_error")
    return {
        "kind": entry.kind,
        "text": entry.text,
        "turn": None if entry.turn is None else dataclasses.asdict(entry.turn),
        "results": [{name: getattr(result, name) for name in names} for result in entry.results],
    }


def _turn(stored: Mapping[str, Any]) -> ModelTurn:
    calls = tuple(ToolCall(**call) for call in stored["calls"])
    return ModelTurn(**{**stored, "calls": calls, "usage": Usage(**stored["usage"]), "cost": Cost(**stored["cost"])})


log = logging.getLogger(__name__)

Kind = Literal["text", "object", "loop", "probe"]

OBJECT_ATTEMPTS = 5
"""Maximum number of attempts per object call; Claude Code's own limit, used for every backend."""


@dataclass(frozen=True, slots=True)
class CallSpec:
    """One call to a backend. `schema` and `check` belong to object calls: `check` raises for a value that does not

    fit, with a message that the model can use. `stream`: somebody reads the answer while it is written. `run_id` and
    `trace_id` are those of a request of the executor. `journal` stores the steps of a resumable loop. `label` is the
    name of the work in transcripts. `parts`: the parts of the prompt, empty if none of them is cached. `effort`: how
    much the model thinks, None if it cannot be set.
    """

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
    parts: tuple[PromptPart, ...] = ()
    effort: EffortLevel | None = None

    @property
    def names(self) -> CallNames:
        """The backend, model and role, as included in the call's errors."""
        return CallNames(backend=self.backend, model=self.model, role=self.role)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a call that did not raise. `value` is the checked object of an object call."""

    text: str
    stop_reason: StopReason = "natural"
    value: Any = None


class CallRecord:
    """Records the events of a call as they happen, so that a failed call is counted too.

    `retries` counts how often a backend asked the model again by itself. `isolation`: what a Claude Code process
    reported at its start, after the checks on it.
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
    def tools_ran(self) -> bool:
        """Return whether a tool was called; a call is never replayed once its tools have run."""
        return bool(self._started_calls)

    @property
    def tool_failures(self) -> int:
        """The number of failed tool calls, each counted once."""
        return len(self._failed_calls)

    def resume(self, steps: int, invocations: Iterable[ToolInvocation]) -> None:
        """Record an interrupted loop's earlier work: its steps and tool calls count, but its tokens were already
        reported.
        """
        self.steps = steps
        for invocation in invocations:
            self._started_calls.add(invocation.call_id)
            self.invocations.append(invocation)
            if invocation.is_error:
                self._failed_calls.add(invocation.call_id)
        if steps:
            self.emit(Resumed(steps, len(self._started_calls)))

    def wait(self, seconds: float) -> None:
        """Record seconds spent waiting for a slot or a rate limit."""
        self.waited += seconds

    def text_delta(self, delta: str) -> None:
        """Record a piece of the answer."""
        if delta:
            self.emit(TextDelta(delta))

    def tool_started(self, call_id: str, name: str, arguments: Mapping[str, Any] | str) -> None:
        """Record that the model called a tool; a second record of the same call is dropped."""
        if call_id not in self._started_calls:
            self._started_calls.add(call_id)
            self.emit(ToolStarted(call_id, name, arguments))

    def tool_finished(self, invocation: ToolInvocation) -> None:
        """Record the end of a tool call."""
        self.tool_started(invocation.call_id, invocation.name, invocation.arguments)
        self.invocations.append(invocation)
        if invocation.is_error:
            self._failed_calls.add(invocation.call_id)
        self.emit(ToolFinished(invocation.call_id, invocation.name, invocation.text, invocation.is_error))

    async def step_finished(self, tool_names: tuple[str, ...] = ()) -> None:
        """Record the end of a step and call `on_step_finish`; an exception in the callback is only logged."""
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
        self, unit_id: str, usage: Usage, cost: Cost, *, complete: bool = True, raw: Mapping[str, Any] | None = None
    ) -> None:
        """Report a unit's usage once; a second report for the same unit is dropped. A unit without an id gets one."""
        unit_id = unit_id or f"unit-{uuid.uuid4().hex}"
        if unit_id in self._units:
            return
        self._units.append(unit_id)
        self.usage += usage
        self._costs.append(cost)
        spec, model = self.spec, self.resolved_model or self.spec.model
        calls = (self._run_id, self.attempt, unit_id, spec.backend, spec.role, self._command, model)
        fact = UsageFact(*calls, usage, cost, complete, raw or {})
        self._usage_sink(fact)
        self.emit(UsageReported(fact.to_json()))

    def facts(self, seconds: float) -> CallFacts:
        """Return the facts about the call so far."""
        return CallFacts(
            **self.spec.names,
            resolved_model=self.resolved_model,
            steps=self.steps,
            tool_calls=len(self._started_calls),
            tool_failures=len(self._failed_calls),
            repairs=self.repairs,
            attempts=self.attempts,
            usage=self.usage,
            cost=total_cost(self._costs),
            seconds=seconds,
        )


Watch = Callable[[CallSpec], EmitLlm | None]
"""Called with a call before it begins; returns a function that receives its events, or None. Must not raise."""


def watch_nothing(spec: CallSpec) -> None:
    """Watch no call."""


class Backend(Protocol):
    """Runs model calls. Cancelling `run` stops the work and leaves nothing behind."""

    name: str

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Carry out one call; raises `LlmError`."""
        ...

    async def account(self) -> str:
        """Return a short description of the credentials' origin, without calling a model; raises `LlmError`."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Return the software that runs the models, as name to version or path."""
        ...

    async def aclose(self) -> None:
        """Free every process and connection."""
        ...


MAX_PAUSES: Final = 10
"""Maximum number of times to resume a turn that the provider paused."""

TurnEnd = Literal["end", "tools", "pause", "max_tokens", "refusal", "context"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the model; `arguments` is a string if it is not valid JSON."""

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One answer. `raw` is what the backend needs to repeat it in the history; `answers` counts the model's answers

    until `value` fitted, if the backend asks again by itself.
    """

    text: str
    calls: tuple[ToolCall, ...]
    end: TurnEnd
    usage: Usage
    cost: Cost
    unit_id: str
    resolved_model: str | None
    raw: Any = None
    value: Any = None
    answers: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the history: a user message, a model turn, or the results of its tool calls.

    `parts`: those of the prompt, if a call begins with several; they are not stored, because the call has them.
    """

    kind: Literal["user", "turn", "results"]
    text: str = ""
    turn: ModelTurn | None = None
    results: tuple[ToolInvocation, ...] = ()
    parts: tuple[PromptPart, ...] = ()


@dataclass(slots=True)
class Conversation:
    """A conversation so far."""

    system: str
    history: list[Entry] = field(default_factory=list)


class TurnModel(Protocol):
    """A model that answers one turn at a time."""

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Return the next turn; raises `LlmError`. A failed turn leaves nothing behind."""
        ...


Retried = Callable[[Callable[[int], Awaitable[ModelTurn]], CallRecord], Awaitable[ModelTurn]]
"""Runs one turn with the governor's slots, waits and retries."""

Repair = Callable[[str], Awaitable[str]]
"""Asks the `repair` role's model one question."""


async def run_own_loop(
    model: TurnModel, spec: CallSpec, record: CallRecord, *, retried: Retried, repair: Repair | None = None
) -> Outcome:
    """Run a call on a turn-based model."""
    conversation = Conversation(spec.system, [Entry("user", spec.prompt, parts=spec.parts)])
    if spec.kind == "object":
        return await _object(model, spec, record, conversation, retried)
    key = "" if spec.journal is None else key_of(spec)
    ended = _go_on(spec, key, record, conversation)
    if ended is not None:
        return ended
    while record.steps < spec.step_budget:
        begun = len(conversation.history)
        turn = await _next_turn(model, spec, record, conversation, retried)
        results = await _run_calls(turn, spec, record, repair) if turn.calls else ()
        if results:
            conversation.history.append(Entry("results", results=results))
        if spec.journal is not None:
            await spec.journal.append(key, step_to_json(conversation.history[begun:]))
        await record.step_finished(tuple(call.name for call in turn.calls))
        if not turn.calls:
            return Outcome(turn.text)
    if spec.kind == "loop":
        return Outcome("", "budget")
    raise llm_error("max_turns", **spec.names)


@dataclass
class Shared:
    """State that all backends of a runtime share."""

    config: KtxConfig
    project_dir: Path
    environ: Mapping[str, str]
    governor: Governor
    run_id: str
    command: str
    usage_sink: UsageSink
    warn: Callable[[ResultWarning], None]
    watch: Watch = watch_nothing
    repair: Callable[[str], Awaitable[str]] = field(init=False)

    async def retried(self, ask: Callable[[int], Awaitable[ModelTurn]], record: CallRecord) -> ModelTurn:
        """Run one turn in a slot, with retries."""
        return await self.governor.call(
            ask,
            notify=record.emit,
            may_retry=lambda: record.spec.kind != "probe",
            add_wait=record.wait,
            backend=record.spec.backend,
        )


class OwnLoopBackend(ABC):
    """A backend that only asks for turns; ktx runs the loop around them."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name = name
        self._config = shared.config
        self._retried = shared.retried
        self._repair = shared.repair
        self._observe = shared.governor.observe

    @abstractmethod
    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn; see `TurnModel`."""

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Run one call."""
        repair = self._repair if spec.role != "repair" else None
        return await run_own_loop(self, spec, record, retried=self._retried, repair=repair)


def _go_on(spec: CallSpec, key: str, record: CallRecord, conversation: Conversation) -> Outcome | None:
    """Resume a loop where its journal ends; return its outcome if it had already ended."""
    steps = [] if spec.journal is None else [entries_of(step) for step in spec.journal.load(key)]
    entries = [entry for step in steps for entry in step]
    conversation.history += entries
    record.resume(len(steps), (result for entry in entries for result in entry.results))
    last = entries[-1].turn if entries else None
    return None if last is None or last.calls else Outcome(final_text(entries))


def final_text(entries: Sequence[Entry]) -> str:
    """Return the text of the last answer, which has several turns if it was paused."""
    texts: list[str] = []
    for entry in reversed(entries):
        if entry.turn is None or entry.turn.calls:
            break
        texts.append(entry.turn.text)
    return "".join(reversed(texts))


async def _next_turn(
    model: TurnModel, spec: CallSpec, record: CallRecord, conversation: Conversation, retried: Retried
) -> ModelTurn:
    async def ask(attempt: int) -> ModelTurn:
        record.attempt = attempt
        record.attempts += 1 if attempt else 0
        return await model.turn(spec, conversation, record)

    final_text = ""
    for _ in range(MAX_PAUSES + 1):
        turn = await retried(ask, record)
        record.resolved_model = turn.resolved_model or record.resolved_model
        record.unit(turn.unit_id, turn.usage, turn.cost)
        _check_end(turn, spec)
        conversation.history.append(Entry("turn", turn=turn))
        final_text += turn.text
        if turn.end != "pause":
            return replace(turn, text=final_text)
    message = f"the model `{spec.model}` paused {MAX_PAUSES + 1} times and did not finish its turn"
    raise llm_error("execution", **spec.names, message=message)


def _check_end(turn: ModelTurn, spec: CallSpec) -> None:
    if turn.end in ("refusal", "context"):
        raise llm_error(turn.end, **spec.names)
    if turn.end == "max_tokens":
        message = f"the answer from the model `{spec.model}` was cut off at its limit"
        raise llm_error("execution", **spec.names, message=message)


async def _object(
    model: TurnModel, spec: CallSpec, record: CallRecord, conversation: Conversation, retried: Retried
) -> Outcome:
    """Ask until an answer fits the schema, sending the errors in each answer as the next question."""
    if spec.check is None:
        raise ValueError("an object call requires a check")
    for attempt in range(OBJECT_ATTEMPTS):
        record.attempts += 1 if attempt else 0
        turn = await _next_turn(model, spec, record, conversation, retried)
        record.attempts += turn.answers - 1
        for _ in range(turn.answers):
            await record.step_finished()
        try:
            return Outcome(turn.text, value=spec.check(_value(turn)))
        except (ValidationError, ValueError) as error:
            conversation.history.append(_correction(turn, error))
        except RecursionError:
            conversation.history.append(_correction(turn, ValueError("the answer is nested too deeply")))
    raise llm_error("structured_output", **spec.names)


def _value(turn: ModelTurn) -> Any:
    """Return the result of a turn: its value, the arguments of its single call, or its text parsed as JSON."""
    if turn.value is not None:
        return turn.value
    if turn.calls:
        return parse_arguments(turn.calls[0].arguments)
    return json.loads(turn.text.strip().removeprefix("```json").removeprefix("```").removesuffix("```"))


def _correction(turn: ModelTurn, error: ValidationError | ValueError) -> Entry:
    text = f"The answer does not fit the schema.\n{problems(error)}\nGive the whole object again."
    if not turn.calls:
        return Entry("user", text)
    results = tuple(ToolInvocation(call.call_id, call.name, call.arguments, text, True) for call in turn.calls)
    return Entry("results", results=results)


def problems(error: ValidationError | ValueError) -> str:
    """Return the validation errors for a value, one per line, without the value itself."""
    if isinstance(error, ValidationError):
        return "\n".join(f"- {place(one['loc'])}: {one['msg']}" for one in error.errors(include_url=False))
    return f"- {error}"


async def _run_calls(
    turn: ModelTurn, spec: CallSpec, record: CallRecord, repair: Repair | None
) -> tuple[ToolInvocation, ...]:
    """Run the calls of one turn: read-only tools concurrently, everything else in order.

    A single call with invalid arguments is worth a question to the repair model. For several, the model reads all
    errors at once: it made the same mistake each time, and a question for each would cost more than a turn.
    """
    wrong = sum(
        call.name in spec.tools and _argument_problem(spec.tools[call.name], call.arguments) is not None
        for call in turn.calls
    )
    wanted = [await _repaired(call, spec, record, repair if wrong == 1 else None) for call in turn.calls]
    for call in wanted:
        record.tool_started(call.call_id, call.name, call.arguments)

    def run(call: ToolCall) -> Awaitable[ToolInvocation]:
        return invoke(spec.tools, call.name, call.arguments, call.call_id)

    if all(spec.tools[call.name].read_only for call in wanted if call.name in spec.tools):
        done = tuple(await asyncio.gather(*map(run, wanted)))
    else:
        done = tuple([await run(call) for call in wanted])
    for invocation in done:
        record.tool_finished(invocation)
    return done


REPAIR_PROMPT: Final = """\
A tool was called with arguments that do not fit. Answer with the corrected arguments alone, as one JSON object.

Tool: {name}
Schema of its arguments:
{schema}
Arguments as they came:
{arguments}
What is wrong:
{problem}
"""


async def _repaired(call: ToolCall, spec: CallSpec, record: CallRecord, repair: Repair | None) -> ToolCall:
    """Return the call with valid arguments if the repair model can fix them; otherwise unchanged."""
    tool = spec.tools.get(call.name)
    problem = None if tool is None else _argument_problem(tool, call.arguments)
    if tool is None or problem is None or repair is None:
        return call
    question = REPAIR_PROMPT.format(
        name=tool.name,
        schema=json.dumps(tool.input_schema(), sort_keys=True),
        arguments=_shown(call.arguments),
        problem=problem,
    )
    try:
        fixed = first_object(await repair(question))
    except LlmError as error:  # without a repair, the model reads the error and calls again
        if error.code == "cancelled":
            raise
        log.warning("could not repair a call to %s: %s", tool.name, error.message)
        return call
    if fixed is None or _argument_problem(tool, fixed) is not None:
        return call
    record.repairs += 1
    return ToolCall(call.call_id, call.name, fixed)


def _shown(arguments: Mapping[str, Any] | str) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return json.dumps(dict(arguments), sort_keys=True)
    except RecursionError:
        return "(nested too deeply)"


def _argument_problem(tool: RuntimeTool, arguments: Mapping[str, Any] | str) -> str | None:
    try:
        tool.input_model.model_validate(parse_arguments(arguments))
    except (ValidationError, ValueError) as error:
        return problems(error)
    return None


def first_object(text: str) -> dict[str, Any] | None:
    """Return the first JSON object in a text, None if there is none."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            start = text.find("{", start + 1)
            continue
        except RecursionError:
            return None
        return value if isinstance(value, dict) else None
    return None
