"""A folder of data files: names, bad files, links, and no way out of the folder."""

from __future__ import annotations

import glob
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.base import reason
from ktx_cli.warehouses.files.connector import find_data_files
from ktx_cli.warehouses.port import Connector, Scope, SemanticType, TableKind

Open = Callable[..., Connector]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "sales").mkdir(parents=True)
    (data / "orders.csv").write_text("id,day\n1,2024-01-02\n2,2024-01-03\n")
    (data / "sales" / "2024.tsv").write_text("id\tname\n1\tann\n")
    (data / "sales" / "2023.csv.gz").write_bytes(gzip.compress(b"id,ok\n1,true\n"))
    (data / "events.ndjson").write_text('{"a": 1, "b": {"c": 2}}\n{"a": 2}\n')
    (data / "list.json").write_text('[{"a": 1}, {"a": 2}]')
    (data / "lines.jsonl").write_text('{"a": 1}\n')
    duckdb.execute(f"COPY (SELECT range AS a FROM range(12)) TO '{data / 'big.parquet'}'")
    return data


def test_every_file_is_a_table(folder: Path, opened: Open) -> None:
    connector = opened("files", path=str(folder))
    schema = connector.introspect(Scope())
    assert schema.problems == ()
    assert [str(table.ref) for table in schema.tables] == [
        "big", "events", "lines", "list", "orders", "sales/2023", "sales/2024",
    ]  # fmt: skip
    tables = {table.ref.name: table for table in schema.tables}
    assert {table.kind for table in schema.tables} == {TableKind.TABLE}
    assert [(column.name, column.type) for column in tables["orders"].columns] == [
        ("id", SemanticType.NUMBER),
        ("day", SemanticType.TIME),
    ]
    assert tables["events"].columns[1].native_type == "STRUCT(c BIGINT)"
    assert [column.type for column in tables["sales/2023"].columns] == [SemanticType.NUMBER, SemanticType.BOOLEAN]
    assert {name: table.row_estimate for name, table in tables.items() if table.row_estimate is not None} == {"big": 12}
    assert connector.test(Scope()).tables == 7


def test_files_are_queried_by_their_table_names(folder: Path, opened: Open) -> None:
    connector = opened("files", path=str(folder))
    assert connector.query('SELECT name FROM "sales/2024"').rows == (("ann",),)
    cut = connector.query("SELECT a FROM big ORDER BY a", max_rows=2)
    assert (cut.rows, cut.truncated) == (((0,), (1,)), True)


def test_two_files_of_one_stem_keep_their_endings(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "a.json").write_text('[{"y": 1}]')
    (tmp_path / "b.csv").write_text("x\n1\n")
    schema = opened("files", path=str(tmp_path)).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["a.csv", "a.json", "b"]


def test_hidden_and_other_files_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in (".hidden.csv", ".git/x.csv", "readme.md", "csv", ".csv"):
        (tmp_path / name).write_text("x\n1\n")
    assert find_data_files(tmp_path) == ([], [])


def test_upper_case_endings_count(tmp_path: Path) -> None:
    (tmp_path / "A.CSV").write_text("x\n1\n")
    files, _ = find_data_files(tmp_path)
    assert [file.ref.name for file in files] == ["A"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.parquet", b"junk"), ("x.json", b"{no json"), ("x.csv.gz", b"not gzip"), ("x.csv", b"\xff\xfe\x00\x80,\x01\n")],
)
def test_a_bad_file_costs_only_itself(name: str, content: bytes, folder: Path, opened: Open) -> None:
    (folder / name).write_bytes(content)
    connector = opened("files", path=str(folder))
    schema = connector.introspect(Scope())
    assert len(schema.tables) == 7
    (problem,) = schema.problems
    assert problem.ref is not None
    assert (problem.ref.name, problem.what) == ("x", "file")
    assert problem.message == reason(problem.message)
    assert connector.query("SELECT count(*) FROM orders").rows == ((2,),)
    assert connector.introspect(Scope(exclude=("x",))).problems == ()


EMPTY = {
    "e.csv": b"",
    "e.tsv": b"\n \n",
    "bom.csv": b"\xef\xbb\xbf",
    "e.csv.gz": gzip.compress(b""),
    "e.json": b"",
    "list.json": b" [ ]\n",
    "e.ndjson": b"\n",
    "e.jsonl.gz": gzip.compress(b"\n"),
}
NOT_EMPTY = {"head.csv": b"a,b\n", "one.json": b"[{}]", "list.csv": b"[]\n", "wide.csv": b" " * 5000 + b"a\n1\n"}


def test_an_empty_file_is_named_and_no_table(tmp_path: Path, opened: Open) -> None:
    for name, content in {**EMPTY, **NOT_EMPTY}.items():
        (tmp_path / name).write_bytes(content)
    connector = opened("files", path=str(tmp_path))
    schema = connector.introspect(Scope())
    assert sorted(table.ref.name for table in schema.tables) == ["head", "list.csv", "one", "wide"]
    assert {(problem.what, problem.message) for problem in schema.problems} == {("file", "the file is empty")}
    assert len(schema.problems) == len(EMPTY)
    with pytest.raises(SourceError):
        connector.query("SELECT * FROM bom")


def test_links_that_leave_the_folder_are_not_followed(folder: Path, opened: Open) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("s\nhunter2\n")
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "far").symlink_to(outside)
    (folder / "near.csv").symlink_to("orders.csv")
    (folder / "dangling.csv").symlink_to("nowhere.csv")
    connector = opened("files", path=str(folder))
    schema = connector.introspect(Scope())
    names = [table.ref.name for table in schema.tables]
    assert "near" in names
    assert not {"link", "far/secret", "dangling"} & set(names)
    assert sorted(problem.message for problem in schema.problems) == [
        "dangling.csv is not a file",
        "far is a link to a target outside the folder",
        "link.csv is a link to a target outside the folder",
    ]


def test_a_name_that_duckdb_takes_for_a_pattern(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "[ab].csv").write_text("x\n1\n")
    (tmp_path / "a.csv").write_text("y\n1\n")
    schema = opened("files", path=str(tmp_path)).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["a"]
    assert "pattern" in schema.problems[0].message


def test_odd_names(tmp_path: Path, opened: Open) -> None:
    names = ["Order Details", "select", "a.b", 'say "hi"', "it's", "🛒", "x%20y"]
    for name in names:
        (tmp_path / f"{name}.csv").write_text('"a ""b""",c\n1,2\n')
    connector = opened("files", path=str(tmp_path))
    schema = connector.introspect(Scope())
    assert schema.problems == ()
    assert sorted(table.ref.name for table in schema.tables) == sorted(names)
    assert connector.query('SELECT "a ""b""" FROM "say ""hi"""').rows == ((1,),)


def test_a_name_that_is_not_utf8(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "ok.csv").write_text("x\n1\n")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.csv")).write_text("x\n1\n")
    except OSError:
        pytest.skip("this file system takes only UTF-8 names")
    schema = opened("files", path=str(tmp_path)).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["ok"]
    assert "not UTF-8" in schema.problems[0].message
    schema.problems[0].message.encode()


WRITES = [
    "COPY (SELECT 1) TO '{folder}/orders.csv'",
    "COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "EXPLAIN (ANALYZE) COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "/* */ EXPLAIN /* */ ANALYZE COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "PREPARE p AS COPY (SELECT 1) TO '{folder}/orders.csv' (USE_TMP_FILE false)",
    "FROM query('COPY (SELECT 1) TO ''{folder}/orders.csv'' (USE_TMP_FILE false)')",
    "COPY (SELECT 1) TO '{folder}/new.csv'",
    "ATTACH '{folder}/orders.csv' AS x",
    "ATTACH '{folder}/new.duckdb' AS x",
    "CREATE TABLE x (a int)",
    "INSERT INTO orders VALUES (3, '2024-01-01')",
    "DROP VIEW orders",
    "SELECT * FROM read_text('{folder}/../outside.txt')",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '{folder}/*.csv'",
    "SELECT * FROM glob('/*')",
    "SET enable_external_access = true",
    "RESET allowed_paths",
    "INSTALL httpfs",
    "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
]


def test_nothing_writes_or_leaves_the_folder(folder: Path, opened: Open) -> None:
    (folder.parent / "outside.txt").write_text("secret")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    connector = opened("files", path=str(folder))
    for statement in WRITES:
        with pytest.raises(SourceError) as caught:
            connector.query(statement.format(folder=folder))
        assert caught.value.code in ("read_only", "query"), statement
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert connector.query("SELECT count(*) FROM orders").rows == ((2,),)


def test_a_file_instead_of_a_folder(folder: Path, opened: Open) -> None:
    with pytest.raises(SourceError, match="is not a folder") as caught:
        opened("files", path=str(folder / "orders.csv"))
    assert "connections.shop.path" in (caught.value.hint or "")


def test_a_file_that_vanishes(folder: Path, opened: Open) -> None:
    connector = opened("files", path=str(folder))
    assert connector.query("SELECT count(*) FROM orders").rows == ((2,),)
    (folder / "orders.csv").unlink()
    with pytest.raises(SourceError, match=r"orders\.csv"):
        connector.query("SELECT count(*) FROM orders")


def test_scope_names_what_is_not_there(folder: Path, opened: Open) -> None:
    schema = opened("files", path=str(folder)).introspect(Scope(include=("sales/*", "nothing*")))
    assert [table.ref.name for table in schema.tables] == ["sales/2023", "sales/2024"]
    (problem,) = schema.problems
    assert "`nothing*`" in problem.message


def test_what_is_excluded_by_its_name_is_not_reported(folder: Path, opened: Open) -> None:
    (folder / "gl*b.csv").write_text("x\n1\n")
    (folder / "glob.csv").write_text("x\n1\n")
    (folder / "sales" / "[1].csv").write_text("x\n1\n")
    (folder / "pw.csv").symlink_to("/etc/passwd")
    (folder / "lnk").symlink_to("/etc")
    connector = opened("files", path=str(folder))
    problems = connector.introspect(Scope()).problems
    names = [str(problem.ref) for problem in problems]
    assert sorted(names) == ["gl*b.csv", "lnk", "pw.csv", "sales/[1].csv"]
    for name in names:
        left = connector.introspect(Scope(exclude=(name,))).problems
        assert sorted(str(problem.ref) for problem in left) == sorted({*names} - {name})
    schema = connector.introspect(Scope(exclude=tuple(glob.escape(name) for name in names)))
    assert schema.problems == ()
    assert "glob" in [table.ref.name for table in schema.tables]
