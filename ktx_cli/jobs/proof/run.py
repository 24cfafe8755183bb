"""Runs a proof: asks all arms the same questions, records every attempt, and scores the attempts.

A proof neither changes the project nor commits anything. Finished attempts are kept until the whole proof is done, so
that an interrupted proof resumes without paying for them again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from ktx_cli.core import (
    Command,
    Emit,
    KtxError,
    Notice,
    Record,
    ResultWarning,
    RunFinished,
    RunStarted,
    UnitsPlanned,
    UsageError,
    ignore_events,
    listing,
    monotonic,
    new_run_id,
)
from ktx_cli.engine import (
    ENDING_NOTICE,
    AgentRunner,
    Cancellation,
    Models,
    Preflight,
    PreflightFailed,
    RunPlan,
    Spending,
    TaskStore,
    store_key,
)
from ktx_cli.jobs.proof.agent import STEPS, Toolbox
from ktx_cli.jobs.proof.arms import CONTEXT, SCHEMA, Arm, ArmProject, Arms, usable
from ktx_cli.jobs.proof.artifacts import choose_artifacts
from ktx_cli.jobs.proof.attempts import KIND, ROLE, QuestionAgent, attempts_version
from ktx_cli.jobs.proof.questions import Question, Subject, company_of, load_questions
from ktx_cli.jobs.proof.records import Attempt, ProofPlan, ProofRecord, read_proof
from ktx_cli.jobs.proof.report import ProofReport, score, seen_by
from ktx_cli.llm import LlmError, LlmRuntime, ModelRef, effort_of, model_for
from ktx_cli.project import (
    EffortLevel,
    KtxConfig,
    Layout,
    StateDatabase,
    hold_run_lock,
    prepare_private_folder,
    storage_error,
    transaction,
    translated,
)
from ktx_cli.runs import Recorder, finish_run, list_runs, read_report, save_report, start_run

COMMAND: Final = Command("proof")
_UNIT: Final = "proof"
"""The connection id for the work units of a proof."""


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """The request for a proof.

    `names` selects evals, by default all. `company` is the seed of the bundled company to use instead of the project.
    `model` and `effort` override those of the default role. `runs` is the number of attempts for each question and arm.
    `ablate` lists artifacts to leave out, one at a time. `baseline` includes the schema-only arm. `show_values` lets
    the agent see row values regardless of `scan.privacy`.
    """

    layout: Layout
    config: KtxConfig
    environ: Mapping[str, str]
    toolbox: Toolbox
    names: Sequence[str] = ()
    company: int | None = None
    model: str | None = None
    effort: str | None = None
    runs: int = 3
    ablate: Sequence[str] = ()
    baseline: bool = True
    show_values: bool = False
    max_usd: float | None = None
    max_tokens: int | None = None
    wait_seconds: float = 0.0
    emit: Emit = ignore_events


def prove(request: ProofRequest) -> tuple[ProofReport, list[ResultWarning]]:
    """Ask all questions in all arms, and return the figures.

    Raises `KtxError` if the proof cannot start: there is no question or no model, the backend does not answer, or
    another run holds the lock.
    """
    request = replace(request, config=with_model(request.config, request.model, request.effort))
    layout, config = request.layout, request.config
    recorder = Recorder(layout, new_run_id(), request.emit)
    plan = RunPlan(
        *(COMMAND, layout, config, request.environ, recorder),
        max_usd=request.max_usd,
        max_tokens=request.max_tokens,
        wait_seconds=request.wait_seconds,
    )
    preflight = Preflight(plan, Spending(plan.max_usd, plan.max_tokens), needed=True, roles=[ROLE])
    ref = model_for(config, ROLE)
    preflight.check_settings()
    try:
        with _subject(request, plan) as subject, _arms(request, subject) as arms:
            proof = _plan(request, plan, arms, subject, ref)
            arms.require_reachable(sorted({each.connection for each in subject.questions} - {""}) or subject.databases)
            request = replace(request, show_values=request.show_values or subject.made_up)
            report = _under_lock(request, plan, preflight, arms, proof)
    except PreflightFailed as failed:
        raise failed.error from None
    finally:
        recorder.close()
    return report, recorder.warnings


def with_model(config: KtxConfig, model: str | None, effort_level: str | None) -> KtxConfig:
    """Return the settings with the given model and effort. Raises `UsageError` for an invalid effort."""
    if model is not None:
        ref = model_for(config, ROLE, model=model)
        models = {**config.llm.models, ROLE: f"{ref.backend}:{ref.model}"}
        config = config.model_copy(update={"llm": config.llm.model_copy(update={"models": models})})
    if effort_level is None:
        return config
    levels = get_args(EffortLevel)
    if effort_level not in levels:
        raise UsageError(f"`{effort_level}` is not a valid effort", hint=f"use one of: {listing(levels, 10)}")
    effort = config.llm.effort.model_copy(update={"default": effort_level})
    return config.model_copy(update={"llm": config.llm.model_copy(update={"effort": effort})})


@contextlib.contextmanager
def _subject(request: ProofRequest, plan: RunPlan) -> Iterator[Subject]:
    """Provide the subject of the proof. Raises the errors of `load_questions` and `company_of`."""
    config, environ = request.config, request.environ
    if request.company is None:
        questions = load_questions(request.layout, config, environ, request.names, plan.warn)
        yield Subject(request.layout, config, tuple(questions))
        return
    with company_of(request.company, config, environ, request.names, plan.warn, plan.emit) as subject:
        yield subject


def _arms(request: ProofRequest, subject: Subject) -> Arms:
    return Arms(subject.layout, subject.config, request.environ, ablates=bool(request.ablate))


def _plan(request: ProofRequest, plan: RunPlan, arms: Arms, subject: Subject, ref: ModelRef | None) -> ProofPlan:
    chosen = choose_artifacts(arms.artifacts, request.ablate)
    ablated = usable(arms, chosen, request.ablate, plan.warn)
    return ProofPlan(
        plan.run_id,
        subject.questions,
        request.runs,
        tuple(ablated),
        model="" if ref is None else f"{ref.backend}:{ref.model}",
        effort=None if ref is None else effort_of(request.config, ROLE, ref),
        baseline=request.baseline,
        company=request.company,
        context=arms.digest,
    )


def _under_lock(
    request: ProofRequest, plan: RunPlan, preflight: Preflight, arms: Arms, proof: ProofPlan
) -> ProofReport:
    layout, started, status = plan.layout, monotonic(), "failed"
    prepare_private_folder(layout)
    with hold_run_lock(
        layout, run_id=plan.run_id, command=plan.command, wait_seconds=plan.wait_seconds, emit=plan.emit, warn=plan.warn
    ) as (_, database):
        plan.emit(RunStarted(plan.run_id, plan.command))
        with translated(layout.state):
            start_run(database, plan.run_id, plan.command)
        finished: _Asked | None = None
        try:
            with contextlib.closing(ProofRecord(layout, proof)) as record, Models(preflight, database) as models:
                asked = _Asked(request, plan, arms, proof, record, database)
                stopped = asked.all(models)
            report = replay(layout, plan.run_id)  # score the records, like every later replay
            report.stopped = stopped
            preflight.keep([stopped])
            status = report.status
            finished = asked if status == "done" else None
            _write_report(plan, report, monotonic() - started)
        finally:
            with translated(layout.state), transaction(database):  # a run killed in between would be paid again
                if finished is not None:
                    finished.forget()
                finish_run(database, plan.run_id, status, None)
            plan.emit(RunFinished(plan.run_id, status, monotonic() - started))
    return report


def _write_report(plan: RunPlan, report: ProofReport, seconds: float) -> None:
    """Write the run report. A failure is a warning."""
    facts = {"command": str(plan.command), "seconds": round(seconds, 3), **report.to_json()}
    try:
        save_report(plan.layout, plan.run_id, facts)
    except KtxError as error:
        message = f"ktx could not write the run report: {error.message}"
        plan.warn(ResultWarning("report_not_written", message, hint=error.hint))


@dataclass
class _Asked:
    """Asks the questions of a proof."""

    request: ProofRequest
    plan: RunPlan
    arms: Arms
    proof: ProofPlan
    record: ProofRecord
    database: StateDatabase
    attempts: list[Attempt] = field(default_factory=list)
    cancellation: Cancellation = field(default_factory=Cancellation)
    _keys: list[str] = field(default_factory=list)

    def all(self, models: Models) -> KtxError | None:
        """Ask all questions, and return the error that ended the proof early, if any."""
        models.begin()
        models.cancels(self.cancellation)
        models.ask_patiently(self._ask, self._interrupt)
        if self.cancellation.error is not None:
            return self.cancellation.error
        if self.cancellation.requested:
            return KtxError("interrupted", hint=Command("proof"), code="cancelled")
        return None

    def forget(self) -> None:
        """Delete the attempts of a finished proof, in a transaction, so that the next one starts from scratch."""
        store = self._store
        for key in self._keys:
            store.drop(key)

    @property
    def _store(self) -> TaskStore:
        return TaskStore(self.database, self.plan.layout.state)

    def _interrupt(self) -> None:
        self.cancellation.requested = True
        self.plan.emit(Notice(ENDING_NOTICE))

    async def _ask(self, runtime: LlmRuntime) -> None:
        runner = AgentRunner(runtime, self.cancellation, self._store, self.plan.emit)
        arms = [(Arm(CONTEXT), self.arms.context)]
        if self.proof.baseline:
            arms.insert(0, (Arm(SCHEMA), self.arms.protection))
        await self._ask_arms(runner, [(*arm, each) for each in self.proof.questions for arm in arms])
        for artifact in self.proof.ablated:
            arm, seen = Arm.without(artifact), set(seen_by(self.proof, self.attempts, artifact))
            questions = [each for each in self.proof.questions if each.id in seen]
            if questions and not self.cancellation.is_set:
                with self.arms.project_of(arm) as project:
                    await self._ask_arms(runner, [(arm, project, each) for each in questions])

    async def _ask_arms(self, runner: AgentRunner, asked: Sequence[tuple[Arm, ArmProject, Question]]) -> None:
        """Ask questions in parallel, ordered by question, so that a partial proof has paired arms."""
        slots = asyncio.Semaphore(self.plan.config.ingest.work_units.max_concurrency)
        each_run = [(arm, project, question, run) for run in self._runs for arm, project, question in asked]
        self.plan.emit(UnitsPlanned(_UNIT, KIND, len(each_run)))

        async def ask(arm: Arm, project: ArmProject, question: Question, run: int) -> None:
            async with slots:
                if not self.cancellation.is_set:
                    await self._attempt(runner, arm, project, question, run)

        await asyncio.gather(*(ask(*each) for each in each_run))

    @property
    def _runs(self) -> range:
        return range(1, self.proof.runs + 1)

    async def _attempt(self, runner: AgentRunner, arm: Arm, project: ArmProject, question: Question, run: int) -> None:
        key = self._key(arm, question, run)
        self._keys.append(key)
        asker = QuestionAgent(self.arms, self.request.toolbox, self.plan.run_id, _UNIT, privacy=self._privacy)
        attempt = await asker.attempt(runner, self._store, arm, project, question, run, key)
        if attempt is None:
            return
        self.attempts.append(attempt)
        try:
            self.record.add(attempt)
        except OSError as error:
            raise storage_error(self.plan.layout.run_answers(self.plan.run_id), error) from error

    @property
    def _privacy(self) -> bool:
        """Whether row values stay on this machine."""
        return self.arms.config.scan.privacy != "off" and not self.request.show_values

    def _key(self, arm: Arm, question: Question, run: int) -> str:
        facts = [self._version, arm.name, question.prompt, question.connection, list(question.columns), run]
        facts.append(question.attributes)
        return store_key(_UNIT, KIND, facts)

    @functools.cached_property
    def _version(self) -> str:
        """A digest that identifies the attempts of this proof."""
        return attempts_version(
            self.arms,
            self.request.toolbox,
            self.proof.questions[0],
            [self.proof.model, self.proof.effort, self.arms.digest, self._privacy],
        )


@dataclass(frozen=True, slots=True)
class ProofEstimate(Record):
    """The estimate for a proof. `attempts` are those of the arms; `most_ablated` is the maximum of ablation attempts.

    `tokens` and `usd` cover all attempts, based on the newest proof of the project (`by_run`), or are None.
    """

    plan: ProofPlan
    attempts: int
    most_ablated: int
    tokens: int | None = None
    usd: float | None = None
    by_run: str | None = None

    json_keys = (
        *("questions", "runs=plan.runs", "model=plan.model", "effort=plan.effort", "attempts", "most_ablated"),
        *("most_steps", "tokens", "cost_usd=usd", "by_run"),
    )

    @property
    def questions(self) -> list[str]:
        """The ids of the questions."""
        return [each.id for each in self.plan.questions]

    @property
    def most_steps(self) -> int:
        """The maximum number of model steps."""
        return (self.attempts + self.most_ablated) * STEPS


def estimate(request: ProofRequest) -> tuple[ProofEstimate, list[ResultWarning]]:
    """Return the estimate for a proof without calling a model or writing anything. Raises the errors of `prove`.

    It also works without a model, because it counts questions and uses the prices of an earlier proof.
    """
    request = replace(request, config=with_model(request.config, request.model, request.effort))
    recorder = Recorder(request.layout, new_run_id(), request.emit)
    plan = RunPlan(COMMAND, request.layout, request.config, request.environ, recorder)
    ref = _model_to_ask(request.config)
    with _subject(request, plan) as subject, _arms(request, subject) as arms:
        proof = _plan(request, plan, arms, subject, ref)
    asked = len(proof.questions) * proof.runs
    names = [SCHEMA, CONTEXT] if proof.baseline else [CONTEXT]
    ablated = asked * len(proof.ablated)
    found = ProofEstimate(proof, asked * len(names), ablated)
    earlier = _newest_proof(request.layout)
    if earlier is not None:
        arms_of = {each["arm"]: each for each in earlier["arms"]}
        if all(name in arms_of for name in names):
            counts = {**dict.fromkeys(names, asked), CONTEXT: asked + ablated}
            tokens = sum(count * arms_of[name]["tokens"]["total_tokens"] for name, count in counts.items())
            prices = [(count, arms_of[name]["cost_usd"]) for name, count in counts.items()]
            usd = None if any(price is None for _, price in prices) else sum(count * price for count, price in prices)
            found = replace(found, tokens=tokens, usd=None if usd is None else round(usd, 6), by_run=earlier["run_id"])
    return found, recorder.warnings


def _model_to_ask(config: KtxConfig) -> ModelRef | None:
    """Return the model that would answer, or None."""
    try:
        return model_for(config, ROLE)
    except LlmError as error:
        if error.code != "no_backend":
            raise
        return None


def _newest_proof(layout: Layout) -> dict[str, Any] | None:
    """Return the report of the newest finished proof."""
    for record in list_runs(layout)[0]:
        report = read_report(layout, record.run_id) if record.command == str(COMMAND) else None
        if report is not None and report.get("status") == "done" and report.get("arms"):
            return report
    return None


def replay(layout: Layout, text: str) -> ProofReport:
    """Return the figures of a recorded proof without a model or a database."""
    plan, attempts = read_proof(layout, text)
    return score(plan, attempts)
