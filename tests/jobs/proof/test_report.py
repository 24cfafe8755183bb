"""The figures of a proof, computed by hand: outcomes, lift, harm, silence, ablations, conditions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.check.eval.cases import Expectation
from ktx_cli.jobs.proof.artifacts import Artifact, ArtifactKind
from ktx_cli.jobs.proof.attempts import _with_facts
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.jobs.proof.records import Attempt, ProofPlan
from ktx_cli.jobs.proof.report import (
    Conditions,
    ProofReport,
    facts_of,
    interval_text,
    judge,
    markdown,
    percent,
    place_in,
    score,
)
from ktx_cli.jobs.proof.statistics import Interval
from ktx_cli.llm.types import CallFacts, Cost, Usage

PAGE = Artifact(ArtifactKind.PAGE, "rule")
EXPECTED = Expectation(rows=[{"country": "NO", "n": 2}, {"country": "SE", "n": 1}])
QUESTION = Question("q", "How many?", EXPECTED, readings={"all rows": Expectation(value=9)})
RIGHT, WRONG = (("NO", 2), ("SE", "1.0")), (("NO", 3),)


def attempt(arm: str, outcome: str, question: str = "q", run: int = 1, **fields: Any) -> Attempt:
    """Return an attempt that comes out in a way."""
    status = {"none": "no_answer", "error": "error"}.get(outcome, "answered")
    rows = RIGHT if outcome == "right" else WRONG
    fields = {
        "columns": ("c", "n"),
        "rows": rows,
        "usage": Usage(10, 1),
        "usd": 0.5,
        "seconds": 2.0,
        "calls": 3,
    } | fields
    return Attempt(question, arm, run, status, **fields)


def report_of(
    attempts: Iterable[Attempt], *, questions: int, runs: int = 1, ablated: tuple[Artifact, ...] = ()
) -> ProofReport:
    plan = ProofPlan(
        "run", tuple(Question(f"q{each}", "How many?", EXPECTED) for each in range(questions)), runs, ablated, "a:m"
    )
    return score(plan, list(attempts))


def test_rows_are_compared_exactly_whatever_their_columns_and_order() -> None:
    assert judge(QUESTION, attempt("context", "right")).word == "right"
    assert judge(QUESTION, attempt("context", "right", rows=RIGHT[::-1])).word == "right"
    wrong = judge(QUESTION, attempt("context", "wrong"))
    assert (wrong.word, wrong.silent, wrong.reading) == ("wrong", True, None)
    assert not judge(QUESTION, attempt("context", "wrong", assumptions=("Tests count.",))).silent
    named = judge(QUESTION, attempt("context", "wrong", columns=("n",), rows=((9,),)))
    assert (named.word, named.reading) == ("wrong", "all rows")
    assert judge(QUESTION, attempt("context", "none")).word == "no_answer"
    assert judge(QUESTION, attempt("context", "error")).word == "error"
    assert judge(QUESTION, attempt("context", "right", columns=("n",), rows=((2,), (1,)))).word == "wrong"


def test_arms_are_compared_by_question() -> None:
    outcomes = {
        "schema": ["right", "right", "wrong", "wrong", "none", "right"],
        "context": ["right", "wrong", "right", "right", "right", "error"],
    }
    attempts = [
        attempt(arm, outcome, f"q{place}") for arm, each in outcomes.items() for place, outcome in enumerate(each)
    ]
    report = report_of(attempts, questions=6)
    schema, context = report.arms
    assert (schema.right.estimate, context.right.estimate) == (3 / 6, 4 / 5), "what an error ended does not count"
    assert (schema.silently_wrong.estimate, context.silently_wrong.estimate) == (2 / 6, 1 / 5)
    found = report.comparison
    assert found is not None
    assert (found.questions, found.test.better, found.test.worse) == (5, 3, 1)
    assert found.lift.estimate == pytest.approx((0 - 1 + 1 + 1 + 1) / 5)
    assert found.harm.estimate == pytest.approx(1 / 5)
    assert (context.calls, context.usage, context.usd, context.seconds) == (3, Usage(10, 1), 0.5, 2.0)
    assert (report.missing, report.status) == (0, "done")


def test_runs_of_a_question_are_one_question() -> None:
    one = [attempt("schema", "right", "q0", 1), attempt("schema", "wrong", "q0", 2)]
    other = [attempt("context", "right", "q0", 1), attempt("context", "wrong", "q0", 2)]
    report = report_of([*one, *other], questions=2, runs=2)
    assert report.comparison is not None
    assert (report.comparison.lift.estimate, report.comparison.test.p) == (0, 1)
    assert report.comparison.harm.estimate == pytest.approx(0.25), "right without in half, wrong with in half"
    assert (report.missing, report.status) == (4, "stopped")
    assert ("missing", "4 attempts; run the same command again to continue") in facts_of(report)


@pytest.mark.parametrize(
    ("with_it", "without", "verdict"),
    [
        ("right", "wrong", "earns"),
        ("wrong", "right", "harms"),
        ("right", "right", "no difference shown"),
        ("error", "right", "no difference shown"),
    ],
)
def test_an_ablation_has_a_verdict(with_it: str, without: str, verdict: str) -> None:
    attempts = []
    for question, run in ((f"q{place}", run) for place in range(2) for run in range(1, 5)):
        attempts.append(attempt("context", with_it, question, run, shown=(PAGE.id,), usage=Usage(110)))
        attempts.append(attempt("without:page:rule", without, question, run, usage=Usage(100), usd=0.25))
    (found,) = report_of(attempts, questions=3, runs=4, ablated=(PAGE,)).ablations
    assert found.verdict == verdict
    if with_it != "error":
        assert (found.questions, found.tokens, found.usd) == (2, 10, 0.25)


def test_what_is_never_shown_is_not_judged() -> None:
    report = report_of([attempt("context", "right", "q0")], questions=1, ablated=(PAGE,))
    (found,) = report.ablations
    assert (found.verdict, found.questions) == ("not seen", 0)
    text = markdown(report)
    assert f"* not seen: 1 artifact that no question saw: {PAGE.id}" in text
    assert f"| {PAGE.id} |" not in text and "| artifact |" not in text, "a row of dashes says nothing"


def test_an_attempt_of_which_all_steps_were_kept_has_the_price_of_them() -> None:
    """Killed between the last step and the end, it is finished by a run that asks the model nothing."""
    kept = (Usage(100, 20), Cost(0.002, "list_price"))
    nothing = CallFacts("anthropic", "default", "m")
    found = _with_facts(attempt("context", "right", "q0"), nothing, kept)
    assert (found.usage, found.usd) == (kept[0], 0.002)
    unpriced = CallFacts("anthropic", "default", "m", usage=Usage(1, 1))
    assert _with_facts(attempt("context", "right", "q0"), unpriced, kept).usd is None


def test_many_comparisons_ask_for_more() -> None:
    """Two questions with three runs each are a difference alone, and none among many."""
    pages = tuple(Artifact(ArtifactKind.PAGE, f"rule-{place}") for place in range(20))
    attempts = []
    for place, page in enumerate(pages):
        for question, run in ((f"q{2 * place + one}", run) for one in range(2) for run in range(1, 4)):
            attempts.append(attempt("context", "wrong" if place == 0 else "right", question, run, shown=(page.id,)))
            attempts.append(attempt(f"without:{page.id}", "right", question, run))
    alone = report_of(attempts, questions=40, runs=3, ablated=pages[:1]).ablations
    among = report_of(attempts, questions=40, runs=3, ablated=pages).ablations
    assert (alone[0].verdict, among[0].verdict) == ("harms", "no difference shown")
    assert among[0].lift.low <= alone[0].lift.low, "the interval is wider"


def test_conditions() -> None:
    better = [attempt("schema", "wrong", f"q{place}") for place in range(20)]
    better += [attempt("context", "right", f"q{place}") for place in range(20)]
    report = report_of(better, questions=20)
    assert Conditions(0.5, 0.0).error(report) is None
    assert Conditions().error(report) is None
    worse = report_of([attempt("schema", "right", "q0"), attempt("context", "wrong", "q0")], questions=1)
    error = Conditions(0.0, 0.1).error(worse)
    assert error is not None
    assert (error.code, error.exit_code) == ("proof_failed", 1)
    assert "lift" in error.message and "harm is 100.0%" in error.message
    alone = report_of([attempt("context", "right", "q0")], questions=1)
    unchecked = Conditions(max_harm=0.1).error(alone)
    assert unchecked is not None and "cannot check the conditions" in unchecked.message


def test_a_report_survives_json() -> None:
    empty = Question("none", "Which are lost?", Expectation(rows=[]), "shop", group="sql", place="evals/a.yaml:1")
    null = Question("null", "What is unknown?", Expectation(value=None))
    plan = ProofPlan("run", (QUESTION, empty, null), 2, (PAGE,), "a:m", "high", False, 7)
    text = json.dumps(plan.to_json())
    read = ProofPlan.of(json.loads(text))
    assert json.dumps(read.to_json()) == text
    assert [each.expect.has_value for each in read.questions] == [False, False, True]
    assert judge(read.questions[1], attempt("context", "right", rows=())).word == "right"
    made = attempt("context", "wrong", statement={"measures": ["a.b"]}, shown=("page:rule",), assumptions=("x",))
    assert Attempt.of(json.loads(json.dumps(made.to_json()))) == made
    unpriced = attempt("context", "right", "q0", usd=None)
    assert report_of([unpriced], questions=1).arms[0].usd is None


def test_texts() -> None:
    assert percent(-0.00001) == "0.0%"
    assert interval_text(Interval(0.125, 0, 1)) == "12.5% (0.0 to 100.0)"


def test_a_file_keeps_what_stands_around_the_report() -> None:
    from pathlib import Path

    assert place_in(None, Path("a.md")) == ("", "")
    assert place_in("a\n<!-- ktx proof -->\nold\n<!-- end of ktx proof -->\nb\n", Path("a.md")) == ("a\n", "b\n")
    with pytest.raises(UsageError):
        place_in("nothing", Path("a.md"))
