"""One process works for a server through its queue: when it is started, and how it is let go."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktx_cli.jobs.capture.queue import enqueue
from ktx_cli.jobs.capture.records import CaptureRequest
from ktx_cli.jobs.serve import runs as memories
from ktx_cli.jobs.serve.runs import Memories
from ktx_cli.project.layout import Layout

SECONDS = 30


class Workers:
    """Stands in for the processes: each runs a line of shell in the folder; the last line goes on."""

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        self.made: list[subprocess.Popen[bytes]] = []
        self.started = threading.Semaphore(0)

    def __call__(self, layout: Layout, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        line = self.lines[min(len(self.made), len(self.lines) - 1)]
        self.made.append(subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE, cwd=layout.root))
        self.started.release()
        return self.made[-1]


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "ktx.yaml").write_text("llm:\n  provider: {backend: claude-code}\n")
    return Layout(tmp_path)


def served(layout: Layout, monkeypatch: pytest.MonkeyPatch, *lines: str) -> tuple[Memories, Workers]:
    workers = Workers(*lines)
    monkeypatch.setattr(memories, "_spawned", workers)
    return Memories(layout, {}), workers


def test_one_process_is_enough_and_is_let_go_in_the_end(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    made, workers = served(layout, monkeypatch, "cat > said")
    first = made.remember(CaptureRequest("One."))
    made.remember(CaptureRequest("Two."))
    assert made.state(first.run_id, go_on=True).status == "queued"
    assert len(workers.made) == 1
    made.close()
    assert workers.made[0].wait(SECONDS) == 0
    assert (layout.root / "said").read_bytes() == b"g"
    made.close()
    made.remember(CaptureRequest("Three."))
    assert len(workers.made) == 1


def test_what_came_while_the_process_ended_gets_another(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    made, workers = served(layout, monkeypatch, "exit 0", "cat")
    made.remember(CaptureRequest("One."))
    assert workers.started.acquire(timeout=SECONDS) and workers.started.acquire(timeout=SECONDS)
    made.close()
    assert [each.wait(SECONDS) for each in workers.made] == [0, 0]


@pytest.mark.parametrize(("code", "logged"), [(6, False), (1, True)])
def test_one_that_fails_is_not_started_again_at_once(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int, logged: bool
) -> None:
    made, workers = served(layout, monkeypatch, f"exit {code}", "cat")
    record = made.remember(CaptureRequest("One."))
    _until_watched()
    assert len(workers.made) == 1
    assert (str(layout.memory_log) in caplog.text) is logged
    assert made.state(record.run_id, go_on=True).status == "queued"
    assert len(workers.made) == 1, "looking starts none so soon"
    monkeypatch.setattr(memories, "AGAIN_SECONDS", 0.0)
    made.state(record.run_id, go_on=False)
    assert len(workers.made) == 1
    made.state(record.run_id, go_on=True)
    assert len(workers.made) == 2
    made.close()
    assert workers.made[1].wait(SECONDS) == 0


def test_a_server_that_begins_goes_on_with_what_waits(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    made, workers = served(layout, monkeypatch, "cat")
    made.resume()
    enqueue(layout, CaptureRequest("One."))
    made.resume()
    assert workers.started.acquire(timeout=SECONDS)
    made.close()
    assert workers.made[0].wait(SECONDS) == 0


def _until_watched() -> None:
    for thread in threading.enumerate():
        if thread.name == "ktx-memory":
            thread.join(SECONDS)
