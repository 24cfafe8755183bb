"""The API backends as a whole: loops, objects, pauses, retries and abort, through the real SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.port import Abort
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult
from ktx_cli.testing.model_script import Turn, calls, gives, rate_limited, says
from ktx_cli.testing.model_server import ModelServer
from tests.worlds.raw_model_server import HEAD, HOLD, RawServer, begin, block, finish, frames, text_answer, whole

Make = Callable[..., RoutedRuntime]
Start = Callable[..., RawServer]
BACKENDS = ("anthropic", "gateway", "vertex")


class Query(BaseModel):
    q: str


def look(arguments: Query) -> str:
    return f"found {arguments.q}"


LOOK = RuntimeTool("look", "Look something up.", Query, look, read_only=True)


class City(BaseModel):
    name: str
    people: int


class Counts(BaseModel):
    counts: dict[str, int]


class Cat(BaseModel):
    lives: int


class Dog(BaseModel):
    bark: str


class Pet(RootModel[Cat | Dog]):
    pass


class Names(RootModel[list[str]]):
    pass


OBJECTS = [
    (City, {"name": "Ulm", "people": 7}, City(name="Ulm", people=7)),
    (Counts, {"counts": {"a": 1}}, Counts(counts={"a": 1})),
    (Pet, {"value": {"bark": "wuff"}}, Pet(Dog(bark="wuff"))),
    (Names, {"value": ["a", "b"]}, Names(["a", "b"])),
]


def answers(value: Any) -> Callable[[Any], Turn]:
    """A script that answers an object call in the way the request asks for."""

    def play(request: Any) -> Turn:
        if request.tool_names == ["give_answer"]:
            assert request.body["tool_choice"] == {"type": "tool", "name": "give_answer"}
            return calls(("give_answer", value))
        assert request.body["output_config"]["format"]["type"] == "json_schema"
        return gives(value)

    return play


@pytest.mark.requirement("R64")
@pytest.mark.parametrize(("output", "given", "value"), OBJECTS, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("backend", BACKENDS)
def test_objects_of_every_shape(
    backend: str, output: type[BaseModel], given: Any, value: BaseModel, runtime: Make, model_server: ModelServer
) -> None:
    model_server.play(answers(given))

    async def ask() -> Any:
        async with runtime(backend, model_server.url) as port:
            return await port.generate_object("which?", output)

    result = asyncio.run(ask())
    assert (result.value, result.facts.attempts) == (value, 1)


@pytest.mark.parametrize("reason", ["tool_use", "end_turn"])
def test_a_forced_tool_is_an_answer_whatever_reason_the_gateway_gives(
    reason: str, runtime: Make, model_server: ModelServer
) -> None:
    model_server.play([calls(("give_answer", {"name": "Ulm", "people": 7}), stop_reason=reason)])

    async def ask() -> Any:
        async with runtime("gateway", model_server.url) as port:
            return (await port.generate_object("which?", City)).value

    assert asyncio.run(ask()) == City(name="Ulm", people=7)


def test_an_object_that_does_not_fit_is_asked_for_again_with_what_is_wrong(
    runtime: Make, model_server: ModelServer
) -> None:
    model_server.play(
        [calls(("give_answer", {"name": "Ulm"})), says("no"), calls(("give_answer", {"name": "Ulm", "people": 7}))]
    )

    async def ask() -> Any:
        async with runtime("gateway", model_server.url) as port:
            return await port.generate_object("which?", City)

    assert asyncio.run(ask()).facts.attempts == 3
    second, third = model_server.model_calls[1:]
    ((text, failed),) = second.tool_results()
    assert failed
    assert "- people: Field required" in text
    assert third.body["messages"][-1]["content"][0]["text"].startswith("The answer does not fit the schema.")


def run_loop(port: RoutedRuntime, budget: int = 5, **options: Any) -> LoopResult:
    async def ask() -> LoopResult:
        async with port:
            return await port.run_agent_loop("go", system="S", tools=[LOOK], step_budget=budget, **options)

    return asyncio.run(ask())


@pytest.mark.requirement("R44")
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_history_of_a_loop_grows_by_whole_rounds(backend: str, runtime: Make, model_server: ModelServer) -> None:
    script = [calls(("look", {"q": "a"}), ("look", {"q": "b"}), text="both"), calls(("look", {"q": "c"})), says("done")]
    model_server.play(script)
    result = run_loop(runtime(backend, model_server.url))
    assert (result.text, result.facts.steps) == ("done", 3)
    first, second, third = (request.body["messages"] for request in model_server.model_calls)
    assert [message["role"] for message in third] == ["user", "assistant", "user", "assistant", "user"]
    assert model_server.model_calls[1].tool_results() == [("found a", False), ("found b", False)]
    assert without_marks(second[: len(first)]) == without_marks(first)
    assert without_marks(third[: len(second)]) == without_marks(second)


def without_marks(messages: Any) -> Any:
    plain = json.loads(json.dumps(messages))
    for message in plain:
        for one in message["content"]:
            one.pop("cache_control", None)
    return plain


@pytest.mark.requirement("G20")
def test_a_retry_repeats_the_same_request_and_runs_no_tool_again(runtime: Make, model_server: ModelServer) -> None:
    ran: list[str] = []

    def note(arguments: Query) -> str:
        ran.append(arguments.q)
        return "noted"

    port = runtime("anthropic", model_server.url)
    port.governor.rate_limit = port.governor.rate_limit.model_copy(
        update={"retry": port.governor.rate_limit.retry.model_copy(update={"max_attempts": 3})}
    )
    model_server.play([calls(("note", {"q": "once"})), rate_limited(0.05), rate_limited(0.05), says("done")])

    async def ask() -> LoopResult:
        tool = RuntimeTool("note", "Note something.", Query, note)
        async with port:
            return await port.run_agent_loop("go", system="S", tools=[tool], step_budget=5)

    result = asyncio.run(ask())
    assert (result.text, result.facts.attempts, ran) == ("done", 3, ["once"])
    tried = [request.body for request in model_server.model_calls[1:]]
    assert tried[0] == tried[1] == tried[2]


def test_a_paused_turn_is_sent_back_unchanged_and_goes_on(runtime: Make, raw_server: Start) -> None:
    half = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half "})
    server = raw_server(whole(frames(begin(), *half, *finish("pause_turn"))), whole(text_answer("whole")))
    result = run_loop(runtime("anthropic", server.url))
    assert (result.text, result.stop_reason, result.facts.steps) == ("half whole", "natural", 1)
    sent = server.bodies[1]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant"]
    assert without_marks(sent)[1]["content"] == [{"type": "text", "text": "half "}]


@pytest.mark.parametrize("begun", [False, True], ids=["before the answer", "in the middle of it"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_abort_closes_the_request_at_once(backend: str, begun: bool, runtime: Make, raw_server: Start) -> None:
    text = block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "half"})[:-1]
    start = [HEAD + b"content-length: 99999\r\n\r\n" + frames(begin(), *text)] if begun else []
    server = raw_server([*start, HOLD])
    facts: list[Any] = []
    abort = Abort()

    async def ask() -> None:
        async with runtime(backend, server.url, options={"usage_sink": facts.append}) as port:
            asking = asyncio.create_task(port.generate_text("hello", abort=abort))
            while not server.bodies:
                await asyncio.sleep(0.01)
            if begun:
                await asyncio.sleep(0.1)
            abort.throw()
            with pytest.raises(LlmError) as caught:
                await asking
            assert caught.value.code == "cancelled"
            gone = await asyncio.to_thread(server.gone.wait, 5)
            assert gone, "the server saw its client go while the runtime was still open"
            assert port.governor.active == 0

    asyncio.run(ask())
    assert [(fact.unit_id, fact.complete) for fact in facts] == ([("msg_raw", False)] if begun else [])


def test_the_probe_names_account_model_and_address(runtime: Make, model_server: ModelServer) -> None:
    async def ask(backend: str) -> Any:
        model_server.play([says("ok")])
        async with runtime(backend, model_server.url) as port:
            return await port.probe()

    accounts = {backend: asyncio.run(ask(backend)) for backend in BACKENDS}
    assert {backend: report.account for backend, report in accounts.items()} == {
        "anthropic": "API key",
        "gateway": "gateway key",
        "vertex": "access token",
    }
    for report in accounts.values():
        assert report.resolved_model == "claude-sonnet-5-5"
        assert report.versions["base_url"].startswith(model_server.url)
        assert "sk-of-the-config" not in json.dumps(report.to_json())


@pytest.mark.requirement("G1")
def test_one_process_serves_several_api_backends(runtime: Make, model_server: ModelServer) -> None:
    model_server.play(lambda request: says(f"{request.path.count('/')} {request.headers.get('x-api-key')}"))

    async def ask() -> list[str]:
        async with runtime("anthropic", model_server.url) as port:
            models = (None, "gateway:gpt-5.4", "vertex:claude-haiku-5-5")
            return [one.text for one in await asyncio.gather(*(port.generate_text("x", model=m) for m in models))]

    assert asyncio.run(ask()) == ["2 None", "2 sk-of-the-config", "9 None"]
    assert sorted(request.body["model"] for request in model_server.model_calls) == [
        "claude-haiku-5-5",
        "claude-sonnet-5-5",
        "gpt-5.4",
    ]


def test_half_a_surrogate_pair_does_not_end_a_loop(runtime: Make, model_server: ModelServer) -> None:
    model_server.play([calls(("look", {"q": "a\ud83d", "ä\ud83d": 1})), says("done")])
    result = run_loop(runtime("anthropic", model_server.url))
    assert (result.error, result.text) == (None, "done")
    assert model_server.model_calls[1].tool_results() == [("found a?", False)]
    echoed = model_server.model_calls[1].body["messages"][1]["content"][0]
    assert echoed["input"] == {"q": "a?", "ä?": 1}
