"""No statement on DuckDB, on SQLite or over files takes more memory or time than it may, whatever it calls."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.duckdb.connector import CLOSED_SETTINGS
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect
from ktx_cli.warehouses.worker import process
from ktx_cli.warehouses.worker.session import IsolatedConnector
from tests.worlds.guard_corpus import Case, read_corpus
from tests.worlds.guard_world import DuckDbWorld, SqliteWorld

CASES = read_corpus(Path(__file__).parent / "corpus" / "memory_and_time.jsonl")
RUN = CASES[:: 1 if os.environ.get("KTX_TEST_FULL") else 7]
"""Those that are run: each takes up to the limit of its time on every processor."""

MEMORY = 1024 * 1024 * 1024
SECONDS = 0.4
LATER = 2.0
"""How much later than its timeout a statement may end."""

SLACK = 256 * 1024 * 1024
"""By how much ktx itself may grow in the meantime."""

Sessions = dict[str, tuple[IsolatedConnector, IsolatedConnector]]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Two connections to a database of each kind, with limits that are soon reached."""
    folder = tmp_path_factory.mktemp("bombs")
    with pytest.MonkeyPatch.context() as patch, DuckDbWorld() as shop, SqliteWorld() as small:
        patch.setattr(process, "MEMORY_BYTES", MEMORY)
        patch.setattr(process, "GRACE_SECONDS", 0.4)
        patch.setattr(base, "STATEMENT_SECONDS", SECONDS)
        patch.setattr(base, "MAX_RESULT_BYTES", 32 * 1024 * 1024)
        patch.setitem(CLOSED_SETTINGS, "memory_limit", "512MiB")
        # Small on the disk: every value is the same, and is stored once.
        rows = "SELECT repeat('x', 1000000) AS s, i FROM range(2000) AS r(i)"
        duckdb.execute(f"COPY ({rows}) TO '{folder / 'bomb.parquet'}'")
        duckdb.execute(f"COPY (SELECT 1 AS id) TO '{folder / 'orders.csv'}'")
        places = {"duckdb": shop._options(), "sqlite": small._options(), "files": {"path": str(folder)}}
        process.SPARES.clear()
        found: Sessions = {}
        for driver, options in places.items():
            one, other = (connect(ConnectionSpec("shop", driver, options)) for _ in range(2))
            assert isinstance(one, IsolatedConnector)
            assert isinstance(other, IsolatedConnector)
            found[driver] = one, other
        yield found
        for pair in found.values():
            for each in pair:
                each.close()
        process.SPARES.clear()


def limit_of(connector: IsolatedConnector) -> int:
    """Return the address space that the system gives the worker of a connection."""
    assert connector._connection is not None
    lines = Path(f"/proc/{connector._connection.pid}/limits").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Max address space")).split()[4])


def peak(who: int = resource.RUSAGE_SELF) -> int:
    """Return how much memory this process, or one of those it waited for, has held at most."""
    return resource.getrusage(who).ru_maxrss * 1024


def test_the_class_is_as_large_as_it_claims() -> None:
    assert len(CASES) >= 60
    assert {case.dialect for case in RUN} == {"duckdb", "sqlite", "files"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("case", RUN, ids=lambda case: case.id)
def test_a_statement_ends_within_its_limits(case: Case, sessions: Sessions) -> None:
    connector, other = sessions[case.dialect]
    count = "SELECT count(*) FROM orders"
    (expected,) = other.query(count).rows
    assert connector.query(count).rows == (expected,)
    assert limit_of(connector) == limit_of(other) == MEMORY
    worker = other._connection.pid if other._connection else None
    before, children, started = peak(), peak(resource.RUSAGE_CHILDREN), monotonic()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(other.query, count)
        try:
            connector.query(case.sql)
        except SourceError as error:
            assert error.code in ("query", "timeout"), error.message
            assert error.hint or "was stopped" not in error.message
        took = monotonic() - started
        assert beside.result().rows == (expected,)
    assert took < SECONDS + LATER
    assert peak() - before < SLACK
    assert connector.query(count).rows == (expected,)
    assert limit_of(connector) == MEMORY
    assert other._connection is not None
    assert other._connection.pid == worker, "the other session has lost its worker"
    # A process that was started counts what this one held when it was.
    assert peak(resource.RUSAGE_CHILDREN) <= max(MEMORY, children, peak())


HONEST = [
    ("SELECT list_transform([1, 2, 3], lambda x: x + 1) AS a", ([2, 3, 4],)),
    ("SELECT list_filter(range(6), lambda x: x % 2 = 0) AS a", ([0, 2, 4],)),
    ("SELECT list_reduce([1, 2, 3], lambda a, b: a + b) AS a", (6,)),
    ("SELECT array_transform(['a', 'b'], lambda x, i: x || i) AS a", (["a1", "b2"],)),
    ("SELECT list_transform(list_filter(range(4), lambda x: x > 1), lambda y: y || '!') AS a", (["2!", "3!"],)),
    ("SELECT [x * 2 for x in [1, 2, 3] if x > 1] AS a", ([4, 6],)),
    ("SELECT repeat('-', 3) AS a, lpad('a', 3, '.') AS b", ("---", "..a")),
    ("SELECT len(generate_series(timestamp '2024-01-01', '2024-01-02', interval '1 hour')) AS a", (25,)),
]


@pytest.mark.parametrize(("sql", "row"), HONEST)
def test_an_honest_statement_with_lists_passes_guard_and_session(
    sql: str, row: tuple[object, ...], sessions: Sessions
) -> None:
    checked = check(sql, "duckdb", max_rows=10)
    assert sessions["duckdb"][0].query(checked.sql).rows == (row,)
