"""What a run is about to do, on disk before the branch moves, so that a later run can finish or drop it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import GitError
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.repository.model import TreeEntry
from ktx_cli.project.repository.paths import check_paths

VERSION: Final = 1

_HEX: Final = re.compile(r"[0-9a-f]+")
_MODE: Final = re.compile(r"100644|100755")
_REF: Final = re.compile(r"refs/\S+")
_ANY: Final = re.compile(r".*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One path: its index entry before and after, and the SHA-256 of its file before and after (None: no file).

    `index_only`: a sparse checkout has no file there.
    """

    path: str
    before: TreeEntry | None
    after: TreeEntry | None
    file_before: str | None
    file_after: str | None
    index_only: bool = False


@dataclass(frozen=True, slots=True)
class Journal:
    """A move of `ref` from `old` (None: unborn) to `new`, by the run whose marker bears `token`.

    `written` are all paths whose files it may have been writing, ignored ones included.
    """

    ref: str
    old: str | None
    new: str
    token: str
    entries: tuple[JournalEntry, ...]
    written: tuple[str, ...]

    def save(self, path: Path) -> None:
        """Write the journal durably; `StorageError` when that fails."""
        data = {
            "version": VERSION,
            "ref": self.ref,
            "old": self.old,
            "new": self.new,
            "token": self.token,
            "entries": [_entry_data(entry) for entry in self.entries],
            "written": self.written,
        }
        write_atomic(path, json.dumps(data).encode("ascii"))

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """Return the journal, or None when there is none. Raises `GitError` for one that cannot be read."""
        text = read_bytes(path)
        if text is None:
            return None
        try:
            return _journal(json.loads(text))
        except (ValueError, LookupError, TypeError, GitError) as error:
            raise GitError(
                f"{path}, the record of a run that was killed, cannot be read",
                hint="look at `git status`: what it shows as changed may be half of that run; "
                f"then {shell_words('rm', path)}",
                details={"path": str(path), "reason": f"{type(error).__name__}: {error}"},
            ) from error


def _journal(data: Mapping[str, Any]) -> Journal:
    """Return the checked journal: nothing in it may reach outside the project or be taken for an option."""
    if data["version"] != VERSION:
        raise ValueError(f"version {data['version']}")
    journal = Journal(
        ref=_matching(data["ref"], _REF),
        old=None if data["old"] is None else _matching(data["old"], _HEX),
        new=_matching(data["new"], _HEX),
        token=_matching(data["token"], _HEX),
        entries=tuple(_entry(item) for item in data["entries"]),
        written=tuple(_matching(path, _ANY) for path in data["written"]),
    )
    check_paths([*journal.written, *(entry.path for entry in journal.entries)])
    return journal


def _entry_data(entry: JournalEntry) -> dict[str, Any]:
    return {
        "path": entry.path,
        "before": entry.before and [entry.before.mode, entry.before.oid],
        "after": entry.after and [entry.after.mode, entry.after.oid],
        "file_before": entry.file_before,
        "file_after": entry.file_after,
        "index_only": entry.index_only,
    }


def _entry(data: Mapping[str, Any]) -> JournalEntry:
    return JournalEntry(
        path=_matching(data["path"], _ANY),
        before=_tree_entry(data["before"]),
        after=_tree_entry(data["after"]),
        file_before=None if data["file_before"] is None else _matching(data["file_before"], _ANY),
        file_after=None if data["file_after"] is None else _matching(data["file_after"], _ANY),
        index_only=bool(data["index_only"]),
    )


def _tree_entry(data: Any) -> TreeEntry | None:
    return None if data is None else TreeEntry(_matching(data[0], _MODE), _matching(data[1], _HEX))


def _matching(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError(f"{value!r} is not as ktx writes it")
    return value
