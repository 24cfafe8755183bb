"""What the git store takes and gives, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ktx_cli.project.layout import Layout
from ktx_cli.project.merge import Conflict


@dataclass(frozen=True, slots=True)
class RepositoryLayout:
    """Where a repository and the project in it lie; absolute paths without symbolic links.

    `prefix` is the project's folder seen from `top_level`, `""` or `sub/dir/`. `git_dir` is this working tree's own
    (index, HEAD), `common_dir` the shared one (objects, branches). Without a working tree (`is_bare`), `top_level`
    is the git directory.
    """

    project_dir: Path
    top_level: Path
    prefix: str
    git_dir: Path
    common_dir: Path
    object_format: str
    is_bare: bool = False

    @property
    def is_host(self) -> bool:
        """Whether the project is a subfolder of the repository."""
        return self.prefix != ""

    @property
    def is_linked_worktree(self) -> bool:
        """Whether the working tree is one that `git worktree add` made."""
        return self.git_dir != self.common_dir

    @property
    def zeros(self) -> str:
        """The id that stands for "no object"."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    @property
    def private(self) -> Path:
        """`.ktx/` of the project."""
        return Layout(self.project_dir).private

    @property
    def journal(self) -> Path:
        """What a run is about to do, there only while it does it."""
        return self.private / "journal.json"


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD is: the branch's full name (None: detached) and its commit (None: no commit yet)."""

    ref: str | None
    commit: str | None


class HeldReason(StrEnum):
    """Why a path was left as it is."""

    MODIFIED = "modified"
    DELETED = "deleted"
    UNREADABLE = "unreadable"
    STAGED = "staged"
    UNTRACKED = "untracked"
    UNMERGED = "unmerged"
    CONFLICT = "conflict"
    ASSUME_UNCHANGED = "assume_unchanged"
    SKIP_WORKTREE = "skip_worktree"
    SYMLINK = "symlink"
    NOT_A_DIRECTORY = "not_a_directory"
    IS_A_DIRECTORY = "is_a_directory"
    NOT_A_FILE = "not_a_file"
    NESTED_REPOSITORY = "nested_repository"


@dataclass(frozen=True, slots=True)
class Held:
    """A path that keeps its old content in the commit, in the index and on disk."""

    path: str
    reason: HeldReason
    detail: str | None = None


MergeFunction = Callable[[str, bytes | None, bytes | None, bytes | None], bytes | Conflict | None]
"""Called with path, base, ours (what the run wants) and theirs (what the branch has now); None stands for no file."""


AdjustFunction = Callable[[frozenset[str]], Mapping[str, bytes | None]]
"""Called with the paths that are held; returns those of the changes that still make sense without them."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of the changes.

    `commit`: the new commit, None when there was nothing to commit. `committed`: its paths. `held`: left alone
    everywhere. `ignored`: written to disk, not committed, because git ignores them. `left`: committed, but the file
    on disk was edited while the commit was made, and stays as the user has it. `merged`: committed as a merge with
    what the branch had got since `base`. All sorted. `replaced`: of the spared and ignored, path -> where its old
    content is now, relative to the project.
    """

    commit: str | None
    committed: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()
    ignored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a killed run had left and what was done about it.

    `finished`: paths brought to the commit that run made. `left`: paths of it that the user changed since.
    `commit`: that commit, None when it never reached the branch. `dropped`: a run that had not come that far.
    `removed`: names of temporary and lock files taken away.
    """

    finished: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    commit: str | None = None
    dropped: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """What a tree or the index has at a path: mode as git writes it (`100644`) and object id."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """Whether it is a regular file, executable or not."""
        return self.mode in ("100644", "100755")


@dataclass(frozen=True, slots=True)
class IndexEntry(TreeEntry):
    """An entry of the index with its stage (0 unless unmerged) and flags."""

    stage: int = 0
    skip_worktree: bool = False
    assume_unchanged: bool = False

    def same_as(self, other: TreeEntry | None) -> bool:
        """Say whether mode and object are those of `other`."""
        return other is not None and (self.mode, self.oid) == (other.mode, other.oid)
