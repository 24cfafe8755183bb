"""The run handle: events as often as documented, an end always, billing without a reader."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ktx_cli.core.events import Event
from ktx_cli.llm.errors import CODES, LlmError, llm_error
from ktx_cli.llm.executor import (
    Message,
    RunFinal,
    RunHandle,
    RunRequest,
    chosen_tools,
    executor_code,
    render_messages,
    run_final,
    settled,
)
from ktx_cli.llm.port import Abort
from ktx_cli.llm.types import (
    CallFacts,
    Done,
    EmitLlm,
    Failed,
    Final,
    LoopResult,
    StepFinished,
    TextDelta,
    TextResult,
    Usage,
    UsageReported,
)
from ktx_cli.llm.usage import UsageFact

FACTS = CallFacts("claude-code", "default", "m", usage=Usage(10, 2))
SDK_WORDS = "anthropic.RateLimitError: request_id req_123"

Work = Callable[[EmitLlm], Awaitable[Any]]


def handle(work: Work, abort: Abort | None = None) -> RunHandle[Any]:
    return RunHandle(work, run_id="run", request_id="req", abort=abort, backend="claude-code")


async def read(running: RunHandle[Any]) -> list[Event]:
    return [event async for event in running]


async def good(emit: EmitLlm) -> TextResult:
    emit(TextDelta("he"))
    emit(TextDelta("llo"))
    emit(UsageReported({}))
    return TextResult("hello", FACTS)


async def bad(emit: EmitLlm) -> TextResult:
    emit(TextDelta("he"))
    raise llm_error("rate_limit", backend="claude-code", model="m", detail=SDK_WORDS, retry_after=3.0)


async def loop_with_error(emit: EmitLlm) -> LoopResult:
    emit(StepFinished(1, 2))
    return LoopResult("", "error", FACTS, error=llm_error("billing", backend="claude-code", detail=SDK_WORDS))


async def burst(emit: EmitLlm) -> TextResult:
    raise RuntimeError(SDK_WORDS)


async def endless(emit: EmitLlm) -> TextResult:
    emit(TextDelta("he"))
    try:
        await asyncio.Event().wait()
    finally:
        emit(UsageReported({"late": True}))
    raise AssertionError("unreachable")


@pytest.mark.requirement("C7", "C8")
def test_a_success_ends_with_final_and_done() -> None:
    async def main() -> tuple[list[Event], TextResult]:
        running = handle(good)
        return await read(running), await running.final()

    events, result = asyncio.run(main())
    assert result.text == "hello"
    assert events == [
        TextDelta("he"),
        TextDelta("llo"),
        UsageReported({}),
        Final("run", "req", "hello", "natural", FACTS.usage.to_json()),
        Done(),
    ]


@pytest.mark.requirement("C7", "C9", "C10")
@pytest.mark.table(
    ("work", "error_code", "code"),
    [
        (bad, "rate_limit", "rate_limit"),
        (loop_with_error, "insufficient_credits", "billing"),
        (burst, "internal", "execution"),
    ],
)
def test_a_failure_ends_with_one_failed_and_done_and_no_word_of_the_sdk(work: Work, error_code: str, code: str) -> None:
    async def main() -> list[Event]:
        running = handle(work)
        events = await read(running)
        await asyncio.gather(running.final(), return_exceptions=True)
        return events

    events = asyncio.run(main())
    counted = Counter(type(event).__name__ for event in events)
    assert (counted["Failed"], counted["Final"], counted["Done"]) == (1, 0, 1)
    failed = events[-2]
    assert isinstance(failed, Failed)
    assert (failed.error_code, failed.details["code"]) == (error_code, code)
    assert events[-1] == Done()
    assert "RateLimitError" not in str([event.to_json() for event in events])


@pytest.mark.requirement("C1")
def test_the_result_does_not_wait_for_a_reader() -> None:
    async def main() -> tuple[TextResult, tuple[Event, ...]]:
        running = handle(good)
        return await running.final(), running.events

    result, events = asyncio.run(main())
    assert result.text == "hello"
    assert events[-1] == Done()


@pytest.mark.requirement("C1")
def test_every_reader_gets_every_event_in_order_also_after_the_end() -> None:
    async def main() -> tuple[list[Event], ...]:
        running = handle(good)
        first, second = await asyncio.gather(read(running), read(running))
        return first, second, await read(running)

    first, second, third = asyncio.run(main())
    assert len(first) == 5
    assert first == second == third


def test_a_slow_reader_holds_nobody_up() -> None:
    async def main() -> tuple[list[Event], list[Event]]:
        running = handle(good)
        slow: list[Event] = []

        async def read_slowly() -> None:
            async for event in running:
                slow.append(event)
                await asyncio.sleep(0.001)

        task = asyncio.create_task(read_slowly())
        fast = await read(running)
        assert len(slow) < len(fast)
        await task
        return fast, slow

    fast, slow = asyncio.run(main())
    assert fast == slow


def test_a_reader_that_leaves_stops_nothing() -> None:
    async def main() -> str:
        running = handle(good)
        async for _ in running:
            break
        return str((await running.final()).text)

    assert asyncio.run(main()) == "hello"


def test_a_failure_nobody_awaits_is_no_noise(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        await read(handle(bad))

    with caplog.at_level(logging.DEBUG):
        asyncio.run(main())
        import gc

        gc.collect()
    assert "never retrieved" not in caplog.text


@pytest.mark.requirement("C11")
def test_an_abort_before_the_start_runs_nothing() -> None:
    started: list[str] = []

    async def work(emit: EmitLlm) -> TextResult:
        started.append("yes")
        return await good(emit)

    async def main() -> list[Event]:
        abort = Abort()
        abort.throw()
        running = handle(work, abort)
        with pytest.raises(LlmError) as caught:
            await running.final()
        assert (caught.value.code, caught.value.exit_code) == ("cancelled", 130)
        return await read(running)

    (failed, done) = asyncio.run(main())
    assert started == []
    assert isinstance(failed, Failed)
    assert (failed.error_code, failed.details["code"], done) == ("aborted", "cancelled", Done())


@pytest.mark.requirement("C11")
def test_an_abort_in_the_middle_ends_the_work_first() -> None:
    async def main() -> list[Event]:
        abort = Abort()
        running = handle(endless, abort)
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(abort.throw)
        with pytest.raises(LlmError) as caught:
            await running.final()
        assert caught.value.code == "cancelled"
        return await read(running)

    events = asyncio.run(main())
    assert [type(event).__name__ for event in events] == ["TextDelta", "UsageReported", "Failed", "Done"]


@pytest.mark.requirement("C11")
def test_an_abort_after_the_end_changes_nothing() -> None:
    async def main() -> tuple[list[Event], list[Event]]:
        abort = Abort()
        running = handle(good, abort)
        await running.final()
        before = await read(running)
        abort.throw()
        assert abort.thrown
        await asyncio.sleep(0)
        await running.final()
        return before, await read(running)

    before, after = asyncio.run(main())
    assert before == after
    assert isinstance(before[-2], Final)


@pytest.mark.table("with_abort", [False, True])
def test_cancelling_the_wait_cancels_the_call(with_abort: bool) -> None:
    async def main() -> list[Event]:
        running = handle(endless, Abort() if with_abort else None)
        waiting = asyncio.create_task(running.final())
        while not running.events:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return list(running.events)

    events = asyncio.run(main())
    assert [type(event).__name__ for event in events] == ["TextDelta", "UsageReported", "Failed", "Done"]


def test_a_call_cancelled_before_it_began_has_an_end_too() -> None:
    async def main() -> list[Event]:
        running = handle(good)
        waiting = asyncio.ensure_future(running.final())
        reading = asyncio.ensure_future(read(running))
        running._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await asyncio.wait_for(reading, 5)

    events = asyncio.run(main())
    assert [type(event).__name__ for event in events] == ["Failed", "Done"]


@pytest.mark.requirement("C9")
@pytest.mark.table(
    ("error", "code"),
    [
        (llm_error("cancelled", backend="x"), "aborted"),
        (llm_error("max_turns", backend="x"), "timeout"),
        (llm_error("execution", backend="x", subtype="error_max_budget_usd"), "rate_limit"),
        (llm_error("rate_limit", backend="x", status=429), "rate_limit"),
        (llm_error("billing", backend="x", status=400), "insufficient_credits"),
        (llm_error("model", backend="x", status=404), "invalid_request"),
        (llm_error("context", backend="x", status=400), "invalid_request"),
        (llm_error("execution", backend="x", status=400), "invalid_request"),
        (llm_error("execution", backend="x", status=422), "invalid_request"),
        (llm_error("execution", backend="x", subtype="error_during_execution"), "internal"),
        (llm_error("execution", backend="x", status=500), "internal"),
        (llm_error("structured_output", backend="x"), "internal"),
        (llm_error("auth", backend="x", status=401), "internal"),
        (llm_error("overloaded", backend="x", status=529), "internal"),
        (llm_error("isolation", backend="x"), "internal"),
        (llm_error("connection", backend="x"), "internal"),
        (llm_error("refusal", backend="x"), "internal"),
        (llm_error("permission", backend="x"), "internal"),
        (llm_error("no_backend", backend="x"), "internal"),
    ],
)
def test_executor_codes(error: LlmError, code: str) -> None:
    assert executor_code(error) == code
    assert error.code in CODES


REQUEST = RunRequest("run", "req", (Message("user", "hi"),))


@pytest.mark.requirement("C8", "C17")
@pytest.mark.table(
    ("result", "ok", "code"),
    [
        (LoopResult("text", "natural", FACTS), True, None),
        (LoopResult("", "budget", FACTS), False, "timeout"),
        (LoopResult("", "error", FACTS, error=llm_error("rate_limit", backend="x")), False, "rate_limit"),
        (LoopResult("", "error", FACTS, error=llm_error("auth", backend="x")), False, "internal"),
    ],
)
def test_how_a_run_ended(result: LoopResult, ok: bool, code: Any) -> None:
    assert run_final(REQUEST, result) == RunFinal(ok, "run", "req", result.text, FACTS.usage.to_json(), code)


@pytest.mark.requirement("C11", "C17")
def test_an_aborted_run_has_an_end_and_its_usage() -> None:
    def fact(unit_id: str) -> UsageReported:
        usage = Usage(10, 2)
        unit = UsageFact("run", 0, unit_id, "claude-code", "default", "", "m", usage, cost=FACTS.cost)
        return UsageReported(unit.to_json())

    async def work(emit: EmitLlm) -> LoopResult:
        emit(fact("a"))
        emit(fact("b"))
        raise llm_error("cancelled", backend="x")

    async def main() -> RunFinal:
        return await settled(REQUEST, handle(work))

    end = asyncio.run(main())
    assert end == RunFinal(False, "run", "req", "", Usage(20, 4).to_json(), "aborted")


@pytest.mark.requirement("C17")
@pytest.mark.table(
    ("messages", "system", "prompt"),
    [
        ([Message("user", "hi")], "", "hi"),
        ([Message("system", "a"), Message("system", "b"), Message("user", "hi")], "a\n\nb", "hi"),
        (
            [Message("user", "hi"), Message("assistant", "yes?"), Message("user", "go")],
            "",
            "User: hi\n\nAssistant: yes?\n\nUser: go",
        ),
    ],
)
def test_messages_become_one_prompt(messages: list[Message], system: str, prompt: str) -> None:
    assert render_messages(messages) == (system, prompt)


@pytest.mark.requirement("C4")
def test_a_request_gets_the_tools_it_names_alone() -> None:
    tools: Any = {"a": "tool a", "b": "tool b"}
    assert chosen_tools(RunRequest("r", "q", (), ("b",)), tools) == ["tool b"]
    assert chosen_tools(RunRequest("r", "q", ()), tools) == []
    with pytest.raises(ValueError, match="there is no tool 'c'"):
        chosen_tools(RunRequest("r", "q", (), ("c",)), tools)
