"""The record of a call: everything once, in order, also when the caller's own code fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.llm.types import (
    Cost,
    Step,
    StepFinished,
    TextDelta,
    ToolFinished,
    ToolInvocation,
    ToolStarted,
    Usage,
    UsageReported,
)

Noted = Callable[..., Any]


def invocation(call_id: str = "c1", *, is_error: bool = False) -> ToolInvocation:
    return ToolInvocation(call_id, "look", {"q": 1}, "text", is_error)


@pytest.mark.requirement("C6")
def test_a_tool_call_starts_and_ends_once(noted: Noted) -> None:
    one = noted()
    one.record.tool_started("c1", "look", {"q": 1})
    one.record.tool_started("c1", "look", {"q": 1})
    one.record.tool_finished(invocation())
    one.record.tool_finished(invocation("c2"))
    assert one.events == [
        ToolStarted("c1", "look", {"q": 1}),
        ToolFinished("c1", "look", "text", False),
        ToolStarted("c2", "look", {"q": 1}),
        ToolFinished("c2", "look", "text", False),
    ]
    assert one.record.facts(0).tool_calls == 2


@pytest.mark.requirement("R51")
def test_a_failed_call_counts_once(noted: Noted) -> None:
    record = noted().record
    for _ in range(2):
        record.tool_finished(invocation(is_error=True))
    record.tool_finished(invocation("c2"))
    assert (record.tool_failures, record.tools_ran) == (1, True)
    assert not noted().record.tools_ran


@pytest.mark.requirement("C2", "C7")
def test_a_unit_is_reported_once(noted: Noted) -> None:
    one = noted()
    one.record.resolved_model = "m-1"
    for _ in range(2):
        one.record.unit("u1", Usage(1, 2), Cost(0.5, "list_price"), raw={"x": 1})
    one.record.unit("u2", Usage(1, 2), Cost(), complete=False)
    facts = one.record.facts(2.0)
    assert [fact.unit_id for fact in one.facts] == ["u1", "u2"]
    assert [event.fact["usage_unit_id"] for event in one.events if isinstance(event, UsageReported)] == ["u1", "u2"]
    assert (one.facts[0].model, one.facts[0].run_id, one.facts[0].command) == ("m-1", "run-1", "test")
    assert (facts.usage, facts.cost) == (Usage(2, 4), Cost(0.5, "partial"))


def test_units_without_an_id_are_all_counted(noted: Noted) -> None:
    one = noted()
    for _ in range(3):
        one.record.unit("", Usage(1), Cost())
    assert len({fact.idempotency_key for fact in one.facts}) == 3
    assert one.record.usage == Usage(3)


def test_an_empty_piece_of_text_is_none(noted: Noted) -> None:
    one = noted()
    one.record.text_delta("")
    one.record.text_delta("x")
    assert one.events == [TextDelta("x")]


@pytest.mark.requirement("R53", "R54")
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_the_caller_is_told_each_step(noted: Noted, kind: str) -> None:
    seen: list[Step] = []

    async def later(step: Step) -> None:
        await asyncio.sleep(0)
        seen.append(step)

    one = noted(seen.append if kind == "plain" else later, kind="loop", step_budget=2)
    for names in (("look",), ()):
        asyncio.run(one.record.step_finished(names))
    assert seen == [Step(1, 2, ("look",)), Step(2, 2)]
    assert one.events == [StepFinished(1, 2), StepFinished(2, 2)]


@pytest.mark.requirement("R54")
def test_what_the_caller_raises_is_logged_and_goes_no_further(noted: Noted, caplog: pytest.LogCaptureFixture) -> None:
    def broken(step: Step) -> None:
        raise RuntimeError("display is gone")

    one = noted(broken, kind="loop", step_budget=2)
    with caplog.at_level(logging.WARNING):
        asyncio.run(one.record.step_finished())
    assert (one.record.steps, one.events) == (1, [StepFinished(1, 2)])
    assert "on_step_finish failed: RuntimeError" in caplog.text
