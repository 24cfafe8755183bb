"""What it costs to run statements of DuckDB and SQLite in a process of their own.

Prints the milliseconds of a statement in this process and in a worker (median and p99; one row, 1,000, 10,000 and
100,000 rows), of opening a database with a new worker and with one that waits, of `ktx sql` as a command beside a bare
`import duckdb`, and the memory and time of statements that have no bound of their own. In process and in the worker
take turns. Exit 1 when a small result costs 15 ms more at the median, or a statement goes over its limits.

    python benchmarks/bench_isolation.py [--rounds 200]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ktx_cli.core.errors import KtxError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.worker import process
from tests.worlds.kills import installed_ktx

ROWS = (1, 1_000, 10_000, 100_000)
COLUMNS = "i, i * 7 % 1000 AS k, 'name ' || i AS s, i / 7.0 AS x, CAST('2024-01-01' AS {date}) AS d"
BOMBS = {
    "list_transform": "SELECT sum(len(list_transform(range(4000), lambda x: repeat('a', 1000000))::varchar)) FROM t",
    "list_reduce": "SELECT len(list_reduce(list_transform(range(40), lambda x: 'ab'), lambda a, b: a || a))",
    "array_to_string": "SELECT len(array_to_string(generate_series(1, 9000000), lpad('', 1000000, 'x')))",
    "recursive text": "WITH RECURSIVE r(n, t) AS (SELECT 1, 'x' UNION ALL SELECT n + 1, t || t FROM r WHERE n < 60) "
    "SELECT max(len(t)) FROM r",
}
MOST_MILLISECONDS = 15.0


def milliseconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1000


def taking_turns(
    one: Callable[[], object], other: Callable[[], object], rounds: int
) -> tuple[list[float], list[float]]:
    """Return the times of two calls, each beside the other, so that other work on the machine meets both alike."""
    one(), other()
    pairs = [(milliseconds(one), milliseconds(other)) for _ in range(rounds)]
    return sorted(pair[0] for pair in pairs), sorted(pair[1] for pair in pairs)


def p99(times: list[float]) -> float:
    return times[min(len(times) - 1, int(len(times) * 0.99))]


def make(driver: str, folder: Path) -> Path:
    path = folder / f"bench.{driver}"
    if driver == "duckdb":
        import duckdb

        with duckdb.connect(str(path)) as database:
            database.execute(f"CREATE TABLE t AS SELECT {COLUMNS.format(date='DATE')} FROM range({ROWS[-1]}) AS r(i)")
        return path
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE t (i INTEGER, k INTEGER, s TEXT, x REAL, d TEXT)")
        rows = ((i, i * 7 % 1000, f"name {i}", i / 7, "2024-01-01") for i in range(ROWS[-1]))
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
        database.commit()
    return path


@contextlib.contextmanager
def in_process(driver: str, path: Path) -> Iterator[Callable[[str], object]]:
    """Yield what runs a statement in this process and takes its rows within the limits, as other connectors do."""
    if driver == "duckdb":
        import duckdb

        with duckdb.connect(str(path), read_only=True, config={"threads": "4"}) as database:
            yield lambda sql: base.capped(iter(database.cursor().execute(sql).fetchone, None), ROWS[-1])
        return
    with contextlib.closing(sqlite3.connect(path)) as database:
        yield lambda sql: base.capped(database.execute(sql), ROWS[-1])


def statements(driver: str, path: Path, rounds: int) -> float:
    """Print what statements cost; return what a small one costs more in a worker."""
    more = 0.0
    # A worker of the same file: DuckDB lets several processes read it.
    with in_process(driver, path) as run, connect(ConnectionSpec("b", driver, {"path": str(path)})) as connector:
        for rows in ROWS:
            sql = f"SELECT * FROM t LIMIT {rows}"
            count = max(5, rounds * 1000 // max(rows, 1000))
            here, there = taking_turns(lambda: run(sql), lambda: connector.query(sql, max_rows=rows), count)  # noqa: B023
            one, other = statistics.median(here), statistics.median(there)
            more = more if rows > ROWS[0] else other - one
            print(
                f"{driver:<8}{rows:>8} rows: in process {one:8.2f} ms (p99 {p99(here):8.2f}), "
                f"in a worker {other:8.2f} ms (p99 {p99(there):8.2f}), {other - one:+7.2f} ms, {other / one:5.2f} x"
            )
    return more


def openings(driver: str, path: Path, rounds: int) -> None:
    spec = ConnectionSpec("b", driver, {"path": str(path)})

    def cold() -> None:
        process.SPARES.clear()
        connect(spec).close()

    def bare() -> None:
        with in_process(driver, path) as run:
            run("SELECT 1")

    times, plain = taking_turns(cold, bare, max(5, rounds // 10))
    warm = sorted(milliseconds(lambda: connect(spec).close()) for _ in range(max(5, rounds // 10)))
    print(
        f"{driver:<8}opening: with a new worker {statistics.median(times):.0f} ms, with one that waits "
        f"{statistics.median(warm):.0f} ms, in process {statistics.median(plain):.0f} ms"
    )


def commands(path: Path, rounds: int) -> None:
    project = path.parent / "project"
    project.mkdir()
    (project / "ktx.yaml").write_text(f"connections:\n  b:\n    driver: duckdb\n    path: {path}\n")
    command = [str(installed_ktx()), "--project-dir", str(project), "sql", "-c", "b", "SELECT count(*) FROM t"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    alone = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(path)!r}, read_only=True).execute('SELECT 1')"]
    ktx, bare = taking_turns(
        lambda: subprocess.run(command, check=True, **quiet),
        lambda: subprocess.run(alone, check=True, **quiet),
        max(5, rounds // 20),
    )
    one, other = statistics.median(ktx), statistics.median(bare)
    print(f"`ktx sql` as a command {one:.0f} ms; a Python that only imports and opens DuckDB {other:.0f} ms")


def bombs(path: Path) -> bool:
    """Run what has no bound of its own; return whether all of it stayed within its limits."""
    held = True
    with connect(ConnectionSpec("b", "duckdb", {"path": str(path)})) as connector:
        for name, sql in BOMBS.items():
            peak, over = [0], threading.Event()
            watcher = threading.Thread(target=watch, args=(connector, peak, over))
            watcher.start()
            started = time.perf_counter()
            try:
                connector.query(sql)
                how = "an answer"
            except KtxError as error:
                how = error.code
            took = time.perf_counter() - started
            over.set()
            watcher.join()
            following = milliseconds(lambda: connector.query("SELECT 1"))
            held = held and peak[0] <= process.MEMORY_BYTES and took < 32
            print(
                f"{name:<18}{how:<10}{took:6.1f} s, {peak[0] / 1e6:6.0f} MB at most, next statement {following:.0f} ms"
            )
    return held


def watch(connector: Any, peak: list[int], over: threading.Event) -> None:
    """Note the most memory that the worker of a connection holds."""
    pid = connector._connection.pid
    while not over.wait(0.02):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            resident = Path(f"/proc/{pid}/statm").read_text().split()[1]
            peak[0] = max(peak[0], int(resident) * os.sysconf("SC_PAGE_SIZE"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        paths = {driver: make(driver, Path(folder)) for driver in ("duckdb", "sqlite")}
        more = {driver: statements(driver, path, rounds) for driver, path in paths.items()}
        for driver, path in paths.items():
            openings(driver, path, rounds)
        commands(paths["duckdb"], rounds)
        held = bombs(paths["duckdb"])
        process.SPARES.clear()
    if not held or max(more.values()) > MOST_MILLISECONDS:
        sys.exit("not as promised")


if __name__ == "__main__":
    main()
