"""The runtime: routes each call to the backend of its role or model, with slots, retries, events and billing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ktx_cli.core import Event, KtxError, ResultWarning, new_run_id
from ktx_cli.llm.agent_loop import Backend, CallRecord, CallSpec, LoopJournal, Outcome, Shared, Watch, watch_nothing
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.executor import RunHandle, RunRequest, chosen_tools, render_messages, span
from ktx_cli.llm.governor import Governor, OnWait, ignore_wait
from ktx_cli.llm.port import Abort
from ktx_cli.llm.registry import find_kind, kind_of
from ktx_cli.llm.schemas import object_schema
from ktx_cli.llm.settings import ModelRef, effort_of, model_for, unsupported
from ktx_cli.llm.tools import RuntimeTool, check_tools
from ktx_cli.llm.types import (
    BETWEEN_PARTS,
    EmitLlm,
    LoopResult,
    ObjectResult,
    OnStepFinish,
    Output,
    ProbeReport,
    PromptText,
    TextResult,
    parts_of,
)
from ktx_cli.llm.usage import UsageSink, ignore_usage
from ktx_cli.project import KtxConfig, imported

Result = TypeVar("Result")

PROBE_SECONDS: Final = 60.0
PROBE_PROMPT: Final = "Reply with exactly: ok"


class RoutedRuntime:
    """The only implementation of the port. Backends are created for the first call that needs them."""

    def __init__(self, shared: Shared, make: Callable[[str, Shared], Backend]) -> None:
        self.shared = shared
        self._make = make
        self._backends: dict[str, Backend] = {}
        shared.repair = self._repair

    @property
    def governor(self) -> Governor:
        """The pacing that all calls share."""
        return self.shared.governor

    def backend(self, name: str) -> Backend:
        """Return the backend with this name, created once."""
        if name not in self._backends:
            self._backends[name] = self._make(name, self.shared)
        return self._backends[name]

    async def generate_text(
        self,
        prompt: PromptText,
        *,
        system: str = "",
        role: str = "default",
        model: str | None = None,
        abort: Abort | None = None,
    ) -> TextResult:
        """See `LlmRuntime`."""
        return await self.start_text(prompt, system=system, role=role, model=model, abort=abort, stream=False).final()

    def start_text(
        self,
        prompt: PromptText,
        *,
        system: str = "",
        role: str = "default",
        model: str | None = None,
        abort: Abort | None = None,
        stream: bool = True,
    ) -> RunHandle[TextResult]:
        """Start a text call and return its handle; with `stream`, the answer arrives in parts."""
        spec = self._spec("text", prompt, system, role, model, stream=stream)

        async def work(emit: EmitLlm) -> TextResult:
            outcome, record, seconds = await self._run(spec, emit)
            return TextResult(outcome.text, record.facts(seconds))

        return self._handle(work, spec, abort)

    async def generate_object(
        self,
        prompt: PromptText,
        output: type[Output],
        *,
        system: str = "",
        role: str = "default",
        model: str | None = None,
        abort: Abort | None = None,
    ) -> ObjectResult[Output]:
        """See `LlmRuntime`."""
        schema, check = object_schema(output)
        spec = replace(self._spec("object", prompt, system, role, model), schema=schema, check=check)

        async def work(emit: EmitLlm) -> ObjectResult[Output]:
            outcome, record, seconds = await self._run(spec, emit)
            return ObjectResult(outcome.value, record.facts(seconds))

        return await self._handle(work, spec, abort).final()

    async def run_agent_loop(
        self,
        prompt: PromptText,
        *,
        system: str,
        tools: Sequence[RuntimeTool],
        step_budget: int,
        role: str = "default",
        model: str | None = None,
        on_step_finish: OnStepFinish | None = None,
        abort: Abort | None = None,
        journal: LoopJournal | None = None,
        label: str = "",
    ) -> LoopResult:
        """See `LlmRuntime`."""
        handle = self.start_agent_loop(
            prompt,
            system=system,
            tools=tools,
            step_budget=step_budget,
            role=role,
            model=model,
            on_step_finish=on_step_finish,
            abort=abort,
            stream=False,
            journal=journal,
            label=label,
        )
        return await handle.final()

    def start_agent_loop(
        self,
        prompt: PromptText,
        *,
        system: str,
        tools: Sequence[RuntimeTool],
        step_budget: int,
        role: str = "default",
        model: str | None = None,
        on_step_finish: OnStepFinish | None = None,
        abort: Abort | None = None,
        stream: bool = True,
        run_id: str | None = None,
        request_id: str = "",
        trace_id: str | None = None,
        journal: LoopJournal | None = None,
        label: str = "",
        watch: EmitLlm | None = None,
    ) -> RunHandle[LoopResult]:
        """Start an agent loop and return its handle; `run_id` replaces the runtime's, `watch` also receives events."""
        if step_budget < 1:
            raise ValueError(f"a loop needs a budget of at least one step, not {step_budget}")
        spec = self._spec("loop", prompt, system, role, model, stream=stream)
        spec = replace(spec, tools=check_tools(tools), step_budget=step_budget, journal=journal, label=label)
        spec = replace(spec, run_id=run_id, trace_id=trace_id or "")

        async def work(emit: EmitLlm) -> LoopResult:
            return await self._loop(spec, emit, on_step_finish)

        return self._handle(work, spec, abort, request_id, watch)

    def run(
        self, request: RunRequest, tools: Mapping[str, RuntimeTool], *, watch: EmitLlm | None = None
    ) -> RunHandle[LoopResult]:
        """Run a request of the executor: its messages, with exactly the tools that it names.

        `watch` receives each event as it happens, and must not raise.
        """
        system, prompt = render_messages(request.messages)
        return self.start_agent_loop(
            prompt,
            system=system,
            tools=chosen_tools(request, tools),
            step_budget=request.step_budget,
            role=request.role,
            model=request.model,
            abort=request.abort,
            run_id=request.run_id,
            request_id=request.request_id,
            trace_id=request.trace_id,
            watch=watch,
        )

    async def probe(self, *, role: str = "default", model: str | None = None) -> ProbeReport:
        """See `LlmRuntime`. The whole probe may take 60 s."""
        spec = self._spec("probe", PROBE_PROMPT, "", role, model)
        started = time.monotonic()
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                backend = self.backend(spec.backend)
                account = await backend.account()
                _, record, _ = await self._run(spec, _ignore)
        except TimeoutError as error:
            message = f"no answer from the backend `{spec.backend}` within {PROBE_SECONDS:.0f} s"
            raise llm_error("connection", **spec.names, message=message) from error
        seconds = time.monotonic() - started
        facts, versions = record.facts(seconds), backend.versions()
        return ProbeReport(
            spec.backend, spec.model, record.resolved_model, account, seconds, facts, versions, record.isolation
        )

    async def aclose(self) -> None:
        """Free every process and connection."""
        backends, self._backends = list(self._backends.values()), {}
        await asyncio.gather(*(backend.aclose() for backend in backends))

    async def __aenter__(self) -> RoutedRuntime:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()

    def resolve(self, role: str, model: str | None = None) -> ModelRef:
        """Return the backend and model of a role."""
        return model_for(self.shared.config, role, model=model)

    def _spec(
        self, kind: Any, prompt: PromptText, system: str, role: str, model: str | None, *, stream: bool = False
    ) -> CallSpec:
        parts = parts_of(prompt)
        if not parts:
            raise ValueError("a prompt cannot be empty")
        cached = parts if any(part.cached for part in parts) else ()
        ref, text = self.resolve(role, model), BETWEEN_PARTS.join(part.text for part in parts)
        return CallSpec(
            kind,
            ref.backend,
            role,
            ref.model,
            text,
            system,
            stream=stream,
            parts=cached,
            effort=effort_of(self.shared.config, role, ref),
        )

    def _handle(
        self,
        work: Callable[[EmitLlm], Awaitable[Result]],
        spec: CallSpec,
        abort: Abort | None,
        request_id: str = "",
        also: EmitLlm | None = None,
    ) -> RunHandle[Result]:
        run_id = spec.run_id or self.shared.run_id
        watchers = [each for each in (self.shared.watch(spec), also) if each is not None]

        def watch(event: Event) -> None:
            for each in watchers:
                each(event)

        return RunHandle(work, run_id=run_id, request_id=request_id, abort=abort, backend=spec.backend, watch=watch)

    def _record(self, spec: CallSpec, emit: EmitLlm, on_step_finish: OnStepFinish | None) -> CallRecord:
        return CallRecord(
            spec,
            run_id=spec.run_id or self.shared.run_id,
            command=self.shared.command,
            emit=emit,
            usage_sink=self.shared.usage_sink,
            on_step_finish=on_step_finish,
        )

    async def _run(
        self, spec: CallSpec, emit: EmitLlm, on_step_finish: OnStepFinish | None = None
    ) -> tuple[Outcome, CallRecord, float]:
        record = self._record(spec, emit, on_step_finish)
        started = time.monotonic()
        outcome = await self._carry_out(spec, record)
        return outcome, record, max(0.0, time.monotonic() - started - record.waited)

    async def _loop(self, spec: CallSpec, emit: EmitLlm, on_step_finish: OnStepFinish | None) -> LoopResult:
        record = self._record(spec, emit, on_step_finish)
        started = time.monotonic()
        error: LlmError | None = None
        try:
            outcome = await self._carry_out(spec, record)
        except LlmError as failure:
            if failure.code == "cancelled":
                raise
            outcome, error = Outcome("", "error"), failure
        facts = record.facts(max(0.0, time.monotonic() - started - record.waited))
        return LoopResult(outcome.text, outcome.stop_reason, facts, tuple(record.invocations), error)

    async def _carry_out(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Run a call on its backend. A retry never replays a call whose tools already ran."""
        with span(spec, record):
            try:
                backend = self.backend(spec.backend)
                if kind_of(spec.backend).own_loop:
                    return await backend.run(spec, record)

                async def attempt(number: int) -> Outcome:
                    record.attempt = number
                    record.attempts += 1 if number else 0
                    return await backend.run(spec, record)

                return await self.governor.call(
                    attempt,
                    notify=record.emit,
                    may_retry=lambda: self._may_retry(spec, record),
                    add_wait=record.wait,
                    backend=spec.backend,
                )
            except LlmError as error:
                error.details.setdefault("role", spec.role)
                raise
            except KtxError as error:
                details = {**error.details, "role": spec.role}
                raise LlmError(error.message, code=error.code, hint=error.hint, details=details) from error

    def _may_retry(self, spec: CallSpec, record: CallRecord) -> bool:
        """Return whether a whole call may be retried; a backend's own retries count."""
        tried = record.attempt + 1 + record.retries
        return not record.tools_ran and spec.kind != "probe" and tried < self.governor.max_attempts

    async def _repair(self, question: str) -> str:
        return (await self.generate_text(question, role="repair")).text


def _ignore(event: object) -> None:
    """Drop an event or a warning that has no listener."""


def create_runtime(
    config: KtxConfig,
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    run_id: str | None = None,
    command: str = "",
    usage_sink: UsageSink = ignore_usage,
    warn: Callable[[ResultWarning], None] | None = None,
    max_concurrency: int | None = None,
    on_wait: OnWait = ignore_wait,
    watch: Watch = watch_nothing,
) -> RoutedRuntime:
    """Return the runtime for a project; starts no process and sends no request before the first call.

    `environ` is the environment for secrets and, scrubbed, for Claude Code. `max_concurrency` replaces
    `ingest.workUnits.maxConcurrency`; `on_wait` receives every pause, `watch` every call. Raises `ValueError` for a
    project folder that is not absolute.
    """
    if not project_dir.is_absolute():
        raise ValueError(f"the project folder must be absolute, not {project_dir}")
    governor = Governor(
        config.ingest.rate_limit,
        max_concurrency=max_concurrency or config.ingest.work_units.max_concurrency,
        on_wait=on_wait,
    )
    shared = Shared(
        config, project_dir, environ, governor, run_id or new_run_id(), command, usage_sink, warn or _ignore, watch
    )
    return RoutedRuntime(shared, make_backend)


def make_backend(name: str, shared: Shared) -> Backend:
    """Return a new backend with this name; starts no process. Raises `ConfigError` for any other name."""
    kind = find_kind(name)
    if kind is None:
        raise unsupported(name)
    backend: Backend = imported(kind.maker)(name, shared)
    return backend
