"""A run that a server starts is a process of its own: watched through what it writes, ended by an interrupt."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from ktx_cli.core.errors import KtxError, NotSupportedError, UsageError
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.serve import runs as ingests
from ktx_cli.jobs.serve.runs import IngestState, IngestWish, cancel_ingest, ingest_state, start_ingest
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import hold_run_lock
from tests.worlds.forks import shared

CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.db\n"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    with sqlite3.connect(tmp_path / "shop.db") as session:
        session.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    return Layout(tmp_path)


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs forked; the first test starts the installed one."""
    monkeypatch.setattr(ingests, "subprocess", shared().spawning())


def ended(layout: Layout, state: IngestState) -> IngestState:
    until = time.monotonic() + 60
    while not state.is_over and time.monotonic() < until:
        time.sleep(0.05)
        state = ingest_state(layout, state.run_id)
    return state


def test_a_run_goes_from_start_to_its_commit(layout: Layout) -> None:
    state = ended(layout, start_ingest(layout, os.environ, IngestWish()))
    assert (state.status, state.commit is not None, state.error) == ("done", True, None)
    assert [each["connection"] for each in state.sources] == ["shop"]
    assert any(step.startswith("scan shop") for step in state.steps)
    assert ingest_state(layout, "latest").run_id == state.run_id
    assert cancel_ingest(layout, state.run_id).status == "done"


@pytest.mark.parametrize(
    ("config", "wish", "code"),
    [
        (CONFIG, IngestWish(("nowhere",)), "usage"),
        ("connections: [", IngestWish(), "config"),
        (
            CONFIG
            + "llm:\n  provider:\n    backend: anthropic\n    anthropic: {api_key: env:KTX_NO_KEY}\n"
            + "  models:\n    default: claude-sonnet-4-6\nscan: {enrichment: {mode: llm}}\n",
            IngestWish(),
            "secret",
        ),
    ],
    ids=["unknown-connection", "broken-settings", "no-key"],
)
@pytest.mark.usefixtures("forked")
def test_a_run_that_cannot_begin_answers_with_its_error(
    layout: Layout, config: str, wish: IngestWish, code: str
) -> None:
    layout.config.write_text(config)
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ANTHROPIC")}
    with pytest.raises(KtxError) as caught:
        start_ingest(layout, environ, wish)
    assert (caught.value.code, bool(caught.value.hint)) == (code, True)
    assert not (layout.root / "semantic-layer").exists()


@pytest.mark.usefixtures("forked")
def test_a_run_while_another_is_at_work_is_busy(layout: Layout) -> None:
    with hold_run_lock(layout, run_id="20260101T000000-abcdef", command="ktx scan"), pytest.raises(KtxError) as caught:
        start_ingest(layout, os.environ, IngestWish())
    assert (caught.value.code, caught.value.details["command"]) == ("busy", "ktx scan")


def test_a_run_is_cancelled_by_an_interrupt(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    inner = os.kill

    def kill(pid: int, number: int) -> None:
        sent.append(number)
        inner(pid, number)

    state = start_ingest(layout, os.environ, IngestWish())
    monkeypatch.setattr(os, "kill", kill)
    state = cancel_ingest(layout, state.run_id)
    assert state.is_over
    assert set(sent) <= {signal.SIGINT}
    if state.status == "interrupted":  # else it was over before it was told
        assert (state.commit, state.error and state.error["code"]) == (None, "cancelled")


def test_only_runs_of_servers_are_cancelled(layout: Layout) -> None:
    ingest(IngestRequest(layout.root, os.environ))
    with hold_run_lock(layout, run_id="20260101T000000-abcdef", command="ktx ingest"), pytest.raises(UsageError):
        cancel_ingest(layout, "20991231T000000-abcdef")
    events = layout.run_events("20260101T000000-abcdef")
    events.parent.mkdir()
    events.write_text('{"event": "run_started", "run_id": "20260101T000000-abcdef", "command": "ktx ingest"}\n')
    held = hold_run_lock(layout, run_id="20260101T000000-abcdef", command="ktx ingest")
    with held, pytest.raises(NotSupportedError, match="did not start the run"):
        cancel_ingest(layout, "20260101T000000-abcdef")
    assert ingest_state(layout, "20260101T000000-abcdef").status == "killed"


def test_what_was_printed_is_kept_of_the_last_runs_alone(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingests, "_KEPT", 1)
    monkeypatch.setattr(ingests.sys, "executable", "/bin/true")
    for _ in range(2):
        with pytest.raises(KtxError, match="exit code 0 before it began"):
            start_ingest(layout, os.environ, IngestWish())
    assert len(list(layout.launched().iterdir())) == 1
    assert layout.launched().stat().st_mode & 0o077 == 0
