"""The example of the guide, installed as pip installs any package: quackbase works, and no line of ktx knows of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ktx_cli
from ktx_cli.project.plugins import WAREHOUSES
from ktx_cli.warehouses import CloudConnector, ServerConnector, dialect_named

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "write-a-connector.md"
EXAMPLE = Path(__file__).with_name("ktx-warehouse-example")
KTX = Path(sys.executable).with_name("ktx")
SETTINGS = """\
connections:
  shop: {driver: quackbase, path: shop.pond, pond: main}
storage:
  git: {author: "ktx <ktx@example.com>"}
"""
MEASURE = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n"
Run = Callable[..., subprocess.CompletedProcess[str]]


def data(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)["data"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "ktx.yaml").write_text(SETTINGS)
    with duckdb.connect(str(tmp_path / "shop.pond")) as session:
        session.execute(
            "CREATE TABLE customers (id INT PRIMARY KEY, country VARCHAR);"
            "CREATE TABLE orders (id INT PRIMARY KEY, customer_id INT REFERENCES customers (id), amount DECIMAL(10, 2),"
            " placed_on DATE);"
            "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.secrets (a INT);"
            "INSERT INTO customers VALUES (1, 'DE'), (2, 'FR');"
            "INSERT INTO orders VALUES (1, 1, 10.5, '2026-01-03'), (2, 2, 4, '2026-02-03'), (3, 1, 1, '2026-02-04')"
        )
    return tmp_path


def test_its_settings_are_part_of_ktx_yaml(run: Run, project: Path) -> None:
    schema = json.loads(run(KTX, "config", "schema").stdout)
    connections = schema["properties"]["connections"]["additionalProperties"]
    drivers = connections["properties"]["driver"]["enum"]
    at = drivers.index("quackbase")
    assert drivers[at - 1 : at + 2] == [WAREHOUSES.built_in[-1], "quackbase", "dbt"]
    assert schema["$defs"]["QuackbaseConnection"]["properties"]["pond"]["description"].startswith("Schema to read.")
    run(KTX, "config", "validate")
    (project / "ktx.yaml").write_text(SETTINGS.replace("path: shop.pond", "path: postgresql://h/d"))
    assert "the driver `quackbase` requires `quackbase:`" in run(KTX, "config", "validate", code=2).stderr
    (project / "ktx.yaml").write_text(SETTINGS.replace("quackbase", "quackbas"))
    assert "did you mean `quackbase`?" in run(KTX, "config", "validate", code=2).stderr


def test_it_is_tested_scanned_and_asked(run: Run, project: Path) -> None:
    (tested,) = data(run(KTX, "connection", "test", "shop", "--json"))["connections"]
    assert (tested["ok"], tested["tables"]) == (True, 2)
    run(KTX, "scan", "shop", "--depth", "profile", "--json")
    assert "secrets" not in (project / "semantic-layer" / "shop" / "_schema" / "main.yaml").read_text()
    (project / "semantic-layer" / "shop" / "orders.yaml").write_text(MEASURE)
    asked = ("-m", "orders.revenue", "-d", "customers.country", "-d", "orders.placed_on:month", "--verify")
    answer = data(run(KTX, "sl", "query", *asked, "--json"))
    assert answer["rows"] == [["DE", "2026-01-01", "10.50"], ["DE", "2026-02-01", "1.00"], ["FR", "2026-02-01", "4.00"]]
    assert answer["receipt"]["verified"]["mismatches"] == []
    told = data(run(KTX, "sql", "SELECT COUNT(*) AS n FROM orders", "--json"))
    assert (told["dialect"], told["rows"]) == ("quackbase", [[3]])
    run(KTX, "doctor", "--json")


def test_the_guard_stands_before_it(run: Run, project: Path) -> None:
    for statement in ("DELETE FROM orders", "SELECT * FROM read_text('ktx.yaml')"):
        assert json.loads(run(KTX, "sql", statement, "--json", code=1).stdout)["error"]["code"] == "read_only"


def test_setup_asks_for_it(run: Run, project: Path) -> None:
    (project / "ktx.yaml").unlink()
    given = ("--database", "quackbase", "--database-path", "shop.pond", "--database-set", "pond=main")
    run(KTX, "setup", "--no-input", *given, "--database-connection-id", "shop", "--json")
    assert "driver: quackbase\n    path: shop.pond\n    pond: main\n" in (project / "ktx.yaml").read_text()


def test_without_its_package_the_connection_is_disabled_and_says_why(project: Path) -> None:
    done = subprocess.run([KTX, "config", "validate"], capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode == 2
    assert "`quackbase`, which is not a driver of ktx" in done.stderr


@pytest.mark.slow
def test_it_passes_the_contract(run: Run, installed: Path) -> None:
    tests = installed.with_name("source") / "tests"
    done = run(sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", tests)
    passed = re.search(r"^(\d+) passed in", done.stdout, re.MULTILINE)
    assert passed is not None and int(passed[1]) > 15, done.stdout


def test_no_line_of_ktx_knows_of_it() -> None:
    files = [
        path for path in Path(ktx_cli.__file__).parent.rglob("*") if path.suffix in (".py", ".txt", ".md", ".json")
    ]
    named = [path for path in files if "quackbase" in path.read_text("utf-8").lower()]
    assert [path.name for path in named] == ["plugins.py", "warehouse_contract.py"], "they name it as an example"


def test_the_guide_names_what_a_subclass_must_define() -> None:
    rows = {line.split("|")[1].strip(" `"): line for line in GUIDE.read_text("utf-8").splitlines() if line[:1] == "|"}
    for base in (ServerConnector, CloudConnector):
        named = rows[base.__name__].split("|")[4]
        assert set(re.findall(r"`(_\w+)`", named)) == set(base.__abstractmethods__)
    for call in ("is_number(value)", "date_part(part, value)", "date_cut(unit, value)", "cut_operand(made)"):
        method = getattr(dialect_named("one without peculiarities"), call.partition("(")[0])
        assert call in rows
        with pytest.raises(NotImplementedError):
            method(*call.partition("(")[2].split(","))
