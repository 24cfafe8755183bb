"""Signals on `ktx` while a model is asked: nothing keeps running, nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_script import ModelRequest, Reply, Turn, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import LONG, Agents, git
from tests.worlds.forks import Forks


@pytest.fixture
def slow_session() -> Iterator[OfflineSession]:
    """A local session whose model takes longer than any of these tests."""
    with ModelServer(lambda request: says("late", delay=40)) as server, offline_session(server) as session:
        yield session


def processes_of(session: OfflineSession) -> list[int]:
    """Return the processes that run in the session's home."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environ = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(session.home).encode() in environ and state != "Z":
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("backend", "number", "code"),
    [
        pytest.param("claude-code", signal.SIGHUP, 130, marks=pytest.mark.slow),
        pytest.param("claude-cli", signal.SIGHUP, 130, marks=pytest.mark.slow),
        ("claude-code", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_no_process_outlives_ktx(
    slow_session: OfflineSession, forks: Forks, backend: str, number: signal.Signals, code: int
) -> None:
    project = slow_session.home / "project"
    project.mkdir()
    (project / "ktx.yaml").write_text(f"llm: {{provider: {{backend: {backend}}}}}\n")
    words = ("llm", "ask", "hi")
    run = forks(words, folder=project, environ=slow_session.environ, said=slow_session.home / "said")
    deadline = time.monotonic() + 30
    while not slow_session.server.model_calls:
        assert time.monotonic() < deadline, "the model was never asked"
        time.sleep(0.05)
    run.send_signal(number)
    assert run.wait(timeout=20) == code
    deadline = time.monotonic() + 10
    while processes_of(slow_session) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = processes_of(slow_session)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_nohup_keeps_its_promise(tmp_path: Path) -> None:
    script = "import signal; from ktx_cli.cli import main\n"
    script += "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    script += "import sys; sys.argv = ['ktx', '--version']\n"
    script += "try: main.main()\nexcept SystemExit: pass\n"
    script += "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "True"


@pytest.mark.skipif(sys.platform != "linux", reason="process groups as services have them")
def test_a_signal_to_the_whole_group_ends_a_run_in_order(
    ktx: Callable[..., Any], company: Path, configure: Callable[..., None], model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds", "stock")
    model_server.play(Agents())
    assert ktx("ingest").code == 0
    head = git(company, "rev-parse", "HEAD")
    for topic in ("refunds", "stock"):
        (company / "docs" / f"{topic}.md").write_text(f"# {topic}\n\nOther words. {LONG}")
    agents = Agents()

    def slow(request: ModelRequest) -> Reply:
        reply = agents(request)
        return replace(reply, delay=0.3) if isinstance(reply, Turn) else reply

    model_server.play(slow)
    said = company.parent / "said.txt"
    run = forks(["ingest"], folder=company, environ=os.environ, said=said)
    wait_until(lambda: agents.asked)
    os.killpg(run.pid, signal.SIGTERM)
    assert run.wait() == 130
    text = said.read_text()
    assert "stopping: waiting up to 10 s" in text and "error: interrupted" in text
    assert "cannot be read" not in text
    assert (git(company, "rev-parse", "HEAD"), git(company, "fsck", "--strict")) == (head, "")
    assert not (company / ".git" / "index.lock").exists()
    agents = Agents()
    model_server.play(agents)
    assert ktx("ingest").code == 0
    assert {topic for topic, _ in agents.asked} - {"reconcile"} == {"stock"}, "what was finished is not asked again"
    assert git(company, "rev-parse", "HEAD") != head


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
