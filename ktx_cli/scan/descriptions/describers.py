"""A connection's describers, which also propose joins for undecided columns: rules, the model, and the estimator for a
dry run.

An error that ends all model calls (no session, a limit, a budget) ends them for the whole run. Earlier answers are kept
in the state database and in the commit, and the next run requests the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from ktx_cli.core import Emit, KtxError, one_line, plural
from ktx_cli.llm import LlmError
from ktx_cli.project import CachedAnswer, KtxConfig, Privacy, StateDatabase, StateEnrichmentStore
from ktx_cli.scan.descriptions.facts import Described, DescriptionReport, Estimate, content_hash
from ktx_cli.scan.descriptions.model import KIND, Descriptions, Progress, answers_so_far, describe, estimate
from ktx_cli.scan.descriptions.rules import describe_by_rules
from ktx_cli.scan.relationships.proposals import KIND as PARENTS
from ktx_cli.scan.relationships.proposals import (
    ClusterLimits,
    ProposalQuestions,
    Proposals,
    estimate_proposals,
    propose,
    stored_answers,
)
from ktx_cli.scan.stages import Failures, ScanPrompts, ScanStep, Stage, unexpected
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.llm import LlmRuntime
    from ktx_cli.scan.descriptions.facts import DescriptionInput, ProposalInput, Proposer, TableContext, Texts
    from ktx_cli.scan.relationships.hints import JoinHint

Answer = TypeVar("Answer")


class ModelAccess(Protocol):
    """Makes the model calls of one run. `stopped`: the error after which it makes no more calls."""

    stopped: KtxError | None

    def ask(self, question: Callable[[LlmRuntime], Coroutine[Any, Any, Answer]]) -> Answer:
        """Return the model's answer."""


class RuleDescriber:
    """Describes tables by rules."""

    report = DescriptionReport("deterministic")
    proposer = None

    def describe(self, wanted: DescriptionInput, report: DescriptionReport) -> Texts:
        """Describe every table. A table whose rows could not be read keeps its text."""
        failures, texts = Failures(), []
        for facts in wanted.facts():
            with failures.stage(Stage.DESCRIPTIONS, facts.ref):
                texts.append(_by_rules(facts, wanted.recorded.get(facts.ref)))
        failed = {str(each.table): unexpected(each.error) for each in failures.found()}
        return texts, replace(report, described=len(texts), failed=failed)


def _by_rules(facts: TableContext, recorded: Described | None) -> Described:
    described = describe_by_rules(facts)
    unread = facts.profile is None or facts.profile.problem is not None
    if unread and recorded is not None and (recorded.source, recorded.hash) == ("rules", described.hash):
        return recorded
    return described


class _Options(TypedDict):
    privacy: Privacy
    concurrency: int
    on_progress: Progress


class ModelDescriber:
    """Describes tables and proposes parents of undecided columns with the model, except where earlier answers are still
    valid.
    """

    report = DescriptionReport("llm")

    def __init__(
        self,
        connection: str,
        config: KtxConfig,
        prompts: ScanPrompts,
        store: StateEnrichmentStore,
        models: ModelAccess,
        emit: Emit,
    ) -> None:
        self._connection, self._config, self._prompts = connection, config, prompts
        self._store, self._models, self._emit = _UsageStore(store), models, emit
        self._unasked = {PARENTS}
        """The kinds of answers that nobody needed, because the results of the last scan are reused."""

    @property
    def proposer(self) -> Proposer | None:
        """This describer, unless the settings forbid proposals."""
        return self if self._config.scan.relationships.llm_proposals else None

    @property
    def version(self) -> str:
        """The version of the prompt for undecided columns."""
        return self._prompts.propose.version

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[Sequence[JoinHint], DescriptionReport]:
        """Return hints of the model's answers. If calls fail, those that were answered before count."""
        self._unasked.discard(PARENTS)
        if not given.undecided:
            return (), report
        questions = _questions(given, self._config, self._prompts)
        known, waiting = stored_answers(questions, self._store)
        hints = [hint for answer in known for hint in answer.hints()]
        if waiting and self._models.stopped is not None:
            stopped = self._models.stopped
            return hints, replace(report, stopped=stopped, unproposed=(one_line(stopped.message),))
        with self._step("proposals") as step:
            try:
                proposals = self._models.ask(lambda runtime: self._ask_for_parents(runtime, questions, step.progress))
            except LlmError as error:
                step.summary = "stopped"
                self._models.stopped = error
                known, _ = stored_answers(questions, self._store)
                hints = [hint for answer in known for hint in answer.hints()]
                return hints, replace(report, stopped=error, unproposed=(error.message,))
            step.summary = _proposal_summary(proposals)
        failed = tuple(dict.fromkeys(one_line(each.message) for each in proposals.failed))
        return proposals.hints(), replace(report, proposed=_chosen(proposals), unproposed=failed)

    def describe(self, wanted: DescriptionInput, report: DescriptionReport) -> Texts:
        """Return the descriptions of all tables that the model described in this run, or before if unchanged since."""
        facts = wanted.facts()
        known: Mapping[TableRef, Described]
        known = answers_so_far(facts, self._prompts.describe, wanted.recorded, self._store)
        waiting = [each.ref for each in facts if each.ref not in known]
        stopped = self._models.stopped
        if waiting and stopped is None:
            known, report = self._ask_about(wanted, waiting, report)
        elif waiting and stopped is not None:
            report = replace(report, stopped=stopped, failed=_failed(waiting, stopped.message))
        if report.stopped is None:
            # The answers that this run used include those that the committed record made unnecessary.
            described = {(KIND, content_hash(each, self._prompts.describe.version)) for each in facts}
            self._store.settle(self._connection, described, self._config.databases(), self._unasked)
        return list(known.values()), replace(report, described=len(known))

    def _ask_about(
        self, wanted: DescriptionInput, waiting: Sequence[TableRef], report: DescriptionReport
    ) -> tuple[Mapping[TableRef, Described], DescriptionReport]:
        facts, report = wanted.facts(wanted.texts()), replace(report, asked=len(waiting))
        with self._step("describe") as step:
            try:
                answered = self._models.ask(
                    lambda runtime: self._ask_for_texts(runtime, facts, wanted.recorded, step.progress)
                )
            except LlmError as error:
                known = answers_so_far(facts, self._prompts.describe, wanted.recorded, self._store)
                left = [ref for ref in waiting if ref not in known]
                step.summary = f"stopped with {len(left)} of {plural(len(facts), 'table')} remaining"
                self._models.stopped = error
                return known, replace(report, stopped=error, failed=_failed(left, error.message))
            step.summary = f"{plural(len(answered.tables), 'table')}, {plural(answered.calls, 'call')}"
        failed = {str(each.ref): one_line(each.message) for each in answered.failed}
        return {each.ref: each for each in answered.tables}, replace(report, failed=failed)

    async def _ask_for_parents(
        self, runtime: LlmRuntime, questions: ProposalQuestions, progress: Progress
    ) -> Proposals:
        concurrency = self._config.ingest.work_units.max_concurrency
        return await propose(runtime, questions, self._store, concurrency=concurrency, on_progress=progress)

    async def _ask_for_texts(
        self,
        runtime: LlmRuntime,
        facts: Sequence[TableContext],
        recorded: Mapping[TableRef, Described],
        progress: Progress,
    ) -> Descriptions:
        prompt, options = self._prompts.describe, self._options(progress)
        return await describe(runtime, facts, self._store, prompt=prompt, recorded=recorded, **options)

    def _options(self, progress: Progress) -> _Options:
        concurrency = self._config.ingest.work_units.max_concurrency
        return {"privacy": self._config.scan.privacy, "concurrency": concurrency, "on_progress": progress}

    def _step(self, name: str) -> ScanStep:
        return ScanStep(name, self._connection, self._emit)


def _failed(refs: Iterable[TableRef], why: str) -> dict[str, str]:
    return {str(ref): one_line(why) for ref in refs}


def _questions(given: ProposalInput, config: KtxConfig, prompts: ScanPrompts) -> ProposalQuestions:
    limits = ClusterLimits(tables=config.scan.relationships.max_llm_tables_per_batch)
    return ProposalQuestions(given.undecided, given.facts(), prompts.propose, config.scan.privacy, limits)


def _chosen(proposals: Proposals) -> int:
    return sum(each.parent is not None and bool(each.hints()) for each in proposals.answers)


def _proposal_summary(proposals: Proposals) -> str:
    columns = plural(len(proposals.answers), "undecided column")
    return f"{columns}, {plural(_chosen(proposals), 'parent')} proposed, {plural(proposals.calls, 'call')}"


class _UsageStore:
    """A store of answers that records which answers are used."""

    def __init__(self, store: StateEnrichmentStore) -> None:
        self._store = store
        self._used: set[CachedAnswer] = set()

    def get(self, kind: str, key: str) -> Any | None:
        """Implements `EnrichmentStore`."""
        self._used.add((kind, key))
        return self._store.get(kind, key)

    def put(self, kind: str, key: str, value: Any) -> None:
        """Implements `EnrichmentStore`."""
        self._used.add((kind, key))
        self._store.put(kind, key, value)

    def settle(
        self, connection: str, more: Collection[CachedAnswer], connections: Collection[str], unasked: Collection[str]
    ) -> None:
        """Record which answers a connection used in this run; `more` answers did not come from the store."""
        self._store.settle(connection, self._used | set(more), connections, unasked)


Answers = Mapping[tuple[str, str], str]
"""Kind and key -> JSON."""


def kept_answers(database: StateDatabase) -> Answers:
    """Return the model answers of earlier runs, for `read_state`."""
    rows = database.execute("SELECT kind, key, value FROM enrichment")
    return {(kind, key): value for kind, key, value in rows}


class _KeptAnswers:
    """A read-only store."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def get(self, kind: str, key: str) -> Any | None:
        """Return a stored answer, or None."""
        return json.loads(self._answers[kind, key]) if (kind, key) in self._answers else None

    def put(self, kind: str, key: str, value: Any) -> None:
        """Raise an error: a dry run stores nothing."""
        raise RuntimeError("a dry run has no answers to keep")


class Estimator:
    """The describer of a dry run, which uses earlier answers and estimates the calls that a run would make."""

    report = DescriptionReport("llm", to_ask=Estimate())

    def __init__(self, config: KtxConfig, prompts: ScanPrompts, answers: Answers) -> None:
        self._config, self._prompts, self._answers = config, prompts, answers

    @property
    def proposer(self) -> Proposer | None:
        """This estimator, unless the settings forbid proposals."""
        return self if self._config.scan.relationships.llm_proposals else None

    @property
    def version(self) -> str:
        """The version of the prompt for undecided columns."""
        return self._prompts.propose.version

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[Sequence[JoinHint], DescriptionReport]:
        """Return hints of the answers of earlier runs, and estimate the calls about the other columns."""
        questions = _questions(given, self._config, self._prompts)
        known, waiting = stored_answers(questions, _KeptAnswers(self._answers))
        hints = [hint for answer in known for hint in answer.hints()]
        return hints, _with_estimate(report, estimate_proposals(questions, waiting))

    def describe(self, wanted: DescriptionInput, report: DescriptionReport) -> Texts:
        """Return the texts from earlier runs."""
        facts, prompt = wanted.facts(), self._prompts.describe
        known = answers_so_far(facts, prompt, wanted.recorded, _KeptAnswers(self._answers))
        if len(known) < len(facts):
            more = estimate(wanted.facts(wanted.texts()), known, prompt=prompt, privacy=self._config.scan.privacy)
            report = _with_estimate(report, more)
        return list(known.values()), replace(report, described=len(known))


def _with_estimate(report: DescriptionReport, more: Estimate) -> DescriptionReport:
    return replace(report, to_ask=(report.to_ask or Estimate()) + more)
