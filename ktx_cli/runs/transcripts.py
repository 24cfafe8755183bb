"""Files for logging (whole lines, no secrets, limited size), and agent transcripts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Record, StorageError, UsageError, did_you_mean, file_stem, isoformat, listing, now
from ktx_cli.llm import Done, TextDelta
from ktx_cli.project import Layout, mask, storage_error

if TYPE_CHECKING:
    from ktx_cli.core import Event, KtxError
    from ktx_cli.llm import CallSpec, EmitLlm

CUT: Final = {"event": "cut"}
"""The last line of a file that has reached its maximum size."""


class LineFile:
    """Appends lines with the time in `at`, each written at once, so that a killed process leaves a record.

    `most`: bytes after which a last line states that the rest is missing. Not thread-safe.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self._most = most
        self._size = 0
        self._descriptor: int | None = None

    def write(self, document: Mapping[str, Any], *, at: str | None = None) -> int:
        """Append a document and return its size in bytes; raises `OSError`."""
        if self._size > self._most:
            return 0
        self._size += (size := self._append(document, at))
        if self._size > self._most:
            self._append(CUT, None)
        return size

    def close(self) -> None:
        """Close the file; writing opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _append(self, document: Mapping[str, Any], at: str | None) -> int:
        stamp = {"at": at or isoformat(now())}
        try:
            text = json.dumps({**stamp, **masked(document)}, default=str)
        except (ValueError, RecursionError):  # arguments that a model made up may be nested arbitrarily deep
            text = json.dumps({**stamp, "event": document.get("event"), "left_out": "nested too deeply"})
        line = text.encode("ascii") + b"\n"
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(self.path, flags, 0o600)
        os.write(self._descriptor, line)
        return len(line)


LARGEST_FILE: Final = 5_000_000
KEPT_FILES: Final = 3


class RotatingFile:
    """Appends to a file for this user alone. Several processes may append to one file; threads need a lock.

    At `largest` bytes the file becomes `NAME.1`, `NAME.1` becomes `NAME.2`, and so on up to `kept`.
    """

    def __init__(self, path: Path, *, largest: int = LARGEST_FILE, kept: int = KEPT_FILES) -> None:
        self.path = path
        self._largest = largest
        self._kept = kept
        self._descriptor: int | None = None

    def append(self, data: bytes) -> None:
        """Append all of the data or, with an `OSError`, nothing; rotates the files first if it does not fit."""
        while True:
            descriptor = self.opened()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                if not self._is_current(descriptor):  # another process has rotated it
                    continue
                size = os.fstat(descriptor).st_size
                if size and size + len(data) > self._largest:
                    self._rotate()
                    continue
                _append_whole(descriptor, data, size)
                return
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def opened(self) -> int:
        """Return the descriptor of the current file, for reading and appending; raises `OSError`."""
        if self._descriptor is not None and self._is_current(self._descriptor):
            return self._descriptor
        self.close()
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self.path, flags, 0o600)
        return self._descriptor

    def close(self) -> None:
        """Close the file; appending opens it again."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _is_current(self, descriptor: int) -> bool:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(found, os.fstat(descriptor))

    def _rotate(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(rotated_name(self.path, number), rotated_name(self.path, number + 1))
        os.replace(self.path, rotated_name(self.path, 1))


def rotated_name(path: Path, number: int) -> Path:
    """Return the name of the file that is as many rotations old."""
    return path.with_name(f"{path.name}.{number}")


def rotated_files(path: Path, kept: int = KEPT_FILES) -> list[Path]:
    """Return the files of a `RotatingFile` that exist, oldest first."""
    return [each for each in (*(rotated_name(path, number) for number in range(kept, 0, -1)), path) if each.is_file()]


def _append_whole(descriptor: int, data: bytes, size: int) -> None:
    try:
        if os.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def masked(value: Any) -> Any:
    """Return JSON-like data with every resolved secret masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {mask(str(key)): masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [masked(each) for each in value]
    return value


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents in a file, or nothing if it does not exist. Half a line, left by a killed writer, is skipped.

    Raises `StorageError`.
    """
    try:
        with path.open("rb") as stream:
            for line in stream:
                document = parse_document(line)
                if document is not None:
                    yield document
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(path, error, "read") from error


def last_line(path: Path, tail: int = 65_536) -> dict[str, Any] | None:
    """Return the last document in a file, searching its last `tail` bytes, or None if there is none."""
    with contextlib.suppress(OSError), path.open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - tail))
        found = (parse_document(line) for line in reversed(stream.read().splitlines()))
        return next((document for document in found if document is not None), None)
    return None


def first_line(path: Path, wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any] | None:
    """Return the first matching document, or None if there is none or the file cannot be read."""
    try:
        return next((document for document in read_lines(path) if wanted(document)), None)
    except StorageError:
        return None


def parse_document(line: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object in a text, or None if there is none."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


log = logging.getLogger(__name__)

MOST_OF_A_LOOP: Final = 4_000_000
"""Maximum size in bytes of one transcript; forty steps with tool results of the maximum size are below it."""

MOST_OF_A_RUN: Final = 256_000_000
"""Maximum size in bytes of all transcripts of a run; loops that begin later have no transcript."""

BEGUN: Final = "loop_started"


class Transcripts:
    """Writes a file for each agent loop of a run into `folder`. `failed` is called once if it had to stop."""

    def __init__(self, folder: Path, failed: Callable[[OSError], None]) -> None:
        self._folder = folder
        self._failed = failed
        self._lock = threading.Lock()
        self._count = 0
        self._size = 0
        self._has_stopped = False

    def watch(self, spec: CallSpec) -> EmitLlm | None:
        """Begin the transcript of a call that runs a loop; see `ktx_cli.llm.agent_loop.Watch`."""
        with self._lock:
            if spec.kind != "loop" or self._has_stopped or self._size > MOST_OF_A_RUN:
                return None
            self._count += 1
            name = f"{self._count:04d}-{file_stem(spec.label or spec.role)}.jsonl"
            loop = _Loop(LineFile(self._folder / name, MOST_OF_A_LOOP), self._guarded)
            return loop.observe if loop.write(_begun(spec)) else None

    def _guarded(self, work: Callable[[], int]) -> bool:
        """Write an entry, and return whether that succeeded. A failure ends all transcripts of the run."""
        if self._has_stopped:
            return False
        try:
            self._size += work()
        except OSError as error:
            self._has_stopped = True
            self._failed(error)
            return False
        return True


def _begun(spec: CallSpec) -> dict[str, Any]:
    names = {name: getattr(spec, name) for name in ("label", "role", "backend", "model")}
    work = {"budget": spec.step_budget, "tools": sorted(spec.tools), "system": spec.system, "prompt": spec.prompt}
    return {"event": BEGUN, **names, **work}


class _Loop:
    """The transcript of one loop. The pieces of the model's text are joined to one line per message."""

    def __init__(self, file: LineFile, guarded: Callable[[Callable[[], int]], bool]) -> None:
        self._file = file
        self._guarded = guarded
        self._pieces: list[str] = []

    def write(self, document: Mapping[str, Any]) -> bool:
        return self._guarded(lambda: self._file.write(document))

    def observe(self, event: Event) -> None:
        """Process an event of the loop."""
        if isinstance(event, TextDelta):
            self._pieces.append(event.delta)
            return
        text, self._pieces = "".join(self._pieces), []
        if text:
            self.write({"event": "text", "text": text})
        if isinstance(event, Done):
            self._file.close()
        else:
            self.write(event.to_json())


@dataclass(frozen=True, slots=True)
class Transcript(Record):
    """A stored transcript. `label`: the unit, such as `docs:refunds.md`, or another purpose of the loop."""

    label: str
    role: str
    model: str
    path: Path

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the recorded entries, oldest first; raises `StorageError`."""
        return read_lines(self.path)


def transcripts_of(layout: Layout, run_id: str) -> list[Transcript]:
    """Return a run's transcripts in the order in which its loops began."""
    found = []
    folder = layout.run_transcripts(run_id)
    for path in sorted(folder.glob("*.jsonl")) if folder.is_dir() else ():
        begun = first_line(path)
        if begun is not None and begun.get("event") == BEGUN:
            label, role, model = (str(begun.get(name) or "") for name in ("label", "role", "model"))
            found.append(Transcript(label or role, role, model, path))
    return found


def chosen_transcripts(layout: Layout, run_id: str, unit: str) -> list[Transcript]:
    """Return the transcripts of a unit (`docs:refunds.md`, or `refunds.md` if only one unit matches) or another loop.

    A loop that was retried has several. Raises `UsageError` if there is none, or if several units match.
    """
    kept = transcripts_of(layout, run_id)
    exact = [each for each in kept if each.label == unit]
    found = exact or [each for each in kept if each.label.partition(":")[2] == unit]
    labels = list(dict.fromkeys(each.label for each in (found or kept)))
    if len(labels) > 1 and found:
        raise UsageError(f"several units match `{unit}`", hint=f"use one of {listing(labels)}")
    if not found:
        raise _no_transcript(run_id, unit, labels)
    return found


def _no_transcript(run_id: str, unit: str, labels: list[str]) -> KtxError:
    near = did_you_mean(unit, [*labels, *(label.partition(":")[2] for label in labels if ":" in label)])
    if near:
        return UsageError(f"run {run_id} has no transcript of `{unit}`", hint=f"did you mean `{near}`?")
    known = (
        f"transcripts: {listing(labels, 10)}" if labels else "no agent worked in it, or its transcripts were deleted"
    )
    return UsageError(f"run {run_id} has no transcript of `{unit}`", hint=known)
