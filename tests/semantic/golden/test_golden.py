"""The SQL of every question in every dialect: kept, read back, let through by the guard, and run where it can be."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import Caller
from ktx_cli.semantic.query import MOST_ROWS
from ktx_cli.testing.spark_server import SparkServer
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import EITHER
from tests.semantic.golden.engines import comparable, creating, opened
from tests.semantic.golden.questions import QUESTIONS
from tests.semantic.golden.world import ATTRIBUTES, NOW, SCHEMA, TABLES, shop_model
from tests.semantic.golden.write import FOLDER, parts_of, statement

RUNNING = ("sqlite", "postgres", "mysql")
"""Dialects that run here, besides DuckDB; MariaDB for MySQL."""

EMULATED = tuple(dialect for dialect in DIALECTS if dialect not in ("duckdb", *RUNNING))
"""Dialects whose statements DuckDB runs, too; those of Spark also run on its own server."""


EVERY = 1 if os.environ.get("KTX_TEST_FULL") else 5
"""Every how many dialects a question is looked at, beginning with another one for each question."""


SPARK_EVERY = 1 if os.environ.get("KTX_TEST_FULL") else 3
"""Every how many questions run on Spark, where each takes a second."""


def dialects_of(name: str) -> list[str]:
    """Return the dialects in which a question is looked at."""
    return list(DIALECTS)[list(QUESTIONS).index(name) % EVERY :: EVERY]


_MACROS = (
    "CREATE MACRO toDate32(x) AS CAST(x AS DATE)",
    "CREATE MACRO toClock(x, zone) AS timezone(zone, timezone('UTC', x))",
    "CREATE MACRO at_timezone(x, zone) AS timezone(zone, x)",
    "CREATE MACRO with_timezone(x, zone) AS timezone(zone, x)",
    "CREATE MACRO toDateTime64(x, digits, zone) AS CAST(x AS TIMESTAMP)",
    "CREATE MACRO addMonths(x, n) AS CAST(x + to_months(CAST(n AS INTEGER)) AS DATE)",
    "CREATE MACRO addDays(x, n) AS CAST(x + to_days(CAST(n AS INTEGER)) AS DATE)",
    "CREATE MACRO intDiv(x, n) AS x // n",
    "CREATE MACRO numbers(n) AS TABLE SELECT range AS number FROM range(n)",
)
"""What ClickHouse and Trino call and sqlglot does not write for DuckDB."""


def test_the_sql_is_as_it_is_kept() -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.sql")}
    assert kept.keys() == QUESTIONS.keys()
    changed = []
    for name in QUESTIONS:
        first, *others = [part.strip() for part in kept[name].split("\n\n-- ")]
        parts = {part.partition("\n")[0]: f"-- {part}" for part in others}
        assert parts.keys() == set(DIALECTS)
        dialects = dialects_of(name)
        changed += [name] if [first, *map(parts.get, dialects)] != parts_of(name, dialects) else []
    assert changed == [], "look at the difference: python -m tests.semantic.golden.write"


@pytest.mark.table("name", QUESTIONS)
def test_it_is_read_back_and_let_through(name: str) -> None:
    for dialect in dialects_of(name):
        sql = statement(name, dialect)
        checked = check(sql, dialect, max_rows=MOST_ROWS, server=EITHER)
        assert not checked.explains
        read = sqlglot.parse_one(sql, dialect=dialect).sql(dialect, normalize_functions=False)
        assert "".join(checked.sql.split()).lower() == "".join(read.split()).lower(), dialect


@pytest.mark.table("dialect", ["snowflake", "postgres", "bigquery", "databricks"])
def test_every_name_is_found_in_the_spelling_it_is_written_in(dialect: str) -> None:
    schema = {SCHEMA: {name: dict.fromkeys(columns, "INT") for name, (columns, _) in TABLES.items()}}
    for name in (name for name in QUESTIONS if dialect in dialects_of(name)):
        tree = sqlglot.parse_one(statement(name, dialect), dialect=dialect)
        try:
            qualify(tree, dialect=dialect, schema=sqlglot.MappingSchema(schema, dialect=dialect, normalize=False))
        except sqlglot.errors.SqlglotError as error:
            pytest.fail(f"{name} in {dialect}: {error}")


@pytest.fixture(scope="module")
def rows_of_duckdb(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    with opened("duckdb", tmp_path_factory.mktemp("golden")) as connector:
        return {name: comparable(_asked("duckdb", name, connector)) for name in QUESTIONS}


def _asked(engine: str, name: str, connector: Any) -> list[tuple[Any, ...]]:
    return ask(shop_model(engine), QUESTIONS[name], connector, caller=Caller.of(ATTRIBUTES), now=NOW).rows


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "engine",
    [
        "sqlite",
        "clickhouse",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mysql", marks=pytest.mark.mysql),
    ],
)
def test_every_engine_gives_the_same_rows(
    engine: str, rows_of_duckdb: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    servers = {"postgres": "postgres_server", "mysql": "mariadb_server"}
    server = request.getfixturevalue(servers[engine]) if engine in servers else None
    with opened(engine, tmp_path, server) as connector:
        found = {name: comparable(_asked(engine, name, connector)) for name in QUESTIONS}
    assert {name: rows for name, rows in found.items() if rows != rows_of_duckdb[name]} == {}


@pytest.mark.spark
def test_spark_gives_the_same_rows(rows_of_duckdb: dict[str, Any], spark_server: SparkServer, tmp_path: Path) -> None:
    with opened("spark", tmp_path, spark_server) as connector:
        found = {name: comparable(_asked("spark", name, connector)) for name in list(QUESTIONS)[::SPARK_EVERY]}
    assert {name: rows for name, rows in found.items() if rows != rows_of_duckdb[name]} == {}


@pytest.fixture(scope="module")
def tables() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as session:
        for each in (f"CREATE SCHEMA {SCHEMA}", *creating("duckdb"), *_MACROS):
            session.execute(each)
        yield session


FAKESNOW = Path(__file__).parents[3] / ".venv" / "fakesnow" / "bin" / "python"


def test_an_emulator_of_snowflake_gives_the_same_rows(tables: duckdb.DuckDBPyConnection) -> None:
    if not FAKESNOW.exists():
        pytest.skip("fakesnow is not installed: make fakesnow")
    asked = {
        "tables": [f'CREATE SCHEMA "{SCHEMA}"', *_quoted(creating("snowflake"))],
        "queries": {name: statement(name, "snowflake") for name in QUESTIONS},
    }
    script = Path(__file__).with_name("on_fakesnow.py")
    ran = subprocess.run([FAKESNOW, script], input=json.dumps(asked), capture_output=True, text=True, check=True)
    found = {name: rows if isinstance(rows, str) else _as_dates(rows) for name, rows in json.loads(ran.stdout).items()}
    wanted = {name: _as_dates(tables.execute(statement(name, "duckdb")).fetchall()) for name in QUESTIONS}
    assert {name: rows for name, rows in found.items() if rows != wanted[name]} == {}


def _quoted(statements: list[str]) -> list[str]:
    """Return the statements with every name in quotes, as Snowflake writes an unquoted one in upper case."""
    return [sqlglot.parse_one(each, dialect="duckdb").sql("snowflake", identify=True) for each in statements]


def _as_dates(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return comparable rows in which a midnight is a date."""
    found = comparable(rows)
    return [tuple(each.removesuffix(" 00:00:00") if isinstance(each, str) else each for each in row) for row in found]


@pytest.mark.table("dialect", EMULATED)
def test_what_is_written_for_engines_elsewhere_means_the_same(dialect: str, tables: duckdb.DuckDBPyConnection) -> None:
    different = {}
    for name in (name for name in QUESTIONS if dialect in dialects_of(name)):
        wanted = comparable(tables.execute(statement(name, "duckdb")).fetchall())
        found = comparable(tables.execute(_for_duckdb(statement(name, dialect), dialect)).fetchall())
        if found != wanted:
            different[name] = [pair for pair in zip(found, wanted, strict=False) if pair[0] != pair[1]][:2]
    assert different == {}


def _for_duckdb(sql: str, dialect: str) -> str:
    """Return the statement as sqlglot says it to DuckDB; types whose names mean something else there are replaced."""
    tree = sqlglot.parse_one(sql, dialect=dialect)
    if dialect == "tsql":
        tree = _with_whole_divisions(tree)
    for shown in reversed(list(tree.find_all(exp.TimeToStr))):  # ClickHouse's clock reading, which is a timestamp here
        zone = shown.args.get("zone")
        shown.replace(exp.func("toClock", shown.this, zone) if zone else shown.this)
    for kind in tree.find_all(exp.DataType):
        if kind.this is exp.DType.FLOAT:  # of 53 bits in T-SQL
            kind.set("this", exp.DType.DOUBLE)
        elif kind.this in (exp.DType.TIMESTAMP, exp.DType.DATETIME64):  # Trino's has 12 digits, DuckDB's at most 9
            kind.replace(exp.DataType.build("timestamp", dialect="duckdb"))
    return tree.sql("duckdb")


def _with_whole_divisions(tree: exp.Expr) -> exp.Expr:
    """Return a T-SQL statement in which divisions of whole numbers are said to be such."""
    types = {SCHEMA: {name: dict(columns) for name, (columns, _) in TABLES.items()}}
    found = annotate_types(qualify(tree, dialect="tsql", schema=types), schema=types, dialect="tsql")
    for node in list(found.find_all(exp.Div)):
        if node.this.is_type(*exp.DataType.INTEGER_TYPES) and node.expression.is_type(*exp.DataType.INTEGER_TYPES):
            node.replace(exp.IntDiv(this=node.this, expression=node.expression))
    return found


@pytest.mark.table("name", QUESTIONS)
def test_the_same_question_has_the_same_sql(name: str) -> None:
    model = shop_model()
    first = compile_query(model, QUESTIONS[name], caller=Caller.of(ATTRIBUTES), now=NOW).sql
    assert (
        first
        == compile_query(model, QUESTIONS[name], caller=Caller.of(ATTRIBUTES), now=NOW).sql
        == statement(name, "duckdb")
    )
