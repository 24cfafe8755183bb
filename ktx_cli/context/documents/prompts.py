"""The prompts of documents: the packaged ones, or a project's own in their place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.context.prompts import Prompt
from ktx_cli.context.tools.texts import text_of


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
