"""Committed files that are not in the working tree: deleted, outside of a sparse checkout, or not to be read."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.project.files import can_read, read_bytes
from ktx_cli.project.git import Git
from ktx_cli.project.repository.index import IndexView, read_index
from ktx_cli.project.repository.model import Held, HeldReason, RepositoryLayout, decode, encode, read_config
from ktx_cli.project.repository.working_files import obstacle, signature_of


def absent_paths(git: Git, layout: RepositoryLayout, committed: Iterable[str]) -> list[Held]:
    """Return which committed paths are no files that can be read, and why; `skip_worktree`: a sparse checkout.

    One look at each file; the index is read only when one is not there. Of a folder that is gone, the folder is named.
    """
    gone = [path for path in committed if not can_read(layout.project_dir / path)]
    if not gone:
        return []
    index = read_index(git, layout)
    held = {}
    for path in gone:
        reason = _reason(layout.project_dir, path, index)
        if reason is not None:
            shown = _outermost(layout.project_dir, path)
            held[shown, reason] = Held(shown, reason)
    return sorted(held.values(), key=lambda found: found.path)


def _reason(project_dir: Path, path: str, index: IndexView) -> HeldReason | None:
    found = signature_of(project_dir / path)
    blocked = obstacle(project_dir, path, found, {})
    if blocked is not None or found is not None:
        return blocked
    if path in index.unmerged:
        return HeldReason.UNMERGED
    entry = index.entries.get(path)
    if entry is None:
        return HeldReason.STAGED
    return HeldReason.SKIP_WORKTREE if entry.skip_worktree else HeldReason.DELETED


def _outermost(project_dir: Path, path: str) -> str:
    """Return the outermost of the folders above a path that is not there, else the path."""
    folder = path.rpartition("/")[0]
    while folder and not os.path.lexists(project_dir / folder):
        path, folder = folder, folder.rpartition("/")[0]
    return path


_FIELDS: Final = {b"1": 8, b"u": 10, b"?": 1}
"""How many fields stand before the path, by the kind of a line."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The branch (None: a detached HEAD), its upstream, how many commits are on one of them alone (None: no upstream),
    and what is not committed."""

    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    uncommitted: tuple[str, ...] = ()


def working_changes(git: Git, layout: RepositoryLayout, paths: Collection[str]) -> Changes:
    """Return the branch, and which of some files and folders are not as the last commit has them, new ones too.

    A new folder is named, not what is in it. Paths are relative to the project. The index is not refreshed, and no
    filter is run, which could write: a file behind one that was touched counts as changed.
    """
    options = (
        "--porcelain=v2",
        "--branch",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    )
    names = (encode(f"{layout.prefix}{path}") for path in paths)
    output = git.read("status", *options, "--", *names, variables=_without_filters(git))
    facts: dict[str, str] = {}
    found: list[str] = []
    for line in output.out.split(b"\0"):
        kind = line[:1]
        if line.startswith(b"# branch."):
            name, _, value = decode(line[9:]).partition(" ")
            facts[name] = value
        elif kind in _FIELDS:
            found.append(decode(line.split(b" ", _FIELDS[kind])[-1]).removeprefix(layout.prefix))
    ahead, _, behind = facts.get("ab", "").partition(" ")
    head = facts.get("head")
    return Changes(
        branch=None if head == "(detached)" else head,
        upstream=facts.get("upstream"),
        ahead=int(ahead) if ahead else None,
        behind=-int(behind) if behind else None,
        uncommitted=tuple(sorted(found)),
    )


def _without_filters(git: Git) -> dict[str, str]:
    """Return the variables with which git runs no filter driver of anybody's."""
    filters = sorted(read_config(git).filters())
    settings = [
        (f"filter.{name}.{key}", value)
        for name in filters
        for key, value in (("clean", ""), ("process", ""), ("required", "false"))
    ]
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


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
        output = self._git.read("log", *wanted, self.commit, "--", where).out
        ends = self._boundaries()
        found: dict[str, LastChange] = {}
        _, *parts = _RECORD.split(output)
        for commit, day, names in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            change = LastChange(commit.decode(), day.decode(), commit.decode() in ends)
            for path in filter(None, names.split(b"\0")):
                found.setdefault(decode(path[len(encode(self._layout.prefix)) :]), change)
        return found

    def states(self, commits: Collection[str], folder: str) -> dict[str, str]:
        """Return commit -> the id of a folder then; of one that was not there, nothing. Equal ids: equal files."""
        ordered = sorted(commits)
        asked = b"".join(encode(f"{commit}:{self._layout.prefix}{folder}") + b"\n" for commit in ordered)
        output = self._git.read("cat-file", "--batch-check=%(objecttype) %(objectname)", stdin=asked).out.splitlines()
        facts = zip(ordered, (line.split() for line in output), strict=True)
        return {commit: words[1].decode() for commit, words in facts if words[0] == b"tree"}

    def _boundaries(self) -> frozenset[str]:
        text = read_bytes(self._layout.common_dir / "shallow") or b""
        return frozenset(text.decode("ascii", "replace").split())
