"""Scores answers to the questions about a company, and reports which wrong reading an answer follows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ktx_cli.core import json_value
from ktx_cli.jobs.check.eval.cases import Expectation
from ktx_cli.jobs.check.eval.results import CaseAnswer, difference
from ktx_cli.jobs.proof.company.questions import Question, WrongReading

if TYPE_CHECKING:
    import duckdb


class Verdict(StrEnum):
    """How an answer compares with the truth."""

    RIGHT = "right"
    MISREAD = "misread"
    """The answer matches a wrong reading."""
    WRONG = "wrong"
    """The answer matches neither the truth nor a known reading."""


@dataclass(frozen=True, slots=True)
class Score:
    """The verdict on an answer. `reading`: the wrong reading that it follows."""

    verdict: Verdict
    reading: WrongReading | None = None


@dataclass(slots=True)
class AnswerKey:
    """A warehouse's answers to questions and their readings, each computed once."""

    warehouse: duckdb.DuckDBPyConnection
    known: dict[str, Expectation] = field(default_factory=dict)

    def expected(self, question: Question, sql: str) -> Expectation:
        """Return the answer to a statement, as an eval expects it."""
        if sql not in self.known:
            self.known[sql] = _expectation(question, self.answer(sql))
        return self.known[sql]

    def answer(self, sql: str) -> CaseAnswer:
        """Run a statement."""
        found = self.warehouse.execute(sql)
        columns = tuple(each[0] for each in found.description or ())
        return answer_of(columns, found.fetchall())

    def score(self, question: Question, answer: CaseAnswer) -> Score:
        """Compare an answer exactly, as `ktx eval` does: first with the truth, then with each wrong reading."""
        if difference(self.expected(question, question.truth), answer) is None:
            return Score(Verdict.RIGHT)
        for each in question.wrong:
            if difference(self.expected(question, each.sql), answer) is None:
                return Score(Verdict.MISREAD, each)
        return Score(Verdict.WRONG)


def _expectation(question: Question, answer: CaseAnswer) -> Expectation:
    if len(question.columns) == 1:
        return Expectation(value=answer.rows[0][0])
    return Expectation(rows=[list(row) for row in answer.rows], columns=list(answer.columns))


def answer_of(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> CaseAnswer:
    """Return database rows as an answer."""
    return CaseAnswer(tuple(columns), tuple(tuple(json_value(value) for value in row) for row in rows))


def tells_apart(key: AnswerKey, question: Question) -> bool:
    """Return whether the truth has rows, and all readings of a question differ from it and each other."""
    statements = [question.truth, *(each.sql for each in question.wrong)]
    answers = [key.answer(each) for each in statements]
    if not answers[0].rows or any(value is None for row in answers[0].rows for value in row[-1:]):
        return False
    return all(
        difference(_expectation(question, one), other) is not None for other, one in itertools.combinations(answers, 2)
    )


@dataclass(frozen=True, slots=True)
class SelfCheck:
    """The result of answering a company's questions with its own truths and wrong readings.

    `right`: questions whose truth scores; `recognized`: wrong readings whose answer was matched to just that reading.
    `failures`: a sentence for each that was not.
    """

    questions: int
    right: int
    readings: int
    recognized: int
    failures: tuple[str, ...]


def self_check(key: AnswerKey, questions: Sequence[Question]) -> SelfCheck:
    """Answer every question with its truth and with each wrong reading, and score the answers."""
    failures = []
    right = recognized = 0
    for question in questions:
        score = key.score(question, key.answer(question.truth))
        right += score.verdict is Verdict.RIGHT
        if score.verdict is not Verdict.RIGHT:
            failures.append(f"{question.id}: the truth is {score.verdict}")
        for wrong in question.wrong:
            score = key.score(question, key.answer(wrong.sql))
            recognized += score.reading == wrong
            if score.reading != wrong:
                failures.append(f"{question.id}: {wrong.convention} as {wrong.alternative} is {score.verdict}")
    readings = sum(len(each.wrong) for each in questions)
    return SelfCheck(len(questions), right, readings, recognized, tuple(failures))
