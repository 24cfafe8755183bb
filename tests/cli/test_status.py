"""`ktx status`: what it shows, when a project is ready, and what --fast and --probe change of that."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli import blocks
from ktx_cli.core import age
from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.codex_session import codex_offline
from ktx_cli.testing.model_script import UNAUTHORIZED, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.conftest import ingested_shop
from tests.llm.backends.codex.conftest import needs_codex

Run = Callable[..., Any]

GATEWAY = "gateway: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}"


def choose(project: Path, backend: str, url: str = "") -> None:
    """Put a backend into the settings of a project."""
    text = (project / "ktx.yaml").read_text()
    more = f"\n    {GATEWAY.format(url=url)}" if url else ""
    chosen = text.replace("backend: none", f"backend: {backend}{more}\n  models: {{default: sonnet}}")
    assert chosen != text
    (project / "ktx.yaml").write_text(chosen)


@pytest.fixture
def ingested(work: Path, copies: Callable[..., Path]) -> Path:
    """A project over the shop with its structure."""
    return copies(ingested_shop, work)


@pytest.fixture
def enter(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return what makes the commands of a test run with a local session, or without one."""
    with contextlib.ExitStack() as sessions:

        def go(**how: Any) -> None:
            found = sessions.enter_context(offline_session(model_server, **how))
            for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "CLAUDE_CODE_OAUTH_TOKEN"):
                monkeypatch.delenv(name, raising=False)
            for name, value in found.environ.items():
                monkeypatch.setenv(name, value)

        yield go


def llm(answer: Any) -> list[tuple[str, str]]:
    return [(each["level"], each["message"]) for each in answer.data["checks"] if each["check"] == "llm"]


def test_without_a_project(ktx: Run) -> None:
    answer = ktx("status", "--json")
    assert answer.code == 3
    assert answer.envelope["error"]["hint"].startswith("create a project here with `ktx setup`")


def test_everything_is_there_as_data(ktx: Run, ingested: Path) -> None:
    data = ktx("status", "--json").data
    assert data["readiness"] == "ready"
    assert data["context"] == {"sources": 3, "columns": 9, "measures": 0, "joins": 2, "wiki_pages": 0}
    assert (data["index"]["state"], data["index"]["behind"]) == ("current", [])
    assert data["embeddings"] == {"backend": "none", "model": None, "state": "none"}
    assert (data["git"]["branch"], data["git"]["uncommitted"]) == ("main", [])
    assert (data["agents"], data["mcp"]) == ([], {"status": "stopped"})
    assert (data["llm"]["backend"], data["llm"]["roles"], data["llm"]["session"]) == ("none", {}, None)
    (warehouse,) = data["connections"]
    assert 0 <= warehouse["age_seconds"] < 7200  # the project was ingested once, for all tests
    assert [each["status"] for each in data["runs"]] == ["done"]


def test_everything_is_there_as_text(ktx: Run, ingested: Path) -> None:
    lines = ktx("status").out.splitlines()
    for line in (
        "embeddings: ok: none",
        "layer: 3 sources, 9 columns, 0 measures, 2 joins, 0 wiki pages",
        "git: on main, nothing uncommitted",
        "agents: not installed in any agent client",
        "mcp server: stopped",
        "last runs\tcommand\tstatus\tfinished",
    ):
        assert line in lines
    assert not any(line.startswith("warning") for line in lines), "no embeddings are nothing to nag about"


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_a_terminal(ktx: Run, ingested: Path, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("ktx_cli.cli.contract.render_plain", lambda found: shown.extend(found) or "")
    ktx("status")
    monkeypatch.setattr(blocks, "terminal_width", lambda: width)
    lines = blocks.render_pretty(shown, colour=False).splitlines()
    assert max(map(len, lines)) <= width
    assert any("2 joins" in line for line in lines)


def test_a_measure_that_does_not_compile_leaves_a_project_ready_and_is_what_to_do_next(
    ktx: Run, ingested: Path
) -> None:
    path = ingested / "semantic-layer" / "warehouse" / "orders.yaml"
    path.write_text("name: orders\nmeasures:\n  - {name: lost, expr: sum(no_such_column)}\n")
    answer = ktx("status")
    assert answer.code == 0
    assert "ready: yes, but the semantic layer has errors" in answer.out.splitlines()
    assert "next: ktx sl validate\n" in answer.err
    path.unlink()
    assert "ready: yes" in ktx("status").out.splitlines()


def test_hand_edits_put_the_index_behind(ktx: Run, ingested: Path) -> None:
    page = ingested / "wiki" / "global" / "revenue.md"
    page.parent.mkdir(parents=True)
    page.write_text("# Revenue\n")
    data = ktx("status", "--json").data
    assert (data["ready"], data["next"], data["context"]["wiki_pages"]) == (True, "ktx index", 1)
    assert data["index"]["behind"] == ["wiki/global/revenue.md"]
    assert data["git"]["uncommitted"] == ["wiki/"]
    assert ktx("index").code == 0
    assert ktx("status", "--json").data["next"] is None


def test_files_of_an_agent_client_that_are_not_committed_are_shown(ktx: Run, ingested: Path, git: Run) -> None:
    assert ktx("agents", "install", "--target", "claude-code").code == 0
    assert ".mcp.json" in ktx("status", "--json").data["git"]["uncommitted"]
    git(ingested, "add", ".mcp.json", ".claude")
    git(ingested, "commit", "-q", "-m", "agents")
    assert ktx("status", "--json").data["git"]["uncommitted"] == []


def test_an_agent_that_is_installed_is_shown(ktx: Run, ingested: Path) -> None:
    (ingested / ".mcp.json").write_text('{"mcpServers": {"ktx": {"command": "ktx", "args": ["mcp", "stdio"]}}}')
    (agent,) = ktx("status", "--json").data["agents"]
    assert (agent["target"], agent["scope"], agent["name"]) == ("claude-code", "project", "ktx")
    assert "agents: claude-code (project" in ktx("status").out


@pytest.mark.parametrize("backend", ["claude-code", "claude-cli"])
def test_an_api_key_is_no_session(
    ktx: Run, ingested: Path, enter: Callable[..., None], model_server: ModelServer, backend: str
) -> None:
    choose(ingested, backend)
    enter(signed_in=False, extra={"ANTHROPIC_API_KEY": "sk-ant-api03-made-up"})
    answer = ktx("status", "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["message"], error["hint"]) == (3, f"not ready: {AUTH_MESSAGE}", AUTH_HINT)
    assert answer.data["llm"]["session"]["state"] == "missing"
    assert (answer.data["readiness"], answer.data["next"]) == ("not_ready", AUTH_HINT)
    assert f"hint: {AUTH_HINT}" in ktx("status").err
    assert model_server.requests == []


@needs_codex
@pytest.mark.parametrize("is_signed_in", [False, True])
def test_the_session_of_codex(
    ktx: Run, ingested: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, is_signed_in: bool
) -> None:
    choose(ingested, "codex")
    login = None if is_signed_in else {}
    with codex_offline(model_server, login=login, extra={"OPENAI_API_KEY": "sk-made-up"}) as session:
        for name, value in session.environ.items():
            monkeypatch.setenv(name, value)
        answer, fast = ktx("status", "--json"), ktx("status", "--fast", "--json")
        model_server.play([says("ok")])
        probed = ktx("status", "--probe", "--json")
    assert ("skip", "unverified: the local Codex session was not checked") in llm(fast)
    if is_signed_in:
        assert llm(answer)[0][1].startswith("session present: local Codex session (ChatGPT); codex 0.")
        assert (answer.code, answer.data["next"]) == (3, "ktx llm probe")
        assert (probed.code, probed.data["readiness"]) == (0, "ready"), probed
    else:
        assert answer.data["llm"]["session"]["state"] == "missing"
        assert (answer.code, answer.data["next"]) == (3, "codex login")
        assert probed.code == 3 and model_server.requests == []


@pytest.mark.slow
def test_a_session_is_ready_when_a_probe_succeeded(
    ktx: Run, ingested: Path, enter: Callable[..., None], model_server: ModelServer
) -> None:
    choose(ingested, "claude-cli")
    enter()
    never = ktx("status", "--json")
    assert (never.code, never.data["next"]) == (3, "ktx llm probe")
    assert [level for level, _ in llm(never)] == ["ok", "fail"]
    assert llm(never)[0][1].startswith("session present: ") and llm(never)[1][1].endswith("last probe never")
    fast = ktx("status", "--fast", "--json")
    assert (fast.code, fast.data["readiness"]) == (3, "not_ready"), "what is missing is missing, asked or not"
    before = digests(ingested)
    model_server.play([says("ok")])
    probed = ktx("status", "--probe", "--json")
    assert (probed.code, probed.data["readiness"]) == (0, "ready"), probed
    assert len(model_server.model_calls) == 1
    changed = {path for path, digest in digests(ingested).items() if before.get(path) != digest}
    assert changed == {".ktx/state.sqlite"}
    later = ktx("status", "--json")
    assert (later.code, later.data["llm"]["models"][0]["last_probe"]["error"]) == (0, None)
    assert len(model_server.model_calls) == 1


def test_what_was_not_asked_is_not_ready(
    ktx: Run, ingested: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--fast: the last probe succeeded, and nobody knows whether the session is still there."""
    probed(ktx, ingested, model_server, monkeypatch)
    text = (ingested / "ktx.yaml").read_text()
    (ingested / "ktx.yaml").write_text(text.replace("backend: gateway", "backend: claude-code"))
    monkeypatch.setattr("ktx_cli.jobs.health.status.ask_sessions", lambda context: pytest.fail("it was asked"))
    with_probe_of(ingested, "claude-code")
    answer = ktx("status", "--fast", "--json")
    assert (answer.code, answer.data["ready"], answer.data["readiness"]) == (3, False, "unverified")
    assert answer.data["llm"]["session"]["state"] == "unverified"
    assert ("skip", "unverified: the local Claude Code session was not checked") in llm(answer)
    assert (answer.envelope["error"]["hint"], answer.data["next"]) == ("ktx status", "ktx status")
    assert "ready: unverified" in ktx("status", "--fast").out


def test_without_a_session_to_ask_for_fast_is_as_ready(
    ktx: Run, ingested: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    probed(ktx, ingested, model_server, monkeypatch)
    assert (ktx("status", "--fast").code, ktx("status").code) == (0, 0)


def test_a_probe_that_fails_says_why(
    ktx: Run, ingested: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    choose(ingested, "gateway", model_server.url)
    model_server.play([UNAUTHORIZED])
    answer = ktx("status", "--probe", "--json")
    assert answer.code == 3
    assert "the gateway rejected the credentials" in answer.envelope["error"]["message"]
    assert answer.data["llm"]["models"][0]["last_probe"]["error"] == "auth"
    later = ktx("status", "--json")
    assert (later.code, later.envelope["error"]["hint"]) == (3, "ktx llm probe")


def test_probe_and_fast_exclude_each_other(ktx: Run, ingested: Path) -> None:
    answer = ktx("status", "--probe", "--fast", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "ktx status --probe")
    assert ktx("status", "--probe").code == 0, "without a model there is nothing to probe"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "never"),
        (0, "0 s ago"),
        (119, "119 s ago"),
        (120, "2 min ago"),
        (7199, "119 min ago"),
        (7200, "2 h ago"),
        (172_800, "2 d ago"),
    ],
)
def test_ages(seconds: int | None, said: str) -> None:
    assert age(seconds) == said


def probed(ktx: Run, project: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the project on a gateway that answers."""
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    choose(project, "gateway", server.url)
    server.play([says("ok")])
    assert ktx("status", "--probe").code == 0


def with_probe_of(project: Path, backend: str) -> None:
    """Have the state say that a backend was probed when the gateway was."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(project / ".ktx" / "state.sqlite")) as database, database:
        database.execute("UPDATE probes SET backend = ?", (backend,))


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
