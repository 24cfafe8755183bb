"""Files whose names are not UTF-8 cost themselves alone, wherever they are in a project, and are named, escaped."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import done, set_up_per_schema
from tests.worlds.forks import shared

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")

Run = Callable[..., Any]

PAGE = b"---\nsummary: Odd.\n---\n# Odd\n\nText.\n"
SOURCE = b"name: orders\nmeasures: [{name: odd, expr: count(*)}]\n"
ODD = {
    b"wiki/global/b\xffd.md": PAGE,
    b"wiki/\xffdir/x.md": PAGE,
    b"semantic-layer/warehouse/s\xfe.yaml": SOURCE,
    b"semantic-layer/warehouse/_schema/t\xfd.yaml": b"tables: {}\n",
    b"semantic-layer/\xff/x.yaml": SOURCE,
    b"raw-sources/warehouse/live-database/r\xff.json": b"{}",
    b"evals/e\xff.yaml": b"{}",
}
NAMED = r"wiki/global/b\xffd.md"


def build(folder: Path) -> None:
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(n, "paid") for n in range(20)])
    database.close()
    set_up_per_schema()
    done("ingest")
    (folder / "wiki" / "global").mkdir(parents=True)
    (folder / "wiki" / "global" / "fine.md").write_text("---\nsummary: Fine.\n---\n# Fine\n\nWhat is paid.\n")


@pytest.fixture
def project(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build, work)


def installed(*args: str) -> Any:
    """Run the command as a process, whose streams take any name; return its envelope."""
    done = shared().run([*args, "--json"], folder=Path.cwd(), environ=os.environ)
    answer = json.loads(done.stdout)
    assert answer["error"] is None or answer["error"]["code"] != "internal", (args, answer["error"])
    return answer


@pytest.mark.parametrize("committed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_such_files_cost_themselves_and_are_named(git: Run, project: Path, committed: bool) -> None:
    for name, content in ODD.items():
        path = Path(os.fsdecode(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if committed:
        git(project, "add", "-A")
        git(project, "commit", "-qm", "odd")
    with sqlite3.connect(project / "shop.sqlite") as database:
        database.execute("CREATE TABLE refunds (id INTEGER PRIMARY KEY)")
    database.close()
    for args in (("search", "paid"), ("index",), ("ingest",), ("status",), ("search", "refunds")):
        answer = installed(*args)
        assert answer["ok"], answer
        (warning,) = [each for each in answer["warnings"] if each["code"] == "file_names"]
        assert NAMED in warning["paths"] and r"evals/e\xff.yaml" in warning["message"]
        assert len(warning["paths"]) == len(ODD)
        assert "definitions_not_checked" not in [each["code"] for each in answer["warnings"]]
    assert "refunds" in (project / "semantic-layer" / "warehouse" / "_schema" / "main.yaml").read_text()
    assert {name: Path(os.fsdecode(name)).read_bytes() for name in ODD} == ODD
    for args in (("wiki", "list"), ("sl", "list"), ("scan", "relationships"), ("diff",), ("lint",), ("doctor",)):
        installed(*args)


@pytest.mark.parametrize("words", ["doctor", "sl list", "sl validate"])
def test_a_definition_in_such_a_file_is_named_as_everywhere_else(words: str, project: Path) -> None:
    Path(os.fsdecode(b"semantic-layer/warehouse/s\xfe.yaml")).write_text("name: odd\ntable: orders\n")
    done = shared().run(words.split(), folder=Path.cwd(), environ=os.environ)
    assert r"semantic-layer/warehouse/s\xfe.yaml:1" in done.stdout + done.stderr
    assert "udcfe" not in done.stdout + done.stderr


def test_lint_names_a_page_that_is_none(ktx: Run, project: Path) -> None:
    Path(os.fsdecode(b"wiki/global/b\xffd.md")).write_bytes(PAGE)
    answer = ktx("wiki", "lint", "--json")
    assert answer.code == 1
    (found,) = [each for each in answer.data["findings"] if each["path"] == NAMED]
    assert found["message"] == "its name is not UTF-8, so it is not a page"


def test_the_folder_of_the_project_may_have_such_a_name(
    ktx: Run, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(os.fsdecode(os.fsencode(project.parent) + b"/proj\xff"))
    database = project.parent / "outside.sqlite"
    (project / "shop.sqlite").rename(database)
    text = (project / "ktx.yaml").read_text()
    (project / "ktx.yaml").write_text(text.replace("path: shop.sqlite", f"path: {database}"))
    project.rename(folder)
    monkeypatch.chdir(folder)
    for args in (
        ("status",),
        ("ingest",),
        ("index",),
        ("search", "paid"),
        ("usage",),
        ("sl", "list"),
        ("runs", "list"),
    ):
        assert installed(*args)["ok"], args
