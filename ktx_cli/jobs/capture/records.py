"""Records of captures: the text, its scope and how it is processed, all validated before anything is stored."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final, Self

from ktx_cli.agent_tools import visible
from ktx_cli.core import (
    Command,
    Hint,
    KtxError,
    Placeholder,
    ResultWarning,
    StorageError,
    UsageError,
    did_you_mean,
    isoformat,
    listing,
    new_run_id,
    now,
    one_line,
)
from ktx_cli.privacy import secrets, sign_of
from ktx_cli.project import (
    MASK,
    KtxConfig,
    Layout,
    connection_of,
    host_identity,
    prepare_private_folder,
    process_start,
    read_bytes,
    write_atomic,
)
from ktx_cli.wiki import user_scope

_LONGEST_LABEL: Final = 60
_MOST_NAMED: Final = 5


class SourceType(StrEnum):
    """The type of a text, which determines how much of it is kept."""

    RESEARCH = "research"
    BACKFILL = "backfill"
    EXTERNAL = "external_ingest"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Maximum `steps` of the agent loop, maximum `characters` of the text, and the instruction on how much to keep."""

    steps: int
    characters: int
    stance: str


BOUNDS: Final[Mapping[SourceType, Bounds]] = {
    SourceType.RESEARCH: Bounds(
        20,
        16_000,
        "The text is the result of research. Be sparing: keep only lessons that apply to later questions, and "
        "only what the text says was confirmed.",
    ),
    SourceType.BACKFILL: Bounds(
        25,
        16_000,
        "The text is an old conversation. Keep very little: only definitions and corrections that somebody "
        "stated plainly and nobody took back; in doubt, nothing.",
    ),
    SourceType.EXTERNAL: Bounds(
        30,
        48_000,
        "The text is the knowledge itself: a note or a document that somebody wants to keep. Keep every "
        "lasting fact, rule and definition in it.",
    ),
}


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """A text to capture. `name`: that of its file, empty for a text passed directly.

    `connection`: the database whose semantic layer it is about, None: all. `user`: whose pages it becomes, None: shared
    ones. `propose`: the change waits on a branch. `replace`: accepted context may be changed. `proposer`: who requested
    it, in a word.
    """

    text: str
    name: str = ""
    connection: str | None = None
    user: str | None = None
    source_type: SourceType = SourceType.EXTERNAL
    propose: bool = False
    replace: bool = False
    proposer: str = "cli"

    @property
    def label(self) -> str:
        """A label by which people recognize the capture, on one line and without personal data."""
        return f"{masked_words(self.name)}" if self.name else f'"{masked_words(self.text)}"'

    @property
    def sha256(self) -> str:
        """The key of the text; the same words with the same scope have the same key."""
        parts = [normalised(self.text), self.connection or "", self.user or ""]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def check(self, config: KtxConfig) -> None:
        """Raise `UsageError` for a text that cannot be captured: empty, too long, with a secret or an invalid scope."""
        bounds = BOUNDS[self.source_type]
        if not self.text.strip():
            example = Command("memory", "capture", "--text", Placeholder('"Revenue is net of refunds."'))
            raise UsageError("there is no text to capture", hint=example)
        if len(self.text) > bounds.characters:
            raise UsageError(
                f"the text has {len(self.text):,} characters, but the limit for `{self.source_type.value}` is "
                f"{bounds.characters:,}",
                hint=Hint(
                    "split it into parts, or ingest it as documents: {}",
                    Command("connection", "add", "docs", "--driver", "documents", "--path", "DIR"),
                ),
            )
        self._check_secrets()
        if self.user is not None:
            user_scope(self.user)
        if self.connection is not None:
            connection_of(config, self.connection)
            if self.connection not in config.databases():
                message = f"connection `{self.connection}` is a context source and has no semantic layer"
                raise UsageError(message, hint=f"databases: {listing(config.databases()) or 'none is configured'}")

    def _check_secrets(self) -> None:
        found = [f"line {self.text.count(chr(10), 0, spot.at) + 1}: {spot.message}" for spot in secrets(self.text)]
        if found:
            raise UsageError(
                "the text contains what looks like a secret, so no part of it was stored: "
                f"{listing(found, _MOST_NAMED)}",
                hint="remove it, and rotate it if it really is a secret",
            )


def normalised(text: str) -> str:
    """Return a text without invisible differences: line breaks, trailing blanks, composed characters."""
    lines = unicodedata.normalize("NFC", text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n")
    return "\n".join(line.rstrip() for line in lines.split("\n")).strip("\n")


def masked_words(text: str) -> str:
    """Return the beginning of a text as one line, with words masked that look personal or like a key."""
    start = one_line(visible(text[: 10 * _LONGEST_LABEL]), 4 * _LONGEST_LABEL)
    return one_line(" ".join(MASK if sign_of(word) is not None else word for word in start.split()), _LONGEST_LABEL)


LATEST: Final = "latest"
FORMAT: Final = 1
_TRIES: Final = 5
_ASKED: Final = ("source_type", "connection", "user", "propose", "replace", "name", "proposer")
"""Fields that a record shares with its request."""
_TEXTS: Final = ("run_id", "label", "sha256", "content", "created")


class Status(StrEnum):
    """The state of a capture. A run whose process ended without recording an outcome is `interrupted`."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    NOTHING = "nothing_to_capture"
    CONFLICT = "conflict"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


UNFINISHED: Final = frozenset({Status.FAILED, Status.INTERRUPTED})
"""States of captures that may be retried."""

ENDED: Final = frozenset({Status.DONE, Status.NOTHING, Status.CONFLICT})
"""States of captures that need no more work."""


@dataclass(frozen=True, slots=True)
class Worker:
    """The process that works on a capture; `start` distinguishes it from a later process with the same pid."""

    pid: int
    start: str
    host: str

    @classmethod
    def this(cls) -> Self:
        """Return this process."""
        return cls(os.getpid(), process_start(os.getpid()) or "", host_identity())

    def is_alive(self) -> bool:
        """Return whether the process is alive; a process on another machine counts as alive."""
        return self.host != host_identity() or process_start(self.pid) == self.start


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A capture. `artifacts`: what it wrote (`wiki:refunds`); `files`: where. `conflicts`: what it did not change.

    `reason`: why nothing was written, or a note for the user. `commits`: one, or one for each partial attempt, oldest
    first. `branch`: where the change waits for review. `reverted`: the run that reverted it, when, and its commit.
    `duplicate_of`: the capture of the same text, if known.
    """

    run_id: str
    label: str
    sha256: str
    content: str
    created: str
    source_type: SourceType = SourceType.EXTERNAL
    connection: str | None = None
    user: str | None = None
    propose: bool = False
    replace: bool = False
    name: str = ""
    proposer: str = "cli"
    status: Status = Status.QUEUED
    reason: str = ""
    worker: Worker | None = None
    started: str | None = None
    finished: str | None = None
    artifacts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    conflicts: tuple[Mapping[str, Any], ...] = ()
    commits: tuple[str, ...] = ()
    branch: str | None = None
    error: Mapping[str, Any] | None = None
    reverted: Mapping[str, Any] | None = None
    duplicate_of: str | None = None

    @classmethod
    def of(cls, request: CaptureRequest) -> Self:
        """Return the record of a new request."""
        asked = {name: getattr(request, name) for name in _ASKED}
        return cls(new_run_id(), request.label, request.sha256, request.text, isoformat(now()), **asked)

    @property
    def commit(self) -> str | None:
        """The newest commit of the capture."""
        return self.commits[-1] if self.commits else None

    def with_commit(self, commit: str | None) -> tuple[str, ...]:
        """Return the capture's commits and an additional one."""
        return self.commits if commit is None or commit in self.commits else (*self.commits, commit)

    @property
    def request(self) -> CaptureRequest:
        """The request of the capture."""
        return CaptureRequest(self.content, **{name: getattr(self, name) for name in _ASKED})

    @property
    def characters(self) -> int:
        """The length of the text."""
        return len(self.content)

    def seen(self) -> MemoryRecord:
        """Return the current state; a running capture without a living process is interrupted."""
        if self.status is not Status.RUNNING or (self.worker is not None and self.worker.is_alive()):
            return self
        return _interrupted(self)

    def to_json(self, *, content: bool = False) -> dict[str, Any]:
        """Return the record as plain values; `content`: with the text."""
        found = asdict(self)
        found |= {"characters": self.characters, "commit": self.commit}
        if not content:
            del found["content"]
        return found


def save(layout: Layout, record: MemoryRecord) -> MemoryRecord:
    """Write a record and return it; raises `StorageError`."""
    prepare_private_folder(layout)
    layout.memory.mkdir(mode=0o700, exist_ok=True)
    document = {"format": FORMAT, **asdict(record)}
    data = (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
    for left in reversed(range(_TRIES)):
        try:
            write_atomic(layout.memory_record(record.run_id), data, mode=0o600)
        except StorageError as error:  # a run that begins removes temporary files, whoever is writing one
            if left and error.details.get("errno") == errno.errorcode[errno.ENOENT]:
                continue
            raise
        break
    return record


def load(layout: Layout, run_id: str) -> MemoryRecord | None:
    """Return the record of a capture as written, None if there is none; raises `StorageError` for an invalid record."""
    path = layout.memory_record(run_id)
    content = read_bytes(path)
    if content is None:
        return None
    try:
        record = _record(json.loads(content))
        if record.run_id != run_id:  # the id tells where it is written again
            raise ValueError(record.run_id)
        return record
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        message = f"{path} is not a record of a capture"
        raise StorageError(message, hint="move it away", details={"path": str(path)}) from error


def _record(document: Any) -> MemoryRecord:
    if not all(isinstance(document[name], str) for name in _TEXTS):
        raise TypeError(_TEXTS)
    known = {name: value for name, value in document.items() if name in MemoryRecord.__dataclass_fields__}
    worker = known.get("worker")
    return MemoryRecord(
        **{
            **known,
            "source_type": SourceType(known["source_type"]),
            "status": Status(known["status"]),
            "worker": None if worker is None else Worker(**worker),
            **{name: tuple(known[name]) for name in ("artifacts", "files", "conflicts", "commits")},
        }
    )


def all_records(layout: Layout) -> tuple[list[MemoryRecord], list[ResultWarning]]:
    """Return the current state of all captures, newest first, and a warning for each record that cannot be read."""
    found: list[MemoryRecord] = []
    warnings: list[ResultWarning] = []
    for run_id in _ids(layout):
        try:
            record = load(layout, run_id)
        except KtxError as error:
            warnings.append(ResultWarning("record_unreadable", error.message, hint=error.hint))
            continue
        if record is not None:
            found.append(record.seen())
    return sorted(found, key=lambda each: (each.created, each.run_id), reverse=True), warnings


def find(layout: Layout, text: str) -> MemoryRecord:
    """Return the current state of the capture for an id, its unique prefix, or `latest`.

    Raises `UsageError` for any other text.
    """
    ids = sorted(_ids(layout), reverse=True)
    if not ids:
        message = "nothing has been captured in this project yet"
        raise UsageError(message, hint=Command("memory", "capture", "--text", Placeholder('"..."')))
    if text == LATEST:
        return all_records(layout)[0][0]
    named = [each for each in ids if each == text] or [each for each in ids if text and each.startswith(text)]
    if len(named) > 1:
        raise UsageError(f"several captures begin with `{text}`", hint=f"use one of {listing(named)}")
    record = load(layout, named[0]) if named else None
    if record is None:
        near = did_you_mean(text, [LATEST, *ids])
        message = f"there is no capture `{text}`"
        raise UsageError(message, hint=f"did you mean `{near}`?" if near else Command("memory", "list"))
    return record.seen()


def settle_dead(layout: Layout) -> None:
    """Mark all running captures as interrupted; the caller holds the run lock, so none is really running."""
    for run_id in _ids(layout):
        try:
            record = load(layout, run_id)
        except KtxError:  # listing the captures reports the error
            continue
        if record is not None and record.status is Status.RUNNING:
            save(layout, replace(_interrupted(record), worker=None, finished=isoformat(now())))


def _interrupted(record: MemoryRecord) -> MemoryRecord:
    return replace(record, status=Status.INTERRUPTED, reason="its process ended without recording an outcome")


def alike(layout: Layout, record: MemoryRecord) -> Iterable[MemoryRecord]:
    """Yield the other captures of the same text and scope, newest first."""
    records, _ = all_records(layout)
    return (each for each in records if each.sha256 == record.sha256 and each.run_id != record.run_id)


def _ids(layout: Layout) -> list[str]:
    try:
        names = [path.name for path in layout.memory.iterdir()]
    except OSError:
        return []
    return [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]
