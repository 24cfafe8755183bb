"""A project's repository: reads committed content, and turns a run's changes into one commit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Command, GitError, KtxError, listing
from ktx_cli.project.git import Git
from ktx_cli.project.layout import PRIVATE_NAME
from ktx_cli.project.repository import model
from ktx_cli.project.repository.history import Changes, History, TreeView, absent_paths, working_changes
from ktx_cli.project.repository.index import (
    announced,
    clear_dead,
    committable_paths,
    has_leftovers,
    hold_index,
    ignored_paths,
    leftover_lock,
)
from ktx_cli.project.repository.model import (
    AdjustFunction,
    CommitResult,
    Destination,
    Head,
    Held,
    Recovery,
    RepositoryLayout,
    check_changes,
    check_paths,
)
from ktx_cli.project.repository.working_files import needs_recovery

if TYPE_CHECKING:
    from ktx_cli.project.repository.model import MergeFunction

CURRENT_BRANCH: Final = Destination()
_MOST_NAMED: Final = 10
_FOREIGN: Final = tuple(f"{PRIVATE_NAME}/{name}" for name in (".gitignore", "prompts/", "skills/"))


def untracking(project_dir: Path, paths: Sequence[str]) -> str:
    """Return the command that removes files from git but keeps them on disk."""
    named = paths if len(paths) <= _MOST_NAMED else [PRIVATE_NAME]
    return Command("-C", project_dir, "rm", "-r", "--cached", "--quiet", "--", *named, program="git")


class Repository:
    """A project's repository: its own, or one around it.

    All paths are POSIX strings relative to the project. Only `create`, `recover`, `propose` and `commit` write.
    """

    def __init__(self, git: Git, layout: RepositoryLayout) -> None:
        self._git = git
        self.layout = layout

    @classmethod
    def discover(cls, project_dir: Path) -> Repository | None:
        """Return the repository around `project_dir`, or None if there is none.

        Raises `GitMissingError`, and `GitError` for a repository that git refuses to open.
        """
        found = model.discover_layout(project_dir)
        return None if found is None else cls(*found)

    @classmethod
    def create(cls, project_dir: Path) -> Repository:
        """Create a repository in `project_dir`, without a commit; its branch is `main` unless git is configured
        otherwise.
        """
        return cls(*model.create_layout(project_dir))

    def head(self) -> Head:
        """Return the current branch and its commit."""
        return model.read_head(self._git, self.layout)

    def author_name(self) -> str | None:
        """Return git's name for the author of a commit, or None if none is set."""
        return model.author_name(model.read_config(self._git), self._git.environ)

    def author(self) -> tuple[str, str] | None:
        """Return git's name and email address for the author of a manual commit, or None if one of them is not set."""
        return model.own_identity("author", model.read_config(self._git), self._git.environ)

    def check_writable(self) -> None:
        """Raise `GitError` with a hint if no commit may be added now.

        That is on a detached HEAD, in a bare repository, and during a merge, rebase, cherry-pick, revert or bisection.
        """
        model.check_writable(self.layout, model.read_ref(self._git, self.layout))

    def start(self, destination: Destination) -> Head:
        """Return the branch that a run's commit goes to, and the commit from which the run starts.

        `ref` None: a detached HEAD, if nothing is to be committed on it. Raises `GitError` like `check_writable`, but
        for a detached HEAD only if a commit would be made there; `UsageError` for a branch that cannot be used.
        """
        elsewhere = destination.branch is not None or not destination.commits
        model.check_writable(self.layout, model.read_ref(self._git, self.layout), detached=elsewhere)
        if destination.branch is None:
            return self.head()
        from ktx_cli.project.repository.branches import branch_start

        return branch_start(self._git, self.layout, destination.branch)

    def tree(self, commit: str | None) -> TreeView:
        """Return the project's files in `commit`; None (an unborn branch) has none."""
        return TreeView(self._git, self.layout.prefix, commit)

    def history(self) -> History:
        """Return the history of the current commit."""
        return History(self._git, self.layout, self.head().commit)

    def ignored(self, paths: Collection[str]) -> frozenset[str]:
        """Return the paths that git ignores; tracked paths never count."""
        check_paths(paths)
        return ignored_paths(self._git, self.layout, paths)

    def committed(self, folder: str) -> list[str]:
        """Return the files below a folder in the current commit, sorted."""
        view = TreeView(self._git, f"{self.layout.prefix}{folder}/", self.head().commit)
        return [f"{folder}/{path}" for path in view.blobs()]

    def exposed(self) -> list[str]:
        """Return the files in `.ktx` that a commit of everything would contain, sorted.

        Files that the TypeScript ktx commits there on purpose do not count.
        """
        found = [] if self.layout.is_bare else committable_paths(self._git, self.layout, PRIVATE_NAME)
        return [path for path in found if not path.startswith(_FOREIGN)]

    def require_hidden(self) -> None:
        """Raise `GitError` if a commit of everything would contain files in `.ktx`: no pattern hides tracked files."""
        found = self.exposed()
        if found:
            message = f"git tracks {listing(found, 3)}, but files in {PRIVATE_NAME}/ must never be committed"
            raise GitError(message, hint=untracking(self.layout.project_dir, found), details={"paths": found})

    def absent(self, committed: Iterable[str]) -> list[Held]:
        """Return which committed paths are missing from the working tree or cannot be read there, and why."""
        return absent_paths(self._git, self.layout, committed)

    def changes(self, paths: Collection[str]) -> Changes:
        """Return the branch, and which of some files and folders differ from its commit; none in a bare repository."""
        check_paths(paths)
        return Changes() if self.layout.is_bare else working_changes(self._git, self.layout, paths)

    def leftover_lock(self) -> Path | None:
        """Return the `index.lock` of a killed run, which blocks the user's git until the next run; None otherwise.

        None too while the run, or a git child of it, is alive: it then removes the lock itself. Writes nothing.
        """
        return None if self.layout.is_bare else leftover_lock(self.layout)

    def recover(self) -> Recovery:
        """Finish or drop what a killed run left behind; changes nothing if there is nothing.

        Raises `BusyError` if another run is active, `GitError` if its record cannot be read.
        """
        if self.layout.is_bare:
            return Recovery()
        removed = clear_dead(self.layout) if has_leftovers(self.layout) else []
        # What remains now belongs to live processes: another run, or a child of a killed one, whose end we wait for.
        if not has_leftovers(self.layout) and not needs_recovery(self.layout):
            return Recovery(removed=tuple(removed))
        from ktx_cli.project.repository.recovery import recover

        with hold_index(self.layout) as lock:
            lock.removed[:0] = removed
            return recover(self._git.guarded(lock.descriptor), self.layout, lock)

    def commit_at(self, ref: str) -> str | None:
        """Return the commit of a branch, given by its full name, or of an id; None if there is none."""
        return model.commit_of(self._git, ref)

    def message_of(self, commit: str) -> str:
        """Return the message of a commit."""
        return self._git.read("log", "-1", "--format=%B", commit).out.decode("utf-8", "replace")

    def parent_of(self, commit: str) -> str | None:
        """Return the first parent of a commit, or None for the root commit."""
        return model.commit_of(self._git, f"{commit}^")

    @property
    def is_shallow(self) -> bool:
        """Whether this clone has only a part of the history."""
        return (self.layout.common_dir / "shallow").exists()

    def is_ancestor(self, older: str, newer: str) -> bool | None:
        """Return whether a commit is another one, or in its history.

        None: this clone does not know, because it lacks one of them, or is shallow and its history ends too early.
        """
        found = [model.commit_of(self._git, commit) for commit in (older, newer)]
        if found[0] is None or found[1] is None:
            return None
        if model.is_ancestor(self._git, found[0], found[1]):
            return True
        return None if self.is_shallow else False

    def commit_of_run(self, run_id: str) -> str | None:
        """Return a run's newest commit on the current branch, according to its message."""
        if self.head().commit is None:
            return None
        found = self._git.read("log", "-1", "--format=%H", "--fixed-strings", f"--grep=Ktx-Run: {run_id}", "HEAD")
        return found.out.decode("ascii").strip() or None

    def propose(
        self,
        changes: Mapping[str, bytes | None],
        *,
        ref: str,
        base: str | None,
        message: str,
        author: str | None = None,
        before_publish: Callable[[], None] | None = None,
    ) -> str:
        """Create a branch `ref` with one commit of `changes` on `base`, and return that commit.

        The current branch, the index and the working files are unchanged. Raises the errors of `commit`, and `GitError`
        if the branch already exists.
        """
        steps = [(changes, message)]
        return self.propose_series(steps, ref=ref, base=base, author=author, before_publish=before_publish)[0]

    def propose_series(
        self,
        steps: Sequence[tuple[Mapping[str, bytes | None], str]],
        *,
        ref: str,
        base: str | None,
        author: str | None = None,
        before_publish: Callable[[], None] | None = None,
    ) -> list[str]:
        """Create a branch `ref` with a commit for each step (changes and message), the first on `base`; return them.

        Otherwise behaves like `propose`.
        """
        from ktx_cli.project.repository.commit_plan import merge_by_default
        from ktx_cli.project.repository.commits import Request, propose_changes

        for changes, _ in steps:
            check_changes(changes)
        requests = [
            Request(changes, message, base, author, merge_by_default, before_publish) for changes, message in steps
        ]
        with announced(self.layout) as lock:
            return propose_changes(self._git.guarded(lock.descriptor), self.layout, requests, ref)

    def commit(
        self,
        changes: Mapping[str, bytes | None],
        *,
        message: str,
        base: str | None,
        author: str | None = None,
        merge: MergeFunction | None = None,
        before_publish: Callable[[], None] | None = None,
        adjust: AdjustFunction | None = None,
        spared: Collection[str] = (),
        destination: Destination = CURRENT_BRANCH,
        amends: str | None = None,
    ) -> CommitResult:
        """Add one commit with `changes` (path -> new content, None: delete) to the current branch, or none.

        `destination`: another branch, which only gets a commit, or the working files, which are then changed
        without a commit. `amends`: a commit of the same command, which the new one replaces if it is still the
        tip; its changes stay.

        `base` is the commit the changes were computed from (None: unborn). If the branch has since moved and changed
        the same path, `merge` decides (default: YAML by its values, other files by lines; a conflict holds
        the path). `author` is `Name <mail>`.
        `before_publish` is called right before the branch moves, again for every attempt; what it raises leaves
        nothing behind. Paths with the user's work are held, and named in the result; `adjust` is then asked
        which changes still make sense without them (default: all). For `spared` paths that git ignores, and so has no
        history for, replaced or removed content is kept in `.ktx/replaced`.

        Raises `BusyError` if git's lock is held or the branch keeps moving, `StorageError`, `GitError`. If `details` of
        an error has `commit`, the branch has that commit and the next `recover` updates the files to it.
        """
        from ktx_cli.project.repository.commit_plan import merge_by_default
        from ktx_cli.project.repository.commits import Request, commit_changes
        from ktx_cli.project.repository.recovery import recover

        check_changes(changes)
        options = (author, merge or merge_by_default, before_publish, adjust, spared, destination.commits, amends)
        request = Request(changes, message, base, *options)
        other = self._other_branch(destination)
        result = None
        try:
            with announced(self.layout) as lock:
                git = self._git.guarded(lock.descriptor)
                if needs_recovery(self.layout):
                    lock.take()
                    recover(git, self.layout, lock)
                    lock.give_back()
                if other is None:
                    result = commit_changes(git, self.layout, lock, request)
                else:
                    from ktx_cli.project.repository.branches import commit_to_branch

                    result = commit_to_branch(git, self.layout, lock, request, other)
        except KtxError as error:
            if result is not None and result.commit is not None:  # only releasing the lock failed
                error.details["commit"] = result.commit
            raise
        return result

    def _other_branch(self, destination: Destination) -> str | None:
        """Return the full name of the branch for the commit if it is not the current one; errors as in `start`."""
        ref = self.start(destination).ref
        return None if destination.branch is None or ref == model.read_ref(self._git, self.layout) else ref
