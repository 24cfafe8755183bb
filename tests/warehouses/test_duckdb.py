"""DuckDB files: locks, other programs' files, nested types, times with a zone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import Connector, Index, Scope, SemanticType, TableRef, UniqueKey

Open = Callable[..., Connector]

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); sys.stdin.read()"
CRASH = "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('INSERT INTO t VALUES (2)'); os._exit(0)"


def test_another_process_holds_the_file(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make("CREATE TABLE t (a int)")
    command = [sys.executable, "-c", HOLD, options["path"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(SourceError) as caught:
            opened("duckdb", **options)
        holder.communicate()
    assert caught.value.code == "connection"
    assert "open for writing" in caught.value.message
    assert str(holder.pid) in caught.value.message
    assert "close that program" in (caught.value.hint or "")
    assert opened("duckdb", **options).query("SELECT 1").rows == ((1,),)


def test_another_session_of_this_process_holds_the_file(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make("CREATE TABLE t (a int)")
    with duckdb.connect(options["path"]), pytest.raises(SourceError, match="open for writing"):
        opened("duckdb", **options)


def test_rows_of_a_writer_that_crashed_are_seen_and_its_wal_is_left(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    subprocess.run([sys.executable, "-c", CRASH, options["path"]], check=True)
    before = sorted(path.name for path in Path(options["path"]).parent.iterdir())
    assert len(before) == 2
    connector = opened("duckdb", **options)
    assert connector.query("SELECT a FROM t ORDER BY a").rows == ((1,), (2,))
    connector.close()
    assert sorted(path.name for path in Path(options["path"]).parent.iterdir()) == before


def test_reading_changes_nothing(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make("CREATE TABLE t AS SELECT * FROM range(1000) r(a)")
    path = Path(options["path"])
    before = path.read_bytes()
    connector = opened("duckdb", **options)
    connector.introspect(Scope())
    connector.query("SELECT count(DISTINCT a) FROM t")
    connector.close()
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "hint"), [(b"", "path"), (b"x" * 5000, "path"), (b"SQLite format 3\0" + b"\0" * 100, "driver sqlite")]
)
def test_a_file_that_is_no_duckdb_database(content: bytes, hint: str, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.duckdb"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="not a DuckDB database") as caught:
        opened("duckdb", path=str(path))
    assert hint in (caught.value.hint or "")
    assert path.read_bytes() == content


def test_a_damaged_file(duckdb_engine: Any, opened: Open) -> None:
    path = Path(duckdb_engine.make("CREATE TABLE t (a int)")["path"])
    path.write_bytes(path.read_bytes()[:64] + b"\xff" * 5000)
    with pytest.raises(SourceError) as caught:
        opened("duckdb", path=str(path))
    assert caught.value.code == "connection"
    assert "damaged" in (caught.value.hint or "")


def test_nested_types_comments_and_estimates(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make(
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        "CREATE TABLE t (s STRUCT(x int), l int[], m MAP(varchar, int), e mood, z timestamptz, b boolean)",
        "COMMENT ON TABLE t IS 'about t'",
        "COMMENT ON COLUMN t.l IS 'about l'",
        "INSERT INTO t (b) SELECT true FROM range(5)",
        "CREATE VIEW v AS SELECT b FROM t",
        "COMMENT ON VIEW v IS 'about v'",
    )
    table, view = opened("duckdb", **options).introspect(Scope()).tables
    assert [column.native_type for column in table.columns] == [
        "STRUCT(x INTEGER)", "INTEGER[]", "MAP(VARCHAR, INTEGER)", "ENUM('a', 'b')", "TIMESTAMP WITH TIME ZONE",
        "BOOLEAN",
    ]  # fmt: skip
    assert [column.type for column in table.columns] == [
        *[SemanticType.STRING] * 4, SemanticType.TIME, SemanticType.BOOLEAN,
    ]  # fmt: skip
    assert (table.comment, view.comment, table.row_estimate) == ("about t", "about v", 5)
    assert [column.comment for column in table.columns][1] == "about l"


@pytest.mark.parametrize(
    "source", ["'orders.csv'", "read_csv('orders.csv')", "read_text('orders.csv')", "(SELECT * FROM first)"]
)
def test_a_view_over_a_file_is_not_read_and_says_why(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Open
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("orders.csv").write_text("a\n1\n")
    with duckdb.connect("x.duckdb") as connection:
        connection.execute("CREATE TABLE t (a int); CREATE VIEW first AS SELECT * FROM 'orders.csv'")
        connection.execute(f"CREATE VIEW v AS SELECT * FROM {source}")
    connector = opened("duckdb", path=str(tmp_path / "x.duckdb"))
    schema = connector.introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["t"]
    why = "reads the file orders.csv, which ktx does not allow: use a `files` connection, or load it into a table"
    assert [(str(problem.ref), problem.what, problem.message) for problem in schema.problems] == [
        ("main.first", "view", why),
        ("main.v", "view", why),
    ]
    with pytest.raises(SourceError, match=f"the statement {why}") as caught:
        connector.query("SELECT * FROM v")
    assert caught.value.code == "query"


def test_indexes_with_expressions_and_quoted_names(duckdb_engine: Any, opened: Open) -> None:
    options = duckdb_engine.make(
        'CREATE TABLE t ("a b" int, "c""d" int, "x,y" int)',
        'CREATE INDEX i1 ON t ("a b", "c""d")',
        'CREATE UNIQUE INDEX i2 ON t ("x,y")',
        'CREATE UNIQUE INDEX i3 ON t (("a b" + 1))',
    )
    (table,) = opened("duckdb", **options).introspect(Scope()).tables
    assert table.indexes == (Index(("a b", 'c"d'), "i1"),)
    assert table.unique_keys == (UniqueKey(("x,y",), "i2"),)


def test_three_part_names_are_checked_against_the_database(duckdb_engine: Any, opened: Open) -> None:
    connector = opened("duckdb", **duckdb_engine.make("CREATE TABLE t (a int)"))
    catalog = connector.query("SELECT current_database()").rows[0][0]
    assert connector.introspect(Scope(enabled_tables=(f'"{catalog}".main.t',))).problems == ()
    assert len(connector.introspect(Scope(enabled_tables=("other.main.t",))).problems) == 1


def test_times_with_a_zone_come_in_utc(duckdb_engine: Any, opened: Open) -> None:
    connector = opened("duckdb", **duckdb_engine.make())
    result = connector.query(
        "SELECT ?::timestamptz AS a, [timestamptz '2024-01-02 03:04:05+00'] AS b, "
        "1 AS a, NULL::timestamptz AS n; -- end",
        ["2024-01-02 03:04:05+01"],
    )
    assert result.columns == ("a", "b", "a", "n")
    ((first, nested, one, nothing),) = result.rows
    assert first == datetime(2024, 1, 2, 2, 4, 5, tzinfo=UTC)
    assert nested.startswith("['2024-01-02")
    assert (one, nothing) == (1, None)


def test_state_does_not_outlive_a_statement(duckdb_engine: Any, opened: Open) -> None:
    connector = opened("duckdb", **duckdb_engine.make("CREATE SCHEMA other", "CREATE TABLE other.t (a int)"))
    with pytest.raises(SourceError):
        connector.query("USE other")
    with pytest.raises(SourceError):
        connector.query("SELECT a FROM t")


@pytest.mark.parametrize(
    "sql",
    ["FROM t", "SHOW TABLES", "DESCRIBE t", "SUMMARIZE t", "EXPLAIN SELECT a FROM t", "VALUES (1)", "TABLE t",
     "PIVOT t ON a IN (1) USING count(*)", "/* note */ SELECT a FROM t", "(SELECT a FROM t)"],
)  # fmt: skip
def test_statements_that_read(sql: str, duckdb_engine: Any, opened: Open) -> None:
    connector = opened("duckdb", **duckdb_engine.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)"))
    assert connector.query(sql).rows


def test_use_after_close(duckdb_engine: Any, opened: Open) -> None:
    connector = opened("duckdb", **duckdb_engine.make())
    connector.close()
    with pytest.raises(SourceError, match="closed"):
        connector.query("SELECT 1")


def test_the_catalog_lists_only_this_database(duckdb_engine: Any, opened: Open) -> None:
    schema = opened("duckdb", **duckdb_engine.make("CREATE TABLE t (a int)")).introspect(Scope())
    assert [table.ref for table in schema.tables] == [TableRef("main", "t")]


SHADOWED = ["duckdb_tables", "duckdb_views", "duckdb_columns", "duckdb_constraints", "duckdb_indexes"]


def test_macros_of_the_file_shadow_nothing(duckdb_engine: Any, opened: Open) -> None:
    tables = (
        "CREATE TABLE p (a int PRIMARY KEY, b int UNIQUE)",
        "CREATE TABLE t (a int REFERENCES p (a), z timestamptz DEFAULT '2024-01-02 03:04:05+00')",
        "CREATE INDEX i ON t (z)",
        "CREATE VIEW v AS SELECT a FROM t",
        "INSERT INTO p VALUES (1, 1)",
        "INSERT INTO t (a) VALUES (1)",
    )
    macros = [f"CREATE MACRO {name}() AS TABLE SELECT 1 AS nothing" for name in SHADOWED]
    macros += [f"CREATE MACRO {name}() AS 'evil'" for name in ("current_database", "version")]
    # Schemas that are named as a catalog is.
    macros += ["CREATE MACRO timezone(a, b) AS 'evil'", "CREATE SCHEMA system", "CREATE SCHEMA temp"]
    honest = opened("duckdb", **duckdb_engine.make(*tables))
    shadowed = opened("duckdb", **duckdb_engine.make(*tables, *macros))
    with pytest.raises(SourceError):
        shadowed.query("SELECT table_name FROM duckdb_tables()")
    assert shadowed.introspect(Scope()) == honest.introspect(Scope())
    assert len(shadowed.introspect(Scope()).tables) == 3
    assert shadowed.test(Scope()).tables == 3
    assert shadowed.test(Scope()).server_version == honest.test(Scope()).server_version
    assert shadowed.query("SELECT z FROM t").rows == ((datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),),)


@pytest.mark.parametrize("name", ["system", "temp", "main"])
def test_a_file_that_is_named_as_a_catalog_is(name: str, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / f"{name}.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t (a int); CREATE SCHEMA {name}_; CREATE VIEW {name}_.v AS SELECT 1 AS a")
    schema = opened("duckdb", path=str(path)).introspect(Scope())
    assert sorted(str(table.ref) for table in schema.tables) == sorted(["main.t", f"{name}_.v"])
    assert schema.problems == ()
