"""`ktx eval` on the command line: what it prints and how it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

Run = Callable[..., Any]

EVALS = """\
cases:
  - id: people
    question: How many customers do we have?
    sql: SELECT count(*) AS people FROM customers
    expect: {value: 2}
  - id: countries
    sql: SELECT country, count(*) AS people FROM customers GROUP BY 1
    expect:
      - {country: NO, people: 1}
      - {country: SE, people: 1}
  - id: names
    sql: SELECT name FROM customers ORDER BY name
"""


@pytest.fixture
def evals(shop: Path) -> Path:
    """A project over the shop with two golden questions that pass and one without an answer."""
    folder = shop.parent
    (folder / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")
    (folder / "evals").mkdir()
    (folder / "evals" / "shop.yaml").write_text(EVALS)
    return folder


def change(folder: Path, *statements: str) -> None:
    with sqlite3.connect(folder / "shop.sqlite") as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def test_what_passes_and_what_is_new(ktx: Run, evals: Path) -> None:
    answer = ktx("eval", "--plain")
    assert answer.code == 0
    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [(line[0], line[1], line[3]) for line in lines[1:4]] == [
        ("shop/people", "pass", ""),
        ("shop/countries", "pass", ""),
        ("shop/names", "new", "2 rows"),
    ]
    assert answer.out.splitlines()[4:8] == ["shop/names: the answer", "name", "Ada", "Grace"]
    assert "evals: 2 pass, 1 new\n" in answer.out
    assert "next: ktx eval shop/names --accept\n" in answer.err


def test_the_next_step_accepts_and_then_there_is_none(ktx: Run, evals: Path) -> None:
    accepted = ktx("eval", "shop/names", "--accept")
    assert (accepted.code, accepted.err) == (0, "")
    assert "accepted: 2 rows" in accepted.out
    text = (evals / "evals" / "shop.yaml").read_text()
    assert text == EVALS + "    expect:\n      - name: Ada\n      - name: Grace\n"
    assert ktx("eval", "--json").data["counts"]["pass"] == 3


def test_a_regression_in_every_form(ktx: Run, evals: Path, git: Callable[..., str]) -> None:
    assert ktx("eval").code == 0
    change(evals, "UPDATE customers SET country = 'NO'")
    answer = ktx("eval", "--plain", "--github", "--junit", "out/report.xml")
    assert answer.code == 1
    assert "shop/countries: 2 rows missing, 1 row not expected" in answer.out
    assert "is\tcountry\tpeople\nexpected\tNO\t1\nexpected\tSE\t1\ngot\tNO\t2\n" in answer.out
    assert "error: 1 of 3 evals did not come out as expected: 1 regressed\n" in answer.err
    assert "hint: ktx eval shop/countries --verbose\n" in answer.err
    assert (
        "::error file=evals/shop.yaml,line=6,title=ktx eval%3A shop/countries (regress)::"
        "2 rows missing, 1 row not expected\n"
    ) in answer.err
    (suite,) = ElementTree.parse(evals / "out" / "report.xml").getroot()
    assert [(case.get("classname"), case.get("name"), [each.tag for each in case]) for case in suite] == [
        ("evals.shop", "people", []),
        ("evals.shop", "countries", ["failure"]),
        ("evals.shop", "names", ["skipped"]),
    ]
    assert suite[1][0].text == '- ["NO", 1]\n- ["SE", 1]\n+ ["NO", 2]'


def test_the_envelope(ktx: Run, evals: Path) -> None:
    change(evals, "DELETE FROM customers WHERE id = 2")
    answer = ktx("eval", "people", "--json")
    assert (answer.code, answer.err) == (1, "")
    assert answer.envelope["schema"] == "ktx/eval/v1"
    assert answer.envelope["error"]["code"] == "evals_failed"
    (case,) = answer.data["cases"]
    told = {key: case[key] for key in ("name", "status", "message", "expected", "answer", "difference", "question")}
    assert told == {
        "name": "shop/people",
        "status": "fail",
        "message": "2 expected, got 1",
        "expected": {"value": 2},
        "answer": {"columns": ["people"], "rows": [[1]], "row_count": 1},
        "difference": {
            "message": "2 expected, got 1",
            "columns": ["people"],
            "missing": [[2]],
            "unexpected": [[1]],
        },
        "question": "How many customers do we have?",
    }
    assert (answer.data["tokens"], answer.data["cost_usd"], answer.data["saved"]) == (0, 0, True)


def test_annotations_name_files_from_the_top_of_the_repository(ktx: Run, evals: Path, git: Callable[..., str]) -> None:
    git(evals.parent, "init", "--quiet")
    change(evals, "DELETE FROM customers WHERE id = 2")
    answer = ktx("eval", "people", "--github")
    assert "::error file=work/evals/shop.yaml,line=2,title=ktx eval%3A shop/people (fail)::2 expected" in answer.err


def test_long_answers_are_drawn_in_part_without_verbose(ktx: Run, evals: Path) -> None:
    change(evals, *(f"INSERT INTO customers VALUES ({number}, 'x{number}', 'NO')" for number in range(10, 25)))
    short, long = ktx("eval", "names", "--plain"), ktx("eval", "names", "--plain", "--verbose")
    assert "shop/names: the first 10 of 17 rows\n" in short.out and "x24" not in short.out
    assert "shop/names: the answer\n" in long.out and "x24" in long.out


def test_a_broken_file_and_an_unknown_name_are_usage(ktx: Run, evals: Path) -> None:
    unknown = ktx("eval", "shop/peple")
    assert (unknown.code, unknown.err) == (2, "error: there is no eval `shop/peple`\nhint: ktx eval shop/people\n")
    (evals / "evals" / "shop.yaml").write_text("cases:\n  - id: [\n")
    broken = ktx("eval", "--json")
    assert (broken.code, broken.envelope["error"]["code"]) == (2, "config")


def test_without_evals_it_says_so_and_ends_well(ktx: Run, evals: Path) -> None:
    (evals / "evals" / "shop.yaml").unlink()
    answer = ktx("eval", "--plain")
    assert (answer.code, answer.out.splitlines()[0]) == (0, "evals: none")
    assert "warning: there are no cases in evals/*.yaml" in answer.err
    assert not (evals / ".ktx").exists()
