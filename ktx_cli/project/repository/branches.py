"""Commits on a branch that is not checked out; the index, working files and current branch stay unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.core import BusyError, UsageError
from ktx_cli.project.git import Git
from ktx_cli.project.layout import Layout, ancestors
from ktx_cli.project.repository.commit_plan import Plan, Planner, Way, clash
from ktx_cli.project.repository.commits import ATTEMPTS, Request, commit_object, publish
from ktx_cli.project.repository.history import Conversion, TreeView
from ktx_cli.project.repository.index import IndexLock, IndexView, ignored_paths
from ktx_cli.project.repository.model import (
    CommitResult,
    Head,
    HeldReason,
    RepositoryLayout,
    TreeEntry,
    commit_of,
    decode,
    full_paths,
    identity_variables,
    is_ancestor,
    read_config,
    read_head,
)
from ktx_cli.project.repository.recovery import PendingCommit, drop_pending

_HEADS: Final = "refs/heads/"


def branch_start(git: Git, layout: RepositoryLayout, name: str) -> Head:
    """Return the full name of a branch, and the commit from which a run for the branch starts.

    That is the tip of the branch, or the current commit if there is no such branch or the current commit contains all
    of it. Raises `UsageError` for a name that no branch can have, and for a branch that is checked
    out in another working tree.
    """
    ref = _checked_ref(git, name)
    head = read_head(git, layout)
    if ref == head.ref:
        return head
    for folder, branch in _working_trees(git):
        if branch == ref and folder != layout.top_level and folder.is_dir():
            message = f"branch `{name}` is checked out in {folder}, whose files would no longer match it"
            raise UsageError(message, hint=f"run the command in {folder} without --branch, or choose another branch")
    return Head(ref, _parent(git, commit_of(git, ref), head.commit))


def _checked_ref(git: Git, name: str) -> str:
    ref = f"{_HEADS}{name}"
    is_name = not name.startswith(("-", "refs/")) and name != "HEAD" and "\0" not in name
    if not is_name or git.read("check-ref-format", ref, ok=range(256)).code:
        what = "with its short name" if name.startswith("refs/") else "with a name that git accepts"
        raise UsageError(f"`{name}` is not a branch name", hint=f"name a branch {what}, such as ktx/update")
    parts = name.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    taken = next((each for each in above if commit_of(git, f"{_HEADS}{each}") is not None), None)
    if taken is None and commit_of(git, ref) is None:
        below = git.read("for-each-ref", "--count=1", "--format=%(refname)", f"{ref}/").out
        taken = decode(below.strip()).removeprefix(_HEADS) or None
    if taken is not None:
        message = f"there can be no branch `{name}`, because there is a branch `{taken}`"
        raise UsageError(message, hint="choose another name")
    return ref


def _working_trees(git: Git) -> Iterator[tuple[Path, str]]:
    """Yield the folder and the branch of each of the repository's working trees."""
    folder = Path()
    for line in decode(git.read("worktree", "list", "--porcelain").out).splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            folder = Path(value)
        elif key == "branch":
            yield folder, value


def _parent(git: Git, tip: str | None, start: str | None) -> str | None:
    """Return the parent for the next commit on a branch: its tip, or `start` if that contains all of the tip."""
    if tip is None or start is None:
        return tip or start
    return start if is_ancestor(git, tip, start) else tip


@dataclass(frozen=True, slots=True)
class _TreeJudge:
    """The conditions of paths in a commit: nobody works on its files, and git-ignored files are not in it."""

    tip: TreeView
    ignored: frozenset[str]

    def way(self, path: str, new: TreeEntry | None) -> Way | HeldReason:
        """Return how the path can become `new`."""
        if path in self.ignored:
            return Way.IGNORED
        return clash(path, self.tip, _NO_INDEX) or Way.INDEX_ONLY

    def mode(self, path: str, existing: TreeEntry | None) -> str:
        """Return the mode for the path."""
        return existing.mode if existing is not None and existing.is_file else "100644"


_NO_INDEX: Final = IndexView({}, frozenset())


def commit_to_branch(git: Git, layout: RepositoryLayout, lock: IndexLock, request: Request, ref: str) -> CommitResult:
    """Commit on a branch that is not checked out, or find that there is nothing to commit.

    Only for a caller that has announced itself and recovered. If the branch has moved since `request.base`, the changes
    are merged as on the current branch.
    """
    from ktx_cli.project.state import prepare_private_folder

    config = read_config(git)
    identity = identity_variables(request.author, config, git.environ)
    conversion = Conversion(git, config, layout.object_format, full_paths(layout.prefix, request.changes))
    for _ in range(ATTEMPTS):
        old = commit_of(git, ref)
        parent = _parent(git, old, request.base)
        plan = _plan(git, layout, request, conversion, parent)
        ignored = plan.ignored
        if not plan.committed:
            return CommitResult(None, held=tuple(plan.held), ignored=ignored)
        blobs = [change.blob for change in plan.committed if change.blob is not None]
        entries = {layout.prefix + change.path: change.new for change in plan.committed}
        commit = commit_object(git, layout, blobs, entries, parent, request.message, identity, amends=request.amends)
        prepare_private_folder(Layout(layout.project_dir))
        if request.before_publish is not None:
            request.before_publish()
        if publish(git, layout, PendingCommit(ref, old, commit, lock.token, (), ()), request.message, identity):
            drop_pending(layout)
            paths = tuple(change.path for change in plan.committed)
            return CommitResult(commit, paths, tuple(plan.held), ignored, merged=tuple(plan.merged))
    message = f"{ref} of {layout.top_level} moved {ATTEMPTS} times while ktx was committing"
    raise BusyError(message, hint="run the same command again when nothing else commits")


def _plan(git: Git, layout: RepositoryLayout, request: Request, conversion: Conversion, parent: str | None) -> Plan:
    tip = TreeView(git, layout.prefix, parent)
    base = tip if request.base == parent else TreeView(git, layout.prefix, request.base)
    # git answers for no path beyond a symbolic link of the working tree.
    links = {folder for folder in _folders(request) if (layout.project_dir / folder).is_symlink()}
    unknown = [path for path in request.changes if path not in tip.entries and links.isdisjoint(ancestors(path))]
    judge = _TreeJudge(tip, ignored_paths(git, layout, unknown))
    return Planner(request.changes, base, layout.prefix, conversion, judge, request.merge, request.adjust).plan(tip)


def _folders(request: Request) -> set[str]:
    return {folder for path in request.changes for folder in ancestors(path)}
