"""What git says of the working tree and of its branch, for people to look at; nothing is written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import read_config
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
    said = git.read("status", *options, "--", *names, variables=_without_filters(git))
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
