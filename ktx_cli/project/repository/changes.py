"""What git says of the working tree and of its branch, for people to look at; nothing is written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ktx_cli.project.git import Git
from ktx_cli.project.repository.model import RepositoryLayout
from ktx_cli.project.repository.paths import decode, encode

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

    A new folder is named, not what is in it. Paths are relative to the project. The index is not refreshed.
    """
    options = (
        "--porcelain=v2",
        "--branch",
        "-z",
        "--no-renames",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    )
    said = git.read("status", *options, "--", *(encode(f"{layout.prefix}{path}") for path in paths))
    facts: dict[str, str] = {}
    found: list[str] = []
    for line in said.out.split(b"\0"):
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
