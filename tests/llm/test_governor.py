"""Pacing on a clock that never runs by itself: slots, pauses, pressure, retries."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.governor import Governor, RateSignal
from ktx_cli.llm.types import RateLimitWait
from ktx_cli.project.config.blocks import RateLimit


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds
        await asyncio.sleep(0)


def governor(clock: Clock, max_concurrency: int = 4, tick: float = 1.0, **rate_limit: Any) -> Governor:
    fields = RateLimit.model_validate(rate_limit)
    return Governor(
        fields, max_concurrency=max_concurrency, clock=clock, sleep=clock.sleep, rng=random.Random(7), tick_seconds=tick
    )


def ignore(event: RateLimitWait) -> None:
    """Drop the event."""


def fails(*errors: LlmError) -> tuple[Callable[[int], Awaitable[str]], list[int]]:
    """Return an operation that fails with the errors in turn and then succeeds, and the attempts it saw."""
    left, attempts = list(errors), list[int]()

    async def operation(attempt: int) -> str:
        attempts.append(attempt)
        if left:
            raise left.pop(0)
        return "done"

    return operation, attempts


def refused(**facts: Any) -> LlmError:
    return llm_error("rate_limit", backend="anthropic", **facts)


OVERLOADED = llm_error("overloaded", backend="anthropic")


@pytest.mark.table(
    ("errors", "seconds", "reason"),
    [
        ([refused(retry_after=2.0)], 2.0, "rate_limit"),
        ([refused(resets_at=1_000_030.0)], 30.0, "rate_limit"),
        ([refused(resets_at=1_000_030.0, retry_after=2.0)], 30.0, "rate_limit"),
        ([refused(resets_at=5.0, retry_after=2.0)], 2.0, "rate_limit"),
        ([refused()], 1.0, "rate_limit"),
        ([refused(), refused(), refused()], 1.0 + 2.0 + 4.0, "rate_limit"),
        ([OVERLOADED], 1.0, "overloaded"),
        ([OVERLOADED, OVERLOADED], 3.0, "overloaded"),
        ([llm_error("overloaded", backend="x", retry_after=5.0)], 5.0, "overloaded"),
        ([llm_error("connection", backend="x")], 1.0, "connection"),
    ],
)
def test_how_long_a_failure_waits(errors: list[LlmError], seconds: float, reason: str) -> None:
    clock, seen, waits = Clock(), list[RateLimitWait](), list[float]()
    paced = governor(clock, retry={"jitter": False})
    operation, attempts = fails(*errors)
    assert asyncio.run(paced.call(operation, notify=seen.append, add_wait=waits.append)) == "done"
    assert sum(clock.slept) == pytest.approx(seconds)
    assert sum(waits) == pytest.approx(seconds)
    assert attempts == list(range(len(errors) + 1))
    assert {event.reason for event in seen} == {reason}


@pytest.mark.table("code", ["auth", "billing", "model", "context", "execution", "refusal", "cancelled"])
def test_what_will_not_pass_is_not_tried_again(code: str) -> None:
    clock = Clock()
    error = llm_error(code, backend="x")
    operation, attempts = fails(error)
    with pytest.raises(LlmError) as caught:
        asyncio.run(governor(clock).call(operation, notify=ignore))
    assert caught.value is error
    assert (attempts, clock.slept) == ([0], [])


def test_attempts_are_counted_and_the_last_error_comes_out() -> None:
    clock = Clock()
    errors = [llm_error("overloaded", backend="x", detail=str(number)) for number in range(9)]
    operation, attempts = fails(*errors)
    with pytest.raises(LlmError) as caught:
        asyncio.run(governor(clock, retry={"maxAttempts": 3, "jitter": False}).call(operation, notify=ignore))
    assert (attempts, caught.value.detail) == ([0, 1, 2], "2")


def test_a_call_that_may_not_be_replayed_is_not_but_everybody_learns_of_the_limit() -> None:
    clock = Clock()
    paced = governor(clock)
    operation, attempts = fails(refused(retry_after=9.0))
    with pytest.raises(LlmError):
        asyncio.run(paced.call(operation, notify=ignore, may_retry=lambda: False))
    assert attempts == [0]
    assert (paced.paused_for, paced.limit) == (9.0, 1)


def test_a_wait_is_one_start_its_ticks_and_one_end() -> None:
    clock, seen = Clock(), list[RateLimitWait]()
    operation, _ = fails(refused(retry_after=2.5))
    asyncio.run(governor(clock).call(operation, notify=seen.append))
    assert [(event.state, event.seconds) for event in seen] == [
        ("started", 2.5),
        ("tick", 1.5),
        ("tick", 0.5),
        ("finished", 0.0),
    ]


def test_every_call_sees_a_shared_pause_once() -> None:
    clock = Clock()
    paced = governor(clock)
    paced.observe(RateSignal("rejected", retry_after=3.0))
    seen: list[list[RateLimitWait]] = [[], [], []]

    async def main() -> None:
        operations = [fails()[0] for _ in seen]
        await asyncio.gather(*(paced.call(one, notify=seen[n].append) for n, one in enumerate(operations)))

    asyncio.run(main())
    for events in seen:
        states = [event.state for event in events]
        assert (states.count("started"), states.count("finished")) == (1, 1)


def test_calls_refused_together_count_as_one_refusal() -> None:
    clock = Clock()
    paced = governor(clock, max_concurrency=8, retry={"jitter": False})
    for _ in range(8):
        paced.observe(RateSignal("rejected"))
    assert paced.paused_for == 1.0
    clock.now += 1.0
    paced.observe(RateSignal("rejected"))
    assert paced.paused_for == 2.0


def test_a_growing_delay_has_a_ceiling_and_jitter_stays_near() -> None:
    plain = governor(Clock(), retry={"jitter": False, "baseDelayMs": 1000, "maxDelayMs": 8000})
    assert [plain.backoff(failures) for failures in (1, 2, 3, 4, 5, 50)] == [1, 2, 4, 8, 8, 8]
    jittery = governor(Clock(), retry={"jitter": True})
    delays = [jittery.backoff(1) for _ in range(200)]
    assert all(0.75 <= delay <= 1.25 for delay in delays)
    assert len(set(delays)) > 100


@pytest.mark.table(
    ("signal", "limit"),
    [
        (RateSignal("allowed", utilization=0.79), 8),
        (RateSignal("allowed", utilization=0.8), 2),
        (RateSignal("warning"), 2),
        (RateSignal("rejected", retry_after=0.0), 2),
        (RateSignal("allowed"), 8),
    ],
)
def test_pressure_shrinks(signal: RateSignal, limit: int) -> None:
    paced = governor(Clock(), 8, minConcurrencyUnderPressure=2)
    paced.observe(signal)
    assert paced.limit == limit


def test_pressure_never_adds_slots() -> None:
    paced = governor(Clock(), 2, minConcurrencyUnderPressure=5)
    paced.observe(RateSignal("warning"))
    assert paced.limit == 2


def test_success_doubles_until_all_slots_are_back() -> None:
    paced = governor(Clock(), 5)
    paced.observe(RateSignal("warning"))
    limits = []
    for _ in range(4):
        operation, _ = fails()
        asyncio.run(paced.call(operation, notify=ignore))
        limits.append(paced.limit)
    assert limits == [2, 4, 5, 5]


def test_a_success_under_pressure_brings_no_slot_back() -> None:
    paced = governor(Clock(), 8)

    async def busy(attempt: int) -> str:
        paced.observe(RateSignal("allowed", utilization=0.95))
        return "done"

    for _ in range(3):
        asyncio.run(paced.call(busy, notify=ignore))
        assert paced.limit == 1


def test_a_success_counts_once_where_the_backend_reported_it() -> None:
    paced = governor(Clock(), 8)
    paced.observe(RateSignal("warning"))

    async def calm(attempt: int) -> str:
        paced.observe(RateSignal("allowed", utilization=0.1))
        return "done"

    asyncio.run(paced.call(calm, notify=ignore))
    assert paced.limit == 2


def test_switched_off_it_only_keeps_the_slots() -> None:
    clock = Clock()
    paced = governor(clock, 2, enabled=False)
    operation, attempts = fails(refused(retry_after=9.0))
    with pytest.raises(LlmError):
        asyncio.run(paced.call(operation, notify=ignore))
    paced.observe(RateSignal("rejected", retry_after=9.0))
    paced.observe(RateSignal("warning"))
    assert (attempts, clock.slept, paced.paused_for, paced.limit) == ([0], [], 0.0, 2)


@pytest.mark.table("error", [refused(retry_after=60.0), llm_error("overloaded", backend="x", retry_after=60.0)])
def test_a_wait_that_is_too_long_is_refused(error: LlmError) -> None:
    clock = Clock()
    operation, attempts = fails(error)
    with pytest.raises(LlmError) as caught:
        asyncio.run(governor(clock, maxWaitMs=5000).call(operation, notify=ignore))
    assert caught.value is error
    assert caught.value.details["wait_seconds"] == 60.0
    assert (attempts, clock.slept) == ([0], [])


def test_a_call_that_finds_too_long_a_pause_is_refused_too() -> None:
    clock = Clock()
    paced = governor(clock, maxWaitMs=5000)
    paced.observe(RateSignal("rejected", retry_after=60.0))
    operation, attempts = fails()
    with pytest.raises(LlmError) as caught:
        asyncio.run(paced.call(operation, notify=ignore, backend="gateway"))
    assert (caught.value.code, caught.value.details["backend"]) == ("rate_limit", "gateway")
    assert (caught.value.details["wait_seconds"], caught.value.resets_at) == (60.0, 1_000_060.0)
    assert (attempts, clock.slept, paced.active) == ([], [], 0)


def test_a_slot_is_not_held_while_a_failure_is_waited_out() -> None:
    clock = Clock()
    paced = governor(clock, 1, retry={"jitter": False})
    active: list[int] = []

    async def watching(seconds: float) -> None:
        active.append(paced.active)
        clock.now += seconds

    paced._sleep = watching
    operation, _ = fails(OVERLOADED)
    asyncio.run(paced.call(operation, notify=ignore))
    assert active == [0]


@pytest.mark.table("what", ["slot", "pause"])
def test_a_call_cancelled_while_it_waits_takes_no_slot(what: str) -> None:
    clock = Clock()
    paced = governor(clock, 1)
    ran: list[str] = []

    async def forever(seconds: float) -> None:
        await asyncio.Event().wait()

    async def operation(attempt: int) -> str:
        ran.append("yes")
        return "done"

    async def main() -> None:
        if what == "slot":
            async with paced.slot(ignore):
                await cancel_a_waiting_call()
        else:
            paced.observe(RateSignal("rejected", retry_after=60.0))
            paced._sleep = forever
            await cancel_a_waiting_call()
            clock.now += 61
        assert (paced.active, ran) == (0, [])
        assert await paced.call(operation, notify=ignore) == "done"

    async def cancel_a_waiting_call() -> None:
        task = asyncio.create_task(in_fresh_context(paced, operation))
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


async def in_fresh_context(paced: Governor, operation: Callable[[int], Awaitable[str]]) -> str:
    """Run a call as one that no other call made."""
    import contextvars

    return await asyncio.create_task(paced.call(operation, notify=ignore), context=contextvars.Context())


def test_a_call_cancelled_while_it_runs_gives_its_slot_back() -> None:
    paced = governor(Clock(), 1)

    async def forever(attempt: int) -> str:
        await asyncio.Event().wait()
        return ""

    async def main() -> str:
        first = asyncio.create_task(paced.call(forever, notify=ignore))
        await asyncio.sleep(0)
        second = asyncio.create_task(paced.call(fails()[0], notify=ignore))
        await asyncio.sleep(0)
        first.cancel()
        return await asyncio.wait_for(second, 5)

    assert asyncio.run(main()) == "done"
    assert paced.active == 0


def test_a_call_of_a_tool_of_a_call_needs_no_slot_of_its_own() -> None:
    paced = governor(Clock(), 1)

    async def outer(attempt: int) -> str:
        inner = await asyncio.wait_for(paced.call(fails()[0], notify=ignore), 5)
        assert paced.active == 1
        return f"outer {inner}"

    assert asyncio.run(paced.call(outer, notify=ignore)) == "outer done"
    assert paced.active == 0


def test_a_call_after_a_call_needs_its_own_slot() -> None:
    paced = governor(Clock(), 1)
    active: list[int] = []

    async def operation(attempt: int) -> str:
        active.append(paced.active)
        return ""

    async def main() -> None:
        for _ in range(3):
            await paced.call(operation, notify=ignore)

    asyncio.run(main())
    assert active == [1, 1, 1]


SIGNALS = st.sampled_from(
    [
        RateSignal("allowed"),
        RateSignal("allowed", utilization=0.2),
        RateSignal("allowed", utilization=0.9),
        RateSignal("warning"),
        RateSignal("rejected"),
        RateSignal("rejected", retry_after=2.0),
    ]
)
ERRORS = st.sampled_from(["ok", "ok", "ok", "rate_limit", "overloaded", "auth"])


@given(
    slots=st.integers(1, 5),
    least=st.integers(1, 3),
    calls=st.lists(st.tuples(ERRORS, st.integers(0, 3), st.booleans()), min_size=1, max_size=20),
    signals=st.lists(SIGNALS, max_size=6),
)
def test_never_more_than_the_limit_and_everybody_comes_to_an_end(
    slots: int, least: int, calls: list[tuple[str, int, bool]], signals: list[RateSignal]
) -> None:
    clock = Clock()
    paced = governor(clock, slots, minConcurrencyUnderPressure=least, retry={"maxAttempts": 3})
    running, most = 0, 0

    async def one(kind: str, rounds: int) -> str:
        async def operation(attempt: int) -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            assert running == paced.active <= slots
            try:
                for _ in range(rounds):
                    await asyncio.sleep(0)
                if kind != "ok" and attempt == 0:
                    raise llm_error(kind, backend="x")
            finally:
                running -= 1
            return "done"

        return await paced.call(operation, notify=ignore)

    async def main() -> None:
        tasks = [asyncio.create_task(one(kind, rounds)) for kind, rounds, _ in calls]
        for signal in signals:
            await asyncio.sleep(0)
            paced.observe(signal)
        for task, (_, _, stop) in zip(tasks, calls, strict=True):
            if stop:
                task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    asyncio.run(main())
    assert (paced.active, running) == (0, 0)
    assert most <= slots


def test_a_smaller_limit_holds_back_those_that_wait() -> None:
    paced = governor(Clock(), 4)
    running, after = 0, list[int]()
    gate = asyncio.Event()

    async def operation(attempt: int) -> str:
        nonlocal running
        running += 1
        if gate.is_set():
            after.append(running)
            paced.observe(RateSignal("warning"))
        await gate.wait()
        await asyncio.sleep(0)
        running -= 1
        return ""

    async def main() -> None:
        tasks = [asyncio.create_task(paced.call(operation, notify=ignore)) for _ in range(12)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert running == 4
        paced.observe(RateSignal("warning"))
        gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), 5)

    asyncio.run(main())
    assert len(after) == 8
    assert max(after[1:]) <= 2


def test_no_slots_is_no_governor() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        governor(Clock(), 0)


def test_a_pause_is_told_once_however_many_calls_wait_for_it() -> None:
    clock, told = Clock(), list[tuple[float, str]]()
    paced = Governor(
        RateLimit(),
        max_concurrency=3,
        clock=clock,
        sleep=clock.sleep,
        rng=random.Random(7),
        on_wait=lambda seconds, reason: told.append((seconds, reason)),
    )

    async def work() -> None:
        for _ in range(2):
            paced.observe(RateSignal("rejected", retry_after=30))
            operations = [fails()[0] for _ in range(3)]
            await asyncio.gather(*(paced.call(operation, notify=ignore) for operation in operations))
        await paced.call(fails(OVERLOADED)[0], notify=ignore)

    asyncio.run(work())
    assert told[:2] == [(30.0, "rate_limit"), (30.0, "rate_limit")]
    assert [reason for _, reason in told[2:]] == ["overloaded"]
