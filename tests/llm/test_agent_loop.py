"""The loop of the backends that answer one turn at a time, on a scripted turn model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ktx_cli.llm.agent_loop import (
    MAX_PAUSES,
    OBJECT_ATTEMPTS,
    CallRecord,
    CallSpec,
    Conversation,
    ModelTurn,
    Outcome,
    ToolCall,
    TurnEnd,
    first_object,
    run_own_loop,
)
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.schemas import object_schema
from ktx_cli.llm.tools import RuntimeTool, ToolError, check_tools
from ktx_cli.llm.types import Cost, StepFinished, ToolFinished, ToolStarted, Usage

Noted = Callable[..., Any]


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str
    people: int = Field(ge=0)


def turn(text: str = "", *calls: ToolCall, end: TurnEnd | None = None, **fields: Any) -> ModelTurn:
    made = ModelTurn(text, calls, end or ("tools" if calls else "end"), Usage(10, 1), Cost(), "", "m-1")
    return replace(made, **fields)


def call(name: str, arguments: Any = None, call_id: str = "") -> ToolCall:
    return ToolCall(call_id or f"id-{name}", name, {"q": name} if arguments is None else arguments)


class Script:
    """A turn model that plays turns; `seen` are the histories it was asked with."""

    def __init__(self, *turns: ModelTurn | LlmError) -> None:
        self.left = list(turns)
        self.seen: list[list[tuple[str, Any]]] = []

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        self.seen.append(
            [
                (entry.kind, entry.text or [(one.call_id, one.text, one.is_error) for one in entry.results])
                for entry in conversation.history
            ]
        )
        reply = self.left.pop(0)
        if isinstance(reply, LlmError):
            raise reply
        return reply


async def once(ask: Callable[[int], Awaitable[ModelTurn]], record: CallRecord) -> ModelTurn:
    return await ask(0)


async def twice(ask: Callable[[int], Awaitable[ModelTurn]], record: CallRecord) -> ModelTurn:
    try:
        return await ask(0)
    except LlmError:
        return await ask(1)


class Shelf:
    """Tools that note when they begin and end."""

    def __init__(self, **read_only: bool) -> None:
        self.log: list[str] = []
        self.tools = check_tools(
            RuntimeTool(name, "Look.", Query, self._handler(name), reader) for name, reader in read_only.items()
        )

    def _handler(self, name: str) -> Callable[[Any], Awaitable[str]]:
        async def handle(query: Query) -> str:
            self.log.append(f"+{name}")
            for _ in range(3 if name == "slow" else 1):
                await asyncio.sleep(0)
            self.log.append(f"-{name}")
            if name == "bad":
                raise ToolError("the shelf is empty")
            return f"{name} saw {query.q}"

        return handle


def play(noted: Noted, script: Script, *, retried: Any = once, repair: Any = None, **fields: Any) -> tuple[Any, Any]:
    one = noted(**{"kind": "loop", "step_budget": 5, **fields})
    work = run_own_loop(script, one.record.spec, one.record, retried=retried, repair=repair)
    return asyncio.run(work), one


@pytest.mark.parametrize("kind", ["text", "probe", "loop"])
def test_an_answer_is_one_step(noted: Noted, kind: str) -> None:
    outcome, one = play(noted, Script(turn("hello")), kind=kind, step_budget=1, system="SYS")
    assert outcome == Outcome("hello")
    assert (one.record.steps, one.record.usage, one.record.resolved_model) == (1, Usage(10, 1), "m-1")


@pytest.mark.requirement("G5", "R56")
def test_results_go_back_together_in_the_order_of_the_calls(noted: Noted) -> None:
    shelf = Shelf(slow=True, fast=True)
    script = Script(turn("", call("slow"), call("fast")), turn("done"))
    outcome, one = play(noted, script, tools=shelf.tools)
    assert outcome == Outcome("done")
    assert script.seen[1] == [
        ("user", "p"),
        ("turn", []),
        ("results", [("id-slow", "slow saw slow", False), ("id-fast", "fast saw fast", False)]),
    ]
    assert [event.call_id for event in one.events if isinstance(event, ToolStarted)] == ["id-slow", "id-fast"]
    assert [event.call_id for event in one.events if isinstance(event, ToolFinished)] == ["id-slow", "id-fast"]


@pytest.mark.parametrize(
    ("kinds", "log"),
    [
        ({"slow": True, "fast": True}, ["+slow", "+fast", "-fast", "-slow"]),
        ({"slow": False, "fast": True}, ["+slow", "-slow", "+fast", "-fast"]),
        ({"slow": True, "fast": False}, ["+slow", "-slow", "+fast", "-fast"]),
        ({"slow": False, "fast": False}, ["+slow", "-slow", "+fast", "-fast"]),
    ],
)
def test_tools_run_side_by_side_only_when_all_of_them_read(
    noted: Noted, kinds: dict[str, bool], log: list[str]
) -> None:
    shelf = Shelf(**kinds)
    play(noted, Script(turn("", call("slow"), call("fast")), turn("done")), tools=shelf.tools)
    assert shelf.log == log


@pytest.mark.requirement("R51")
def test_failures_are_results_and_are_counted(noted: Noted) -> None:
    shelf = Shelf(bad=True, good=True)
    script = Script(
        turn("", call("bad"), call("good"), call("nope"), call("good", {}, "c4"), call("good", "{broken", "c5")),
        turn("done"),
    )
    _, one = play(noted, script, tools=shelf.tools)
    (results,) = [entry for kind, entry in script.seen[1] if kind == "results"]
    assert [is_error for _, _, is_error in results] == [True, False, True, True, True]
    assert one.record.tool_failures == 4
    assert "There is no tool `nope`" in results[2][1]
    assert "Field required" in results[3][1]
    assert "not valid JSON" in results[4][1]


@pytest.mark.requirement("R55", "R56")
@pytest.mark.parametrize("budget", [1, 2, 5])
def test_a_budget_of_n_steps_is_n_steps(noted: Noted, budget: int) -> None:
    shelf = Shelf(look=True)
    told: list[int] = []
    script = Script(*(turn("", call("look"), call("look", call_id="c2")) for _ in range(9)))
    one = noted(lambda step: told.append(step.index), kind="loop", step_budget=budget, tools=shelf.tools)
    outcome = asyncio.run(run_own_loop(script, one.record.spec, one.record, retried=once))
    assert outcome == Outcome("", "budget")
    assert len(script.seen) == budget
    assert told == list(range(1, budget + 1))
    assert [e.index for e in one.events if isinstance(e, StepFinished)] == told
    assert len(shelf.log) == budget * 4, "the tools of the last step ran"


def test_an_answer_in_the_last_step_is_natural(noted: Noted) -> None:
    outcome, _ = play(noted, Script(turn("", call("look")), turn("done")), step_budget=2, tools=Shelf(look=True).tools)
    assert outcome == Outcome("done")


@pytest.mark.requirement("R52")
@pytest.mark.parametrize(("end", "code"), [("refusal", "refusal"), ("context", "context"), ("max_tokens", "execution")])
@pytest.mark.parametrize("kind", ["text", "loop", "object"])
def test_an_answer_that_is_none_is_billed_and_raises(noted: Noted, kind: str, end: TurnEnd, code: str) -> None:
    one = noted(kind=kind, check=City.model_validate, step_budget=3, tools=Shelf(look=True).tools)
    script = Script(turn("par", call("look"), end=end))
    with pytest.raises(LlmError) as caught:
        asyncio.run(run_own_loop(script, one.record.spec, one.record, retried=once))
    assert caught.value.code == code
    assert (one.record.steps, len(one.facts), one.record.tool_failures) == (0, 1, 0)
    assert one.record.invocations == []


def test_a_text_call_that_only_calls_tools_uses_up_its_turns(noted: Noted) -> None:
    with pytest.raises(LlmError) as caught:
        play(noted, Script(turn("", call("look"))), kind="text", step_budget=1)
    assert caught.value.code == "max_turns"


def test_a_paused_turn_is_taken_up_again_in_the_same_step(noted: Noted) -> None:
    script = Script(turn("one ", end="pause"), turn("two ", end="pause"), turn("three"))
    outcome, one = play(noted, script, step_budget=1)
    assert outcome == Outcome("one two three")
    assert (one.record.steps, one.record.usage, len(one.facts)) == (1, Usage(30, 3), 3)
    assert [kind for kind, _ in script.seen[2]] == ["user", "turn", "turn"]


def test_a_turn_that_never_ends_ends(noted: Noted) -> None:
    script = Script(*(turn("", end="pause") for _ in range(99)))
    with pytest.raises(LlmError, match="paused"):
        play(noted, script)
    assert len(script.seen) == MAX_PAUSES + 1


@pytest.mark.requirement("G20")
def test_a_turn_tried_again_keeps_the_history(noted: Noted) -> None:
    shelf = Shelf(look=True)
    script = Script(turn("", call("look")), llm_error("overloaded", backend="x"), turn("done"))
    outcome, one = play(noted, script, retried=twice, tools=shelf.tools)
    assert outcome == Outcome("done")
    assert script.seen[1] == script.seen[2]
    assert len(shelf.log) == 2, "the tool ran once"
    assert (one.record.attempts, [fact.attempt for fact in one.facts]) == (2, [0, 1])


def objects(noted: Noted, *turns: ModelTurn, output: Any = City) -> tuple[Any, Any, Script]:
    schema, check = object_schema(output)
    script = Script(*turns)
    outcome, one = play(noted, script, kind="object", schema=schema, check=check)
    return outcome, one, script


@pytest.mark.requirement("R64")
@pytest.mark.parametrize(
    "good",
    [
        turn("", value={"name": "Ulm", "people": 7}),
        turn('{"name": "Ulm", "people": 7}'),
        turn('```json\n{"name": "Ulm", "people": 7}\n```'),
        turn('```\n{"name": "Ulm", "people": 7}\n```'),
        turn("", call("give_answer", {"name": "Ulm", "people": 7})),
        turn("", call("give_answer", '{"name": "Ulm", "people": 7}')),
    ],
)
def test_an_object_comes_in_every_form(noted: Noted, good: ModelTurn) -> None:
    outcome, one, _ = objects(noted, good)
    assert outcome.value == City(name="Ulm", people=7)
    assert (one.record.steps, one.record.attempts, one.record.tool_failures) == (1, 1, 0)


@pytest.mark.requirement("R64")
def test_an_object_is_corrected_until_it_fits(noted: Noted) -> None:
    outcome, one, script = objects(
        noted, turn("no idea"), turn('{"name": "Ulm", "people": -1}'), turn('{"name": "Ulm", "people": 7}')
    )
    assert outcome.value == City(name="Ulm", people=7)
    assert (one.record.attempts, one.record.steps) == (3, 3)
    first, second = script.seen[1][-1][1], script.seen[2][-1][1]
    assert "does not fit the schema" in first
    assert "Expecting value" in first
    assert "- people: Input should be greater than or equal to 0" in second


def test_a_forced_tool_is_corrected_by_its_result(noted: Noted) -> None:
    _, one, script = objects(
        noted, turn("", call("give_answer", {"name": "Ulm"})), turn("", call("give_answer", {"name": "U", "people": 1}))
    )
    (correction,) = script.seen[1][-1][1]
    assert correction[0] == "id-give_answer"
    assert ("- people: Field required" in correction[1], correction[2]) == (True, True)
    assert (one.record.tool_failures, one.record.tools_ran) == (0, False)


@pytest.mark.requirement("R64")
def test_an_answer_nested_too_deeply_is_corrected_too(noted: Noted) -> None:
    outcome, _, script = objects(noted, turn("[" * 20_000), turn('{"name": "Ulm", "people": 7}'))
    assert outcome.value == City(name="Ulm", people=7)
    assert "nested too deeply" in script.seen[1][-1][1]


def test_no_object_comes_of_a_text_nested_too_deeply() -> None:
    assert first_object('{"a":' + "[" * 20_000) is None


@pytest.mark.requirement("R64", "R52")
def test_an_object_that_never_fits_is_a_typed_failure(noted: Noted) -> None:
    schema, check = object_schema(City)
    script = Script(*(turn("{}") for _ in range(9)))
    one = noted(kind="object", schema=schema, check=check)
    with pytest.raises(LlmError) as caught:
        asyncio.run(run_own_loop(script, one.record.spec, one.record, retried=once))
    assert caught.value.code == "structured_output"
    assert (len(script.seen), one.record.attempts, one.record.steps) == (OBJECT_ATTEMPTS, OBJECT_ATTEMPTS, 5)
    assert len(one.facts) == OBJECT_ATTEMPTS


def test_answers_a_backend_asked_for_itself_count(noted: Noted) -> None:
    _, one, _ = objects(noted, turn("", value={"name": "Ulm", "people": 7}, answers=3))
    assert (one.record.attempts, one.record.steps) == (3, 3)


class Repairs:
    """A repair model that plays answers; `asked` are its questions."""

    def __init__(self, *answers: str | LlmError) -> None:
        self.left = list(answers)
        self.asked: list[str] = []

    async def __call__(self, question: str) -> str:
        self.asked.append(question)
        answer = self.left.pop(0)
        if isinstance(answer, LlmError):
            raise answer
        return answer


FIXED = '{"q": "fixed"}'


@pytest.mark.parametrize(
    ("arguments", "answer", "text", "repairs", "failures"),
    [
        ({}, FIXED, "look saw fixed", 1, 0),
        ('{"q": ', f"Here it is: {FIXED}.", "look saw fixed", 1, 0),
        ({"q": 5}, f"```json\n{FIXED}\n```", "look saw fixed", 1, 0),
        ({}, "no", "Invalid arguments", 0, 1),
        ({}, '{"other": 1}', "Invalid arguments", 0, 1),
        ({}, llm_error("rate_limit", backend="x"), "Invalid arguments", 0, 1),
    ],
)
def test_arguments_are_repaired_in_the_same_step(
    noted: Noted, arguments: Any, answer: Any, text: str, repairs: int, failures: int
) -> None:
    script, repair = Script(turn("", call("look", arguments)), turn("done")), Repairs(answer)
    _, one = play(noted, script, repair=repair, tools=Shelf(look=True).tools)
    assert script.seen[1][-1][1][0][1].startswith(text)
    assert (one.record.repairs, one.record.tool_failures) == (repairs, failures)
    (question,) = repair.asked
    assert "look" in question
    assert '"q"' in question


def test_of_several_broken_calls_the_model_reads_all_errors_at_once(noted: Noted) -> None:
    broken = [replace(call("look", {"p": "a"}), call_id=f"c{number}") for number in range(10)]
    script, repair = Script(turn("", *broken), turn("done")), Repairs('{"q": "mended"}')
    _, one = play(noted, script, repair=repair, tools=Shelf(look=True).tools)
    assert repair.asked == []
    assert (one.record.repairs, one.record.tool_failures, one.record.steps) == (0, 10, 2)
    assert {each.text for each in one.record.invocations} == {"Invalid arguments for `look`:\n- q: Field required"}


def test_a_repair_that_is_cancelled_cancels(noted: Noted) -> None:
    repair = Repairs(llm_error("cancelled", backend="x"))
    with pytest.raises(LlmError) as caught:
        play(noted, Script(turn("", call("look", {}))), repair=repair, tools=Shelf(look=True).tools)
    assert caught.value.code == "cancelled"


def test_what_fits_and_what_is_unknown_is_not_repaired(noted: Noted) -> None:
    repair = Repairs()
    play(noted, Script(turn("", call("look"), call("nope")), turn("done")), repair=repair, tools=Shelf(look=True).tools)
    assert repair.asked == []


def test_an_object_call_needs_a_check(noted: Noted) -> None:
    with pytest.raises(ValueError, match="requires a check"):
        play(noted, Script(), kind="object")


@pytest.mark.table(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('x {broken {"a": "}"} y', {"a": "}"}),
        ('{"a": 1} {"b": 2}', {"a": 1}),
        ("[1]", None),
        ("{", None),
        ("", None),
    ],
)
def test_the_first_object_of_a_text(text: str, value: Any) -> None:
    assert first_object(text) == value
    assert value is None or first_object(f"text {json.dumps(value)}") == value
