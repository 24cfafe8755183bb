"""Trials of a changed context: ask the same questions before and after on private copies.

A semantic layer query is computed. A question in words is put to an agent several times, in the arm of a proof with the
context. Neither sees the evals, and the project is only read.
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
"""The connection id for the work units of a run."""


WORDED: Final = " in words"
"""The id suffix of a question in words."""


@dataclass(frozen=True, slots=True)
class TrialQuestion:
    """A trial question from `evals/`. `worded` is set if an agent is asked; otherwise the query is computed."""

    case: Case
    worded: Question | None = None

    @property
    def id(self) -> str:
        """`FILE/ID`, with a suffix for a question in words."""
        return self.case.name if self.worded is None else f"{self.case.name}{WORDED}"

    @property
    def text(self) -> str:
        """The text of the question."""
        return self.case.asked.question or self.case.name


@dataclass(frozen=True, slots=True)
class TrialResult(Record):
    """The result for a question: `right` of `runs` attempts, and the `reason` for the first failure without values.

    `statements` are the queries to the semantic layer or the database. `shown` are the artifacts that agents saw.
    `failed` means that the query is invalid or failed.
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
        """Whether every attempt was correct."""
        return self.right == self.runs > 0


Results = Mapping[str, TrialResult]
"""Results by question id."""


class WordedAsker(Protocol):
    """Asks an agent questions in words."""

    def ask(self, project: ArmProject, context: str, questions: Sequence[Question]) -> list[Attempt] | None:
        """Return the attempts in a project, or None without an agent. `context` is the digest of the context."""
        ...


@dataclass(slots=True)
class Trials:
    """Asks questions in the original or changed context of `arms`. Without an `agent`, only queries are computed."""

    arms: Arms
    environ: Mapping[str, str]
    questions: Sequence[TrialQuestion]
    agent: WordedAsker | None = None

    def ask(
        self, changes: Mapping[str, bytes | None] | None = None, only: Collection[str] | None = None
    ) -> dict[str, TrialResult]:
        """Return the results with changed files. `only` limits the questions in words, by id.

        All computed queries always run. Raises `KtxError` if a database cannot be reached.
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
            reason = "" if result.difference is None else "wrong answer"
            if error is not None:
                reason = error.message if isinstance(error, SemanticError) else f"the query failed ({error.code})"
            statements = (each.case.asked.query,)
            is_right = int(result.status == "pass")
            yield TrialResult(each.id, is_right, 1, reason, statements, failed=error is not None)


def _worded(question: TrialQuestion, attempts: Sequence[Attempt]) -> TrialResult:
    """Return the result for a question. Unfinished attempts do not count."""
    assert question.worded is not None
    own = [each for each in attempts if each.question == question.worded.id and each.status != ERROR]
    words = [judge(question.worded, each).word for each in own]
    wrong = next((each for each, word in zip(own, words, strict=True) if word != "right"), None)
    reason = "" if wrong is None else "no answer" if wrong.status == NO_ANSWER else "wrong answer"
    shown = sorted({name for each in own for name in each.shown})
    statements = [each.statement for each in own if each.status == ANSWERED]
    failed = bool(own) and all(word == "no_answer" for word in words)
    return TrialResult(question.id, words.count("right"), len(own), reason, _distinct(statements), tuple(shown), failed)


def _distinct(statements: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({repr(each): each for each in statements}.values())


@dataclass(frozen=True, slots=True)
class RecordedAsker:
    """Returns the recorded attempts in a proof by context digest. It cannot ask about other contexts."""

    attempts: Mapping[str, Sequence[Attempt]]

    def ask(self, project: ArmProject, context: str, questions: Sequence[Question]) -> list[Attempt] | None:
        """See `WordedAsker`."""
        return list(self.attempts[context]) if context in self.attempts else None


@dataclass(slots=True)
class AgentAsker:
    """Asks an agent each question `runs` times in parallel. Finished attempts are kept until the end of the run.

    `earlier` are attempts from a proof of the same context, by context digest; they are reused.
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
    """The results of a change compared with those before it.

    `held` are the held-out questions. `improved` are held-out questions with better answers, and `worsened` any
    questions with worse answers. `p` is the exact probability of the difference of held-out questions in words if the
    change has no effect, or None without such questions. `compiled` are questions that have an answer now and had none
    before.
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
        """Whether held-out questions prove that the change helps: a computed question, or the statistical test."""
        better = self.improved and self.right_after > self.right_before
        return bool(better) and (self.p is None or self.p < SIGNIFICANT)


def compare(before: Results, after: Results, held: Collection[str]) -> Comparison:
    """Compare the results of questions that were asked both times. `held` are the ids of held-out questions."""
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
    """Return the questions that no longer are always answered correctly, and those answered correctly less often.

    The latter count only if the questions in words together got significantly worse.
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
    """Split questions into those that a draft may see and held-out ones that judge it, in the same way in every run.

    A single question is for drafting. With several, each side has at least one.
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
    """Return the results after a change, and the previous results of questions that were not asked again."""
    return {**before, **after}
