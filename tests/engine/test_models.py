"""The runtime of a run: begun ahead, asked whether it answers, left while it is asked."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktx_cli.core.diagnostics import Command
from ktx_cli.core.events import ignore_events
from ktx_cli.engine.models import Models, Preflight, PreflightFailed
from ktx_cli.engine.plan import RunPlan, Spending
from ktx_cli.engine.report import IngestReport
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.runs.events import Recorder
from ktx_cli.scan.stages import Depth
from ktx_cli.testing.model_script import UNAUTHORIZED, Turn, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config


@pytest.fixture
def plan(tmp_path: Path, model_server: ModelServer) -> RunPlan:
    config = subject_config("anthropic", model_server.url)
    layout = Layout(tmp_path)
    recorder = Recorder(layout, "run-7", ignore_events)
    return RunPlan(Command("ingest"), layout, config, os.environ, recorder, depth=Depth.ENRICHED)


def preflight_of(plan: RunPlan, *, needed: bool) -> Preflight:
    return Preflight(plan, Spending(), needed=needed, roles=["default"])


@contextmanager
def serving(preflight: Preflight) -> Iterator[tuple[Models, sqlite3.Connection]]:
    with open_for_writing(preflight.plan.layout) as database, Models(preflight, database) as models:
        yield models, database
    assert "ktx-models" not in [thread.name for thread in threading.enumerate()]


async def question(runtime: RoutedRuntime) -> str:
    return (await runtime.generate_text("?")).text


def test_the_models_are_asked_ahead_and_once(
    plan: RunPlan, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.play(lambda _: says("ok", input_tokens=7))
    made: list[str] = []
    backend = RoutedRuntime.backend
    monkeypatch.setattr(RoutedRuntime, "backend", lambda port, name: made.append(str(id(port))) or backend(port, name))
    preflight = preflight_of(plan, needed=True)
    with serving(preflight) as (models, database):
        models.begin()
        models.begin()
        assert [models.ask(question) for _ in range(2)] == ["ok", "ok"]
        preflight.require()
        assert len(model_server.model_calls) == 3, "one probe, two questions"
        assert len(set(made)) == 1, "through one runtime"
        assert [row for (row,) in database.execute("SELECT role FROM usage")] == ["default", "default"]
    preflight.store(IngestReport.of(plan))
    with open_for_writing(plan.layout) as database:
        assert sorted(row for (row,) in database.execute("SELECT role FROM usage")) == ["default", "default", "probe"]
        assert [row[0] for row in database.execute("SELECT backend FROM probes")] == ["anthropic"]
    assert preflight.spending.tokens == 3 * (7 + 20)


def test_a_backend_that_does_not_answer_ends_the_first_question_and_the_commit(
    plan: RunPlan, model_server: ModelServer
) -> None:
    model_server.play(lambda _: UNAUTHORIZED)
    preflight = preflight_of(plan, needed=True)
    with serving(preflight) as (models, _):
        models.begin()
        for ask in (lambda: models.ask(question), preflight.require):
            with pytest.raises(PreflightFailed) as caught:
                ask()
            assert caught.value.error.code == "auth"
    assert len(model_server.model_calls) == 1


def test_a_run_that_ends_while_the_models_are_asked_waits_for_no_answer(
    plan: RunPlan, model_server: ModelServer
) -> None:
    model_server.play([Turn(forever=True)])
    with pytest.raises(KeyboardInterrupt), serving(preflight_of(plan, needed=True)) as (models, _):
        models.begin()
        raise KeyboardInterrupt


def test_nothing_is_asked_ahead_where_no_model_has_work(plan: RunPlan, model_server: ModelServer) -> None:
    model_server.play([])
    with serving(preflight_of(plan, needed=False)) as (models, _):
        models.begin()
    assert model_server.requests == []


def interrupt_soon() -> None:
    """Interrupt the main thread once it waits."""
    threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()


def test_an_interrupted_run_waits_for_what_is_under_way(plan: RunPlan, model_server: ModelServer) -> None:
    model_server.play([Turn("late", delay=0.5)])
    told: list[str] = []
    with serving(preflight_of(plan, needed=False)) as (models, _):
        interrupt_soon()
        assert models.ask_patiently(question, lambda: told.append("interrupted")) == "late"
    assert told == ["interrupted"]


def test_an_interrupted_run_does_not_wait_for_ever(
    plan: RunPlan, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktx_cli.engine.models.GRACE_SECONDS", 0.2)
    model_server.play([Turn(forever=True)])
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt), serving(preflight_of(plan, needed=False)) as (models, _):
        interrupt_soon()
        models.ask_patiently(question, lambda: told.append("interrupted"))
    assert told == ["interrupted"]
