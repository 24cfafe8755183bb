"""Descriptions and proposals of one connection: by rules, by the model, or in a dry run what the model would be asked.

An error that ends all questions (no session, a limit, a budget) ends them for the whole run; what was answered before
is kept, in the state database and in the commit, and the next run asks for the rest.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ktx_cli.core import Emit, KtxError, StepFinished, StepProgress, StepStarted, monotonic, one_line, plural
from ktx_cli.engine.base import Run
from ktx_cli.engine.models import Models
from ktx_cli.engine.plan import Depth, Prompts
from ktx_cli.engine.report import Enrich, Enriched
from ktx_cli.llm import LlmError, create_runtime
from ktx_cli.project import CachedAnswer, KtxConfig, Layout, StateEnrichmentStore
from ktx_cli.scan import KIND as DESCRIPTION
from ktx_cli.scan import (
    Described,
    Descriptions,
    Estimate,
    Failures,
    GivenHints,
    Knowledge,
    Proposals,
    Seen,
    Stage,
    TableFacts,
    TableProfile,
    answers_so_far,
    content_hash,
    describe,
    describe_by_rules,
    estimate,
    estimated_tokens,
    gather_facts,
    propose,
    proposed_hints,
    recorded_hints,
    unexpected,
)
from ktx_cli.warehouses import Table, TableRef


class ByRules:
    """Describes by rules; proposes what an earlier scan had from the model."""

    def __init__(self) -> None:
        self.report = Enriched("deterministic")

    def propose(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        """Return what is recorded."""
        return GivenHints(recorded_hints(record))

    def describe(self, seen: Seen) -> Sequence[Described]:
        """Return what the rules say of every table; one whose rows could not be read now keeps its text."""
        failures, found = Failures(), []
        for facts in seen.facts():
            with failures.stage(Stage.DESCRIPTIONS, facts.ref):
                found.append(_by_rules(facts, seen.recorded.get(facts.ref)))
        self.report.described = len(found)
        self.report.failed = {str(each.table): unexpected(each.error) for each in failures.found()}
        return found


def _by_rules(facts: TableFacts, recorded: Described | None) -> Described:
    described = describe_by_rules(facts)
    unread = facts.profile is None or facts.profile.problem is not None
    if unread and recorded is not None and (recorded.source, recorded.hash) == ("rules", described.hash):
        return recorded
    return described


class ByModel:
    """Asks the model, for what no earlier answer is kept of."""

    def __init__(
        self,
        connection: str,
        config: KtxConfig,
        prompts: Prompts,
        store: StateEnrichmentStore,
        models: Models,
        emit: Emit,
    ) -> None:
        self.report = Enriched("llm")
        self._connection = connection
        self._config = config
        self._prompts = prompts
        self._kept = store
        self._store = _NotedStore(store)
        self._models = models
        self._emit = emit

    def propose(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        """Return the model's proposals; with those of earlier scans where not all of it was answered."""
        kept = recorded_hints(record)
        if not self._config.scan.relationships.llm_proposals or not tables:
            return GivenHints(kept)
        if self._models.stopped is not None:
            self._stop(self._models.stopped)
            self.report.unproposed = (one_line(self._models.stopped.message),)
            return GivenHints(kept)
        facts = gather_facts(tables, profiles={profile.ref: profile for profile in told})
        with self._step("proposals") as step:
            try:
                found = self._ask_for_joins(facts, step.progress)
            except LlmError as error:
                self._stop(error)
                self.report.unproposed = (error.message,)
                step.summary = "stopped"
                return GivenHints(kept)
            step.summary = _said(found)
        self.report.proposed = len(found.joins)
        self.report.unproposed = tuple(dict.fromkeys(one_line(each.message) for each in found.failed))
        return GivenHints((*proposed_hints(found.joins), *(kept if found.failed else ())))

    def describe(self, seen: Seen) -> Sequence[Described]:
        """Return the texts of all tables the model ever answered about as they are now."""
        facts = seen.facts()
        known: Mapping[TableRef, Described]
        known = answers_so_far(facts, self._prompts.describe, seen.recorded, self._store)
        waiting = [each.ref for each in facts if each.ref not in known]
        if waiting and self._models.stopped is None:
            known = self._described(seen, waiting)
        elif waiting and self._models.stopped is not None:
            self._stop(self._models.stopped)
            self._fail(waiting, self._models.stopped.message)
        self.report.described = len(known)
        if self.report.stopped is None:
            self._settle(facts)
        return list(known.values())

    def _settle(self, facts: Sequence[TableFacts]) -> None:
        """Say which answers this run used, those too that the committed record made unnecessary."""
        described = {(DESCRIPTION, content_hash(each, self._prompts.describe.version)) for each in facts}
        self._kept.settle(self._connection, self._store.used | described, self._config.databases())

    def _described(self, seen: Seen, waiting: Sequence[TableRef]) -> Mapping[TableRef, Described]:
        facts, prompt = seen.facts(seen.texts()), self._prompts.describe
        self.report.asked = len(waiting)
        with self._step("describe") as step:
            try:
                found = self._ask_for_texts(facts, seen, step.progress)
            except LlmError as error:
                known = answers_so_far(facts, prompt, seen.recorded, self._store)
                self._stop(error)
                self._fail((ref for ref in waiting if ref not in known), error.message)
                step.summary = f"stopped: {len(self.report.failed)} of {plural(len(facts), 'table')} left"
                return known
            for each in found.failed:
                self._fail([each.ref], each.message)
            step.summary = f"{plural(len(found.tables), 'table')}, {plural(found.calls, 'call')}"
        return {each.ref: each for each in found.tables}

    def _ask_for_joins(self, facts: Sequence[TableFacts], progress: Callable[[int, int], None]) -> Proposals:
        return self._models.ask(
            lambda runtime: propose(
                runtime,
                facts,
                self._store,
                prompt=self._prompts.propose,
                privacy=self._config.scan.privacy,
                tables_per_batch=self._config.scan.relationships.max_llm_tables_per_batch,
                concurrency=self._config.ingest.work_units.max_concurrency,
                on_progress=progress,
            )
        )

    def _ask_for_texts(
        self, facts: Sequence[TableFacts], seen: Seen, progress: Callable[[int, int], None]
    ) -> Descriptions:
        return self._models.ask(
            lambda runtime: describe(
                runtime,
                facts,
                self._store,
                prompt=self._prompts.describe,
                privacy=self._config.scan.privacy,
                concurrency=self._config.ingest.work_units.max_concurrency,
                recorded=seen.recorded,
                on_progress=progress,
            )
        )

    def _stop(self, error: KtxError) -> None:
        self._models.stopped = self.report.stopped = error

    def _fail(self, refs: Iterable[TableRef], why: str) -> None:
        self.report.failed |= {str(ref): one_line(why) for ref in refs}

    def _step(self, name: str) -> _Step:
        return _Step(name, self._connection, self._emit)


class _NotedStore:
    """The store, and what of it was asked for or put."""

    def __init__(self, store: StateEnrichmentStore) -> None:
        self._store = store
        self.used: set[CachedAnswer] = set()

    def get(self, kind: str, key: str) -> Any | None:
        """See `EnrichmentStore`."""
        self.used.add((kind, key))
        return self._store.get(kind, key)

    def put(self, kind: str, key: str, value: Any) -> None:
        """See `EnrichmentStore`."""
        self.used.add((kind, key))
        self._store.put(kind, key, value)


class _Step:
    """The events of one step."""

    def __init__(self, name: str, connection: str, emit: Emit) -> None:
        self._name, self._connection, self._emit = name, connection, emit
        self._started = monotonic()
        self.summary = ""

    def progress(self, done: int, total: int) -> None:
        """Tell how far it is."""
        self._emit(StepProgress(self._name, done, total, self._connection))

    def __enter__(self) -> _Step:
        self._emit(StepStarted(self._name, self._connection))
        return self

    def __exit__(self, *exc: object) -> None:
        if exc[0] is None:
            seconds = monotonic() - self._started
            self._emit(StepFinished(self._name, self.summary, seconds, self._connection))


def _said(found: Proposals) -> str:
    several = sum(len(each.join.child_columns) > 1 for each in found.joins)
    note = f", {several} of several columns left out" if several else ""
    return f"{plural(len(found.joins), 'join')} proposed{note}, {plural(found.calls, 'call')}"


def enriched(run: Run, models: Models, database: sqlite3.Connection) -> Enrich:
    """Return what makes the descriptions of each connection; answers are kept in `database`."""
    prompts = run.prompts
    if prompts is None:
        return _without_a_model(run)

    store = StateEnrichmentStore(run.layout, database)
    return lambda connection: ByModel(connection, run.config, prompts, store, models, run.request.emit)


def foretold(run: Run, answers: Answers) -> Enrich:
    """Return what tells of each connection what a run would ask; `answers`: those of earlier runs."""
    prompts = run.prompts
    if prompts is None:
        return _without_a_model(run)

    return lambda connection: Foretold(run.layout, run.config, prompts, answers)


def _without_a_model(run: Run) -> Enrich:
    if run.depth is not Depth.ENRICHED:
        return lambda connection: None

    return lambda connection: ByRules()


Answers = Mapping[tuple[str, str], str]
"""Kind and key -> JSON."""


def kept_answers(database: sqlite3.Connection) -> Answers:
    """Return what models have answered to earlier runs, for `read_state`."""
    rows = database.execute("SELECT kind, key, value FROM enrichment")
    return {(kind, key): value for kind, key, value in rows}


class _KeptAnswers:
    """A store that only reads. `blank`: what it says in place of an answer it has not; `missed` counts these."""

    def __init__(self, answers: Answers, blank: Any = None) -> None:
        self._answers = answers
        self._blank = blank
        self.missed = 0

    def get(self, kind: str, key: str) -> Any | None:
        """Return a kept answer."""
        if (kind, key) in self._answers:
            return json.loads(self._answers[kind, key])
        self.missed += 1
        return self._blank

    def put(self, kind: str, key: str, value: Any) -> None:
        """Refuse: a dry run keeps nothing."""
        raise RuntimeError("a dry run has no answers to keep")


class Foretold:
    """Takes what was answered before, and counts what a run would ask."""

    def __init__(self, layout: Layout, config: KtxConfig, prompts: Prompts, answers: Answers) -> None:
        self.report = Enriched("llm", to_ask=Estimate())
        self._layout = layout
        self._config = config
        self._prompts = prompts
        self._answers = answers

    def propose(self, tables: Sequence[Table], told: Sequence[TableProfile], record: Knowledge) -> GivenHints:
        """Return the proposals of earlier runs."""
        if not self._config.scan.relationships.llm_proposals:
            return GivenHints(recorded_hints(record))
        facts = gather_facts(tables, profiles={profile.ref: profile for profile in told})
        store = _KeptAnswers(self._answers, blank=[])
        found = asyncio.run(self._answered(facts, store))
        if not store.missed:
            return GivenHints(proposed_hints(found.joins))
        self._count(self._questions(facts, store.missed, found.reused))
        return GivenHints((*proposed_hints(found.joins), *recorded_hints(record)))

    async def _answered(self, facts: Sequence[TableFacts], store: _KeptAnswers) -> Proposals:
        """Return the kept proposals; the runtime is there and not asked, for the store has an answer to everything."""
        async with create_runtime(self._config, self._layout.root, {}) as runtime:
            return await propose(
                runtime,
                facts,
                store,
                prompt=self._prompts.propose,
                privacy=self._config.scan.privacy,
                tables_per_batch=self._config.scan.relationships.max_llm_tables_per_batch,
            )

    def _questions(self, facts: Sequence[TableFacts], missed: int, batches: int) -> Estimate:
        whole = estimate(facts, {}, prompt=self._prompts.propose, privacy=self._config.scan.privacy)
        prompt = estimated_tokens(self._prompts.propose.text)
        tokens = (whole.tokens - whole.calls * prompt) * missed // batches
        return Estimate(0, missed, tokens + missed * prompt)

    def describe(self, seen: Seen) -> Sequence[Described]:
        """Return the texts of earlier runs."""
        facts, prompt = seen.facts(), self._prompts.describe
        known = answers_so_far(facts, prompt, seen.recorded, _KeptAnswers(self._answers))
        if len(known) < len(facts):
            self._count(estimate(seen.facts(seen.texts()), known, prompt=prompt, privacy=self._config.scan.privacy))
        self.report.described = len(known)
        return list(known.values())

    def _count(self, more: Estimate) -> None:
        self.report.to_ask = (self.report.to_ask or Estimate()) + more
