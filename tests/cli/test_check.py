"""`ktx check`: all checks with one report and one exit code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import duckdb
import pytest

from tests.cli.conftest import Run
from tests.cli.envelope import check_envelope

NAMES = ["lint", "validate", "diff", "tests", "evals"]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


@pytest.fixture
def company(work: Path, demo_project: Path) -> Path:
    """Return a copy of the demo, in which the command runs."""
    shutil.copytree(demo_project, work, dirs_exist_ok=True, symlinks=True)
    return work


def statuses(answer: Any) -> dict[str, str]:
    return {each["check"]: each["status"] for each in answer.data["checks"]}


def failing(answer: Any) -> list[dict[str, Any]]:
    return [each for each in answer.data["findings"] if each["fails"]]


def plant_a_broken_link(project: Path) -> None:
    page = next(iter(sorted((project / "wiki").rglob("*.md"))))
    page.write_text(page.read_text("utf-8") + "\nSee [[no-such-page]].\n", "utf-8")


def plant_an_unknown_column(project: Path) -> None:
    path = project / "semantic-layer/warehouse/products.yaml"
    text = path.read_text("utf-8") if path.exists() else "name: products\n"
    assert "measures:" not in text
    path.write_text(text + "measures: [{name: weight, expr: sum(weight_in_kg), description: Weight.}]\n", "utf-8")


def plant_a_new_column(project: Path) -> None:
    with duckdb.connect(str(project / "warehouse.duckdb")) as database:
        database.execute("ALTER TABLE shop.tags ADD COLUMN colour VARCHAR")


def plant_a_wrong_test(project: Path) -> None:
    path = project / "semantic-layer/warehouse/refunds.yaml"
    test = "tests: [{name: no refunds, query: {measures: [refunds.refunded]}, expect: [[-1]]}]\n"
    path.write_text(path.read_text("utf-8") + test, "utf-8")


def plant_a_wrong_answer(project: Path) -> None:
    case = "  - {id: products, sql: SELECT count(*) FROM shop.products, expect: {value: -1}}\n"
    path = project / "evals/company.yaml"
    path.write_text(path.read_text("utf-8").rstrip("\n") + "\n" + case, "utf-8")


DEFECTS = {
    "lint": plant_a_broken_link,
    "validate": plant_an_unknown_column,
    "diff": plant_a_new_column,
    "tests": plant_a_wrong_test,
    "evals": plant_a_wrong_answer,
}


def test_the_demo_passes_every_check(ktx: Run, company: Path) -> None:
    answer = ktx("check", "--json")
    check_envelope(answer.out, "check", 0)
    assert statuses(answer) == dict.fromkeys(NAMES, "pass")
    assert failing(answer) == []


def test_five_planted_defects_are_five_findings(ktx: Run, company: Path) -> None:
    before = ktx("check", "--json").data["findings"]
    for plant in DEFECTS.values():
        plant(company)
    answer = ktx("check", "--json")
    check_envelope(answer.out, "check", 1)
    assert answer.envelope["error"]["code"] == "check_failed"
    found = failing(answer)
    assert len(found) == len(DEFECTS), found
    assert len(answer.data["findings"]) - len(before) == len(DEFECTS)
    codes = [(each["check"], each["code"]) for each in found]
    assert codes == [
        ("lint", "KTX201"),
        ("lint", "KTX312"),
        ("diff", "column_added"),
        ("tests", "test_failed"),
        ("evals", "eval_fail"),
    ]
    text = ktx("check")
    assert text.code == 1
    for each in found:
        place = f"{each['path']}:{each['line']}: " if each["path"] else ""
        assert f"{place}{each['code']} {each['level']}: " in text.out
    assert text.err.splitlines()[0] == "error: 5 checks failed: lint, validate, diff, tests, evals"


@pytest.mark.parametrize("name", NAMES)
def test_a_check_can_be_run_alone_and_left_out(ktx: Run, company: Path, name: str) -> None:
    assert list(statuses(ktx("check", "--only", name, "--json"))) == [name]
    DEFECTS[name](company)
    assert ktx("check", "--only", name).code == 1
    left = ["--skip", name, *(["--skip", "lint"] if name == "validate" else [])]
    assert ktx("check", *left).code == 0


def test_an_unknown_check_is_refused(ktx: Run, company: Path) -> None:
    answer = ktx("check", "--skip", "eval", "--json")
    assert (answer.code, answer.envelope["error"]["hint"]) == (2, "did you mean `evals`?")


def test_a_database_that_cannot_be_reached_keeps_no_other_check_from_running(ktx: Run, company: Path) -> None:
    (company / "warehouse.duckdb").unlink()
    answer = ktx("check", "--json")
    assert answer.code == 7
    assert statuses(answer) == {"lint": "pass", **dict.fromkeys(NAMES[1:], "error")}
    assert all(each["error"]["code"] for each in answer.data["checks"][1:])
    plant_a_broken_link(company)
    assert ktx("check").code == 1
    alone = ktx("check", "--only", "tests", "--json")
    assert alone.code == 4


def test_a_report_for_ci(ktx: Run, company: Path) -> None:
    plant_a_broken_link(company)
    answer = ktx("check", "--github", "--junit", "ktx.xml")
    assert answer.code == 1
    assert "::warning file=" in answer.err or "::error file=" in answer.err
    suite = ElementTree.parse(company / "ktx.xml").getroot()
    assert suite.get("failures") == "1"
    assert ktx("check", "--junit", "ktx.yaml").code == 2


def test_quiet_prints_nothing_where_all_is_well(ktx: Run, company: Path) -> None:
    answer = ktx("check", "--quiet")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
