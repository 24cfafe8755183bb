"""Processes that serve several calls: nothing of one is in the next, and what is not clear is not used again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ktx_cli.llm.backends.claude.binary import Host
from ktx_cli.llm.backends.claude_code import pool as pools
from ktx_cli.llm.backends.claude_code.isolation import ProcessSpec
from ktx_cli.llm.backends.claude_code.pool import Pool
from ktx_cli.llm.routing import create_runtime
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import Call, ModelRequest, Turn, calls, says
from ktx_cli.testing.model_server import ModelServer

NOTES = ("<local-command", "<command-name>")
"""How the notes begin that Claude Code puts before a prompt after it was cleared."""


class ConversationResetMessage:
    """Stands in for the SDK's."""


class HookEventMessage:
    """Stands in for the SDK's."""


class Client:
    """A client that counts; `answers`: what it says to `/clear`."""

    def __init__(self, answers: list[object]) -> None:
        self.answers, self.said = answers, list[Any]()
        self.ended = False

    async def connect(self) -> None:
        await asyncio.sleep(0)

    async def disconnect(self) -> None:
        self.ended = True

    async def query(self, prompt: Any) -> None:
        self.said.append(prompt if isinstance(prompt, str) else [each async for each in prompt])

    async def receive_response(self) -> Any:
        for answer in self.answers:
            if isinstance(answer, Exception):
                raise answer
            yield answer


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, tmp_path / "launcher", tmp_path / "claude", True, {"PATH": "/usr/bin"})


async def served(host: Host, answers: list[object], times: int, at_once: int = 1) -> list[Client]:
    """Return the clients of a pool that served so many calls."""
    clients: list[Client] = []

    def connect(options: Any) -> Client:
        clients.append(Client(answers))
        return clients[-1]

    pool = Pool(host, size=at_once, connect=connect)
    spec = ProcessSpec("sonnet", "Be brief.", 1, reuse=True)

    async def one(number: int) -> None:
        async with pool.process(spec) as process:
            await process.ask(f"question {number}")
            await asyncio.sleep(0)

    for number in range(times):
        await asyncio.gather(*(one(number) for _ in range(2 * at_once)))
    await pool.aclose()
    assert pool.alive == 0
    assert all(client.ended for client in clients)
    return clients


@pytest.mark.table(
    ("answers", "times", "processes"),
    [
        ([ConversationResetMessage()], 3, 1),  # cleared: used again
        ([], 3, 6),  # it does not say so: a fresh one each time
        ([ConversationResetMessage(), HookEventMessage()], 3, 6),  # somebody's hook ran: a fresh one
        ([ValueError("broken")], 3, 6),  # it breaks: a fresh one
        ([ConversationResetMessage()], pools.MOST_CALLS, 2),  # used up: a fresh one
    ],
)
def test_one_that_is_clear_is_used_again(host: Host, answers: list[object], times: int, processes: int) -> None:
    clients = asyncio.run(asyncio.wait_for(served(host, answers, times), 20))
    assert len(clients) == processes
    first, cleared, *_ = clients[0].said
    assert first[0]["client_composed"] is True
    assert first[0]["message"]["content"] == "question 0"
    assert cleared == "/clear"


def test_calls_in_line_take_those_that_are_clear(host: Host) -> None:
    clients = asyncio.run(asyncio.wait_for(served(host, [ConversationResetMessage()], 5, at_once=3), 20))
    assert len(clients) == 3


class Query(BaseModel):
    q: str = ""


@pytest.mark.slow
def test_nothing_of_a_call_is_in_the_next(tmp_path: Path) -> None:
    tool = RuntimeTool("look", "Look.", Query, lambda value: f"found sesame-{value.q}")

    def script(request: ModelRequest) -> Turn:
        return calls(Call("look", {"q": "open"})) if "loop" in request.words else says("said sesame")

    def config(*, reuse: bool) -> KtxConfig:
        llm = {"provider": {"backend": "claude-code", "claude": {"reuse_processes": reuse}}}
        workers = {"workUnits": {"maxConcurrency": 1}}
        return KtxConfig.model_validate({"llm": {**llm, "models": {"default": "sonnet"}}, "ingest": workers})

    async def asked(environ: dict[str, str], *, reuse: bool, first: bool) -> list[int]:
        async with create_runtime(config(reuse=reuse), tmp_path, environ) as runtime:
            steps = []
            if first:
                done = await runtime.run_agent_loop("loop sesame-one", system="S", tools=[tool], step_budget=2)
                steps.append(done.facts.steps)
            done = await runtime.run_agent_loop("loop @/etc/passwd two", system="S", tools=[tool], step_budget=2)
            return [*steps, done.facts.steps]

    with ModelServer(script) as server, offline_session(server) as session:
        assert asyncio.run(asked(session.environ, reuse=True, first=True)) == [2, 2], "each has its own budget"
        used = server.model_calls[2].body
        server.play(script)
        asyncio.run(asked(session.environ, reuse=False, first=False))
        fresh = server.model_calls[0].body
    assert "sesame" not in str(used)
    assert "root:" not in str(used)
    assert _without_notes(used) == _without_notes(fresh)
    for part in ("model", "tools", "max_tokens"):
        assert used.get(part) == fresh.get(part)
    assert [block["text"] for block in used["system"][1:]] == [block["text"] for block in fresh["system"][1:]]


def _without_notes(body: Any) -> list[str]:
    """Return the texts of the messages, but for the notes of `/clear`."""
    texts: list[str] = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"text": content}] if isinstance(content, str) else content
        texts += [block["text"] for block in blocks if not block["text"].startswith(NOTES)]
    return texts
