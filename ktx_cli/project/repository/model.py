"""The repository around a project, and the data types for commits: layout, HEAD, settings, held paths."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    GitError,
    Hint,
    PartialError,
    Placeholder,
    StorageError,
    listing,
    shell_words,
)
from ktx_cli.project.files import read_bytes, storage_error
from ktx_cli.project.git import Git, condensed, failure, find_git
from ktx_cli.project.layout import Layout, ancestors

if TYPE_CHECKING:
    from ktx_cli.project.merge import Conflict

    MergeFunction = Callable[[str, bytes | None, bytes | None, bytes | None], bytes | Conflict | None]
    """Called with path, base, ours (what the run wants), theirs (the branch's current content); None: no file."""


@dataclass(frozen=True, slots=True)
class RepositoryLayout:
    """The locations of a repository and the project in it, as absolute paths without symbolic links.

    `prefix` is the project folder relative to `top_level`, `""` or `sub/dir/`. `git_dir` belongs to this working tree
    (index, HEAD), `common_dir` is shared (objects, branches). Without a working tree (`is_bare`), `top_level` is the
    git directory.
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
    def zeros(self) -> str:
        """The id that stands for "no object"."""
        return "0" * (64 if self.object_format == "sha256" else 40)

    @property
    def private(self) -> Path:
        """`.ktx/` of the project."""
        return Layout(self.project_dir).private

    @property
    def pending(self) -> Path:
        """The record of the commit that a run is making; it only exists meanwhile."""
        return self.private / "journal.json"


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD is: the branch's full name (None: detached) and its commit (None: no commit yet)."""

    ref: str | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class Destination:
    """Where changes go: into a commit of the current branch, of the branch named here, or into the working files alone.

    `branch`: its short name; the current branch, index and working files stay as they are then. `commits` false: the
    working files change, and nothing is committed. The two exclude each other.
    """

    branch: str | None = None
    commits: bool = True

    @property
    def words(self) -> tuple[str, ...]:
        """The command-line options that name the destination."""
        return (
            () if self.commits and self.branch is None else ("--branch", self.branch) if self.branch else (NO_COMMIT,)
        )


NO_COMMIT: Final = "--no-commit"


class HeldReason(StrEnum):
    """Why a path was not changed."""

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


AdjustFunction = Callable[[frozenset[str]], Mapping[str, bytes | None]]
"""Called with the held paths; returns those changes that still make sense without them."""


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The outcome of the changes.

    `commit`: the new commit, None when there was nothing to commit. `committed`: its paths. `uncommitted`: those of
    working files that have the changes without a commit. `held`: left alone everywhere. `ignored`: written to disk, not
    committed, because git ignores them; for another branch, not even written. `left`: committed, but the file
    on disk was edited while the commit was made, and stays as the user has it. `merged`: committed as a merge with the
    branch's changes since `base`. All sorted. `replaced`: of the spared and ignored, path -> where its old
    content is now, relative to the project.
    """

    commit: str | None
    committed: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()
    ignored: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    merged: tuple[str, ...] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)
    uncommitted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a killed run left behind, and how it was cleaned up.

    `finished`: paths updated to the commit of that run. `left`: its paths that the user changed since. `commit`: that
    commit, None if it never reached the branch. `dropped`: a run that had not got that far. `removed`: names of removed
    temporary and lock files.
    """

    finished: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    commit: str | None = None
    dropped: bool = False
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry in a tree or the index: mode as git writes it (`100644`) and object id."""

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """Whether the entry is a regular file, executable or not."""
        return self.mode in ("100644", "100755")


@dataclass(frozen=True, slots=True)
class IndexEntry(TreeEntry):
    """An entry in the index with its stage (0 unless unmerged) and flags."""

    stage: int = 0
    skip_worktree: bool = False
    assume_unchanged: bool = False

    def same_as(self, other: TreeEntry | None) -> bool:
        """Return whether the mode and object equal those of `other`."""
        return other is not None and (self.mode, self.oid) == (other.mode, other.oid)


_GIT_NAME: Final = re.compile(r"(?:\.git|git~1)[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL)
_INVISIBLE: Final = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF), ""
)  # fmt: skip
"""`.git`, on any file system the repository may be cloned to: on some of Windows with a suffix, on some of macOS

with these characters. git omits such a path from an index without an error.
"""


def encode(path: str) -> bytes:
    """Return the path as git stores it; lone surrogates represent bytes that are not UTF-8."""
    return path.encode("utf-8", "surrogateescape")


def decode(path: bytes) -> str:
    """Return the inverse of `encode`."""
    return path.decode("utf-8", "surrogateescape")


def joined(paths: Iterable[str]) -> bytes:
    """Return paths for a `-z --stdin`, each terminated by NUL."""
    return b"".join(encode(path) + b"\0" for path in paths)


def full_paths(prefix: str, paths: Iterable[str]) -> list[str]:
    """Return project paths relative to the top level, for a project below `prefix`."""
    return [prefix + path for path in paths]


def check_paths(paths: Iterable[str]) -> None:
    """Raise `GitError` for a path that ktx must not write."""
    for path in set(paths):
        reason = _objection(path)
        if reason is not None:
            raise GitError(f"ktx does not write {path!r}: {reason}", details={"path": path})


def check_changes(changes: Mapping[str, bytes | None]) -> None:
    """Raise `GitError` like `check_paths`, and if a written path would be the folder of another."""
    check_paths(changes)
    written = {path for path, content in changes.items() if content is not None}
    for path in written:
        for folder in ancestors(path):
            if folder in written:
                raise GitError(f"{folder!r} cannot be both a file and the folder of {path!r}", details={"path": path})


def _objection(path: str) -> str | None:
    parts = path.split("/")
    if path.startswith("/"):
        return "it is not relative to the project"
    if "\0" in path:
        return "it contains a NUL character"
    if any(part in ("", ".") for part in parts):
        return "it is not a plain file path"
    if ".." in parts:
        return "it is outside the project"
    if any(_GIT_NAME.fullmatch(part.translate(_INVISIBLE)) for part in re.split(r"[/\\]", path)):
        return "it belongs to git"
    if parts[0].casefold() == ".ktx" and path != ".ktx/.gitignore":
        return "files under .ktx are never committed"
    return None


FALLBACK = ("ktx", "ktx@example.com")
"""Name and email address for commits if none are configured."""

_AUTHOR = re.compile(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+)>\s*")


def identity_variables(author: str | None, config: GitConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the `GIT_AUTHOR_*` and `GIT_COMMITTER_*` variables for a commit.

    All four are always set, so that git never derives one from host and login names (as root with an empty HOME it
    fails). Raises `ConfigError` if `author` is not `Name <mail>`.
    """
    own = own_identity("author", config, environ)
    wanted = _parsed(author) if author else own or FALLBACK
    committer = own_identity("committer", config, environ) or own or wanted
    names = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
    return dict(zip(names, (*wanted, *committer), strict=True))


def _parsed(author: str) -> tuple[str, str]:
    match = _AUTHOR.fullmatch(author)
    if match is None:
        message = f"the commit author {author!r} does not have the form Name <mail>"
        raise ConfigError(message, hint="write it as: Ann Lee <ann@example.com>")
    return match.group(1), match.group(2)


def author_name(config: GitConfig, environ: Mapping[str, str]) -> str | None:
    """Return the author name that a manual commit would have, or None if none is set."""
    return environ.get("GIT_AUTHOR_NAME") or config.last("author.name") or config.last("user.name")


def own_identity(role: str, config: GitConfig, environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return git's name and email for an `author` or `committer`; None if one of them is not set."""
    upper = f"GIT_{role.upper()}"
    name = environ.get(f"{upper}_NAME") or config.last(f"{role}.name") or config.last("user.name")
    given = environ.get(f"{upper}_EMAIL") or config.last(f"{role}.email")
    mail = given or config.last("user.email") or environ.get("EMAIL")
    return (name, mail) if name and mail else None


_FILTER = re.compile(r"filter\.(?:(.*)\.)?(?:clean|smudge|process|required)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GitConfig:
    """All settings by their canonical names; `None` is a key without a value, which git reads as true."""

    values: Mapping[str, tuple[str | None, ...]]

    def last(self, name: str) -> str | None:
        """Return the effective value, or None if it is not set (or has no value)."""
        return self.values.get(name, (None,))[-1]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting; a value that is not boolean counts as the default."""
        if name not in self.values:
            return default
        word = self.values[name][-1]
        if word is None or word.casefold() in ("true", "yes", "on", "1"):
            return True
        return default and word.casefold() not in ("false", "no", "off", "0", "")

    def filters(self) -> frozenset[str]:
        """Return the names of the filter drivers that have an effect."""
        found = (_FILTER.fullmatch(key) for key, values in self.values.items() if values[-1] != "")
        return frozenset(match[1] or "" for match in found if match)


def read_config(git: Git) -> GitConfig:
    """Read the whole configuration: system, global, repository, working tree."""
    values: dict[str, tuple[str | None, ...]] = {}
    for record in git.read("config", "--null", "--list").out.split(b"\0"):
        if record:
            key, line_break, value = record.partition(b"\n")
            name = decode(key)
            values[name] = (*values.get(name, ()), decode(value) if line_break else None)
    return GitConfig(values)


_FACTS = (
    "--path-format=absolute", "--git-dir", "--git-common-dir", "--show-object-format", "--is-bare-repository",
    "--is-inside-work-tree", "--show-prefix", "--show-toplevel",
)  # fmt: skip


def _finish(operation: str) -> Hint:
    go_on, give_up = (Command(operation, flag, program="git") for flag in ("--continue", "--abort"))
    return Hint("finish it with `{}`, or abort it with `{}`", go_on, give_up)


_OPERATIONS = (
    ("MERGE_HEAD", "a merge", _finish("merge")),
    ("rebase-merge", "a rebase", _finish("rebase")),
    ("rebase-apply", "a rebase", _finish("rebase")),
    ("CHERRY_PICK_HEAD", "a cherry-pick", _finish("cherry-pick")),
    ("REVERT_HEAD", "a revert", _finish("revert")),
    ("BISECT_LOG", "a bisection", Hint("end it with `{}`", Command("bisect", "reset", program="git"))),
)


def discover_layout(project_dir: Path) -> tuple[Git, RepositoryLayout] | None:
    """Return the repository around `project_dir`, with a git that runs at its top level; None if there is none.

    Writes nothing. Raises `GitMissingError`, `StorageError` for a folder that cannot be entered, and `GitError` for a
    repository that git does not open.
    """
    project = _resolved(project_dir)
    git = Git(find_git(project_dir=project), project)
    result = git.read("rev-parse", *_FACTS, ok=range(256))
    if not result.out:
        _check_nowhere(project, result.code, result.err)
        return None
    # Outside a working tree, git answers all but the last question, the top level, and fails there.
    facts = _lines(result.out, 6 if result.code else 7, project)
    git_dir, common_dir, object_format, bare, inside, prefix, *top_level = facts
    # A folder that is itself laid out as a git directory can come with a clone, so its settings are not the user's.
    planted = project.is_relative_to(git_dir)
    if bare == "true" or inside != "true" or planted:
        layout = RepositoryLayout(
            project, Path(git_dir), "", Path(git_dir), Path(common_dir), object_format, is_bare=True
        )
        return Git(git.binary, layout.git_dir), layout
    if not top_level:
        raise failure("rev-parse", result.code, result.err, project)
    layout = RepositoryLayout(project, Path(top_level[0]), prefix, Path(git_dir), Path(common_dir), object_format)
    top = Git(git.binary, layout.top_level)
    if layout.is_host:
        _check_top_level(top, layout)
    return top, layout


def create_layout(project_dir: Path) -> tuple[Git, RepositoryLayout]:
    """Create a repository in `project_dir`, without a commit; an existing one is kept.

    Its branch is `main` unless `init.defaultBranch` is set.
    """
    project = _resolved(project_dir)
    git = Git(find_git(project_dir=project), project)
    branch = () if read_config(git).last("init.defaultbranch") else ("--initial-branch=main",)
    git.write("init", "--quiet", *branch)
    found = discover_layout(project)
    if found is None:
        raise GitError(
            f"git did not create a repository in {project}", hint=Command("-C", project, "init", program="git")
        )
    return found


def read_head(git: Git, layout: RepositoryLayout) -> Head:
    """Return where HEAD is. Raises `GitError` for a branch that exists but cannot be read."""
    ref = read_ref(git, layout)
    commit = commit_of(git, ref or "HEAD")
    if commit is None and (ref is None or os.path.lexists(layout.common_dir / ref)):
        message = f"{ref or 'HEAD'} of {layout.top_level} does not point to a commit"
        raise GitError(message, hint=Command("-C", layout.top_level, "fsck", program="git"))
    return Head(ref, commit)


_ON_BRANCH: Final = re.compile(rb"ref: (refs/heads/(?!\.)[^\s\0]+)\n")


def read_ref(git: Git, layout: RepositoryLayout) -> str | None:
    """Return the full name of the current branch, None on a detached HEAD.

    That is the content of the file, unless the branch is a symbolic ref itself, or the refs are not kept in files, in
    which case HEAD contains `refs/heads/.invalid`.
    """
    head = layout.git_dir / "HEAD"
    found = None if head.is_symlink() else _ON_BRANCH.fullmatch(read_bytes(head) or b"")
    if found is not None:
        ref = os.fsdecode(found[1])
        branch = layout.common_dir / ref
        if not branch.is_symlink() and not (branch.is_file() and (read_bytes(branch) or b"").startswith(b"ref:")):
            return ref
    return os.fsdecode(git.read("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).out.strip()) or None


def commit_of(git: Git, ref: str) -> str | None:
    """Return the commit that a ref points to, or None if there is none."""
    found = git.object(ref + "^{commit}")
    return None if found is None else found[0]


def is_ancestor(git: Git, older: str, newer: str) -> bool:
    """Return whether a commit is another one, or in its history; both must exist."""
    return git.read("merge-base", "--is-ancestor", older, newer, ok=(0, 1)).code == 0


def check_writable(layout: RepositoryLayout, ref: str | None, *, detached: bool = False) -> None:
    """Raise `GitError` with a hint if a commit must not be added now; `detached`: no branch has to be checked out."""
    if layout.is_bare:
        message = f"{layout.project_dir} is in a bare repository or a git directory, which has no working tree"
        raise GitError(message, hint="keep the project in a clone of it")
    for name, operation, hint in _OPERATIONS:
        if (layout.git_dir / name).exists():
            details = {"operation": operation}
            raise GitError(f"{operation} is in progress in {layout.top_level}", hint=hint, details=details)
    if ref is None and not detached:
        back, keep = Command("switch", "BRANCH", program="git"), Command("switch", "-c", "NEW-BRANCH", program="git")
        hint = Hint("{}, or {} to keep the current state", back, keep)
        raise GitError(f"{layout.top_level} is not on a branch (detached HEAD)", hint=hint)


def _resolved(project_dir: Path) -> Path:
    try:
        project = project_dir.resolve(strict=True)
    except OSError as error:
        raise storage_error(project_dir, error, "use") from error
    if not project.is_dir():
        raise StorageError(f"{project_dir} is not a folder", hint="use the project folder")
    return project


def _check_nowhere(project: Path, code: int, stderr: bytes) -> None:
    """Raise an error unless git reported that there is no repository at all."""
    nowhere = b"not a git repository (or any" in stderr
    if nowhere and not os.path.lexists(project / ".git"):
        return
    if nowhere:
        repair = Command("-C", project, "init", program="git")
        hint = Hint("{} repairs an incomplete repository; or move {} away", repair, project / ".git")
        message = f"{project / '.git'} exists, but git does not recognize it as a repository"
        raise GitError(message, hint=hint, details={"reason": condensed(stderr)})
    raise failure("rev-parse", code, stderr, project)


def _lines(output: bytes, count: int, project: Path) -> list[str]:
    lines = os.fsdecode(output).removesuffix("\n").split("\n")
    if len(lines) != count:
        message = f"the path of the repository around {project} contains a line break"
        raise GitError(message, hint="move it to a path without line breaks")
    return lines


def _check_top_level(git: Git, layout: RepositoryLayout) -> None:
    """Raise an error unless git finds the same repository from the top level (`core.worktree` can point elsewhere)."""
    result = git.read("rev-parse", "--path-format=absolute", "--git-dir", ok=range(256))
    if result.code or Path(os.fsdecode(result.out.removesuffix(b"\n"))) != layout.git_dir:
        message = f"the working tree {layout.top_level} does not belong to {layout.git_dir} when seen from its top"
        hint = f"unset core.worktree in {layout.git_dir / 'config'}, or use a separate repository for the project"
        raise GitError(message, hint=hint)


EDITED_MEANWHILE: Final = "edited meanwhile"
"""Reason for a file that was edited during the commit (`CommitResult.left`)."""

EDITED_AFTER_KILL: Final = "edited after a killed run"
"""Reason for a file that was edited before the rest of a killed run was finished (`Recovery.left`)."""

_HeldHint = Callable[[str, Sequence[str], Path], Hint]
"""Builds the hint about held paths: the first as a shell word, all of them, and the project folder."""


def _git(sentence: str, *words: str) -> _HeldHint:
    """Return a hint that names the first path and suggests a git command for it."""
    return lambda first, paths, folder: Hint(
        sentence, *([first] * (sentence.count("{}") - 1)), Command(*words, "--", Placeholder(first), program="git")
    )


def _edit(sentence: str) -> _HeldHint:
    """Return a hint that names the first path but no command."""
    return lambda first, paths, folder: Hint(sentence, first)


def _overlooked(flag: str) -> _HeldHint:
    return _git("git is set to ignore your changes to {}: {}, then commit or undo them", "update-index", flag)


_EDITED: Final = _git(
    "the commit has ktx's version of {}, but the file has yours: see {}, then commit or undo your changes", "diff"
)

_HINTS: Final[Mapping[str, _HeldHint]] = {
    HeldReason.MODIFIED: _git("commit your changes to {}, or discard them: {}", "restore"),
    HeldReason.DELETED: lambda first, paths, folder: Command("restore", "--", *paths, program="git"),
    HeldReason.UNREADABLE: lambda first, paths, folder: Hint(
        "give this user read access to {}: {}",
        first,
        Command("u+r", *(folder / path for path in paths), program="chmod"),
    ),
    HeldReason.STAGED: _git("commit what is staged for {}, or discard it: {}", *("restore", "--staged", "--worktree")),
    HeldReason.UNTRACKED: _git("add {} to git ({}) and commit it, or move it away", "add"),
    HeldReason.UNMERGED: _git("resolve the conflict in {}, then: {}", "add"),
    HeldReason.CONFLICT: _edit("somebody else committed a change to {} during the run: run the same command again"),
    HeldReason.ASSUME_UNCHANGED: _overlooked("--no-assume-unchanged"),
    HeldReason.SKIP_WORKTREE: _overlooked("--no-skip-worktree"),
    HeldReason.SYMLINK: _edit(
        "{}, or a folder above it, is a symbolic link, which ktx does not follow: replace it with a plain "
        "file or folder"
    ),
    HeldReason.NOT_A_DIRECTORY: _edit("a file blocks a folder above {}: move that file away"),
    HeldReason.IS_A_DIRECTORY: _edit("{} is a folder: move it away"),
    HeldReason.NOT_A_FILE: _edit("{} is a pipe, socket or device: move it away"),
    HeldReason.NESTED_REPOSITORY: _edit(
        "{} is in a submodule or another repository, where ktx does not write: move that folder away"
    ),
    EDITED_MEANWHILE: _EDITED,
    EDITED_AFTER_KILL: _EDITED,
}


def require_whole(result: CommitResult, project_dir: Path, message: str) -> None:
    """Raise `PartialError` if files with the user's edits prevented a commit; `message` names the commit."""
    if not result.held:
        return
    held = [(each.path, each.reason.value) for each in result.held]
    have = "has" if len(held) == 1 else "have"
    details = {"held": [{"path": path, "reason": reason} for path, reason in held]}
    text = f"{message}: {listing(path for path, _ in held)} {have} uncommitted changes"
    raise PartialError(text, hint=held_hint(held, project_dir), details=details)


MOST_PATHS: Final = 20
"""Maximum number of paths in one command."""


def held_hint(held: Iterable[tuple[str, str]], project_dir: Path) -> Hint:
    """Return what to do about the held paths (path and reason): the first of each reason represents the others."""
    by_hint: dict[_HeldHint, list[str]] = {}
    for path, reason in held:
        by_hint.setdefault(_HINTS[reason], []).append(path)
    hints = (hint(shell_words(paths[0]), paths[:MOST_PATHS], project_dir) for hint, paths in by_hint.items())
    return Hint.steps(*hints, between="; ")
