"""A document as it is read, whatever it was written in, and why one cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ktx_cli.core.errors import KtxError

MAX_CHARACTERS: Final = 1_000_000
"""Characters of a document; what follows is left out, and its notes say so."""

Reason = Literal["encrypted", "broken", "no_text", "binary", "unknown_kind"]


@dataclass(frozen=True, slots=True)
class Document:
    """A document as Markdown.

    `path`: of its raw file. `url`: where people read it. `parent`: the id of the page above it, or its folder. `links`:
    addresses in it, each once. `properties`: facts its author gave it, as JSON. `notes`: what of it was left out.
    """

    path: str
    title: str
    markdown: str
    url: str | None = None
    parent: str | None = None
    links: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class UnreadableDocumentError(KtxError):
    """A file that is no document ktx can read; `reason` says why."""

    def __init__(self, path: str, reason: Reason, what: str, hint: str) -> None:
        super().__init__(f"{path} {what}", hint=hint, details={"path": path, "reason": reason})
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Content:
    """What the reader of one format gives: `title` empty where the format has none."""

    markdown: str
    title: str = ""
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
