"""The queue: in a schema of any name, never in place of what others have there, and with one claim for each unit."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import psycopg
import pytest

from ktx_cli.core import BusyError, StorageError
from ktx_cli.engine import Outage, UnitJob, WorkerIdentity, claim, has_queue, open_queue, queue_version
from ktx_cli.engine.coordinator import run_worker
from ktx_cli.engine.queue import ClaimedStore, prepare_queue
from ktx_cli.project import Layout, SharedDatabase, open_for_writing, shared_state_of
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def database(tmp_path: Path, shared_schema: SharedSchema) -> SharedDatabase:
    (tmp_path / "ktx.yaml").write_text(shared_schema.storage())
    with open_for_writing(Layout(tmp_path)):
        pass
    found = shared_state_of(Layout(tmp_path))
    assert found is not None
    return found


async def numbers(database: SharedDatabase) -> list[int]:
    """Defer and cancel a job, and return its number."""
    async with open_queue(Outage(database, patience=1.0)) as queue:
        number = await queue.app.configure_task("ktx.unit", queue="units").defer_async()
        await queue.app.job_manager.cancel_job_by_id_async(number, delete_job=True)
        return [number]


OTHERS = {
    "another application's queue": ["CREATE TABLE QUEUE.procrastinate_jobs (id int)"],
    "its queue, with a comment": [
        "CREATE TABLE QUEUE.procrastinate_jobs (id int)",
        "COMMENT ON SCHEMA QUEUE IS 'procrastinate jobs of the billing service'",
    ],
    "tables": ["CREATE TABLE QUEUE.invoices (id int)"],
    "a view": ["CREATE VIEW QUEUE.invoices AS SELECT 1 AS id"],
    "a function": ["CREATE FUNCTION QUEUE.total() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
    "a type": ["CREATE TYPE QUEUE.state AS ENUM ('paid')"],
    "a view beside an older queue": [
        "COMMENT ON SCHEMA QUEUE IS 'procrastinate 0.1'",
        "CREATE VIEW QUEUE.invoices AS SELECT 1 AS id",
    ],
}


@pytest.mark.parametrize("statements", OTHERS.values(), ids=OTHERS.keys())
def test_what_others_have_in_the_schema_stays(
    database: SharedDatabase, shared_schema: SharedSchema, statements: list[str]
) -> None:
    for statement in ("CREATE SCHEMA QUEUE", *statements):
        shared_schema.rows(statement)
    query = f"""
        SELECT relname FROM pg_class WHERE relnamespace = '{shared_schema.queue}'::regnamespace UNION ALL
        SELECT proname FROM pg_proc WHERE pronamespace = '{shared_schema.queue}'::regnamespace UNION ALL
        SELECT typname FROM pg_type WHERE typnamespace = '{shared_schema.queue}'::regnamespace
    """
    before = shared_schema.rows(query)
    with pytest.raises(
        StorageError, match=f"the schema {shared_schema.queue}.* contains objects that ktx did not create"
    ):
        prepare_queue(database)
    assert shared_schema.rows(query) == before


def test_a_queue_of_another_version_is_replaced(database: SharedDatabase, shared_schema: SharedSchema) -> None:
    prepare_queue(database)
    first = asyncio.run(numbers(database))
    prepare_queue(database)
    assert asyncio.run(numbers(database)) != first
    shared_schema.rows("COMMENT ON SCHEMA QUEUE IS 'procrastinate 0.1'")
    with pytest.raises(StorageError, match=r"belongs to procrastinate 0\.1"):
        asyncio.run(numbers(database))
    prepare_queue(database)
    assert asyncio.run(numbers(database)) == first


@pytest.mark.parametrize("comment", [None, "for the workers of ktx"])
def test_an_empty_schema_of_an_administrator_has_no_queue_yet(
    database: SharedDatabase, shared_schema: SharedSchema, comment: str | None
) -> None:
    shared_schema.rows("CREATE SCHEMA QUEUE")
    if comment is not None:
        shared_schema.rows(f"COMMENT ON SCHEMA QUEUE IS '{comment}'")
    assert not has_queue(database)
    with pytest.raises(StorageError, match="does not exist"):
        asyncio.run(numbers(database))
    prepare_queue(database)
    assert has_queue(database) and asyncio.run(numbers(database)) == [1]
    ((said,),) = shared_schema.rows(f"SELECT obj_description('{shared_schema.queue}'::regnamespace, 'pg_namespace')")
    assert said == queue_version()


def test_a_name_with_capitals(shared_schema: SharedSchema, tmp_path: Path) -> None:
    shared_schema.name, shared_schema.queue = (f"Mixed_{name}" for name in (shared_schema.name, shared_schema.queue))
    (tmp_path / "ktx.yaml").write_text(shared_schema.storage())
    with open_for_writing(Layout(tmp_path)):
        pass
    database = shared_state_of(Layout(tmp_path))
    assert database is not None
    prepare_queue(database)
    assert asyncio.run(numbers(database)) == [1]


def test_a_claim_fences_an_earlier_task_of_the_same_process(
    database: SharedDatabase, shared_schema: SharedSchema, tmp_path: Path
) -> None:
    """The job of a slow worker was replaced, and the same worker has fetched the new one."""
    prepare_queue(database)
    job, me = UnitJob("run", "docs", "files", "a.md", "key"), WorkerIdentity()
    shared_schema.rows("INSERT INTO run_packages VALUES ('run', '{}', NULL)")
    jobs = "INSERT INTO QUEUE.procrastinate_jobs (queue_name, task_name, lock, status) VALUES"
    with open_for_writing(Layout(tmp_path)) as state:
        stores = []
        for number in (1, 2):
            shared_schema.rows(f"{jobs} ('units', 'ktx.unit', 'key', 'doing')")
            claimant = claim(state, job, me, number, shared_schema.queue)
            assert claimant is not None and (claimant.pid, claimant.attempt) == (me.pid, f"{number}.0")
            stores.append(ClaimedStore(state, tmp_path, job=job, worker=claimant))
            shared_schema.rows("UPDATE QUEUE.procrastinate_jobs SET status = 'failed'")
        with pytest.raises(BusyError):
            stores[0].check()
        with pytest.raises(BusyError):
            stores[0].append("key", "loop", 0, {}, {})
        stores[1].check()
        stores[1].append("key", "loop", 0, {}, {})
        assert claim(state, job, me, 2, shared_schema.queue) is None


def test_a_worker_that_starts_removes_no_slow_one(database: SharedDatabase, shared_schema: SharedSchema) -> None:
    prepare_queue(database)
    shared_schema.rows("INSERT INTO QUEUE.procrastinate_workers (last_heartbeat) VALUES (now() - interval '10 min')")

    async def start() -> int:
        async with open_queue(Outage(database, patience=1.0)) as queue:
            worker = asyncio.create_task(run_worker(queue, 1, 0.5))
            deadline = time.monotonic() + 20
            query = "SELECT count(*) FROM QUEUE.procrastinate_workers WHERE id > 1"
            while shared_schema.rows(query) == [(0,)] and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            ((number,),) = shared_schema.rows("SELECT count(*) FROM QUEUE.procrastinate_workers")
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)
            return int(number)

    assert asyncio.run(start()) == 2


DATABASE = SharedDatabase({"host": "db.example.com"}, "ktx_sales")


def test_the_message_names_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktx_cli.engine.queue.REPORT_SECONDS", -1.0)
    messages: list[str] = []
    outage = Outage(DATABASE, report=messages.append)
    asyncio.run(outage.wait(psycopg.OperationalError("connection failed: Connection refused\n\tIs it running?")))
    assert messages == [
        f"{DATABASE} does not respond; waiting for it: connection failed: Connection refused Is it running?"
    ]


def test_a_missing_password_is_not_waited_for() -> None:
    with pytest.raises(StorageError, match="no password supplied"):
        asyncio.run(Outage(DATABASE).wait(psycopg.OperationalError("fe_sendauth: no password supplied")))
