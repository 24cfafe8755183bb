"""The backend `claude-code`: every call is one process of the local Claude Code session, isolated and monitored."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from ktx_cli.core import Command, Hint, KtxError, ResultWarning
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Outcome, problems
from ktx_cli.llm.backends.claude.binary import ClaudeBinary, Host, claude_host
from ktx_cli.llm.backends.claude.session import (
    allowing_policy,
    check_managed,
    check_sources,
    forbids_own_servers,
    managed_servers_error,
    once,
)
from ktx_cli.llm.backends.claude_code.isolation import (
    MAX_ARGUMENT,
    OBJECT_TURNS,
    SESSION_SOURCES,
    ProcessSpec,
    argument,
    binary_schema,
    isolation_error,
    route_error,
)
from ktx_cli.llm.backends.claude_code.pool import Connect, Pool, Process, ProcessStartError, describe_tools, sdk_client
from ktx_cli.llm.backends.claude_code.reader import MessageReader, ending_error, stop_reason
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.tools import invoke
from ktx_cli.llm.types import ToolInvocation

if TYPE_CHECKING:
    from ktx_cli.llm.agent_loop import Backend, Shared

log = logging.getLogger(__name__)

NAME: Final = "claude-code"
INTERRUPT_SECONDS: Final = 3.0
PROBE_RETRIES: Final = 1
FOREIGN_TOKENS: Final = ("ANTHROPIC_AUTH_TOKEN", "apiKeyHelper")
"""`tokenSource` of an account that is not the user's session."""


class ClaudeCodeBackend:
    """Runs calls on the local session. `warn` receives what the user should know, once."""

    name = NAME

    def __init__(
        self,
        host: Host,
        binary: ClaudeBinary,
        *,
        pool_size: int,
        retries: int,
        allow_managed: bool,
        reuse: bool = False,
        observe: Callable[[RateSignal], None],
        warn: Callable[[ResultWarning], None],
        connect: Connect = sdk_client,
    ) -> None:
        self.pool = Pool(host, size=pool_size, connect=connect)
        self.binary = binary
        self._host = host
        self._retries = retries
        self._allow_managed = allow_managed
        self._reuse = reuse
        self._observe = observe
        self._warn = once(warn)
        self._account_known = False

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Run one call in a separate process."""
        self._check_managed()
        try:
            async with self.pool.process(self._process_spec(spec)) as process:
                try:
                    await self._check_account(process)
                    await self._check_settings(process)
                    outcome = await self._converse(process, spec, record)
                    await self._check_settings(process)
                    record.isolation["dropped"] = process.dropped
                    return outcome
                except Exception as error:
                    raise translate(error, **spec.names, stderr=process.stderr) from error
        except ProcessStartError as error:
            raise translate(error, **spec.names, stderr=error.stderr) from error

    async def account(self) -> str:
        """Ask an unused process where its credentials come from."""
        spec = ProcessSpec(model="haiku", system="", max_turns=1, retries=PROBE_RETRIES)
        try:
            async with self.pool.process(spec) as process:
                return describe_account(await process.account())
        except ProcessStartError as error:
            raise translate(error, backend=NAME, model="", role="default", stderr=error.stderr) from error

    def versions(self) -> Mapping[str, str]:
        """Return the SDK, the binary and where the binary was found."""
        import importlib.metadata

        return {
            "claude-agent-sdk": importlib.metadata.version("claude-agent-sdk"),
            "claude": self.binary.version_text,
            "path": str(self.binary.path),
            "origin": self.binary.origin,
        }

    async def aclose(self) -> None:
        """End every process."""
        await self.pool.aclose()

    def _process_spec(self, spec: CallSpec) -> ProcessSpec:
        schema = json.dumps(binary_schema(spec.schema), sort_keys=True) if spec.schema else None
        if schema is not None and len(schema.encode()) > MAX_ARGUMENT:
            message = (
                f"the schema is {len(schema.encode()) // 1024} KiB long, but Claude Code accepts at most "
                f"{MAX_ARGUMENT // 1024}"
            )
            raise llm_error("structured_output", **spec.names, message=message, hint=_api_backend(spec.role))
        turns = {"loop": spec.step_budget, "object": OBJECT_TURNS}.get(spec.kind, 1)
        return ProcessSpec(
            model=spec.model,
            system=argument(spec.system),
            max_turns=turns,
            effort=spec.effort,
            tools=describe_tools(spec.tools),
            schema=schema,
            stream=spec.stream,
            retries=PROBE_RETRIES if spec.kind == "probe" else self._retries,
            reuse=self._reuse and spec.kind != "probe",
        )

    def _check_managed(self) -> None:
        """Look for managed files: before anything starts, after the process has contacted its server, and at the
        end.
        """
        check_managed(self._host.environment, backend=NAME, allowed=self._allow_managed, warn=self._warn)

    async def _check_settings(self, process: Process) -> None:
        """Look for managed files, and ask the process which settings apply."""
        self._check_managed()
        check_sources(await process.settings(), backend=NAME, allowed=self._allow_managed, warn=self._warn)

    async def _check_account(self, process: Process) -> None:
        """Check the account once, before the first prompt: without a session no call is made at all."""
        if not self._account_known:
            with allowing_policy(self._allow_managed, self._warn):
                describe_account(await process.account())
            self._account_known = True

    async def _converse(self, process: Process, spec: CallSpec, record: CallRecord) -> Outcome:
        reader = MessageReader(
            record, process.spec.allowed, allow_managed=self._allow_managed, observe=self._observe, warn=self._warn
        )
        context = contextvars.copy_context()  # the SDK calls from its own task, which has neither slot nor span

        async def run_tool(name: str, arguments: Mapping[str, Any], call_id: str | None) -> ToolInvocation:
            work = invoke(spec.tools, name, arguments, call_id or f"call-{len(record.invocations) + 1}")
            done = await asyncio.create_task(work, context=context.copy())
            reader.note_tool(done)
            return done

        process.tools.bind(run_tool)
        try:
            await process.ask(spec.prompt)
            async for message in process.client.receive_response():
                await reader.feed(message)
        except asyncio.CancelledError:
            await asyncio.shield(_interrupt(process, reader))
            raise
        finally:
            reader.lost()
        return _outcome(reader, spec)


async def _interrupt(process: Process, reader: MessageReader) -> None:
    """Stop the model, and record the usage of the call so far."""
    try:
        async with asyncio.timeout(INTERRUPT_SECONDS):
            await reader.close_whole_step()
            await process.client.interrupt()
            async for message in process.client.receive_response():
                if type(message).__name__ == "ResultMessage":
                    reader.note_usage(message)
    except Exception as error:  # noqa: BLE001 - ending the process, which follows, stops it too
        log.debug("interrupt failed: %s", type(error).__name__)


def _outcome(reader: MessageReader, spec: CallSpec) -> Outcome:
    reason = stop_reason(reader.ending)
    if reason != "error" and not reader.init_seen:
        raise isolation_error("Claude Code did not report how it was started", backend=NAME)
    if reason == "natural" and reader.ending is not None:
        text = "".join(reader.texts) or reader.ending.text
        return Outcome(text, value=_checked(reader.structured, spec) if spec.kind == "object" else None)
    if reason == "budget" and spec.kind == "loop":
        return Outcome("", "budget")
    raise ending_error(reader.ending, **spec.names)


def _checked(value: Any, spec: CallSpec) -> Any:
    """Return the object after its model has checked it: a JSON Schema cannot express all of a model's requirements."""
    if spec.check is None or value is None:
        raise llm_error("structured_output", **spec.names)
    try:
        return spec.check(value)
    except (ValidationError, ValueError) as error:
        raise llm_error("structured_output", **spec.names, problems=problems(error)) from error


def describe_account(account: Mapping[str, Any]) -> str:
    """Return where the credentials come from; raises `LlmError` if there is no local session.

    An `apiProvider` other than `firstParty`, or a key or token from another source, is another route than the
    session's.
    """
    provider = account.get("apiProvider", "firstParty")
    key, token = account.get("apiKeySource", "none"), account.get("tokenSource")
    if provider != "firstParty":
        raise route_error(f"Claude Code is configured for {provider}, not for a local session", backend=NAME)
    for source in (key if key not in SESSION_SOURCES else None, token if token in FOREIGN_TOKENS else None):
        if source is not None:
            message = f"Claude Code takes its credentials from {source}, not from the local session"
            raise route_error(message, backend=NAME)
    source = token or (key if key != "none" else "session")
    if source == "none":
        raise llm_error("auth", backend=NAME)
    plan = account.get("subscriptionType")
    return f"local Claude Code session ({source}{f', {plan}' if plan else ''})"


REFUSED_SCHEMA: Final = "--json-schema is not a valid"
"""Text in the binary's stderr if it does not accept a schema."""

TOO_DEEP: Final = "maximum recursion depth exceeded"


def translate(error: Exception, *, backend: str, model: str, role: str, stderr: Iterable[str] = ()) -> KtxError:
    """Return the error for an exception from a process or the SDK; its message, and the process's stderr, only go into

    `detail`.
    """
    if isinstance(error, KtxError):
        return error
    names = CallNames(backend=backend, model=model, role=role)
    words = "; ".join([describe(error), *stderr])
    if forbids_own_servers(words):
        return managed_servers_error(backend)
    if REFUSED_SCHEMA in words:
        return refused_schema(**names, detail=words)
    if isinstance(error, RecursionError) or TOO_DEEP in words:
        return too_deep(**names, detail=words)
    if type(error).__name__ == "CLINotFoundError":
        return llm_error("connection", **names, message="cannot start the `claude` binary", detail=words)
    if "on_failure" in words or "too old" in words:
        message = "this version of Claude Code is too old to be isolated"
        return llm_error("isolation", **names, message=message, hint=Command("update", program="claude"), detail=words)
    message = "Claude Code ended unexpectedly"
    return llm_error("connection", **names, message=message, detail=words, hint=Command("doctor"))


def refused_schema(*, backend: str, model: str, role: str, detail: str) -> LlmError:
    """Return the error for a call whose schema the binary does not accept; its message is in `detail`."""
    message = "Claude Code does not accept the schema of the answer"
    names = CallNames(backend=backend, model=model, role=role)
    return llm_error("structured_output", **names, message=message, hint=_api_backend(role), detail=detail)


def _api_backend(role: str) -> Hint:
    command = Command("config", "set", f"llm.models.{role}", "anthropic:MODEL")
    return Hint("give the role an API backend: {}", command)


def too_deep(*, backend: str, model: str, role: str, detail: str = "") -> LlmError:
    """Return the error for an answer whose JSON is nested too deeply."""
    message = f"the model `{model}` wrote JSON that is nested too deeply to be read"
    hint = "run this command again; the model's answer was invalid"
    return llm_error("execution", backend=backend, model=model, role=role, message=message, hint=hint, detail=detail)


def describe(error: BaseException) -> str:
    """Return the message of an error and of its causes."""
    causes: list[str] = []
    found: BaseException | None = error
    while found is not None:
        causes.append(f"{type(found).__name__}: {found}")
        found = found.__cause__
    return "; ".join(causes)


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    host, binary = claude_host(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)
    rate_limit = shared.config.ingest.rate_limit
    return ClaudeCodeBackend(
        host,
        binary,
        pool_size=shared.governor.max_concurrency + 1,
        retries=rate_limit.retry.max_attempts - 1 if rate_limit.enabled else 0,
        allow_managed=shared.config.llm.provider.claude.allow_managed_policy,
        reuse=shared.config.llm.provider.claude.reuse_processes,
        observe=shared.governor.observe,
        warn=shared.warn,
    )
