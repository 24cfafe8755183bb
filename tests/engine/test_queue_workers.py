"""Workers that are slow, silent, or removed from the list: each is judged by what it said, and outages do not count."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from ktx_cli.core import StorageError
from ktx_cli.documents import WorkUnit
from ktx_cli.engine import Outage, UnitJob, WorkerIdentity, open_queue, register
from ktx_cli.engine.coordinator import Coordinator, _clear, _Waiting, run_worker
from ktx_cli.engine.queue import Queue, prepare_queue
from ktx_cli.engine.queue_workers import QueuedJob, SilenceClock
from ktx_cli.project import Layout, SharedDatabase, StateDatabase, open_for_writing, shared_state_of
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

RUN = "20260101T000000-abcdef"
ELSEWHERE = str(WorkerIdentity("far", "another host", 1, "then", "token"))


@pytest.fixture
def database(tmp_path: Path, shared_schema: SharedSchema) -> SharedDatabase:
    (tmp_path / "ktx.yaml").write_text(shared_schema.storage())
    with open_for_writing(Layout(tmp_path)):
        pass
    found = shared_state_of(Layout(tmp_path))
    assert found is not None
    prepare_queue(found)
    return found


@pytest.fixture
def state(database: SharedDatabase, tmp_path: Path) -> Iterator[StateDatabase]:
    with open_for_writing(Layout(tmp_path)) as opened:
        yield opened


class Clock:
    """The time that `SilenceClock` measures by."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    scripted = Clock()
    monkeypatch.setattr("ktx_cli.engine.queue_workers.monotonic", scripted)
    return scripted


def each_second(start: int, end: int, beat: float) -> list[tuple[float, float]]:
    """Return looks that find a heartbeat, one a second."""
    return [(float(second), beat) for second in range(start, end)]


OUTAGE: tuple[float, float] = (-1.0, 0.0)


@pytest.mark.parametrize(
    ("looks", "silent"),
    [
        pytest.param([(0, 1.0)], 0, id="the time before the first look does not count"),
        pytest.param(each_second(0, 21, 1.0), 20, id="silent"),
        pytest.param([*each_second(0, 15, 1.0), *each_second(15, 20, 2.0)], 4, id="a heartbeat"),
        pytest.param([*each_second(0, 15, 1.0), OUTAGE, (75, 1.0), (76, 1.0)], 1, id="an outage"),
        pytest.param(
            [*each_second(0, 3, 1.0), OUTAGE, *each_second(63, 66, 1.0), OUTAGE, *each_second(120, 126, 1.0)],
            5,
            id="outages",
        ),
        pytest.param([(0, 1.0), (4, 1.0), (8, 1.0)], 2, id="slow looks count a little"),
        pytest.param([(each * 10, 1.0) for each in range(21)], 20, id="very slow looks too, however many there are"),
    ],
)
def test_the_silence_of_a_worker(clock: Clock, looks: list[tuple[float, float]], silent: float) -> None:
    silence = SilenceClock()
    for at, beat in looks:
        if (at, beat) == OUTAGE:
            silence.interrupt()
            continue
        clock.now = at
        job = QueuedJob(1, "doing", RUN, "key", 7, beat, None)
        silence.look([job])
    assert silence.silent(job) == silent


@contextlib.asynccontextmanager
async def coordinating(
    database: SharedDatabase, state: StateDatabase, schema: SharedSchema, intervals: dict[str, float | None]
) -> AsyncIterator[Coordinator]:
    """Yield a coordinator; each worker has a unit, and an interval that it may have stored."""
    schema.rows(f"INSERT INTO run_packages VALUES ('{RUN}', '{{}}', NULL)")
    async with open_queue(Outage(database, patience=1.0)) as queue:
        plan: Any = SimpleNamespace(run_id=RUN, layout=None, emit=lambda event: None)
        nothing: Any = None
        coordinator = Coordinator(plan, nothing, nothing, nothing, state, queue, schema.queue)
        for number, (key, interval) in enumerate(intervals.items(), start=1):
            job = UnitJob(RUN, "docs", "files", key, key)
            work: Any = SimpleNamespace(connection="docs", kind="files")
            done = asyncio.get_running_loop().create_future()
            coordinator.waiting[key] = _Waiting(work, WorkUnit(key, key, (key,)), job, done, worker=ELSEWHERE)
            schema.rows("INSERT INTO QUEUE.procrastinate_workers (last_heartbeat) VALUES (now() - interval '1 hour')")
            columns = "queue_name, task_name, lock, status, args, worker_id"
            row = f"'units', 'ktx.unit', '{key}', 'doing', '{json.dumps(job.to_json())}', {number}"
            schema.rows(f"INSERT INTO QUEUE.procrastinate_jobs ({columns}) VALUES ({row})")
            if interval is not None:
                schema.rows(f"INSERT INTO queue_workers VALUES ({number}, {interval})")
        yield coordinator


def lose_connection(state: StateDatabase, schema: SharedSchema) -> None:
    """End the session of the coordinator, which opens another one with its next statement."""
    ((process,),) = state.execute("SELECT pg_backend_pid()").fetchall()
    schema.rows(f"SELECT pg_terminate_backend({process}, 5000)")


def in_progress(schema: SharedSchema) -> set[str]:
    return {key for (key,) in schema.rows("SELECT lock FROM QUEUE.procrastinate_jobs WHERE status = 'doing'")}


def test_each_worker_is_judged_by_its_own_interval(
    database: SharedDatabase, state: StateDatabase, shared_schema: SharedSchema, clock: Clock
) -> None:
    async def every_second() -> dict[int, set[str]]:
        found = {}
        intervals = {"quick": 1.0, "slow": 20.0, "silent about it": None}
        async with coordinating(database, state, shared_schema, intervals) as coordinator:
            for second in range(82):
                clock.now = float(second)
                await coordinator._check_workers(5.0)
                found[second] = in_progress(shared_schema)
        return found

    found = asyncio.run(every_second())
    assert found[4] == {"quick", "slow", "silent about it"}
    assert found[5] == found[20] == {"slow", "silent about it"}
    assert found[21] == found[80] == {"slow"} and found[81] == set()


def test_after_an_outage_workers_have_time_to_show_that_they_are_alive(
    database: SharedDatabase, state: StateDatabase, shared_schema: SharedSchema, clock: Clock
) -> None:
    """The heartbeats of both are an hour old; one worker reaches the database again, and the other one is dead."""

    async def every_second() -> dict[int, set[str]]:
        found = {}
        async with coordinating(database, state, shared_schema, {"alive": 5.0, "dead": 5.0}) as coordinator:
            for second in [*range(15), *range(75, 105)]:
                clock.now = float(second)
                if second == 75:
                    lose_connection(state, shared_schema)
                if second > 80 and second % 5 == 0:
                    shared_schema.rows("UPDATE QUEUE.procrastinate_workers SET last_heartbeat = now() WHERE id = 1")
                await coordinator._check_workers(5.0)
                found[second] = in_progress(shared_schema)
        return found

    found = asyncio.run(every_second())
    assert found[14] == found[75] == found[95] == {"alive", "dead"}
    assert found[96] == found[104] == {"alive"}


@pytest.mark.parametrize(
    ("interrupted", "is_kept"),
    [
        pytest.param(None, False, id="no interruption"),
        pytest.param("connection", True, id="an outage that a statement has waited for"),
        pytest.param("failure", True, id="an outage in a transaction"),
        pytest.param("suspension", True, id="a suspension of this process"),
    ],
)
def test_an_interruption_does_not_count_as_time_in_which_a_job_was_not_claimed(
    interrupted: str | None,
    is_kept: bool,
    database: SharedDatabase,
    state: StateDatabase,
    shared_schema: SharedSchema,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr("ktx_cli.engine.coordinator.monotonic", lambda: now)
    monkeypatch.setattr("ktx_cli.engine.coordinator.POLL_SECONDS", 0.0)

    async def check() -> set[str]:
        async with coordinating(database, state, shared_schema, {"key": 5.0}) as coordinator:
            coordinator.waiting["key"].worker = None
            looks = 0

            async def look(self: Coordinator, spending: Any) -> None:
                nonlocal now, looks
                looks += 1
                if looks == 2 and interrupted == "failure":
                    now += 150.0
                    raise StorageError("no answer", hint="") from psycopg.OperationalError("Connection refused")
                if looks == 2 and interrupted == "connection":
                    lose_connection(state, shared_schema)
                if looks == 2 and interrupted != "suspension":
                    now += 150.0
                await self._check_workers(5.0)
                if looks == 3:
                    raise asyncio.CancelledError

            async def sleep(seconds: float) -> None:
                nonlocal now
                if looks == 1 and interrupted == "suspension":
                    now += 150.0

            monkeypatch.setattr(Coordinator, "_look", look)
            monkeypatch.setattr("ktx_cli.engine.coordinator.OUTAGE_SECONDS", 1000.0)
            with monkeypatch.context() as patch, pytest.raises(asyncio.CancelledError):
                patch.setattr("ktx_cli.engine.coordinator.asyncio.sleep", sleep)
                nothing: Any = None
                await coordinator.follow(nothing)
            return in_progress(shared_schema)

    assert asyncio.run(check()) == ({"key"} if is_kept else set())


@pytest.mark.parametrize(
    ("claimed", "is_kept"),
    [
        pytest.param("1.1", False, id="by the worker that has the job"),
        pytest.param("1.0", True, id="by one that has given it back"),
        pytest.param("", False, id="by an older ktx"),
    ],
)
def test_a_dead_claimant_does_not_take_the_job_from_the_worker_that_has_it_now(
    claimed: str, is_kept: bool, database: SharedDatabase, state: StateDatabase, shared_schema: SharedSchema
) -> None:
    """A worker was stopped and has given its job back, which another one has fetched, but not claimed yet."""
    dead = str(WorkerIdentity(process_start="long ago", attempt=claimed))

    async def check() -> list[set[str]]:
        async with coordinating(database, state, shared_schema, {"key": 5.0}) as coordinator:
            shared_schema.rows("UPDATE QUEUE.procrastinate_jobs SET attempts = 1")
            shared_schema.rows(f"INSERT INTO unit_results VALUES ('{RUN}', 'key', '{dead}', NULL)")
            coordinator.waiting["key"].worker = dead
            await coordinator._check_workers(5.0)
            checked = in_progress(shared_schema)
            shared_schema.rows(f"UPDATE unit_results SET worker = '{dead}'")
            await _clear(coordinator.queue.app, state, shared_schema.queue)
            return [checked, in_progress(shared_schema)]

    assert asyncio.run(check()) == [{"key"} if is_kept else set()] * 2


@contextlib.asynccontextmanager
async def working(
    database: SharedDatabase, schema: SharedSchema, fails: int = 0
) -> AsyncIterator[tuple[Queue, list[str], Any]]:
    """Yield a queue with a worker, the units that it has processed, and its task. It `fails` so many times first."""
    units: list[str] = []

    async def process(job: UnitJob, number: int) -> None:
        units.append(job.unit)
        if len(units) <= fails:
            raise StorageError("the disk is full", hint="free some space")

    async with open_queue(Outage(database, patience=1.0)) as queue:
        register(queue, process)
        worker = asyncio.create_task(run_worker(queue, 1, 0.7))
        await until(lambda: schema.rows("SELECT 1 FROM queue_workers WHERE worker = 1"), worker)
        try:
            yield queue, units, worker
        finally:
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)


async def until(is_so: Callable[[], Any], worker: asyncio.Task[None]) -> None:
    deadline = time.monotonic() + 20
    while not is_so() and not worker.done():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


def put(schema: SharedSchema, arguments: Any, task: str = "ktx.unit") -> None:
    row = f"'units', '{task}', '{json.dumps(arguments)}'"
    schema.rows(f"INSERT INTO QUEUE.procrastinate_jobs (queue_name, task_name, args) VALUES ({row})")


def unit(name: str) -> dict[str, str]:
    return UnitJob(RUN, "docs", "files", name, name).to_json()


def test_a_worker_stores_its_interval(database: SharedDatabase, shared_schema: SharedSchema) -> None:
    shared_schema.rows("INSERT INTO queue_workers VALUES (99, 5.0)")

    async def start() -> None:
        async with working(database, shared_schema):
            assert shared_schema.rows("SELECT worker, heartbeat_seconds FROM queue_workers") == [(1, 0.7)]

    asyncio.run(start())


def test_a_job_is_given_back_at_once_by_a_host_whose_clock_is_ahead(
    database: SharedDatabase, shared_schema: SharedSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr("ktx_cli.engine.coordinator.datetime", Ahead)

    async def work() -> None:
        async with working(database, shared_schema, fails=1) as (_, units, worker):
            put(shared_schema, unit("a.md"))
            await until(lambda: len(units) == 2, worker)
            assert units == ["a.md"] * 2

    asyncio.run(work())


def test_a_worker_that_was_removed_from_the_list_registers_again(
    database: SharedDatabase, shared_schema: SharedSchema
) -> None:
    async def work() -> None:
        async with working(database, shared_schema) as (_, units, worker):
            shared_schema.rows("DELETE FROM QUEUE.procrastinate_workers")
            put(shared_schema, unit("a.md"))
            await until(lambda: units, worker)
            assert units == ["a.md"] and not worker.done()
            assert shared_schema.rows("SELECT id FROM QUEUE.procrastinate_workers") != [(1,)]
            query = "SELECT count(*) FROM queue_workers JOIN QUEUE.procrastinate_workers ON id = worker"
            assert shared_schema.rows(query) == [(1,)]
            (before,) = shared_schema.rows("SELECT last_heartbeat FROM QUEUE.procrastinate_workers")
            await until(
                lambda: shared_schema.rows("SELECT last_heartbeat FROM QUEUE.procrastinate_workers") != [before], worker
            )
        assert shared_schema.rows("SELECT id FROM QUEUE.procrastinate_workers") == []

    asyncio.run(work())


def test_a_worker_does_not_go_on_in_the_queue_of_another_version(
    database: SharedDatabase, shared_schema: SharedSchema
) -> None:
    async def work() -> None:
        async with working(database, shared_schema) as (_, units, worker):
            shared_schema.rows("COMMENT ON SCHEMA QUEUE IS 'procrastinate 0.1'")
            shared_schema.rows("DELETE FROM QUEUE.procrastinate_workers")
            put(shared_schema, unit("a.md"))
            await until(lambda: units, worker)
            assert units == []
            with pytest.raises(StorageError, match=r"belongs to procrastinate 0\.1"):
                await worker

    asyncio.run(work())


def test_jobs_that_no_run_has_queued_are_removed(database: SharedDatabase, shared_schema: SharedSchema) -> None:
    async def work() -> None:
        async with working(database, shared_schema) as (_, units, worker):
            for arguments in (
                [],
                [1],
                "text",
                5,
                None,
                {},
                {"self": "x"},
                {**unit("x"), "unit": []},
                unit("x") | {"a": 1},
            ):
                put(shared_schema, arguments)
            put(shared_schema, unit("x"), task="builtin:procrastinate.builtin_tasks.remove_old_jobs")
            put(shared_schema, unit("a.md"))
            await until(lambda: units, worker)
            await until(lambda: not shared_schema.rows("SELECT 1 FROM QUEUE.procrastinate_jobs"), worker)
            assert units == ["a.md"] and not worker.done()

    asyncio.run(work())


def test_many_units_are_queued_with_a_few_statements(
    database: SharedDatabase, state: StateDatabase, shared_schema: SharedSchema, tmp_path: Path
) -> None:
    units = [WorkUnit(f"{number}.md", f"{number}.md", (f"{number}.md",)) for number in range(200)]
    log = shared_schema.server.folder / "server.log"

    async def run() -> None:
        async with open_queue(Outage(database, patience=1.0)) as queue:
            plan: Any = SimpleNamespace(run_id=RUN, layout=Layout(tmp_path), emit=lambda event: None)
            runner: Any = SimpleNamespace(replayed=lambda task, stored: stored)
            nothing: Any = None
            work: Any = SimpleNamespace(connection="docs", kind="files")

            def make(work: Any, unit: WorkUnit) -> Any:
                return SimpleNamespace(key=f"key {unit.key}")

            coordinator = Coordinator(plan, nothing, runner, make, state, queue, shared_schema.queue)
            tasks = [asyncio.create_task(coordinator.run(work, unit)) for unit in units]
            await until(lambda: shared_schema.rows("SELECT 1 FROM QUEUE.procrastinate_jobs"), tasks[0])
            assert await tasks[7] == {"kept": True}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    columns = "key, connection, kind, unit, outcome, stored"
    row = """'key 7.md', 'docs', 'files', '7.md', '{"kept": true}', ''"""
    shared_schema.rows(f"INSERT INTO unit_outcomes ({columns}) VALUES ({row})")
    start = log.stat().st_size
    asyncio.run(run())
    found = shared_schema.rows("SELECT lock, args ->> 'unit' FROM QUEUE.procrastinate_jobs ORDER BY id")
    assert found == [(f"key {each.key}", each.key) for each in units if each.key != "7.md"]
    text = log.read_bytes()[start:]
    assert text.count(b"FROM unit_outcomes") == 1 and text.count(b"procrastinate_defer_jobs_v1(") == 1
