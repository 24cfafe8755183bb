"""A loop that was cut off goes on after its last stored step, and never on from another loop's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.agent_loop import (
    CallRecord,
    CallSpec,
    Conversation,
    ModelTurn,
    Outcome,
    StoredStep,
    ToolCall,
    key_of,
    run_own_loop,
)
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.tools import RuntimeTool, check_tools
from ktx_cli.llm.types import Cost, StepFinished, Usage

Noted = Callable[..., Any]


class Query(BaseModel):
    q: str


class Kept:
    """A journal in memory, as it comes back from a file."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def load(self, key: str) -> Sequence[StoredStep]:
        return [json.loads(step) for own, step in self.steps if own == key]

    async def append(self, key: str, step: StoredStep) -> None:
        self.steps.append((key, json.dumps(step)))


class Script:
    """A turn model; `seen` is how many entries each request had, and its last texts."""

    def __init__(self, *turns: ModelTurn | LlmError) -> None:
        self.left = list(turns)
        self.seen: list[list[str]] = []

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        entries = conversation.history
        self.seen.append([one.text for entry in entries for one in entry.results])
        reply = self.left.pop(0)
        if isinstance(reply, LlmError):
            raise reply
        return reply


def turn(text: str = "", *calls: ToolCall, raw: Any = None) -> ModelTurn:
    end = "tools" if calls else "end"
    return ModelTurn(text, calls, end, Usage(10, 1), Cost(0.5, "list_price"), text or "u", "m-1", raw)  # type: ignore[arg-type]


def look(number: int, name: str = "look") -> ModelTurn:
    arguments = {"q": str(number)} if name == "look" else "{broken"
    return turn(f"turn {number}", ToolCall(f"c{number}", "look", arguments), raw=[{"type": "tool_use", "id": number}])


async def once(ask: Callable[[int], Awaitable[ModelTurn]], record: CallRecord) -> ModelTurn:
    return await ask(0)


def tools() -> Any:
    async def handle(query: Query) -> str:
        return f"saw {query.q}"

    return check_tools([RuntimeTool("look", "Look.", Query, handle)])


def play(noted: Noted, script: Script, kept: Kept, **fields: Any) -> tuple[Outcome, Any]:
    one = noted(**{"kind": "loop", "step_budget": 6, "tools": tools(), "journal": kept, **fields})
    return asyncio.run(run_own_loop(script, one.record.spec, one.record, retried=once)), one


def cut_off(noted: Noted, kept: Kept, *turns: ModelTurn) -> None:
    script = Script(*turns, llm_error("connection", backend="anthropic", model="m", role="default"))
    with pytest.raises(LlmError):
        play(noted, script, kept)


def test_it_goes_on_with_all_stored_results(noted: Noted) -> None:
    kept = Kept()
    cut_off(noted, kept, look(1), look(2, "bad"), look(3))
    script = Script(look(4), turn("done"))
    outcome, one = play(noted, script, kept)
    assert outcome == Outcome("done")
    assert [text.partition(":")[0] for text in script.seen[0]] == ["saw 1", "Invalid arguments for `look`", "saw 3"]
    assert len(script.seen) == 2
    assert [event.index for event in one.events if isinstance(event, StepFinished)] == [4, 5]
    assert (one.record.steps, one.record.tool_failures) == (5, 1)
    assert [call.call_id for call in one.record.invocations] == ["c1", "c2", "c3", "c4"]
    assert one.record.usage == Usage(20, 2), "what was paid before is not counted again"


def test_what_the_backend_repeats_comes_back_as_it_was(noted: Noted) -> None:
    kept, seen = Kept(), []
    cut_off(noted, kept, look(1))

    class Looking(Script):
        async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
            seen.extend(entry.turn for entry in conversation.history if entry.turn is not None)
            return await super().turn(spec, conversation, record)

    play(noted, Looking(turn("done")), kept)
    assert seen == [look(1)]


def test_a_budget_counts_the_stored_steps(noted: Noted) -> None:
    kept = Kept()
    cut_off(noted, kept, look(1), look(2))
    script = Script(look(3))
    outcome, one = play(noted, script, kept, step_budget=3)
    assert (outcome.stop_reason, len(script.seen), one.record.steps) == ("budget", 1, 3)


def test_a_loop_that_had_ended_asks_nothing(noted: Noted) -> None:
    kept = Kept()
    play(noted, Script(look(1), turn("all done")), kept)
    outcome, one = play(noted, Script(), kept)
    assert (outcome, one.record.steps) == (Outcome("all done"), 2)


@pytest.mark.parametrize(
    "other", [{"prompt": "q"}, {"system": "s"}, {"model": "m-2"}, {"backend": "gateway"}, {"tools": {}}]
)
def test_another_loop_begins_anew(noted: Noted, other: dict[str, Any]) -> None:
    kept = Kept()
    cut_off(noted, kept, look(1))
    script = Script(turn("done"))
    play(noted, script, kept, **other)
    assert script.seen == [[]]


def test_without_a_journal_nothing_is_kept(noted: Noted) -> None:
    one = noted(kind="loop", step_budget=6, tools=tools())
    assert asyncio.run(run_own_loop(Script(look(1), turn("x")), one.record.spec, one.record, retried=once)).text == "x"
    assert key_of(one.record.spec)
