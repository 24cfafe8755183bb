"""A table on its way to its texts: what is said of it, what was answered, what is still missing."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ktx_cli.core import one_line
from ktx_cli.llm import LlmError, LlmRuntime
from ktx_cli.project import EnrichmentStore, Privacy
from ktx_cli.prompts import Prompt
from ktx_cli.scan.descriptions.batches import (
    Call,
    Labels,
    Limits,
    Piece,
    SizedTable,
    column_json,
    column_labels,
    encoded,
    estimated_tokens,
    message,
    plan_calls,
    table_head,
    table_json,
    table_labels,
)
from ktx_cli.scan.descriptions.facts import Described, Estimate, TableFacts, content_hash
from ktx_cli.scan.stages import ends_more, unexpected
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.descriptions.batches import Labels, Piece

FRAME_TOKENS: Final = 30
"""What `describe_table`, brackets and line ends of a table take."""


@dataclass(frozen=True, slots=True)
class FailedTable:
    """A table that has no new text, with the code and the words of the `LlmError` behind it.

    `no_answer`: the model answered twice without a word about it.
    """

    ref: TableRef
    code: str
    message: str


@dataclass(slots=True)
class Work:
    """One table. It is open until it is `described` or `failed`."""

    facts: TableFacts
    hash: str
    label: str
    privacy: Privacy
    labels: Labels[str] = field(init=False)
    head: dict[str, Any] = field(init=False)
    shown: dict[str, dict[str, Any]] = field(init=False)
    table_answered: bool = False
    text: str | None = None
    columns: dict[str, str | None] = field(default_factory=dict)
    failed: FailedTable | None = None
    described: Described | None = None

    def __post_init__(self) -> None:
        self.labels = column_labels(self.facts)
        self.head = table_head(self.facts, self.label, self.labels)
        profiles, texts = self.facts.column_profiles(), self.facts.texts.columns
        self.shown = {
            column.name: column_json(
                column,
                self.labels.shown(column.name),
                texts=texts.get(column.name, {}),
                profile=profiles.get(column.name),
                privacy=self.privacy,
            )
            for column in self.facts.table.columns
        }

    @property
    def open(self) -> bool:
        """Whether it is neither described nor given up."""
        return self.described is None and self.failed is None

    @property
    def missing(self) -> list[str]:
        """The columns without an answer, in the table's order."""
        return [name for name in self.shown if name not in self.columns]

    @property
    def complete(self) -> bool:
        """Whether everything was answered."""
        return self.table_answered and not self.missing

    @property
    def begun(self) -> bool:
        """Whether anything was answered."""
        return self.table_answered or bool(self.columns)

    def sized(self) -> SizedTable:
        """Return what is still to be asked, with its size in a message."""
        return SizedTable(
            ref=self.facts.ref,
            head=estimated_tokens(encoded(self.head)) + FRAME_TOKENS,
            columns=tuple((name, estimated_tokens(encoded(self.shown[name]))) for name in self.missing),
            neighbours=frozenset(self.facts.neighbours),
            asks_table=not self.table_answered,
        )

    def json(self, piece: Piece) -> str:
        """Return the table with a piece's columns, as it stands in a message."""
        head = {**self.head, "describe_table": piece.asks_table}
        return table_json(head, [self.shown[name] for name in piece.columns])

    def take(self, texts: PieceTexts) -> None:
        """Keep what was answered of a piece."""
        if texts.table_answered:
            self.table_answered, self.text = True, texts.text
        self.columns.update(texts.columns)

    def finish(self) -> Described:
        """Make the texts as they are the table's."""
        columns = {name: text for name in self.shown if (text := self.columns.get(name))}
        self.described = Described(self.facts.ref, self.hash, "ai", self.text, columns)
        return self.described


def to_json(described: Described) -> dict[str, Any]:
    """Return what the store keeps."""
    return {"text": described.text, "columns": dict(described.columns)}


def from_json(ref: TableRef, digest: str, value: Any) -> Described | None:
    """Return what the store kept, None where it is no such thing."""
    if not isinstance(value, Mapping) or not isinstance(value.get("columns"), Mapping):
        return None
    if not all(isinstance(text, str) for text in value["columns"].values()):
        return None
    text = value.get("text")
    return Described(ref, digest, "ai", text, value["columns"]) if isinstance(text, str | None) else None


KIND: Final = "description"
"""The kind of what is kept in the store."""

HOPELESS: Final = 10
"""So many calls that failed, and not one answer, old or new: the rest would be paid for nothing."""

Progress = Callable[[int, int], None]
"""Is told how many tables of how many are done."""


@dataclass(slots=True)
class Descriptions:
    """What `describe` found. `tables`: complete ones in the order of the facts; `reused`: those nothing was asked for.

    `unknown`: names in answers that were not asked for; `refused`: texts that were none; `unanswered`: columns without
    an answer, also the second time. `calls`: model calls.
    """

    tables: tuple[Described, ...] = ()
    reused: frozenset[TableRef] = frozenset()
    failed: tuple[FailedTable, ...] = ()
    calls: int = 0
    unknown: int = 0
    refused: int = 0
    unanswered: tuple[tuple[TableRef, str], ...] = ()


def ignore_progress(done: int, total: int) -> None:
    """Drop the news."""


async def describe(
    runtime: LlmRuntime,
    facts: Sequence[TableFacts],
    store: EnrichmentStore,
    *,
    prompt: Prompt,
    privacy: Privacy,
    concurrency: int = 4,
    recorded: Mapping[TableRef, Described] | None = None,
    limits: Limits | None = None,
    on_progress: Progress = ignore_progress,
) -> Descriptions:
    """Return texts for every table. What `recorded` or the store has for a table's hash is not asked for again.

    A complete table is in the store before anything else happens to it. An error of one call costs only its tables,
    unless all calls fail; any other `LlmError` is raised when no call is under way any more. Values of rows are sent
    only where `privacy` is `off`.
    """
    known = answers_so_far(facts, prompt, recorded or {}, store)
    works = open_works(facts, prompt, known, privacy)
    tables = table_labels(facts)
    asking = _Asking(runtime, store, prompt, tables, works, on_progress, done=len(known), total=len(facts))
    asking.answers = len(known)
    on_progress(asking.done, asking.total)
    for asking.last in (False, True):
        calls = plan_calls([work.sized() for work in works.values() if work.open], limits or Limits())
        await side_by_side(calls, asking.ask, concurrency)
    asking.close()
    return _outcome(facts, known, asking)


def answers_so_far(
    facts: Sequence[TableFacts], prompt: Prompt, recorded: Mapping[TableRef, Described], store: EnrichmentStore
) -> dict[TableRef, Described]:
    """Return what is known without a question: the texts that `recorded` or the store has for a table's hash."""
    found: dict[TableRef, Described] = {}
    for each in facts:
        digest, record = content_hash(each, prompt.version), recorded.get(each.ref)
        if record is not None and record.source == "ai" and record.hash == digest:
            found[each.ref] = record
        elif (stored := from_json(each.ref, digest, store.get(KIND, digest))) is not None:
            found[each.ref] = stored
    return found


def open_works(
    facts: Sequence[TableFacts], prompt: Prompt, known: Mapping[TableRef, Described], privacy: Privacy
) -> dict[TableRef, Work]:
    """Return what there is to ask about the tables that are not `known`."""
    tables = table_labels(facts)
    return {
        each.ref: Work(each, content_hash(each, prompt.version), tables.shown(each.ref), privacy)
        for each in facts
        if each.ref not in known
    }


def _outcome(facts: Sequence[TableFacts], known: Mapping[TableRef, Described], asking: _Asking) -> Descriptions:
    works, result = asking.works, asking.result
    done = {**known, **{ref: work.described for ref, work in works.items() if work.described}}
    result.tables = tuple(done[each.ref] for each in facts if each.ref in done)
    result.reused = frozenset(known)
    result.failed = tuple(work.failed for work in works.values() if work.failed)
    result.unanswered = tuple((ref, name) for ref, work in works.items() if work.described for name in work.missing)
    return result


@dataclass(slots=True)
class _Asking:
    """One run of questions. `last`: what is missing now is not asked for again. `answers`: old ones and new ones."""

    runtime: LlmRuntime
    store: EnrichmentStore
    prompt: Prompt
    tables: Labels[TableRef]
    works: Mapping[TableRef, Work]
    on_progress: Progress
    done: int
    total: int
    last: bool = False
    answers: int = 0
    result: Descriptions = field(default_factory=Descriptions)

    async def ask(self, call: Call) -> None:
        """Ask about the pieces of a call; where it fails by itself, once more about smaller ones."""
        error = await self._try(call)
        if error is None:
            return
        smaller = _smaller(call, error)
        if not smaller:
            self._give_up(call, error)
        for part in smaller:
            again = await self._try(part)
            if again is not None:
                self._give_up(part, again)

    async def _try(self, call: Call) -> LlmError | None:
        return await error_of(self._ask_once(call), lambda: bool(self.answers) or self.result.calls < HOPELESS)

    async def _ask_once(self, call: Call) -> None:
        text = message(self.works[piece.ref].json(piece) for piece in call)
        self.result.calls += 1
        given = await self.runtime.generate_object(text, DescribeAnswer, system=self.prompt.text, role=ROLE)
        self.answers += 1
        self._take(given.value, call)

    def _take(self, answer: DescribeAnswer, call: Call) -> None:
        reading = read_answer(answer, call, self.tables, {piece.ref: self.works[piece.ref].labels for piece in call})
        self.result.unknown += reading.unknown
        self.result.refused += reading.refused
        for texts in reading.pieces:
            work = self.works[texts.piece.ref]
            work.take(texts)
            if work.open and work.complete:
                self._finish(work)

    def close(self) -> None:
        """Finish what has gaps; a table nothing was said about has failed."""
        for work in self.works.values():
            if work.open and work.begun:
                self._finish(work)
            elif work.open:
                self._fail(work, "no_answer", "the model did not answer about this table")

    def _give_up(self, call: Call, error: LlmError) -> None:
        """Fail the tables of a call; the second time those that have texts keep them, with gaps."""
        for piece in call:
            work = self.works[piece.ref]
            if work.open and not (self.last and work.begun):
                self._fail(work, error.code, error.message)

    def _finish(self, work: Work) -> None:
        self.store.put(KIND, work.hash, to_json(work.finish()))
        self._step()

    def _fail(self, work: Work, code: str, message: str) -> None:
        work.failed = FailedTable(work.facts.ref, code, message)
        self._step()

    def _step(self) -> None:
        self.done += 1
        self.on_progress(self.done, self.total)


def _smaller(call: Call, error: LlmError) -> list[Call]:
    """Return what to ask instead of a call that failed: each table alone, or the halves of one that was too long."""
    if len(call) > 1:
        return [(piece,) for piece in call]
    (piece,) = call
    if error.code != "context" or len(piece.columns) < 2:
        return []
    half = len(piece.columns) // 2
    first = replace(piece, columns=piece.columns[:half])
    return [(first,), (replace(piece, columns=piece.columns[half:], asks_table=False),)]


log = logging.getLogger(__name__)

Item = TypeVar("Item")

ROLE: Final = "candidateExtraction"
"""The role that describes tables and proposes joins, as in the TypeScript ktx."""

_OF_ONE_CALL: Final = frozenset({"context", "max_turns", "structured_output", "permission", "execution", "refusal"})
_OVER_BUDGET: Final = "error_max_budget_usd"


def is_of_one_call(error: LlmError) -> bool:
    """Say whether other calls may succeed all the same: nothing is wrong with account, limits, budget or network."""
    return error.code in _OF_ONE_CALL and error.details.get("subtype") != _OVER_BUDGET


def error_of_call(error: Exception) -> LlmError | None:
    """Return the error of a call where it is one of this call alone; an unexpected one costs no more than its call."""
    if isinstance(error, LlmError):
        return error if is_of_one_call(error) else None
    if ends_more(error):
        return None
    log.debug("a model call of a scan failed", exc_info=error)
    hint = "run the command again with --debug to see where"
    return LlmError(unexpected(type(error).__name__), code="execution", hint=hint)


async def error_of(asked: Awaitable[None], may_go_on: Callable[[], bool] = lambda: True) -> LlmError | None:
    """Wait for a question and return its error where that is one of this call alone, and the others may go on."""
    try:
        await asked
    except Exception as error:
        of_call = error_of_call(error)
        if of_call is None or not may_go_on():
            raise
        return of_call
    return None


async def side_by_side(items: Sequence[Item], work: Callable[[Item], Awaitable[None]], concurrency: int) -> None:
    """Do the work for every item, begun in order, at most `concurrency` at a time.

    The first exception ends the rest: it is raised when no work is under way any more.
    """
    waiting = iter(items)

    async def worker() -> None:
        for item in waiting:
            await work(item)

    tasks = [asyncio.create_task(worker()) for _ in range(min(max(concurrency, 1), len(items)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def estimate(
    facts: Sequence[TableFacts],
    known: Mapping[TableRef, Described],
    *,
    prompt: Prompt,
    privacy: Privacy,
    limits: Limits | None = None,
) -> Estimate:
    """Return what asking about the tables that are not `known` would take, when every answer is complete."""
    works = open_works(facts, prompt, known, privacy)
    calls = plan_calls([work.sized() for work in works.values()], limits or Limits())
    tokens = sum(piece.tokens for call in calls for piece in call) + len(calls) * estimated_tokens(prompt.text)
    return Estimate(len(works), len(calls), tokens)


LONGEST_TABLE_TEXT: Final = 400


LONGEST_COLUMN_TEXT: Final = 300
"""Characters: well above the 30 and 20 words that are asked for."""


_FAILURE: Final = re.compile(
    r"\W*(?:"
    r"i (?:cannot|can['’]t|could ?n[o'’]t|am (?:unable|sorry|not)|do ?n[o'’]t|have no)\b|i['’]m (?:unable|sorry|not)\b"
    r"|as an ai\b|sorry\b|unfortunately\b|unable to\b|"
    r"(?:cannot|could not|can['’]t) (?:be )?(?:determined?|descri|provide|tell|infer)"
    r"|(?:api |internal |server )?error(?::|\W*$)|traceback\b|http (?:error )?[45]\d\d\b|\{|<"
    r"|no (?:description|information|documentation)\b|description (?:is )?(?:not |un)available"
    r"|insufficient (?:data|info|context)"
    r"|(?:n/?a|none|null|unknown|undefined|unclear|todo|tbd|not (?:available|known|specified))?\W*$"
    r")",
    re.IGNORECASE,
)


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ColumnAnswer(_Answer):
    """One column's text; null where there is nothing to say."""

    column: str = Field(max_length=200)
    description: str | None = Field(max_length=LONGEST_COLUMN_TEXT)


class TableAnswer(_Answer):
    """One table's text, null where there is nothing to say or nothing was asked, and its columns'."""

    table: str = Field(max_length=300)
    description: str | None = Field(max_length=LONGEST_TABLE_TEXT)
    columns: list[ColumnAnswer] = Field(max_length=1000)


class DescribeAnswer(_Answer):
    """The answer of one call."""

    tables: list[TableAnswer] = Field(max_length=200)


@dataclass(slots=True)
class PieceTexts:
    """What was answered of a piece. `table_answered`: its own text came, though it may be None."""

    piece: Piece
    table_answered: bool = False
    text: str | None = None
    columns: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """An answer as it was taken. `unknown`: names that were not asked for; `refused`: texts that are none."""

    pieces: list[PieceTexts]
    unknown: int = 0
    refused: int = 0


def read_answer(
    answer: DescribeAnswer, call: tuple[Piece, ...], tables: Labels[TableRef], columns: Mapping[TableRef, Labels[str]]
) -> Reading:
    """Return what of an answer is about what was asked; of two texts for one thing the first."""
    found = {piece.ref: PieceTexts(piece) for piece in call}
    reading = Reading(list(found.values()))
    for table in answer.tables:
        ref = tables.thing(table.table)
        texts = None if ref is None else found.get(ref)
        if ref is None or texts is None:
            reading.unknown += 1
            continue
        _take_table(table, texts, reading)
        for column in table.columns:
            _take_column(column, texts, columns[ref], reading)
    return reading


def _take_table(table: TableAnswer, texts: PieceTexts, reading: Reading) -> None:
    if not texts.piece.asks_table or texts.table_answered:
        return
    if is_failure(table.description):
        reading.refused += 1
        return
    texts.table_answered, texts.text = True, _clean(table.description)


def _take_column(answer: ColumnAnswer, texts: PieceTexts, labels: Labels[str], reading: Reading) -> None:
    name = labels.thing(answer.column)
    if name is None or name not in texts.piece.columns:
        reading.unknown += 1
    elif is_failure(answer.description):
        reading.refused += 1
    elif name not in texts.columns:
        texts.columns[name] = _clean(answer.description)


def is_failure(text: str | None) -> bool:
    """Say whether a text speaks of why there is none, instead of being one; None is an answer."""
    return text is not None and _FAILURE.match(text) is not None


def _clean(text: str | None) -> str | None:
    return None if text is None else one_line(text, LONGEST_TABLE_TEXT)
