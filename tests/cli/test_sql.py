"""`ktx sql`: where the statement comes from, how rows are printed, what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.cli.blocks import RowFormat, as_lines

Run = Callable[..., Any]


@pytest.fixture
def values(project: Path) -> Path:
    """The shop with a table of odd values."""
    with sqlite3.connect(project / "shop.sqlite") as database:
        database.executescript(
            "CREATE TABLE v (n, t, b); INSERT INTO v VALUES (1, 'a,\"b\"', x'00ff'), (2.5, '', NULL), (NULL, 'x' || "
            "char(9, 10) || '\\', x'')"
        )
    database.close()
    return project


def test_the_envelope(ktx: Run, values: Path) -> None:
    answer = ktx("sql", "select n, t, b from v", "--json")
    assert answer.code == 0
    assert answer.envelope["schema"] == "ktx/sql/v1"
    assert answer.data == {
        "connection": "warehouse",
        "dialect": "sqlite",
        "sql": "SELECT n, t, b FROM v LIMIT 1001",
        "columns": ["n", "t", "b"],
        "rows": [[1, 'a,"b"', "00ff"], [2.5, "", None], [None, "x\t\n\\", ""]],
        "row_count": 3,
        "truncated": False,
        "cut": None,
        "notes": [],
        "open": [],
    }


@pytest.mark.parametrize(
    ("form", "out"),
    [
        ("csv", 'n,t,b\n1,"a,""b""",00ff\n2.5,"",\n,"x\t\n\\",""\n'),
        ("tsv", 'n\tt\tb\n1\ta,"b"\t00ff\n2.5\t\t\\N\n\\N\tx\\t\\n\\\\\t\n'),
        (
            "jsonl",
            '{"n": 1, "t": "a,\\"b\\"", "b": "00ff"}\n{"n": 2.5, "t": "", "b": null}\n'
            '{"n": null, "t": "x\\t\\n\\\\", "b": ""}\n',
        ),
        ("table", 'n\tt\tb\n1\ta,"b"\t00ff\n2.5\t\tNULL\nNULL\tx \\\t\n'),
    ],
)
def test_formats(ktx: Run, values: Path, form: str, out: str) -> None:
    answer = ktx("sql", "SELECT n, t, b FROM v", "--format", form)
    assert (answer.code, answer.out, answer.err) == (0, out, "")


def test_two_columns_of_one_name_are_both_printed() -> None:
    assert as_lines(RowFormat.JSONL, ("a", "a", "a_2"), [(1, 2, 3)]) == '{"a": 1, "a_2": 2, "a_2_2": 3}\n'


def test_rows_that_are_left_out_are_said(ktx: Run, project: Path) -> None:
    answer = ktx("sql", "SELECT id FROM customers", "--max-rows", "1")
    assert answer.out == "id\n1\n"
    assert "warning: only the first 1 rows are shown" in answer.err
    answer = ktx("sql", "SELECT id FROM customers", "--max-rows", "1", "--json")
    assert (answer.data["truncated"], answer.data["cut"]) == (True, "rows")
    assert answer.envelope["warnings"][0]["code"] == "truncated"


def test_a_value_too_large_to_print_is_an_error_or_named(ktx: Run, project: Path) -> None:
    with sqlite3.connect(project / "shop.sqlite") as database:
        database.execute("CREATE TABLE texts (a int, b text)")
        database.executemany("INSERT INTO texts VALUES (?, ?)", [(1, "x"), (2, "y" * 12_000_000)])
    database.close()
    answer = ktx("sql", "SELECT a, b FROM texts ORDER BY a DESC", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (1, "query")
    assert "`b` alone has 12,000,000" in answer.envelope["error"]["message"]
    answer = ktx("sql", "SELECT a, b FROM texts ORDER BY a")
    assert answer.code == 0
    assert "only the first 1 rows are shown: row 2 did not fit" in answer.err


@pytest.mark.parametrize("words", [["-"], ["--file", "-"], ["-f", "q.sql"]])
def test_the_statement_from_elsewhere(ktx: Run, project: Path, words: list[str]) -> None:
    text = "\ufeffSELECT 1 AS one; -- done\n"
    (project / "q.sql").write_text(text, encoding="utf-8")
    answer = ktx("sql", "-c", "warehouse", *words, input=text.encode())
    assert (answer.code, answer.out) == (0, "one\n1\n")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "a statement is required"),
        (["SELECT 1", "--file", "q.sql"], "a statement and --file cannot be used together"),
        (["--file", "missing.sql"], "cannot read"),
        (["--file", "latin.sql"], "not UTF-8"),
        (["SELECT 1", "-c", "warehous"], "no connection `warehous`"),
        (["SELECT 1", "--max-rows", "0"], "at least 1"),
        (["SELECT 1", "--format", "xml"], "not one of table, csv, tsv, jsonl"),
    ],
)
def test_what_is_asked_wrongly(ktx: Run, project: Path, words: list[str], says: str) -> None:
    (project / "latin.sql").write_bytes("SELECT 'é'".encode("latin-1"))
    answer = ktx("sql", *words, "--json")
    assert answer.code == 2
    assert says in answer.envelope["error"]["message"]


@pytest.mark.parametrize(
    "sql", ["DELETE FROM customers", "SELECT 1; DROP TABLE customers", "SELECT writefile('x', 'y')"]
)
def test_what_does_not_read_is_refused(ktx: Run, project: Path, sql: str) -> None:
    before = (project / "shop.sqlite").read_bytes()
    answer = ktx("sql", sql, "--json")
    assert answer.code == 1
    assert answer.envelope["error"]["code"] == "read_only"
    assert answer.envelope["error"]["details"]["construct"]
    assert (project / "shop.sqlite").read_bytes() == before


def test_the_hint_of_a_refused_function_helps(ktx: Run, project: Path) -> None:
    hint = ktx("sql", "SELECT sqlite_source_id() FROM customers", "--json").envelope["error"]["hint"]
    key, value = hint.partition("ktx config set ")[2].split(" ", 1)
    assert ktx("config", "set", key, value.strip("'")).code == 0
    answer = ktx("sql", "SELECT length(sqlite_source_id()) > 9 AS long FROM customers", "--json")
    assert answer.data["rows"] == [[1], [1]]


def test_a_plan_keeps_its_lines(ktx: Run, tmp_path: Path, project: Path) -> None:
    import duckdb

    with duckdb.connect(str(project / "plan.duckdb")) as database:
        database.execute("CREATE TABLE t (a int)")
    with (project / "ktx.yaml").open("a") as stream:
        stream.write("  duck:\n    driver: duckdb\n    path: plan.duckdb\n")
    lines = ktx("sql", "-c", "duck", "EXPLAIN SELECT a FROM t").out.splitlines()
    assert len(lines) > 3
    assert not any("physical_plan" in line or "\t" in line for line in lines)
    assert len({len(line.rstrip()) for line in lines}) == 1  # a box that is drawn


def test_a_plan_of_columns_is_a_table(ktx: Run, project: Path) -> None:
    out = ktx("sql", "-c", "warehouse", "EXPLAIN QUERY PLAN SELECT id FROM customers").out
    assert out.startswith("id\tparent\tnotused\tdetail\n")


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW TABLES",
        "SELECT load_extension('x')",
        "SELECT FROM",
        "DELETE FROM customers",
        "SELECT nosuch FROM customers",
    ],
)
def test_an_error_says_a_thing_once(ktx: Run, project: Path, sql: str) -> None:
    error, hint = ktx("sql", "-c", "warehouse", sql).err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    said = hint.removeprefix("hint: ")
    assert said not in error
    assert error.removeprefix("error: the statement was not run: ") not in hint


def test_semantic_layer_only(ktx: Run, project: Path) -> None:
    assert ktx("config", "set", "connections.warehouse.query_policy", "semantic-layer-only").code == 0
    answer = ktx("sql", "SELECT 1", "--json")
    assert answer.code == 2
    assert "semantic-layer-only" in answer.envelope["error"]["message"]


def test_the_parser_writes_nothing_on_stderr(installed: Run, project: Path) -> None:
    answer = installed("sql", "VACUUM INTO 'x'", "--json")
    assert (answer.code, answer.err) == (1, "")
