"""Tables in memory: the types that DuckDB gets for the values that drivers return."""

from __future__ import annotations

import uuid
from contextlib import closing
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.duckdb.loaded import LoadedTable, LoadedTables
from ktx_cli.warehouses.port import ConnectionSpec, SemanticType

SPEC = ConnectionSpec("x", "duckdb")


def table(*values: Any, declared: SemanticType = SemanticType.STRING, name: str = "t") -> LoadedTable:
    return LoadedTable("a-b", "main", name, (("v", declared),), [(value,) for value in values])


def asked(loaded: LoadedTable, sql: str = 'SELECT typeof(v), v FROM "a-b".main.t') -> Any:
    with closing(LoadedTables(SPEC, [loaded])) as session:
        return session.query(sql).rows


@pytest.mark.table(
    ("values", "kind", "found"),
    [
        ((1, None, 2), "BIGINT", (1, None, 2)),
        ((1, 2**80), "HUGEINT", (1, 2**80)),
        ((True, False), "BOOLEAN", (True, False)),
        ((1, 2.5), "DOUBLE", (1.0, 2.5)),
        ((Decimal("1.50"), 2), "DECIMAL(38,2)", (Decimal("1.50"), Decimal("2.00"))),
        ((Decimal("1e3"), Decimal("0.125")), "DECIMAL(38,3)", (Decimal("1000.000"), Decimal("0.125"))),
        ((0.10000000149011612, 0.5), "FLOAT", None),
        ((0.1, 0.5), "DOUBLE", (0.1, 0.5)),
        ((0.25, 1.5), "DOUBLE", (0.25, 1.5)),
        ((float("nan"), 1.0), "DOUBLE", None),
        (("it's", "ü\n"), "VARCHAR", ("it's", "ü\n")),
        ((b"\x00\xff", memoryview(b"a")), "BLOB", (b"\x00\xff", b"a")),
        ((date(2024, 1, 2),), "DATE", (date(2024, 1, 2),)),
        ((date(2024, 1, 2), datetime(2024, 1, 2, 3)), "TIMESTAMP", (datetime(2024, 1, 2), datetime(2024, 1, 2, 3))),
        ((datetime(2024, 1, 2, 3, tzinfo=UTC),), "TIMESTAMP WITH TIME ZONE", (datetime(2024, 1, 2, 3, tzinfo=UTC),)),
        ((time(1, 2, 3),), "TIME", (time(1, 2, 3),)),
        ((uuid.UUID(int=1),), "UUID", (uuid.UUID(int=1),)),
        (({"k": None}, {"a": [1]}), "JSON", ('{"k": null}', '{"a": [1]}')),
        ((["y", "ü\"'", None], []), "VARCHAR[]", (["y", "ü\"'", None], [])),
        (([1, 2**40],), "BIGINT[]", ([1, 2**40],)),
    ],
)
def test_types(values: tuple[Any, ...], kind: str, found: tuple[Any, ...] | None) -> None:
    rows = asked(table(*values))
    assert {row[0] for row in rows} == {kind}
    assert found is None or tuple(row[1] for row in rows) == found


@pytest.mark.parametrize(
    ("declared", "kind"),
    [(SemanticType.NUMBER, "DOUBLE"), (SemanticType.TIME, "TIMESTAMP"), (SemanticType.STRING, "VARCHAR")],
)
def test_a_column_without_values_has_its_declared_type(declared: SemanticType, kind: str) -> None:
    assert asked(table(None, declared=declared)) == ((kind, None),)


@pytest.mark.table(
    ("values", "what"),
    [
        ((1, "a"), "values of several types"),
        ((timedelta(days=1),), "values such as intervals"),
        (([[1]],), "lists of values that are not simple"),
        ((["a"], [1]), "values of several types"),
        ((Decimal("NaN"), Decimal("1")), "numbers that DuckDB cannot store exactly"),
        ((Decimal("1" * 38), Decimal("0.1")), "numbers that DuckDB cannot store exactly"),
    ],
)
def test_what_would_change_is_refused(values: tuple[Any, ...], what: str) -> None:
    with pytest.raises(SourceError) as caught:
        asked(table(*values))
    assert caught.value.message.endswith(f"the column `v` of `a-b.t` has {what}")


def test_times_are_in_utc_wherever_ktx_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    moment = datetime(2024, 2, 1, 3, tzinfo=UTC)
    assert asked(table(moment), "SELECT strftime(v, '%Y-%m-%d %H') FROM \"a-b\".main.t") == (("2024-02-01 03",),)


def test_one_table_in_two_schemas() -> None:
    loaded = LoadedTable("a-b", "main", "t", (("v", SemanticType.NUMBER),), [(1,)], also=("public",))
    sql = 'SELECT count(*) FROM "a-b".main.t JOIN "a-b".public.t AS o USING (v)'
    with closing(LoadedTables(SPEC, [loaded])) as session:
        assert session.query(sql).rows == ((1,),)


def test_many_rows_arrive_once_and_in_order() -> None:
    rows = asked(table(*range(50_001)), 'SELECT count(*), sum(v), min(v), max(v) FROM "a-b".main.t')
    assert rows == ((50_001, 50_001 * 25_000, 0, 50_000),)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_text('/etc/hostname')", "ATTACH 'x.duckdb'", "CREATE TABLE x (a int)"]
)
def test_nothing_else_can_be_reached(sql: str) -> None:
    with pytest.raises(SourceError):
        asked(table(1), sql)
