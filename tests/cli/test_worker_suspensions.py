"""A run that was suspended while another one took over: it commits nothing, and the tree is the same."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds.shared_company import TOPICS, Model, SharedCompany

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself"),
]

PRETEND = "UPDATE leases SET host = 'elsewhere', heartbeat = heartbeat - 3600"
"""Let the run lock look as if its holder was on another host and had missed its heartbeats."""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("coordinator", [False, True])
@pytest.mark.parametrize("moment", [0, 3, 7])
def test_a_suspended_run_does_not_commit_after_another_has_taken_over(
    company: Any, configure: Run, shared: SharedCompany, model: Model, git: Git, moment: int, coordinator: bool
) -> None:
    configure(*TOPICS[:2], at_once=1)
    shared.configure(coordinator=coordinator)
    first = shared.start("ingest", "--json")
    if not coordinator:
        shared.start("worker")
    suspended: list[int] = []

    def suspend(topic: str, step: int) -> None:
        if len(suspended) < 1 and model.asked.total() == moment + 1:
            suspended.append(step)
            os.killpg(first.pid, signal.SIGSTOP)
            shared.rows(PRETEND)

    model.on_request = suspend
    while not suspended:
        time.sleep(0.05)
    second = shared.start("ingest", "--json")
    assert second.wait() == 0, shared.said(second)
    tip = git(company, "rev-parse", "HEAD")
    assert git(company, "rev-list", "--count", "HEAD").strip() == "1"
    asked = model.asked.total()
    os.killpg(first.pid, signal.SIGCONT)
    assert first.wait() == 6, shared.said(first)
    assert "another run took over" in shared.said(first) and "Traceback" not in shared.said(first)
    assert git(company, "rev-parse", "HEAD") == tip and git(company, "status", "--porcelain", "-uno") == ""
    assert model.asked.total() - asked <= 1
    assert len(model.asked) == 8 and sorted(set(model.asked.values())) in ([1], [1, 2]), model.asked
    for table in ("unit_steps", "unit_outcomes", "QUEUE.procrastinate_jobs"):
        assert shared.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert shared.start("ingest", "--json").wait() == 0 and git(company, "rev-parse", "HEAD") == tip
    assert {row[1] for row in shared.rows("SELECT run_id, status FROM runs")} >= {"done"}
