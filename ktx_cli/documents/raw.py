"""Raw files of a source, their changes, and the work units that they are divided into."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from ktx_cli.core import KtxError, Record, ResultWarning


@dataclass(frozen=True, slots=True)
class RawFile:
    """A file from a source. `path` is relative, with `/`; `sha256` in hexadecimal; `size` in bytes.

    `read` returns the content, and raises `StorageError` if it no longer exists.
    """

    path: str
    sha256: str
    size: int
    read: Callable[[], bytes] = field(compare=False, repr=False)

    def text(self) -> str:
        """Return the content as text; bytes that are not valid UTF-8 become U+FFFD."""
        return self.read().decode("utf-8-sig", "replace")


@dataclass(frozen=True, slots=True)
class Skipped(Record):
    """An item in the source that could not be read. `retry`: whether the next run may succeed."""

    what: str
    reason: str
    retry: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The current content of a source. `files` is sorted by path.

    `complete`: everything in scope was read, which means that missing files count as deleted. `cursor`: where the next
    fetch can continue, stored only if the run succeeds. `origin`: a one-line description without credentials.
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
    """The paths of a snapshot compared with those of the last successful run, all sorted.

    `retried`: unchanged files whose work failed. `unread`: unchanged files that no model was available to read.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    retried: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def touched(self) -> frozenset[str]:
        """The paths to process: new, modified, or left unfinished by an earlier run."""
        return frozenset((*self.added, *self.modified, *self.retried, *self.unread))

    def to_json(self) -> dict[str, int]:
        """Return the number of paths of each kind."""
        return {each.name: len(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class WorkUnit:
    """The work for one agent loop.

    `key`: stable between runs, unique in its source. `files` must be processed; `dependencies` may be read too; of
    `peers`, the agent sees only the names. `semantic` False: the unit may only write wiki pages, for the reason
    `why_not`.
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
        """The files that the agent may read."""
        return (*self.files, *self.dependencies)


MAX_CHARACTERS: Final = 1_000_000
"""The maximum length of a document; the rest is cut off, with a note."""

Reason = Literal["encrypted", "broken", "no_text", "binary", "unknown_kind"]


@dataclass(frozen=True, slots=True)
class Document:
    """A document as Markdown.

    `path`: its raw file. `url`: where people read it. `parent`: the ID of its parent page, or its folder. `links`:
    addresses in it, without duplicates. `properties`: facts from its author, as JSON. `notes`: what was omitted.
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
    """A file that ktx cannot read as a document; `reason` says why."""

    def __init__(self, path: str, reason: Reason, what: str, hint: str) -> None:
        super().__init__(f"{path} {what}", hint=hint, details={"path": path, "reason": reason})
        self.reason: Reason = reason


@dataclass(frozen=True, slots=True)
class Content:
    """The result of a format's reader. `title` is empty if the format has none."""

    markdown: str
    title: str = ""
    links: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
