"""Joins the model proposes: batch by batch, checked for names and types, kept by content hash; rows decide later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.scan.describe.batching import Batch, likely_parents, plan_batches
from ktx_cli.context.scan.describe.calling import ROLE, error_of_call, side_by_side
from ktx_cli.context.scan.describe.describe import Progress, ignore_progress
from ktx_cli.context.scan.describe.facts import Join, TableFacts, join_order, ref_order, sha256_of, structure_hash
from ktx_cli.context.scan.describe.joins import (
    JoinAnswer,
    JoinsAnswer,
    ProposedJoin,
    from_json,
    identity,
    problem,
    to_json,
)
from ktx_cli.context.scan.describe.labels import Labels
from ktx_cli.context.scan.describe.rendering import (
    column_json,
    column_labels,
    estimated_tokens,
    message,
    table_head,
    table_json,
    table_labels,
)
from ktx_cli.core.text import one_line
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.project.config.scan import Privacy
from ktx_cli.project.enrichment_store import EnrichmentStore

KIND: Final = "joins"
"""The kind of what is kept in the store."""

BATCH_TOKENS: Final = 40_000
"""Estimated tokens of one question at most, besides the prompt."""

SMALLEST: Final = 2
"""A batch of so many tables cannot be made smaller: they would not be seen together."""


@dataclass(frozen=True, slots=True)
class DroppedJoin:
    """A proposal that cannot be a new join, and why, in one line."""

    proposal: ProposedJoin
    reason: str


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """Tables nothing was proposed for together, with the code and the words of the `LlmError` behind it."""

    tables: Batch
    code: str
    message: str


@dataclass(slots=True)
class Proposals:
    """What `propose` found, sorted. `unknown`: proposals with a name nobody was asked about. `reused`: batches from the
    store. `calls`: model calls."""

    joins: tuple[ProposedJoin, ...] = ()
    dropped: tuple[DroppedJoin, ...] = ()
    failed: tuple[FailedBatch, ...] = ()
    unknown: int = 0
    reused: int = 0
    calls: int = 0


async def propose(
    runtime: LlmRuntime,
    facts: Sequence[TableFacts],
    store: EnrichmentStore,
    *,
    prompt: Prompt,
    privacy: Privacy,
    tables_per_batch: int = 40,
    concurrency: int = 4,
    on_progress: Progress = ignore_progress,
) -> Proposals:
    """Return the joins the model proposes for all tables. A batch the store has an answer for is not asked again.

    An error of one call costs only its batch, which is tried once more in smaller ones; any other `LlmError` is raised
    when no call is under way any more.
    """
    asking = _Asking(runtime, store, prompt, privacy, {each.ref: each for each in facts}, on_progress)
    batches = asking.plan(asking.facts, tables=tables_per_batch, tokens=BATCH_TOKENS)
    asking.total = len(batches)
    on_progress(0, asking.total)
    await side_by_side(batches, asking.work, concurrency)
    return asking.outcome()


@dataclass(slots=True)
class _Asking:
    """One run of questions."""

    runtime: LlmRuntime
    store: EnrichmentStore
    prompt: Prompt
    privacy: Privacy
    facts: Mapping[TableRef, TableFacts]
    on_progress: Progress
    total: int = 0
    done: int = 0
    labels: Labels[TableRef] = field(init=False)
    columns: dict[TableRef, Labels[str]] = field(init=False)
    shown: dict[TableRef, str] = field(init=False)
    parents: Mapping[TableRef, Sequence[TableRef]] = field(init=False)
    proposed: list[ProposedJoin] = field(default_factory=list)
    failed: list[FailedBatch] = field(default_factory=list)
    result: Proposals = field(default_factory=Proposals)

    def __post_init__(self) -> None:
        self.labels = table_labels(self.facts.values())
        self.columns = {ref: column_labels(facts) for ref, facts in self.facts.items()}
        self.shown = {ref: self._table(facts) for ref, facts in self.facts.items()}
        self.parents = likely_parents(facts.table for facts in self.facts.values())

    def plan(self, refs: Sequence[TableRef] | Mapping[TableRef, Any], *, tables: int, tokens: int) -> list[Batch]:
        """Return the batches of some of the tables."""
        sizes = {ref: estimated_tokens(self.shown[ref]) for ref in refs}
        return plan_batches(sizes, self.parents, tables=tables, tokens=tokens)

    async def work(self, batch: Batch) -> None:
        """Get the proposals of a batch; where its call fails by itself, those of smaller ones."""
        error = await self._try(batch)
        if error is not None and len(batch) > SMALLEST:
            for smaller in self._smaller(batch):
                self._note(smaller, await self._try(smaller))
        else:
            self._note(batch, error)
        self.done += 1
        self.on_progress(self.done, self.total)

    def _note(self, batch: Batch, error: LlmError | None) -> None:
        if error is not None:
            self.failed.append(FailedBatch(batch, error.code, error.message))

    def _smaller(self, batch: Batch) -> list[Batch]:
        tokens = sum(estimated_tokens(self.shown[ref]) for ref in batch)
        return self.plan(batch, tables=(len(batch) + 1) // 2, tokens=tokens // 2)

    async def _try(self, batch: Batch) -> LlmError | None:
        """Ask once, unless the store has the answer; return the error where it is one of this call alone."""
        try:
            await self._ask(batch)
        except Exception as error:
            of_call = error_of_call(error)
            if of_call is None:
                raise
            return of_call
        return None

    async def _ask(self, batch: Batch) -> None:
        version = self.prompt.version
        key = sha256_of([version, [structure_hash(self.facts[ref].table, version) for ref in batch]])
        kept = from_json(self.store.get(KIND, key))
        if kept is not None:
            self.result.reused += 1
            self.proposed += kept
            return
        self.result.calls += 1
        text = message(self.shown[ref] for ref in batch)
        given = await self.runtime.generate_object(text, JoinsAnswer, system=self.prompt.text, role=ROLE)
        found = [each for each in map(self._known, given.value.joins) if each is not None]
        self.result.unknown += len(given.value.joins) - len(found)
        self.store.put(KIND, key, [to_json(each) for each in found])
        self.proposed += found

    def _known(self, answer: JoinAnswer) -> ProposedJoin | None:
        """Return a proposal with the names of the database, None where one of them is unknown."""
        child, parent = self.labels.thing(answer.child), self.labels.thing(answer.parent)
        if child is None or parent is None:
            return None
        own = [self.columns[child].thing(name) for name in answer.child_columns]
        theirs = [self.columns[parent].thing(name) for name in answer.parent_columns]
        named = tuple(name for name in own if name is not None), tuple(name for name in theirs if name is not None)
        if len(named[0]) < len(own) or len(named[1]) < len(theirs):
            return None
        return ProposedJoin(Join(child, named[0], parent, named[1]), answer.confidence, one_line(answer.rationale))

    def outcome(self) -> Proposals:
        """Return the proposals, each once, those that cannot be apart."""
        best: dict[Any, ProposedJoin] = {}
        for each in sorted(self.proposed, key=lambda each: (-each.confidence, join_order(each.join), each.rationale)):
            best.setdefault(identity(each.join), each)
        ordered = sorted(best.values(), key=lambda each: join_order(each.join))
        reasons = [(each, problem(each.join, self.facts)) for each in ordered]
        self.result.joins = tuple(each for each, reason in reasons if reason is None)
        self.result.dropped = tuple(DroppedJoin(each, reason) for each, reason in reasons if reason is not None)
        self.result.failed = tuple(sorted(self.failed, key=lambda each: [ref_order(ref) for ref in each.tables]))
        return self.result

    def _table(self, facts: TableFacts) -> str:
        labels, profiles = self.columns[facts.ref], facts.column_profiles()
        head = table_head(facts, self.labels.shown(facts.ref), labels)
        columns = [
            column_json(
                column,
                labels.shown(column.name),
                texts={},
                profile=profiles.get(column.name),
                privacy=self.privacy,
            )
            for column in facts.table.columns
        ]
        return table_json(head, columns)
