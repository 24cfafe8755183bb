"""The audit log of servers: a chain of lines, each with the hash of the one before it.

The lines are in files that rotate, or in the shared state, where all servers of a project append to one chain.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Protocol

from ktx_cli.core import KtxError, Record
from ktx_cli.project import (
    Layout,
    StateDatabase,
    open_for_writing,
    read_state,
    shared_state_of,
    storage_error,
    transaction,
)
from ktx_cli.runs import KEPT_FILES, LARGEST_FILE, RotatingFile, masked, read_lines, rotated_files, rotated_name

NOTHING: Final = "0" * 64
"""The hash before the first line."""
_CHAIN: Final = ("seq", "prev", "hash")


def line_hash(entry: Mapping[str, Any]) -> str:
    """Return the hash of a line: of everything in it but the hash itself."""
    facts = {key: value for key, value in entry.items() if key != "hash"}
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def line_text(entry: Mapping[str, Any]) -> bytes:
    """Return a line as it is written: there is only one text for a line, so nothing can hide in another."""
    return json.dumps(entry).encode("ascii") + b"\n"


@dataclass(frozen=True, slots=True)
class Link:
    """The end of a chain: the number and the hash of its last line."""

    seq: int = 0
    hash: str = NOTHING


def next_line(entry: Mapping[str, Any], last: Link) -> dict[str, Any]:
    """Return a line for an entry that follows the last line of a chain, without secrets."""
    facts = {**{key: value for key, value in entry.items() if key not in _CHAIN}, "seq": last.seq + 1}
    found: dict[str, Any] = json.loads(json.dumps(masked({**facts, "prev": last.hash}), default=str))
    found["hash"] = line_hash(found)
    return found


@dataclass(frozen=True, slots=True)
class ChainCheck(Record):
    """The result of checking an audit log.

    `lines`: the number of lines in the chain. `unchained`: lines that an older version wrote before the chain began.
    `first` and `last`: the numbers of the first and last line; older lines were rotated away. `hash`: of the last
    line; note it elsewhere to detect that lines at the end were removed. `broken`: the place of the first line that
    does not fit, and `reason` why.
    """

    lines: int = 0
    unchained: int = 0
    first: int = 0
    last: int = 0
    hash: str = NOTHING
    broken: str | None = None
    reason: str | None = None

    def error(self) -> KtxError | None:
        """Return the error of a chain that is broken."""
        if self.broken is None:
            return None
        message = f"the audit log was changed or damaged at {self.broken}: {self.reason}"
        hint = "compare it with a copy of the log; lines after this place may have been changed, too"
        return KtxError(message, hint=hint, details={"broken": self.broken}, code="audit_broken")


def check_lines(
    numbered: Iterable[tuple[str, bytes]],
    *,
    is_cut: bool,
    least: int = 0,
    noted: Link | None = None,
    since: str | None = None,
) -> ChainCheck:
    """Check the lines of a log, each with its place.

    `is_cut`: whether old lines may have been removed; `least`: how many remain then. `noted`: what ktx noted as the
    last line, maybe before it wrote another one; number 0 if it only noted that the chain has begun. `since`: the hash
    of a line that must be in the chain, or directly before it.
    """
    lines = unchained = first = 0
    last = Link()
    start, has_since = "", since is None
    for place, text in numbered:
        entry = entry_of(text)
        reason = None
        if entry is None:
            reason = "ktx did not write this line"
        elif not lines and not any(key in entry for key in _CHAIN):
            unchained += 1
            continue
        elif "hash" not in entry or entry["hash"] != line_hash(entry) or text != line_text(entry):
            reason = "its hash does not match its content"
        elif not lines:
            reason = None if _may_begin(entry, unchained, is_cut=is_cut) else "lines before it are missing"
            first, start = (entry["seq"], place) if reason is None else (0, "")
            has_since = has_since or entry.get("prev") == since
        elif entry.get("seq") != last.seq + 1 or entry.get("prev") != last.hash:
            reason = "it does not follow the line before it"
        if reason is None and noted is not None and entry is not None and entry["seq"] == noted.seq:
            reason = None if entry["hash"] == noted.hash else "ktx wrote another line"
        if reason is not None:
            return ChainCheck(lines, unchained, first, last.seq, last.hash, place, reason)
        assert entry is not None
        lines, last = lines + 1, Link(entry["seq"], entry["hash"])
        has_since = has_since or last.hash == since
    found = ChainCheck(lines, unchained, first, last.seq, last.hash)
    if first > 1 and lines < least:
        return replace(
            found, broken=start, reason=f"lines before it are missing, although ktx keeps the last {least:,}"
        )
    if noted is not None and (noted.seq > last.seq or (unchained and not lines)):
        return replace(found, broken="the end", reason="lines that ktx wrote are missing")
    if not has_since:
        return replace(found, broken="the end", reason=f"no line has the hash {since}")
    return found


def _may_begin(entry: Mapping[str, Any], unchained: int, *, is_cut: bool) -> bool:
    """Return whether a line can be the first that is kept: the very first, or the first after removed ones."""
    seq = entry.get("seq")
    if not isinstance(seq, int) or isinstance(seq, bool) or seq < 1:
        return False
    if seq == 1:
        return entry.get("prev") == NOTHING
    return not unchained and is_cut


def entry_of(text: bytes) -> dict[str, Any] | None:
    """Return the content of a complete line, or None if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and text.endswith(b"\n") else None


_NOTE: Final = 110
"""The length of the note in the lock file, which is always the same."""
_TAIL: Final = 262_144
"""How many bytes at the end of a file to search for its last line first."""


class AuditStore(Protocol):
    """Where the lines of an audit log go."""

    def append(self, entry: Mapping[str, Any]) -> None:
        """Store a line; raises `OSError` if that is not possible."""
        ...

    def close(self) -> None:
        """Release what is open; a later line opens it again."""
        ...


def _noted(lock: int) -> Link:
    """Return the last line as the lock file names it; number 0 if it names none."""
    return _link_in(os.pread(lock, 1_000, 0)) or Link()


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


class ChainedFile:
    """An audit log in a file for this user alone, to which several processes may append.

    A lock beside the file keeps them apart, and contains the number and the hash of the last line. When the file is
    full, it is rotated (see `RotatingFile`), and the chain goes on in the new file.
    """

    def __init__(self, path: Path, *, largest: int = LARGEST_FILE, kept: int = KEPT_FILES) -> None:
        self.path = path
        self._file = RotatingFile(path, largest=largest, kept=kept)
        self._lock: int | None = None
        self._seen: tuple[tuple[int, int, int], Link] | None = None
        """The device, inode and size of the file after this process wrote to it, and its last line then."""

    def append(self, entry: Mapping[str, Any]) -> None:
        """See `AuditStore`."""
        with self._locked():
            facts = next_line(entry, self._last(self._file.opened()))
            self._file.append(line_text(facts))
            found = os.fstat(self._file.opened())
            self._seen = (found.st_dev, found.st_ino, found.st_size), Link(facts["seq"], facts["hash"])
            self._note(self._seen[1])

    def close(self) -> None:
        """See `AuditStore`."""
        self._file.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        if self._lock is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(_lock_of(self.path), flags, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def _last(self, descriptor: int) -> Link:
        """Return the last line of the chain, and cut off half a line that a killed writer may have left."""
        found = os.fstat(descriptor)
        if self._seen is not None and self._seen[0] == (found.st_dev, found.st_ino, found.st_size):
            return self._seen[1]
        for length in (min(_TAIL, found.st_size), found.st_size):
            tail = os.pread(descriptor, length, found.st_size - length)
            whole = tail[: tail.rfind(b"\n") + 1]
            link = _link_in(whole)
            if link is not None:
                break
        if len(whole) < len(tail) and (whole or length == found.st_size):
            os.ftruncate(descriptor, found.st_size - len(tail) + len(whole))
        if link is None and not whole:
            with contextlib.suppress(FileNotFoundError):
                link = _link_in(rotated_name(self.path, 1).read_bytes())
        assert self._lock is not None
        known = max(_noted(self._lock), Link() if self._seen is None else self._seen[1], key=lambda each: each.seq)
        if link is None or link.seq < known.seq:
            return known  # lines were removed since ktx wrote to the file: the gap stays visible
        return link

    def _note(self, last: Link) -> None:
        assert self._lock is not None
        line = json.dumps({"seq": last.seq, "hash": last.hash}).encode("ascii").ljust(_NOTE) + b"\n"
        with contextlib.suppress(OSError):  # an older note is right, too
            os.pwrite(self._lock, line, 0)


def _link_in(tail: bytes) -> Link | None:
    """Return the last line of a chain in the end of a file; lines of older versions are in no chain."""
    for line in reversed(tail.splitlines()):
        try:
            found = json.loads(line)
            return Link(int(found["seq"]), str(found["hash"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return None


KEPT_LINES: Final = 200_000
"""The number of lines that are kept."""

_EVERY: Final = 1_000
"""After how many of its lines a server removes old ones."""

_AT_ONCE: Final = 5_000


@dataclass(slots=True)
class SharedAudit:
    """Appends lines to the chain, on a connection of its own; raises `StorageError`."""

    layout: Layout
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _database: StateDatabase | None = None
    _appended: int = 0

    def append(self, entry: Mapping[str, Any]) -> None:
        """See `AuditStore`."""
        if self._database is None:
            self._database = self._stack.enter_context(open_for_writing(self.layout, part="audit"))
        with transaction(self._database) as database:
            row = database.execute("SELECT line FROM audit_lines ORDER BY seq DESC LIMIT 1").fetchone()
            facts = next_line(entry, _link(row))
            line = line_text(facts).decode("ascii")
            database.execute("INSERT INTO audit_lines VALUES (?, ?)", (facts["seq"], line))
        self._appended += 1
        if self._appended % _EVERY == 0:
            self._database.execute("DELETE FROM audit_lines WHERE seq <= ?", (facts["seq"] - KEPT_LINES,))

    def close(self) -> None:
        """See `AuditStore`."""
        self._database = None
        self._stack.close()


def _link(row: Any) -> Link:
    if row is None:
        return Link()
    last = json.loads(row[0])
    return Link(last["seq"], last["hash"])


def stored_lines(layout: Layout, after: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the stored lines with a higher number, oldest first; raises `StorageError`."""
    query = "SELECT seq, line FROM audit_lines WHERE seq > ? ORDER BY seq LIMIT ?"
    while True:
        given = (after, _AT_ONCE)
        rows = read_state(layout, lambda database, given=given: database.execute(query, given).fetchall())  # type: ignore[misc]
        for seq, line in rows or ():
            yield int(seq), str(line).encode("ascii", "replace")
        if not rows or len(rows) < _AT_ONCE:
            return
        after = int(rows[-1][0])


def last_seq(layout: Layout) -> int:
    """Return the number of the last line, 0 if there is none; raises `StorageError`."""
    query = "SELECT coalesce(max(seq), 0) FROM audit_lines"
    row = read_state(layout, lambda database: database.execute(query).fetchone())
    return 0 if row is None else int(row[0])


def last_stored(layout: Layout, count: int) -> list[str]:
    """Return the last lines as text; raises `StorageError`."""
    query = "SELECT line FROM audit_lines ORDER BY seq DESC LIMIT ?"
    rows = read_state(layout, lambda database: database.execute(query, (count,)).fetchall()) if count else ()
    return [str(row[0]).rstrip("\n") for row in reversed(rows or ())]


POLL_SECONDS: Final = 0.5


def followed_lines(layout: Layout, last: int) -> Iterator[str]:
    """Yield the last lines, then lines as they are added; never ends. Raises `StorageError`."""
    seq = last_seq(layout)
    yield from last_stored(layout, last)
    while True:
        for number, text in stored_lines(layout, seq):
            seq = number
            yield text.decode("ascii").rstrip("\n")
        time.sleep(POLL_SECONDS)


def audit_files(layout: Layout) -> list[Path]:
    """Return the files of the audit log that exist, oldest first."""
    return rotated_files(layout.mcp_audit)


def audit_lines(layout: Layout) -> Iterator[dict[str, Any]]:
    """Yield the lines of the audit log, oldest first; raises `StorageError`."""
    if shared_state_of(layout) is not None:
        yield from (json.loads(text) for _, text in stored_lines(layout))
        return
    for path in audit_files(layout):
        yield from read_lines(path)


def audit_store(layout: Layout) -> AuditStore:
    """Return where the lines of a project's audit log go: a file, or the shared state."""
    if shared_state_of(layout) is None:
        return ChainedFile(layout.mcp_audit)
    return SharedAudit(layout)


def _lost_files(layout: Layout) -> tuple[Path, str]:
    """Return the folder with the files of `note_lost`, and the beginning of their names."""
    return layout.mcp_audit.parent, f"{layout.mcp_audit.stem}.lost-"


def note_lost(layout: Layout, server: str, facts: Mapping[str, Any]) -> None:
    """Leave a note for the next server that lines were lost which this one cannot write into the chain any more."""
    folder, name = _lost_files(layout)
    with contextlib.suppress(OSError):  # the log of the server says it, too
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(folder / f"{name}{server}-{os.urandom(3).hex()}.json", flags, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            json.dump(facts, stream)


def take_lost(layout: Layout) -> Iterator[tuple[int, str, str]]:
    """Yield how many lines other servers lost, since when and why, and remove their notes."""
    folder, name = _lost_files(layout)
    for path in sorted(folder.glob(f"{name}*.json")):
        try:
            facts = json.loads(path.read_bytes())
            path.unlink()  # whoever removes it writes the line
            yield int(facts["lost"]), str(facts["since"])[:30], str(facts["reason"])[:200]
        except (OSError, ValueError, LookupError, TypeError):
            continue


def check_chain(layout: Layout, since: str | None = None, *, largest: int = LARGEST_FILE) -> ChainCheck:
    """Return whether every line of the audit log is unchanged, and none is missing in between.

    `since`: the hash of a line that must not be missing, either. Raises `StorageError`.
    """
    if shared_state_of(layout) is not None:
        numbered = ((f"line {seq}", text) for seq, text in stored_lines(layout))
        return check_lines(numbered, is_cut=True, least=KEPT_LINES, since=since)
    with _unchanging(layout) as noted:
        files = audit_files(layout)
        is_cut = len(files) > KEPT_FILES
        numbered = ((f"{path.name}:{number}", text) for path in files for number, text in _numbered(path))
        found = check_lines(numbered, is_cut=is_cut, noted=noted, since=since)
        if found.broken is None and is_cut and not _is_full(files[0], files[1], largest):
            return replace(found, broken=f"{files[0].name}:1", reason="lines before it are missing")
        return found


def _is_full(path: Path, following: Path, largest: int) -> bool:
    """Return whether the first line of the next file did not fit into a file any more."""
    size = sum(len(text) for _, text in _numbered(path))
    return size + len(next((text for _, text in _numbered(following)), b"")) > largest


@contextlib.contextmanager
def _unchanging(layout: Layout) -> Iterator[Link | None]:
    """Let no process append for a block, and return what is noted as the last line; creates nothing."""
    try:
        descriptor = os.open(_lock_of(layout.mcp_audit), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        raise storage_error(_lock_of(layout.mcp_audit), error, "read") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield _noted(descriptor)
    finally:
        os.close(descriptor)


def _numbered(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as stream:
            yield from enumerate(stream, 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage_error(path, error, "read") from error
