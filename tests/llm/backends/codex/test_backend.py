"""Calls on the real binary, offline: logins, schemas, resumed loops, a process that ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.agent_loop import StoredStep
from ktx_cli.llm.backends.codex.binary import FOLDER_PREFIX
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.testing.claude_session import OfflineSession
from ktx_cli.testing.codex_session import NEW_REFRESH_TOKEN, chatgpt_login, codex_offline, key_login
from ktx_cli.testing.model_script import UNAUTHORIZED, Cut, ModelRequest, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.codex.conftest import needs_codex, runtime

pytestmark = needs_codex


class Query(BaseModel):
    q: str = ""


class Sizes(BaseModel):
    name: str
    sizes: dict[str, int]


def text(session: OfflineSession, project: Path, prompt: str = "hello") -> str:
    async def go() -> str:
        async with runtime(session, project) as made:
            return (await made.generate_text(prompt)).text

    return asyncio.run(go())


def auth_file(session: OfflineSession) -> Path:
    return session.home / ".codex" / "auth.json"


@pytest.mark.requirement("R39")
def test_the_probe_says_which_login(session: OfflineSession, project: Path) -> None:
    async def go() -> Any:
        async with runtime(session, project) as made:
            return await made.probe()

    session.server.play([says("ok")])
    report = asyncio.run(go())
    assert report.account == "local Codex session (ChatGPT, plus)"
    assert report.resolved_model == "gpt-6.1-sol"
    assert report.isolation["tools"] == [] and report.isolation["mcp_servers"] == []
    assert "PATH" in report.isolation["dropped"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", report.versions["codex"])


@pytest.mark.requirement("R35")
def test_a_key_of_the_environment_is_never_used(model_server: ModelServer, project: Path) -> None:
    """No login, or one that the service rejects: the keys in the environment change nothing."""
    keys = {"OPENAI_API_KEY": "sk-of-the-environment", "CODEX_API_KEY": "sk-of-the-environment"}
    with codex_offline(model_server, login={}, extra=keys) as session:
        model_server.play([says("never")])
        with pytest.raises(LlmError) as caught:
            text(session, project)
        assert (caught.value.code, caught.value.hint) == ("auth", "codex login")
        assert model_server.requests == []
    with codex_offline(model_server, extra=keys) as session:
        model_server.play([UNAUTHORIZED] * 4)
        with pytest.raises(LlmError) as caught:
            text(session, project)
        assert (caught.value.code, caught.value.hint) == ("auth", "codex login")
    assert "of-the-environment" not in "".join(str(dict(one.headers)) for one in model_server.requests)


def test_a_login_with_an_api_key(model_server: ModelServer, project: Path) -> None:
    with codex_offline(model_server, login=key_login()) as session:
        model_server.play([says("ok")])
        assert text(session, project) == "ok"
        assert set(session.targets) == {"api.openai.com:443"}
    (request,) = model_server.requests
    assert (request.path, request.headers["authorization"]) == ("/v1/responses", "Bearer sk-made-up")


def test_an_expired_login_is_renewed_once_and_written_back(model_server: ModelServer, project: Path) -> None:
    async def go(session: OfflineSession) -> None:
        async with runtime(session, project) as made:
            await asyncio.gather(*(made.generate_text(f"hello {number}") for number in range(4)))

    with codex_offline(model_server, login={**chatgpt_login(expires_in=-60), "of_the_user": 1}) as session:
        model_server.play(lambda request: says("ok"))
        asyncio.run(go(session))
        found = json.loads(auth_file(session).read_bytes())
    assert [one.path for one in model_server.requests].count("/oauth/token") == 1
    assert len(model_server.model_calls) == 4
    assert found["tokens"]["refresh_token"] == NEW_REFRESH_TOKEN
    assert found["of_the_user"] == 1


def test_a_login_renewed_in_the_middle_is_written_back(session: OfflineSession, project: Path) -> None:
    session.server.play([UNAUTHORIZED, UNAUTHORIZED, says("ok")])
    assert text(session, project) == "ok"
    assert json.loads(auth_file(session).read_bytes())["tokens"]["refresh_token"] == NEW_REFRESH_TOKEN


def test_a_login_that_another_process_renewed_is_used(session: OfflineSession, project: Path) -> None:
    """The token of this call is rejected, and the user's file has another one by then."""
    renewed = {**chatgpt_login(), "last_refresh": "2026-11-30T00:00:00Z"}
    renewed["tokens"] = {**renewed["tokens"], "refresh_token": "rt_of_another_process"}

    def answer(request: ModelRequest) -> Any:
        if request.number > 8:
            return says("ok")
        auth_file(session).write_text(json.dumps(renewed))
        return UNAUTHORIZED

    session.server.answers.pop("/oauth/token")
    session.server.play(answer)
    assert text(session, project) == "ok"
    assert json.loads(auth_file(session).read_bytes()) == renewed


def test_a_schema_that_cannot_be_enforced_is_part_of_the_instructions(session: OfflineSession, project: Path) -> None:
    async def go() -> Any:
        async with runtime(session, project) as made:
            return await made.generate_object("hello", Sizes, system="s")

    session.server.play([gives({"sizes": {"a": 1}}), gives({"name": "Ulm", "sizes": {"a": 1}})])
    found = asyncio.run(go())
    assert found.value == Sizes(name="Ulm", sizes={"a": 1})
    first, second = session.server.model_calls
    assert first.system.startswith("s\n\nAnswer with a single JSON object")
    assert "format" not in (first.sent.get("text") or {})
    assert "- name: Field required" in second.words


def test_a_long_prompt(session: OfflineSession, project: Path) -> None:
    prompt = "é" * 900_000
    session.server.play([says("ok")])
    assert text(session, project, prompt) == "ok"
    assert prompt in session.server.model_calls[0].body["messages"][0]["content"][0]["text"]


class Journal:
    """Keeps steps in memory, and stops the loop after the first, as a killed run would."""

    def __init__(self) -> None:
        self.steps: list[StoredStep] = []
        self.key = ""

    def load(self, key: str) -> Sequence[StoredStep]:
        return self.steps if key == self.key else []

    async def append(self, key: str, step: StoredStep) -> None:
        self.key = key
        self.steps.append(json.loads(json.dumps(step)))
        if len(self.steps) == 1:
            raise LlmError("stopped", code="execution")


@pytest.mark.requirement("R14")
def test_a_stopped_loop_resumes_after_its_last_step(session: OfflineSession, project: Path) -> None:
    journal, ran = Journal(), []

    def look(query: Query) -> str:
        ran.append(query.q)
        return f"found {query.q}"

    async def go() -> Any:
        async with runtime(session, project) as made:
            return await made.run_agent_loop(
                "hello",
                system="s",
                tools=[RuntimeTool("look", "Look up.", Query, look)],
                step_budget=4,
                journal=journal,
            )

    session.server.play([calls(("look", {"q": "a"})), calls(("look", {"q": "b"})), says("done")])
    assert asyncio.run(go()).stop_reason == "error"
    found = asyncio.run(go())
    assert (found.text, found.stop_reason, found.facts.steps) == ("done", "natural", 3)
    assert ran == ["a", "b"]
    _, second, third = session.server.model_calls
    kinds = [item["type"] for item in third.sent["input"]]
    assert kinds == ["message", "message", *["reasoning", "function_call", "function_call_output"] * 2]
    assert "found a" in second.words and second.system == "s"
    assert [tool["name"] for tool in second.sent["tools"]] == ["look"]


def kill_codex() -> None:
    """Kill the processes of Codex that this one started."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            is_codex = os.readlink(path / "exe").endswith("/codex")
            parent = (path / "stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if is_codex and int(parent) == os.getpid():
            os.kill(int(path.name), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_loop_whose_process_ends_goes_on_in_another(session: OfflineSession, project: Path) -> None:
    """No tool runs twice: the new process gets the history."""
    ran: list[str] = []

    def look(query: Query) -> str:
        ran.append(query.q)
        if query.q == "b":
            kill_codex()
        return f"found {query.q}"

    async def go() -> Any:
        async with runtime(session, project, attempts=2) as made:
            tools = [RuntimeTool("look", "Look up.", Query, look)]
            return await made.run_agent_loop("hello", system="s", tools=tools, step_budget=4)

    session.server.play([calls(("look", {"q": "a"})), calls(("look", {"q": "b"})), says("done")])
    found = asyncio.run(go())
    assert (found.text, found.stop_reason, found.facts.steps) == ("done", "natural", 3)
    assert ran == ["a", "b"]
    assert [text for text, _ in session.server.model_calls[-1].tool_results()] == ["found b"]


@pytest.mark.parametrize("share", [0.4, 0.8])
def test_an_answer_that_is_cut_off_is_asked_for_again(
    share: float, session: OfflineSession, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also behind a tool call, whose result Codex would wait for: no call of such an answer runs."""
    monkeypatch.setattr("ktx_cli.llm.backends.codex.conversation.STALL_SECONDS", 0.3)
    ran: list[str] = []

    def look(query: Query) -> str:
        ran.append(query.q)
        return f"found {query.q}"

    async def go() -> Any:
        async with runtime(session, project, attempts=2) as made:
            tools = [RuntimeTool("look", "Look up.", Query, look)]
            return await made.run_agent_loop("hello", system="s", tools=tools, step_budget=4)

    cut = Cut(calls(("look", {"q": "never"}), ("look", {"q": "neither"})), share=share)
    session.server.play([calls(("look", {"q": "a"})), cut, calls(("look", {"q": "b"})), says("done")])
    found = asyncio.run(go())
    assert (found.text, found.stop_reason, found.facts.steps, found.facts.attempts) == ("done", "natural", 3, 2)
    assert ran == ["a", "b"]
    last = session.server.model_calls[-1]
    assert "never" not in last.words
    kinds = [item["type"] for item in last.sent["input"]]
    assert kinds == ["message", "message", *["reasoning", "function_call", "function_call_output"] * 2]


def test_a_process_that_ends_during_a_request(session: OfflineSession, project: Path) -> None:
    """The call fails as one that may succeed later, and names no file of the process."""

    async def go() -> LlmError:
        async with runtime(session, project) as made:
            task = asyncio.create_task(made.generate_text("hello"))
            while not session.server.model_calls:
                await asyncio.sleep(0.01)
            kill_codex()
            with pytest.raises(LlmError) as caught:
                await task
            return caught.value

    session.server.play([says("never", forever=True)])
    error = asyncio.run(go())
    assert (error.code, error.retryable, error.hint) == ("connection", True, "ktx doctor")
    assert "ktx-codex" not in error.message


KILLED = """
import asyncio, json, sys
from pathlib import Path
from ktx_cli.llm.routing import create_runtime
from ktx_cli.project import KtxConfig
facts = json.loads(sys.argv[1])
config = KtxConfig.model_validate({"llm": {"provider": {"backend": "codex"}, "models": {"default": "m"}}})
async def go():
    async with create_runtime(config, Path(facts["project"]), facts["environ"]) as runtime:
        await runtime.generate_text("hello")
asyncio.run(go())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_nothing_is_left_of_a_killed_run(session: OfflineSession, project: Path) -> None:
    """The process ends with ktx, and the next run removes its folder, which contains a login."""
    facts = {"project": str(project), "environ": session.environ}
    environ = {**os.environ, "TMPDIR": str(project)}
    session.server.play([says("never", forever=True)])
    with subprocess.Popen([sys.executable, "-c", KILLED, json.dumps(facts)], env=environ) as process:
        until = time.monotonic() + 30
        while not session.server.model_calls and time.monotonic() < until:
            time.sleep(0.01)
        (left,) = project.glob("ktx-codex-*")
        process.kill()
    homes = f"CODEX_HOME={left}".encode()

    def runs() -> bool:
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if homes in path.read_bytes().split(b"\0"):
                    return True
        return False

    until = time.monotonic() + 10
    while runs() and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs()
    assert (left / "auth.json").exists()
    sweep_codex(project)
    assert not left.exists()


def sweep_codex(folder: Path) -> None:
    """Do what the next run does first."""
    script = f"from ktx_cli.llm.backends.claude.binary import sweep; sweep({FOLDER_PREFIX!r})"
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "TMPDIR": str(folder)}, check=True)
