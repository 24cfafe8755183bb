"""A context source in a package of its own: installed by pip, used by the installed `ktx`, held to the contract."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).with_name("ktx-source-example")
KTX = Path(sys.executable).with_name("ktx")
SETTINGS = """\
connections:
  shop: {driver: sqlite, path: shop.sqlite}
  words: {driver: dictionary, path: dictionary, database: shop}
"""
SHARD = "semantic-layer/shop/_schema/main.yaml"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dictionary").mkdir()
    (tmp_path / "ktx.yaml").write_text(SETTINGS)
    (tmp_path / "dictionary" / "orders.csv").write_text(
        "column,description\n,One row for each order.\nid,Its number.\n"
    )
    database = sqlite3.connect(tmp_path / "shop.sqlite")
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
    database.close()
    return tmp_path


def data(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)["data"]


def test_it_is_a_source_like_any_other(run: Run, project: Path) -> None:
    run(KTX, "config", "validate")
    listed = data(run(KTX, "connection", "list", "--json"))["connections"]
    assert {each["id"]: each["driver"] for each in listed} == {"shop": "sqlite", "words": "dictionary"}
    assert "dictionary, with 1 file" in run(KTX, "connection", "test", "words").stdout
    assert data(run(KTX, "ingest", "--no-llm", "--dry-run", "--json"))["sources"][0]["status"] == "planned"

    (source,) = data(run(KTX, "ingest", "--no-llm", "--json"))["sources"]
    assert (source["connection"], source["kind"], source["status"]) == ("words", "dictionary", "done")
    text = (project / SHARD).read_text()
    assert "dictionary: One row for each order." in text and "dictionary: Its number." in text
    assert (project / "raw-sources" / "words" / "dictionary" / "manifest.yaml").is_file()

    (project / "dictionary" / "orders.csv").write_text("column,description\nid,The order's number.\n")
    (source,) = data(run(KTX, "ingest", "words", "--no-llm", "--json"))["sources"]
    assert source["changes"]["modified"] == 1
    text = (project / SHARD).read_text()
    assert "One row" not in text and "dictionary: The order's number." in text


def test_what_is_wrong_in_it_costs_it_alone(run: Run, project: Path) -> None:
    (project / "dictionary" / "orders.csv").write_text("Spalte;Text\n")
    (source,) = data(run(KTX, "ingest", "--no-llm", "--json", code=7))["sources"]
    assert source["error"]["message"] == "orders.csv is not a data dictionary"
    assert source["error"]["hint"] == "the first line is `column,description`, and each line has two values"
    assert (project / SHARD).is_file(), "the database is scanned all the same"


def test_setup_asks_for_it(run: Run, project: Path) -> None:
    (project / "ktx.yaml").write_text(SETTINGS.partition("  words")[0])
    given = ("--source", "dictionary", "--source-dir", "dictionary", "--source-set", "database=shop")
    run(KTX, "setup", "--no-input", *given, "--source-connection-id", "words", "--json")
    assert "driver: dictionary\n    path: dictionary\n    database: shop\n" in (project / "ktx.yaml").read_text()


def test_without_its_package_its_connection_is_disabled(project: Path) -> None:
    done = subprocess.run([KTX, "connection", "test", "words"], capture_output=True, text=True, cwd=project)
    assert done.returncode != 0 and "`dictionary`, which is not a driver of ktx" in done.stderr


def test_it_keeps_the_contract(run: Run, installed: Path) -> None:
    tests = installed.with_name("source") / "tests"
    done = run(sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", tests)
    assert " passed" in done.stdout, done.stdout
