"""Looking values up in keys, counting rows without a parent, and uniqueness, in databases."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import itertools
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.core.errors import SourceError
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships.candidates import (
    PROBED_VALUES,
    VALUES_PER_STATEMENT,
    Prober,
    check_in_database,
    is_unique_in_database,
    overlap_in_memory,
)
from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, NameMatch, Overlap, gather
from ktx_cli.scan.relationships.discovery import reason_of, sampled_check
from ktx_cli.scan.relationships.record import Check, Status
from ktx_cli.warehouses.dialect import value_list
from ktx_cli.warehouses.port import (
    ConnectionSpec,
    Connector,
    ForwardingConnector,
    QueryResult,
    Scope,
    Table,
    TableKind,
    TableRef,
)
from ktx_cli.warehouses.registry import connect

NUMBERS = itertools.count()
Make = Callable[..., Connector]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a function that runs statements in a new database of a driver, and connects to it."""
    with contextlib.ExitStack() as stack:

        def one(driver: str, *statements: str) -> Connector:
            options = _MAKERS[driver](request, tmp_path, statements)
            return stack.enter_context(connect(ConnectionSpec("shop", driver, options)))

        yield one


def _sqlite(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    path = folder / f"{next(NUMBERS)}.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(";".join(["BEGIN", *statements, "COMMIT"]))
    return {"path": str(path)}


def _duckdb(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    path = folder / f"{next(NUMBERS)}.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(";".join(["SELECT 1", *statements]))
    return {"path": str(path)}


def _postgres(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    server = request.getfixturevalue("postgres_server")
    return {"url": server.create_database(f"contained{next(NUMBERS)}", ";".join(statements))}


def _mysql(request: pytest.FixtureRequest, folder: Path, statements: Sequence[str]) -> dict[str, Any]:
    server = request.getfixturevalue("mariadb_server")
    return {"url": server.create_database(f"contained{next(NUMBERS)}", *statements)}


_MAKERS = {"sqlite": _sqlite, "duckdb": _duckdb, "postgres": _postgres, "mysql": _mysql}
ENGINES = pytest.mark.parametrize(
    "driver",
    [
        *("sqlite", "duckdb"),
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)


def tables_of(connector: Connector) -> dict[str, Table]:
    return {str(table.ref).rpartition(".")[2]: table for table in connector.introspect(Scope()).tables}


def facts_of(connector: Connector, rows: int = 10_000) -> DatabaseFacts:
    tables = connector.introspect(Scope()).tables
    return gather(connector.dialect, tables, profile_tables(connector, tables, Budget(rows=rows)).tables)


def column(facts: DatabaseFacts, table: str, name: str) -> ColumnFacts:
    return next(each for each in facts.columns if each.table.table.ref.name == table and each.name == name)


def rows(values: Sequence[Any], dialect: str) -> str:
    return ", ".join(f"({value_list([value], dialect)})" for value in values)


# -- rows without a parent --------------------------------------------------------------------------------------------

SHOP = (
    "CREATE TABLE people (id int, boss int, name varchar(20), city varchar(20), born date)",
    "INSERT INTO people VALUES (1, NULL, 'ada', 'x', '2000-01-01'), (2, 1, 'bob', 'y', NULL), "
    "(3, 9, NULL, 'y', '2001-01-01'), (4, 1, 'ada', NULL, NULL)",
    "CREATE TABLE places (city varchar(20), born date, code int)",
    "INSERT INTO places VALUES ('x', '2000-01-01', 1), ('x', '2000-01-01', 2), ('y', NULL, 3), (NULL, '2001-01-01', 4)",
    "CREATE TABLE nobody (id int, name varchar(20))",
)
CHECKS = [
    ("people", ["boss"], "people", ["id"], Check(3, 1, exact=True)),
    ("people", ["city"], "places", ["city"], Check(3, 0, exact=True)),
    ("people", ["city", "born"], "places", ["city", "born"], Check(2, 1, exact=True)),
    ("places", ["code"], "people", ["id"], Check(4, 0, exact=True)),
    ("people", ["id"], "nobody", ["id"], Check(4, 4, exact=True)),
    ("nobody", ["id"], "people", ["id"], Check(0, 0, exact=True)),
]


@ENGINES
def test_rows_without_a_parent_are_counted(make: Make, driver: str) -> None:
    connector = make(driver, *SHOP)
    tables = tables_of(connector)
    for child, columns, parent, keys, expected in CHECKS:
        assert check_in_database(connector, tables[child], columns, tables[parent], keys) == expected
    assert Check(0, 0, exact=True).violations == 0.0


@ENGINES
def test_names_of_any_kind_can_be_checked(make: Make, driver: str) -> None:
    mark = "`" if driver == "mysql" else '"'
    names = ['say "hi"', "select", "back`tick", "Größe", "it's %s", "found", "found_", "p", "c"]
    quoted = [mark + name.replace(mark, mark * 2) + mark for name in names]
    listed = ", ".join(f"{each} int" for each in quoted)
    values = ", ".join(map(str, range(len(names))))
    connector = make(
        driver, *(f"CREATE TABLE {each} ({listed})" for each in quoted), f"INSERT INTO {quoted[0]} VALUES ({values})"
    )
    tables = tables_of(connector)
    first = tables[names[0]]
    for name in names:
        assert check_in_database(connector, first, [name], first, [name]) == Check(1, 0, exact=True)
        assert check_in_database(connector, first, [name], tables["select"], [name]) == Check(1, 1, exact=True)
        assert is_unique_in_database(connector, first, [name, "select" if name == "p" else "p"])
    assert check_in_database(connector, first, ["found", "p"], first, ["found", "p"]).missing == 0


@pytest.mark.parametrize("driver", ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_tables_of_one_name_in_two_schemas(make: Make, driver: str) -> None:
    connector = make(
        driver,
        "CREATE SCHEMA north",
        "CREATE SCHEMA south",
        "CREATE TABLE north.t (id int)",
        "CREATE TABLE south.t (id int)",
        "INSERT INTO north.t VALUES (1), (2)",
        "INSERT INTO south.t VALUES (2), (3), (3)",
    )
    north, south = connector.introspect(Scope()).tables
    assert (str(north.ref), str(south.ref)) == ("north.t", "south.t")
    assert check_in_database(connector, south, ["id"], north, ["id"]) == Check(3, 2, exact=True)
    assert is_unique_in_database(connector, north, ["id"])
    assert not is_unique_in_database(connector, south, ["id"])


@pytest.mark.postgres
def test_what_cannot_be_compared_is_an_error(make: Make) -> None:
    connector = make("postgres", *SHOP, "CREATE TABLE docs (doc json)")
    tables = tables_of(connector)
    with pytest.raises(SourceError) as caught:
        check_in_database(connector, tables["people"], ["id"], tables["places"], ["city"])
    assert caught.value.code == "query"
    with pytest.raises(SourceError):
        is_unique_in_database(connector, tables["docs"], ["doc"])
    assert check_in_database(connector, tables["people"], ["id"], tables["people"], ["id"]).missing == 0


UNIQUE = [
    ("people", ["id"], True),
    ("people", ["boss"], False),
    ("people", ["name", "city"], True),
    ("people", ["name"], False),
    ("places", ["city", "born"], False),
    ("places", ["born", "code"], True),
    ("nobody", ["id"], True),
]


@ENGINES
def test_uniqueness_looks_at_rows_with_all_values(make: Make, driver: str) -> None:
    connector = make(driver, *SHOP)
    tables = tables_of(connector)
    found = [(table, columns, is_unique_in_database(connector, tables[table], columns)) for table, columns, _ in UNIQUE]
    assert found == UNIQUE


class Noted:
    """Notes the statements and says what ClickHouse says of a join that finds nothing: zeros."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Sequence[Any] = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        return QueryResult(("a", "b"), ((3, None),))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"nobody asks for {name}")


EXPECTED = """\
SELECT COUNT(*), SUM(CASE WHEN p.found = 1 THEN 0 ELSE 1 END) FROM s."child t" AS c LEFT JOIN \
(SELECT DISTINCT a, "b]", 1 AS found FROM s.parent) AS p ON c.x = p.a AND c."y`" = p."b]" \
WHERE NOT c.x IS NULL AND NOT c."y`" IS NULL"""
WAREHOUSES = ("tsql", "snowflake", "bigquery", "clickhouse", "redshift", "databricks", "trino", "spark", "athena")


@pytest.mark.table("dialect", WAREHOUSES)
def test_the_check_in_other_dialects_is_the_same_select(dialect: str) -> None:
    child, parent = (Table(TableRef("s", name), TableKind.TABLE, ()) for name in ("child t", "parent"))
    noted = Noted(dialect)
    check = check_in_database(noted, child, ["x", "y`"], parent, ["a", "b]"])
    assert check == Check(3, 0, exact=True)
    (tree,) = sqlglot.parse(noted.sent[0], read=dialect)
    assert isinstance(tree, exp.Select)
    for each in tree.find_all(exp.Identifier):
        each.set("quoted", not each.name.isidentifier())
    assert tree.sql(dialect="postgres", normalize_functions="upper") == EXPECTED


# -- looking values up ------------------------------------------------------------------------------------------------


def many(make: Callable[[int], Any]) -> list[Any]:
    return [make(number) for number in range(1500)]


KINDS: dict[str, tuple[str, list[Any], Any]] = {
    "texts": ("varchar(40)", many(lambda n: f"it's \\ {n} Größe"), "no 'such' \\ text"),
    "numbers": ("bigint", many(lambda n: 10**15 + n), -7),
    "decimals": ("decimal(12,2)", many(lambda n: decimal.Decimal(n) / 4), decimal.Decimal("-0.25")),
    "days": ("date", many(lambda n: datetime.date(2020, 1, 1) + datetime.timedelta(n)), datetime.date(1999, 1, 1)),
    "ids": ("uuid", many(lambda n: str(uuid.UUID(int=n))), str(uuid.UUID(int=2**100))),
    "padded": ("char(40)", many(lambda n: f"w{n}"), "none"),
}


@ENGINES
@pytest.mark.parametrize("turn", range(len(KINDS) if os.environ.get("KTX_TEST_FULL") else 3))
def test_values_are_found_in_a_key_larger_than_its_sample(make: Make, driver: str, turn: int) -> None:
    """All kinds on all engines with KTX_TEST_FULL; by default three on each, so that two engines have every kind."""
    kind = list(KINDS)[(turn + 3 * list(_MAKERS).index(driver)) % len(KINDS)]
    native, values, stranger = KINDS[kind]
    dialect = "sqlite" if kind == "ids" else driver
    connector = make(
        driver,
        f"CREATE TABLE parent (k {native} PRIMARY KEY)",
        f"CREATE TABLE child (good {native}, bad {native})",
        f"INSERT INTO parent VALUES {rows(values, dialect)}",
        f"INSERT INTO child (good) VALUES {rows(values[1440:], dialect)}",
        f"INSERT INTO child (good, bad) VALUES ({value_list([values[0], stranger], dialect)})",
    )
    facts = facts_of(connector, rows=200)
    key, good, bad = column(facts, "parent", "k"), column(facts, "child", "good"), column(facts, "child", "bad")
    assert not facts.tables[1].complete
    assert (good.profile.filled, bad.profile.filled) == (61, 1), (good.profile, bad.profile)
    prober = Prober(connector)
    found = prober.overlaps([(good, key), (bad, key)])
    assert prober.problems == []
    probed = min(PROBED_VALUES, good.distinct)
    assert found[good, key] == Overlap(probed, 0, probed, probed, exact=False)
    assert found[bad, key] == Overlap(1, 1, 1, 0, exact=False)
    assert found[bad, key].violations == 1.0
    assert prober.statements == 1


@pytest.mark.mysql
def test_values_that_differ_in_case_are_found_where_the_server_takes_them_for_equal(make: Make) -> None:
    values = [f"Word {number}" for number in range(1500)]
    connector = make(
        "mysql",
        "CREATE TABLE parent (k varchar(40) COLLATE utf8mb4_general_ci PRIMARY KEY)",
        "CREATE TABLE child (x varchar(40) COLLATE utf8mb4_general_ci)",
        f"INSERT INTO parent VALUES {rows(values, 'mysql')}",
        f"INSERT INTO child VALUES {rows([each.upper() + ' ' for each in values[1400:1450]], 'mysql')}",
    )
    facts = facts_of(connector, rows=200)
    child, key = column(facts, "child", "x"), column(facts, "parent", "k")
    found = Prober(connector).overlaps([(child, key)])
    assert found[child, key] == Overlap(50, 0, 50, 50, exact=False)
    tables = tables_of(connector)
    assert check_in_database(connector, tables["child"], ["x"], tables["parent"], ["k"]) == Check(50, 0, exact=True)


@pytest.mark.mysql
def test_values_that_differ_in_case_are_not_found_where_the_column_tells_them_apart(make: Make) -> None:
    values = [f"Word {number}" for number in range(1500)]
    connector = make(
        "mysql",
        "CREATE TABLE parent (k varchar(40) COLLATE utf8mb4_bin PRIMARY KEY)",
        "CREATE TABLE child (x varchar(40) COLLATE utf8mb4_bin, y varchar(40) COLLATE utf8mb4_bin)",
        f"INSERT INTO parent VALUES {rows(values, 'mysql')}",
        "INSERT INTO child SELECT upper(k), concat(k, ' ') FROM parent WHERE k LIKE '%147_'",
    )
    facts = facts_of(connector, rows=200)
    key, capital, padded = column(facts, "parent", "k"), column(facts, "child", "x"), column(facts, "child", "y")
    found = Prober(connector).overlaps([(capital, key), (padded, key)])
    tables = tables_of(connector)
    for child, missing in ((capital, 10), (padded, 0)):
        assert found[child, key] == Overlap(10, missing, 10, 10 - missing, exact=False)
        assert check_in_database(connector, tables["child"], [child.name], tables["parent"], ["k"]).missing == missing


def wide_children(count: int) -> tuple[str, ...]:
    """Return tables whose columns hold, together, more values than one statement looks up."""
    columns = ", ".join(f"x{at} int" for at in range(count))
    inserts = [f"({', '.join(str(10_000 + row * count + at) for at in range(count))})" for row in range(PROBED_VALUES)]
    return (
        "CREATE TABLE parent (k int PRIMARY KEY)",
        f"INSERT INTO parent VALUES {', '.join(f'({number})' for number in range(20_000))}",
        f"CREATE TABLE child ({columns})",
        f"INSERT INTO child VALUES {', '.join(inserts)}",
    )


def test_many_values_take_a_few_statements(make: Make) -> None:
    connector = make("sqlite", *wide_children(60))
    facts = facts_of(connector, rows=500)
    key = column(facts, "parent", "k")
    pairs = [(column(facts, "child", f"x{at}"), key) for at in range(60)]
    prober = Prober(connector)
    found = prober.overlaps(pairs)
    assert len(found) == 60
    assert {each.missing for each in found.values()} == {0}
    asked = 60 * PROBED_VALUES - len(set().union(*(pair[0].counts for pair in pairs)) & key.counts.keys())
    assert prober.statements == -(-asked // VALUES_PER_STATEMENT) > 1


def test_a_lookup_is_about_the_tables_whose_values_it_contains(make: Make) -> None:
    connector = make(
        "sqlite",
        *wide_children(2),
        "CREATE TABLE lost (x int)",
        "INSERT INTO lost VALUES (1)",
        "CREATE TABLE other (x int)",
        "INSERT INTO other VALUES (19000)",
    )
    asked: list[tuple[str, list[str]]] = []

    class Noting(ForwardingConnector):
        def attribute(self, sql: str, tables: Iterable[TableRef]) -> None:
            asked.append((sql, sorted(ref.name for ref in tables)))

    facts = facts_of(connector, rows=500)
    key = column(facts, "parent", "k")
    known = next(iter(key.counts))
    column(facts, "lost", "x").counts.clear()
    column(facts, "lost", "x").counts[known] = 1
    children = [column(facts, table, name) for table, name in (("child", "x0"), ("lost", "x"), ("other", "x"))]
    Prober(Noting(connector)).overlaps([(each, key) for each in children])
    ((sql, tables),) = asked
    assert tables == ["child", "other"], "the value of the third table is in the sample of the key"
    assert "19000" in sql


@pytest.mark.postgres
def test_a_column_that_cannot_be_looked_up_costs_only_itself(make: Make) -> None:
    values = [uuid.UUID(int=number) for number in range(1500)]
    connector = make(
        "postgres",
        "CREATE TABLE parent (k uuid PRIMARY KEY)",
        "CREATE TABLE child (good uuid, word text)",
        f"INSERT INTO parent VALUES {rows([str(each) for each in values], 'postgres')}",
        f"INSERT INTO child VALUES ('{values[1499]}', 'no uuid'), ('{values[1498]}', 'nor this')",
    )
    facts = facts_of(connector, rows=200)
    key, good, word = column(facts, "parent", "k"), column(facts, "child", "good"), column(facts, "child", "word")
    prober = Prober(connector)
    found = prober.overlaps([(word, key), (good, key)])
    assert found == {(good, key): Overlap(2, 0, 2, 2, exact=False)}
    (problem,) = prober.problems
    assert "child.word" in problem
    assert "parent.k" in problem


def test_a_source_that_is_gone_is_no_problem_of_one_column(make: Make) -> None:
    connector = make("sqlite", *wide_children(2))
    facts = facts_of(connector, rows=500)
    pair = (column(facts, "child", "x0"), column(facts, "parent", "k"))
    Path(connector.place).unlink()  # type: ignore[attr-defined]
    with pytest.raises(SourceError) as caught:
        Prober(connector).overlaps([pair])
    assert caught.value.code == "connection"


def test_values_of_the_key_s_sample_are_not_asked_for(make: Make) -> None:
    connector = make("sqlite", *SHOP)
    facts = facts_of(connector)
    child, key = column(facts, "people", "boss"), column(facts, "people", "id")
    assert overlap_in_memory(child, key) == Overlap(3, 1, 2, 1, exact=True)
    prober = Prober(connector)
    code = column(facts, "places", "code")
    assert prober.overlaps([(code, key)]) == {(code, key): Overlap(4, 0, 4, 4, exact=False)}
    assert prober.statements == 0


@pytest.mark.parametrize(
    ("sentinels", "rows", "said"),
    [
        ([], None, "all values exist in `customers.id`"),
        ([-1], None, "all values exist in `customers.id` except -1 (1 row)"),
        ([99999] * 1200, None, "all values exist in `customers.id` except 99999 (1,200 rows)"),
        ([99999] * 4, 5_000, "all sampled values exist in `customers.id` except 99999 (40% of the sample)"),
        ([0, -1], None, "75% of rows have a match in `customers.id`"),
        ([12345], None, "85.7% of rows have a match in `customers.id`"),
    ],
)
def test_a_reason_names_the_value_that_was_taken_for_null(
    gathered: Callable[..., DatabaseFacts], sentinels: list[int], rows: int | None, said: str
) -> None:
    tables = {"customers": {"id": list(range(1, 7))}, "orders": {"customer_id": [*range(1, 7), *sentinels]}}
    facts = gathered(tables, rows={} if rows is None else {"orders": rows})
    key, child = facts.columns
    overlap = overlap_in_memory(child, key)
    pair = Candidate(child, key, NameMatch(0.0, 0.0), {"values"}, overlap, [], 0.9)
    reason = reason_of(pair, sampled_check(pair), Status.ACCEPTED)
    assert reason == f"Column name gives no indication; {said}."
