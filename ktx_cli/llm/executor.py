"""The run handle: a call as a stream of events and a final result, and the executor that runs requests.

A separate task drives the work. Events are kept for whoever reads the stream; usage facts and the result do not depend
on a reader.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from ktx_cli.core import Event
from ktx_cli.llm.agent_loop import CallRecord, CallSpec
from ktx_cli.llm.errors import LlmError, cancelled
from ktx_cli.llm.port import Abort
from ktx_cli.llm.registry import kind_of
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import CallFacts, Done, EmitLlm, Failed, LoopResult, Usage, UsageReported
from ktx_cli.llm.types import Final as FinalEvent
from ktx_cli.llm.usage import price_of
from ktx_cli.telemetry import is_exporting, know, operation
from ktx_cli.telemetry import record as record_value

Result = TypeVar("Result")

ExecutorCode = Literal[
    "invalid_request", "not_found", "timeout", "aborted", "rate_limit", "internal", "insufficient_credits"
]

_EXECUTOR_CODES: Final[Mapping[str, ExecutorCode]] = {
    "cancelled": "aborted", "max_turns": "timeout", "rate_limit": "rate_limit", "billing": "insufficient_credits",
    "model": "invalid_request", "context": "invalid_request",
}  # fmt: skip
_INVALID_REQUEST: Final = (400, 422)


def executor_code(error: LlmError) -> ExecutorCode:
    """Return the executor's code for an error; codes without an equivalent are `internal`."""
    if error.details.get("subtype") == "error_max_budget_usd":
        return "rate_limit"
    if error.code == "execution" and error.details.get("status") in _INVALID_REQUEST:
        return "invalid_request"
    return _EXECUTOR_CODES.get(error.code, "internal")


class RunHandle(Generic[Result]):
    """A running call: iterate over it for its events, await `final()` for its result, or do both.

    Every iteration yields all events from the first, even after the end. `watch` receives each event as it happens, and
    must not raise.
    """

    def __init__(
        self,
        work: Callable[[EmitLlm], Awaitable[Result]],
        *,
        run_id: str,
        request_id: str,
        abort: Abort | None = None,
        backend: str = "",
        watch: EmitLlm | None = None,
    ) -> None:
        self._watch = watch
        self._error: LlmError | None = None
        self._events: list[Event] = []
        self._readers: set[asyncio.Future[None]] = set()
        self._run_id = run_id
        self._request_id = request_id
        self._abort = abort
        self._backend = backend
        self._task = asyncio.create_task(self._drive(work))
        self._task.add_done_callback(self._settle)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events so far."""
        return tuple(self._events)

    @property
    def error(self) -> LlmError | None:
        """The error of a call that has failed; None if it succeeded or is still running."""
        return self._error

    async def final(self) -> Result:
        """Return the result; raises `LlmError` for a call that failed. Cancelling the wait cancels the call."""
        return await self._task

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._stream()

    async def _stream(self) -> AsyncIterator[Event]:
        read = 0
        while True:
            while read == len(self._events):
                await self._next_event()
            read += 1
            yield self._events[read - 1]
            if isinstance(self._events[read - 1], Done):
                return

    async def _next_event(self) -> None:
        reader = asyncio.get_running_loop().create_future()
        self._readers.add(reader)
        try:
            await reader
        finally:
            self._readers.discard(reader)

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        if self._watch is not None:
            self._watch(event)
        for reader in self._readers:
            if not reader.done():
                reader.set_result(None)

    def _settle(self, task: asyncio.Task[Result]) -> None:
        """End the stream of a call that was cancelled before it began, and retrieve a failure that nobody awaits."""
        if not task.cancelled():
            task.exception()
        elif not self._events:
            self._emit_failure(cancelled(self._backend))
            self._emit(Done())

    async def _drive(self, work: Callable[[EmitLlm], Awaitable[Result]]) -> Result:
        try:
            result = await self._until_aborted(work)
        except LlmError as error:
            self._emit_failure(error)
            raise
        except asyncio.CancelledError:
            self._emit_failure(cancelled(self._backend))
            raise
        except Exception as error:
            self._emit_failure(LlmError(type(error).__name__, code="execution"))
            raise
        finally:
            self._emit(Done())
        return result

    async def _until_aborted(self, work: Callable[[EmitLlm], Awaitable[Result]]) -> Result:
        if self._abort is None:
            return self._finish(await work(self._emit))
        if self._abort.thrown:
            raise cancelled(self._backend)
        running = asyncio.ensure_future(work(self._emit))
        thrown = asyncio.ensure_future(self._abort.wait())
        try:
            await asyncio.wait({running, thrown}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return self._finish(running.result())
            raise cancelled(self._backend)
        finally:
            for task in (running, thrown):
                task.cancel()
            await asyncio.gather(running, thrown, return_exceptions=True)

    def _finish(self, result: Result) -> Result:
        error = getattr(result, "error", None)
        if isinstance(error, LlmError):
            self._emit_failure(error)
            return result
        facts: CallFacts = getattr(result, "facts")  # noqa: B009 - every result has them
        text = getattr(result, "text", "")
        reason = getattr(result, "stop_reason", "natural")
        self._emit(FinalEvent(self._run_id, self._request_id, text, reason, facts.usage.to_json()))
        return result

    def _emit_failure(self, error: LlmError) -> None:
        self._error = error
        details: dict[str, Any] = {**error.details, "code": error.code}
        self._emit(Failed(self._run_id, self._request_id, executor_code(error), details))


@dataclass(frozen=True, slots=True)
class Message:
    """One message in a request."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run: its messages, the model, and the ids of the tools it may use."""

    run_id: str
    request_id: str
    messages: tuple[Message, ...]
    tool_ids: tuple[str, ...] = ()
    model: str | None = None
    role: str = "default"
    step_budget: int = 20
    abort: Abort | None = None
    trace_id: str | None = None


@dataclass(frozen=True, slots=True)
class RunFinal:
    """The outcome of a run."""

    ok: bool
    run_id: str
    request_id: str
    content: str
    usage: Mapping[str, int]
    error_code: ExecutorCode | None = None


def render_messages(messages: Sequence[Message]) -> tuple[str, str]:
    """Return the system prompt and the prompt: one user message unchanged, several messages with their speakers
    named.
    """
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    spoken = [message for message in messages if message.role != "system"]
    if len(spoken) == 1:
        return system, spoken[0].content
    return system, "\n\n".join(f"{message.role.capitalize()}: {message.content}" for message in spoken)


async def settled(request: RunRequest, handle: RunHandle[LoopResult]) -> RunFinal:
    """Wait for a run and return its outcome, even if it was aborted or could not begin."""
    try:
        return run_final(request, await handle.final())
    except LlmError as error:
        usage: dict[str, int] = {}
        for event in handle.events:
            if isinstance(event, UsageReported):
                usage = {name: usage.get(name, 0) + event.fact[name] for name in Usage().to_json()}
        return RunFinal(False, request.run_id, request.request_id, "", usage, executor_code(error))


def run_final(request: RunRequest, result: LoopResult) -> RunFinal:
    """Return the outcome of a run from the result of its loop: an exhausted budget is a `timeout`."""
    code: ExecutorCode | None = "timeout" if result.stop_reason == "budget" else None
    if result.error is not None:
        code = executor_code(result.error)
    usage = result.facts.usage.to_json()
    return RunFinal(code is None, request.run_id, request.request_id, result.text, usage, code)


def chosen_tools(request: RunRequest, tools: Mapping[str, RuntimeTool]) -> list[RuntimeTool]:
    """Return exactly the tools that a request names; raises `ValueError` for an unknown one."""
    missing = [name for name in request.tool_ids if name not in tools]
    if missing:
        raise ValueError(f"there is no tool {missing[0]!r}")
    return [tools[name] for name in request.tool_ids]


@contextlib.contextmanager
def span(spec: CallSpec, record: CallRecord) -> Iterator[None]:
    """Wrap a call in a span; does nothing in a process without OpenTelemetry.

    The span goes where ktx exports telemetry, or else to the tracer of a program that uses ktx as a library. Only the
    code of an error is recorded: OpenTelemetry's own record of an exception would contain the provider's message.
    """
    if is_exporting():
        with _exported(spec, record):
            yield
        return
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import trace

    name = _operation_name(spec)
    with trace.get_tracer("ktx").start_as_current_span(
        f"{name} {spec.model}", kind=trace.SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, LlmError) else type(error).__name__
            current.set_attribute("error.type", code)
            current.set_status(trace.StatusCode.ERROR, code)
            raise
        finally:
            for key, value in _attributes(spec, record).items():
                current.set_attribute(key, value)


@contextlib.contextmanager
def _exported(spec: CallSpec, record: CallRecord) -> Iterator[None]:
    """Wrap a call in a span of ktx's export, and record its tokens and its cost."""
    known = _attributes(spec, record)
    for key in ("ktx.backend", "ktx.role", "gen_ai.provider.name", "gen_ai.request.model"):
        know(key, [known[key]])
    with operation(_operation_name(spec), kind="client", metric="gen_ai.client.operation.duration") as current:
        try:
            yield
        finally:
            if record.resolved_model and (record.resolved_model == spec.model or price_of(record.resolved_model)):
                know("gen_ai.response.model", [record.resolved_model])
            current.attributes.update(_attributes(spec, record))
            for kind in ("input", "output", "cache_read", "cache_write"):
                if tokens := getattr(record.usage, f"{kind}_tokens"):
                    counted = {**known, "gen_ai.token.type": kind}
                    record_value("gen_ai.client.token.usage", tokens, counted)
            usd = record.facts(0.0).cost.usd
            if usd:
                record_value("ktx.model.cost", usd, known)


def _operation_name(spec: CallSpec) -> str:
    return "invoke_agent" if spec.kind == "loop" else "chat"


def _attributes(spec: CallSpec, record: CallRecord) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": _operation_name(spec),
        "gen_ai.provider.name": kind_of(spec.backend).telemetry,
        "gen_ai.request.model": spec.model,
        "gen_ai.response.model": record.resolved_model or spec.model,
        "gen_ai.usage.input_tokens": record.usage.input_tokens,
        "gen_ai.usage.output_tokens": record.usage.output_tokens,
        "ktx.backend": spec.backend,
        "ktx.role": spec.role,
        "ktx.steps": record.steps,
        "ktx.tool_failures": record.tool_failures,
        **({"ktx.trace_id": spec.trace_id} if spec.trace_id else {}),
    }
