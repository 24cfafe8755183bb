"""Workers: replaced when they are lost, used again for the same database, gone when ktx is."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import lost_its_session
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS
from ktx_cli.warehouses.port import Connector, Scope
from ktx_cli.warehouses.worker import process, session
from ktx_cli.warehouses.worker.process import EngineError, WorkerEndedError, WorkerProcess
from ktx_cli.warehouses.worker.session import Session

Open = Callable[..., Connector]
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
DEAF = {
    "duckdb": "SELECT levenshtein(repeat('ab', 500000), repeat('ba', 500000))",
    "sqlite": "SELECT instr(zeroblob(60000000), zeroblob(30000000) || x'01')",
}
"""Statements that no interrupt ends."""

DRIVERS = pytest.mark.parametrize("driver", ["duckdb", "sqlite"])


@pytest.fixture(autouse=True)
def forked_workers() -> None:
    """Have them started as ktx does."""


@pytest.fixture(autouse=True)
def no_spares() -> Iterator[None]:
    process.SPARES.clear()
    yield
    process.SPARES.clear()


@pytest.fixture
def make(request: pytest.FixtureRequest, opened: Open) -> Callable[[str], Any]:
    """Open a connection to a new database of an engine, with the table `t` of one row."""

    def opened_one(driver: str) -> Any:
        engine = request.getfixturevalue(f"{driver}_engine")
        return opened(driver, **engine.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (7)"))

    return opened_one


def pid_of(connector: Any) -> int:
    return int(connector._connection.pid)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def processor_ticks(pid: int) -> int:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def until(holds: Callable[[], bool]) -> None:
    """Look again and again until something holds."""
    pause = threading.Event()
    while not holds():
        pause.wait(0.005)


def ended(pid: int) -> bool:
    """Wait until a process is gone."""
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([file], [], [], 30)[0])
    finally:
        os.close(file)


@contextlib.contextmanager
def running(connector: Any, sql: str) -> Iterator[list[SourceError]]:
    """Run a statement in a thread; the list has its error when the block is over."""
    errors: list[SourceError] = []

    def run() -> None:
        try:
            connector.query(sql)
        except SourceError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    worker = connector._connection._process
    until(lambda: worker._running or not thread.is_alive())
    yield errors
    thread.join(60)
    assert not thread.is_alive()


@DRIVERS
def test_a_statement_that_does_not_listen_is_ended(
    driver: str, make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.2)
    monkeypatch.setattr(process, "GRACE_SECONDS", 0.2)
    connector = make(driver)
    first = pid_of(connector)
    with pytest.raises(SourceError, match=r"stopped after 0\.2 seconds") as caught:
        connector.query(DEAF[driver])
    assert caught.value.code == "timeout"
    assert ended(first)
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 30.0)
    assert connector.query("SELECT a FROM t").rows == ((7,),)
    assert pid_of(connector) != first


@pytest.mark.in_turns("driver")
@DRIVERS
@pytest.mark.parametrize("signum", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL])
def test_an_engine_that_crashes_costs_its_statement_alone(
    driver: str, signum: signal.Signals, make: Callable[[str], Any]
) -> None:
    connector = make(driver)
    with running(connector, ENDLESS) as errors:
        os.kill(pid_of(connector), signum)
    (error,) = errors
    assert error.code == "query"
    assert error.hint
    if signum == signal.SIGKILL:
        assert "needs more memory" in error.message
    else:
        assert signum.name in error.message
        assert lost_its_session(error)
    assert connector.query("SELECT a FROM t").rows == ((7,),)
    assert len(connector.introspect(Scope()).tables) == 1


@DRIVERS
def test_signals_of_the_process_group_do_not_reach_a_statement(driver: str, make: Callable[[str], Any]) -> None:
    connector = make(driver)
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(pid_of(connector), signum)
    before = pid_of(connector)
    assert connector.query("SELECT a FROM t").rows == ((7,),)
    assert pid_of(connector) == before


@DRIVERS
def test_a_keyboard_interrupt_ends_the_statement(
    driver: str, make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = make(driver)
    first = pid_of(connector)

    def interrupted(self: object, pipe: int, request: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(WorkerProcess, "_await", interrupted)
        connector.query(ENDLESS)
    assert ended(first)
    assert connector.query("SELECT a FROM t").rows == ((7,),)


@pytest.mark.slow
def test_out_of_memory_says_so_and_the_worker_is_replaced(
    make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MEMORY_BYTES", 1024**3)
    monkeypatch.setitem(CLOSED_SETTINGS, "memory_limit", "512MiB")
    connector = make("duckdb")
    first = pid_of(connector)
    with pytest.raises(SourceError, match="it needs more memory than 1 GiB") as caught:
        connector.query("SELECT len(list(i)) FROM range(2000000000) AS r(i)")
    assert caught.value.code == "query"
    assert "LIMIT" in (caught.value.hint or "")
    assert ended(first)
    assert connector.query("SELECT a FROM t").rows == ((7,),)


def test_where_the_system_does_not_limit_memory_the_worker_does(
    make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LIMITED_BY_SYSTEM", False)
    monkeypatch.setattr(process, "MEMORY_BYTES", 256 * 1024**2)
    monkeypatch.setitem(CLOSED_SETTINGS, "memory_limit", "4GiB")
    connector = make("duckdb")
    with pytest.raises(SourceError, match=r"needs more memory than 0\.25 GiB"):
        connector.query(
            "SELECT count(*) FROM (SELECT repeat('x', 1000) || i AS k FROM range(4000000) AS r(i) GROUP BY 1)"
        )
    assert connector.query("SELECT a FROM t").rows == ((7,),)


def test_statements_of_several_threads_run_at_once(make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 3.0)
    connector = make("duckdb")
    with running(connector, DEAF["duckdb"]) as errors, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(connector.query, "SELECT a FROM t") for _ in range(9)]
        assert [each.result().rows for each in answers] == [((7,),)] * 9
        assert errors == []
        connector.interrupt()
    assert [each.code for each in errors] == ["timeout"]
    assert connector.query("SELECT a FROM t").rows == ((7,),)


def test_a_statement_beside_one_that_ended_the_worker_runs_again(make: Callable[[str], Any]) -> None:
    connector = make("duckdb")
    first = pid_of(connector)
    slow = "SELECT count(*) FROM range(500) AS a, range(200000) AS b WHERE (a.range * b.range) % 7 = 1"
    with running(connector, slow) as errors, running(connector, slow) as others:
        worker = connector._connection._process
        until(lambda: len(worker._running) == 2)
        os.kill(first, signal.SIGSEGV)
    assert errors == others == []
    assert pid_of(connector) != first


def test_a_worker_is_used_again_for_the_same_database_only(duckdb_engine: Any, opened: Open) -> None:
    one, other = duckdb_engine.make("CREATE TABLE t (a int)"), duckdb_engine.make("CREATE TABLE t (a int)")
    pids = []
    for options in (one, one, other):
        connector: Any = opened("duckdb", **options)
        pids.append(pid_of(connector))
        connector.close()
        with duckdb.connect(options["path"]) as writer:  # the file is free
            writer.execute("INSERT INTO t VALUES (1)")
    assert pids[0] == pids[1] != pids[2]
    assert all(map(is_alive, pids))
    process.SPARES.clear()
    assert all(map(ended, pids))


def test_a_worker_that_held_much_memory_is_not_kept(
    make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SPARE_BYTES", 1)
    connector = make("duckdb")
    pid = pid_of(connector)
    connector.close()
    assert ended(pid)


def test_no_more_workers_wait_than_are_worth_it(duckdb_engine: Any, opened: Open) -> None:
    connectors: list[Any] = [opened("duckdb", **duckdb_engine.make()) for _ in range(process.MOST_SPARES + 1)]
    pids = [pid_of(each) for each in connectors]
    for each in connectors:
        each.close()
    assert ended(pids[0])
    assert all(map(is_alive, pids[1:]))


def test_a_worker_that_died_while_it_waited_is_replaced(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make("CREATE TABLE t (a int)")
    connector: Any = opened("duckdb", **options)
    pid = pid_of(connector)
    connector.close()
    os.kill(pid, signal.SIGKILL)
    again: Any = opened("duckdb", **options)
    assert again.query("SELECT count(*) FROM t").rows == ((0,),)
    assert pid_of(again) != pid


def test_what_prepares_a_worker_is_done_again_on_the_next_one() -> None:
    prepared: list[int | None] = []

    def prepare(one: Session) -> None:
        prepared.append(one.pid)
        if len(prepared) == 1:
            os.kill(one.pid or 0, signal.SIGKILL)
            assert ended(one.pid or 0)
        one.execute("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", seconds=30)

    settings = {"path": ":memory:", "read_only": False, "config": {}, "statements": []}
    made = Session("duckdb", "prepared", lambda: settings, prepare)
    assert made.execute("SELECT a FROM v", seconds=30, reading=True).rows == [(1,)]
    assert len(set(prepared)) == 2
    assert made.execute("SELECT a FROM v", seconds=30, reading=True).rows == [(1,)]
    assert len(prepared) == 2
    made.close()


def test_an_answer_that_is_longer_than_allowed_ends_the_worker() -> None:
    worker = WorkerProcess("duckdb")
    settings = {"path": ":memory:", "read_only": False, "config": {}, "statements": []}
    list(worker.request("open", ("duckdb", settings), 30))
    statement = {"sql": "SELECT repeat('x', 5000)", "parameters": [], "reading": True, "explained": None}
    with pytest.raises(WorkerEndedError, match="exceeds the maximum length"):
        list(worker.request("execute", {**statement, "max_rows": 1, "max_bytes": 9000}, 30, max_bytes=1000))
    assert not worker.is_alive
    with pytest.raises(EngineError):
        list(worker.request("close", None, 30))


def test_a_lost_worker_leaves_no_open_file(make: Callable[[str], Any]) -> None:
    connector = make("sqlite")
    connector.query("SELECT a FROM t")
    before = open_files()
    for _ in range(5):
        os.kill(pid_of(connector), signal.SIGKILL)
        assert ended(pid_of(connector))
        assert connector.query("SELECT a FROM t").rows == ((7,),)
    assert open_files() == before


def test_a_worker_has_no_secret_of_the_environment(make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KTX_TEST_SECRET", "hunter2")
    environment = Path(f"/proc/{pid_of(make('duckdb'))}/environ").read_bytes()
    assert b"hunter2" not in environment
    assert b"ANTHROPIC" not in environment


HOLDER = """
import sys
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect
connector = connect(ConnectionSpec("shop", sys.argv[1], {"path": sys.argv[2]}))
print(connector._connection.pid, flush=True)
if sys.argv[3]:
    connector.query(sys.argv[3])
"""


@pytest.mark.in_turns("driver")
@DRIVERS
@pytest.mark.parametrize("how", [pytest.param("endless", marks=pytest.mark.slow), "deaf", "exit"])
def test_a_worker_ends_with_ktx(driver: str, how: str, request: pytest.FixtureRequest) -> None:
    options = request.getfixturevalue(f"{driver}_engine").make("CREATE TABLE t (a int)")
    sql = {"endless": ENDLESS, "deaf": DEAF[driver], "exit": ""}[how]
    command = [sys.executable, "-c", HOLDER, driver, options["path"], sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stderr is not None
        pid = int(holder.stdout.readline())
        if how != "exit":
            # It has begun when it has used the processor, and nobody may ask it anything else.
            until(lambda: processor_ticks(pid) >= 30)
            holder.kill()
        assert holder.wait(60) == (0 if how == "exit" else -signal.SIGKILL)
        assert holder.stderr.read() == b""
    assert ended(pid)


def test_only_the_engine_is_imported(make: Callable[[str], Any]) -> None:
    maps = Path(f"/proc/{pid_of(make('duckdb'))}/maps").read_text()
    assert "_duckdb" in maps
    assert not any(name in maps for name in ("pydantic", "numpy", "pandas"))


def test_what_ktx_itself_holds_does_not_count_for_a_worker(make: Callable[[str], Any]) -> None:
    held = bytearray(b"x") * (session.SPARE_BYTES + 1)
    connector = make("duckdb")
    del held
    pid = pid_of(connector)
    connector.close()
    assert is_alive(pid)


@pytest.mark.parametrize(("before", "runs"), [(0, 1), (1, 2)])
def test_a_statement_without_memory_gets_a_new_worker_where_others_ran_in_its_own(
    before: int, runs: int, make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    connector = make("duckdb")
    for _ in range(before):
        connector.query("SELECT a FROM t")
    pids: list[int] = []
    answer = Session._answer

    def without_memory(this: Session, worker: WorkerProcess, statement: Any, seconds: float) -> Any:
        if "41" not in statement["sql"]:
            return answer(this, worker, statement, seconds)
        pids.append(worker.pid)
        if len(pids) == 1:
            raise EngineError("duckdb", "OutOfMemoryException", "Allocation failure")
        return answer(this, worker, statement, seconds)

    monkeypatch.setattr(Session, "_answer", without_memory)
    if runs == 1:
        with pytest.raises(SourceError, match="needs more memory"):
            connector.query("SELECT a + 41 FROM t")
    else:
        assert connector.query("SELECT a + 41 FROM t").rows == ((48,),)
    assert len(pids) == len(set(pids)) == runs
