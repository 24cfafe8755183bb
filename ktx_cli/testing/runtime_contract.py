"""The contract of a model backend: scripted conversations whose outcomes are the same on every backend.

A backend passes if `RuntimeContract.check` returns for each case of `RuntimeContract().cases`:

    contract = RuntimeContract()
    with ModelServer() as server:
        subject = Subject("mine", "messages", server, make_runtime)
        for case in contract.cases:
            asyncio.run(contract.check(case, subject))

`make_runtime(usage_sink)` returns a runtime whose model calls reach `server` through the backend's real client, with
three attempts per call and no delay between them. `ktx_cli.testing.runtime_subjects` creates the subjects of ktx's own
backends, and `ktx_cli.testing.runtime_cases` has the cases. Nothing here needs pytest.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from pydantic import BaseModel

from ktx_cli.core import Event
from ktx_cli.llm import (
    BETWEEN_PARTS,
    REPAIR_PROMPT,
    Abort,
    CallFacts,
    LlmError,
    LoopResult,
    ObjectResult,
    PromptText,
    RoutedRuntime,
    RunHandle,
    RuntimeTool,
    Step,
    TextResult,
    Usage,
    UsageFact,
    UsageSink,
    parts_of,
)
from ktx_cli.testing.model_script import ANSWER_TOOL, PROTOCOL_TAG, STRUCTURED_TOOL, InOrder, ModelRequest, Reply, says
from ktx_cli.testing.model_server import ModelServer

Family = Literal["messages", "session", "print", "app_server", "generate"]
"""How a backend reaches the model: its own requests, a Claude Code session, one `claude --print` per turn,

Codex's app server, or the Gemini API.
"""

Result = TextResult | ObjectResult[Any] | LoopResult
MakeRuntime = Callable[[UsageSink], RoutedRuntime]

IN_PIECES = ("TextDelta", "RateLimitWait")
"""Kinds of events that may repeat any number of times in a row, and count as one."""

REPAIR_SIGN = REPAIR_PROMPT.partition(".")[0]
ONE_TURN = Usage(100, 20)
"""The default usage of a scripted turn."""

ANSWERS = (STRUCTURED_TOOL, ANSWER_TOOL)
PROTOCOL_RESULT = re.compile(r"\[tool_result (\S+?)( failed)?\]\n(.*?)\n\[/tool_result\]", re.DOTALL)


@dataclass(frozen=True)
class Subject:
    """A backend under test. `model`: the one its runtime is configured with. `executable` and `path` identify the

    program that runs it, for the output.
    """

    name: str
    family: Family
    server: ModelServer
    make_runtime: MakeRuntime
    executable: str = ""
    path: str = ""
    model: str = "claude-sonnet-5-5"


@dataclass(frozen=True, slots=True)
class SeenResult:
    """A tool result in a request, as the model reads it."""

    tool: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """The outcome of a case, all of which is compared.

    `callbacks` are the tool names passed to each call of `on_step_finish`; `seen` the tool results in the last request;
    `ran` what the handlers did, in order; `requests` are counted at the server. `attempts`, `tool_calls`, `failures`
    and `repairs` are None if a call raises and has no facts. `verbatim`: system prompt and prompt were unchanged in
    every request. `effort`: the requested effort levels, without duplicates. `events` are the kinds of events of a run,
    in order, with consecutive text events as one.
    """

    result: Any = None
    stop: str | None = "natural"
    error: str | None = None
    steps: int | None = 1
    callbacks: tuple[tuple[str, ...], ...] = ()
    seen: tuple[SeenResult, ...] = ()
    ran: tuple[str, ...] = ()
    tool_calls: int | None = 0
    failures: int | None = 0
    repairs: int | None = 0
    attempts: int | None = 1
    requests: int = 1
    usage: Usage = ONE_TURN
    verbatim: bool = True
    effort: tuple[str | None, ...] = ("medium",)
    events: tuple[str, ...] = ()


class Stage:
    """The environment of a case's call: the runtime, the tools, and a record of what happened."""

    system = "You keep the shelf."
    prompt: PromptText = "What is on the shelf?"

    def __init__(self, runtime: RoutedRuntime, server: ModelServer) -> None:
        self.runtime = runtime
        self.server = server
        self.abort = Abort()
        self.role = "default"
        self.model = ""
        self.ran: list[str] = []
        self.steps: list[Step] = []
        self.events: list[str] = []

    def on_step(self, step: Step) -> None:
        """Record a finished step."""
        self.steps.append(step)

    async def text(self, **options: Any) -> TextResult:
        """Run a text call."""
        return await self.runtime.generate_text(self.prompt, system=self.system, role=self.role, **options)

    async def object(self, output: type[BaseModel], **options: Any) -> ObjectResult[Any]:
        """Run an object call."""
        return await self.runtime.generate_object(self.prompt, output, system=self.system, role=self.role, **options)

    async def loop(self, tools: Sequence[RuntimeTool], budget: int = 8, **options: Any) -> LoopResult:
        """Run an agent loop."""
        options = {"on_step_finish": self.on_step, **options}
        return await self.runtime.run_agent_loop(
            self.prompt, system=self.system, tools=tools, step_budget=budget, role=self.role, **options
        )

    async def follow(self, handle: RunHandle[Any], *leave_out: type[Event]) -> Any:
        """Read every event of a run, record their kinds except for excluded ones, and return its result."""
        async for event in handle:
            kind = type(event).__name__
            if not isinstance(event, leave_out) and not (kind in IN_PIECES and self.events[-1:] == [kind]):
                self.events.append(kind)
        return await handle.final()


@dataclass(frozen=True)
class ContractCase:
    """One conversation: the model's turns, the call and the expected outcome.

    `repaired_by` answers the requests of the `repair` role. `differs` has the outcome of other families of backends if
    it must differ from `expected`, and `reason` says why; without a reason there is no difference. `any_order`:
    parallel handlers may record in any order, and clients send results as they arrive.
    """

    title: str
    script: tuple[Reply, ...]
    call: Callable[[Stage], Awaitable[Result]]
    expected: Observed
    repaired_by: str = "I cannot fix this."
    differs: Mapping[Family, Observed] = field(default_factory=dict)
    reason: str = ""
    any_order: bool = False
    requirements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.differs) != bool(self.reason):
            raise ValueError(
                f"case {self.title!r}: a difference must have a reason, and only a difference may have one"
            )

    def expectation(self, family: Family) -> Observed:
        """Return the case's expected outcome on a family of backends."""
        return self.differs.get(family, self.expected)


class ContractBroken(AssertionError):
    """A backend broke the contract; the message names every field that differs."""


class RuntimeContract:
    """The cases that any backend must pass. `cases` replaces those of `runtime_cases`."""

    def __init__(self, cases: Sequence[ContractCase] | None = None) -> None:
        if cases is None:
            from ktx_cli.testing.runtime_cases import CASES

            cases = CASES
        self.cases = tuple(cases)

    async def check(self, case: ContractCase, subject: Subject) -> Observed:
        """Run a case and return its outcome. Raises `ContractBroken` if that is not the expected one.

        What may come in any order is returned in the order of the case.
        """
        found, wanted = await observe(case, subject), case.expectation(subject.family)
        compared = (_in_order(found), _in_order(wanted)) if case.any_order else (found, wanted)
        if compared[0] != compared[1]:
            raise ContractBroken(difference(case, subject, *compared))
        return wanted


def _in_order(observed: Observed) -> Observed:
    seen = sorted(observed.seen, key=lambda each: (each.tool, each.text, each.failed))
    return replace(observed, ran=tuple(sorted(observed.ran)), seen=tuple(seen))


def difference(case: ContractCase, subject: Subject, found: Observed, wanted: Observed) -> str:
    """Return the fields in which two observations differ, one per line."""
    pairs = [(one.name, getattr(found, one.name), getattr(wanted, one.name)) for one in fields(Observed)]
    lines = [f"  {name}: {_short(one)}, not {_short(two)}" for name, one, two in pairs if one != two]
    return "\n".join([f"{case.title!r} on {subject.name}:", *lines])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:300]} ... {text[-300:]}"


async def observe(case: ContractCase, subject: Subject) -> Observed:
    """Run a case on a subject and return its outcome."""
    subject.server.play(_script(case))
    facts: list[UsageFact] = []
    async with subject.make_runtime(facts.append) as runtime:
        stage = Stage(runtime, subject.server)
        stage.model = subject.model
        result: Result | None = None
        error: LlmError | None = None
        try:
            result = await case.call(stage)
        except LlmError as failure:
            error = failure
    asked = [request for request in subject.server.model_calls if not _is_repair(request)]
    numbers = result.facts if result is not None else None
    return Observed(
        result=_plain(result),
        stop=result.stop_reason if result is not None else None,
        error=_code(result, error),
        **_counts(numbers),
        callbacks=_callbacks(stage.steps),
        seen=tuple(seen_results(asked[-1])) if asked else (),
        ran=tuple(stage.ran),
        requests=len(subject.server.model_calls),
        usage=sum((fact.usage for fact in facts if fact.role == stage.role), Usage()),
        verbatim=all(is_verbatim(request, stage.system, stage.prompt) for request in asked),
        effort=tuple(dict.fromkeys((request.body.get("output_config") or {}).get("effort") for request in asked)),
        events=tuple(stage.events),
    )


def _script(case: ContractCase) -> Callable[[ModelRequest], Reply]:
    in_order = InOrder(case.script)
    return lambda request: says(case.repaired_by) if _is_repair(request) else in_order(request)


def _is_repair(request: ModelRequest) -> bool:
    return REPAIR_SIGN in request.words


def _plain(result: Result | None) -> Any:
    if isinstance(result, ObjectResult):
        return result.value.model_dump(mode="json")
    return result.text if result is not None else None


def _code(result: Result | None, error: LlmError | None) -> str | None:
    failure = error or (result.error if isinstance(result, LoopResult) else None)
    return failure.code if failure is not None else None


def _counts(facts: CallFacts | None) -> dict[str, Any]:
    return {
        "steps": facts.steps if facts else None,
        "tool_calls": facts.tool_calls if facts else None,
        "failures": facts.tool_failures if facts else None,
        "repairs": facts.repairs if facts else None,
        "attempts": facts.attempts if facts else None,
    }


def _callbacks(steps: Sequence[Step]) -> tuple[tuple[str, ...], ...]:
    """Return the tool names of each step. Raises `ContractBroken` unless steps count from 1 up to the budget."""
    numbers = [step.index for step in steps]
    if numbers != list(range(1, len(steps) + 1)) or any(step.index > step.budget for step in steps):
        raise ContractBroken(f"steps must count from 1 to at most the budget, not {numbers}")
    return tuple(step.tool_names for step in steps)


def seen_results(request: ModelRequest) -> list[SeenResult]:
    """Return every tool result in a request, in order, whatever client wrote the request.

    The model's feedback about an invalid object is not one, though some clients send it as one.
    """
    if PROTOCOL_TAG in request.system:
        texts = "\n".join(text for _, text in _texts(request))
        return [SeenResult(name, text, bool(failed)) for name, failed, text in PROTOCOL_RESULT.findall(texts)]
    names: dict[str, str] = {}
    found: list[SeenResult] = []
    for block in (block for message in request.body.get("messages", ()) for block in _blocks(message)):
        if block.get("type") == "tool_use":
            names[block["id"]] = block["name"].removeprefix("mcp__ktx__")
        elif block.get("type") == "tool_result" and names.get(block["tool_use_id"]) not in ANSWERS:
            text = "\n".join(part.get("text", "") for part in _blocks(block))
            found.append(SeenResult(names.get(block["tool_use_id"], "?"), text, bool(block.get("is_error"))))
    return found


def is_verbatim(request: ModelRequest, system: str, prompt: PromptText) -> bool:
    """Return whether a request contains the system prompt, and the prompt as a user message, character by character.

    A prompt with several parts is in as many blocks, or joined in one. `claude --print` takes a conversation as one
    text, where the prompt comes after `User: `.
    """
    parts = [part.text for part in parts_of(prompt)]
    joined = BETWEEN_PARTS.join(parts)
    texts = [text for role, text in _texts(request) if role == "user"]
    is_there = texts[: len(parts)] == parts or any(
        joined == text or text.startswith(f"User: {joined}") for text in texts
    )
    return system in request.system and is_there


def _texts(request: ModelRequest) -> list[tuple[str, str]]:
    return [
        (message.get("role", ""), block.get("text", ""))
        for message in request.body.get("messages", ())
        for block in _blocks(message)
        if block.get("type") == "text"
    ]


def _blocks(holder: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = holder.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or [] if isinstance(block, Mapping)]
