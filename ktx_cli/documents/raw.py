"""Raw files of a source, what changed of them, and the units of work they are cut into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from ktx_cli.core import KtxError, Record, ResultWarning


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file as its source gave it: `path` is relative, with `/`; `sha256` in hex; `size` in bytes.

    `read` returns the content, and raises `StorageError` where it is gone.
    """

    path: str
    sha256: str
    size: int
    read: Callable[[], bytes] = field(compare=False, repr=False)

    def text(self) -> str:
        """Return the content as text; bytes that are no UTF-8 become U+FFFD."""
        return self.read().decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class Skipped(Record):
    """Something of the source that could not be read. `retry`: whether the next run may succeed."""

    what: str
    reason: str
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a source has now. `files` is sorted by path.

    `complete`: everything in scope was read, so what is missing is deleted. `cursor`: where the next fetch may go on,
    stored only when the run succeeds. `origin`: one line for people, without credentials.
    """

    files: Mapping[str, RawFile]
    complete: bool = True
    cursor: str | None = None
    origin: str = ""
    fetched: int = 0
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths of a snapshot against those of the last run that succeeded with them, each sorted.

    `retried`: as they were when their work did not land. `unread`: as they were when there was no model to read them.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def touched(self) -> frozenset[str]:
        """What is to be worked through: new, different, or left by an earlier run."""
        return frozenset((*self.added, *self.modified, *self.retried, *self.unread))

    def to_json(self) -> dict[str, int]:
        """Return the counts."""
        return {each.name: len(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """A piece of work for one agent loop.

    `key`: stable from run to run, unique in its source. `files` must be worked through; `dependencies` may be read
    too; of `peers` the agent sees the names. `semantic` False: the unit may write wiki pages alone, for `why_not`.
    """

    key: str
    label: str
    files: tuple[str, ...]
    dependencies: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    notes: str = ""
    semantic: bool = True
    why_not: str = ""

    @property
    def readable(self) -> tuple[str, ...]:
        """What its agent may read."""
        return (*self.files, *self.dependencies)


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
