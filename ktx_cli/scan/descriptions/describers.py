"""A connection's describers, which also propose joins: rules, the model, and the estimator for a dry run.

An error that ends all model calls (no session, a limit, a budget) ends them for the whole run. Earlier answers are kept
in the state database and in the commit, and the next run requests the rest.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

from ktx_cli.core import Emit, KtxError, one_line, plural
from ktx_cli.llm import LlmError
from ktx_cli.project import CachedAnswer, KtxConfig, Layout, Privacy, StateEnrichmentStore
from ktx_cli.scan.descriptions.batches import estimated_tokens
from ktx_cli.scan.descriptions.facts import Described, DescriptionReport, Estimate, content_hash
from ktx_cli.scan.descriptions.model import KIND, Descriptions, Progress, answers_so_far, describe, estimate
from ktx_cli.scan.descriptions.rules import describe_by_rules
from ktx_cli.scan.relationships.hints import FixedHints
from ktx_cli.scan.relationships.proposals import Proposals, propose, proposed_hints
from ktx_cli.scan.stages import Failures, ScanPrompts, ScanStep, Stage, unexpected
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.llm import LlmRuntime
    from ktx_cli.scan.descriptions.facts import DescriptionInput, ProposalInput, TableContext, Texts

Answer = TypeVar("Answer")


class ModelAccess(Protocol):
    """Makes the model calls of one run. `stopped`: the error after which it makes no more calls."""

    stopped: KtxError | None

    def ask(self, question: Callable[[LlmRuntime], Coroutine[Any, Any, Answer]]) -> Answer:
        """Return the model's answer."""


class RuleDescriber:
    """Describes tables by rules, and proposes the joins that earlier scans recorded."""

    report = DescriptionReport("deterministic")

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[FixedHints, DescriptionReport]:
        """Return the recorded proposals."""
        return given.recorded(), report

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
    """Describes tables and proposes joins with the model, except where earlier answers are still valid."""

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

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[FixedHints, DescriptionReport]:
        """Return the model's proposals, and those of earlier scans if some calls failed."""
        kept = given.recorded().fixed
        if not self._config.scan.relationships.llm_proposals or not given.tables:
            return FixedHints(kept), report
        if self._models.stopped is not None:
            stopped = self._models.stopped
            return FixedHints(kept), replace(report, stopped=stopped, unproposed=(one_line(stopped.message),))
        facts = given.facts()
        with self._step("proposals") as step:
            try:
                proposals = self._models.ask(lambda runtime: self._ask_for_joins(runtime, facts, step.progress))
            except LlmError as error:
                step.summary = "stopped"
                self._models.stopped = error
                return FixedHints(kept), replace(report, stopped=error, unproposed=(error.message,))
            step.summary = _proposal_summary(proposals)
        failed = tuple(dict.fromkeys(one_line(each.message) for each in proposals.failed))
        hints = FixedHints((*proposed_hints(proposals.joins), *(kept if proposals.failed else ())))
        return hints, replace(report, proposed=len(proposals.joins), unproposed=failed)

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
            self._store.settle(self._connection, described, self._config.databases())
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

    async def _ask_for_joins(self, runtime: LlmRuntime, facts: Sequence[TableContext], progress: Progress) -> Proposals:
        tables, options = self._config.scan.relationships.max_llm_tables_per_batch, self._options(progress)
        return await propose(
            runtime, facts, self._store, prompt=self._prompts.propose, tables_per_batch=tables, **options
        )

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


def _proposal_summary(proposals: Proposals) -> str:
    several = sum(len(each.join.child_columns) > 1 for each in proposals.joins)
    note = f", {several} of several columns not answered" if several else ""
    return f"{plural(len(proposals.joins), 'join')} proposed{note}, {plural(proposals.calls, 'call')}"


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

    def settle(self, connection: str, more: Collection[CachedAnswer], connections: Collection[str]) -> None:
        """Record which answers a connection used in this run; `more` answers did not come from the store."""
        self._store.settle(connection, self._used | set(more), connections)


Answers = Mapping[tuple[str, str], str]
"""Kind and key -> JSON."""


def kept_answers(database: sqlite3.Connection) -> Answers:
    """Return the model answers of earlier runs, for `read_state`."""
    rows = database.execute("SELECT kind, key, value FROM enrichment")
    return {(kind, key): value for kind, key, value in rows}


class _KeptAnswers:
    """A read-only store. `default`: the result for a missing answer. `missed`: the number of missing answers."""

    def __init__(self, answers: Answers, default: Any = None) -> None:
        self._answers = answers
        self._default = default
        self.missed = 0

    def get(self, kind: str, key: str) -> Any | None:
        """Return a stored answer."""
        if (kind, key) in self._answers:
            return json.loads(self._answers[kind, key])
        self.missed += 1
        return self._default

    def put(self, kind: str, key: str, value: Any) -> None:
        """Raise an error: a dry run stores nothing."""
        raise RuntimeError("a dry run has no answers to keep")


class Estimator:
    """The describer of a dry run, which uses earlier answers and estimates the calls that a run would make."""

    report = DescriptionReport("llm", to_ask=Estimate())

    def __init__(self, layout: Layout, config: KtxConfig, prompts: ScanPrompts, answers: Answers) -> None:
        self._layout, self._config, self._prompts, self._answers = layout, config, prompts, answers

    def propose(self, given: ProposalInput, report: DescriptionReport) -> tuple[FixedHints, DescriptionReport]:
        """Return the proposals from earlier runs."""
        if not self._config.scan.relationships.llm_proposals:
            return given.recorded(), report
        facts = given.facts()
        store = _KeptAnswers(self._answers, default=[])
        kept = asyncio.run(self._kept_proposals(facts, store))
        if not store.missed:
            return FixedHints(proposed_hints(kept.joins)), report
        hints = FixedHints((*proposed_hints(kept.joins), *given.recorded().fixed))
        return hints, _with_estimate(report, self._questions(facts, store.missed, kept.reused))

    async def _kept_proposals(self, facts: Sequence[TableContext], store: _KeptAnswers) -> Proposals:
        """Return the stored proposals. No call is made, because the store returns a default for missing answers."""
        from ktx_cli.llm import create_runtime

        async with create_runtime(self._config, self._layout.root, {}) as runtime:
            return await propose(
                runtime,
                facts,
                store,
                prompt=self._prompts.propose,
                privacy=self._config.scan.privacy,
                tables_per_batch=self._config.scan.relationships.max_llm_tables_per_batch,
            )

    def _questions(self, facts: Sequence[TableContext], missed: int, batches: int) -> Estimate:
        whole = estimate(facts, {}, prompt=self._prompts.propose, privacy=self._config.scan.privacy)
        prompt = estimated_tokens(self._prompts.propose.text)
        tokens = (whole.tokens - whole.calls * prompt) * missed // batches
        return Estimate(0, missed, tokens + missed * prompt)

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
