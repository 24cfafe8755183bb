"""Sorts documents by what they are worth: nothing, a fact or two, or the work of an agent."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, Field

from ktx_cli.context.documents.asking import Asking, Question, Tally
from ktx_cli.context.documents.markdown_text import is_heading, outside_fences
from ktx_cli.context.documents.model import Document
from ktx_cli.context.prompts import Prompt
from ktx_cli.context.scan.describe.calling import side_by_side
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.core.text import one_line

KIND: Final = "triage"
"""The kind of what is kept in the store."""

EXCERPT: Final = 2_048
"""Characters of a document the model sees."""

TINY: Final = 12
"""Letters and digits below which a document says nothing, those of its properties counted, its headings not."""

_LONGEST_PROPERTIES: Final = 2_000


class Lane(StrEnum):
    """`skip`: nothing lasts. `light`: one or two facts, taken out in one call. `full`: an agent works through it."""

    SKIP = "skip"
    LIGHT = "light"
    FULL = "full"


class TriageAnswer(BaseModel):
    """Where a document goes."""

    lane: Literal["skip", "light", "full"] = Field(description="skip, light or full, as the instructions say.")
    reason: str = Field(description="Why, in one short sentence.")


@dataclass(frozen=True, slots=True)
class Sorted:
    """The lane of a document, and why."""

    path: str
    lane: Lane
    reason: str


@dataclass(slots=True)
class Triage:
    """The lanes of documents by path, and what it took to find them."""

    lanes: dict[str, Sorted] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)

    def of(self, lane: Lane) -> list[str]:
        """Return the documents of a lane, sorted."""
        return sorted(path for path, each in self.lanes.items() if each.lane is lane)


def _ignore(done: int, total: int) -> None:
    """Drop the news."""


async def triage(
    documents: Sequence[Document],
    asking: Asking,
    prompt: Prompt,
    on_progress: Callable[[int, int], None] = _ignore,
) -> Triage:
    """Return the lane of every document; one the model has no answer for goes to the full lane."""
    question = Question(KIND, prompt, TriageAnswer)
    found: dict[str, Sorted] = {}

    async def sort(document: Document) -> None:
        found[document.path] = by_rule(document) or await _asked(document, asking, question)
        on_progress(len(found), len(documents))

    await side_by_side(documents, sort, asking.at_once)
    return Triage({path: found[path] for path in sorted(found)}, question.tally)


def by_rule(document: Document) -> Sorted | None:
    """Return the lane of a document that says nothing at all; None for one to ask about."""
    body = (line for line in _lines(document.markdown) if not line.strip() or not is_heading(line))
    texts = [*body, *_texts({name: each for name, each in document.properties.items() if name != "id"})]
    count = sum(character.isalnum() for text in texts for character in text)
    return Sorted(document.path, Lane.SKIP, "it is empty or nearly so") if count < TINY else None


def _lines(markdown: str) -> list[str]:
    """Return the lines of a text; those in a fence, which are no headings, indented."""
    outside = {number for number, _ in outside_fences(markdown)}
    return [line if number in outside else f"    {line}" for number, line in enumerate(markdown.split("\n"))]


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


async def _asked(document: Document, asking: Asking, question: Question[TriageAnswer]) -> Sorted:
    answer = await question.ask(asking, message(document))
    if answer is None:
        return Sorted(document.path, Lane.FULL, "the model gave no answer")
    return Sorted(document.path, Lane(answer.lane), one_line(answer.reason))


def message(document: Document) -> str:
    """Return what the model sees of a document."""
    properties = json.dumps(document.properties, sort_keys=True, ensure_ascii=False, default=str)
    facts = f"title: {one_line(document.title)}\npath: {one_line(document.path)}"
    told = f"{facts}\nproperties: {properties[:_LONGEST_PROPERTIES]}"
    length = f"Its text has {len(document.markdown):,} characters; it begins with:"
    excerpt = wrapped(document.markdown[:EXCERPT], "the text of the document")
    return f"A document:\n{wrapped(told, 'what is known of the document')}\n\n{length}\n{excerpt}"
