"""What a person can do about a path that was left as it is, reason by reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ktx_cli.core.text import shell_words
from ktx_cli.project.repository.model import HeldReason

EDITED_MEANWHILE: Final = "edited meanwhile"
"""Said of a file that was edited while the commit was made (`CommitResult.left`)."""

EDITED_AFTER_KILL: Final = "edited after a killed run"
"""Said of a file that was edited before the rest of a killed run was finished (`Recovery.left`)."""

_EDITED: Final = (
    "the commit has ktx's text of {path}, the file yours: see git diff -- {path}, then commit or undo yours"
)

_HINTS: Final[Mapping[str, str]] = {
    HeldReason.MODIFIED: "commit your changes of {path}, or give them up: git restore -- {path}",
    HeldReason.DELETED: "git restore -- {paths}",
    HeldReason.UNREADABLE: "let this user read {path}: chmod u+r {files}",
    HeldReason.STAGED: "commit what is staged of {path}, or give it up: git restore --staged --worktree -- {path}",
    HeldReason.UNTRACKED: "add {path} to git (git add -- {path}) and commit it, or move it away",
    HeldReason.UNMERGED: "resolve the conflict in {path}, then: git add -- {path}",
    HeldReason.CONFLICT: "somebody else committed a change of {path} during the run: run the same command again",
    HeldReason.ASSUME_UNCHANGED: (
        "git was told to overlook your changes of {path}: git update-index --no-assume-unchanged -- {path}, "
        "then commit or undo them"
    ),
    HeldReason.SKIP_WORKTREE: (
        "git was told to overlook your changes of {path}: git update-index --no-skip-worktree -- {path}, "
        "then commit or undo them"
    ),
    HeldReason.SYMLINK: (
        "{path}, or a folder above it, is a symbolic link, which ktx does not follow: put a plain file or folder there"
    ),
    HeldReason.NOT_A_DIRECTORY: "a file stands where a folder above {path} has to be: move that file away",
    HeldReason.IS_A_DIRECTORY: "a folder stands at {path}: move it away",
    HeldReason.NOT_A_FILE: "{path} is a pipe, socket or device: move it away",
    HeldReason.NESTED_REPOSITORY: (
        "{path} is in a submodule or another repository, where ktx does not write: move that folder away"
    ),
    EDITED_MEANWHILE: _EDITED,
    EDITED_AFTER_KILL: _EDITED,
}


MOST_PATHS: Final = 20
"""How many paths stand in one command."""


def held_hint(held: Iterable[tuple[str, str]], project_dir: Path) -> str:
    """Return what to do about the held paths (path and reason): the first of each reason stands for the others.

    `{paths}` are all of them, as words of one command; `{files}` the same, absolute.
    """
    by_hint: dict[str, list[str]] = {}
    for path, reason in held:
        by_hint.setdefault(_HINTS[reason], []).append(path)
    return "; ".join(
        hint.format(
            path=shell_words(paths[0]),
            paths=shell_words(*paths[:MOST_PATHS]),
            files=shell_words(*(project_dir / path for path in paths[:MOST_PATHS])),
        )
        for hint, paths in by_hint.items()
    )
