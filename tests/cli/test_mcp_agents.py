"""Agents over MCP, models through their real clients: captures in the queue of a server, and ingests it starts."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.demo.demo import QUESTIONS
from ktx_cli.llm.backends.claude.binary import bundled_binary
from ktx_cli.mcp.tools import PROFILES, TOOLS
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import KTX, Agents, backends, entered, git, tree
from tests.cli.mcp_agents import SECONDS, Stdio, ended, stdio
from tests.cli.memory_agents import TEXT, Held, Memory, page, records
from tests.mcp.wire import Wire
from tests.mcp.wire import started as served_over_http
from tests.worlds.forks import INSTALLED, Fork, Forks, shared

Run = Callable[..., Any]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def shop(scanned: Path) -> Path:
    return scanned


@pytest.fixture
def server(shop: Path) -> Iterator[Stdio]:
    with stdio(shop) as served:
        yield served


def started(*words: str) -> Fork:
    return shared().piped(words, folder=Path.cwd(), environ=os.environ)


def subjects(project: Path) -> list[str]:
    return [line.split(":")[0] for line in git(project, "log", "--format=%s").splitlines()]


class Slow(Memory):
    """Holds an ingest in its only work unit until it is let go; captures two texts, a page each."""

    def __init__(self) -> None:
        super().__init__([calls(page("one")), says("done"), calls(page("two")), says("done")])
        self.reached, self.let_go = threading.Event(), threading.Event()

    def __call__(self, request: ModelRequest) -> Reply:
        if "Task: refunds.md" in json.dumps(request.body["messages"]):
            self.reached.set()
            assert self.let_go.wait(SECONDS)
        return super().__call__(request)


def test_a_text_waits_for_an_ingest_and_lands(
    ktx: Run, server: Stdio, shop: Path, configure: Run, model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds")
    model = Slow()
    model_server.play(model)
    ingest = forks(("ingest",), folder=shop, environ=os.environ, said=shop.parent / "said")
    assert model.reached.wait(SECONDS)
    begun = server.call("memory_ingest", content="Fact one.")
    assert (begun["status"], begun["over"]) == ("queued", False)
    busy = ktx("memory", "capture", "--text", "Fact two.", "--json")
    assert (busy.code, busy.envelope["error"]["code"]) == (6, "busy")
    waiting = started("memory", "capture", "--text", "Fact two.", "--wait", "--progress", "jsonl")
    assert waiting.stderr is not None
    told = (json.loads(line) for line in waiting.stderr if line.startswith("{"))
    assert next(each for each in told if each["event"] == "waiting")
    assert server.call("memory_ingest_status", run_id=begun["run_id"])["status"] == "queued"
    model.let_go.set()
    found = server.over("memory_ingest_status", begun["run_id"])
    assert (found["status"], found["error"]) == ("done", None), found
    assert ingest.wait() == 0, (shop.parent / "said").read_text("utf-8")
    _, errors = waiting.communicate(timeout=SECONDS)
    assert waiting.returncode == 0, errors
    assert subjects(shop)[:3] == ["ktx memory capture", "ktx memory capture", "ktx ingest"]
    assert git(shop, "log", "-1", "--format=%H", found["commit"]).strip() == found["commit"]
    assert sorted(each["status"] for each in records(shop)) == ["done", "done"]
    assert {path.stem for path in (shop / "wiki/global").iterdir()} == {"one", "two", "refunds", "documents-docs"}


class Told(Held):
    """Captures one text, held back at a step, and finds nothing in any other."""

    def __call__(self, request: ModelRequest) -> Reply:
        said = json.dumps(request.body["messages"])
        return super().__call__(request) if TEXT in said or "Task:" not in said else says("nothing")


def test_a_killed_server_takes_its_capture_along_and_the_same_text_pays_no_step_twice(
    shop: Path, model_server: ModelServer
) -> None:
    model = Told(2)
    model_server.play(model)
    before, files = git(shop, "rev-parse", "HEAD"), git(shop, "status", "--porcelain")
    with stdio(shop) as server:
        first = server.call("memory_ingest", content=TEXT)["run_id"]
        waits = server.call("memory_ingest", content="Another.")["run_id"]
        assert model.reached.wait(SECONDS)
        assert server.call("memory_ingest_status", run_id=first)["status"] == "running"
        worker = records(shop)[0]["worker"]["pid"]
        server.kill()
        assert ended(worker)
    assert (git(shop, "rev-parse", "HEAD"), git(shop, "status", "--porcelain")) == (before, files)
    assert not (shop / "wiki").exists()
    paid = Counter(model.steps)
    model.let_go.set()
    with stdio(shop) as server:
        found = server.call("memory_ingest_status", run_id=first)
        assert (found["status"], found["over"]) == ("interrupted", True)
        again = server.call("memory_ingest", content=TEXT)["run_id"]
        assert server.over("memory_ingest_status", waits)["status"] == "nothing_to_capture", "it was in the queue"
        found = server.over("memory_ingest_status", again)
    assert (found["status"], found["wrote"]) == ("done", ["sl:shop/orders", "wiki:refunds"]), found
    assert [each["status"] for each in records(shop)] == ["interrupted", "nothing_to_capture", "done"]
    assert (shop / "wiki/global/refunds.md").is_file()
    assert git(shop, "status", "--porcelain") == files
    assert [model.steps[step] - paid[step] for step in (0, 1)] == [0, 0], model.steps


@pytest.mark.parametrize("number", [pytest.param(None, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_server_that_ends_in_order_lets_captures_go_on(
    shop: Path, model_server: ModelServer, number: int | None
) -> None:
    model = Told(1)
    model_server.play(model)
    with stdio(shop) as server:
        for text in (TEXT, "Another."):
            server.call("memory_ingest", content=text)
        assert model.reached.wait(SECONDS)
        worker = records(shop)[0]["worker"]["pid"]
        assert server.end(number) == 0
    assert records(shop)[0]["status"] == "running"
    model.let_go.set()
    assert ended(worker)
    assert [each["status"] for each in records(shop)] == ["done", "nothing_to_capture"]
    assert subjects(shop)[0] == "ktx memory capture"


def test_each_project_of_a_server_has_a_worker_of_its_own(shop: Path, model_server: ModelServer) -> None:
    other = shop.parent / "other"
    shutil.copytree(shop, other)
    model = Told(1)
    model_server.play(model)
    with served_over_http(shop, "--projects", str(shop), str(other)) as first:
        second = Wire(first.port, "/mcp/other")
        first.path = "/mcp/work"
        first.initialize(), second.initialize()
        assert json.loads(first.call("memory_ingest", {"content": TEXT})[2])["status"] == "queued"
        assert model.reached.wait(SECONDS)
        begun = json.loads(second.call("memory_ingest", {"content": "Another."})[2])
        asked = {"run_id": begun["run_id"]}
        for _ in range(SECONDS * 20):
            found = json.loads(second.call("memory_ingest_status", asked)[2])
            if found["over"]:
                break
            threading.Event().wait(0.05)
        assert found["status"] == "nothing_to_capture", "it did not wait for the other project"
        worker = records(shop)[0]["worker"]["pid"]
    model.let_go.set()
    assert ended(worker)
    assert [records(each)[0]["status"] for each in (shop, other)] == ["done", "nothing_to_capture"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", backends("anthropic"))
def test_a_capture_gives_the_tree_that_the_command_gives(
    ktx: Run, shop: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure(backend=backend)
    monkeypatch.setenv(INSTALLED, "1")
    other = shop.parent / "other"
    shutil.copytree(shop, other)
    with entered(backend, model_server, monkeypatch):
        model_server.play(Memory())
        assert ktx("memory", "capture", "--text", TEXT, "--project-dir", str(other)).code == 0
        model_server.play(Memory())
        with stdio(shop) as server:
            found = server.over("memory_ingest_status", server.call("memory_ingest", content=TEXT)["run_id"])
    assert (found["status"], found["wrote"]) == ("done", ["sl:shop/orders", "wiki:refunds"]), found
    assert tree(shop) == tree(other)
    assert subjects(shop) == subjects(other)


def twice(company: Path) -> tuple[Path, Path]:
    """Return the same project in two places."""
    other = company.parent / "other"
    shutil.copytree(company, other)
    return company, other


@pytest.mark.parametrize("backend", backends("anthropic"))
def test_an_ingest_gives_the_tree_that_the_command_gives(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure("refunds", backend=backend)
    one, other = twice(company)
    with entered(backend, model_server, monkeypatch):
        model_server.play(Agents())
        assert ktx("ingest", "--project-dir", str(other)).code == 0
        model_server.play(Agents())
        with stdio(one) as server:
            found = server.over("ingest_status", server.call("ingest_start")["run_id"])
    assert (found["status"], found["error"], found["units"]) == ("done", None, {"done": 1}), found
    assert git(one, "rev-parse", "HEAD^{tree}") == git(other, "rev-parse", "HEAD^{tree}")
    assert git(one, "log", "--format=%s") == git(other, "log", "--format=%s")


@pytest.mark.slow  # of the commands: tests/cli/test_llm.py
def test_an_api_key_is_no_session(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("refunds", backend="claude-code")
    one, other = twice(company)
    model_server.play(Agents())
    with offline_session(model_server, signed_in=False, extra={"ANTHROPIC_API_KEY": "sk-ant-api03-made-up"}) as found:
        for name, value in found.environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("CLAUDE_CODE_OAUTH_TOKEN", raising=False)
        said = ktx("ingest", "--json", "--project-dir", str(other))
        with stdio(one) as server:
            error = server.call("ingest_start")["error"]
            run_id = server.call("memory_ingest", content=TEXT)["run_id"]
            captured = server.over("memory_ingest_status", run_id)
    printed = said.envelope["error"]
    assert (said.code, error["code"]) == (3, "auth")
    assert {name: error[name] for name in ("message", "hint")} == {name: printed[name] for name in ("message", "hint")}
    assert (captured["status"], captured["error"]["code"]) == ("failed", "auth")
    assert not (one / ".git").exists() and model_server.requests == []


class Answers:
    """A model in somebody's Claude Code that asks `sl_query` of ktx, and says the number it got."""

    def __init__(self) -> None:
        self.offered = ""
        self.rows: list[Any] = []

    def __call__(self, request: ModelRequest) -> Reply:
        self.offered += json.dumps(request.body)
        blocks = [each for message in request.body["messages"] for each in _blocks(message)]
        for result in (each for each in blocks if each.get("type") == "tool_result"):
            assert not result.get("is_error"), result
            self.rows = json.loads(_text(result["content"]))["rows"]
            return says(f"Net revenue of {self.rows[0][1]} was {self.rows[0][2]}.")
        return calls(Call("mcp__ktx__sl_query", dict(QUESTIONS[0].query)))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else str(content[0]["text"])


def _blocks(message: Any) -> list[Any]:
    content = message["content"]
    return content if isinstance(content, list) else []


@pytest.mark.slow
def test_claude_code_answers_from_sl_query_through_its_own_client(
    ktx: Run, work: Path, demo_project: Path, model_server: ModelServer
) -> None:
    folder = work / "demo"
    shutil.copytree(demo_project, folder)
    model = Answers()
    model_server.play(model)
    entry = {"command": KTX, "args": ["mcp", "stdio", "--project-dir", str(folder)]}
    words = ["--print", "What was net revenue?", "--output-format", "json", "--model", "claude-sonnet-5-5"]
    words += ["--mcp-config", json.dumps({"mcpServers": {"ktx": entry}}), "--strict-mcp-config"]
    words += ["--allowedTools", "mcp__ktx__sl_query"]
    with offline_session(model_server) as session:
        environ = {**session.environ, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        done = subprocess.run(
            [str(bundled_binary()), *words], env=environ, cwd=work, capture_output=True, text=True, timeout=SECONDS
        )
    assert done.returncode == 0, done
    (work / "query.json").write_text(json.dumps(QUESTIONS[0].query))
    asked = ktx("sl", "query", "--query-file", "query.json", "-c", "warehouse", "--json", "--project-dir", str(folder))
    rows = asked.data["rows"]
    assert model.rows == rows and len(rows) == 12
    assert json.loads(done.stdout)["result"] == f"Net revenue of {rows[0][1]} was {rows[0][2]}."
    offered = set(re.findall(r"mcp__ktx__([a-z_]+)", model.offered))
    for_pipelines = {each.name for each in TOOLS if each.pipelines}
    assert offered == set(PROFILES[Profile.DEFAULT]) - for_pipelines, "there is no connection to MongoDB"
