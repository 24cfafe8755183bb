"""Postgres restarts while workers process units: the run goes on or is resumed, and nothing is paid twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import PostgresServer
from tests.cli import test_ingest_kills as local
from tests.worlds.forks import Forks
from tests.worlds.ingest_kills import INGEST, Case, Watch
from tests.worlds.kills import unlike
from tests.worlds.worker_kills import SharedCase, SharedRun, undisturbed_names

FULL: Final = bool(os.environ.get("KTX_TEST_FULL"))
WAYS: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)
MOMENTS: Final = tuple(range(2, 30, 3)) if FULL else (4, 14, 22)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself"),
]

template = local.template
environ = local.environ


@pytest.fixture
def case(
    template: Path, environ: dict[str, str], model_server: ModelServer, forks: Forks
) -> Iterator[tuple[SharedCase, PostgresServer]]:
    with PostgresServer() as server:
        case = Case(template, model_server, local.model, local.name_of, forks, environ, local.AT_ONCE)
        yield SharedCase(case, server), server


@pytest.mark.timeout(900)
def test_a_restart_ends_no_worker_and_loses_nothing(case: tuple[SharedCase, PostgresServer], tmp_path: Path) -> None:
    shared, server = case
    undisturbed = tmp_path / "undisturbed"
    names = undisturbed_names(shared.case, undisturbed)
    codes: Counter[int] = Counter()
    for number, request in enumerate(MOMENTS):
        run = SharedRun(shared, tmp_path / f"run-{number}", f"ktx_outage_{number}", coordinator=number % 2 == 1)
        try:
            watch = Watch(shared.case, request)
            shared.case.server.play(watch)
            workers = [run.start("worker") for _ in range(2)]
            coordinator = run.start(*INGEST)
            assert watch.reached.wait(120), run.said
            server.end(WAYS[number % 3])
            time.sleep(0.7)
            server.begin_again()
            code = coordinator.wait()
            codes[code] += 1
            assert "Traceback" not in run.said and "failed unexpectedly" not in run.said, run.said
            if code:
                assert code == 4 and "state database cannot be used" in run.said, run.said
                assert run.start(*INGEST).wait() == 0, run.said
            assert list(unlike(run.folder, undisturbed, shared.case.environ)) == [], run.said
            asked = Counter(watch.names)
            assert set(asked) == set(names) and max(asked.values()) == 1, (asked, run.said)
            assert [each.poll() for each in workers] == [None, None], run.said
            assert run.left() == {}
        finally:
            run.end()
    print(f"\n{len(MOMENTS)} restarts, exit codes {dict(codes)}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_worker_can_be_stopped_during_an_outage(
    case: tuple[SharedCase, PostgresServer], tmp_path: Path, number: int, code: int
) -> None:
    """It cannot give its unit back, but must not wait for the database for good: others take the unit over."""
    shared, server = case
    run = SharedRun(shared, tmp_path / "run", "ktx_outage_stop", coordinator=False)
    try:
        watch = Watch(shared.case, 10)
        shared.case.server.play(watch)
        worker = run.start("worker")
        coordinator = run.start(*INGEST)
        assert watch.reached.wait(120), run.said
        server.end(signal.SIGKILL)
        time.sleep(2)
        began = time.monotonic()
        os.kill(worker.pid, number)
        while worker.poll() is None and time.monotonic() < began + 60:
            time.sleep(0.1)
        assert worker.poll() == code and "Traceback" not in run.said, run.said
        server.begin_again()
        run.start("worker")
        assert coordinator.wait() == 0, run.said
    finally:
        run.end()


@pytest.mark.timeout(300)
def test_a_worker_may_start_before_the_database(case: tuple[SharedCase, PostgresServer], tmp_path: Path) -> None:
    shared, server = case
    run = SharedRun(shared, tmp_path / "run", "ktx_outage_start", coordinator=False)
    try:
        shared.case.server.play(Watch(shared.case, 10_000))
        server.end(signal.SIGKILL)
        worker = run.start("worker")
        (said,) = [path for _, path in run.started]
        deadline = time.monotonic() + 60
        while not (said.exists() and "does not respond; waiting for it" in said.read_text()):
            assert worker.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        server.begin_again()
        assert run.start(*INGEST).wait() == 0, run.said
        assert worker.poll() is None and "responds again" in run.said, run.said
    finally:
        run.end()


@pytest.mark.skipif(not FULL, reason="waits for longer than a run does")
@pytest.mark.timeout(600)
def test_a_worker_waits_for_longer_than_a_run(case: tuple[SharedCase, PostgresServer], tmp_path: Path) -> None:
    shared, server = case
    run = SharedRun(shared, tmp_path / "run", "ktx_outage_long", coordinator=False)
    try:
        watch = Watch(shared.case, 14)
        shared.case.server.play(watch)
        workers = [run.start("worker") for _ in range(2)]
        coordinator = run.start(*INGEST)
        assert watch.reached.wait(120), run.said
        server.end(signal.SIGKILL)
        assert coordinator.wait() == 4, run.said
        assert "state database cannot be used" in run.said and "Traceback" not in run.said
        time.sleep(5)
        server.begin_again()
        assert run.start(*INGEST).wait() == 0, run.said
        assert [each.poll() for each in workers] == [None, None], run.said
        asked = Counter(watch.names)
        again = [name for name, times in asked.items() if times > 1]
        assert max(asked.values()) <= 2 and len(again) <= 2 * local.AT_ONCE, (asked, run.said)
    finally:
        run.end()
