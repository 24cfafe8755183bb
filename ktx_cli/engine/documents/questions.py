"""Questions about single documents, side by side: an answer is kept by what was asked, a failure costs one document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from ktx_cli.core import KtxError
from ktx_cli.llm import Abort, LlmRuntime
from ktx_cli.project import EnrichmentStore
from ktx_cli.prompts import Prompt, text_of

Given = TypeVar("Given", bound=BaseModel)

AT_ONCE: Final = 2
"""Questions at the same time, where nothing else is configured."""

ROLE: Final = "triage"


def _never() -> bool:
    return False


def _goes_on(error: KtxError) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked. `stopped`: nothing new is asked; `failed`: takes an error, and says whether it ends all.

    `abort` ends what is under way too.
    """

    runtime: LlmRuntime
    store: EnrichmentStore
    abort: Abort | None = None
    stopped: Callable[[], bool] = _never
    failed: Callable[[KtxError], bool] = _goes_on
    at_once: int = AT_ONCE


@dataclass(slots=True)
class Tally:
    """What questions of one kind took: answers asked for, answers of earlier runs, failures with the first's words.

    `unasked`: documents nothing was asked about, for the run was ending.
    """

    asked: int = 0
    kept: int = 0
    failures: int = 0
    unasked: int = 0
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the counts."""
        return {"asked": self.asked, "kept": self.kept, "failures": self.failures, "unasked": self.unasked}


@dataclass(frozen=True, slots=True)
class Question(Generic[Given]):
    """A kind of question: `kind` in the store, what the model is told, and the shape of an answer."""

    kind: str
    prompt: Prompt
    output: type[Given]
    tally: Tally = field(default_factory=Tally)

    async def ask(self, asking: Asking, message: str) -> Given | None:
        """Return the answer to a message; None where there is none, and why is in the tally."""
        key = content_hash(self.kind, self.prompt.version, message)
        kept = self._known(asking.store.get(self.kind, key))
        if kept is not None:
            self.tally.kept += 1
            return kept
        if asking.stopped():
            self.tally.unasked += 1
            return None
        self.tally.asked += 1
        try:
            result = await asking.runtime.generate_object(
                message, self.output, system=self.prompt.text, role=ROLE, abort=asking.abort
            )
        except KtxError as error:
            self._failed(asking, error)
            return None
        asking.store.put(self.kind, key, result.value.model_dump(mode="json"))
        return result.value

    def _known(self, stored: Any) -> Given | None:
        try:
            return None if stored is None else self.output.model_validate(stored)
        except ValidationError:  # kept by a version with another shape: asked for anew
            return None

    def _failed(self, asking: Asking, error: KtxError) -> None:
        if asking.failed(error) or error.code == "cancelled":
            self.tally.unasked += 1
            return
        self.tally.failures += 1
        self.tally.problem = self.tally.problem or error.message


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
