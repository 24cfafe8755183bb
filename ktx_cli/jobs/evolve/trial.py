"""Trials of a changed context: the same questions before and after, on copies that nothing else reads.

A question of the semantic layer is computed. A question in words is put to an agent several times, in the arm of a
proof that has the context. Neither sees the evals, and the project is only read.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ktx_cli.core import EXIT_NOT_READY, EXIT_UNREACHABLE, KtxError, Notice, Record, UnitsPlanned
from ktx_cli.engine import ENDING_NOTICE, AgentRunner, Cancellation, Models, RunPlan, TaskStore, store_key
from ktx_cli.jobs.check.eval.cases import Case
from ktx_cli.jobs.check.eval.run import Asker, EvalRequest, run_case
from ktx_cli.jobs.proof.agent import Toolbox
from ktx_cli.jobs.proof.arms import CONTEXT, Arm, ArmProject, Arms
from ktx_cli.jobs.proof.attempts import KIND, QuestionAgent, attempts_version
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.jobs.proof.records import ANSWERED, ERROR, NO_ANSWER, Attempt
from ktx_cli.jobs.proof.report import SIGNIFICANT, judge
from ktx_cli.jobs.proof.statistics import stratified_test
from ktx_cli.llm import LlmRuntime, Usage
from ktx_cli.semantic import SemanticError

UNIT: Final = "_evolve"
"""The connection that units of a run are announced and kept under."""


WORDED: Final = " in words"
"""The end of the id of a question that is asked in words."""


@dataclass(frozen=True, slots=True)
class TrialQuestion:
    """A question of a trial: a case of `evals/`. `worded`: it is asked in words; None: its query is computed."""

    case: Case
    worded: Question | None = None

    @property
    def id(self) -> str:
        """`FILE/ID`, and whether it is asked in words."""
        return self.case.name if self.worded is None else f"{self.case.name}{WORDED}"

    @property
    def text(self) -> str:
        """The question as people read it."""
        return self.case.asked.question or self.case.name


@dataclass(frozen=True, slots=True)
class TrialResult(Record):
    """How a question was answered: `right` of `runs` runs. `reason`: of the first that was not right, without values.

    `statements`: what was asked of the semantic layer or the database. `shown`: the artifacts that agents were shown.
    `failed`: there was no answer, because the question does not compile or run.
    """

    question: str
    right: int
    runs: int
    reason: str = ""
    statements: tuple[Any, ...] = ()
    shown: tuple[str, ...] = ()
    failed: bool = False
    json_keys = ("question", "right", "runs", "reason")

    @property
    def is_right(self) -> bool:
        """Whether every run was right."""
        return self.right == self.runs > 0


Results = Mapping[str, TrialResult]
"""Id of a question -> how it was answered."""


class WordedAsker(Protocol):
    """Puts questions in words to an agent."""

    def ask(self, project: ArmProject, context: str, questions: Sequence[Question]) -> list[Attempt] | None:
        """Return the attempts at questions in a project; None where nobody can be asked. `context`: its digest."""
        ...


@dataclass(slots=True)
class Trials:
    """Asks questions in the context of `arms`, as it is or changed. `agent` None: nothing is asked in words."""

    arms: Arms
    environ: Mapping[str, str]
    questions: Sequence[TrialQuestion]
    agent: WordedAsker | None = None

    def ask(
        self, changes: Mapping[str, bytes | None] | None = None, only: Collection[str] | None = None
    ) -> dict[str, TrialResult]:
        """Return how questions are answered with some files changed. `only`: ids of questions in words; None: all.

        Computed questions are always all asked. Raises `KtxError` where a database cannot be reached.
        """
        with contextlib.ExitStack() as stack:
            project = stack.enter_context(self.arms.changed(changes)) if changes else self.arms.context
            found = {each.question: each for each in self._computed(project)}
            wanted = [each for each in self.questions if each.worded and (only is None or each.id in only)]
            if wanted and self.agent is not None:
                asked = [each.worded for each in wanted if each.worded is not None]
                attempts = self.agent.ask(project, self._digest(changes or {}), asked)
                found |= {} if attempts is None else {each.id: _worded(each, attempts) for each in wanted}
        return found

    def _digest(self, changes: Mapping[str, bytes | None]) -> str:
        if not changes:
            return self.arms.digest
        digest = hashlib.sha256(self.arms.digest.encode())
        for path, content in sorted(changes.items()):
            text = b"" if content is None else content
            digest.update(f"{path}\0{content is None}\0{len(text)}\0".encode("utf-8", "surrogateescape") + text)
        return digest.hexdigest()

    def _computed(self, project: ArmProject) -> Iterable[TrialResult]:
        request = EvalRequest(project.layout, project.config(), self.environ, save=False)
        asker = Asker(request, project.pool)
        for each in self.questions:
            if each.worded is not None:
                continue
            result = run_case(each.case, asker)
            error = result.error
            if error is not None and error.exit_code in (EXIT_UNREACHABLE, EXIT_NOT_READY):
                raise error
            reason = "" if result.difference is None else "the answer is not the expected one"
            if error is not None:
                reason = error.message if isinstance(error, SemanticError) else f"the query failed ({error.code})"
            statements = (each.case.asked.query,)
            is_right = int(result.status == "pass")
            yield TrialResult(each.id, is_right, 1, reason, statements, failed=error is not None)


def _worded(question: TrialQuestion, attempts: Sequence[Attempt]) -> TrialResult:
    """Return how a question was answered; attempts that could not be finished count nowhere."""
    assert question.worded is not None
    own = [each for each in attempts if each.question == question.worded.id and each.status != ERROR]
    words = [judge(question.worded, each).word for each in own]
    wrong = next((each for each, word in zip(own, words, strict=True) if word != "right"), None)
    reason = "" if wrong is None else "no answer" if wrong.status == NO_ANSWER else "the answer is not the expected one"
    shown = sorted({name for each in own for name in each.shown})
    statements = [each.statement for each in own if each.status == ANSWERED]
    failed = bool(own) and all(word == "no_answer" for word in words)
    return TrialResult(question.id, words.count("right"), len(own), reason, _distinct(statements), tuple(shown), failed)


def _distinct(statements: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({repr(each): each for each in statements}.values())


@dataclass(frozen=True, slots=True)
class RecordedAsker:
    """Answers with the attempts of a proof, by the digest of its context; it cannot ask about another one."""

    attempts: Mapping[str, Sequence[Attempt]]

    def ask(self, project: ArmProject, context: str, questions: Sequence[Question]) -> list[Attempt] | None:
        """See `WordedAsker`."""
        return list(self.attempts[context]) if context in self.attempts else None


@dataclass(slots=True)
class AgentAsker:
    """Asks an agent, `runs` times each question, side by side; finished attempts are kept until the run is done.

    `earlier`: attempts of a proof of the same context, by context digest: they are not asked again.
    """

    plan: RunPlan
    models: Models
    arms: Arms
    toolbox: Toolbox
    store: TaskStore
    runs: int
    privacy: bool
    model: str
    effort: str | None
    cancellation: Cancellation = field(default_factory=Cancellation)
    earlier: Mapping[str, Sequence[Attempt]] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)

    def ask(self, project: ArmProject, context: str, questions: Sequence[Question]) -> list[Attempt]:
        """See `WordedAsker`."""
        known = {(each.question, each.run): each for each in self.earlier.get(context, ())}
        asked = [(each, run) for run in range(1, self.runs + 1) for each in questions]
        missing = [(each, run) for each, run in asked if (each.id, run) not in known]
        found = [known[each.id, run] for each, run in asked if (each.id, run) in known]
        if missing and not self.cancellation.is_set:
            self.plan.emit(UnitsPlanned(UNIT, KIND, len(missing)))

            async def ask(runtime: LlmRuntime) -> list[Attempt]:
                return await self._ask(runtime, project, context, missing)

            found += self.models.ask_patiently(ask, self._interrupt)
        if self.cancellation.error is not None:
            raise self.cancellation.error
        if self.cancellation.requested:
            raise KtxError("interrupted", hint=self.plan.command, code="cancelled")
        return found

    def _interrupt(self) -> None:
        self.cancellation.requested = True
        self.plan.emit(Notice(ENDING_NOTICE))

    async def _ask(
        self, runtime: LlmRuntime, project: ArmProject, context: str, asked: Sequence[tuple[Question, int]]
    ) -> list[Attempt]:
        runner = AgentRunner(runtime, self.cancellation, self.store, self.plan.emit)
        agent = QuestionAgent(self.arms, self.toolbox, self.plan.run_id, UNIT, privacy=self.privacy)
        slots = asyncio.Semaphore(self.plan.config.ingest.work_units.max_concurrency)
        facts = [self.model, self.effort, context, self.privacy]
        version = attempts_version(self.arms, self.toolbox, asked[0][0], facts)

        async def attempt(question: Question, run: int) -> Attempt | None:
            async with slots:
                if self.cancellation.is_set:
                    return None
                about = [question.prompt, question.connection, list(question.columns), question.attributes, run]
                key = store_key(UNIT, KIND, [version, *about])
                return await agent.attempt(runner, self.store, Arm(CONTEXT), project, question, run, key)

        made = await asyncio.gather(*(attempt(*each) for each in asked))
        found = [each for each in made if each is not None]
        self.usage = sum((each.usage for each in found), self.usage)
        return found


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """The questions after a change against those before it.

    `held`: the held-out questions among them. `improved`: held-out questions that are answered better; `worsened`: any
    that are answered worse. `p`: the exact probability of such a difference of the held-out questions in words, if the
    change made none; None where none of them was asked in words. `compiled`: questions that had no answer and have one.
    """

    held: tuple[str, ...] = ()
    right_before: int = 0
    right_after: int = 0
    runs: int = 0
    improved: tuple[str, ...] = ()
    worsened: tuple[str, ...] = ()
    p: float | None = None
    compiled: tuple[str, ...] = ()

    @property
    def is_proven(self) -> bool:
        """Whether held-out questions show that the change helps: a computed one, or the test of those in words."""
        better = self.improved and self.right_after > self.right_before
        return bool(better) and (self.p is None or self.p < SIGNIFICANT)


def compare(before: Results, after: Results, held: Collection[str]) -> Comparison:
    """Compare the answers to questions that were asked both times. `held`: ids of the questions that are held out."""
    both = [name for name in sorted(after) if name in before and after[name].runs and before[name].runs]
    chosen = [name for name in both if name in held]
    improved = [name for name in chosen if _share(after[name]) > _share(before[name])]
    worded = [name for name in chosen if name.endswith(WORDED)]
    computed = any(name not in worded for name in improved)
    return Comparison(
        tuple(chosen),
        sum(before[name].right for name in chosen),
        sum(after[name].right for name in chosen),
        sum(after[name].runs for name in chosen),
        tuple(improved),
        tuple(_worsened(before, after, both)),
        None if computed or not worded else _chance(before, after, worded),
        tuple(name for name in both if before[name].failed and after[name].is_right),
    )


def _worsened(before: Results, after: Results, both: Sequence[str]) -> list[str]:
    """Return the questions that were right every time and are not any more, and those that are right less often.

    The second only where the questions in words are right so much less often together that it is no chance.
    """
    lost = [name for name in sorted(after) if name in before and before[name].is_right and not after[name].is_right]
    worded = [name for name in both if name.endswith(WORDED)]
    fewer = [name for name in worded if _share(after[name]) < _share(before[name]) and name not in lost]
    total = sum(_share(after[name]) - _share(before[name]) for name in worded)
    return [*lost, *(fewer if total < 0 and _chance(before, after, worded) < SIGNIFICANT else ())]


def _chance(before: Results, after: Results, names: Sequence[str]) -> float:
    return stratified_test((before[n].right, before[n].runs, after[n].right, after[n].runs) for n in names)


def _share(result: TrialResult) -> float:
    return result.right / result.runs


def split(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the questions that a draft may see, and those that are held out to judge it; stable from run to run.

    A single question is for drafting. Of several, at least one is on each side.
    """
    ordered = sorted(set(names), key=_hash)
    drafting = [each for each in ordered if _hash(each)[0] % 2]
    held = [each for each in ordered if not _hash(each)[0] % 2]
    if len(ordered) > 1 and not held:
        held = [drafting.pop()]
    if not drafting and held:
        drafting = [held.pop(0)]
    return sorted(drafting), sorted(held)


def _hash(name: str) -> bytes:
    return hashlib.sha256(f"held out? {name}".encode()).digest()


def merged(before: Results, after: Results) -> dict[str, TrialResult]:
    """Return the answers after a change, with those of before for questions that were not asked again."""
    return {**before, **after}
