"""Calls that would build more than memory holds, found in DuckDB's own tree of the statement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.connectors.port import Connector
from ktx_cli.core.errors import SourceError

Open = Callable[..., Connector]


@pytest.fixture
def connector(duckdb_engine: Any, opened: Open) -> Connector:
    return opened("duckdb", **duckdb_engine.make("CREATE TABLE t (a int, n int)", "INSERT INTO t VALUES (1, 2)"))


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("SELECT repeat('x', 2000000000)", "repeat"),
        ("SELECT repeat('x', 2 * 1000000000)", "repeat"),
        ("SELECT repeat('x', n) FROM t", "repeat"),
        ("SELECT repeat(repeat('x', 10000), 10000)", "repeat"),
        ("SELECT 'x'.repeat(2000000000)", "repeat"),
        ("SELECT \"RePeat\"('x', 2000000000)", "repeat"),
        ("SELECT system.main.repeat('x', 2000000000)", "repeat"),
        ("SELECT 1 FROM t WHERE a IN (SELECT length(lpad('x', 2000000000, 'y')))", "lpad"),
        ("SELECT rpad('x', 2000000000, 'y')", "rpad"),
        ("SELECT list_resize([1], 2000000000)", "list_resize"),
        ("SELECT len(range(1000000000))", "range"),
        ("SELECT len(generate_series(1, 100000::bigint * 100000))", "generate_series"),
        ("SELECT printf('%2000000000d', 1)", "printf"),
        ("SELECT format('{:2000000000}', 1)", "format"),
        ("SELECT len(range(1, 10, n)) FROM t", "range"),
        ("SELECT range(timestamp '2001-01-01', timestamp '2024-01-01', interval 1 second)", "range"),
        ("SELECT range(timestamp '2001-01-01', timestamp '9999-01-01', interval '1 minute')", "range"),
        ("SELECT range(timestamp '2001-01-01', 'infinity'::timestamp, interval 1 day)", "range"),
        ("SELECT range(now()::timestamp, now()::timestamp + interval 9000 years, interval 1 hour)", "range"),
        ("SELECT bitstring('1', 2000000000)", "bitstring"),
        ("SELECT bitstring('1', n) FROM t", "bitstring"),
        ("SELECT reservoir_quantile(n, 0.5, 500000000) FROM t", "reservoir_quantile"),
        (f"SELECT replace(repeat('a', 100000), 'a', '{'b' * 100}')", "repeat"),
        (f"SELECT regexp_replace(repeat('a', 100000), 'a+?', '{'b' * 100}', 'g')", "repeat"),
        ("SUMMARIZE SELECT repeat('x', 2000000000) AS r", "repeat"),
        ("EXPLAIN SELECT repeat('x', 2000000000)", "repeat"),
    ],
)
def test_a_call_without_a_bound_is_not_run(connector: Connector, sql: str, name: str) -> None:
    with pytest.raises(SourceError) as caught:
        connector.query(sql)
    assert caught.value.code == "query"
    assert f"`{name}`" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT repeat('-', 3), lpad('a', 3, '.'), rpad('a', 3, '.')", (("---", "..a", "a.."),)),
        ("SELECT range(3), generate_series(1, n) FROM t", (([0, 1, 2], [1, 2]),)),
        ("SELECT count(*) FROM range(20000000) AS r WHERE range < 2", ((2,),)),
        ("SELECT printf('%05d', 1), format('{:>3}', 'a')", (("00001", "  a"),)),
        ("SELECT len(range(date '2024-01-01', date '2024-02-01', interval 1 day))", ((31,),)),
        ("SELECT len(generate_series(timestamp '2024-01-01', '2024-01-02', interval '1 hour'))", ((25,),)),
        ("SELECT len(range(1, 10, 3)), len(range(10, 1, -3))", ((3, 3),)),
        ("SELECT bitstring('101', 6)::VARCHAR, replace('aa', 'a', 'bcd')", (("000101", "bcdbcd"),)),
        ("SELECT reservoir_quantile(n, 0.5) FROM t", ((2,),)),
        ("SELECT 'repeat(' || n FROM t", (("repeat(2",),)),
        ("SELECT n AS range FROM t", ((2,),)),
    ],
)
def test_a_bounded_call_is_run(connector: Connector, sql: str, rows: tuple[Any, ...]) -> None:
    assert connector.query(sql).rows == rows
