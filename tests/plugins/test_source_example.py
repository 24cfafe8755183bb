"""A context source in a package of its own: installed by pip, used by the installed `ktx`, held to the contract."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent / "ktx-source-example"
CONFIG = """\
connections:
  shop: {driver: sqlite, path: shop.sqlite}
  words: {driver: dictionary, path: dictionary, database: shop}
"""
SHARD = "semantic-layer/shop/_schema/main.yaml"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder pip installs the package into, without an index and without its dependencies."""
    work = tmp_path_factory.mktemp("plugin")
    copy = work / "source"
    names = (path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".toml"))
    for path in names:
        place = copy / path.relative_to(PACKAGE)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(path.read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--disable-pip-version-check", "--target", work / "site", copy], check=True)
    return work / "site"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "dictionary").mkdir(parents=True)
    (folder / "ktx.yaml").write_text(CONFIG)
    (folder / "dictionary" / "orders.csv").write_text("column,description\n,One row for each order.\nid,Its number.\n")
    database = sqlite3.connect(folder / "shop.sqlite")
    database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount REAL)")
    database.close()
    return folder


@pytest.fixture
def ktx(site: Path, project: Path, tmp_path: Path) -> Run:
    """Run the installed `ktx` in the project, beside the installed package."""

    def run(*words: str, installed: bool = True) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("KTX_", "GIT_"))}
        environ |= {"HOME": str(tmp_path), **({"PYTHONPATH": str(site)} if installed else {})}
        command = [str(Path(sys.executable).with_name("ktx")), *words]
        return subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True)

    return run


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["data"]


def test_it_is_a_source_like_any_other(ktx: Run, project: Path) -> None:
    listed = answer(ktx("connection", "list", "--json"))
    assert {each["id"]: each["driver"] for each in listed["connections"]} == {"shop": "sqlite", "words": "dictionary"}
    assert answer(ktx("config", "validate", "--json"))
    assert "dictionary, with 1 file" in ktx("connection", "test", "words").stdout

    sources = answer(ktx("ingest", "--no-llm", "--json"))["sources"]
    assert [(each["connection"], each["kind"], each["status"]) for each in sources] == [("words", "dictionary", "done")]
    text = (project / SHARD).read_text()
    assert "dictionary: One row for each order." in text and "dictionary: Its number." in text
    assert (project / "raw-sources" / "words" / "dictionary" / "manifest.yaml").is_file()

    (project / "dictionary" / "orders.csv").write_text("column,description\nid,The order's number.\n")
    assert answer(ktx("ingest", "words", "--no-llm", "--json"))["sources"][0]["changes"]["modified"] == 1
    text = (project / SHARD).read_text()
    assert "One row" not in text and "dictionary: The order's number." in text


def test_what_is_wrong_in_it_costs_it_alone(ktx: Run, project: Path) -> None:
    (project / "dictionary" / "orders.csv").write_text("Spalte;Text\n")
    done = ktx("ingest", "--no-llm", "--json")
    assert done.returncode == 7
    (source,) = json.loads(done.stdout)["data"]["sources"]
    assert source["error"]["message"] == "orders.csv is not a data dictionary"
    assert source["error"]["hint"] == "the first line is `column,description`, and each line has two values"
    assert (project / SHARD).is_file(), "the database is scanned all the same"


def test_without_the_package_its_connection_is_disabled(ktx: Run) -> None:
    listed = answer(ktx("connection", "list", "--json", installed=False))
    assert {each["id"] for each in listed["connections"]} >= {"shop"}
    done = ktx("connection", "test", "words", installed=False)
    assert done.returncode != 0 and "`dictionary`, which is not a driver that ktx knows" in done.stderr


def test_it_keeps_the_contract(site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run(
        [*command, "tests"],
        cwd=site.parent / "source",
        env={**os.environ, "PYTHONPATH": str(site), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout and "skipped" in done.stdout, "the tests of the package were found"
