"""Generates questions that document passages answer and synonyms of their subjects, for many passages per call.

Only passages without questions are sent: new ones, those whose text changed, and those of an earlier call that failed.
Each answer is stored at once, so that no run pays for it twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, Field

from ktx_cli.agent_tools import DocumentId, Library, wrapped
from ktx_cli.core import (
    Emit,
    ResultWarning,
    StepFinished,
    StepProgress,
    StepStarted,
    ignore_events,
    monotonic,
    one_line,
    plural,
)
from ktx_cli.documents import Passage, UnreadableDocumentError
from ktx_cli.engine.digests import Kept, batches
from ktx_cli.engine.documents.triage import Question, QuestionRunner, Tally, content_hash, load_prompt
from ktx_cli.engine.work import SourceWork, without_questions
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.project import StateDatabase
from ktx_cli.prompts import Prompt
from ktx_cli.scan import side_by_side
from ktx_cli.sources import DocumentQuestions, PassageQuestions, SourceKey, load_questions, passage_digest

KIND: Final = "passage_questions"
"""The kind of the answers in the store, and the name of the prompt."""

ROLE: Final = "candidateExtraction"
"""The role whose model writes them, the same as for descriptions of tables."""

ROOM: Final = 48_000
"""Maximum number of characters for the passages in one call."""

MOST_QUESTIONS, MOST_SYNONYMS, LONGEST = 5, 6, 200
"""Maximum number of questions and synonyms for a passage, and of characters in each."""

SHORTEST: Final = 12
"""Minimum number of letters and digits in a passage that can answer a question."""


Texts = Mapping[str, Mapping[str, str]]
"""Path -> digest -> the text of each document passage for the model."""


class SectionQuestions(BaseModel):
    """The search terms for one section."""

    section: str = Field(description="The label of the section, such as `s1`.")
    questions: list[str] = Field(description="Three to five questions that the section answers.")
    synonyms: list[str] = Field(description="Up to six other names for the subject of the section.")


class QuestionsAnswer(BaseModel):
    """The search terms for the sections in a message."""

    sections: list[SectionQuestions]


@dataclass(frozen=True, slots=True)
class _Item:
    """A passage to send to the model."""

    digest: str
    key: str
    text: str
    """The text that the model sees."""


@dataclass(frozen=True, slots=True)
class QuestionDemand:
    """The number of document sections, or sources, that a run would send to the model, and the number of calls."""

    count: int = 0
    calls: int = 0


def question_demand(
    works: Iterable[SourceWork], database: StateDatabase | None, kept: Kept, root: Path | None = None
) -> QuestionDemand:
    """Return the calls that `write_questions` would make, without making them. `database` None: no state yet."""
    sections = calls = 0
    for work in works:
        paths = without_questions(work, database)
        if paths:
            texts = _texts(work, Library({work.connection: work.snapshot.files}), paths)
            stored = {} if database is None else _stored(database, work.connection, texts)
            waiting, _ = _waiting(texts, stored, load_prompt(KIND, root))
            known = kept(KIND, [item.key for item in waiting])
            waiting = [item for item in waiting if item.key not in known]
            sections, calls = sections + len(waiting), calls + sum(1 for _ in batches(waiting, ROOM))
    return QuestionDemand(sections, calls)


@dataclass(slots=True)
class DocumentsAsked:
    """The questions for document passages, and call statistics."""

    documents: dict[SourceKey, tuple[DocumentQuestions, ...]] = field(default_factory=dict)
    """Source -> its documents that had passages without questions before the run."""
    tallies: dict[SourceKey, Tally] = field(default_factory=dict)
    """Counts the calls; `kept` counts passages from earlier runs."""
    missing: int = 0
    """Passages that have no questions yet."""

    def warnings(self) -> Iterator[ResultWarning]:
        """Yield what went wrong without harm."""
        problem = next((each.problem for each in self.tallies.values() if each.problem), "")
        if self.missing and problem:
            what = f"{plural(self.missing, 'section')} of documents"
            message = f"could not write questions for {what}; the next run retries: {problem}"
            yield ResultWarning("questions_failed", message)


async def write_questions(
    works: Iterable[SourceWork],
    library: Library,
    questions: QuestionRunner,
    database: StateDatabase,
    root: Path | None = None,
    emit: Emit = ignore_events,
) -> DocumentsAsked:
    """Return the questions for all passages that had none."""
    asked = DocumentsAsked()
    for work in works:
        paths = without_questions(work, database)
        if paths:
            prompt = load_prompt(KIND, root)
            question = Question(KIND, prompt, QuestionsAnswer, ROLE, asked.tallies.setdefault(work.key, Tally()))
            writer = _Writer(work, library, question, questions, database, emit)
            asked.documents[work.key], missing = await writer.write(paths)
            asked.missing += missing
    return asked


@dataclass(slots=True)
class _Writer:
    """Writes the questions for one source's documents."""

    work: SourceWork
    library: Library
    question: Question[QuestionsAnswer]
    questions: QuestionRunner
    database: StateDatabase
    emit: Emit
    found: dict[str, PassageQuestions] = field(default_factory=dict)
    """Digest of a passage -> its questions."""

    async def write(self, paths: Sequence[str]) -> tuple[tuple[DocumentQuestions, ...], int]:
        """Return the documents at some paths with their questions, and the number of passages that have none yet."""
        connection = self.work.connection
        self.emit(StepStarted("questions", connection))
        started = monotonic()
        texts = await asyncio.to_thread(_texts, self.work, self.library, paths)
        self.found = _stored(self.database, connection, texts)
        self.question.tally.kept += len(self.found)
        unwritten, empty = _waiting(texts, self.found, self.question.prompt)
        self.found |= empty
        kept = self.questions.store.get_many(KIND, (item.key for item in unwritten))
        waiting = [item for item in unwritten if not self._apply(item, kept.get(item.key))]
        total = len({digest for document in texts.values() for digest in document})

        async def ask(batch: Sequence[_Item]) -> None:
            for item, written in await self._asked(batch):
                self.questions.store.put(KIND, item.key, [written.questions, written.synonyms])
                self.found[item.digest] = written
            self.emit(StepProgress("questions", len(self.found), total, connection))

        await side_by_side(list(batches(waiting, ROOM)), ask, self.questions.at_once)
        missing = sum(item.digest not in self.found for item in waiting)
        summary = f"questions for {total - missing} of {plural(total, 'section')}"
        self.emit(StepFinished("questions", summary, monotonic() - started, connection))
        return tuple(self._document(path, texts[path]) for path in sorted(texts)), missing

    def _apply(self, item: _Item, kept: Any) -> bool:
        """Apply the stored answer from a run that was not committed; return whether there is one."""
        if not isinstance(kept, list) or len(kept) != 2:
            return False
        self.question.tally.kept += 1
        self.found[item.digest] = PassageQuestions(*map(tuple, kept))
        return True

    async def _asked(self, batch: Sequence[_Item]) -> list[tuple[_Item, PassageQuestions]]:
        """Return the questions from a call; sections that the answer omits are sent again in the next run."""
        labelled = {f"s{number}": item for number, item in enumerate(batch, 1)}
        sections = (f"{label}:\n{wrapped(item.text, 'a section of a document')}" for label, item in labelled.items())
        answer = await self.questions.ask(self.question, "\n\n".join(("The sections:", *sections)))
        if answer is None:
            return []
        given = {each.section.strip().lower(): each for each in reversed(answer.sections)}
        written = [(item, _fit(given[label])) for label, item in labelled.items() if label in given]
        if len(written) < len(batch):
            tally = self.question.tally
            tally.failures += 1
            tally.problem = tally.problem or f"the answer omitted {plural(len(batch) - len(written), 'section')}"
        return written

    def _document(self, path: str, texts: Mapping[str, str]) -> DocumentQuestions:
        own = {digest: self.found[digest] for digest in texts if digest in self.found}
        is_complete = len(own) == len(texts)
        return DocumentQuestions(path, self.work.snapshot.files[path].sha256 if is_complete else "", own)


def _texts(work: SourceWork, library: Library, paths: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return path -> digest -> the text of each passage for the model; nothing for documents removed meanwhile.

    A document that declares itself superseded or a draft has no passages that answer anything.
    """
    found: dict[str, dict[str, str]] = {}
    for path in paths:
        place = DocumentId(work.connection, path)
        document, problem = library.document(place), library.problem(place)
        if document is not None and library.standing(place) is not None:
            found[path] = {}
        elif document is not None:
            title = document.title
            found[path] = {_digest(title, each): _shown(title, each) for each in library.passages(place)}
        elif isinstance(problem, UnreadableDocumentError):  # this remains so until its content changes
            found[path] = {}
    return found


def _stored(database: StateDatabase, connection: str, texts: Texts) -> dict[str, PassageQuestions]:
    """Return the questions for document passages."""
    return {
        digest: own
        for path, document in load_questions(database, connection, texts).items()
        for digest, own in document.passages.items()
        if digest in texts[path]
    }


def _waiting(texts: Texts, known: Collection[str], prompt: Prompt) -> tuple[list[_Item], dict[str, PassageQuestions]]:
    """Return the passages to send, and the passages that can answer nothing, with no questions."""
    waiting, empty = [], {}
    for digest, text in {digest: text for passages in texts.values() for digest, text in passages.items()}.items():
        if digest in known:
            continue
        if sum(map(str.isalnum, text)) < SHORTEST:
            empty[digest] = PassageQuestions()
        else:
            waiting.append(_Item(digest, content_hash(KIND, prompt.version, text), text))
    return waiting, empty


def _digest(title: str, passage: Passage) -> str:
    return passage_digest(title, passage.heading, passage.text)


def _shown(title: str, passage: Passage) -> str:
    return f"title: {one_line(title)}\nbelow: {passage.heading or one_line(title)}\n\n{passage.text.strip()}"


def _fit(given: SectionQuestions) -> PassageQuestions:
    """Return the parts of an answer that may be stored: within the limits, and without secrets or personal data."""
    return PassageQuestions(kept_lines(given.questions, MOST_QUESTIONS), kept_lines(given.synonyms, MOST_SYNONYMS))


def kept_lines(texts: Iterable[str], most: int) -> tuple[str, ...]:
    """Return the first few of some questions or synonyms, without those that contain a secret or personal data."""
    lines = (text for text in dict.fromkeys(map(one_line, texts)) if text and len(text) <= LONGEST)
    return tuple(text for text in lines if not any(secrets(text)) and not any(personal_data(text)))[:most]
