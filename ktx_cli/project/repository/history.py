"""Which commit changed a file last, and what a folder was then; git only reads."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ktx_cli.project.files import read_bytes
from ktx_cli.project.git import Git
from ktx_cli.project.repository.model import RepositoryLayout
from ktx_cli.project.repository.paths import decode, encode

_RECORD: Final = re.compile(rb"\x01([0-9a-f]{40,64}) (\d{4}-\d\d-\d\d)(?:\n|\0|\Z)")


@dataclass(frozen=True, slots=True)
class LastChange:
    """The newest commit that changed a file, and its day. `cut_off`: a shallow clone ends there, it may be older."""

    commit: str
    day: str
    cut_off: bool = False


class History:
    """The history of a commit, as seen from the project's folder."""

    def __init__(self, git: Git, layout: RepositoryLayout, commit: str | None) -> None:
        self.commit = commit
        self._git, self._layout = git, layout

    def last_changes(self, folder: str) -> dict[str, LastChange]:
        """Return path -> its last change, of every file that was ever below a folder."""
        if self.commit is None:
            return {}
        where = f"{self._layout.prefix}{folder}"
        wanted = ("--format=format:%x01%H %cs", "--name-only", "--no-renames", "--no-show-signature", "-z")
        said = self._git.read("log", *wanted, self.commit, "--", where).out
        ends = self._boundaries()
        found: dict[str, LastChange] = {}
        _, *parts = _RECORD.split(said)
        for commit, day, names in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            change = LastChange(commit.decode(), day.decode(), commit.decode() in ends)
            for path in filter(None, names.split(b"\0")):
                found.setdefault(decode(path[len(encode(self._layout.prefix)) :]), change)
        return found

    def states(self, commits: Collection[str], folder: str) -> dict[str, str]:
        """Return commit -> the id of a folder then; of one that was not there, nothing. Equal ids: equal files."""
        ordered = sorted(commits)
        asked = b"".join(encode(f"{commit}:{self._layout.prefix}{folder}") + b"\n" for commit in ordered)
        said = self._git.read("cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=asked).out.splitlines()
        facts = zip(ordered, (line.split() for line in said), strict=True)
        return {commit: words[1].decode() for commit, words in facts if words[0] == b"tree"}

    def _boundaries(self) -> frozenset[str]:
        text = read_bytes(self._layout.common_dir / "shallow") or b""
        return frozenset(text.decode("ascii", "replace").split())
