"""Questions about single documents: answers are kept by what was asked, and a failure costs one document."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from ktx_cli.core import KtxError, Record
from ktx_cli.engine.task import Cancellation
from ktx_cli.llm import LlmRuntime
from ktx_cli.project import EnrichmentStore
from ktx_cli.prompts import Prompt, text_of

Answer = TypeVar("Answer", bound=BaseModel)

AT_ONCE: Final = 2
"""Questions at the same time, where nothing else is configured."""

ROLE: Final = "triage"


@dataclass(slots=True)
class Tally(Record):
    """How the questions of one kind went."""

    asked: int = 0
    kept: int = 0
    """Answers of earlier runs."""
    failures: int = 0
    unasked: int = 0
    """Documents nothing was asked about, because the run was ending."""
    problem: str = ""
    """The message of the first failure."""

    json_keys = ("asked", "kept", "failures", "unasked")


@dataclass(frozen=True, slots=True)
class Question(Generic[Answer]):
    """A kind of question about documents."""

    kind: str
    """Its name in the store."""
    prompt: Prompt
    output: type[Answer]
    tally: Tally = field(default_factory=Tally)

    def parsed(self, stored: Any) -> Answer | None:
        """Return a stored answer; None where there is none, or a version with another shape stored it."""
        try:
            return None if stored is None else self.output.model_validate(stored)
        except ValidationError:
            return None


@dataclass(frozen=True, slots=True)
class QuestionRunner:
    """Asks the model about documents, until the run is cancelled."""

    runtime: LlmRuntime
    store: EnrichmentStore
    cancellation: Cancellation = field(default_factory=Cancellation)
    at_once: int = AT_ONCE
    """Questions at the same time."""

    async def ask(self, question: Question[Answer], message: str) -> Answer | None:
        """Return the answer to a message; None where there is none, and the tally of the question says why."""
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
                message, question.output, system=question.prompt.text, role=ROLE, abort=self.cancellation.abort
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
    """Return what tells one question from another."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class DocumentPrompts:
    """What the model is told when it sorts documents, takes facts out of them, and decides about candidates."""

    triage: Prompt
    extraction: Prompt
    curate: Prompt


def load_document_prompts(root: Path | None = None) -> DocumentPrompts:
    """Return the prompts as the project at `root` has them; raises as `text_of`. Versions are the sha256 of texts."""
    return DocumentPrompts(_prompt("page_triage", root), _prompt("light_extraction", root), _prompt("curate", root))


def _prompt(name: str, root: Path | None) -> Prompt:
    text, _ = text_of("prompts", name, root)
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest())
