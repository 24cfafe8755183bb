"""Triages documents with a model, one at a time: skipped, worth a fact or two, or worth an agent."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from ktx_cli.agent_tools import DocumentId, Library, wrapped
from ktx_cli.core import KtxError, Record, one_line
from ktx_cli.documents import Document, Passage, is_heading, outside_fences, slug
from ktx_cli.engine.documents.candidates import (
    HINTS,
    LONGEST_ASSERTION,
    LONGEST_PAGE,
    LONGEST_RATIONALE,
    LONGEST_TOPIC,
    Hint,
    PageCandidate,
    candidate_key,
    evidence_of,
    first_verdict,
    scores_of,
)
from ktx_cli.engine.task import Cancellation
from ktx_cli.llm import LlmRuntime
from ktx_cli.project import AnswerStore
from ktx_cli.prompts import Prompt, text_of
from ktx_cli.scan import side_by_side

Answer = TypeVar("Answer", bound=BaseModel)

AT_ONCE: Final = 2
"""Maximum number of concurrent calls, unless configured otherwise."""

ROLE: Final = "triage"


@dataclass(slots=True)
class Tally(Record):
    """Call statistics for one kind of question."""

    asked: int = 0
    kept: int = 0
    """Answers of earlier runs."""
    failures: int = 0
    unasked: int = 0
    """Number of documents that were not sent because the run was ending."""
    problem: str = ""
    """The message of the first failure."""

    json_keys = ("asked", "kept", "failures", "unasked")


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """A kind of question."""

    kind: str
    """The question's name in the store."""
    prompt: Prompt
    output: type[Answer]
    role: str = ROLE
    """The role whose model answers."""
    tally: Tally = field(default_factory=Tally)

    def parsed(self, stored: Any) -> Answer | None:
        """Return a stored answer; None if there is none, or if it was stored in another format."""
        try:
            return None if stored is None else self.output.model_validate(stored)
        except ValidationError:
            return None


@dataclass(frozen=True, slots=True)
class QuestionRunner:
    """Asks the model about documents until the run is cancelled."""

    runtime: LlmRuntime
    store: AnswerStore
    cancellation: Cancellation = field(default_factory=Cancellation)
    at_once: int = AT_ONCE
    """Maximum number of concurrent calls."""

    async def ask(self, question: Question[Answer], message: str) -> Answer | None:
        """Return the answer to a message; None if there is none, with the reason in the question's tally."""
        tally = question.tally
        key = content_hash(question.kind, question.prompt.version, message)
        kept = question.parsed(self.store.get(question.kind, key))
        if kept is not None:
            tally.kept += 1
            return kept
        if self.cancellation.is_set:
            tally.unasked += 1
            return None
        tally.asked += 1
        try:
            result = await self.runtime.generate_object(
                message, question.output, system=question.prompt.text, role=question.role, abort=self.cancellation.abort
            )
        except KtxError as error:
            if self.cancellation.record(error) or error.code == "cancelled":
                tally.unasked += 1
            else:
                tally.failures += 1
                tally.problem = tally.problem or error.message
            return None
        self.store.put(question.kind, key, result.value.model_dump(mode="json"))
        return result.value


def content_hash(*parts: str) -> str:
    """Return the identity of a question."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class DocumentPrompts:
    """The prompts for triage, for extracting facts, and for deciding about candidates."""

    triage: Prompt
    extraction: Prompt
    curate: Prompt


def load_document_prompts(root: Path | None = None) -> DocumentPrompts:
    """Return the prompts of the project at `root`; raises the errors of `text_of`. Versions are the sha256 of texts."""
    return DocumentPrompts(
        load_prompt("page_triage", root), load_prompt("light_extraction", root), load_prompt("curate", root)
    )


def load_prompt(name: str, root: Path | None) -> Prompt:
    """Return a prompt of the project at `root`; raises the errors of `text_of`. The version is its sha256."""
    text, _ = text_of("prompts", name, root)
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest())


TRIAGE: Final = "triage"
"""The kind under which the answers are stored."""

EXCERPT: Final = 2_048
"""Maximum number of characters of a document that the model sees."""

TINY: Final = 12
"""Minimum number of letters and digits in a document worth reading, counting its properties but not its headings."""

_LONGEST_PROPERTIES: Final = 2_000


class Lane(StrEnum):
    """`skip`: nothing lasts. `light`: one or two facts, extracted in one call. `full`: an agent processes it."""

    SKIP = "skip"
    LIGHT = "light"
    FULL = "full"


class TriageAnswer(BaseModel):
    """The lane for a document."""

    lane: Literal["skip", "light", "full"] = Field(description="skip, light or full, according to the instructions.")
    reason: str = Field(description="Why, in one short sentence.")


@dataclass(frozen=True, slots=True)
class LaneChoice:
    """The lane for a document, and why."""

    path: str
    lane: Lane
    reason: str


@dataclass(slots=True)
class Triage:
    """The lanes of documents by path, and the usage of the calls."""

    lanes: dict[str, LaneChoice] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def of(self, lane: Lane) -> list[str]:
        """Return the documents in a lane, sorted."""
        return sorted(path for path, each in self.lanes.items() if each.lane is lane)


def _ignore(done: int, total: int) -> None:
    """Drop the news."""


async def triage(
    documents: Sequence[Document],
    questions: QuestionRunner,
    prompt: Prompt,
    on_progress: Callable[[int, int], None] = _ignore,
) -> Triage:
    """Return the lane for every document; a document that the model gave no answer for goes to the full lane."""
    question = Question(TRIAGE, prompt, TriageAnswer)
    found: dict[str, LaneChoice] = {}

    async def sort(document: Document) -> None:
        found[document.path] = by_rule(document) or await _ask(document, questions, question)
        on_progress(len(found), len(documents))

    await side_by_side(documents, sort, questions.at_once)
    return Triage({path: found[path] for path in sorted(found)}, question.tally)


def by_rule(document: Document) -> LaneChoice | None:
    """Return the lane for a document without content, or None for a document to send to the model."""
    body = (line for line in _lines(document.markdown) if not line.strip() or not is_heading(line))
    texts = [*body, *_texts({name: each for name, each in document.properties.items() if name != "id"})]
    characters = (character for text in texts for character in text if character.isalnum())
    count = sum(1 for _ in itertools.islice(characters, TINY))
    return LaneChoice(document.path, Lane.SKIP, "it is empty or nearly so") if count < TINY else None


def _lines(markdown: str) -> list[str]:
    """Return the lines of a text; lines in a code fence, which are not headings, are indented."""
    outside = {number for number, _ in outside_fences(markdown)}
    return [line if number in outside else f"    {line}" for number, line in enumerate(markdown.split("\n"))]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


async def _ask(document: Document, questions: QuestionRunner, question: Question[TriageAnswer]) -> LaneChoice:
    answer = await questions.ask(question, triage_message(document))
    if answer is None:
        return LaneChoice(document.path, Lane.FULL, "the model did not answer")
    return LaneChoice(document.path, Lane(answer.lane), one_line(answer.reason))


def triage_message(document: Document) -> str:
    """Return the text of a document for the model."""
    properties = json.dumps(document.properties, sort_keys=True, ensure_ascii=False, default=str)
    facts = f"title: {one_line(document.title)}\npath: {one_line(document.path)}"
    known = f"{facts}\nproperties: {properties[:_LONGEST_PROPERTIES]}"
    length = f"Its text has {len(document.markdown):,} characters; it begins with:"
    excerpt = wrapped(document.markdown[:EXCERPT], "the text of the document")
    return f"A document:\n{wrapped(known, 'what is known of the document')}\n\n{length}\n{excerpt}"


EXTRACTION: Final = "light_extraction"
"""The kind of the stored answers."""

EXTRACTION_ROLE: Final = "candidateExtraction"

MOST: Final = 5
"""Maximum number of candidates from a document."""

LONGEST_DOCUMENT: Final = 60_000
"""Maximum number of characters in a document; a longer document contains more than a few facts and goes to an agent."""

_SCORES: Final = ("durability", "authority", "reuse", "novelty", "risk")


class GivenFact(BaseModel):
    """A fact in the model's answer."""

    topic: str = Field(description="The concept in a few words.")
    assertion: str = Field(description="The fact in one sentence.")
    rationale: str = Field(description="Why it is worth keeping, in one sentence.")
    passages: list[str] = Field(description="Numbers of the passages that contain the fact, such as p2.")
    page: str | None = Field(description="Key of a wiki page that the fact may belong on; null if none is known.")
    hint: str = Field(description="create, update, merge, conflict or skip.")
    durability: int = Field(description="0 to 3.")
    authority: int = Field(description="0 to 3.")
    reuse: int = Field(description="0 to 3.")
    novelty: int = Field(description="0 to 3.")
    risk: int = Field(description="0 to 3.")


class ExtractionAnswer(BaseModel):
    """The facts of a document."""

    candidates: list[GivenFact] = Field(description="At most five facts; empty if there are no lasting facts.")


@dataclass(slots=True)
class Extraction:
    """The candidates of documents, sorted by path. `promoted`: documents that go to the full lane -> why."""

    candidates: tuple[PageCandidate, ...] = ()
    promoted: dict[str, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)


async def extract(
    library: Library,
    places: Sequence[DocumentId],
    questions: QuestionRunner,
    prompt: Prompt,
    on_progress: Callable[[int, int], None] = _ignore,
) -> Extraction:
    """Return the candidates from the documents of one source; a document without an answer goes to the full lane."""
    question = Question(EXTRACTION, prompt, ExtractionAnswer, EXTRACTION_ROLE)
    found: dict[str, list[PageCandidate]] = {}
    promoted: dict[str, str] = {}

    async def take(place: DocumentId) -> None:
        passages = library.passages(place)
        if sum(len(each.text) for each in passages) > LONGEST_DOCUMENT:
            promoted[place.path] = "it is too long for one call"
        else:
            answer = await questions.ask(question, extraction_message(library, place, passages))
            if answer is None:
                promoted[place.path] = "the model did not answer"
            else:
                found[place.path] = candidates_of(answer, place, passages, library)
        on_progress(len(found) + len(promoted), len(places))

    await side_by_side(places, take, questions.at_once)
    candidates = tuple(each for path in sorted(found) for each in found[path])
    return Extraction(candidates, dict(sorted(promoted.items())), question.tally)


def extraction_message(library: Library, place: DocumentId, passages: Sequence[Passage]) -> str:
    """Return the text of a document for the model."""
    document = library.document(place)
    title = place.path if document is None else document.title
    head = wrapped(f"title: {one_line(title)}\npath: {one_line(place.path)}", "what is known of the document")
    shown = (f"{label}:\n{wrapped(each.text, 'a passage')}" for label, each in _labelled(passages).items())
    return "\n\n".join((f"A document:\n{head}", *shown))


def candidates_of(
    answer: ExtractionAnswer, place: DocumentId, passages: Sequence[Passage], library: Library
) -> list[PageCandidate]:
    """Return at most five candidates from an answer.

    A fact without an existing passage is assumed to be in the first passage.
    """
    labelled = _labelled(passages)
    found: dict[str, PageCandidate] = {}
    for given in answer.candidates:
        topic, assertion = one_line(given.topic, LONGEST_TOPIC), one_line(given.assertion, LONGEST_ASSERTION)
        if not topic or not assertion or len(found) == MOST or not passages:
            continue
        key = candidate_key(topic, place.path)
        number = 1 + sum(each == key or each.startswith(f"{key}-") for each in found)
        key = key if number == 1 else f"{key}-{number}"
        candidate = PageCandidate(
            key,
            place.source,
            topic,
            assertion,
            one_line(given.rationale, LONGEST_RATIONALE),
            tuple(evidence_of(each, place, library) for each in _named(given.passages, labelled)),
            slug(given.page or "", LONGEST_PAGE),
            _hint(given.hint),
            scores_of({name: getattr(given, name) for name in _SCORES}),
        )
        found[key] = first_verdict(candidate)
    return list(found.values())


def _labelled(passages: Sequence[Passage]) -> dict[str, Passage]:
    return {f"p{each.order + 1}": each for each in passages}


def _named(names: Sequence[str], labelled: Mapping[str, Passage]) -> list[Passage]:
    """Return the passages that an answer names, by number or by key; the first passage if none of them exists."""
    by_key = {each.key: each for each in labelled.values()}
    found = [labelled.get(name.strip().lower()) or by_key.get(name.strip()) for name in names]
    return list(dict.fromkeys(each for each in found if each is not None)) or list(labelled.values())[:1]


def _hint(text: str) -> Hint:
    return next((each for each in HINTS if each == text.strip().lower()), "create")
