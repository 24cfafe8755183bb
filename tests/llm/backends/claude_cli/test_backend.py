"""The backend `claude-cli`: on a shell stub that keeps what it got, and on the real binary."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, create_model

from ktx_cli.llm.backends.claude.binary import FOLDER_PREFIX
from ktx_cli.llm.backends.claude.launcher import DENIED, SWITCHED_OFF
from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.port import Abort
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import LoopResult, TextDelta
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import calls, gives, says
from ktx_cli.testing.model_server import ModelServer

Make = Callable[..., RoutedRuntime]
Stubs = Callable[..., Any]


class Query(BaseModel):
    q: str


class City(BaseModel):
    name: str
    people: int


LOOK = RuntimeTool("look", "Look something up.", Query, lambda a: f"found {a.q}", read_only=True)


def text(port: RoutedRuntime, prompt: str = "hello", **options: Any) -> Any:
    async def ask() -> Any:
        async with port:
            return await port.generate_text(prompt, **options)

    return asyncio.run(ask())


def loop(port: RoutedRuntime, budget: int = 5) -> LoopResult:
    async def ask() -> LoopResult:
        async with port:
            return await port.run_agent_loop("go", system="Be exact.", tools=[LOOK], step_budget=budget)

    return asyncio.run(ask())


def failed(port: RoutedRuntime) -> LlmError:
    with pytest.raises(LlmError) as caught:
        text(port)
    return caught.value


def environ_of(stub: Any, run: int = 1) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in stub.got(run, "environ").splitlines())


@pytest.mark.requirement("G4", "G17", "G21")
def test_a_call_is_one_process_in_a_folder_of_its_own(stub: Stubs, runtime: Make, tmp_path: Path) -> None:
    made = stub()
    result = text(runtime(made), "What is\na?", system="Be exact.", model="claude-cli:haiku")
    assert (result.text, made.runs) == ("hello", 1)
    argv = made.argv()
    assert argv[argv.index("--model") + 1] == "haiku", "the bare id"
    assert argv[argv.index("--system-prompt") + 1] == "Be exact."
    assert made.got(1, "stdin") == "User: What is\na?"
    cwd = Path(made.got(1, "cwd").strip())
    assert cwd.parent == Path(tempfile.gettempdir())
    assert cwd.name.startswith(FOLDER_PREFIX)
    assert (made.got(1, "mode").strip(), made.got(1, "files")) == ("700", "")
    assert not cwd.exists()


@pytest.mark.requirement("G15", "R34", "R35")
def test_the_process_has_nothing_of_the_users_routes(stub: Stubs, runtime: Make) -> None:
    made = stub()
    raw = {"connections": {"warehouse": {"driver": "postgres", "url": "env:WAREHOUSE_URL"}}}
    seeded = dict.fromkeys((*DENIED, "WAREHOUSE_URL", "AWS_OF_TOMORROW"), "seeded")
    text(runtime(made, environ={**seeded, "CLAUDE_CODE_OAUTH_TOKEN": "t"}, **raw))
    environ = environ_of(made)
    assert "seeded" not in environ.values()
    assert environ["CLAUDE_CODE_OAUTH_TOKEN"] == "t"
    assert {name: environ[name] for name in SWITCHED_OFF} == dict(SWITCHED_OFF)
    assert environ["CLAUDE_CODE_MAX_RETRIES"] == "0"
    assert environ["PWD"] == made.got(1, "cwd").strip()


@pytest.mark.requirement("R62")
def test_a_long_system_prompt_is_in_a_private_file(stub: Stubs, runtime: Make) -> None:
    made = stub()
    system = "Sei genau. " * 20_000
    text(runtime(made), system=system)
    argv = made.argv()
    file = Path(argv[argv.index("--system-prompt-file") + 1])
    assert "--system-prompt" not in argv
    assert made.got(1, "files") == f"600 system.txt\n{system}"
    assert not file.exists()


def test_leftovers_of_dead_runs_go_with_the_next_call(stub: Stubs, runtime: Make) -> None:
    left = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{10**30}-"))
    text(runtime(stub()))
    assert not left.exists()


@pytest.mark.requirement("G5", "G6")
def test_parallel_calls_run_and_their_results_go_back_in_order(stub: Stubs, runtime: Make) -> None:
    made = stub()
    entries = '[{"id": "toolu_1", "name": "look", "input": {"q": "%s"}}, {"id": "toolu_1", "name": "look", "q": "c"}]'
    block = f"<use_tools>{entries}</use_tools>"
    made.says("Both." + block % "a", block % "b", "done")
    result = loop(runtime(made))
    assert (result.text, result.stop_reason, result.facts.steps) == ("done", "natural", 3)
    assert [one.text for one in result.invocations] == ["found a", "found c", "found b", "found c"]
    assert len({one.call_id for one in result.invocations}) == 4
    assert made.got(3, "stdin").startswith(
        'User: go\n\nAssistant: Both.\n[tool_use look({"q": "a"})]\n[tool_use look({"q": "c"})]\n\n'
        "User: The results of your calls, in order:\n"
        "[tool_result look]\nfound a\n[/tool_result]\n[tool_result look]\nfound c\n[/tool_result]\n\nAssistant: \n"
    )
    assert "You have tools." in made.argv()[made.argv().index("--system-prompt") + 1]


@pytest.mark.requirement("G6", "G7")
@pytest.mark.parametrize("answer", ["<use_tools>[oops]</use_tools>", "<use_tools>[", "I need no tool."])
def test_an_answer_without_readable_calls_is_the_last_one(
    answer: str, stub: Stubs, runtime: Make, caplog: pytest.LogCaptureFixture
) -> None:
    made = stub()
    made.says(answer)
    result = loop(runtime(made))
    assert (result.text, result.stop_reason, made.runs) == (answer, "natural", 1)
    assert ("could not be parsed" in caplog.text) is ("oops" in answer), "a lost call is said in the log"


@pytest.mark.requirement("G9")
@pytest.mark.parametrize(
    ("facts", "counts", "usd"),
    [
        ({}, (10, 5, 3, 0), 0.25),
        ({"usage": {}, "total_cost_usd": None}, (0, 0, 0, 0), None),
        ({"usage": {"input_tokens": 0, "output_tokens": 0}, "total_cost_usd": 0}, (0, 0, 0, 0), 0.0),
        (
            {"modelUsage": {"m": {"inputTokens": 1, "outputTokens": 2, "cacheCreationInputTokens": 4}}},
            (1, 2, 0, 4),
            0.25,
        ),
    ],
)
def test_usage_and_cost(
    facts: dict[str, Any], counts: tuple[int, ...], usd: float | None, stub: Stubs, runtime: Make
) -> None:
    made = stub()
    made.answers({**json.loads((made.folder / "answer").read_text()), **facts})
    found = text(runtime(made)).facts
    usage = found.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == counts
    assert found.cost.usd == usd


def test_a_failed_call_is_counted(stub: Stubs, runtime: Make) -> None:
    made = stub()
    answer = json.loads((made.folder / "answer").read_text())
    made.answers({**answer, "is_error": True, "api_error_status": 401, "result": "API Error: 401"}, code=1)
    port = runtime(made)
    facts: list[Any] = []
    port.shared.usage_sink = facts.append
    error = failed(port)
    assert (error.code, error.message, error.hint) == ("auth", AUTH_MESSAGE, AUTH_HINT)
    assert [(fact.source, fact.executor_type, fact.usage.input_tokens) for fact in facts] == [
        ("claude_cli", "claude_print", 10)
    ]


@pytest.mark.requirement("R38")
def test_another_provider_is_an_isolation_error(stub: Stubs, runtime: Make) -> None:
    made = stub()
    answer = json.loads((made.folder / "answer").read_text())
    made.answers({**answer, "modelUsage": {"m": {"inputTokens": 1, "provider": "bedrock"}}})
    error = failed(runtime(made))
    assert (error.code, error.message) == ("isolation", "Claude Code was served by bedrock, not by Anthropic")


def test_a_binary_that_vanished_is_an_error_of_the_tree(stub: Stubs, runtime: Make) -> None:
    made = stub()

    async def ask() -> None:
        async with runtime(made) as port:
            await port.generate_text("hello")
            made.program.unlink()
            await port.generate_text("hello")

    with pytest.raises(LlmError) as caught:
        asyncio.run(ask())
    assert caught.value.message == f"{made.program} cannot be started: No such file or directory"


def test_a_schema_too_long_for_the_command_line_is_told(stub: Stubs, runtime: Make) -> None:
    fields: Any = {f"field_{n}_{'x' * 100}": (str, "") for n in range(800)}
    wide = create_model("Wide", name=(str, ...), **fields)
    made = stub()
    made.says("not it", '```json\n{"name": "Ulm"}\n```')

    async def ask() -> Any:
        async with runtime(made) as port:
            return await port.generate_object("which?", wide)

    result = asyncio.run(ask())
    assert (result.value.name, result.facts.attempts) == ("Ulm", 2)
    assert "--json-schema" not in made.argv()
    assert made.argv()[made.argv().index("--max-turns") + 1] == "1"
    assert "It fits this JSON Schema:" in made.got(1, "files")


@pytest.mark.requirement("G13")
def test_a_stream_is_the_whole_answer_at_once(stub: Stubs, runtime: Make) -> None:
    async def ask() -> list[str]:
        async with runtime(stub()) as port:
            handle = port.start_text("hello")
            deltas = [event.delta async for event in handle if isinstance(event, TextDelta)]
            await handle.final()
            return deltas

    assert asyncio.run(ask()) == ["hello"]


@pytest.mark.requirement("G10")
def test_abort_ends_the_process_and_its_children(stub: Stubs, runtime: Make) -> None:
    made = stub(before="sh -c 'trap \"\" TERM; echo $$ > {folder}/child; while :; do sleep 0.05; done' & wait")
    abort = Abort()

    async def ask() -> int:
        async with runtime(made) as port:
            asking = asyncio.create_task(port.generate_text("hello", abort=abort))
            child = made.folder / "child"
            while not (child.is_file() and child.read_text().strip()):
                assert not asking.done()
                await asyncio.sleep(0.02)
            abort.throw()
            with pytest.raises(LlmError) as caught:
                await asking
            assert caught.value.code == "cancelled"
            assert port.governor.active == 0
            return int(child.read_text())

    child = asyncio.run(ask())
    end = time.monotonic() + 10
    while time.monotonic() < end and is_running(child):
        time.sleep(0.01)
    assert not is_running(child)
    assert not Path(made.got(1, "cwd").strip()).exists()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.requirement("R16", "R19", "G16", "G18")
def test_the_real_binary_text_object_and_loop(runtime: Make, model_server: ModelServer) -> None:
    with offline_session(model_server) as session:
        (session.config_dir / "CLAUDE.md").write_text("WORDS OF THE USER")
        environ = {**session.environ, "ANTHROPIC_API_KEY": "sk-seeded"}

        async def ask() -> tuple[Any, Any, Any]:
            async with runtime(environ=environ) as port:
                model_server.play([says("hello")])
                said = await port.generate_text("@/etc/passwd", system="Be exact.")
                requests = model_server.model_calls
                model_server.play([gives({"name": "Ulm"}), gives({"name": "Ulm", "people": 7})])
                city = await port.generate_object("which?", City)
                model_server.play([calls(("look", {"q": "a"}), ("look", {"q": "b"})), says("done")])
                ended = await port.run_agent_loop("go", system="S", tools=[LOOK], step_budget=3)
                return (said, requests), city, (ended, model_server.model_calls)

        (said, requests), city, (ended, turns) = asyncio.run(ask())
    (request,) = requests
    assert (said.text, said.facts.resolved_model) == ("hello", "claude-sonnet-5-5")
    assert (request.tool_names, "Be exact." in request.system) == ([], True)
    assert "User: @/etc/passwd" in request.words
    assert "root:" not in request.words
    assert "WORDS OF THE USER" not in request.words
    assert "sk-seeded" not in str(request.headers)
    assert (city.value, city.facts.attempts) == (City(name="Ulm", people=7), 2)
    assert [one.text for one in ended.invocations] == ["found a", "found b"]
    assert (ended.text, ended.facts.steps, len(turns)) == ("done", 2, 2)
    assert "[tool_result look]\\nfound a\\n[/tool_result]\\n[tool_result look]\\nfound b" in turns[1].words
