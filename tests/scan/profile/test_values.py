"""The value dictionary, on real databases and on one that refuses."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import SourceError
from ktx_cli.core.values import plain_value
from ktx_cli.project.config.blocks import Privacy
from ktx_cli.scan.profile.profiler import Budget, SampledTable, profile_tables
from ktx_cli.scan.profile.values import Dictionary, DictionaryLimits, build_dictionary, list_values
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import Column, ConnectionSpec, Connector, QueryResult, Scope, SemanticType, Table
from ktx_cli.warehouses.registry import connect

LIMITS = DictionaryLimits()
ROWS = 1500
"""More than the smallest sample, 500 rows."""

STATEMENTS = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, status VARCHAR(20), {method} VARCHAR(20), stage INTEGER,"
    " handled VARCHAR(40), rare TEXT, code VARCHAR(20), amount DOUBLE PRECISION)",
    "CREATE TABLE countries (code VARCHAR(2) PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO countries VALUES ('DE', 'Germany'), ('NO', 'Norway'), ('SE', 'Sweden')",
    "INSERT INTO orders VALUES {rows}",
)


def order(number: int) -> str:
    """Return the values of a row as SQL: every fourth status is NULL, one row holds an address, one a rare value."""
    status = ("'paid'", "'open'", "'paid'", "NULL")[number % 4]
    method = ("'card'", "'cash ''n carry'")[number % 2]
    handled = "'ada@example.com'" if number == ROWS - 1 else "'none'"
    rare = "'lost'" if number == ROWS - 1 else "'usual'"
    return f"({number}, {status}, {method}, {number % 5}, {handled}, {rare}, 'c{number}', {number / 7})"


def statements(quote: str = '"') -> list[str]:
    rows = ", ".join(map(order, range(ROWS)))
    return [each.format(method=f"{quote}Pay Method{quote}", rows=rows) for each in STATEMENTS]


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        "duckdb",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def connector(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connector]:
    """The same tables in every engine, made once: SQLite and MariaDB list by a union, the others have grouping sets."""
    with connect(
        ConnectionSpec("shop", request.param, OPTIONS[request.param](request, tmp_path_factory.mktemp("shop")))
    ) as opened:
        yield opened


def _sqlite(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    with contextlib.closing(sqlite3.connect(folder / "shop.sqlite")) as database:
        database.executescript(";".join(statements()))
    return {"path": str(folder / "shop.sqlite")}


def _duckdb(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    with duckdb.connect(str(folder / "shop.duckdb")) as database:
        database.execute(";".join(statements()))
    return {"path": str(folder / "shop.duckdb")}


def _postgres(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    server = request.getfixturevalue("postgres_server")
    return {"url": server.create_database(f"values{next(NUMBERS)}", ";".join([*statements(), "ANALYZE"]))}


def _mysql(request: pytest.FixtureRequest, folder: Path) -> dict[str, Any]:
    server = request.getfixturevalue("mariadb_server")
    return {"url": server.create_database(f"values{next(NUMBERS)}", *statements("`"), "ANALYZE TABLE orders")}


OPTIONS = {"sqlite": _sqlite, "duckdb": _duckdb, "postgres": _postgres, "mysql": _mysql}
NUMBERS = itertools.count()


def built(
    connector: Connector,
    *,
    privacy: Privacy = "local",
    rows: int = 500,
    seconds: float = 60,
    limits: DictionaryLimits = LIMITS,
    through: Connector | None = None,
    unseen: Mapping[str, str | None] | None = None,
) -> Dictionary:
    """Profile and list all tables. `unseen`: column -> value the sample is made not to have (None: all but one)."""
    tables = connector.introspect(Scope()).tables
    sampled = [without(each, unseen or {}) for each in profile_tables(connector, tables, Budget(rows=rows)).tables]
    return build_dictionary(
        through or connector, tables, sampled, privacy=privacy, limits=limits, deadline=monotonic() + seconds
    )


def without(sampled: SampledTable, unseen: Mapping[str, str | None]) -> SampledTable:
    counts = {
        name: {
            value: n
            for place, (value, n) in enumerate(found.items())
            if value != unseen[name] and (unseen[name] or not place)
        }
        if name in unseen
        else found
        for name, found in sampled.counts.items()
    }
    columns = tuple(
        replace(each, distinct=len(counts[each.name])) if each.name in unseen else each
        for each in sampled.profile.columns
    )
    return replace(sampled, counts=counts, profile=replace(sampled.profile, columns=columns))


def folds(connector: Connector) -> bool:
    """Say whether sampled texts are small letters only, so that each table takes a statement."""
    return connector.dialect == "mysql"


def listed(dictionary: Dictionary) -> dict[str, ColumnValues]:
    return {f"{each.ref.name}.{each.column}": each for each in dictionary.columns}


def test_lists_of_a_table_that_was_sampled_whole_take_no_statement(connector: Connector) -> None:
    dictionary = built(connector, rows=10_000)
    assert dictionary.statements == (2 if folds(connector) else 0)
    found = listed(dictionary)
    assert found["countries.name"].values == (("Germany", 1), ("Norway", 1), ("Sweden", 1))
    assert found["orders.status"].values == (("paid", 750), ("open", 375))
    assert all(each.complete for each in dictionary.columns)
    assert found["orders.stage"].values == tuple((number, 300) for number in range(5))


def test_a_larger_table_takes_one_statement_and_its_lists_are_whole(connector: Connector) -> None:
    dictionary = built(connector)
    assert dictionary.statements == (2 if folds(connector) else 1)
    found = listed(dictionary)
    assert {name for name in found if name.startswith("orders")} == {
        "orders.status",
        "orders.Pay Method",
        "orders.stage",
        "orders.rare",
    }
    assert found["orders.status"].values == (("paid", 750), ("open", 375))
    assert found["orders.Pay Method"].values == (("card", 750), ("cash 'n carry", 750))
    assert found["orders.rare"].values == (("usual", ROWS - 1), ("lost", 1))
    assert all(each.complete for each in dictionary.columns)
    assert dictionary.problems == ()


def test_values_that_only_the_whole_table_has_are_looked_at_too(connector: Connector) -> None:
    dictionary = built(connector, unseen={"handled": "ada@example.com"})
    hidden = {f"{ref.name}.{column}": str(why) for ref, column, why in dictionary.hidden}
    assert hidden["orders.handled"] == "e-mail address (by value)"
    assert "orders.handled" not in listed(dictionary)


def test_strict_lists_nothing_and_asks_nothing(connector: Connector) -> None:
    assert built(connector, privacy="strict", through=Refusing(connector)) == Dictionary()


@pytest.mark.parametrize(
    "how", [{"seconds": -1.0}, {"limits": DictionaryLimits(rows=100)}], ids=["out of time", "too many rows"]
)
def test_without_the_statement_the_sample_has_to_do(connector: Connector, how: dict[str, Any]) -> None:
    dictionary = built(connector, **how)
    found = listed(dictionary)["orders.status"]
    assert not found.complete
    assert {value for value, _ in found.values} == {"paid", "open"}
    if not folds(connector):
        assert dictionary.statements == 0
        assert listed(dictionary)["countries.name"].complete


def test_a_column_of_many_values_is_no_list(connector: Connector) -> None:
    found = listed(built(connector, limits=DictionaryLimits(distinct=1, codes=4)))
    assert "orders.status" not in found
    assert "orders.stage" not in found
    assert "orders.code" not in found


class Refusing:
    """A connection that refuses statements with certain words in them."""

    def __init__(self, inner: Connector, *words: str, code: str = "query") -> None:
        self.inner, self.words, self.code = inner, words, code
        self.dialect = inner.dialect
        self.asked: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.asked.append(sql)
        if not self.words or any(word in sql for word in self.words):
            raise SourceError("no", code=self.code)
        return self.inner.query(sql, parameters, max_rows=max_rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_column_that_fails_costs_only_itself(connector: Connector) -> None:
    refusing: Any = Refusing(connector, "Pay Method")
    dictionary = built(connector, through=refusing)
    found = listed(dictionary)
    assert not found["orders.Pay Method"].complete
    assert found["orders.rare"].values == (("usual", ROWS - 1), ("lost", 1))
    assert [(str(each.ref).split(".")[-1], each.what, each.message) for each in dictionary.problems] == [
        ("orders", "values of Pay Method", "no")
    ]
    assert dictionary.statements == len(refusing.asked)


def test_a_table_that_takes_too_long_is_asked_once(connector: Connector) -> None:
    refusing: Any = Refusing(connector, code="timeout")
    dictionary = built(connector, through=refusing)
    assert len(refusing.asked) == (2 if folds(connector) else 1)
    assert not listed(dictionary)["orders.rare"].complete
    assert {each.what for each in dictionary.problems} == {"values"}


def test_a_source_that_is_gone_ends_it(connector: Connector) -> None:
    refusing: Any = Refusing(connector, code="connection")
    with pytest.raises(SourceError):
        built(connector, through=refusing)


def test_a_column_of_many_more_values_than_the_sample_had_is_no_list(connector: Connector) -> None:
    dictionary = built(connector, unseen={"code": None}, limits=DictionaryLimits(distinct=10))
    assert "orders.code" not in listed(dictionary)
    assert listed(dictionary)["orders.rare"].values == (("usual", ROWS - 1), ("lost", 1))
    assert dictionary.problems == ()


def test_an_enum_lists_values_that_no_row_has(tmp_path: Path) -> None:
    path = tmp_path / "enum.duckdb"
    database = duckdb.connect(str(path))
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    database.execute("CREATE TABLE t AS SELECT 'ok'::mood AS m FROM range(3)")
    database.close()
    with connect(ConnectionSpec("enum", "duckdb", {"path": str(path)})) as connector:
        found = listed(built(connector))["t.m"]
    assert found.values == (("ok", 3), ("happy", None), ("sad", None))
    assert found.complete


@pytest.mark.table(
    "dialect", ["postgres", "tsql", "snowflake", "bigquery", "databricks", "trino", "clickhouse", "spark"]
)
def test_statements_are_sql_of_their_dialect(dialect: str) -> None:
    import sqlglot

    from ktx_cli.warehouses.port import TableKind, TableRef

    columns = tuple(Column(name, "varchar(20)", SemanticType.STRING) for name in ("a", 'b"]`'))
    table = Table(TableRef("s", "t"), TableKind.TABLE, columns)
    listing = list_values(table, columns, dialect, most=200, text=100)
    parsed = sqlglot.parse_one(listing.sql, read=dialect)
    assert parsed.find(sqlglot.exp.GroupingSets)
    assert listing.read(["x", None, 0, 1, 4]) == (0, "x", 4)
    assert listing.read([None, None, 1, 0, 4]) is None


@pytest.mark.table(
    ("value", "plain"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**60, str(2**60)),
        (1.5, 1.5),
        (float("nan"), None),
        (decimal.Decimal("1.10"), "1.10"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 12, 30), "2024-02-29T12:30:00"),
        (b"\x00\xff", "00ff"),
        ("Ålesund", "Ålesund"),
        ("\udce9", "\\udce9"),
    ],
)
def test_values_as_json_has_them(value: Any, plain: Any) -> None:
    assert plain_value(value) == plain
    assert type(plain_value(value)) is type(plain)
