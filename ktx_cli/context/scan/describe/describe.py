"""Has the model describe tables: each result is kept when it is complete, and nothing is asked twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.scan.describe.answers import DescribeAnswer, read_answer
from ktx_cli.context.scan.describe.calling import ROLE, error_of_call, side_by_side
from ktx_cli.context.scan.describe.facts import Described, TableFacts, content_hash
from ktx_cli.context.scan.describe.labels import Labels
from ktx_cli.context.scan.describe.packing import Call, Limits, plan_calls
from ktx_cli.context.scan.describe.rendering import message, table_labels
from ktx_cli.context.scan.describe.work import FailedTable, Work, from_json, to_json
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.runtime import LlmRuntime
from ktx_cli.project.config.scan import Privacy
from ktx_cli.project.enrichment_store import EnrichmentStore

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
        """Ask once; return the error where it is one of this call alone."""
        try:
            await self._ask_once(call)
        except Exception as error:
            of_call = error_of_call(error)
            if of_call is not None and (self.answers or self.result.calls < HOPELESS):
                return of_call
            raise
        return None

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
