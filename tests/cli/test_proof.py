"""`ktx proof` on the command line: arms, figures, replay, conditions, going on."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import StorageError
from ktx_cli.testing.model_script import UNAUTHORIZED, Call, ModelRequest, Reply, Turn, calls, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import backends, entered
from tests.cli.conftest import KTX

Run = Callable[..., Any]

SOURCE = """\
name: customers
table: customers
grain: [id]
columns: [{name: id, type: number}, {name: country, type: string}]
measures:
  - {name: people, expr: count(*), filter: "country = 'NO'", description: How many customers we have.}
"""
EVALS = """\
cases:
  - id: customers
    question: How many customers do we have?
    sql: SELECT count(*) AS n FROM customers WHERE country = 'NO'
    expect: {value: 1}
  - id: countries
    question: How many customers are there by country?
    sql: SELECT country, count(*) AS people FROM customers GROUP BY 1
  - id: silent
    sql: SELECT 1
"""


@pytest.fixture
def proven(shop: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a measure that knows what a customer is, two questions, and a model that believes its tools."""
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    folder = shop.parent
    (folder / "ktx.yaml").write_text(
        "connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n"
        "llm:\n  provider:\n    backend: anthropic\n"
        f"    anthropic: {{base_url: '{model_server.url}', api_key: 'env:SCRIPTED_KEY'}}\n"
        "  models: {default: claude-sonnet-5-5}\n"
    )
    (folder / "evals").mkdir()
    (folder / "evals" / "shop.yaml").write_text(EVALS)
    (folder / "semantic-layer" / "warehouse").mkdir(parents=True)
    (folder / "semantic-layer" / "warehouse" / "customers.yaml").write_text(SOURCE)
    model_server.play(believer)
    return folder


def believer(request: ModelRequest) -> Reply:
    """Answer with the measure where there is one, and else with the obvious SQL."""
    if not request.tool_names:
        return says("ok")
    turn = sum(message["role"] == "assistant" for message in request.body["messages"])
    by_country = "by country" in request.words
    if not turn and "sl_query" in request.tool_names and not by_country:
        return calls(Call("sl_query", {"measures": ["customers.people"]}))
    if not turn:
        sql = "SELECT country, count(*) FROM customers GROUP BY 1" if by_country else "SELECT count(*) FROM customers"
        return calls(Call("sql_execution", {"sql": sql}))
    if turn == 1:
        return calls(Call("answer", {"result": "r1"}))
    return says("done")


def test_the_arms_are_asked_the_same_and_compared(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    answer = ktx("proof", "--runs", "2", "--json")
    assert answer.code == 0, answer
    data = answer.data
    schema, context = data["arms"]
    assert (schema["arm"], schema["outcomes"]) == ("schema", {"right": 2, "wrong": 2, "no_answer": 0, "error": 0})
    assert (context["arm"], context["outcomes"]) == ("context", {"right": 4, "wrong": 0, "no_answer": 0, "error": 0})
    found = data["comparison"]
    assert (found["lift"]["estimate"], found["test"]) == (0.5, {"better": 1, "worse": 0, "p": 1.0})
    assert schema["silently_wrong"]["estimate"] == 0.5
    assert [warning["code"] for warning in answer.envelope["warnings"]] == []
    first = [request for request in model_server.model_calls if "How many customers do we have?" in request.words]
    prompts = {tuple(request.tool_names): request.system.partition("{{")[0].partition("\n\n")[0] for request in first}
    assert len(set(prompts.values())) == 1, "all arms have the same prompt, but for what it says of the tools"
    offered = {("sl_query" in names): set(names) for names in prompts}
    assert offered[False] == {"answer", "database_schema", "sql_execution"}
    assert {"discover_data", "context_read", "answer"} <= offered[True]
    assert not {"memory_ingest", "ingest_start"} & offered[True], "an arm changes nothing"
    runs = ktx("runs", "list", "--json").data["runs"]
    assert [(run["command"], run["status"], run["commit"]) for run in runs] == [("ktx proof", "done", None)]


MEASURE = "measure:customers.people"
QUERY = {"connection": "warehouse", "measures": ["customers.people"]}
OBVIOUS = "SELECT count(*) FROM customers"
ASKED = (
    # arm, outcome, tokens, tool calls, turns, statement, rows, artifacts that its tools showed
    ("context", "right", 360, 2, 3, QUERY, [[1]], [MEASURE, "source:customers"]),
    ("schema", "wrong", 360, 2, 3, OBVIOUS, [[2]], []),
    (f"without:{MEASURE}", "wrong", 480, 3, 4, OBVIOUS, [[2]], [MEASURE, "source:customers"]),
)
"""What every backend answers, by arm: the same calls of the same tools, and the same rows."""


def doubter(request: ModelRequest) -> Reply:
    """Ask for the measure first where measures can be asked for, and write SQL where there is no such measure."""
    if "The question:" not in request.words:
        return says("ok")
    said = json.dumps(request.body["messages"]).replace("\\", "")
    if "The answer is recorded" in said:
        return says("done")
    if re.search(r"result\W+r1\b", said):
        return calls(Call("answer", {"result": "r1"}))
    is_first = "sl_query" in request.words and "there is no measure" not in said
    return calls(Call("sl_query", QUERY) if is_first else Call("sql_execution", {"sql": OBVIOUS}))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", backends("anthropic"))
def test_every_backend_gives_the_same_answers_in_the_same_arms(
    ktx: Run, proven: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    settings = (proven / "ktx.yaml").read_text()
    (proven / "ktx.yaml").write_text(settings.replace("backend: anthropic", f"backend: {backend}"))
    model_server.play(doubter)
    with entered(backend, model_server, monkeypatch):
        answer = ktx("proof", "customers", "--runs", "1", "--ablate", "customers.people", "--json")
    data = answer.data
    (question,) = data["questions"]
    words = {arm: one["word"] for arm, (one,) in question["outcomes"].items()}
    attempts = {each["arm"]: each for each in _attempts(proven, data["run_id"])}
    keys = ("calls", "steps", "statement", "rows", "shown")
    found = [
        (arm, words[arm], attempts[arm]["usage"]["total_tokens"], *(attempts[arm][key] for key in keys))
        for arm in sorted(words)
    ]
    assert found == [*ASKED]
    assert data["model"] == f"{backend}:claude-sonnet-5-5"
    replayed = ktx("proof", "--replay", data["run_id"], "--json")
    assert (replayed.code, replayed.data) == (0, data)


def test_an_agent_sees_nothing_of_what_is_expected(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    case = "{id: n, question: How many customers do we have?, sql: SELECT 1 AS secret_query, expect: {value: 987654}}"
    (proven / "evals" / "shop.yaml").write_text(f"cases: [{case}]\n")
    seen: list[str] = []

    def curious(request: ModelRequest) -> Reply:
        seen.append(request.words)
        turn = sum(message["role"] == "assistant" for message in request.body["messages"])
        looks = [Call("discover_data", {"query": "expected value secret query evals customers", "limit": 50})]
        looks += [Call("context_status", {}), *(Call("context_read", {"id": each}) for each in ("customers", "evals"))]
        return calls(*looks) if turn == 0 and "discover_data" in request.tool_names else says("done")

    model_server.play(curious)
    assert ktx("proof", "--runs", "1").code == 0
    assert len(seen) > 3 and not any(hidden in words for words in seen for hidden in ("987654", "secret_query"))


def test_a_recorded_proof_is_scored_again_byte_for_byte(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    before = _files(proven)
    first = ktx("proof", "--plain", "--runs", "1", "--markdown", "one.md")
    assert first.code == 0, first
    model_server.play(())
    (proven / "shop.sqlite").unlink()
    again = ktx("proof", "--replay", "latest", "--plain", "--markdown", "two.md")
    assert (again.code, again.out) == (0, first.out)
    assert (proven / "one.md").read_bytes() == (proven / "two.md").read_bytes()
    documents = [ktx("proof", "--replay", "latest", "--json").out for _ in range(2)]
    assert documents[0] == documents[1]
    assert {path: text for path, text in _files(proven).items() if path in before and path != "shop.sqlite"} == {
        path: text for path, text in before.items() if path != "shop.sqlite"
    }, "nothing of the project changes"


def test_only_a_recorded_proof_can_be_scored_again(ktx: Run, proven: Path) -> None:
    missing = ktx("proof", "--replay", "latest", "--json")
    assert (missing.code, missing.envelope["error"]["message"]) == (2, "this project has no runs yet")
    assert missing.envelope["error"]["hint"] == "ktx proof"
    run = ktx("proof", "--runs", "1", "--no-baseline", "customers", "--json").data["run_id"]
    plan = proven / ".ktx" / "runs" / run / "proof.json"
    text = plan.read_text()
    plan.write_text(text.replace('"format": 1', '"format": 0'))
    assert "recorded in an incompatible format" in ktx("proof", "--replay", run).err
    plan.unlink()
    assert "is not a proof, or its records were deleted" in ktx("proof", "--replay", run).err


def test_a_readme_keeps_what_people_wrote(ktx: Run, proven: Path) -> None:
    readme = proven / "README.md"
    readme.write_text("# Shop\n")
    answer = ktx("proof", "--markdown", "README.md", "--json")
    assert (answer.code, readme.read_text()) == (2, "# Shop\n"), "checked before anything is asked"
    assert "<!-- ktx proof -->" in answer.envelope["error"]["hint"]
    readme.write_text("# Shop\n\n<!-- ktx proof -->\n<!-- end of ktx proof -->\n\nThe end.\n")
    for _ in range(2):
        assert ktx("proof", "--runs", "1", "--markdown", "README.md").code == 0
        text = readme.read_text()
        assert text.startswith("# Shop\n\n<!-- ktx proof -->\n") and text.endswith("proof -->\n\nThe end.\n")
        assert text.count("| context |") == 1


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files of a project without what is ktx's own."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and ".ktx" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_the_transcript_of_an_attempt_can_be_read(ktx: Run, proven: Path) -> None:
    run = ktx("proof", "--runs", "1", "--no-baseline", "--json").data["run_id"]
    shown = ktx("runs", "show", run, "--transcript", "proof:context/shop/customers#1")
    assert shown.code == 0 and "sl_query" in shown.out and "answer" in shown.out
    assert ktx("runs", "show", run).code == 0


def test_a_budget_ends_a_proof_with_what_it_has(ktx: Run, proven: Path) -> None:
    cut = ktx("proof", "--runs", "2", "--max-tokens", "800", "--json")
    assert (cut.code, cut.envelope["error"]["code"], cut.data["status"]) == (5, "budget", "stopped")
    assert cut.data["missing"] > 0
    again = ktx("proof", "--replay", cut.data["run_id"], "--json")
    assert again.data == cut.data
    assert ktx("proof", "--runs", "2", "--json").data["missing"] == 0


def test_a_database_that_cannot_be_reached_is_no_answer_of_the_agent(
    ktx: Run, proven: Path, model_server: ModelServer
) -> None:
    (proven / "evals" / "shop.yaml").write_text(
        "cases: [{id: n, question: How many?, sql: SELECT 1, expect: {value: 2}}]"
    )

    def moving(request: ModelRequest) -> Reply:
        (proven / "shop.sqlite").unlink(missing_ok=True)
        return believer(request)

    model_server.play(moving)
    answer = ktx("proof", "--runs", "1", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (1, "proof_failed")
    assert "no attempt of the arm `schema` finished" in answer.envelope["error"]["message"]
    assert [arm["outcomes"]["error"] for arm in answer.data["arms"]] == [1, 1]
    assert [arm["tokens"]["total_tokens"] > 0 for arm in answer.data["arms"]] == [True, True]
    paid = len(model_server.model_calls)
    answer = ktx("proof", "--runs", "1", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (4, "connection")
    assert len(model_server.model_calls) == paid, "that is known before a model is asked"


def test_an_interrupted_proof_goes_on_and_pays_nothing_twice(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    asked: list[ModelRequest] = []

    def limited(request: ModelRequest) -> Reply:
        asked.append(request)
        return believer(request) if len(asked) < 9 else UNAUTHORIZED

    model_server.play(limited)
    cut = ktx("proof", "--runs", "2", "--json")
    assert (cut.code, cut.envelope["error"]["code"]) == (3, "auth")
    done = _attempts(proven, cut.data["run_id"])
    assert done
    model_server.play(believer)
    paid = len(model_server.model_calls)
    whole = ktx("proof", "--runs", "2", "--json")
    assert whole.code == 0, whole
    turns = len(model_server.model_calls) - paid
    assert sum(arm["runs"] for arm in whole.data["arms"]) == 8
    assert turns <= 1 + 8 * 3 - 3 * len(done), "finished attempts are not asked again"
    usage = [each["usage"]["total_tokens"] for each in _attempts(proven, whole.data["run_id"])]
    assert usage == [360] * 8, "what was paid before the interruption counts, too"
    paid = len(model_server.model_calls)
    assert ktx("proof", "--runs", "2", "--json").code == 0
    assert len(model_server.model_calls) - paid >= 8 * 3, "a proof that is done is asked anew"


def test_a_proof_that_ends_before_it_is_recorded_as_done_pays_nothing_twice(
    ktx: Run, proven: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*facts: Any) -> None:
        raise StorageError("the disk is full", hint="make room")

    with monkeypatch.context() as patched:
        patched.setattr("ktx_cli.jobs.proof.run.finish_run", full)
        assert ktx("proof", "--runs", "1", "--json").envelope["error"]["message"] == "the disk is full"
    paid = len(model_server.model_calls)
    assert paid >= 4 * 3
    whole = ktx("proof", "--runs", "1", "--json")
    assert (whole.code, sum(arm["runs"] for arm in whole.data["arms"])) == (0, 4), whole
    assert len(model_server.model_calls) - paid <= 1


@pytest.mark.slow
def test_a_killed_proof_goes_on(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    reached, asked = threading.Event(), []

    def hanging(request: ModelRequest) -> Reply:
        asked.append(request)
        if len(asked) < 12:
            return believer(request)
        reached.set()
        return Turn(forever=True)

    model_server.play(hanging)
    with subprocess.Popen([KTX, "proof", "--runs", "2", "--quiet"], cwd=proven, env=os.environ) as process:
        assert reached.wait(30)
        process.kill()
    (killed,) = ktx("runs", "list", "--json").data["runs"]
    assert killed["status"] == "killed"
    done = _attempts(proven, killed["run_id"])
    assert done
    partial = ktx("proof", "--replay", "latest", "--json").data
    assert sum(arm["runs"] for arm in partial["arms"]) == len(done)
    model_server.play(believer)
    paid = len(model_server.model_calls)
    whole = ktx("proof", "--runs", "2", "--json")
    assert whole.code == 0, whole
    assert (sum(arm["runs"] for arm in whole.data["arms"]), whole.data["missing"]) == (8, 0)
    assert len(model_server.model_calls) - paid <= 8 * 3 - 3 * len(done) + 1
    again = [each for each in _attempts(proven, whole.data["run_id"]) if each["transcript_of"] == killed["run_id"]]
    assert sorted(map(repr, again)) == sorted(map(repr, done)), "with their answers and what they took"


def _attempts(folder: Path, run: str) -> list[dict[str, Any]]:
    lines = (folder / ".ktx" / "runs" / run / "answers.jsonl").read_text().splitlines()
    return [{name: each for name, each in json.loads(line).items() if name != "at"} for line in lines]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--require-lift", "0.1"), 1),
        (("--require-lift", "-0.9"), 0),
        (("--max-harm", "0"), 0),
        (("--max-harm", "0", "--no-baseline"), 1),
    ],
)
def test_conditions_decide_the_exit_code(ktx: Run, proven: Path, words: tuple[str, ...], code: int) -> None:
    assert ktx("proof", "--runs", "1", *words).code == code


def test_a_dry_run_estimates_by_the_newest_proof(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    plan = ktx("proof", "--dry-run", "--ablate", "all", "--json").data
    assert (plan["attempts"], plan["most_ablated"], plan["tokens"], plan["cost_usd"]) == (12, 6, None, None)
    assert not model_server.model_calls
    assert not (proven / ".ktx").exists()
    made = ktx("proof", "--runs", "1", "--json").data
    plan = ktx("proof", "--dry-run", "--runs", "5", "--json").data
    assert plan["tokens"] == 10 * sum(arm["tokens"]["total_tokens"] for arm in made["arms"])
    assert (plan["cost_usd"], plan["by_run"]) == (pytest.approx(20 * made["arms"][0]["cost_usd"]), made["run_id"])
    assert "dry run" in ktx("proof", "--dry-run", "--plain").out


def test_a_dry_run_needs_no_model(ktx: Run, proven: Path, model_server: ModelServer) -> None:
    config = (proven / "ktx.yaml").read_text()
    (proven / "ktx.yaml").write_text(config[: config.index("llm:")])
    plan = ktx("proof", "--dry-run", "--json").data
    assert (plan["model"], plan["effort"], plan["attempts"], plan["tokens"]) == ("", None, 12, None)
    assert "2 questions, 3 runs each, no model configured" in ktx("proof", "--dry-run", "--plain").out
    assert ktx("proof", "--dry-run", "--model", "claude-x", "--json").envelope["error"]["code"] == "no_backend"
    assert ktx("proof", "--json").envelope["error"]["code"] == "no_backend"
    assert model_server.model_calls == []


def test_an_artifact_is_left_out_and_judged(ktx: Run, proven: Path) -> None:
    answer = ktx("proof", "--runs", "4", "--no-baseline", "--ablate", "customers.people", "--json")
    assert answer.code == 0, answer
    (found,) = answer.data["ablations"]
    assert (found["artifact"], found["verdict"], found["questions"]) == ("measure:customers.people", "earns", 1)


def test_what_cannot_be_asked_is_an_error(ktx: Run, proven: Path) -> None:
    assert "did you mean" not in ktx("proof", "--ablate", "customers.peple").err
    answer = ktx("proof", "--ablate", "customers.peple", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (2, "usage")
    assert "ktx proof --ablate customers.people" in answer.envelope["error"]["hint"]
    assert ktx("proof", "--effort", "extreme").code == 2
    for given in (["customers"], ["--company", "0"], ["--ablate", "all"], ["--dry-run"]):
        assert "cannot be used together" in ktx("proof", "--replay", "latest", *given).err
    assert ktx("proof", "silent").code == 2, "a case without a question"
    text = (proven / "ktx.yaml").read_text()
    (proven / "ktx.yaml").write_text(text.partition("llm:")[0])
    answer = ktx("proof", "--json")
    assert answer.envelope["error"]["code"] == "no_backend"
