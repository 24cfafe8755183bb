"""A run with nothing to do asks, commits and loads nothing that it does not need; clones know as much."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import KTX, Agents, git

Run = Callable[..., Any]
SMALL = 40
NEVER_LOADED = ("anthropic", "claude_agent_sdk", "ktx_cli.engine.agents", "ktx_cli.agent_tools.toolset")


@pytest.fixture
def done(ktx: Run, company: Path, configure: Callable[..., None], model_server: ModelServer) -> Path:
    """A project whose documents agents have worked through, with many small ones that were not worth it."""
    configure("refunds")
    for number in range(SMALL):
        (company / f"docs/small-{number:02}.md").write_text("Nothing.\n")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    model_server.play(())
    return company


def loaded(project: Path) -> set[str]:
    """Ingest, and return the modules that took."""
    command = [sys.executable, "-X", "importtime", KTX, "ingest"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


def test_here_in_a_clone_and_without_the_state_nothing_is_done_again(
    ktx: Run, done: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = git(done, "rev-parse", "HEAD").strip()
    modules = loaded(done)
    assert "ktx_cli.jobs.ingest.run" in modules
    assert modules.isdisjoint(NEVER_LOADED)
    git(done, "add", "-A")
    git(done, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "the rest")
    clone = done.with_name("clone")
    git(done, "clone", "-q", str(done), str(clone))
    monkeypatch.chdir(clone)
    for _ in range(2):
        answer = ktx("ingest", "--json")
        assert (answer.code, answer.data["commit"]) == (0, None)
        shutil.rmtree(clone / ".ktx")
    assert git(done, "rev-parse", "HEAD~1").strip() == head
    assert [each.path for each in model_server.requests] == []


def test_what_agents_wrote_without_a_commit_is_committed_by_the_next_run_and_not_asked_for_again(
    ktx: Run, company: Path, configure: Callable[..., None], model_server: ModelServer
) -> None:
    configure("refunds")
    model_server.play(Agents())
    first = ktx("ingest", "--no-commit", "--json")
    assert (first.code, first.data["commit"]) == (0, None), first.err
    asked = len(model_server.requests)
    pages = {path: path.read_bytes() for path in (company / "wiki").rglob("*.md")}
    assert pages and asked > 1
    model_server.play(Agents())
    second = ktx("ingest", "--json")
    assert second.code == 0 and second.data["held"] == [], second.err
    assert set(first.data["uncommitted"]) <= set(second.data["committed"])
    assert {path: path.read_bytes() for path in (company / "wiki").rglob("*.md")} == pages
    units = [each for each in model_server.requests if "Task: " in str(each.body.get("messages"))]
    assert units == []
    assert git(company, "status", "--porcelain", "wiki", "semantic-layer", "raw-sources") == ""
