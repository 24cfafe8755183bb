"""The runtime on doubles: who serves a call, what is tried again, what comes out when it fails."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from ktx_cli.core.errors import ConfigError, SecretError
from ktx_cli.llm import routing
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, ModelTurn, Outcome
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.executor import Message, RunRequest, settled
from ktx_cli.llm.port import Abort, LlmRuntime
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import (
    Cost,
    Done,
    Failed,
    Final,
    RateLimitWait,
    Step,
    StepFinished,
    TextDelta,
    ToolInvocation,
    Usage,
)

Bench = Callable[..., Any]


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str


TOOL = RuntimeTool("look", "Look up.", Query, lambda query: f"saw {query.q}")
MIXED = {
    "provider": {"backend": "claude-code"},
    "models": {
        "default": "opus",
        "triage": "claude-cli:haiku",
        "curator": "gateway:qwen3:8b",
        "repair": "anthropic:claude-sonnet-4-5",
    },
}


def test_it_is_the_port(bench: Bench) -> None:
    runtime: LlmRuntime = bench().runtime
    assert runtime is not None


@pytest.mark.requirement("R3", "G1", "G21")
def test_roles_go_to_their_backends_at_the_same_time(bench: Bench) -> None:
    one = bench(MIXED)

    async def main() -> list[str]:
        results = await asyncio.gather(
            *(one.runtime.generate_text("hi", role=role) for role in ("default", "triage", "curator", "repair")),
            one.runtime.generate_text("hi", role="reconcile"),
            one.runtime.generate_text("hi", model="vertex:claude-opus-4-5"),
            one.runtime.generate_text("hi", role="triage", model="sonnet"),
        )
        await one.runtime.aclose()
        return [result.text for result in results]

    assert asyncio.run(main()) == [
        "claude-code/opus",
        "claude-cli/haiku",
        "gateway/qwen3:8b",
        "anthropic/claude-sonnet-4-5",
        "claude-code/opus",
        "vertex/claude-opus-4-5",
        "claude-code/sonnet",
    ]
    assert sorted(one.made) == ["anthropic", "claude-cli", "claude-code", "gateway", "vertex"]
    assert {double.closed for double in one.made.values()} == {1}
    assert all(spec.backend == name for name, double in one.made.items() for spec in double.seen)


@pytest.mark.requirement("R2", "R8")
def test_a_failing_backend_is_what_the_caller_hears_of(bench: Bench) -> None:
    failure = llm_error("auth", backend="claude-code")

    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        raise failure

    one = bench(MIXED, work)

    async def main() -> LlmError:
        with pytest.raises(LlmError) as caught:
            await one.runtime.generate_text("hi")
        return caught.value

    assert asyncio.run(main()) is failure
    assert failure.details["role"] == "default"
    assert list(one.made) == ["claude-code"]
    assert len(one.made["claude-code"].seen) == 1


@pytest.mark.requirement("R8", "G19")
@pytest.mark.parametrize(
    ("llm", "call", "words"),
    [
        ({"provider": {"backend": "anthropic"}}, {}, "llm.models.default"),
        ({"provider": {"backend": "claude-code"}}, {"model": "nowhere:x"}, "nowhere"),
        ({"provider": {"backend": "claude-code"}}, {"model": "codex: "}, "codex"),
    ],
)
def test_what_cannot_be_routed_raises(bench: Bench, llm: Any, call: Any, words: str) -> None:
    one = bench(llm)

    async def main() -> None:
        with pytest.raises(ConfigError, match=words):
            await one.runtime.generate_text("hi", **call)

    asyncio.run(main())
    assert one.made == {}


def test_no_backend_and_no_role(bench: Bench) -> None:
    async def main() -> None:
        with pytest.raises(LlmError) as caught:
            await bench({"provider": {"backend": "none"}}).runtime.generate_text("hi")
        assert caught.value.code == "no_backend"
        with pytest.raises(ValueError, match="no role 'boss'"):
            await bench().runtime.generate_text("hi", role="boss")

    asyncio.run(main())


@pytest.mark.parametrize("prompt", ["", " \n\t"])
def test_an_empty_prompt_reaches_nobody(bench: Bench, prompt: str) -> None:
    one = bench()

    async def main() -> None:
        with pytest.raises(ValueError, match="prompt cannot be empty"):
            await one.runtime.generate_text(prompt)
        with pytest.raises(ValueError, match="at least one step"):
            await one.runtime.run_agent_loop("go", system="", tools=[], step_budget=0)
        with pytest.raises(ValueError, match="two tools"):
            await one.runtime.run_agent_loop("go", system="", tools=[TOOL, TOOL], step_budget=1)
        with pytest.raises(ValueError, match="pydantic model"):
            await one.runtime.generate_object("go", dict)

    asyncio.run(main())
    assert one.made == {}


@pytest.mark.requirement("R63", "R64")
def test_what_a_backend_gets(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        return Outcome("text", value=spec.check({"name": "Ulm"}) if spec.check else None)

    one = bench(work=work)

    async def main() -> None:
        await one.runtime.generate_text("hi", system="SYS")
        city = await one.runtime.generate_object("hi", City, role="triage")
        assert city.value == City(name="Ulm")
        await one.runtime.run_agent_loop("go", system="SYS", tools=[TOOL], step_budget=7)
        await one.runtime.probe()

    asyncio.run(main())
    text, value, loop, probe = one.made["claude-code"].seen
    assert (text.kind, text.system, text.prompt, text.stream, dict(text.tools)) == ("text", "SYS", "hi", False, {})
    assert (value.kind, value.role, value.schema["type"]) == ("object", "triage", "object")
    assert (loop.kind, loop.step_budget, dict(loop.tools)) == ("loop", 7, {"look": TOOL})
    assert (probe.kind, probe.prompt, probe.system) == ("probe", "Reply with exactly: ok", "")


def failing(*errors: LlmError, tool: bool = False) -> Callable[[CallSpec, CallRecord], Awaitable[Outcome]]:
    left = list(errors)

    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        record.unit(f"unit-{record.attempt}", Usage(10, 1), Cost(0.5, "list_price"))
        if tool:
            record.tool_finished(ToolInvocation("c1", "look", {}, "saw", False))
        if left:
            raise left.pop(0)
        return Outcome("later")

    return work


OVERLOADED = llm_error("overloaded", backend="claude-code")
LIMITED = llm_error("rate_limit", backend="claude-code", retry_after=2.0)


@pytest.mark.parametrize("error", [OVERLOADED, LIMITED, llm_error("connection", backend="claude-code")])
def test_a_call_without_tools_is_tried_again_and_each_attempt_is_billed(bench: Bench, error: LlmError) -> None:
    one = bench(work=failing(error))
    result = asyncio.run(one.runtime.generate_text("hi"))
    assert (result.text, result.facts.attempts, result.facts.usage) == ("later", 2, Usage(20, 2))
    assert result.facts.cost == Cost(1.0, "list_price")
    assert [fact.idempotency_key for fact in one.facts] == ["run-1/0/unit-0", "run-1/1/unit-1"]
    assert result.facts.seconds < 1


@pytest.mark.parametrize("error", [OVERLOADED, LIMITED])
def test_a_call_whose_tools_ran_is_never_replayed(bench: Bench, error: LlmError) -> None:
    one = bench(work=failing(error, tool=True))
    result = asyncio.run(one.runtime.run_agent_loop("go", system="", tools=[TOOL], step_budget=3))
    assert (result.stop_reason, result.error, result.facts.attempts) == ("error", error, 1)
    assert len(one.made["claude-code"].seen) == 1
    assert (len(result.invocations), result.facts.usage) == (1, Usage(10, 1))
    assert len(one.facts) == 1


@pytest.mark.parametrize(("own_retries", "tried"), [(0, 3), (1, 2), (2, 1)])
def test_tries_of_the_backend_itself_count(bench: Bench, own_retries: int, tried: int) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        record.retries += 0 if record.attempt else own_retries
        raise llm_error("overloaded", backend="claude-code")

    one = bench(work=work, ingest={"rateLimit": {"retry": {"maxAttempts": 3}}})
    with pytest.raises(LlmError):
        asyncio.run(one.runtime.generate_text("hi"))
    assert len(one.made["claude-code"].seen) == tried


def test_a_cancelled_loop_raises(bench: Bench) -> None:
    work = failing(llm_error("cancelled", backend="claude-code"))
    with pytest.raises(LlmError) as caught:
        asyncio.run(bench(work=work).runtime.run_agent_loop("go", system="", tools=[], step_budget=1))
    assert caught.value.code == "cancelled"


@pytest.mark.requirement("R52")
def test_a_loop_gives_its_failure_back_and_a_text_raises_it(bench: Bench) -> None:
    error = llm_error("billing", backend="claude-code")

    async def main() -> None:
        one = bench(work=failing(error, error))
        loop = await one.runtime.run_agent_loop("go", system="", tools=[], step_budget=3)
        assert (loop.stop_reason, loop.error, loop.text) == ("error", error, "")
        with pytest.raises(LlmError) as caught:
            await one.runtime.generate_text("go")
        assert caught.value is error
        assert len(one.facts) == 2

    asyncio.run(main())


def test_an_error_of_the_project_has_its_own_code_and_exit_code(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        raise SecretError("the variable KEY is not set", hint="export KEY=...")

    async def main() -> LlmError:
        with pytest.raises(LlmError) as caught:
            await bench(work=work).runtime.generate_text("hi", role="triage")
        return caught.value

    error = asyncio.run(main())
    assert (error.code, error.exit_code, error.hint) == ("secret", 2, "export KEY=...")
    assert error.details["role"] == "triage"


def test_a_bug_is_no_failed_call(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(bench(work=work).runtime.generate_text("hi"))


async def endless(spec: CallSpec, record: CallRecord) -> Outcome:
    record.text_delta("he")
    try:
        await asyncio.Event().wait()
    finally:
        record.unit("unit", Usage(10), Cost(), complete=False)
    raise AssertionError("unreachable")


@pytest.mark.requirement("C11", "G10")
@pytest.mark.parametrize("moment", ["before", "during"])
@pytest.mark.parametrize("kind", ["text", "object", "loop"])
def test_an_abort_raises_cancelled_on_every_call(bench: Bench, kind: str, moment: str) -> None:
    one = bench(work=endless)

    async def call(abort: Abort) -> Any:
        if kind == "text":
            return await one.runtime.generate_text("hi", abort=abort)
        if kind == "object":
            return await one.runtime.generate_object("hi", City, abort=abort)
        return await one.runtime.run_agent_loop("hi", system="", tools=[], step_budget=1, abort=abort)

    async def main() -> LlmError:
        abort = Abort()
        if moment == "before":
            abort.throw()
        task = asyncio.create_task(call(abort))
        while moment == "during" and not (one.made and one.made["claude-code"].seen):
            await asyncio.sleep(0)
        abort.throw()
        with pytest.raises(LlmError) as caught:
            await asyncio.wait_for(task, 5)
        return caught.value

    error = asyncio.run(main())
    assert error.code == "cancelled"
    assert bool(one.made) == (moment == "during")
    assert one.runtime.governor.active == 0
    assert [fact.complete for fact in one.facts] == ([False] if moment == "during" else [])


def test_an_abort_while_a_limit_is_waited_for(bench: Bench) -> None:
    one = bench(work=failing(LIMITED))

    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    one.runtime.governor._sleep = forever

    async def main() -> None:
        abort = Abort()
        handle = one.runtime.start_text("hi", abort=abort)
        while not any(isinstance(event, RateLimitWait) for event in handle.events):
            await asyncio.sleep(0)
        abort.throw()
        with pytest.raises(LlmError) as caught:
            await asyncio.wait_for(handle.final(), 5)
        assert caught.value.code == "cancelled"

    asyncio.run(main())
    assert one.runtime.governor.active == 0
    assert len(one.made["claude-code"].seen) == 1


def test_an_abort_after_the_end_changes_nothing(bench: Bench) -> None:
    async def main() -> str:
        abort = Abort()
        handle = bench().runtime.start_text("hi", abort=abort)
        result = await handle.final()
        abort.throw()
        assert (await handle.final()) is result
        return str(result.text)

    assert asyncio.run(main()) == "claude-code/sonnet"


@pytest.mark.requirement("C5", "C7")
def test_a_stream_of_a_loop_in_order(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        assert spec.stream
        record.text_delta("he")
        await record.step_finished(())
        record.unit("unit", Usage(1), Cost())
        return Outcome("hello")

    steps: list[Step] = []

    async def main() -> list[Any]:
        handle = bench(work=work).runtime.start_agent_loop(
            "go", system="", tools=[], step_budget=2, on_step_finish=steps.append, request_id="req"
        )
        return [event async for event in handle]

    events = asyncio.run(main())
    assert [type(event).__name__ for event in events] == ["TextDelta", "StepFinished", "UsageReported", "Final", "Done"]
    assert events[1] == StepFinished(1, 2)
    assert (events[3].run_id, events[3].request_id, events[3].content) == ("run-1", "req", "hello")
    assert steps == [Step(1, 2)]


@pytest.mark.requirement("C1", "C3", "C4", "C14", "C17")
def test_a_request_of_the_executor(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        record.unit("session", Usage(7), Cost())
        return Outcome("done")

    one = bench(work=work)
    request = RunRequest(
        "their-run",
        "their-request",
        (Message("system", "SYS"), Message("user", "hi")),
        ("look",),
        model="claude-cli:haiku",
        step_budget=3,
        trace_id="trace-9",
    )

    async def main() -> tuple[Any, list[Any]]:
        other = RuntimeTool("other", "Other.", Query, lambda query: "")
        handle = one.runtime.run(request, {"look": TOOL, "other": other})
        events = [event async for event in handle]
        return await settled(request, handle), events

    end, events = asyncio.run(main())
    (spec,) = one.made["claude-cli"].seen
    assert (spec.system, spec.prompt, spec.model, spec.step_budget, spec.trace_id) == (
        "SYS",
        "hi",
        "haiku",
        3,
        "trace-9",
    )
    assert list(spec.tools) == ["look"]
    assert (end.ok, end.run_id, end.request_id, end.content) == (True, "their-run", "their-request", "done")
    assert [fact.idempotency_key for fact in one.facts] == ["their-run/0/session"]
    final = next(event for event in events if isinstance(event, Final))
    assert (final.run_id, final.request_id) == ("their-run", "their-request")
    assert events[-1] == Done()


def test_a_failed_call_of_a_stream_says_so_once(bench: Bench) -> None:
    async def main() -> list[Any]:
        handle = bench(work=failing(llm_error("model", backend="claude-code"))).runtime.start_text("hi")
        events = [event async for event in handle]
        with pytest.raises(LlmError):
            await handle.final()
        return events

    events = asyncio.run(main())
    assert [type(event).__name__ for event in events] == ["UsageReported", "Failed", "Done"]
    assert isinstance(events[1], Failed)
    assert events[1].error_code == "invalid_request"


@pytest.mark.requirement("R39")
def test_a_probe_asks_for_the_account_first_and_reports(bench: Bench) -> None:
    one = bench(MIXED)
    report = asyncio.run(one.runtime.probe(role="triage"))
    assert (report.backend, report.model, report.account) == ("claude-cli", "haiku", "account of claude-cli")
    assert report.versions == {"claude-cli": "1"}


@pytest.mark.requirement("R6", "R39")
def test_a_probe_without_an_account_asks_no_model(bench: Bench) -> None:
    async def account() -> str:
        raise llm_error("auth", backend="claude-code")

    one = bench(account=account)

    async def main() -> None:
        with pytest.raises(LlmError) as caught:
            await one.runtime.probe()
        assert caught.value.code == "auth"

    asyncio.run(main())
    assert one.made["claude-code"].seen == []


@pytest.mark.requirement("R39")
@pytest.mark.parametrize("slow", ["account", "turn"])
def test_a_probe_has_a_limit(bench: Bench, monkeypatch: pytest.MonkeyPatch, slow: str) -> None:
    monkeypatch.setattr(routing, "PROBE_SECONDS", 0.02)

    async def account() -> str:
        if slow == "account":
            await asyncio.Event().wait()
        return "session"

    one = bench(account=account, work=endless)

    async def main() -> LlmError:
        with pytest.raises(LlmError) as caught:
            await asyncio.wait_for(one.runtime.probe(), 5)
        return caught.value

    error = asyncio.run(main())
    assert error.code == "connection"
    assert "no answer from the backend `claude-code` within" in error.message
    assert one.runtime.governor.active == 0


@pytest.mark.parametrize("backend", ["claude-code", "anthropic"])
def test_a_probe_is_tried_once(bench: Bench, backend: str) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        async def ask(attempt: int) -> ModelTurn:
            raise llm_error("rate_limit", backend=backend, retry_after=300.0)

        if backend == "anthropic":
            await one.runtime.shared.retried(ask, record)
        return Outcome((await ask(0)).text)

    one = bench({"provider": {"backend": backend}, "models": {"default": "claude-sonnet-4-5"}}, work)

    async def main() -> None:
        with pytest.raises(LlmError) as caught:
            await one.runtime.probe()
        assert caught.value.code == "rate_limit"

    asyncio.run(main())
    assert one.clock.slept == []


@pytest.mark.requirement("R2")
def test_one_turn_of_the_own_loop_is_what_is_tried_again(bench: Bench) -> None:
    """The backend is entered once; its turn is asked for twice, and waits show in the events, not in the seconds."""
    attempts: list[int] = []

    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        async def ask(attempt: int) -> ModelTurn:
            attempts.append(attempt)
            if not attempt:
                raise llm_error("rate_limit", backend="anthropic", retry_after=30.0)
            return ModelTurn("later", (), "end", Usage(), Cost(), "u", None)

        return Outcome((await one.runtime.shared.retried(ask, record)).text)

    one = bench({"provider": {"backend": "anthropic"}, "models": {"default": "claude-sonnet-4-5"}}, work)

    async def main() -> tuple[Any, list[Any]]:
        handle = one.runtime.start_text("hi")
        return await handle.final(), [event async for event in handle]

    result, events = asyncio.run(main())
    assert (result.text, attempts, len(one.made["anthropic"].seen)) == ("later", [0, 1], 1)
    waits = [event for event in events if isinstance(event, RateLimitWait)]
    assert [wait.state for wait in waits].count("started") == 1
    assert (waits[0].seconds, sum(one.clock.slept)) == (30.0, 30.0)
    assert result.facts.seconds < 1


def test_a_tool_may_ask_a_model_though_its_call_holds_the_only_slot(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        if spec.kind == "text":
            return Outcome("inner")
        context = contextvars.copy_context()
        inner = one.runtime.generate_text("nested", role="triage")
        result = await asyncio.create_task(asyncio.wait_for(inner, 5), context=context.copy())
        return Outcome(f"outer {result.text}")

    one = bench(work=work, max_concurrency=1)
    result = asyncio.run(one.runtime.run_agent_loop("go", system="", tools=[], step_budget=1))
    assert result.text == "outer inner"
    assert one.runtime.governor.active == 0


def test_the_repair_role_is_asked_as_a_text(bench: Bench) -> None:
    one = bench(MIXED)
    assert asyncio.run(one.runtime.shared.repair("fix")) == "anthropic/claude-sonnet-4-5"
    (spec,) = one.made["anthropic"].seen
    assert (spec.role, spec.kind, spec.prompt) == ("repair", "text", "fix")


def test_a_runtime_closes_what_it_made_once(bench: Bench) -> None:
    one = bench()

    async def main() -> None:
        async with one.runtime as runtime:
            await runtime.generate_text("hi")
            assert runtime.backend("claude-code") is runtime.backend("claude-code")
        await one.runtime.aclose()

    asyncio.run(main())
    assert one.made["claude-code"].closed == 1


def test_a_wrapped_root_comes_out_unwrapped(bench: Bench) -> None:
    class Names(RootModel[list[str]]):
        pass

    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        assert spec.check is not None
        return Outcome("", value=spec.check({"value": ["a"]}))

    assert asyncio.run(bench(work=work).runtime.generate_object("hi", Names)).value.root == ["a"]


def test_text_deltas_reach_the_stream(bench: Bench) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        record.text_delta("x")
        return Outcome("x")

    async def main() -> list[Any]:
        return [event async for event in bench(work=work).runtime.start_text("hi")]

    assert TextDelta("x") in asyncio.run(main())
