"""What the engines do alike beyond the contract of a warehouse: odd names, large schemas, keys, broken views."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses import base
from ktx_cli.warehouses.base import reason
from ktx_cli.warehouses.port import Connector, ForeignKey, Scope, SemanticType, TableKind, TableRef, UniqueKey

Open = Callable[..., Connector]
ODD = ["Order Details", "select", "a.b", 'say "hi"', "back`tick", "it's", "Größe", "naïve%name", "CamelCase"]
# MariaDB stores identifiers in the basic plane only.
BEYOND = ["🛒"]


def odd_names(engine: Any) -> list[str]:
    return ODD if engine.driver == "mysql" else ODD + BEYOND


def test_odd_table_and_column_names_come_back_verbatim(engine: Any, opened: Open) -> None:
    names = odd_names(engine)
    columns = ", ".join(f"{engine.quoted(name)} int" for name in names)
    options = engine.make(*(f"CREATE TABLE {engine.quoted(name)} ({columns})" for name in names))
    schema = opened(engine.driver, **options).introspect(Scope())
    assert sorted(table.ref.name for table in schema.tables) == sorted(names)
    for table in schema.tables:
        assert [column.name for column in table.columns] == names
        assert {column.type for column in table.columns} == {SemanticType.NUMBER}
    assert schema.problems == ()


def test_five_hundred_tables_and_one_of_six_hundred_columns(engine: Any, opened: Open) -> None:
    wide = ", ".join(f"c{number} int" for number in range(600))
    tables = [f"CREATE TABLE t{number:03} (id int PRIMARY KEY, x int)" for number in range(500)]
    if engine.driver == "mysql":
        # Creating 500 InnoDB tables takes seconds; what is measured here is reading them.
        tables = [f"{statement} ENGINE=MEMORY" for statement in tables]
    schema = opened(engine.driver, **engine.make(*tables, f"CREATE TABLE wide ({wide})")).introspect(Scope())
    assert len(schema.tables) == 501
    assert [table.ref for table in schema.tables] == sorted(table.ref for table in schema.tables)
    assert [column.name for column in schema.tables[-1].columns] == [f"c{number}" for number in range(600)]
    assert all(table.primary_key == ("id",) for table in schema.tables[:-1])


def test_an_empty_database_has_no_tables_and_no_problems(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **engine.make())
    schema = connector.introspect(Scope())
    assert (schema.tables, schema.problems) == ((), ())
    assert schema.server_version
    assert connector.test(Scope()).tables == 0


def test_composite_keys_stay_together_and_in_their_own_order(engine: Any, opened: Open) -> None:
    options = engine.make(
        "CREATE TABLE parent (a int NOT NULL, b int NOT NULL, c int, PRIMARY KEY (b, a), UNIQUE (c, a))",
        "CREATE TABLE child (x int, y int, FOREIGN KEY (x, y) REFERENCES parent (b, a))",
    )
    child, parent = opened(engine.driver, **options).introspect(Scope()).tables
    assert parent.primary_key == ("b", "a")
    assert [key.columns for key in parent.unique_keys] == [("c", "a")]
    (key,) = child.foreign_keys
    assert (key.columns, key.target, key.target_columns) == (("x", "y"), parent.ref, ("b", "a"))
    assert isinstance(key, ForeignKey)
    assert all(isinstance(each, UniqueKey) for each in parent.unique_keys)


def test_views_say_so_and_bring_their_sql(engine: Any, opened: Open) -> None:
    options = engine.make("CREATE TABLE t (a int)", "CREATE VIEW v AS SELECT a FROM t")
    table, view = opened(engine.driver, **options).introspect(Scope()).tables
    assert (table.kind, view.kind) == (TableKind.TABLE, TableKind.VIEW)
    assert table.view_sql is None
    assert "select" in (view.view_sql or "").lower()
    assert view.row_estimate is None
    assert [column.name for column in view.columns] == ["a"]


@pytest.mark.parametrize("driver", ["sqlite", "duckdb", pytest.param("mysql", marks=pytest.mark.mysql)])
def test_a_view_that_errors_costs_only_itself(driver: str, opened: Open, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(f"{driver}_engine")
    options = engine.make(
        "CREATE TABLE gone (a int)",
        "CREATE TABLE kept (a int)",
        "CREATE VIEW broken AS SELECT a FROM gone",
        "CREATE VIEW works AS SELECT a FROM kept",
        "DROP TABLE gone",
    )
    schema = opened(engine.driver, **options).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["kept", "works"]
    (problem,) = schema.problems
    assert problem.ref is not None
    assert (problem.ref.name, problem.what) == ("broken", "view")
    assert problem.message == reason(problem.message)


def test_max_rows_cuts_and_says_so(engine: Any, opened: Open) -> None:
    options = engine.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1), (2), (3)")
    connector = opened(engine.driver, **options)
    cut = connector.query(engine.at("SELECT a FROM t ORDER BY a"), max_rows=2)
    assert (cut.rows, cut.truncated) == (((1,), (2,)), True)
    whole = connector.query(engine.at("SELECT a FROM t ORDER BY a LIMIT 5"), max_rows=3)
    assert (whole.rows, whole.truncated) == (((1,), (2,), (3,)), False)
    large = connector.query(engine.at("SELECT a FROM t ORDER BY a LIMIT 3"), max_rows=1)
    assert (large.rows, large.truncated) == (((1,),), True)
    none = connector.query(engine.at("SELECT a FROM t WHERE a > 9"), max_rows=1)
    assert (none.columns, none.rows, none.truncated) == (("a",), (), False)


ENDLESS = {
    "sqlite": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "duckdb": "SELECT count(*) FROM range(100000000) a, range(100000000) b",
    "postgres": "SELECT pg_sleep(60)",
    "mysql": "SELECT count(*) FROM seq_1_to_100000000 a, seq_1_to_100000000 b",
}


def test_a_statement_that_runs_on_is_stopped(engine: Any, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "STATEMENT_SECONDS", 0.2)
    connector = opened(engine.driver, **engine.make())
    with pytest.raises(SourceError) as caught:
        connector.query(ENDLESS[engine.driver])
    assert caught.value.code == "timeout"
    assert "0.2 seconds" in caught.value.message
    assert connector.query("SELECT 1").rows == ((1,),)


def test_a_connection_test_tells_the_facts(engine: Any, opened: Open) -> None:
    found = opened(engine.driver, **engine.make("CREATE TABLE t (a int)")).test(Scope())
    assert found.tables == 1
    assert found.latency_ms > 0
    assert any(character.isdigit() for character in found.server_version)
    assert found.can_write is (engine.driver in ("postgres", "mysql"))
    assert found.privileges


def test_default_and_nullability(engine: Any, opened: Open) -> None:
    options = engine.make("CREATE TABLE t (a int NOT NULL, b varchar(20) DEFAULT 'x')")
    (table,) = opened(engine.driver, **options).introspect(Scope()).tables
    first, second = table.columns
    assert (first.nullable, first.default) == (False, None)
    assert second.nullable
    assert "'x'" in (second.default or "")
    assert not second.generated


def test_generated_columns(engine: Any, opened: Open) -> None:
    # DuckDB has no STORED columns, the others no shorter form in common.
    stored = "" if engine.driver == "duckdb" else " STORED"
    options = engine.make(f"CREATE TABLE t (a int, b int GENERATED ALWAYS AS (a + 1){stored})")
    (table,) = opened(engine.driver, **options).introspect(Scope()).tables
    assert [(column.name, column.generated) for column in table.columns] == [("a", False), ("b", True)]


def test_indexes_and_what_is_no_unique_key(engine: Any, opened: Open) -> None:
    options = engine.make(
        "CREATE TABLE t (a int, b int, c int)", "CREATE INDEX plain ON t (b, a)", "CREATE UNIQUE INDEX sole ON t (c)"
    )
    (table,) = opened(engine.driver, **options).introspect(Scope()).tables
    assert [(index.name, index.columns) for index in table.indexes] == [("plain", ("b", "a"))]
    assert [(key.name, key.columns) for key in table.unique_keys] == [("sole", ("c",))]


def test_a_self_reference_and_two_keys_to_one_table(engine: Any, opened: Open) -> None:
    options = engine.make(
        "CREATE TABLE person (id int PRIMARY KEY, boss int, FOREIGN KEY (boss) REFERENCES person (id))",
        "CREATE TABLE letter (a int, b int, FOREIGN KEY (a) REFERENCES person (id), "
        "FOREIGN KEY (b) REFERENCES person (id))",
    )
    letter, person = opened(engine.driver, **options).introspect(Scope()).tables
    assert [(key.columns, key.target) for key in person.foreign_keys] == [(("boss",), person.ref)]
    assert [(key.columns, key.target) for key in letter.foreign_keys] == [(("a",), person.ref), (("b",), person.ref)]


@pytest.mark.parametrize(
    "driver",
    ["duckdb", pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql)],
)
def test_the_same_name_in_two_schemas_is_two_tables(driver: str, opened: Open, request: pytest.FixtureRequest) -> None:
    engine = request.getfixturevalue(f"{driver}_engine")
    name = f"second_{id(engine)}"
    options = engine.make(
        "CREATE TABLE t (a int)", f"CREATE SCHEMA {name}", f"CREATE TABLE {name}.t (b int PRIMARY KEY)"
    )
    first = engine.schema or options["url"].rsplit("/", 1)[1]
    connector = opened(driver, **options)
    schema = connector.introspect(Scope(schemas=(first, name)))
    found = {table.ref: [column.name for column in table.columns] for table in schema.tables}
    assert found == {TableRef(first, "t"): ["a"], TableRef(name, "t"): ["b"]}
    (only,) = connector.introspect(Scope(schemas=(first, name), enabled_tables=(f"{name}.t",))).tables
    assert (only.ref, only.primary_key) == (TableRef(name, "t"), ("b",))


def test_errors_carry_no_frames_with_options(engine: Any, opened: Open) -> None:
    connector = opened(engine.driver, **engine.make())
    with pytest.raises(SourceError) as caught:
        connector.query("SELECT nope")
    assert "postgres:postgres" not in "".join(traceback.format_exception(caught.value))
    assert "admin:admin" not in "".join(traceback.format_exception(caught.value))
