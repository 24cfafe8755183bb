"""Descriptions by the model: the requests for each table, the answers, and the missing parts."""

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
from ktx_cli.scan.descriptions.facts import Described, Estimate, TableContext, content_hash
from ktx_cli.scan.stages import ends_more, unexpected
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.scan.descriptions.batches import Labels, Piece

FRAME_TOKENS: Final = 30
"""The tokens of `describe_table` and of a table's brackets and line endings."""


@dataclass(frozen=True, slots=True)
class FailedTable:
    """A table without a new description, with the `LlmError` code and message.

    The code `no_answer` means that the model omitted the table from its answers twice.
    """

    ref: TableRef
    code: str
    message: str


@dataclass(slots=True)
class TableWork:
    """The unfinished description of one table. It is open until it is `described` or `failed`."""

    facts: TableContext
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
        """Whether the table is neither described nor failed."""
        return self.described is None and self.failed is None

    @property
    def missing(self) -> list[str]:
        """The columns without an answer, in table order."""
        return [name for name in self.shown if name not in self.columns]

    @property
    def complete(self) -> bool:
        """Whether the table and all its columns have an answer."""
        return self.table_answered and not self.missing

    @property
    def begun(self) -> bool:
        """Whether the table or any of its columns has an answer."""
        return self.table_answered or bool(self.columns)

    def sized(self) -> SizedTable:
        """Return the missing part, with its size in a prompt."""
        return SizedTable(
            ref=self.facts.ref,
            head=estimated_tokens(encoded(self.head)) + FRAME_TOKENS,
            columns=tuple((name, estimated_tokens(encoded(self.shown[name]))) for name in self.missing),
            neighbours=frozenset(self.facts.neighbours),
            asks_table=not self.table_answered,
        )

    def json(self, piece: Piece) -> str:
        """Return the JSON for a piece of the table in a message."""
        head = {**self.head, "describe_table": piece.asks_table}
        return table_json(head, [self.shown[name] for name in piece.columns])

    def take(self, texts: PieceTexts) -> None:
        """Store the answer for a piece."""
        if texts.table_answered:
            self.table_answered, self.text = True, texts.text
        self.columns.update(texts.columns)

    def finish(self) -> Described:
        """Build the description from the answers."""
        columns = {name: text for name in self.shown if (text := self.columns.get(name))}
        self.described = Described(self.facts.ref, self.hash, "ai", self.text, columns)
        return self.described


def to_json(described: Described) -> dict[str, Any]:
    """Return the stored form of a description."""
    return {"text": described.text, "columns": dict(described.columns)}


def from_json(ref: TableRef, digest: str, value: Any) -> Described | None:
    """Return a stored description, or None for an invalid value."""
    if not isinstance(value, Mapping) or not isinstance(value.get("columns"), Mapping):
        return None
    if not all(isinstance(text, str) for text in value["columns"].values()):
        return None
    text = value.get("text")
    return Described(ref, digest, "ai", text, value["columns"]) if isinstance(text, str | None) else None


KIND: Final = "description"
"""The kind of these answers in the store."""

MAX_FAILED_CALLS: Final = 10
"""The number of failed calls without any old or new answer after which ktx makes no more calls."""

Progress = Callable[[int, int], None]
"""Receives the number of finished tables and the total."""


@dataclass(slots=True)
class Descriptions:
    """The result of `describe`. `tables`: in input order. `reused`: tables described without a call.

    `unknown`: the number of unexpected names in answers. `refused`: the number of texts that are not descriptions.
    `unanswered`: columns that answers omitted twice. `calls`: the number of model calls.
    """

    tables: tuple[Described, ...] = ()
    reused: frozenset[TableRef] = frozenset()
    failed: tuple[FailedTable, ...] = ()
    calls: int = 0
    unknown: int = 0
    refused: int = 0
    unanswered: tuple[tuple[TableRef, str], ...] = ()


def ignore_progress(done: int, total: int) -> None:
    """Ignore the progress."""


async def describe(
    runtime: LlmRuntime,
    facts: Sequence[TableContext],
    store: EnrichmentStore,
    *,
    prompt: Prompt,
    privacy: Privacy,
    concurrency: int = 4,
    recorded: Mapping[TableRef, Described] | None = None,
    limits: Limits | None = None,
    on_progress: Progress = ignore_progress,
) -> Descriptions:
    """Describe every table that has no description for its hash in `recorded` or the store.

    A complete description is stored at once. An error of one call affects only its tables, unless all calls fail; any
    other `LlmError` is raised when no call is running. Values of rows are sent only if `privacy` is `off`.
    """
    known = answers_so_far(facts, prompt, recorded or {}, store)
    works = open_tables(facts, prompt, known, privacy)
    tables = table_labels(facts)
    run = _DescriptionRun(runtime, store, prompt, tables, works, on_progress, done=len(known), total=len(facts))
    run.answers = len(known)
    on_progress(run.done, run.total)
    for run.last in (False, True):
        calls = plan_calls([work.sized() for work in works.values() if work.open], limits or Limits())
        await side_by_side(calls, run.ask, concurrency)
    run.close()
    return _outcome(facts, known, run)


def answers_so_far(
    facts: Sequence[TableContext], prompt: Prompt, recorded: Mapping[TableRef, Described], store: EnrichmentStore
) -> dict[TableRef, Described]:
    """Return the descriptions that `recorded` or the store contains for a table's hash."""
    found: dict[TableRef, Described] = {}
    for each in facts:
        digest, record = content_hash(each, prompt.version), recorded.get(each.ref)
        if record is not None and record.source == "ai" and record.hash == digest:
            found[each.ref] = record
        elif (stored := from_json(each.ref, digest, store.get(KIND, digest))) is not None:
            found[each.ref] = stored
    return found


def open_tables(
    facts: Sequence[TableContext], prompt: Prompt, known: Mapping[TableRef, Described], privacy: Privacy
) -> dict[TableRef, TableWork]:
    """Return the work units for the tables that are not `known`."""
    tables = table_labels(facts)
    return {
        each.ref: TableWork(each, content_hash(each, prompt.version), tables.shown(each.ref), privacy)
        for each in facts
        if each.ref not in known
    }


def _outcome(facts: Sequence[TableContext], known: Mapping[TableRef, Described], run: _DescriptionRun) -> Descriptions:
    works, result = run.works, run.result
    done = {**known, **{ref: work.described for ref, work in works.items() if work.described}}
    result.tables = tuple(done[each.ref] for each in facts if each.ref in done)
    result.reused = frozenset(known)
    result.failed = tuple(work.failed for work in works.values() if work.failed)
    result.unanswered = tuple((ref, name) for ref, work in works.items() if work.described for name in work.missing)
    return result


@dataclass(slots=True)
class _DescriptionRun:
    """The model calls of one `describe`. `last`: this is the second and last pass. `answers`: old and new ones."""

    runtime: LlmRuntime
    store: EnrichmentStore
    prompt: Prompt
    tables: Labels[TableRef]
    works: Mapping[TableRef, TableWork]
    on_progress: Progress
    done: int
    total: int
    last: bool = False
    answers: int = 0
    result: Descriptions = field(default_factory=Descriptions)

    async def ask(self, call: Call) -> None:
        """Send the pieces in a call. If only this call fails, retry it once in smaller calls."""
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
        return await error_of(self._ask_once(call), lambda: bool(self.answers) or self.result.calls < MAX_FAILED_CALLS)

    async def _ask_once(self, call: Call) -> None:
        text = message(self.works[piece.ref].json(piece) for piece in call)
        self.result.calls += 1
        given = await self.runtime.generate_object(text, DescribeAnswer, system=self.prompt.text, role=ROLE)
        self.answers += 1
        self._take(given.value, call)

    def _take(self, answer: DescribeAnswer, call: Call) -> None:
        parsed = read_answer(answer, call, self.tables, {piece.ref: self.works[piece.ref].labels for piece in call})
        self.result.unknown += parsed.unknown
        self.result.refused += parsed.refused
        for texts in parsed.pieces:
            work = self.works[texts.piece.ref]
            work.take(texts)
            if work.open and work.complete:
                self._finish(work)

    def close(self) -> None:
        """Finish tables with gaps, and fail tables without any answer."""
        for work in self.works.values():
            if work.open and work.begun:
                self._finish(work)
            elif work.open:
                self._fail(work, "no_answer", "the model returned no description for this table")

    def _give_up(self, call: Call, error: LlmError) -> None:
        """Fail the tables of a call. In the last pass, tables with some answers keep them."""
        for piece in call:
            work = self.works[piece.ref]
            if work.open and not (self.last and work.begun):
                self._fail(work, error.code, error.message)

    def _finish(self, work: TableWork) -> None:
        self.store.put(KIND, work.hash, to_json(work.finish()))
        self._step()

    def _fail(self, work: TableWork, code: str, message: str) -> None:
        work.failed = FailedTable(work.facts.ref, code, message)
        self._step()

    def _step(self) -> None:
        self.done += 1
        self.on_progress(self.done, self.total)


def _smaller(call: Call, error: LlmError) -> list[Call]:
    """Return smaller calls to replace a failed one: each table alone, or the halves of a call that was too long."""
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
"""The role that describes tables and proposes joins, as in ktx for TypeScript."""

_OF_ONE_CALL: Final = frozenset({"context", "max_turns", "structured_output", "permission", "execution", "refusal"})
_OVER_BUDGET: Final = "error_max_budget_usd"


def is_of_one_call(error: LlmError) -> bool:
    """Return whether other calls may still succeed: there is no problem with the account, limits, budget or network."""
    return error.code in _OF_ONE_CALL and error.details.get("subtype") != _OVER_BUDGET


def error_of_call(error: Exception) -> LlmError | None:
    """Return a call's error if it affects only that call, as unexpected errors do; else None."""
    if isinstance(error, LlmError):
        return error if is_of_one_call(error) else None
    if ends_more(error):
        return None
    log.debug("a model call in the scan failed unexpectedly", exc_info=error)
    hint = "rerun the command with --debug to see the traceback"
    return LlmError(unexpected(type(error).__name__), code="execution", hint=hint)


async def error_of(asked: Awaitable[None], may_go_on: Callable[[], bool] = lambda: True) -> LlmError | None:
    """Wait for a call. Return its error if it affects only this call and others may continue; else raise it."""
    try:
        await asked
    except Exception as error:
        of_call = error_of_call(error)
        if of_call is None or not may_go_on():
            raise
        return of_call
    return None


async def side_by_side(items: Sequence[Item], work: Callable[[Item], Awaitable[None]], concurrency: int) -> None:
    """Run `work` for every item, started in order, with at most `concurrency` at a time.

    The first exception stops the rest, and is raised when no work is running.
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
    facts: Sequence[TableContext],
    known: Mapping[TableRef, Described],
    *,
    prompt: Prompt,
    privacy: Privacy,
    limits: Limits | None = None,
) -> Estimate:
    """Return the estimate for the tables that are not `known`, assuming that every answer is complete."""
    works = open_tables(facts, prompt, known, privacy)
    calls = plan_calls([work.sized() for work in works.values()], limits or Limits())
    tokens = sum(piece.tokens for call in calls for piece in call) + len(calls) * estimated_tokens(prompt.text)
    return Estimate(len(works), len(calls), tokens)


LONGEST_TABLE_TEXT: Final = 400


LONGEST_COLUMN_TEXT: Final = 300
"""Maximum lengths in characters, well above the 30 and 20 words that the prompt requests."""


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
    """The text for one column; null if it does not need one."""

    column: str = Field(max_length=200)
    description: str | None = Field(max_length=LONGEST_COLUMN_TEXT)


class TableAnswer(_Answer):
    """The texts of one table and its columns. The table's own text is null if it needs none or was not requested."""

    table: str = Field(max_length=300)
    description: str | None = Field(max_length=LONGEST_TABLE_TEXT)
    columns: list[ColumnAnswer] = Field(max_length=1000)


class DescribeAnswer(_Answer):
    """The answer to one call."""

    tables: list[TableAnswer] = Field(max_length=200)


@dataclass(slots=True)
class PieceTexts:
    """The answer for one piece. `table_answered`: whether the table's own text was answered, even if None."""

    piece: Piece
    table_answered: bool = False
    text: str | None = None
    columns: dict[str, str | None] = field(default_factory=dict)


@dataclass(slots=True)
class ParsedAnswer:
    """A parsed answer. `unknown`: the number of unexpected names. `refused`: the number of texts that are not
    descriptions.
    """

    pieces: list[PieceTexts]
    unknown: int = 0
    refused: int = 0


def read_answer(
    answer: DescribeAnswer, call: tuple[Piece, ...], tables: Labels[TableRef], columns: Mapping[TableRef, Labels[str]]
) -> ParsedAnswer:
    """Return the requested texts in an answer; if there are two for one thing, the first."""
    found = {piece.ref: PieceTexts(piece) for piece in call}
    parsed = ParsedAnswer(list(found.values()))
    for table in answer.tables:
        ref = tables.thing(table.table)
        texts = None if ref is None else found.get(ref)
        if ref is None or texts is None:
            parsed.unknown += 1
            continue
        _take_table(table, texts, parsed)
        for column in table.columns:
            _take_column(column, texts, columns[ref], parsed)
    return parsed


def _take_table(table: TableAnswer, texts: PieceTexts, parsed: ParsedAnswer) -> None:
    if not texts.piece.asks_table or texts.table_answered:
        return
    if is_failure(table.description):
        parsed.refused += 1
        return
    texts.table_answered, texts.text = True, _clean(table.description)


def _take_column(answer: ColumnAnswer, texts: PieceTexts, labels: Labels[str], parsed: ParsedAnswer) -> None:
    name = labels.thing(answer.column)
    if name is None or name not in texts.piece.columns:
        parsed.unknown += 1
    elif is_failure(answer.description):
        parsed.refused += 1
    elif name not in texts.columns:
        texts.columns[name] = _clean(answer.description)


def is_failure(text: str | None) -> bool:
    """Return whether a text explains why there is no description. None is a valid answer."""
    return text is not None and _FAILURE.match(text) is not None


def _clean(text: str | None) -> str | None:
    return None if text is None else one_line(text, LONGEST_TABLE_TEXT)
