"""Committed files that are not in the working tree: deleted, outside of a sparse checkout, or not to be read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ktx_cli.project.files import can_read
from ktx_cli.project.git import Git
from ktx_cli.project.repository.entries import IndexView, read_index
from ktx_cli.project.repository.model import Held, HeldReason, RepositoryLayout
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
