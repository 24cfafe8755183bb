"""`ktx eval` on the command line: what it prints and how it ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ktx_cli.testing.model_script import UNAUTHORIZED, Call, ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer

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
    assert [line[:2] for line in lines[1:4]] == [
        ["shop/people", "pass"],
        ["shop/countries", "pass"],
        ["shop/names", "new"],
    ]
    assert answer.out.splitlines()[4] == "evals/shop.yaml:11: eval_new info: shop/names: 2 rows"
    assert answer.out.splitlines()[5:9] == ["shop/names: the answer", "name", "Ada", "Grace"]
    assert "evals: 2 passed, 1 new\n" in answer.out
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
    assert "shop/countries: 2 rows missing, 1 unexpected row" in answer.out
    assert "is\tcountry\tpeople\nexpected\tNO\t1\nexpected\tSE\t1\ngot\tNO\t2\n" in answer.out
    assert "error: 1 of 3 evals did not pass: 1 regressed\n" in answer.err
    assert "hint: ktx eval shop/countries --verbose\n" in answer.err
    assert (
        "::error file=evals/shop.yaml,line=6,title=ktx eval%3A shop/countries (regress)::"
        "2 rows missing, 1 unexpected row\n"
    ) in answer.err
    (suite,) = ElementTree.parse(evals / "out" / "report.xml").getroot()
    assert [(case.get("classname"), case.get("name"), [each.tag for each in case]) for case in suite] == [
        ("evals.shop", "people", []),
        ("evals.shop", "countries", ["failure"]),
        ("evals.shop", "names", ["skipped"]),
    ]
    assert suite[1][0].text == '- ["NO", 1]\n- ["SE", 1]\n+ ["NO", 2]'


def test_a_query_that_differs_from_its_sql_is_shown_with_both_receipts(ktx: Run, evals: Path) -> None:
    layer = evals / "semantic-layer" / "warehouse"
    layer.mkdir(parents=True, exist_ok=True)
    (layer / "customers.yaml").write_text(
        "name: customers\ntable: customers\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
    )
    case = (
        "{id: both, query: {measures: [count(customers) as people]}, sql: SELECT count(*) + 1 AS people FROM customers}"
    )
    (evals / "evals" / "shop.yaml").write_text(f"cases:\n  - {case}\n")
    answer = ktx("eval", "--plain")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert "shop/both: the query and the SQL differ: 1 row only in the SQL, 1 row only in the query" in lines
    assert "is\tpeople\nsql\t3\nquery\t2\n" in answer.out
    query, sql = lines.index("shop/both: receipt of the query"), lines.index("shop/both: receipt of the SQL")
    assert lines[query + 1] == "fact customers, 2 rows: COUNT(customers)" and "  SELECT" in lines[query:sql]
    assert "1 AS people" in " ".join(lines[sql:])


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
        "message": "expected 2, got 1",
        "expected": {"value": 2},
        "answer": {"columns": ["people"], "rows": [[1]], "row_count": 1},
        "difference": {"message": "expected 2, got 1", "columns": ["people"], "missing": [[2]], "unexpected": [[1]]},
        "question": "How many customers do we have?",
    }
    assert (answer.data["tokens"], answer.data["cost_usd"], answer.data["saved"]) == (0, 0, True)


def test_annotations_name_files_from_the_top_of_the_repository(ktx: Run, evals: Path, git: Callable[..., str]) -> None:
    git(evals.parent, "init", "--quiet")
    change(evals, "DELETE FROM customers WHERE id = 2")
    answer = ktx("eval", "people", "--github")
    assert (
        "::error file=work/evals/shop.yaml,line=2,title=ktx eval%3A shop/people (fail)::expected 2, got 1" in answer.err
    )


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
    assert "warning: evals/*.yaml contains no cases" in answer.err
    assert not (evals / ".ktx").exists()


SOURCE = """\
name: customers
table: customers
grain: [id]
columns: [{name: id, type: number}, {name: country, type: string}]
measures: [{name: people, expr: count(*), description: How many customers we have.}]
"""
ASKED = """\
cases:
  - id: in-words
    question: How many customers are there by country?
    ask: true
    expect:
      - {country: SE, people: 1}
      - {country: NO, people: 1}
"""
BY_COUNTRY = {"measures": ["customers.people"], "dimensions": ["customers.country"], "order_by": ["country"]}


@pytest.fixture
def asked(evals: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project with a semantic layer, a case in words and a model to ask."""
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    with (evals / "ktx.yaml").open("a") as stream:
        stream.write(
            "llm:\n  provider:\n    backend: anthropic\n"
            f"    anthropic: {{base_url: '{model_server.url}', api_key: 'env:SCRIPTED_KEY'}}\n"
            "  models: {default: claude-sonnet-5-5}\n"
        )
    (evals / "semantic-layer" / "warehouse").mkdir(parents=True)
    (evals / "semantic-layer" / "warehouse" / "customers.yaml").write_text(SOURCE)
    (evals / "evals" / "shop.yaml").write_text(ASKED)
    return evals


def query(asked: Any) -> Call:
    return Call("sl_query", {"query": asked})


def test_a_question_in_words_is_judged_by_the_last_query_of_the_model(
    ktx: Run, asked: Path, model_server: ModelServer
) -> None:
    seen: list[ModelRequest] = []
    turns = [
        calls(Call("sl_discover", {"query": "customers"})),
        calls(query({"measures": ["customers.revenue"]})),
        calls(query({"measures": ["customers.people"]})),
        calls(query(BY_COUNTRY)),
        says("The customers by country."),
    ]

    def play(request: ModelRequest) -> Reply:
        seen.append(request)
        return turns[len(seen) - 1]

    model_server.play(play)
    answer = ktx("eval", "--json")
    assert answer.code == 0, answer
    (case,) = answer.data["cases"]
    assert (case["status"], case["kind"], case["query"]) == ("pass", "ask", BY_COUNTRY)
    assert case["model"]["tokens"] == answer.data["tokens"] == 5 * 120
    assert case["model"]["cost_usd"] == answer.data["cost_usd"] > 0
    assert "How many customers are there by country?" in seen[0].words
    assert seen[0].tool_names == [
        *("discover_data", "entity_details", "sl_discover", "sl_query"),
        *("sl_read_source", "wiki_read", "wiki_search"),
    ]
    results = [result for request in seen[1:] for result in request.tool_results()]
    assert results[1][1] and "customers.people" in results[1][0], "a refusal says what there is"
    assert results[3] == ("The query returned 2 rows with the columns country, people. ktx keeps this result.", False)
    assert not any(value in request.words for request in seen for value in ("Ada", "Grace"))
    assert [row["total_tokens"] for row in ktx("usage", "--by", "command", "--json").data["rows"]] == [5 * 120]


def test_a_wrong_query_of_the_model_is_shown(ktx: Run, asked: Path, model_server: ModelServer) -> None:
    played = [calls(query({"measures": ["customers.people"]})), says("All of them.")]
    model_server.play(played)
    answer = ktx("eval", "--plain")
    assert answer.code == 1
    assert "expected the columns country, people, got people" in answer.out
    assert 'shop/in-words: query written by the model: {"measures": ["customers.people"]}' in answer.out
    assert "model usage: 240 tokens, $" in answer.out


def test_a_model_that_asks_nothing_is_an_error_of_the_case(ktx: Run, asked: Path, model_server: ModelServer) -> None:
    model_server.play([says("Nothing answers it.")])
    answer = ktx("eval", "--json")
    assert (answer.code, answer.data["cases"][0]["error"]["code"]) == (1, "max_turns")
    assert answer.data["cases"][0]["model"]["tokens"] == 120


def test_a_model_that_cannot_be_asked_ends_the_command_with_its_code(
    ktx: Run, asked: Path, model_server: ModelServer
) -> None:
    model_server.play(lambda request: UNAUTHORIZED)
    answer = ktx("eval", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")


def test_without_a_backend_questions_in_words_are_skipped(ktx: Run, asked: Path) -> None:
    text = (asked / "ktx.yaml").read_text()
    (asked / "ktx.yaml").write_text(text.partition("llm:")[0])
    answer = ktx("eval", "--plain")
    assert answer.code == 0
    assert "shop/in-words\tskip\t" in answer.out and "no model backend is configured" in answer.out


def test_a_value_is_no_line_of_its_own(ktx: Run, evals: Path) -> None:
    """What a database holds cannot speak to a terminal, or to GitHub, in its place."""
    sql = "SELECT char(27) || '[31m' || char(10) || '::error::x' AS v"
    (evals / "evals" / "shop.yaml").write_text(f'cases:\n  - {{id: a, sql: "{sql}", expect: {{value: 1}}}}\n')
    answer = ktx("eval", "--plain", "--github")
    assert answer.code == 1
    assert "\x1b" not in answer.out + answer.err
    assert [line for line in answer.err.splitlines() if line.startswith("::")][1:] == []
    assert not [line for line in answer.out.splitlines() if line.lstrip().startswith("::")]
