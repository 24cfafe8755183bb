"""A dry run's descriptions and proposals: no model is asked, nothing is kept, what a run would ask is told."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ktx_cli.connectors.port import Table
from ktx_cli.context.scan.describe.describe import answers_so_far
from ktx_cli.context.scan.describe.estimating import Estimate, estimate
from ktx_cli.context.scan.describe.facts import Described, TableFacts, gather_facts
from ktx_cli.context.scan.describe.rendering import estimated_tokens
from ktx_cli.context.scan.knowledge import Knowledge
from ktx_cli.context.scan.looks import Seen
from ktx_cli.context.scan.profiling.model import TableProfile
from ktx_cli.context.scan.proposed import GivenHints, proposed_hints, recorded_hints
from ktx_cli.context.scan.relationships.proposals import Proposals, propose
from ktx_cli.jobs.ingest.enriched import Enriched
from ktx_cli.jobs.ingest.prompts import Prompts
from ktx_cli.llm.factory import create_runtime
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

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
