"""Joins that the model proposes: the calls, the form of its answers, and the checks of each proposal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.core import one_line
from ktx_cli.llm import LlmError, LlmRuntime
from ktx_cli.privacy import ValueKind
from ktx_cli.project import EnrichmentStore, Privacy
from ktx_cli.prompts import Prompt
from ktx_cli.scan.descriptions.batches import (
    Labels,
    column_json,
    column_labels,
    estimated_tokens,
    message,
    table_head,
    table_json,
    table_labels,
)
from ktx_cli.scan.descriptions.facts import Join, TableContext, join_order, sha256_of, structure_hash
from ktx_cli.scan.descriptions.model import ROLE, Progress, error_of, ignore_progress, side_by_side
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.scan.relationships.hints import JoinHint
from ktx_cli.scan.relationships.names import key_base, stem, table_words, tokens
from ktx_cli.scan.relationships.record import MODEL_SOURCE
from ktx_cli.warehouses import SemanticType, Table, TableRef, ref_order

_COMPARABLE: Final = frozenset({ValueKind.INTEGER, ValueKind.NUMBER, ValueKind.TEXT, ValueKind.TIME})


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JoinAnswer(_Answer):
    """One proposal: `child_columns` refer to `parent_columns`, in the same order."""

    child: str = Field(max_length=300)
    child_columns: list[str] = Field(min_length=1, max_length=8)
    parent: str = Field(max_length=300)
    parent_columns: list[str] = Field(min_length=1, max_length=8)
    confidence: float = Field(ge=0, le=1)
    rationale: str = Field(max_length=400)


class JoinsAnswer(_Answer):
    """The answer of one call."""

    joins: list[JoinAnswer] = Field(max_length=1000)


@dataclass(frozen=True, slots=True)
class ProposedJoin:
    """A join that the model proposes, with its own `confidence`, 0 to 1."""

    join: Join
    confidence: float
    rationale: str


def problem(join: Join, facts: Mapping[TableRef, TableContext]) -> str | None:
    """Return why a proposal cannot be a new join, or None if it can."""
    child, parent = facts[join.child], facts[join.parent]
    if len(join.child_columns) != len(join.parent_columns):
        return f"{len(join.child_columns)} columns cannot refer to {len(join.parent_columns)}"
    if any(len(set(columns)) < len(columns) for columns in (join.child_columns, join.parent_columns)):
        return "a column appears twice"
    if join.child == join.parent and set(join.child_columns) & set(join.parent_columns):
        return "a column would refer to itself"
    if identity(join) in {identity(known) for known in child.joins_out}:
        return "the join is already known"
    pairs = zip(join.child_columns, join.parent_columns, strict=True)
    return next((reason for own, other in pairs if (reason := _mismatch(child, own, parent, other))), None)


def _mismatch(child: TableContext, own: str, parent: TableContext, other: str) -> str | None:
    """Return why two columns cannot be compared, from the kinds of their values or else from their declared types."""
    types = _type(child, own), _type(parent, other)
    if SemanticType.BOOLEAN in types:
        return "a flag cannot be a reference"
    seen = _seen(child.column_profiles().get(own)), _seen(parent.column_profiles().get(other))
    if None not in seen:
        return None if seen[0] == seen[1] else f"{own} holds {seen[0]}, {other} holds {seen[1]}"
    return None if types[0] == types[1] else f"{own} is of type {types[0]}, {other} of type {types[1]}"


def _type(facts: TableContext, name: str) -> SemanticType:
    return next(column.type for column in facts.table.columns if column.name == name)


def _seen(profile: ColumnProfile | None) -> str | None:
    """Return the kind of a column's values, with all numbers alike, or None if it is unknown or not comparable."""
    if profile is None or profile.kind not in _COMPARABLE:
        return None
    return "numbers" if profile.kind in (ValueKind.INTEGER, ValueKind.NUMBER) else f"{profile.kind.value}s"


def identity(join: Join) -> Any:
    """Return the identity of a join: its columns, regardless of their order."""
    own, theirs = join.child_columns, join.parent_columns
    return join.child, join.parent, len(own), len(theirs), frozenset(zip(own, theirs, strict=False))


def to_json(proposal: ProposedJoin) -> list[Any]:
    """Return the stored form of a proposal."""
    join = proposal.join
    ends = [
        [join.child.schema, join.child.name, *join.child_columns],
        [join.parent.schema, join.parent.name, *join.parent_columns],
    ]
    return [*ends, proposal.confidence, proposal.rationale]


def from_json(value: Any) -> list[ProposedJoin] | None:
    """Return stored proposals, or None for an invalid value."""
    try:
        return None if value is None else [_proposal(*each) for each in value]
    except (TypeError, ValueError):
        return None


def _proposal(child: list[Any], parent: list[Any], confidence: float, rationale: str) -> ProposedJoin:
    (schema, name, *own), (other_schema, other_name, *theirs) = child, parent
    join = Join(TableRef(schema, name), tuple(own), TableRef(other_schema, other_name), tuple(theirs))
    return ProposedJoin(join, float(confidence), str(rationale))


PARENTS_PER_COLUMN: Final = 3
PARENTS_PER_TABLE: Final = 12
"""The number of tables that the name of one column, and the names of all columns of a table, may refer to."""

SHARED: Final = 0.5
"""The minimum share of common words in the names of a column and of a table that it may refer to."""

COMMON: Final = 100
"""A word in the names of more tables than this is ignored."""

LOOK_BACK: Final = 50
"""The number of unfinished batches that a group may still join."""

Batch = tuple[TableRef, ...]


def likely_parents(tables: Iterable[Table]) -> dict[TableRef, tuple[TableRef, ...]]:
    """Return table -> the other tables that its columns may refer to by name, likeliest first.

    A column refers to the tables whose names share most words with its own (without `id`, `key` ...): at least half of
    the words, or all if its name does not mean a key. It also refers to tables with a key column of the same name.
    """
    ordered = sorted(tables, key=lambda table: ref_order(table.ref))
    words_of = table_words(table.ref.name for table in ordered)
    stems = {table.ref: frozenset(map(stem, words_of[table.ref.name])) for table in ordered}
    by_word: dict[str, list[TableRef]] = defaultdict(list)
    by_key: dict[str, list[TableRef]] = defaultdict(list)
    for table in ordered:
        for word in stems[table.ref]:
            by_word[word].append(table.ref)
        for name in _key_columns(table):
            by_key[name].append(table.ref)
    return {table.ref: _parents(table, stems, by_word, by_key) for table in ordered}


def _key_columns(table: Table) -> set[str]:
    names = {name for key in (table.primary_key, *(key.columns for key in table.unique_keys)) for name in key}
    return {name.casefold() for name in names if key_base(tokens(name))[0]}


def _parents(
    table: Table,
    stems: Mapping[TableRef, frozenset[str]],
    by_word: Mapping[str, Sequence[TableRef]],
    by_key: Mapping[str, Sequence[TableRef]],
) -> tuple[TableRef, ...]:
    best: dict[TableRef, float] = {}
    for column in table.columns:
        base, keyed = key_base(tokens(column.name))
        stemmed, least = frozenset(map(stem, base)), SHARED if keyed else 1.0
        found = dict.fromkeys(_rare(by_key.get(column.name.casefold(), ())), 1.0)
        for ref in {ref for word in stemmed for ref in _rare(by_word.get(word, ()))}:
            found.setdefault(ref, len(stemmed & stems[ref]) / len(stemmed | stems[ref]))
        least = max([least, *(score for ref, score in found.items() if ref != table.ref)])
        likely = {ref: score for ref, score in found.items() if score >= least and ref != table.ref}
        for ref in _ranked(likely, table.ref)[:PARENTS_PER_COLUMN]:
            best[ref] = max(best.get(ref, 0.0), found[ref])
    return tuple(_ranked(best, table.ref)[:PARENTS_PER_TABLE])


def _rare(refs: Sequence[TableRef]) -> Sequence[TableRef]:
    return refs if len(refs) <= COMMON else ()


def _ranked(scores: Mapping[TableRef, float], near: TableRef) -> list[TableRef]:
    return sorted(scores, key=lambda ref: (-scores[ref], ref.schema != near.schema, ref_order(ref)))


def plan_batches(
    sizes: Mapping[TableRef, int], parents: Mapping[TableRef, Sequence[TableRef]], *, tables: int, tokens: int
) -> list[Batch]:
    """Return batches of at most `tables` tables and `tokens` estimated tokens (`sizes`).

    Every table is in a batch with each of its `parents`, if `tables` is at least 2. Only a table alone, or with one
    parent, may exceed `tokens`.
    """
    batches: list[set[TableRef]] = []
    together: dict[TableRef, set[TableRef]] = {ref: set() for ref in sizes}
    for ref in sorted(sizes, key=ref_order):
        wanted = [parent for parent in parents.get(ref, ()) if parent in sizes and parent not in together[ref]]
        if together[ref] and not wanted:
            continue
        for group in _groups(ref, wanted, sizes, tables=tables, tokens=tokens):
            batch = _placed(group, batches, sizes, tables=tables, tokens=tokens)
            for each in group:
                together[each] |= batch
    return [tuple(sorted(batch, key=ref_order)) for batch in batches]


def _groups(
    ref: TableRef, parents: Sequence[TableRef], sizes: Mapping[TableRef, int], *, tables: int, tokens: int
) -> list[set[TableRef]]:
    """Return a table with its parents, in several groups if they do not fit into one."""
    groups: list[set[TableRef]] = [{ref}]
    taken = sizes[ref]
    for parent in parents if tables > 1 else ():
        if len(groups[-1]) > 1 and (len(groups[-1]) >= tables or taken + sizes[parent] > tokens):
            groups.append({ref})
            taken = sizes[ref]
        groups[-1].add(parent)
        taken += sizes[parent]
    return groups


def _placed(
    group: set[TableRef], batches: list[set[TableRef]], sizes: Mapping[TableRef, int], *, tables: int, tokens: int
) -> set[TableRef]:
    """Add a group to the batch with room that has most in common with it, or to a new one, and return that batch."""
    fitting = [
        batch
        for batch in batches[-LOOK_BACK:]
        if len(batch | group) <= tables and sum(sizes[ref] for ref in batch | group) <= tokens
    ]
    if not fitting:
        batches.append(set(group))
        return batches[-1]
    best = max(fitting, key=lambda batch: len(batch & group))
    best |= group
    return best


KIND: Final = "joins"
"""The kind of these answers in the store."""

BATCH_TOKENS: Final = 40_000
"""The estimated tokens of one message, excluding the prompt."""

SMALLEST: Final = 2
"""A batch with this many tables is not split: a join needs two."""


@dataclass(frozen=True, slots=True)
class DroppedJoin:
    """A proposal that cannot be a new join, with the reason in one line."""

    proposal: ProposedJoin
    reason: str


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """A batch whose call failed, with the code and message of the `LlmError`."""

    tables: Batch
    code: str
    message: str


@dataclass(slots=True)
class Proposals:
    """The sorted result of `propose`. `unknown`: the number of proposals with an unknown name.

    `reused`: the number of batches from the store. `calls`: the number of model calls.
    """

    joins: tuple[ProposedJoin, ...] = ()
    dropped: tuple[DroppedJoin, ...] = ()
    failed: tuple[FailedBatch, ...] = ()
    unknown: int = 0
    reused: int = 0
    calls: int = 0


async def propose(
    runtime: LlmRuntime,
    facts: Sequence[TableContext],
    store: EnrichmentStore,
    *,
    prompt: Prompt,
    privacy: Privacy,
    tables_per_batch: int = 40,
    concurrency: int = 4,
    on_progress: Progress = ignore_progress,
) -> Proposals:
    """Return the joins that the model proposes for all tables. Batches with a stored answer need no call.

    An error of one call affects only its batch, which is retried once in smaller ones; any other `LlmError` is raised
    when no call is running.
    """
    run = _ProposalRun(runtime, store, prompt, privacy, {each.ref: each for each in facts}, on_progress)
    batches = run.plan(run.facts, tables=tables_per_batch, tokens=BATCH_TOKENS)
    run.total = len(batches)
    on_progress(0, run.total)
    await side_by_side(batches, run.work, concurrency)
    return run.outcome()


@dataclass(slots=True)
class _ProposalRun:
    """The model calls of one `propose`."""

    runtime: LlmRuntime
    store: EnrichmentStore
    prompt: Prompt
    privacy: Privacy
    facts: Mapping[TableRef, TableContext]
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
        """Return the proposals of a batch. If only its call fails, return those of smaller batches."""
        error = await error_of(self._ask(batch))
        if error is not None and len(batch) > SMALLEST:
            for smaller in self._smaller(batch):
                self._note(smaller, await error_of(self._ask(smaller)))
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
        """Return a proposal with the names in the database, or None if one of them is unknown."""
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
        """Return the proposals without duplicates, and separately those that cannot be joins."""
        best: dict[Any, ProposedJoin] = {}
        for each in sorted(self.proposed, key=lambda each: (-each.confidence, join_order(each.join), each.rationale)):
            best.setdefault(identity(each.join), each)
        ordered = sorted(best.values(), key=lambda each: join_order(each.join))
        reasons = [(each, problem(each.join, self.facts)) for each in ordered]
        self.result.joins = tuple(each for each, reason in reasons if reason is None)
        self.result.dropped = tuple(DroppedJoin(each, reason) for each, reason in reasons if reason is not None)
        self.result.failed = tuple(sorted(self.failed, key=lambda each: [ref_order(ref) for ref in each.tables]))
        return self.result

    def _table(self, facts: TableContext) -> str:
        labels, profiles = self.columns[facts.ref], facts.column_profiles()
        head = table_head(facts, self.labels.shown(facts.ref), labels)
        columns = [
            column_json(
                column, labels.shown(column.name), texts={}, profile=profiles.get(column.name), privacy=self.privacy
            )
            for column in facts.table.columns
        ]
        return table_json(head, columns)


def proposed_hints(proposals: Iterable[ProposedJoin]) -> tuple[JoinHint, ...]:
    """Return a hint for each proposal."""
    joins = (each.join for each in proposals)
    return tuple(JoinHint(j.child, j.child_columns, j.parent, j.parent_columns, MODEL_SOURCE) for j in joins)
