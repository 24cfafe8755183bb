"""Staged changes to client files: everything is read, edited and checked before anything is written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError, StorageError
from ktx_cli.project import read_bytes, storage_error, write_atomic


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A file before and after the change; None if it does not exist. `real` is the target of links."""

    path: Path
    real: Path
    before: bytes | None
    after: bytes | None

    @property
    def kind(self) -> str:
        """`create`, `change` or `remove`."""
        return "create" if self.before is None else "remove" if self.after is None else "change"


@dataclass(slots=True)
class Staging:
    """The future contents of files.

    `inside`: folders whose files must not be links that point out of them: they came with a repository, and their
    targets belong to somebody else. The first is the project.
    """

    inside: tuple[Path, ...] = ()
    _seen: dict[Path, bytes | None] = field(default_factory=dict)
    _new: dict[Path, tuple[Path, bytes | None]] = field(default_factory=dict)

    def read(self, path: Path) -> bytes | None:
        """Return the staged or current content of a file; None if it does not exist. `StorageError` if it is not a
        file.
        """
        real = self._real(path)
        if real in self._new:
            return self._new[real][1]
        if real not in self._seen:
            self._seen[real] = read_bytes(real)
        return self._seen[real]

    def write(self, path: Path, content: bytes) -> None:
        """Stage new contents of a file; raises `StorageError` for a protected file."""
        real = self._real(path)
        if self.read(path) is not None:
            _require_writable(real)
        self._new[real] = (path, content)

    def remove(self, path: Path) -> None:
        """Stage the removal of a file."""
        self.read(path)
        self._new[self._real(path)] = (path, None)

    @property
    def changes(self) -> list[ConfigChange]:
        """The changes, in the order in which they were staged."""
        found = (ConfigChange(path, real, self._seen.get(real), after) for real, (path, after) in self._new.items())
        return [change for change in found if change.before != change.after]

    def missing_folders(self) -> list[Path]:
        """Return the folders that are created with the files, parents first."""
        missing: dict[Path, None] = {}
        for change in self.changes:
            if change.after is not None:
                above = [folder for folder in change.real.parents if not folder.exists()]
                missing.update(dict.fromkeys(reversed(above)))
        return list(missing)

    def apply(self) -> None:
        """Write everything; if one file fails, the earlier ones get their old contents back."""
        folders = self.missing_folders()
        done: list[ConfigChange] = []
        try:
            for change in self.changes:
                _require_same(change)
                done.append(change)
                _put(change.real, change.after)
        except BaseException:
            for change in reversed(done):
                _put(change.real, change.before)
            remove_empty(folders)
            raise

    def _real(self, path: Path) -> Path:
        real = _real(path)
        for root in self.inside:
            if path.is_relative_to(root) and not real.is_relative_to(root.resolve()):
                outside = "the project" if root == self.inside[0] else root
                message = f"{path} is a symbolic link that points outside {outside}, to {real}"
                hint = Hint("replace it with a file: {}", Command(path, program="rm"))
                raise StorageError(message, hint=hint, details={"path": str(path)})
        return real


def remove_empty(folders: list[Path]) -> list[Path]:
    """Remove the empty ones of these folders, deepest first, and return those that still exist."""
    kept: list[Path] = []
    for folder in sorted(set(folders), key=lambda each: len(each.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            try:
                folder.rmdir()
            except OSError as error:
                raise storage_error(folder, error, "remove") from error
        elif os.path.lexists(folder):
            kept.append(folder)
    return sorted(kept)


def _real(path: Path) -> Path:
    try:
        real = path.resolve()
    except (OSError, RuntimeError) as error:
        raise StorageError(f"{path} is a symbolic link to itself", hint=Command("-l", path, program="ls")) from error
    broken = next((each for each in (path, *path.parents) if each.is_symlink() and not each.exists()), None)
    if broken is not None:
        message = f"{broken} is a symbolic link to {os.readlink(broken)}, which does not exist"
        hint = Hint("restore that file, or remove the link: {}", Command(broken, program="rm"))
        raise StorageError(message, hint=hint, details={"path": str(path)})
    return real


def _require_writable(path: Path) -> None:
    """Raise `StorageError` for a write-protected file, because a rename would replace it without asking."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise storage_error(path, error) from error
    if not mode & 0o222 or not os.access(path, os.W_OK):
        hint = Hint("{}, then run the command again; nothing was written", Command("u+w", path, program="chmod"))
        raise StorageError(f"{path} is read-only", hint=hint, details={"path": str(path)})


def _require_same(change: ConfigChange) -> None:
    if read_bytes(change.real) != change.before:
        message = f"another program has just changed {change.path}"
        hint = "run the command again; nothing was written"
        raise KtxError(message, code="conflict", hint=hint, details={"path": str(change.path)})


def _put(path: Path, content: bytes | None) -> None:
    if content is not None:
        write_atomic(path, content)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(path, error, "remove") from error


_STRING = re.compile(r'"(?:\\.|[^"\\])*"(?P<colon>\s*:)?|\'[^\']*\'')
_CONFIGURATIONS: Final = (".json", ".jsonc", ".toml")
_COMMENT = re.compile(r"(?://|/\*|#).*")


@dataclass(frozen=True, slots=True)
class Diff:
    """A file that changes: `kind` is create, change or remove; `lines` is a diff without context lines."""

    path: str
    kind: str
    lines: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the change for the JSON output."""
        return {"path": self.path, "change": self.kind, "diff": "\n".join(self.lines)}


def diff_of(change: ConfigChange) -> Diff:
    """Return the diff of a change. In a line with values of other people, only the keys are shown."""
    before, after = (
        (content or b"").decode().replace("\r\n", "\n").splitlines() for content in (change.before, change.after)
    )
    head = (
        f"--- {'/dev/null' if change.before is None else change.path}",
        f"+++ {'/dev/null' if change.after is None else change.path}",
    )
    hide = _hidden if change.path.suffix in _CONFIGURATIONS else str
    return Diff(str(change.path), change.kind, (*head, *_hunk(before, after, hide)))


def _hunk(before: Sequence[str], after: Sequence[str], hide: Callable[[str], str]) -> Iterator[str]:
    """Yield the one hunk that changed: everything between the common first and last lines of both texts."""
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    rest = shorter - start
    end = next((at for at in range(rest) if before[-1 - at] != after[-1 - at]), rest)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    yield f"@@ -{_range(start, old)} +{_range(start, new)} @@"
    yield from (f"-{hide(line)}" for line in old)
    for at, line in enumerate(new):  # as many lines as are replaced, at either end, may contain earlier text
        yield f"+{hide(line) if min(at, len(new) - 1 - at) < len(old) else line}"


def _range(start: int, lines: Sequence[str]) -> str:
    return f"{start + 1 if lines else start},{len(lines)}"


def _hidden(line: str) -> str:
    """Return a line with only its keys: no texts, no comments."""
    keys = _STRING.sub(lambda found: found[0] if found["colon"] else '"…"', line)
    return _COMMENT.sub("// …", keys)
