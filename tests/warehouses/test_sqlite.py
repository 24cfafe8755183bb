"""SQLite: WAL files left alone, locks, broken files, and what its pragmas say."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.port import Connector, ForeignKey, Index, Scope, TableRef, UniqueKey
from ktx_cli.warehouses.sqlite import connector as catalog
from ktx_cli.warehouses.sqlite import connector as sqlite_module
from ktx_cli.warehouses.sqlite.connector import shadow_tables

Open = Callable[..., Connector]


def write(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(";\n".join(statements))


def beside(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.parent.iterdir())


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_reading_leaves_nothing_behind_and_changes_nothing(mode: str, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    write(path, f"PRAGMA journal_mode = {mode}", "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    before = beside(path), path.read_bytes(), path.stat().st_mtime_ns
    connector = opened("sqlite", path=str(path))
    connector.introspect(Scope())
    assert connector.query("SELECT a FROM t").rows == ((1,),)
    assert beside(path) == before[0]
    connector.close()
    assert (beside(path), path.read_bytes(), path.stat().st_mtime_ns) == before


def test_rows_that_are_still_in_the_wal_are_seen(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)")
        assert opened("sqlite", path=str(path)).query("SELECT a FROM t").rows == ((1,),)


def test_a_writer_that_comes_after_opening_is_seen(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    write(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)")
    connector = opened("sqlite", path=str(path))
    assert connector.query("SELECT count(*) FROM t").rows == ((0,),)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("INSERT INTO t VALUES (1)")
        assert connector.query("SELECT count(*) FROM t").rows == ((1,),)
        writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert connector.query("SELECT count(*) FROM t").rows == ((1,),)
    assert connector.query("SELECT count(*) FROM t").rows == ((1,),)


@pytest.mark.parametrize("times", [1, 9])
def test_a_writer_that_comes_while_reading(
    times: int, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.db"
    write(path, "PRAGMA journal_mode = WAL", "CREATE TABLE t (a)")
    connector = opened("sqlite", path=str(path))
    calls: list[int] = []
    listing = catalog.list_relations

    def interrupted(session: sqlite3.Connection) -> Any:
        found = listing(session)
        calls.append(1)
        if len(calls) <= times:
            # Closing it moves the rows into the file and removes the WAL.
            write(path, f"CREATE TABLE more{len(calls)} (a)")
        return found

    monkeypatch.setattr(sqlite_module, "list_relations", interrupted)
    if times == 1:
        assert connector.test(Scope()).tables == 2
        assert len(calls) == 2
    else:
        with pytest.raises(SourceError, match="keeps writing"):
            connector.test(Scope())


def test_a_locked_file(tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "BUSY_SECONDS", 0.05)
    path = tmp_path / "x.db"
    write(path, "CREATE TABLE t (a)")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceError, match="locked") as caught:
            opened("sqlite", path=str(path))
    assert caught.value.code == "connection"


def test_a_journal_that_must_be_played_back(tmp_path: Path, opened: Open) -> None:
    path, copy = tmp_path / "x.db", tmp_path / "copy" / "x.db"
    copy.parent.mkdir()
    write(path, "CREATE TABLE t (a)", "INSERT INTO t SELECT randomblob(500) FROM (VALUES (1), (2), (3), (4))")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.executescript("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN; UPDATE t SET a = randomblob(9000)")
        copy.write_bytes(path.read_bytes())
        copy.with_name("x.db-journal").write_bytes(path.with_name("x.db-journal").read_bytes())
    with pytest.raises(SourceError) as caught:
        opened("sqlite", path=str(copy))
    assert caught.value.code == "connection"
    assert "left a journal that must be played back" in caught.value.message
    assert "sqlite3" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to have a header", b"SQLite format 3\0" * 64]
)
def test_a_file_that_is_no_database(content: bytes, tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        opened("sqlite", path=str(path))
    assert caught.value.code == "connection"
    assert str(path) in caught.value.message


def test_a_file_that_vanishes(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    write(path, "CREATE TABLE t (a)")
    connector = opened("sqlite", path=str(path))
    path.unlink()
    with pytest.raises(SourceError, match="no longer exists"):
        connector.query("SELECT a FROM t")


def test_a_file_whose_name_is_not_utf8(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9 %3f.db")
    write(path, "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
    assert opened("sqlite", path=str(path)).query("SELECT x FROM t").rows == ((1,),)


def test_an_empty_file_is_an_empty_database(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"")
    assert opened("sqlite", path=str(path)).introspect(Scope()).tables == ()
    assert path.read_bytes() == b""


def test_keys_as_sqlite_has_them(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make(
        "CREATE TABLE parent (Id INTEGER PRIMARY KEY, code TEXT UNIQUE)",
        "CREATE TABLE pair (a, b, PRIMARY KEY (b, a)) WITHOUT ROWID",
        "CREATE TABLE loose (k TEXT PRIMARY KEY, v INT)",
        "CREATE TABLE child (p REFERENCES PARENT, c REFERENCES parent (code), x, y, m REFERENCES missing, "
        "z REFERENCES missing (id), FOREIGN KEY (X, y) REFERENCES pair)",
    )
    schema = opened("sqlite", **options).introspect(Scope())
    tables = {table.ref.name: table for table in schema.tables}
    assert [column.nullable for column in tables["parent"].columns] == [False, True]
    assert [column.nullable for column in tables["pair"].columns] == [False, False]
    assert [column.nullable for column in tables["loose"].columns] == [True, True]
    assert tables["pair"].primary_key == ("b", "a")
    assert tables["parent"].unique_keys == (UniqueKey(("code",)),)
    assert tables["child"].foreign_keys == (
        ForeignKey(("p",), TableRef(None, "parent"), ("Id",)),
        ForeignKey(("c",), TableRef(None, "parent"), ("code",)),
        ForeignKey(("z",), TableRef(None, "missing"), ("id",)),
        ForeignKey(("x", "y"), TableRef(None, "pair"), ("b", "a")),
    )
    (problem,) = schema.problems
    assert (problem.ref, problem.what) == (TableRef(None, "child"), "foreign_key")
    assert "`missing`" in problem.message


def test_indexes_with_expressions_and_predicates(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make(
        "CREATE TABLE t (a, b, c)",
        "CREATE UNIQUE INDEX part ON t (a) WHERE b > 1",
        "CREATE UNIQUE INDEX expr ON t (lower(a))",
        "CREATE INDEX mixed ON t (b, lower(c))",
        "CREATE INDEX only_expr ON t (lower(c))",
    )
    (table,) = opened("sqlite", **options).introspect(Scope()).tables
    assert table.unique_keys == ()
    assert table.indexes == (Index(("b",), "mixed"),)


def test_virtual_tables_without_their_shadows(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make(
        "CREATE VIRTUAL TABLE docs USING fts5(title, body)",
        "CREATE VIRTUAL TABLE places USING rtree(id, x0, x1)",
        "CREATE TABLE docs_archive (a)",
        "INSERT INTO docs VALUES ('hello', 'world')",
    )
    connector = opened("sqlite", **options)
    schema = connector.introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["docs", "docs_archive", "places"]
    assert [column.name for column in schema.tables[0].columns] == ["title", "body"]
    assert schema.tables[0].row_estimate is None
    assert connector.query("SELECT title FROM docs WHERE docs MATCH 'world'").rows == (("hello",),)
    assert connector.query("SELECT count(*) FROM places").rows == ((0,),)


def test_a_virtual_table_whose_module_is_missing(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "x.db"
    write(
        path,
        "CREATE TABLE t (a)",
        "PRAGMA writable_schema = 1",
        "INSERT INTO sqlite_master VALUES ('table', 'far', 'far', 0, 'CREATE VIRTUAL TABLE far USING nowhere(a)')",
    )
    schema = opened("sqlite", path=str(path)).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["t"]
    (problem,) = schema.problems
    assert (problem.ref, problem.what) == (TableRef(None, "far"), "table")
    assert "nowhere" in problem.message


def test_shadow_tables() -> None:
    tables = {
        "d": "CREATE VIRTUAL TABLE d USING fts4(a)",
        "d_content": "CREATE TABLE d_content (a)",
        "d_config": "CREATE TABLE d_config (a)",
        "e_content": "CREATE TABLE e_content (a)",
    }
    assert shadow_tables(tables) == {"d_content"}


def test_system_and_temporary_tables_are_not_listed(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make(
        "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)",
        "CREATE TABLE sqliteish (a)",
        "CREATE TEMP TABLE passing (a)",
        "INSERT INTO t DEFAULT VALUES",
        "ANALYZE",
    )
    schema = opened("sqlite", **options).introspect(Scope())
    assert [table.ref.name for table in schema.tables] == ["sqliteish", "t"]


@pytest.mark.parametrize(
    ("counted", "estimates"),
    [(1 << 30, {"analysed": 3, "plain": 2, "keyed": 1}), (0, {"analysed": 3, "plain": 9, "keyed": None})],
)
def test_row_estimates(
    counted: int, estimates: dict[str, int | None], sqlite_engine: Any, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = sqlite_engine.make(
        "CREATE TABLE analysed (a UNIQUE)",
        "CREATE INDEX part ON analysed (a) WHERE a > 2",
        "INSERT INTO analysed VALUES (1), (2), (3)",
        "ANALYZE",
        "CREATE TABLE plain (id INTEGER PRIMARY KEY)",
        "INSERT INTO plain VALUES (1), (9)",
        "CREATE TABLE keyed (a PRIMARY KEY) WITHOUT ROWID",
        "INSERT INTO keyed VALUES (1)",
    )
    monkeypatch.setattr(catalog, "COUNTED_BYTES", counted)
    schema = opened("sqlite", **options).introspect(Scope())
    assert {table.ref.name: table.row_estimate for table in schema.tables} == estimates
    assert schema.problems == ()


def test_text_that_is_not_utf8(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make("CREATE TABLE t (a TEXT)", "INSERT INTO t VALUES (CAST(x'66ff' AS TEXT))")
    assert opened("sqlite", **options).query("SELECT a FROM t").rows == (("f\ufffd",),)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [("SELECT ?", ()), ("SELECT ?", (1, 2)), ("SELECT '\0'", ()), ("SELECT ?", (1 << 70,)), ("SELECT ?", (object(),))],
)
def test_unusable_statements_and_parameters(
    sql: str, parameters: tuple[Any, ...], sqlite_engine: Any, opened: Open
) -> None:
    with pytest.raises(SourceError) as caught:
        opened("sqlite", **sqlite_engine.make()).query(sql, parameters)
    assert caught.value.code == "query"


def test_text_that_is_not_utf8_behind_many_rows_that_are(sqlite_engine: Any, opened: Open) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    options = sqlite_engine.make(
        "CREATE TABLE t (a TEXT)",
        f"{numbers} INSERT INTO t SELECT 'text ' || i FROM n",
        "INSERT INTO t VALUES (CAST(x'66ff' AS TEXT))",
    )
    connector = opened("sqlite", **options)
    rows = connector.query("SELECT a FROM t ORDER BY rowid", max_rows=5000).rows
    assert rows == (*((f"text {number}",) for number in range(1, 3001)), ("f\ufffd",))
    assert connector.query("SELECT a FROM t ORDER BY rowid", max_rows=5000).rows == rows


def test_reading_pragmas(sqlite_engine: Any, opened: Open) -> None:
    connector = opened("sqlite", **sqlite_engine.make("CREATE TABLE t (a)"))
    assert connector.query("PRAGMA table_info(t)").rows[0][1] == "a"
    assert connector.query("SELECT name FROM pragma_table_info('t')").rows == (("a",),)
    assert connector.query("SELECT value FROM json_each('[5]')").rows == ((5,),)


def test_views_of_the_file_shadow_nothing(sqlite_engine: Any, opened: Open) -> None:
    tables = (
        "CREATE TABLE p (a integer PRIMARY KEY, b int UNIQUE)",
        "CREATE TABLE t (a int REFERENCES p (a), b int)",
        "CREATE INDEX i ON t (b)",
        "CREATE VIEW w AS SELECT a FROM t",
    )
    names = ["pragma_table_xinfo", "pragma_index_list", "pragma_index_xinfo", "pragma_foreign_key_list"]
    honest = opened("sqlite", **sqlite_engine.make(*tables)).introspect(Scope())
    planted = [f"CREATE VIEW {name} AS SELECT 'evil' AS name" for name in names[:2]]
    planted += [f"CREATE TABLE {name} (name)" for name in names[2:]]
    found = opened("sqlite", **sqlite_engine.make(*tables, *planted)).introspect(Scope())
    assert found.problems == honest.problems == ()
    assert [table for table in found.tables if table.ref.name not in names] == list(honest.tables)
    assert len(found.tables) == len(honest.tables) + 4


def test_statistics_that_are_a_view_are_none(sqlite_engine: Any, opened: Open) -> None:
    options = sqlite_engine.make("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    with closing(sqlite3.connect(options["path"])) as writer:
        writer.execute("PRAGMA writable_schema = 1")
        view = "CREATE VIEW sqlite_stat1 AS SELECT 't' AS tbl, 99 AS stat"
        writer.execute("INSERT INTO sqlite_schema VALUES ('view', 'sqlite_stat1', 'sqlite_stat1', 0, ?)", (view,))
        writer.commit()
    (table,) = opened("sqlite", **options).introspect(Scope()).tables
    assert table.row_estimate == 1
