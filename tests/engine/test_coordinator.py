"""The coordinator of units on workers: it takes each result once, whatever fails meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from ktx_cli.core import StorageError
from ktx_cli.documents import WorkUnit
from ktx_cli.engine import UnitJob, WorkerIdentity
from ktx_cli.engine import coordinator as coordinator_module
from ktx_cli.engine.coordinator import Coordinator, _Waiting
from ktx_cli.engine.work import TaskStore
from ktx_cli.project import Layout, StateDatabase, open_for_writing

RUN = "20260101T000000-abcdef"
RESULT = {
    "status": "left",
    "reason": "",
    "session": {},
    "steps": 1,
    "tool_calls": 1,
    "budget_used": False,
    "error": None,
}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDatabase]:
    with open_for_writing(Layout(tmp_path)) as database:
        row = (RUN, "key", str(WorkerIdentity()), json.dumps(RESULT))
        database.execute("INSERT INTO unit_results VALUES (?, ?, ?, ?)", row)
        yield database


def coordinator_of(database: Any, tmp_path: Path) -> Coordinator:
    plan: Any = SimpleNamespace(run_id=RUN, layout=Layout(tmp_path), emit=lambda event: None)
    nothing: Any = None
    return Coordinator(plan, nothing, nothing, nothing, database, nothing, "queue")


def collected(coordinator: Coordinator) -> list[str]:
    """Collect twice, as after an outage, and return the reasons of failures and the state of the unit."""

    async def collect() -> list[str]:
        work: Any = SimpleNamespace(connection="docs", kind="files")
        job = UnitJob(RUN, "docs", "files", "a.md", "key")
        done = asyncio.get_running_loop().create_future()
        coordinator.waiting["key"] = _Waiting(work, WorkUnit("a.md", "a.md", ("a.md",)), job, done)
        found = []
        for _ in range(2):
            try:
                await coordinator._collect()
            except StorageError as error:
                found.append(error.message)
        return [*found, done.result().status.value if done.done() else "waiting"]

    return asyncio.run(collect())


@pytest.mark.parametrize(("waits", "left"), [(False, {}), (True, {RUN: "the run was stopped"})])
def test_the_package_of_a_run_is_deleted_unless_workers_have_to_read_that_it_was_stopped(
    waits: bool, left: dict[str, str], state: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def clear(app: Any, database: StateDatabase, schema: str) -> None:
        pass

    monkeypatch.setattr(coordinator_module, "_clear", clear)
    for run_id in (RUN, "another"):
        state.execute("INSERT INTO run_packages VALUES (?, '{}', NULL)", (run_id,))
    nothing: Any = SimpleNamespace(app=None, cancellation=SimpleNamespace(error=None))
    plan: Any = SimpleNamespace(run_id=RUN)
    coordinator = Coordinator(plan, nothing, nothing, nothing, state, nothing, "queue")
    coordinator.waiting = {"key": nothing} if waits else {}
    asyncio.run(coordinator.close())
    rows = state.execute("SELECT run_id, stopped FROM run_packages").fetchall()
    assert dict(rows) == {"another": None, **left}


@dataclass
class AnswerLost:
    """A state whose first change is made or not, but its answer is lost in any case."""

    database: StateDatabase
    is_made: bool
    is_lost: bool = False

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        if self.is_lost or not sql.startswith("UPDATE"):
            return self.database.execute(sql, parameters)
        self.is_lost = True
        if self.is_made:
            self.database.execute(sql, parameters)
        raise StorageError("the answer is lost", hint="")


@pytest.mark.parametrize("is_made", [True, False])
def test_a_result_is_taken_once_if_the_answer_to_its_mark_is_lost(
    state: StateDatabase, tmp_path: Path, is_made: bool
) -> None:
    assert collected(coordinator_of(AnswerLost(state, is_made), tmp_path)) == ["the answer is lost", "left"]
    assert state.execute("SELECT result FROM unit_results").fetchall() == [("",)], "it is not read again"


def test_a_result_is_taken_again_if_its_outcome_cannot_be_read(
    state: StateDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [StorageError("not now", hint="")]

    def outcomes(self: TaskStore, keys: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        if failures:
            raise failures.pop()
        return {}

    monkeypatch.setattr(TaskStore, "outcomes", outcomes)
    assert collected(coordinator_of(state, tmp_path)) == ["not now", "left"]
    assert state.execute("SELECT result FROM unit_results").fetchall() == [("",)]


@pytest.mark.parametrize(
    ("waits", "looks"),
    [
        pytest.param([61.0], 1, id="a statement that has waited for the database"),
        pytest.param([0.0, 30.0, 31.0], 3, id="transactions, which do not wait"),
        pytest.param([40.0, None, 40.0, None, 61.0], 5, id="outages that end in time"),
    ],
)
def test_an_outage_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: list[float | None], looks: int
) -> None:
    """`waits`: how long each look at the database lasts until it fails, or None for one that does not."""
    now, seen = [100.0], []

    async def look(self: Coordinator, spending: Any) -> None:
        wait = waits[len(seen)]
        seen.append(wait)
        if wait is not None:
            now[0] += wait
            raise StorageError("no answer", hint="") from psycopg.OperationalError("Connection refused")

    monkeypatch.setattr("ktx_cli.engine.coordinator.monotonic", lambda: now[0])
    monkeypatch.setattr("ktx_cli.engine.coordinator.POLL_SECONDS", 0.0)
    monkeypatch.setattr(Coordinator, "_look", look)
    nothing: Any = None
    with pytest.raises(StorageError, match="no answer"):
        asyncio.run(coordinator_of(nothing, tmp_path).follow(nothing))
    assert len(seen) == looks
