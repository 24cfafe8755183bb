"""From wanted contents to what one commit on a given tip changes: merged with the tip, judged, nothing superfluous."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.project import merge
from ktx_cli.project.git import Git, failure, find_git
from ktx_cli.project.merge import Conflict
from ktx_cli.project.repository.conversion import Blob, Conversion
from ktx_cli.project.repository.judging import Judge, Way
from ktx_cli.project.repository.model import AdjustFunction, Held, HeldReason, MergeFunction, TreeEntry
from ktx_cli.project.repository.trees import TreeView
from ktx_cli.project.repository.working_files import naming


@dataclass(frozen=True, slots=True)
class Change:
    """One path's way to `new` (None: deletion); `blob` is the content's object."""

    path: str
    way: Way
    new: TreeEntry | None
    blob: Blob | None


@dataclass(slots=True)
class Plan:
    """What a run does on a given tip."""

    changes: list[Change] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)

    @property
    def committed(self) -> list[Change]:
        """The changes that the commit has."""
        return [change for change in self.changes if change.way is not Way.IGNORED]

    @property
    def written(self) -> list[Change]:
        """The changes that touch a file on disk."""
        return [change for change in self.changes if change.way in (Way.WRITE, Way.IGNORED)]

    @property
    def ignored(self) -> tuple[str, ...]:
        """The paths that are written and not committed."""
        return tuple(change.path for change in self.changes if change.way is Way.IGNORED)


@dataclass(frozen=True, slots=True)
class Planner:
    """Plans for one tip after another, when the branch moves while a run is at work."""

    wanted: Mapping[str, bytes | None]
    base: TreeView
    prefix: str
    conversion: Conversion
    judge: Judge
    merge_function: MergeFunction
    adjust: AdjustFunction | None = None

    def plan(self, tip: TreeView) -> Plan:
        """Return what is to be done so that `tip` gets the wanted changes, less what depends on a held path."""
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
        """Return the object the path is to have (None: none) and whether it took a merge to find it."""
        ours = self._blob(path, wanted)
        before, theirs = self.base.entries.get(path), tip.entries.get(path)
        ours_oid = ours and ours.oid
        before_oid, their_oid = before and before.oid, theirs and theirs.oid
        if their_oid in (before_oid, ours_oid):
            return ours, False
        if ours_oid == before_oid:
            return (None if theirs is None else Blob(theirs.oid, None)), False
        if self.conversion.is_filtered(self.prefix + path):
            return Conflict(path, "", "a filter driver is set for it")
        answer = self.merge_function(path, self.base.read(path), wanted, tip.read(path))
        return answer if isinstance(answer, Conflict) else (self._blob(path, answer), True)

    def _blob(self, path: str, content: bytes | None) -> Blob | None:
        return None if content is None else self.conversion.blob(self.prefix + path, content)


def _path_of(held: Held) -> str:
    return held.path


def merge_by_default(
    path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None
) -> bytes | Conflict | None:
    """Merge YAML by its values and other files by their lines: what callers get that give no merge function."""
    return merge.merge_file(path, base, ours, theirs, text_merge=merge_file)


def merge_file(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the line-by-line three-way merge, or None when the changes overlap or a content is binary."""
    if any(b"\0" in content for content in (base, ours, theirs)):
        return None
    with naming(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory(prefix="ktx-merge-") as folder:
        names = list(_written(Path(folder), {"ours": ours, "base": base, "theirs": theirs}))
        git = Git(find_git(), Path(folder))
        said = git.read("merge-file", "--stdout", "--quiet", *names, ok=range(256))
    if said.code > 127:
        raise failure("merge-file", said.code, said.err, Path(folder))
    return said.out if said.code == 0 else None


def _written(folder: Path, contents: Mapping[str, bytes]) -> Iterator[str]:
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield str(folder / name)
