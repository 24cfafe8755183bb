"""One attempt at a question in one arm: the agent loop and the record of its result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli import __version__
from ktx_cli.documents import WorkUnit
from ktx_cli.engine import AgentRunner, AgentTask, TaskStore, UnitOutcome, UnitStatus
from ktx_cli.jobs.proof.agent import STEPS, AnswerState, Toolbox, prompt_of, tools_of
from ktx_cli.jobs.proof.arms import CONTEXT, SCHEMA, Arm, ArmProject, Arms
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.jobs.proof.records import ANSWERED, ERROR, NO_ANSWER, Attempt, of_run
from ktx_cli.llm import CallFacts, Cost, LoopResult, Usage

ROLE: Final = "default"
"""The role whose model answers."""

KIND: Final = "attempt"
_FORMAT: Final = "1"
"""Version of attempts. Increase it when an attempt would work differently."""


@dataclass(frozen=True, slots=True)
class QuestionAgent:
    """Asks an agent questions in the arms of a run.

    `unit` is the connection id for its agent loops. `privacy` keeps row values on this machine.
    """

    arms: Arms
    toolbox: Toolbox
    run_id: str
    unit: str
    privacy: bool

    async def attempt(
        self,
        runner: AgentRunner,
        store: TaskStore,
        arm: Arm,
        project: ArmProject,
        question: Question,
        run: int,
        key: str,
    ) -> Attempt | None:
        """Ask once, and return the attempt, or None if the run ended first.

        The attempt is stored under `key`, so that a later run can reuse it.
        """
        state = AnswerState(question, self.arms.artifacts)
        before = store.taken(key)

        def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
            return _answered(outcome, result, of_run(_attempt_of(state, arm, run), self.run_id), before)

        task = AgentTask(
            WorkUnit(f"{arm.name}/{question.id}#{run}", f"{question.id}, {arm.name}, run {run}", ()),
            ROLE,
            prompt=lambda: prompt_of(self.arms, arm, question, self.toolbox, privacy=self.privacy),
            tools=lambda: tools_of(self.arms, arm, project, state, self.toolbox, privacy=self.privacy),
            step_budget=STEPS,
            connection=self.unit,
            kind=KIND,
            judge=judge,
            key=key,
            state=state,
            is_unit=True,
        )
        outcome = await runner.run(task)
        if outcome.status is UnitStatus.LEFT:
            return None
        if outcome.status is UnitStatus.DONE:
            return Attempt.of(outcome.details["attempt"])
        failed = of_run(replace(_attempt_of(state, arm, run), status=ERROR, reason=outcome.reason), self.run_id)
        return failed if outcome.facts is None else _with_facts(failed, outcome.facts, before)


def attempts_version(arms: Arms, toolbox: Toolbox, question: Question, facts: Sequence[Any]) -> str:
    """Return a digest that identifies comparable attempts: facts (model, context), prompts and the ktx version."""
    prompts = [
        (arm.name, prompt_of(arms, arm, question, toolbox, privacy=False).system) for arm in (Arm(SCHEMA), Arm(CONTEXT))
    ]
    return hashlib.sha256(json.dumps([_FORMAT, __version__, prompts, *facts]).encode()).hexdigest()


def _attempt_of(state: AnswerState, arm: Arm, run: int) -> Attempt:
    """Return an agent's attempt without its usage."""
    shown = tuple(sorted(state.shown))
    attempt = Attempt(state.question.id, arm.name, run, NO_ANSWER, shown=shown)
    answer = state.answer
    if state.broken is not None and (answer is None or "no_answer" in answer):
        return replace(attempt, status=ERROR, reason=state.broken.message)
    if answer is None:
        return replace(attempt, reason="the agent finished without an answer")
    attempt = replace(attempt, assumptions=tuple(answer["assumptions"]))
    if "no_answer" in answer:
        return replace(attempt, reason=answer["no_answer"])
    result = state.results[answer["result"]]
    places = [result.columns.index(name) for name in answer["columns"]]
    rows = tuple(tuple(row[place] for place in places) for row in result.rows)
    columns = tuple(answer["columns"])
    return replace(attempt, status=ANSWERED, columns=columns, rows=rows, statement=result.statement)


def _answered(outcome: UnitOutcome, result: LoopResult, attempt: Attempt, before: tuple[Usage, Cost]) -> UnitOutcome:
    """Return the outcome of a loop with its attempt as the stored result. Failed attempts are not stored.

    `before` is the usage of an interrupted run that this one resumed.
    """
    if attempt.status == ERROR:
        return outcome.failed(UnitStatus.FAILED, attempt.reason)
    return replace(outcome, details={"attempt": _with_facts(attempt, result.facts, before).to_json()})


def _with_facts(attempt: Attempt, facts: CallFacts, before: tuple[Usage, Cost]) -> Attempt:
    """Return an attempt with its usage."""
    usage, cost = before
    prices = [price.usd for part, price in ((usage, cost), (facts.usage, facts.cost)) if part.total or price.usd]
    return replace(
        attempt,
        steps=facts.steps,
        calls=facts.tool_calls,
        usage=usage + facts.usage,
        usd=None if None in prices else round(sum(price or 0.0 for price in prices), 9),
        seconds=round(facts.seconds, 3),
        model=facts.resolved_model or facts.model,
    )
