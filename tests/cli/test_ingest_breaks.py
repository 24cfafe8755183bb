"""A run after which definitions do not compile says so, and so do later runs and `ktx status`, until they do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agents import git

Run = Callable[..., Any]

LAYER = """\
name: Invoice
measures:
  - name: revenue
    expr: sum(Total)
  - name: orders
    expr: count(*)
  - name: average
    expr: revenue / orders
  - name: large
    expr: count(*)
    segments: [big]
  - name: wrong
    expr: sum(Totals)
segments:
  - name: big
    expr: Total > 10
"""
FILE = "semantic-layer/chinook/Invoice.yaml"
BROKEN = [
    ("measure", "Invoice.revenue", 3),
    ("measure", "Invoice.average", 7),
    ("measure", "Invoice.large", 9),
    ("segment", "Invoice.big", 15),
]
SAID = f"3 measures and 1 segment no longer compile: Invoice.revenue ({FILE}:3), Invoice.average ({FILE}:7), "
HINT = f"edit {FILE}; to see the errors, run: ktx sl validate --no-data -c chinook"


@pytest.fixture
def project(ktx: Run, work: Path) -> Path:
    """A scanned database with measures, one of which never compiled."""
    change(work, "CREATE TABLE Invoice (InvoiceId INTEGER PRIMARY KEY, Total NUMERIC(10,2))")
    change(work, "CREATE TABLE Customer (CustomerId INTEGER PRIMARY KEY, Country TEXT)")
    setup = ("setup", "--no-input", "--database", "sqlite", "--database-path", "chinook.sqlite")
    assert ktx(*setup, "--database-connection-id", "chinook").code == 0
    assert ktx("ingest").code == 0
    (work / FILE).write_text(LAYER)
    git(work, "add", "-A")
    git(work, "-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "measures")
    return work


def change(project: Path, statement: str) -> None:
    with sqlite3.connect(project / "chinook.sqlite") as database:
        database.execute(statement)
    database.close()


def rename(project: Path) -> None:
    change(project, "ALTER TABLE Invoice RENAME COLUMN Total TO GrandTotal")


def semantic(ktx: Run) -> tuple[str, str]:
    status = ktx("status", "--json")
    assert status.code == 0
    (found,) = [each for each in status.data["checks"] if each["check"] == "semantic"]
    return found["level"], found["message"]


def test_the_run_that_breaks_them_ends_with_7_and_names_them(ktx: Run, project: Path) -> None:
    assert semantic(ktx) == ("warn", f"1 measure does not compile: Invoice.wrong ({FILE}:12)")
    rename(project)
    dry = ktx("ingest", "--dry-run", "--json")
    assert [each["message"][: len(SAID)] for each in dry.envelope["warnings"]][:1] == [SAID]
    answer = ktx("ingest", "--json")
    assert answer.code == 7 and answer.data["status"] == "partial" and answer.data["commit"]
    found = [(each["kind"], each["name"], each["line"]) for each in answer.data["broken"]]
    assert found == BROKEN
    error = answer.envelope["error"]
    assert error["message"].startswith(SAID) and error["hint"] == HINT
    assert error["details"]["broken"] == answer.data["broken"]
    for _ in range(2):
        later = ktx("ingest", "--json")
        assert (later.code, later.data["status"], later.data["broken"]) == (0, "unchanged", [])
        (warning,) = [each for each in later.envelope["warnings"] if each["code"] == "broken_definitions"]
        assert warning["message"].startswith("4 measures and 1 segment do not compile: Invoice.revenue")
        assert len(warning["definitions"]) == 5
    assert semantic(ktx)[1].startswith("4 measures and 1 segment do not compile: Invoice.revenue")
    (project / FILE).write_text(
        LAYER.replace("Totals", "GrandTotal").replace("Total)", "GrandTotal)", 1).replace("Total >", "GrandTotal >")
    )
    assert semantic(ktx) == ("ok", "the definitions have no errors")
    fixed = ktx("ingest", "--json")
    assert (fixed.code, [each["code"] for each in fixed.envelope["warnings"]]) == (0, [])


def test_uncommitted_definitions_count_and_those_that_never_compiled_do_not(ktx: Run, project: Path) -> None:
    more = "  - name: mean\n    expr: avg(Total)\n  - name: wrong_too\n    expr: avg(Totals)\nsegments:"
    (project / FILE).write_text(LAYER.replace("segments:\n  - name: big", f"{more}\n  - name: big"))
    other = "semantic-layer/chinook/Customer.yaml"
    (project / other).write_text("name: Customer\nmeasures:\n  - name: countries\n    expr: count(distinct Country)\n")
    rename(project)
    change(project, "ALTER TABLE Customer RENAME COLUMN Country TO Land")
    names = ["Customer.countries", "Invoice.revenue", "Invoice.average", "Invoice.large", "Invoice.mean", "Invoice.big"]
    dry = ktx("ingest", "--dry-run", "--json")
    assert [each["name"] for each in dry.envelope["warnings"][0]["definitions"]] == names
    answer = ktx("ingest", "--no-input", "-q", "--json")
    assert answer.code == 7
    assert git(project, "status", "-s", "semantic-layer").splitlines() == [f" M {FILE}", f"?? {other}"]
    assert [each["name"] for each in answer.data["broken"]] == names
    assert f"Invoice.mean ({FILE}:14)" in answer.envelope["error"]["message"]
    later = ktx("ingest", "--json")
    assert (later.code, later.data["broken"]) == (0, [])


def test_a_table_that_goes_takes_the_measures_of_its_source_along(ktx: Run, project: Path) -> None:
    change(project, "DROP TABLE Invoice")
    answer = ktx("ingest", "--json")
    assert answer.code == 7
    assert {each["name"] for each in answer.data["broken"]} == {
        "Invoice.revenue", "Invoice.orders", "Invoice.average", "Invoice.large", "Invoice.big",
    }  # fmt: skip


def test_what_breaks_nothing_ends_with_0(ktx: Run, project: Path) -> None:
    change(project, "ALTER TABLE Customer RENAME COLUMN Country TO Land")
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.data["broken"], answer.data["status"]) == (0, [], "done")


def test_a_question_that_the_database_no_longer_answers_names_the_way_to_what_changed(ktx: Run, project: Path) -> None:
    rename(project)
    error = ktx("sl", "query", "-m", "Invoice.revenue", "--json").envelope["error"]
    assert (error["code"], "Total" in error["message"]) == ("query", True)
    assert "run `ktx diff chinook` to see what changed in the database" in error["hint"]


def test_diff_names_what_to_edit_before_the_run(ktx: Run, project: Path) -> None:
    rename(project)
    error = ktx("diff", "--json").envelope["error"]
    assert f"measure Invoice.revenue ({FILE}:3)" in error["hint"]
    assert error["hint"].startswith("edit ") and error["hint"].endswith("; then: ktx ingest chinook")
    change(project, "ALTER TABLE Invoice RENAME COLUMN GrandTotal TO Total")
    change(project, "ALTER TABLE Customer RENAME COLUMN Country TO Land")
    assert ktx("diff", "--json").envelope["error"]["hint"] == "ktx ingest chinook"
