"""Decides whether a path may be changed or contains the user's work, for one state of the index."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ktx_cli.project import merge
from ktx_cli.project.files import read_bytes
from ktx_cli.project.git import Git, failure, find_git
from ktx_cli.project.merge import Conflict
from ktx_cli.project.repository.history import Blob, Conversion, TreeView
from ktx_cli.project.repository.index import IndexView, ignored_paths, modified_paths, read_index
from ktx_cli.project.repository.model import Held, HeldReason, TreeEntry
from ktx_cli.project.repository.working_files import Signature, naming, obstacle, signature_of

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import AdjustFunction, GitConfig, IndexEntry, MergeFunction, RepositoryLayout


class Way(Enum):
    """How a change to a path that is not held is carried out."""

    WRITE = "write"
    """Commit, index and file."""
    ADOPT = "adopt"
    """Commit and index; the file already has the content."""
    INDEX_ONLY = "index_only"
    """Commit and index; the path is outside a sparse checkout and gets no file."""
    IGNORED = "ignored"
    """The file alone."""


@dataclass(frozen=True, slots=True)
class Condition:
    """The state of a path when it was judged.

    `found`: what was on disk. `entry`: the index entry. `anchor`: the entry in the HEAD commit at the time. `obstacle`:
    why nothing can be written there at all. `modified`: the file differs from the entry.
    """

    found: Signature | None
    entry: IndexEntry | None
    anchor: TreeEntry | None
    obstacle: HeldReason | None
    modified: bool
    ignored: bool

    @property
    def staged(self) -> bool:
        """Whether the index differs from the commit."""
        return self.anchor is not None if self.entry is None else not self.entry.same_as(self.anchor)


class PathJudge(Protocol):
    """Determines how paths can change."""

    def way(self, path: str, new: TreeEntry | None) -> Way | HeldReason:
        """Return how the path can become `new` (None: be deleted), or why it must be left alone."""

    def mode(self, path: str, existing: TreeEntry | None) -> str:
        """Return the mode that the path gets."""


class Judge:
    """The conditions of all paths that a run wants to change, for one state of the index.

    `index_stays`: nothing is committed, so a path that has no working file on purpose cannot change.
    """

    def __init__(
        self,
        git: Git,
        layout: RepositoryLayout,
        config: GitConfig,
        conversion: Conversion,
        tip: TreeView,
        paths: Iterable[str],
        *,
        index_stays: bool = False,
    ) -> None:
        self._index_stays = index_stays
        self._project_dir = layout.project_dir
        self._prefix = layout.prefix
        self._conversion = conversion
        self._trusts_mode = config.flag("core.filemode", True)
        self.conditions = _conditions(git, layout, conversion, tip, sorted(paths), trusts_mode=self._trusts_mode)

    def way(self, path: str, new: TreeEntry | None) -> Way | HeldReason:
        """Return how the path can become `new` (None: be deleted), or why it must not be touched."""
        condition = self.conditions[path]
        if condition.obstacle is not None:
            return condition.obstacle
        entry = condition.entry
        if condition.staged and not (new is None if entry is None else entry.same_as(new)):
            return HeldReason.STAGED
        if entry is not None and entry.skip_worktree and condition.found is None:
            return HeldReason.SKIP_WORKTREE if self._index_stays else Way.INDEX_ONLY
        if entry is None and condition.anchor is None and condition.ignored:
            return Way.IGNORED
        dirty = condition.modified if entry is not None else condition.found is not None
        if not dirty and not condition.staged:
            return Way.WRITE
        if self._on_disk_is(path, new):
            return Way.ADOPT
        return _why(condition)

    def mode(self, path: str, existing: TreeEntry | None) -> str:
        """Return the mode for the path: that of the commit, else that of the untracked file on disk, else 100644."""
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
    """Return the id that git would store for the file on disk, or None if the file no longer exists."""
    on_disk = read_bytes(project_dir / path)
    return None if on_disk is None else conversion.stored(prefix + path, on_disk)


def _conditions(
    git: Git, layout: RepositoryLayout, conversion: Conversion, tip: TreeView, paths: list[str], *, trusts_mode: bool
) -> dict[str, Condition]:
    index = read_index(git, layout)
    # Take the signatures first: git below, or a changed signature later, then detects any following edit.
    found = {path: signature_of(layout.project_dir / path) for path in paths}
    clear: dict[str, HeldReason | None] = {}
    blocked = {
        path: obstacle(layout.project_dir, path, found[path], clear) or clash(path, tip, index) for path in paths
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
    """Return whether the file differs from an entry that git does not compare; `found` None: ignore its mode."""
    if found is not None and found.executable != (entry.mode == "100755"):
        return True
    return _stored(conversion, layout.project_dir, layout.prefix, path) != entry.oid


def clash(path: str, tip: TreeView, index: IndexView) -> HeldReason | None:
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


@dataclass(frozen=True, slots=True)
class Change:
    """How one path becomes `new` (None: deletion); `blob` is the content's object."""

    path: str
    way: Way
    new: TreeEntry | None
    blob: Blob | None


@dataclass(slots=True)
class Plan:
    """A run's changes on a given tip."""

    changes: list[Change] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    @property
    def committed(self) -> list[Change]:
        """The changes in the commit."""
        return [change for change in self.changes if change.way is not Way.IGNORED]

    @property
    def written(self) -> list[Change]:
        """The changes that touch a file on disk."""
        return [change for change in self.changes if change.way in (Way.WRITE, Way.IGNORED)]

    @property
    def ignored(self) -> tuple[str, ...]:
        """The paths that are written but not committed."""
        return tuple(change.path for change in self.changes if change.way is Way.IGNORED)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for one tip after another, if the branch moves during a run."""

    wanted: Mapping[str, bytes | None]
    base: TreeView
    prefix: str
    conversion: Conversion
    judge: PathJudge
    merge_function: MergeFunction
    adjust: AdjustFunction | None = None

    def plan(self, tip: TreeView) -> Plan:
        """Return how `tip` gets the requested changes, without those that depend on a held path."""
        plan = self._plan(self.wanted, tip)
        if not plan.held or self.adjust is None:
            return plan
        adjusted = self._plan(self.adjust(frozenset(held.path for held in plan.held)), tip)
        adjusted.held = sorted({held.path: held for held in (*plan.held, *adjusted.held)}.values(), key=_path_of)
        return adjusted

    def _plan(self, wanted: Mapping[str, bytes | None], tip: TreeView) -> Plan:
        plan = Plan()
        for path in sorted(wanted):
            outcome = self._merged(path, wanted[path], tip)
            if isinstance(outcome, Conflict):
                plan.held.append(Held(path, HeldReason.CONFLICT, outcome.reason))
                continue
            blob, was_merged = outcome
            existing = tip.entries.get(path)
            if (blob and blob.oid) == (existing and existing.oid):
                continue
            new = None if blob is None else TreeEntry(self.judge.mode(path, existing), blob.oid)
            way = self.judge.way(path, new)
            if isinstance(way, HeldReason):
                plan.held.append(Held(path, way))
                continue
            plan.changes.append(Change(path, way, new, blob))
            if was_merged:
                plan.merged.append(path)
        return plan

    def _merged(self, path: str, wanted: bytes | None, tip: TreeView) -> tuple[Blob | None, bool] | Conflict:
        """Return the object that the path becomes (None: none) and whether that took a merge."""
        ours = self._blob(path, wanted)
        before, theirs = self.base.entries.get(path), tip.entries.get(path)
        ours_oid = ours and ours.oid
        before_oid, their_oid = before and before.oid, theirs and theirs.oid
        if their_oid in (before_oid, ours_oid):
            return ours, False
        if ours_oid == before_oid:
            return (None if theirs is None else Blob(theirs.oid, None)), False
        if self.conversion.is_filtered(self.prefix + path):
            return Conflict(path, "", "a filter driver is configured for it")
        answer = self.merge_function(path, self.base.read(path), wanted, tip.read(path))
        return answer if isinstance(answer, Conflict) else (self._blob(path, answer), True)

    def _blob(self, path: str, content: bytes | None) -> Blob | None:
        return None if content is None else self.conversion.blob(self.prefix + path, content)


def _path_of(held: Held) -> str:
    return held.path


def merge_by_default(
    path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None
) -> bytes | Conflict | None:
    """Merge YAML by its values and other files line by line: the default merge function."""
    return merge.merge_file(path, base, ours, theirs, text_merge=merge_lines)


def merge_lines(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the line-by-line three-way merge, or None if the changes overlap or a content is binary."""
    if any(b"\0" in content for content in (base, ours, theirs)):
        return None
    with naming(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory(prefix="ktx-merge-") as folder:
        names = list(_written(Path(folder), {"ours": ours, "base": base, "theirs": theirs}))
        git = Git(find_git(), Path(folder))
        output = git.read("merge-file", "--stdout", "--quiet", *names, ok=range(256))
    if output.code > 127:
        raise failure("merge-file", output.code, output.err, Path(folder))
    return output.out if output.code == 0 else None


def _written(folder: Path, contents: Mapping[str, bytes]) -> Iterator[str]:
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield str(folder / name)
