from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import Waiting
from ktx_cli.core.errors import BusyError
from ktx_cli.project import OUTAGE_SECONDS, lock
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import hold_run_lock
from ktx_cli.project.state import open_for_writing
from tests.worlds.lock_pauses import lock_pauses

HOLDER = """
import sys, time
from pathlib import Path
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import hold_run_lock
with hold_run_lock(Layout(Path(sys.argv[1])), run_id="other", command="ktx ingest"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path)


def start_holder(layout: Layout) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(layout.root)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def plant(layout: Layout, **fields: object) -> None:
    row = {
        "name": lock.NAME,
        "run_id": "planted",
        "command": "ktx ingest",
        "pid": os.getpid(),
        "process_start": lock.process_start(os.getpid()),
        "host": lock.host_identity(),
        "hostname": socket.gethostname(),
        "since": time.time(),
        "heartbeat": time.time(),
        **fields,
    }
    with open_for_writing(layout) as database:
        marks = ", ".join("?" * len(row))
        database.execute(f"INSERT INTO leases ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))


def test_the_second_run_names_the_holder(layout: Layout) -> None:
    process = start_holder(layout)
    try:
        with pytest.raises(BusyError) as caught, hold_run_lock(layout, run_id="mine", command="ktx scan"):
            pass
    finally:
        end(process)
    assert caught.value.exit_code == 6
    assert caught.value.details["pid"] == process.pid
    assert caught.value.details["host"] == socket.gethostname()
    assert caught.value.details["since"].endswith("Z")
    assert str(process.pid) in caught.value.message


def test_a_killed_holder_is_recognised_at_once(layout: Layout) -> None:
    process = start_holder(layout)
    os.killpg(process.pid, signal.SIGKILL)
    end(process)
    with hold_run_lock(layout, run_id="mine", command="ktx scan") as (run_lock, _):
        run_lock.check()


def test_waiting_gets_the_run_lock_when_the_holder_dies(layout: Layout) -> None:
    process = start_holder(layout)
    events: list[object] = []
    with pytest.raises(BusyError) as busy, hold_run_lock(layout, run_id="mine", command="ktx scan"):
        pass

    def kill_when_waiting(event: object) -> None:
        events.append(event)
        end(process)

    with hold_run_lock(layout, run_id="mine", command="ktx scan", wait_seconds=20, emit=kill_when_waiting):
        pass
    assert events == [Waiting(busy.value.message, 20)]


def test_the_run_lock_is_free_after_the_block_also_after_an_error(layout: Layout) -> None:
    with pytest.raises(RuntimeError), hold_run_lock(layout, run_id="a", command="c"):
        raise RuntimeError
    with hold_run_lock(layout, run_id="b", command="c"):
        pass


@pytest.mark.parametrize(
    ("fields", "busy"),
    [
        ({"pid": os.getppid(), "process_start": lock.process_start(os.getppid())}, True),
        ({}, False),
        ({"process_start": "0"}, False),
        ({"pid": 2**22 - 3}, False),
        ({"host": "elsewhere", "silent": -10_000}, True),
        ({"host": "elsewhere", "silent": OUTAGE_SECONDS + lock.HEARTBEAT_SECONDS + 5}, True),
        ({"host": "elsewhere", "silent": lock.STALE_SECONDS + 1}, False),
        ({"host": "elsewhere", "pid": 1, "silent": -10_000}, True),
    ],
    ids=[
        "alive",
        "a-run-of-ours-that-is-over",
        "pid-reused",
        "pid-gone",
        "other-host-alive",
        "other-host-after-an-outage",
        "other-host-silent",
        "other-host-any-pid",
    ],
)
def test_who_counts_as_alive(layout: Layout, fields: dict[str, Any], busy: bool) -> None:
    """`silent`: the seconds since the last heartbeat, because the test may run long after it was collected."""
    silent = fields.get("silent")
    heartbeat = {} if silent is None else {"heartbeat": time.time() - silent}
    plant(layout, **{name: value for name, value in fields.items() if name != "silent"}, **heartbeat)
    if busy:
        with pytest.raises(BusyError), hold_run_lock(layout, run_id="mine", command="c"):
            pass
    else:
        with hold_run_lock(layout, run_id="mine", command="c"):
            pass


@pytest.mark.parametrize(("host", "wait"), [("elsewhere", 0.0), ("elsewhere", 0.3), (None, 0.0), (None, 0.3)])
def test_who_waits_learns_of_the_last_heartbeat_and_when_another_host_counts_as_dead(
    layout: Layout, host: str | None, wait: float
) -> None:
    """A process of this host counts as dead when it ends, and not before."""
    holder = start_holder(layout)
    events: list[object] = []
    try:
        with open_for_writing(layout) as database:
            database.execute("UPDATE leases SET host = coalesce(?, host), heartbeat = ?", (host, time.time() - 40))
        with (
            pytest.raises(BusyError) as caught,
            hold_run_lock(layout, run_id="mine", command="c", wait_seconds=wait, emit=events.append),
        ):
            pass
    finally:
        end(holder)
    said = [caught.value.message, *(each.reason for each in events if isinstance(each, Waiting))]
    assert len(said) == 1 + bool(wait)
    dead = "" if host is None else "; after 90 s without one, another run takes over"
    says = re.compile(rf", last heartbeat 4\d s ago{dead}$")
    assert all(says.search(each) for each in said), said
    assert caught.value.details["heartbeat"].endswith("Z")


def test_who_waits_asks_a_file_often(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_run_lock(layout, run_id="first", command="c"):
        assert set(lock_pauses(layout, monkeypatch)[:-1]) == {0.2}


def test_a_holder_that_was_taken_over_notices_before_it_commits(layout: Layout) -> None:
    with hold_run_lock(layout, run_id="mine", command="c") as (run_lock, database):
        database.execute("UPDATE leases SET run_id = 'thief'")
        with pytest.raises(BusyError, match="took over"):
            run_lock.check()


def test_the_heartbeat_beats(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.01)
    with hold_run_lock(layout, run_id="mine", command="c") as (_, database):
        first = lock.current_holder(database)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            holder = lock.current_holder(database)
            assert holder is not None
            assert first is not None
            if holder.heartbeat > first.heartbeat:
                return
            time.sleep(0.01)
    pytest.fail("no heartbeat within 20 s")


def test_process_start_tells_processes_apart() -> None:
    process = subprocess.Popen(["sleep", "30"])
    try:
        assert lock.process_start(process.pid) == lock.process_start(process.pid)
        assert lock.process_start(process.pid) is not None
    finally:
        process.kill()
        process.wait()
    assert lock.process_start(process.pid) is None


def test_leftovers_of_killed_writers_go_with_the_next_run_lock(layout: Layout) -> None:
    (layout.runs).mkdir(parents=True)
    (layout.runs / ".r.json.00ff00ff.ktx-tmp").write_text("half")
    (layout.runs / "r.json").write_text("{}")
    with hold_run_lock(layout, run_id="mine", command="c"):
        pass
    assert [path.name for path in layout.runs.iterdir()] == ["r.json"]


def test_a_run_of_this_process_that_could_not_release_its_lock_blocks_nobody(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("ktx_cli.project.lock._release", full)
        with pytest.raises(ValueError, match="the block"), hold_run_lock(layout, run_id="first", command="ktx ingest"):
            raise ValueError("the block")
    with hold_run_lock(layout, run_id="second", command="ktx ingest") as (run_lock, _):
        run_lock.check()
        with pytest.raises(BusyError), hold_run_lock(layout, run_id="third", command="ktx ingest"):
            pass
