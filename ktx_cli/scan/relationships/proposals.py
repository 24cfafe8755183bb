"""Parents that the model proposes for undecided columns: the clusters, the calls, and the form of the answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.core import one_line
from ktx_cli.llm import LlmError, LlmRuntime
from ktx_cli.project import EnrichmentStore, Privacy
from ktx_cli.prompts import Prompt
from ktx_cli.scan.descriptions.batches import (
    Labels,
    column_json,
    column_labels,
    encoded,
    estimated_tokens,
    message,
    table_head,
    table_json,
    table_labels,
)
from ktx_cli.scan.descriptions.facts import Estimate, TableContext, sha256_of, structure_hash
from ktx_cli.scan.descriptions.model import ROLE, Progress, error_of, ignore_progress, side_by_side
from ktx_cli.scan.relationships.hints import JoinHint
from ktx_cli.scan.relationships.record import MODEL_REJECTED, MODEL_SOURCE
from ktx_cli.scan.relationships.undecided import Offer, UndecidedColumn
from ktx_cli.warehouses import TableRef, ref_order


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ColumnAnswer(_Answer):
    """The answer about one column. `parent`: the label of an offered key, or null if none of them is its parent."""

    column: str = Field(max_length=100)
    parent: str | None = Field(max_length=100)
    confidence: float = Field(ge=0, le=1)
    rationale: str = Field(max_length=400)


class ParentsAnswer(_Answer):
    """The answer of one call. A column that is missing stays undecided."""

    columns: list[ColumnAnswer] = Field(max_length=1000)


LEAST_CONFIDENCE: Final = 0.5
"""An answer with a lower confidence decides nothing."""


@dataclass(frozen=True, slots=True)
class ProposedParent:
    """The model's answer about a column, with its own `confidence`, 0 to 1. `parent` is None for none of the offers."""

    column: UndecidedColumn
    parent: Offer | None
    confidence: float
    rationale: str = ""

    def hints(self) -> list[JoinHint]:
        """Return a hint for the parent, or one against each key that was offered."""
        if self.confidence < LEAST_CONFIDENCE:
            return []
        offers = self.column.offers if self.parent is None else (self.parent,)
        source = MODEL_REJECTED if self.parent is None else MODEL_SOURCE
        own = (self.column.column,)
        return [JoinHint(self.column.table, own, each.parent, (each.column,), source) for each in offers]


def to_json(answer: ProposedParent) -> list[Any]:
    """Return the stored form of an answer."""
    parent = answer.parent
    ends = None if parent is None else [parent.parent.schema, parent.parent.name, parent.column]
    return [ends, answer.confidence, answer.rationale]


def from_json(column: UndecidedColumn, value: Any) -> ProposedParent | None:
    """Return a stored answer about a column, or None for an invalid value."""
    try:
        ends, confidence, rationale = value
        offers = {(each.parent.schema, each.parent.name, each.column): each for each in column.offers}
        parent = None if ends is None else offers[tuple(ends)]
        return ProposedParent(column, parent, float(confidence), str(rationale))
    except (TypeError, ValueError, KeyError):
        return None


KIND: Final = "parents"
"""The kind of these answers in the store."""

CLUSTER_TOKENS: Final = 12_000
"""The estimated tokens of one message, excluding the prompt."""

CLUSTER_COLUMNS: Final = 60
"""The number of columns in one call, so that its answer stays short."""

LOOK_BACK: Final = 50
"""The number of unfinished clusters that further columns may still join."""

SHOWN_COLUMNS: Final = 12
"""The number of columns of a table that the model sees, unless more of them are undecided, offered or keys."""

Cluster = tuple[UndecidedColumn, ...]
"""The columns of one call."""


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """The limits of one call: its tables, estimated tokens and columns. Only a single column may exceed them."""

    tables: int = 40
    tokens: int = CLUSTER_TOKENS
    columns: int = CLUSTER_COLUMNS


def plan_clusters(
    tokens: Mapping[UndecidedColumn, int], tables: Mapping[TableRef, int], limits: ClusterLimits
) -> list[Cluster]:
    """Return the clusters. Every column is in exactly one.

    Columns of the same name stay together, since `created_by` has the same parent in eighty tables; then columns whose
    tables are in the cluster anyway join it. `tokens`, `tables`: the estimated tokens of each column and table.
    """

    def new(columns: Sequence[UndecidedColumn]) -> _OpenCluster:
        shown = {ref for column in columns for ref in tables_of(column)}
        size = sum(tokens[column] for column in columns) + sum(tables[ref] for ref in shown)
        return _OpenCluster(list(columns), shown, size)

    def fits(cluster: _OpenCluster, part: _OpenCluster) -> bool:
        size = cluster.size + part.size - sum(tables[ref] for ref in cluster.shown & part.shown)
        many = len(cluster.columns) + len(part.columns) > limits.columns
        return size <= limits.tokens and not many and len(cluster.shown | part.shown) <= limits.tables

    def join(cluster: _OpenCluster, part: _OpenCluster) -> None:
        cluster.size += part.size - sum(tables[ref] for ref in cluster.shown & part.shown)
        cluster.shown |= part.shown
        cluster.columns += part.columns

    clusters: list[_OpenCluster] = []
    for group in _namesakes(tokens):
        parts: list[_OpenCluster] = []
        for column in group:
            single = new([column])
            if parts and fits(parts[-1], single):
                join(parts[-1], single)
            else:
                parts.append(single)
        for part in parts:
            fitting = [each for each in clusters[-LOOK_BACK:] if fits(each, part)]
            if fitting:
                join(max(fitting, key=lambda each: len(each.shown & part.shown)), part)
            else:
                clusters.append(part)
    return [tuple(cluster.columns) for cluster in clusters]


@dataclass(slots=True)
class _OpenCluster:
    """A cluster that columns may still join. `shown`: its tables. `size`: its estimated tokens."""

    columns: list[UndecidedColumn]
    shown: set[TableRef]
    size: int


def _namesakes(columns: Iterable[UndecidedColumn]) -> list[list[UndecidedColumn]]:
    groups: dict[str, list[UndecidedColumn]] = defaultdict(list)
    for column in sorted(columns, key=_order):
        groups[column.column.casefold()].append(column)
    return list(groups.values())


def tables_of(column: UndecidedColumn) -> set[TableRef]:
    """Return the tables that the question about a column shows."""
    return {column.table, *(offer.parent for offer in column.offers)}


def _order(column: UndecidedColumn) -> tuple[Any, ...]:
    return column.column.casefold(), ref_order(column.table), column.column


@dataclass(slots=True)
class ProposalQuestions:
    """The questions about undecided columns, in the form in which the model sees them."""

    undecided: Sequence[UndecidedColumn]
    facts: Mapping[TableRef, TableContext]
    prompt: Prompt
    privacy: Privacy
    limits: ClusterLimits = ClusterLimits()
    labels: Labels[TableRef] = field(init=False)
    columns: dict[TableRef, Labels[str]] = field(init=False)
    shown: dict[TableRef, str] = field(init=False)

    def __post_init__(self) -> None:
        wanted: dict[TableRef, set[str]] = defaultdict(set)
        for column in self.undecided:
            wanted[column.table].add(column.column)
            for offer in column.offers:
                wanted[offer.parent].add(offer.column)
        facts = [self.facts[ref] for ref in sorted(wanted, key=ref_order)]
        self.labels = table_labels(facts)
        self.columns = {each.ref: column_labels(each) for each in facts}
        self.shown = {each.ref: self._table(each, wanted[each.ref]) for each in facts}

    def key(self, column: UndecidedColumn) -> str:
        """Return the key of the answer in the store: it changes with the structure of the tables, not with rows."""
        version = self.prompt.version
        offers = sorted(
            [structure_hash(self.facts[offer.parent].table, version), offer.column] for offer in column.offers
        )
        return sha256_of([version, structure_hash(self.facts[column.table].table, version), column.column, offers])

    def plan(self, columns: Iterable[UndecidedColumn]) -> list[Cluster]:
        """Return the clusters of these columns."""
        tokens = {column: estimated_tokens(self._column(column, "c99")) for column in columns}
        return plan_clusters(tokens, {ref: estimated_tokens(text) for ref, text in self.shown.items()}, self.limits)

    def message(self, cluster: Cluster) -> str:
        """Return the message of a call."""
        tables = sorted({ref for column in cluster for ref in tables_of(column)}, key=ref_order)
        lines = "\n".join(self._column(column, label) for label, column in labelled("c", cluster).items())
        return f"{message(self.shown[ref] for ref in tables)}<columns>\n{lines}\n</columns>\n"

    def _column(self, column: UndecidedColumn, label: str) -> str:
        parents = [
            {
                "parent": name,
                "table": self.labels.shown(offer.parent),
                "key": self.columns[offer.parent].shown(offer.column),
                "evidence": offer.evidence,
            }
            for name, offer in labelled("p", column.offers).items()
        ]
        own = self.columns[column.table].shown(column.column)
        return encoded({"column": label, "table": self.labels.shown(column.table), "name": own, "parents": parents})

    def _table(self, facts: TableContext, wanted: set[str]) -> str:
        labels, profiles = self.columns[facts.ref], facts.column_profiles()
        names = [column.name for column in facts.table.columns]
        first = wanted | set(facts.table.primary_key)
        others = [name for name in names if name not in first][: max(0, SHOWN_COLUMNS - len(first))]
        columns = [
            column_json(
                column, labels.shown(column.name), texts={}, profile=profiles.get(column.name), privacy=self.privacy
            )
            for column in facts.table.columns
            if column.name in first or column.name in others
        ]
        return table_json(table_head(facts, self.labels.shown(facts.ref), labels), columns)


def labelled(letter: str, things: Sequence[Any]) -> dict[str, Any]:
    """Return label -> thing, for `c1`, `c2` and so on."""
    return {f"{letter}{number}": thing for number, thing in enumerate(things, 1)}


@dataclass(frozen=True, slots=True)
class FailedCluster:
    """A cluster whose call failed, with the code and message of the `LlmError`."""

    columns: Cluster
    code: str
    message: str


@dataclass(slots=True)
class Proposals:
    """The sorted result of `propose`. `unknown`: the number of answers with an unknown label.

    `reused`: the number of answers from the store. `calls`: the number of model calls.
    """

    answers: tuple[ProposedParent, ...] = ()
    failed: tuple[FailedCluster, ...] = ()
    unknown: int = 0
    reused: int = 0
    calls: int = 0

    def hints(self) -> list[JoinHint]:
        """Return the hints of all answers."""
        return [hint for answer in self.answers for hint in answer.hints()]


def stored_answers(
    questions: ProposalQuestions, store: EnrichmentStore
) -> tuple[list[ProposedParent], list[UndecidedColumn]]:
    """Return the answers in the store, and the columns without one."""
    known, waiting = [], []
    for column in questions.undecided:
        answer = from_json(column, store.get(KIND, questions.key(column)))
        if answer is None:
            waiting.append(column)
        else:
            known.append(answer)
    return known, waiting


def estimate_proposals(questions: ProposalQuestions, waiting: Sequence[UndecidedColumn]) -> Estimate:
    """Return the estimate of the calls about columns without an answer."""
    clusters = questions.plan(waiting)
    prompt = estimated_tokens(questions.prompt.text)
    return Estimate(0, len(clusters), sum(prompt + estimated_tokens(questions.message(each)) for each in clusters))


async def propose(
    runtime: LlmRuntime,
    questions: ProposalQuestions,
    store: EnrichmentStore,
    *,
    concurrency: int = 4,
    on_progress: Progress = ignore_progress,
) -> Proposals:
    """Return the parents that the model proposes for undecided columns. Columns with a stored answer need no call.

    An error of one call affects only its cluster, which is retried once in halves; any other `LlmError` is raised when
    no call is running.
    """
    known, waiting = stored_answers(questions, store)
    run = _ProposalRun(runtime, store, questions, on_progress, list(known))
    run.result.reused = len(known)
    clusters = questions.plan(waiting)
    run.total = len(clusters)
    on_progress(0, run.total)
    await side_by_side(clusters, run.work, concurrency)
    return run.outcome()


@dataclass(slots=True)
class _ProposalRun:
    """The model calls of one `propose`."""

    runtime: LlmRuntime
    store: EnrichmentStore
    questions: ProposalQuestions
    on_progress: Progress
    answers: list[ProposedParent]
    total: int = 0
    done: int = 0
    failed: list[FailedCluster] = field(default_factory=list)
    result: Proposals = field(default_factory=Proposals)

    async def work(self, cluster: Cluster) -> None:
        """Ask about a cluster. If only its call fails, ask about each half."""
        error = await error_of(self._ask(cluster))
        if error is not None and len(cluster) > 1:
            half = len(cluster) // 2
            for smaller in (cluster[:half], cluster[half:]):
                self._note(smaller, await error_of(self._ask(smaller)))
        else:
            self._note(cluster, error)
        self.done += 1
        self.on_progress(self.done, self.total)

    def _note(self, cluster: Cluster, error: LlmError | None) -> None:
        if error is not None:
            self.failed.append(FailedCluster(cluster, error.code, error.message))

    async def _ask(self, cluster: Cluster) -> None:
        self.result.calls += 1
        text, system = self.questions.message(cluster), self.questions.prompt.text
        given = await self.runtime.generate_object(text, ParentsAnswer, system=system, role=ROLE)
        columns: dict[str, UndecidedColumn] = labelled("c", cluster)
        found: dict[UndecidedColumn, ProposedParent] = {}
        for answer in given.value.columns:
            proposed = _read(answer, columns)
            if proposed is None:
                self.result.unknown += 1
            else:
                found.setdefault(proposed.column, proposed)
        for column in cluster:
            proposed = found.get(column, ProposedParent(column, None, 0.0))
            self.store.put(KIND, self.questions.key(column), to_json(proposed))
            self.answers.append(proposed)

    def outcome(self) -> Proposals:
        """Return the answers and the failed clusters in the order of their columns."""
        self.result.answers = tuple(sorted(self.answers, key=lambda each: _order(each.column)))
        self.result.failed = tuple(sorted(self.failed, key=lambda each: [_order(column) for column in each.columns]))
        return self.result


def _read(answer: ColumnAnswer, columns: Mapping[str, UndecidedColumn]) -> ProposedParent | None:
    """Return the parent that an answer names, or None if one of its labels is unknown."""
    column = columns.get(answer.column.strip())
    if column is None:
        return None
    offers = labelled("p", column.offers)
    if answer.parent is not None and answer.parent.strip() not in offers:
        return None
    parent = None if answer.parent is None else offers[answer.parent.strip()]
    return ProposedParent(column, parent, answer.confidence, one_line(answer.rationale))
