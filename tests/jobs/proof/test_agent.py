"""The answer that an agent gives: which result, which columns, which assumptions; and what it has been shown."""

from __future__ import annotations

import pytest

from ktx_cli.jobs.check.eval.cases import Expectation
from ktx_cli.jobs.proof.agent import MOST_KEPT, AnswerState, GiveAnswer
from ktx_cli.jobs.proof.artifacts import Artifact, ArtifactKind
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.llm.tools import ToolError

QUESTION = Question("q", "Orders by country?", Expectation(rows=[{"country": "NO", "orders": 2}]))


@pytest.fixture
def state() -> AnswerState:
    found = AnswerState(QUESTION)
    assert found.keep("sql_execution", "SELECT 1", ["n", "c", "x"], [[2, "NO", None]], True) == "r1"
    return found


def test_the_columns_of_an_answer_can_be_chosen_and_put_in_order(state: AnswerState) -> None:
    state.accept(GiveAnswer(result="r1", columns=["c", "n"], assumptions=[" ", "Tests count."]))
    assert state.answer == {"result": "r1", "columns": ["c", "n"], "assumptions": ["Tests count."]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (GiveAnswer(result="r2"), "there is no result `r2`"),
        (GiveAnswer(), "there is no result ``"),
        (GiveAnswer(result="r1"), "asks for 2 columns, but this answer has 3"),
        (GiveAnswer(result="r1", columns=["c", "z"]), "`r1` has no column z"),
    ],
)
def test_what_cannot_be_compared_is_refused(state: AnswerState, answer: GiveAnswer, message: str) -> None:
    with pytest.raises(ToolError, match=message):
        state.accept(answer)
    assert state.answer is None


def test_there_may_be_no_answer(state: AnswerState) -> None:
    state.accept(GiveAnswer(result="r1", columns=["c", "n"]))
    state.accept(GiveAnswer(no_answer="Nothing says which rows count."))
    assert state.answer == {"no_answer": "Nothing says which rows count.", "assumptions": []}


def test_a_result_that_was_cut_is_no_answer(state: AnswerState) -> None:
    assert state.keep("sql_execution", "SELECT 1", ["n"], [[1]], False) is None
    assert state.keep("sql_execution", "SELECT 1", ["n"], [[1]] * (MOST_KEPT + 1), True) is None
    assert set(state.results) == {"r1"}


def test_a_loop_that_goes_on_has_its_results_again(state: AnswerState) -> None:
    state.accept(GiveAnswer(result="r1", columns=["c", "n"]))
    state.shown.add("page:rule")
    other = AnswerState(QUESTION)
    other.restore(state.state())
    assert (other.results, other.answer, other.shown) == (state.results, state.answer, state.shown)


def test_a_name_is_shown_where_it_stands_alone() -> None:
    names = [Artifact(ArtifactKind.PAGE, "rule-1"), Artifact(ArtifactKind.PAGE, "rule-10")]
    names += [Artifact(ArtifactKind.MEASURE, "orders.revenue", "shop")]
    for text, shown in {
        'see "rule-10".': {"page:rule-10"},
        "Rule-1, rule-10": {"page:rule-1", "page:rule-10"},
        "orders.revenue": {"measure:orders.revenue"},
        "net_revenue rule": set(),
    }.items():
        state = AnswerState(QUESTION, names)
        state.observe(text)
        assert state.shown == shown, text
