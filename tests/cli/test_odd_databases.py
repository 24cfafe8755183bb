"""Databases as they are: odd names, many tables, wide tables, nothing, views that do not work."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core import yaml

Run = Callable[..., Any]

ODD = [
    "Order Details",
    "select",
    "a.b",
    'say "hi"',
    "o'clock",
    "📦 boxes",
    "ünïcödé",
    "NO",
    "12:30",
    "../../evil",
    "x" * 200,
]
ODD += ["line\nbreak", "tab\there", "`tick`", "{{jinja}}", "# hash", "- dash", "null", "CON", "case", "CASE_", "%s"]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def sources(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in (project / "semantic-layer" / "warehouse" / "_schema").rglob("*.yaml"):
        found.update(yaml.load(path.read_bytes(), where=str(path))["tables"])
    return found


def ingest(ktx: Run, driver: str, path: str) -> Any:
    assert ktx("setup", "--database", driver, "--database-path", path).code == 0
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    assert ktx("ingest", "--json").data["status"] == "unchanged"
    return answer.data["connections"][0]


@pytest.mark.parametrize("driver", [pytest.param("sqlite", marks=pytest.mark.slow), "duckdb"])
def test_odd_names(ktx: Run, work: Path, driver: str) -> None:
    statements = [
        f"CREATE TABLE {quoted(name)} ({', '.join(quoted(column) + ' INTEGER' for column in ODD)})" for name in ODD
    ]
    if driver == "sqlite":
        database = sqlite3.connect(work / "odd.db")
        for statement in statements:
            database.execute(statement)
        database.close()
    else:
        with duckdb.connect(str(work / "odd.db")) as connection:
            for statement in statements:
                connection.execute(statement)
    report = ingest(ktx, driver, "odd.db")
    assert report["problems"] == []
    found = sources(work)
    assert set(found) == set(ODD)
    for entry in found.values():
        assert [column["name"] for column in entry["columns"]] == ODD
    assert not (work.parent / "evil").exists()
    text = ktx("ingest", "--verbose").out + ktx("status").out
    assert "\x1b" not in text


def test_the_same_name_in_two_schemas(ktx: Run, work: Path) -> None:
    with duckdb.connect(str(work / "two.duckdb")) as database:
        database.execute("CREATE TABLE orders (id INTEGER)")
        database.execute("CREATE SCHEMA sales")
        database.execute("CREATE TABLE sales.orders (number INTEGER, total DOUBLE)")
    ingest(ktx, "duckdb", "two.duckdb")
    assert {name: entry["table"] for name, entry in sources(work).items()} == {
        "orders": "main.orders",
        "sales_orders": "sales.orders",
    }


@pytest.mark.slow
def test_500_tables_and_600_columns(ktx: Run, work: Path) -> None:
    database = sqlite3.connect(work / "many.sqlite")
    for number in range(500):
        database.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, a TEXT)")
    database.execute(f"CREATE TABLE wide ({', '.join(f'c{n} TEXT' for n in range(600))})")
    database.close()
    report = ingest(ktx, "sqlite", "many.sqlite")
    assert (report["tables"], report["columns"]) == (501, 1600)
    assert len(sources(work)["wide"]["columns"]) == 600


@pytest.mark.parametrize("driver", ["sqlite", "duckdb"])
def test_an_empty_database(ktx: Run, work: Path, driver: str) -> None:
    if driver == "sqlite":
        database = sqlite3.connect(work / "empty.db")
        database.execute("VACUUM")
        database.close()
    else:
        duckdb.connect(str(work / "empty.db")).close()
    report = ingest(ktx, driver, "empty.db")
    assert (report["tables"], report["problems"]) == (0, [])


@pytest.mark.parametrize("driver", ["sqlite", "duckdb"])
def test_a_view_that_errors_is_reported_and_the_rest_is_scanned(ktx: Run, work: Path, driver: str) -> None:
    statements = [
        "CREATE TABLE base (id INTEGER)",
        "CREATE TABLE stays (id INTEGER)",
        "CREATE VIEW broken AS SELECT id FROM base",
        "CREATE VIEW works AS SELECT id FROM stays",
        "DROP TABLE base",
    ]
    if driver == "sqlite":
        database = sqlite3.connect(work / "v.db")
        for statement in statements:
            database.execute(statement)
        database.close()
    else:
        with duckdb.connect(str(work / "v.db")) as connection:
            for statement in statements:
                connection.execute(statement)
    report = ingest(ktx, driver, "v.db")
    assert {"stays", "works"} <= set(sources(work))
    named = [problem["object"] for problem in report["problems"]]
    assert len(named) == 1
    assert "broken" in named[0]


def test_a_folder_of_files(ktx: Run, work: Path) -> None:
    folder = work / "exports" / "2024"
    folder.mkdir(parents=True)
    (work / "exports" / "customers.csv").write_text("id,name,country\n1,Ada,NO\n")
    (folder / "orders.json").write_text('[{"id": 1, "placed": "2024-01-01"}]')
    (work / "exports" / "bad.parquet").write_bytes(b"not parquet")
    report = ingest(ktx, "files", "exports")
    assert len(report["problems"]) == 1
    assert "bad" in report["problems"][0]["object"]
    assert {"customers", "2024/orders"} == set(sources(work))


@pytest.mark.parametrize("debug", [False, True])
def test_a_stage_of_a_scan_that_fails_is_named_and_shown_by_debug(
    ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    with sqlite3.connect(work / "notes.db") as database:
        database.execute("CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY, owner_id INTEGER, owner_type TEXT)")
    database.close()
    assert ktx("setup", "--database", "sqlite", "--database-path", "notes.db").code == 0

    def failing(*_: Any, **__: Any) -> None:
        raise IndexError("a value of a row")

    monkeypatch.setattr("ktx_cli.scan.relationships.discovery.find_candidates", failing)
    answer = ktx("scan", *(["--debug"] if debug else []))
    assert answer.code == 7
    assert "connection `warehouse`: join discovery failed unexpectedly (IndexError)" in answer.err
    assert "hint: rerun with `ktx scan warehouse --debug` to see the traceback" in answer.err
    assert ("Traceback" in answer.err, "in failing" in answer.err) == (debug, debug)
    assert set(sources(work)) == {"person", "note"}
