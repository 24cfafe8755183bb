"""Takes the few facts that last out of a document of the light lane, in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, Field

from ktx_cli.context.documents.asking import Asking, Question, Tally
from ktx_cli.context.documents.candidates import (
    HINTS,
    LONGEST_ASSERTION,
    LONGEST_PAGE,
    LONGEST_RATIONALE,
    LONGEST_TOPIC,
    Candidate,
    Hint,
    candidate_key,
    evidence_of,
    first_verdict,
    scores_of,
    tidy,
)
from ktx_cli.context.documents.chunks import Passage, slug
from ktx_cli.context.documents.library import Library, Place
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.scan.describe.calling import side_by_side
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.core.text import one_line

KIND: Final = "light_extraction"
"""The kind of what is kept in the store."""

MOST: Final = 5
"""Candidates of a document."""

LONGEST_DOCUMENT: Final = 60_000
"""Characters of a document; a longer one has more to say than a few facts, and is for an agent."""

_SCORES: Final = ("durability", "authority", "reuse", "novelty", "risk")


class GivenFact(BaseModel):
    """A fact as the model gives it."""

    topic: str = Field(description="The concept in a few words.")
    assertion: str = Field(description="The fact in one sentence.")
    rationale: str = Field(description="Why it is worth keeping, in one sentence.")
    passages: list[str] = Field(description="Numbers of the passages it stands in, such as p2.")
    page: str | None = Field(description="Key of a wiki page it may belong on; null: none known.")
    hint: str = Field(description="create, update, merge, conflict or skip.")
    durability: int = Field(description="0 to 3.")
    authority: int = Field(description="0 to 3.")
    reuse: int = Field(description="0 to 3.")
    novelty: int = Field(description="0 to 3.")
    risk: int = Field(description="0 to 3.")


class ExtractionAnswer(BaseModel):
    """The facts of a document."""

    candidates: list[GivenFact] = Field(description="At most five facts; none where nothing lasts.")


@dataclass(slots=True)
class Extraction:
    """The candidates of documents, sorted by path. `promoted`: documents that go to the full lane -> why."""

    candidates: tuple[Candidate, ...] = ()
    promoted: dict[str, str] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)


def _ignore(done: int, total: int) -> None:
    """Drop the news."""


async def extract(
    library: Library,
    places: Sequence[Place],
    asking: Asking,
    prompt: Prompt,
    on_progress: Callable[[int, int], None] = _ignore,
) -> Extraction:
    """Return the candidates of documents of one source; one without an answer goes to the full lane."""
    question = Question(KIND, prompt, ExtractionAnswer)
    found: dict[str, list[Candidate]] = {}
    promoted: dict[str, str] = {}

    async def take(place: Place) -> None:
        passages = library.passages(place)
        if sum(len(each.text) for each in passages) > LONGEST_DOCUMENT:
            promoted[place.path] = "it is too long for one call"
        else:
            answer = await question.ask(asking, message(library, place, passages))
            if answer is None:
                promoted[place.path] = "the model gave no answer"
            else:
                found[place.path] = candidates_of(answer, place, passages, library)
        on_progress(len(found) + len(promoted), len(places))

    await side_by_side(places, take, asking.at_once)
    candidates = tuple(each for path in sorted(found) for each in found[path])
    return Extraction(candidates, dict(sorted(promoted.items())), question.tally)


def message(library: Library, place: Place, passages: Sequence[Passage]) -> str:
    """Return what the model sees of a document."""
    document = library.document(place)
    title = place.path if document is None else document.title
    head = wrapped(f"title: {one_line(title)}\npath: {one_line(place.path)}", "what is known of the document")
    shown = (f"{label}:\n{wrapped(each.text, 'a passage')}" for label, each in _labelled(passages).items())
    return "\n\n".join((f"A document:\n{head}", *shown))


def candidates_of(
    answer: ExtractionAnswer, place: Place, passages: Sequence[Passage], library: Library
) -> list[Candidate]:
    """Return the candidates of an answer, at most five.

    A fact of which no passage is there is taken to stand in the first.
    """
    labelled = _labelled(passages)
    found: dict[str, Candidate] = {}
    for given in answer.candidates:
        topic, assertion = tidy(given.topic, LONGEST_TOPIC), tidy(given.assertion, LONGEST_ASSERTION)
        if not topic or not assertion or len(found) == MOST or not passages:
            continue
        key = candidate_key(topic, place.path)
        number = 1 + sum(each == key or each.startswith(f"{key}-") for each in found)
        key = key if number == 1 else f"{key}-{number}"
        candidate = Candidate(
            key,
            place.source,
            topic,
            assertion,
            tidy(given.rationale, LONGEST_RATIONALE),
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
    """Return the passages an answer names, by number or by key; the first one where it names none that is there."""
    by_key = {each.key: each for each in labelled.values()}
    found = [labelled.get(name.strip().lower()) or by_key.get(name.strip()) for name in names]
    kept = list(dict.fromkeys(each for each in found if each is not None))
    return kept or list(labelled.values())[:1]


def _hint(text: str) -> Hint:
    return next((each for each in HINTS if each == text.strip().lower()), "create")
