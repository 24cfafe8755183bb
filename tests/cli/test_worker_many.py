"""Many units on workers: each is processed once, and what the database is asked grows with their number, not faster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents
from tests.worlds.shared_company import SharedCompany

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

STEPS: Final = 4
"""The requests of a unit."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [12, pytest.param(200, marks=pytest.mark.slow)])
def test_many_units(
    company: Path, configure: Run, shared: SharedCompany, model_server: ModelServer, git: Git, number: int
) -> None:
    topics = [f"topic{each:03}" for each in range(number)]
    agents = Agents()
    model_server.play(agents)
    configure(*topics, at_once=4)
    shared.configure(heartbeat=5.0)
    log = shared.schema.server.folder / "server.log"
    start = log.stat().st_size
    for _ in range(2):
        shared.start("worker")
    ingest = shared.start("ingest", "--json")
    assert ingest.wait() == 0, shared.said(ingest)
    asked = Counter(topic for topic, _ in agents.asked if topic in topics)
    assert asked == dict.fromkeys(topics, STEPS)
    assert len(git(company, "ls-files", "wiki/global/topic*").splitlines()) == number
    for table in ("unit_steps", "unit_outcomes", "unit_results", "run_packages", "QUEUE.procrastinate_jobs"):
        assert shared.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    text = log.read_bytes()[start:]
    assert text.count(b"procrastinate_defer_jobs_v1(") <= 4, "units are queued together, after the definition"
    for statement, most in ((b"FROM unit_outcomes", 2.5), (b"UPDATE unit_results", 2.5)):
        assert text.count(statement) <= most * number + 20, statement
