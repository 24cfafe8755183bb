"""The last steps of a commit and of a recovery: files into place, then the index that knows them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.project.files import sync_directory
from ktx_cli.project.git import Git
from ktx_cli.project.repository.entries import refresh_index
from ktx_cli.project.repository.lock import IndexLock
from ktx_cli.project.repository.model import RepositoryLayout
from ktx_cli.project.repository.working_files import Placement, Undo, naming, place_all


@dataclass(frozen=True, slots=True)
class Finish:
    """What is left to do once the branch has the commit.

    `index`: a copy with the new entries (None: the index stays). `refreshed`: project paths whose entries get the
    stat data of their files.
    """

    index: Path | None
    placements: tuple[Placement, ...]
    refreshed: Collection[str]


def carry_out(
    git: Git, layout: RepositoryLayout, lock: IndexLock, finish: Finish, undo: Undo | None = None
) -> tuple[str, ...]:
    """Put files and index in place; return the paths whose files were touched meanwhile and left alone.

    `undo` keeps the old files.
    """
    left = place_all(layout, finish.placements, undo)
    if finish.index is not None:
        known = [path for path in finish.refreshed if path not in left]
        refresh_index(git, layout, finish.index, (layout.prefix + path for path in known))
        lock.swap(finish.index)
    return tuple(sorted(left))


def drop_journal(layout: RepositoryLayout) -> None:
    """Remove the journal, durably."""
    with naming(layout.journal, "remove"):
        layout.journal.unlink(missing_ok=True)
        if layout.private.is_dir():
            sync_directory(layout.private)


def content_digest(content: bytes | None) -> str | None:
    """Return the SHA-256 of a content, None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()
