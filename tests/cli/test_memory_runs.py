"""Captures beside other runs, killed and gone on with, and in the queue of a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.capture.capture import CaptureOptions, capture
from ktx_cli.jobs.capture.queue import enqueue, listed, status_of
from ktx_cli.jobs.capture.records import CaptureRequest, Status
from ktx_cli.project.layout import Layout
from ktx_cli.testing.model_script import ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import KTX, Agents, entered, git
from tests.cli.memory_agents import MANIFEST, TEXT, Held, Memory, page, records
from tests.worlds.forks import Fork, Forks, Started, shared

Run = Callable[..., Any]
SECONDS = 60


@pytest.fixture
def shop(scanned: Path) -> Path:
    return scanned


def started(*words: str) -> Fork:
    return shared().piped(words, folder=Path.cwd(), environ=os.environ)


def captured(project: Path, forks: Forks) -> Started:
    """Start a capture of the text, in a session of its own."""
    words = ("memory", "capture", "--text", TEXT)
    return forks(words, folder=project, environ=os.environ, said=project.parent / "said")


def subjects(project: Path) -> list[str]:
    return [line.split(":")[0] for line in git(project, "log", "--format=%s").splitlines()]


@pytest.mark.parametrize(
    ("backend", "held"),
    [
        pytest.param("anthropic", 1, marks=pytest.mark.slow),
        ("anthropic", 3),
        pytest.param("claude-cli", 1, marks=pytest.mark.slow),
        pytest.param("claude-cli", 3, marks=pytest.mark.slow),
        pytest.param("claude-code", 1, marks=pytest.mark.slow),
        pytest.param("claude-code", 3, marks=pytest.mark.slow),
    ],
)
def test_a_killed_capture_is_interrupted_and_a_retry_pays_no_step_twice(
    ktx: Run,
    shop: Path,
    configure: Run,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    held: int,
    forks: Forks,
) -> None:
    configure(backend=backend)
    model = Held(held)
    model_server.play(model)
    before = git(shop, "rev-parse", "HEAD")
    with entered(backend, model_server, monkeypatch):
        process = captured(shop, forks)
        assert model.reached.wait(SECONDS)
        (record,) = ktx("memory", "list", "--json").data["captures"]
        assert (record["status"], record["worker"]["pid"]) == ("running", process.pid)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        os.killpg(process.pid, signal.SIGKILL) if backend != "anthropic" and _lives(process.pid) else None
        model.let_go.set()
        assert (
            ktx("memory", "list", "--status", "interrupted", "--json").data["captures"][0]["run_id"] == record["run_id"]
        )
        assert records(shop)[0]["status"] == "running", "reading changes nothing"
        assert git(shop, "rev-parse", "HEAD") == before
        assert git(shop, "status", "--porcelain", "--untracked-files=no") == ""
        assert not (shop / "wiki").exists()
        answer = ktx("memory", "retry", record["run_id"], "--json")
    assert (answer.code, answer.data["items"][0]["status"]) == (0, "done"), answer
    assert answer.data["items"][0]["run_id"] == record["run_id"]
    assert subjects(shop)[0] == "ktx memory capture"
    assert (shop / "wiki/global/refunds.md").is_file()
    once = [step for step in range(held) if model.steps[step] == 1]
    assert once == ([] if backend == "claude-code" else list(range(held))), model.steps
    assert ktx("memory", "retry", record["run_id"]).code == 2


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("propose", [False, True])
def test_one_killed_between_its_commit_and_its_record_is_done_by_a_retry(
    ktx: Run, shop: Path, model_server: ModelServer, propose: bool
) -> None:
    model = Memory()
    model_server.play(model)
    answer = ktx("memory", "capture", "--text", TEXT, "--json", *(["--propose"] if propose else []))
    done = answer.data["items"][0]
    path = Layout(shop).memory_record(done["run_id"])
    cut = {"status": "interrupted", "commits": [], "branch": None}
    path.write_text(json.dumps({**json.loads(path.read_text()), **cut}))
    asked, before = len(model.asked), git(shop, "rev-parse", "--all")
    answer = ktx("memory", "retry", "latest", "--json")
    found = answer.data["items"][0]
    names = ("status", "commit", "branch", "files")
    assert (answer.code, [found[each] for each in names]) == (0, [done[each] for each in names])
    assert (len(model.asked), git(shop, "rev-parse", "--all")) == (asked, before)


def test_the_next_run_writes_that_another_was_interrupted(
    ktx: Run, shop: Path, model_server: ModelServer, forks: Forks
) -> None:
    model = Held(1)
    model_server.play(model)
    process = captured(shop, forks)
    assert model.reached.wait(SECONDS)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    model.let_go.set()
    model_server.play(Memory([calls(page("fees")), says("done")]))
    assert ktx("memory", "capture", "--text", "Fees.").code == 0
    assert [each["status"] for each in records(shop)] == ["interrupted", "done"]


def test_an_interrupt_ends_after_the_loop_and_keeps_it(
    ktx: Run, shop: Path, model_server: ModelServer, forks: Forks
) -> None:
    model = Held(1)
    model_server.play(model)
    process = captured(shop, forks)
    assert model.reached.wait(SECONDS)
    os.kill(process.pid, signal.SIGINT)
    model.let_go.set()
    assert process.wait() == 130, (shop.parent / "said").read_text("utf-8")
    (record,) = records(shop)
    assert (record["status"], record["error"]["hint"]) == ("interrupted", f"ktx memory retry {record['run_id']}")
    asked = sum(model.steps.values())
    assert ktx("memory", "retry", "latest").code == 0
    assert sum(model.steps.values()) == asked, "the loop had come to its end"


class Slow(Memory):
    """Lets the unit `refunds.md` of an ingest wait until it is told to go on."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.entered_unit, self.let_go = threading.Event(), threading.Event()

    def __call__(self, request: ModelRequest) -> Reply:
        if "Task: refunds.md" in json.dumps(request.body["messages"]):
            self.entered_unit.set()
            assert self.let_go.wait(SECONDS)
        return super().__call__(request)


def test_a_capture_beside_another_run_is_busy_or_waits(
    ktx: Run, shop: Path, configure: Run, model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds")
    model = Slow([calls(page("fees")), says("done")])
    model_server.play(model)
    ingest = forks(("ingest",), folder=shop, environ=os.environ, said=shop.parent / "said")
    assert model.entered_unit.wait(SECONDS)
    answer = ktx("memory", "capture", "--text", "Fees.", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (6, "busy")
    assert not (shop / ".ktx/memory").exists()
    waiting = started("memory", "capture", "--text", "Fees.", "--wait", "--progress", "jsonl")
    assert waiting.stderr is not None
    told = (json.loads(line) for line in waiting.stderr if line.startswith("{"))
    assert next(each for each in told if each["event"] == "waiting")
    model.let_go.set()
    assert ingest.wait() == 0
    assert waiting.wait(SECONDS) == 0
    waiting.communicate()
    assert subjects(shop)[:2] == ["ktx memory capture", "ktx ingest"]


def test_a_queue_is_worked_through_in_order_when_the_run_lock_is_free(
    ktx: Run, shop: Path, configure: Run, model_server: ModelServer, forks: Forks
) -> None:
    configure("refunds")
    model = Slow([calls(page("one")), says("done"), calls(page("two")), says("done")])
    model_server.play(model)
    layout = Layout(shop)
    ingest = forks(("ingest",), folder=shop, environ=os.environ, said=shop.parent / "said")
    assert model.entered_unit.wait(SECONDS)
    first, second = (enqueue(layout, CaptureRequest(text, proposer="mcp")) for text in ("Fact one.", "Fact two."))
    worker = started("memory", "work", "--json")
    assert worker.stdin is not None
    worker.stdin.write("g")
    worker.stdin.close()
    assert status_of(layout, first.run_id).status in (Status.QUEUED, Status.RUNNING)
    model.let_go.set()
    assert ingest.wait() == 0
    assert worker.wait(SECONDS) == 0
    assert worker.stdout is not None and worker.stderr is not None
    shown = json.loads(worker.stdout.read())["data"]["captures"]
    worker.stdout.close(), worker.stderr.close()
    assert [(each["run_id"], each["status"]) for each in shown] == [(first.run_id, "done"), (second.run_id, "done")]
    assert subjects(shop)[:3] == ["ktx memory capture", "ktx memory capture", "ktx ingest"]
    assert [each.run_id for each in listed(layout, status=Status.DONE)[0]] == [second.run_id, first.run_id]


@pytest.mark.slow
def test_a_worker_whose_server_is_killed_ends_at_once_and_the_queue_stays(
    ktx: Run, shop: Path, model_server: ModelServer
) -> None:
    model = Held(2)
    model_server.play(model)
    layout = Layout(shop)
    first, second = (enqueue(layout, CaptureRequest(text)) for text in (TEXT, "Another."))
    server = (
        "import subprocess, sys, time\n"
        f"worker = subprocess.Popen([{KTX!r}, 'memory', 'work'], stdin=subprocess.PIPE,"
        " stdout=open('out', 'w'), stderr=subprocess.STDOUT, start_new_session=True)\n"
        "print(worker.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", server], stdout=subprocess.PIPE, text=True, cwd=shop)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert model.reached.wait(SECONDS)
    other = started("memory", "work", "--json")
    said, _ = other.communicate("g", timeout=SECONDS)
    assert (other.returncode, json.loads(said)["error"]["details"]["pid"]) == (6, str(pid))
    process.kill()
    process.communicate()
    ended = threading.Event()
    threading.Thread(target=lambda: (_await_end(pid), ended.set()), daemon=True).start()
    assert ended.wait(SECONDS), (shop / "out").read_text()
    model.let_go.set()
    assert [each["status"] for each in records(shop)] == ["interrupted", "queued"]
    assert "error: the server that started this process is no longer running" in (shop / "out").read_text()
    before = Counter(model.steps)
    assert ktx("memory", "retry", first.run_id).code == 0
    assert [model.steps[step] - before[step] for step in (0, 1)] == [0, 0], "the steps were kept"
    model_server.play(Memory([says("nothing")]))
    worker = started("memory", "work")
    _, err = worker.communicate("g", timeout=SECONDS)
    assert worker.returncode == 0, err
    assert status_of(layout, second.run_id).status is Status.NOTHING


def _await_end(pid: int) -> None:
    while Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        threading.Event().wait(0.05)


def test_a_capture_another_process_had_meanwhile_is_not_made_again(
    ktx: Run, shop: Path, model_server: ModelServer
) -> None:
    queued = enqueue(Layout(shop), CaptureRequest("Hello."))
    model = Memory([says("nothing")])
    model_server.play(model)
    options = CaptureOptions(shop, os.environ)
    ends = [capture(queued, options).record for _ in range(2)]
    assert [each.status for each in ends] == [Status.NOTHING] * 2
    assert len(model.asked) == 1


def test_one_that_cannot_begin_fails_and_the_next_has_its_turn(ktx: Run, shop: Path, model_server: ModelServer) -> None:
    layout = Layout(shop)
    first, second = (enqueue(layout, CaptureRequest(text)) for text in (TEXT, "Another."))
    path = layout.memory_record(first.run_id)
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "connection": "gone"}))
    model_server.play(Memory([says("nothing")]))
    worker = started("memory", "work")
    worker.communicate("g", timeout=SECONDS)
    assert [status_of(layout, each.run_id).status for each in (first, second)] == [Status.FAILED, Status.NOTHING]


def test_nothing_trips_over_the_manifest_of_captures(
    ktx: Run, shop: Path, configure: Run, model_server: ModelServer
) -> None:
    model_server.play(Memory())
    assert ktx("memory", "capture", "--text", TEXT).code == 0
    assert ktx("connection", "add", "_memory", "--driver", "sqlite", "--path", "x.sqlite").code == 2
    before = git(shop, "rev-parse", "HEAD")
    for words in (("status",), ("wiki", "lint"), ("sl", "validate", "-c", "shop"), ("wiki", "refunds"), ("doctor",)):
        assert ktx(*words).code == 0, words
    assert "Refunds come off on the day." in ktx("wiki", "read", "refunds").out
    assert ktx("ingest", "shop", "--json").data["status"] == "unchanged"
    assert git(shop, "rev-parse", "HEAD") == before
    configure("refunds")
    model_server.play(Agents())
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert (shop / MANIFEST).is_file()
