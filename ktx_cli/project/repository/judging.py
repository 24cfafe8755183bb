"""Whether a path is free to be changed, or carries work of the user's: decided for one state of the index."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from ktx_cli.project.files import read_bytes
from ktx_cli.project.git import Git
from ktx_cli.project.repository.config import GitConfig
from ktx_cli.project.repository.conversion import Conversion
from ktx_cli.project.repository.entries import IndexView, ignored_paths, modified_paths, read_index
from ktx_cli.project.repository.model import HeldReason, IndexEntry, RepositoryLayout, TreeEntry
from ktx_cli.project.repository.trees import TreeView
from ktx_cli.project.repository.working_files import Signature, obstacle, signature_of


class Way(Enum):
    """How a change that is not held is carried out."""

    WRITE = "write"
    """Commit, index and file."""
    ADOPT = "adopt"
    """Commit and index; the file has the content already."""
    INDEX_ONLY = "index_only"
    """Commit and index; a sparse checkout has no file there, and gets none."""
    IGNORED = "ignored"
    """The file alone."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What a path was like when it was judged.

    `found`: what was on disk. `entry`: of the index. `anchor`: of the commit HEAD had then. `obstacle`: why nothing
    can be written there at all. `modified`: the file differs from the entry.
    """

    found: Signature | None
    entry: IndexEntry | None
    anchor: TreeEntry | None
    obstacle: HeldReason | None
    modified: bool
    ignored: bool

    @property
    def staged(self) -> bool:
        """Whether the index has something else than the commit."""
        return self.anchor is not None if self.entry is None else not self.entry.same_as(self.anchor)


class Judge:
    """The conditions of all paths a run wants to change, as they were with one state of the index."""

    def __init__(
        self,
        git: Git,
        layout: RepositoryLayout,
        config: GitConfig,
        conversion: Conversion,
        tip: TreeView,
        paths: Iterable[str],
    ) -> None:
        self._project_dir = layout.project_dir
        self._prefix = layout.prefix
        self._conversion = conversion
        self._trusts_mode = config.flag("core.filemode", True)
        self.conditions = _conditions(git, layout, conversion, tip, sorted(paths), trusts_mode=self._trusts_mode)

    def way(self, path: str, new: TreeEntry | None) -> Way | HeldReason:
        """Say how the path can become `new` (None: be deleted), or why it must be left alone."""
        condition = self.conditions[path]
        if condition.obstacle is not None:
            return condition.obstacle
        entry = condition.entry
        if condition.staged and not (new is None if entry is None else entry.same_as(new)):
            return HeldReason.STAGED
        if entry is not None and entry.skip_worktree and condition.found is None:
            return Way.INDEX_ONLY
        if entry is None and condition.anchor is None and condition.ignored:
            return Way.IGNORED
        dirty = condition.modified if entry is not None else condition.found is not None
        if not dirty and not condition.staged:
            return Way.WRITE
        if self._on_disk_is(path, new):
            return Way.ADOPT
        return _why(condition)

    def mode(self, path: str, existing: TreeEntry | None) -> str:
        """Return the mode the path gets: what the commit has, else that of the untracked file on disk, else 100644."""
        if existing is not None and existing.is_file:
            return existing.mode
        condition = self.conditions[path]
        if condition.entry is not None and condition.entry.is_file:
            return condition.entry.mode
        executable = condition.found is not None and condition.found.executable and self._trusts_mode
        return "100755" if executable else "100644"

    def _on_disk_is(self, path: str, new: TreeEntry | None) -> bool:
        found = self.conditions[path].found
        if found is None or new is None:
            return found is None and new is None
        if self._trusts_mode and found.executable != (new.mode == "100755"):
            return False
        return _stored(self._conversion, self._project_dir, self._prefix, path) == new.oid


def _why(condition: Condition) -> HeldReason:
    if condition.staged:
        return HeldReason.STAGED
    if condition.entry is None:
        return HeldReason.UNTRACKED
    if condition.entry.skip_worktree:
        return HeldReason.SKIP_WORKTREE
    if condition.entry.assume_unchanged:
        return HeldReason.ASSUME_UNCHANGED
    return HeldReason.DELETED if condition.found is None else HeldReason.MODIFIED


def _stored(conversion: Conversion, project_dir: Path, prefix: str, path: str) -> str | None:
    """Return the id git would store for the file on disk, None when it is gone."""
    on_disk = read_bytes(project_dir / path)
    return None if on_disk is None else conversion.stored(prefix + path, on_disk)


def _conditions(
    git: Git, layout: RepositoryLayout, conversion: Conversion, tip: TreeView, paths: list[str], *, trusts_mode: bool
) -> dict[str, Condition]:
    index = read_index(git, layout)
    # The signatures come first: an edit after them is seen either by git below or as another signature later.
    found = {path: signature_of(layout.project_dir / path) for path in paths}
    clear: dict[str, HeldReason | None] = {}
    blocked = {
        path: obstacle(layout.project_dir, path, found[path], clear) or _clash(path, tip, index) for path in paths
    }
    free = [path for path in paths if blocked[path] is None]
    modified = modified_paths(git, layout, [path for path in free if path in index.entries])
    ignored = ignored_paths(git, layout, [path for path in free if path not in index.entries])
    conditions = {}
    for path in paths:
        entry = index.entries.get(path)
        changed = path in modified
        if blocked[path] is None and entry is not None and (entry.assume_unchanged or entry.skip_worktree):
            changed = _is_hidden_edit(layout, conversion, path, entry, found[path] if trusts_mode else None)
        conditions[path] = Condition(found[path], entry, tip.entries.get(path), blocked[path], changed, path in ignored)
    return conditions


def _is_hidden_edit(
    layout: RepositoryLayout, conversion: Conversion, path: str, entry: IndexEntry, found: Signature | None
) -> bool:
    """Say whether the file differs from an entry git was told not to compare; `found` None: its mode is no matter."""
    if found is not None and found.executable != (entry.mode == "100755"):
        return True
    return _stored(conversion, layout.project_dir, layout.prefix, path) != entry.oid


def _clash(path: str, tip: TreeView, index: IndexView) -> HeldReason | None:
    """Return why the commit or the index has no room for a file at `path`, or None."""
    if path in index.unmerged:
        return HeldReason.UNMERGED
    for known in (index.entries, tip.entries):
        own = known.get(path)
        if own is not None and not own.is_file:
            return _reason_of(own)
    folder = path
    while "/" in folder:
        folder = folder.rpartition("/")[0]
        above = index.entries.get(folder) or tip.entries.get(folder)
        if above is not None:
            return HeldReason.NOT_A_DIRECTORY if above.is_file else _reason_of(above)
        if folder in index.unmerged:
            return HeldReason.UNMERGED
    return HeldReason.IS_A_DIRECTORY if index.has_folder(path) or tip.has_folder(path) else None


def _reason_of(entry: TreeEntry) -> HeldReason:
    return HeldReason.SYMLINK if entry.mode == "120000" else HeldReason.NESTED_REPOSITORY
