"""Digests: one-paragraph texts about files, written without tools, for many work units in one structured call.

A unit with a digest is done; a unit without one is processed by an agent. Each text is stored at once, so that no run
pays for it twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, TypeVar

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import wrapped
from ktx_cli.core import Emit, ResultWarning, StepFinished, StepProgress, StepStarted, ignore_events, monotonic, plural
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.documents.triage import Question, QuestionRunner, Tally, content_hash, load_prompt
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.prompts import Prompt
from ktx_cli.scan import side_by_side
from ktx_cli.sources import DigestForm, SourceKey

KIND: Final = "digest"
"""The kind under which these texts are stored."""

ROLE: Final = "candidateExtraction"
"""The role whose model writes them, the same as for descriptions of tables."""

MOST: Final = 20
"""Maximum number of items per call."""

ROOM: Final = 90_000
"""Maximum number of characters of data per call."""

LONGEST: Final = 2_000
"""Maximum number of characters per text."""


class TableDigest(BaseModel):
    """The text about one table."""

    table: str = Field(description="The table name, exactly as in the message.")
    narrative: str = Field(description="Two or three plain sentences; empty if the queries reveal nothing.")


class DigestAnswer(BaseModel):
    """The texts about the tables in a message."""

    tables: list[TableDigest]


@dataclass(frozen=True, slots=True)
class _Item:
    work: SourceWork
    form: DigestForm
    unit: WorkUnit
    name: str
    text: str
    key: str

    def outcome(self, narrative: str) -> UnitOutcome:
        path = self.unit.files[0]
        texts = [narrative] if narrative else []
        made = [{"raw_path": path, "evidence": dict(self.form.evidence(self.name, text))} for text in texts]
        session = {"actions": [], "records": {"evidence": made}}
        return UnitOutcome(self.work.connection, self.work.kind, self.unit, UnitStatus.DONE, session=session)


@dataclass(slots=True)
class Digests:
    """The units that digests completed, and call statistics."""

    outcomes: dict[tuple[SourceKey, str], UnitOutcome] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    """Counts the calls; `kept` counts texts from earlier runs."""

    def narrowed(self, work: SourceWork) -> SourceWork:
        """Return a source with only the units that agents must process."""
        return replace(work, units=tuple(unit for unit in work.units if (work.key, unit.key) not in self.outcomes))

    def warnings(self) -> Iterator[ResultWarning]:
        """Yield warnings about failed calls."""
        if self.tally.failures:
            message = f"{plural(self.tally.failures, 'call')} for table texts failed, so agents wrote the texts: "
            yield ResultWarning("digest_failed", message + self.tally.problem)


Kept = Callable[[str, Collection[str]], Collection[str]]
"""Returns the keys under which an earlier run stored an answer of a kind."""


@dataclass(frozen=True, slots=True)
class DigestDemand:
    """The units that digests would complete: those of `tables` in `calls` model calls, the others from stored texts."""

    units: int = 0
    tables: int = 0
    calls: int = 0


def digest_demand(works: Iterable[SourceWork], kept: Kept, root: Path | None = None) -> DigestDemand:
    """Return the calls that `write_digests` would make, without making them."""
    units = tables = calls = 0
    for work in works:
        form = work.source.digest
        if form is None or work.error is not None or not any(map(form.applies, work.units)):
            continue
        items = list(_items(work, form, load_prompt(form.prompt, root)))
        known = kept(KIND, [item.key for item in items])
        waiting = [item for item in items if item.key not in known]
        units, tables = units + len(items), tables + len(waiting)
        calls += sum(1 for _ in batches(waiting, ROOM))
    return DigestDemand(units, tables, calls)


async def write_digests(
    works: Iterable[SourceWork], questions: QuestionRunner, root: Path | None = None, emit: Emit = ignore_events
) -> Digests:
    """Return the digests of all units of the sources that support them."""
    digests = Digests()
    for work in works:
        form = work.source.digest
        if form is not None and work.error is None and any(map(form.applies, work.units)):
            prompt = load_prompt(form.prompt, root)
            await _of_source(work, form, prompt, questions, digests, emit)
    return digests


async def _of_source(
    work: SourceWork, form: DigestForm, prompt: Prompt, questions: QuestionRunner, digests: Digests, emit: Emit
) -> None:
    emit(StepStarted(KIND, work.connection))
    started = monotonic()
    question = Question(KIND, prompt, DigestAnswer, ROLE, digests.tally)
    items = list(_items(work, form, prompt))
    waiting: list[_Item] = []
    known = questions.store.get_many(KIND, (item.key for item in items))
    for item in items:
        kept = known.get(item.key)
        if isinstance(kept, dict) and isinstance(kept.get("narrative"), str):
            digests.tally.kept += 1
            digests.outcomes[work.key, item.unit.key] = item.outcome(kept["narrative"])
        else:
            waiting.append(item)
    done = len(items) - len(waiting)

    async def ask(batch: Sequence[_Item]) -> None:
        nonlocal done
        for item, narrative in await _asked(batch, question, questions):
            questions.store.put(KIND, item.key, {"narrative": narrative})
            digests.outcomes[work.key, item.unit.key] = item.outcome(narrative)
        done += len(batch)
        emit(StepProgress(KIND, done, len(items), work.connection))

    await side_by_side(list(batches(waiting, ROOM)), ask, questions.at_once)
    written = sum(key == work.key for key, _ in digests.outcomes)
    summary = f"{written} of {plural(len(items), 'table')} described"
    emit(StepFinished(KIND, summary, monotonic() - started, work.connection))


def _items(work: SourceWork, form: DigestForm, prompt: Prompt) -> Iterator[_Item]:
    for unit in work.units:
        if form.applies(unit) and len(unit.files) == 1 and unit.files[0] in work.snapshot.files:
            brief = form.brief(work.snapshot.files[unit.files[0]].read())
            text = json.dumps(brief, ensure_ascii=False, sort_keys=True)
            key = content_hash(KIND, prompt.version, text)
            yield _Item(work, form, unit, str(brief["table"]), text, key)


class Asked(Protocol):
    """One of several items in a call."""

    @property
    def text(self) -> str:
        """The text that the model sees."""


AskedT = TypeVar("AskedT", bound=Asked)


def batches(items: Iterable[AskedT], room: int) -> Iterator[list[AskedT]]:
    """Yield the items in groups that fit into a call: up to `MOST` items, and `room` characters if possible."""
    batch: list[AskedT] = []
    left = room
    for item in items:
        if batch and (len(batch) == MOST or len(item.text) > left):
            yield batch
            batch, left = [], room
        batch.append(item)
        left -= len(item.text)
    if batch:
        yield batch


async def _asked(
    batch: Sequence[_Item], question: Question[DigestAnswer], questions: QuestionRunner
) -> list[tuple[_Item, str]]:
    """Return the texts from a call; a text is empty if there is nothing to report.

    Items that the answer omits, or describes with a secret or personal data, are processed by an agent.
    """
    data = wrapped("\n".join(item.text for item in batch), "the use of tables")
    answer = await questions.ask(question, f"The tables:\n{data}")
    if answer is None:
        return []
    given: dict[str, str] = {}
    for each in answer.tables:
        given.setdefault(each.table, each.narrative.strip()[:LONGEST])
    texts = ((item, given[item.name]) for item in batch if item.name in given)
    return [(item, text) for item, text in texts if not any((*secrets(text), *personal_data(text)))]
