"""Finding the repository a project is in, making one, and saying whether a run may commit to it now."""

from __future__ import annotations

import os
from pathlib import Path

from ktx_cli.core import Command, GitError, Hint, StorageError
from ktx_cli.project.files import storage_error
from ktx_cli.project.git import Git, condensed, failure, find_git
from ktx_cli.project.repository.model import Head, RepositoryLayout, read_config

_FACTS = (
    "--path-format=absolute",
    "--git-dir",
    "--git-common-dir",
    "--show-object-format",
    "--is-bare-repository",
    "--is-inside-work-tree",
)


def _finish(operation: str) -> Hint:
    go_on, give_up = (Command(operation, flag, program="git") for flag in ("--continue", "--abort"))
    return Hint("finish it with `{}`, or give it up with `{}`", go_on, give_up)


_OPERATIONS = (
    ("MERGE_HEAD", "a merge", _finish("merge")),
    ("rebase-merge", "a rebase", _finish("rebase")),
    ("rebase-apply", "a rebase", _finish("rebase")),
    ("CHERRY_PICK_HEAD", "a cherry-pick", _finish("cherry-pick")),
    ("REVERT_HEAD", "a revert", _finish("revert")),
    ("BISECT_LOG", "a bisection", Hint("end it with `{}`", Command("bisect", "reset", program="git"))),
)


def discover_layout(project_dir: Path) -> tuple[Git, RepositoryLayout] | None:
    """Return the repository around `project_dir`, with a git that runs at its top level; None when there is none.

    Writes nothing. Raises `GitMissingError`, `StorageError` for a folder that cannot be entered, and `GitError`
    when there is a repository that git does not open.
    """
    project = _resolved(project_dir)
    git = Git(find_git(project_dir=project), project)
    result = git.read("rev-parse", *_FACTS, ok=range(256))
    if result.code:
        _check_nowhere(project, result.code, result.err)
        return None
    git_dir, common_dir, object_format, bare, inside = _lines(result.out, 5, project)
    # A folder that is itself laid out as a git directory can come with a clone: its settings are not the user's.
    planted = project.is_relative_to(git_dir)
    if bare == "true" or inside != "true" or planted:
        layout = RepositoryLayout(
            project, Path(git_dir), "", Path(git_dir), Path(common_dir), object_format, is_bare=True
        )
        return Git(git.binary, layout.git_dir), layout
    where = git.read("rev-parse", "--path-format=absolute", "--show-toplevel", "--show-prefix")
    top_level, prefix = _lines(where.out, 2, project)
    layout = RepositoryLayout(
        project_dir=project,
        top_level=Path(top_level),
        prefix=prefix,
        git_dir=Path(git_dir),
        common_dir=Path(common_dir),
        object_format=object_format,
    )
    top = Git(git.binary, layout.top_level)
    if layout.is_host:
        _check_top_level(top, layout)
    return top, layout


def create_layout(project_dir: Path) -> tuple[Git, RepositoryLayout]:
    """Make a repository in `project_dir`, without a commit; one that is there stays as it is.

    Its branch is `main` unless `init.defaultBranch` says otherwise.
    """
    project = _resolved(project_dir)
    git = Git(find_git(project_dir=project), project)
    branch = () if read_config(git).last("init.defaultbranch") else ("--initial-branch=main",)
    git.write("init", "--quiet", *branch)
    found = discover_layout(project)
    if found is None:
        raise GitError(f"git made no repository in {project}", hint=Command("-C", project, "init", program="git"))
    return found


def read_head(git: Git, layout: RepositoryLayout) -> Head:
    """Return where HEAD is. Raises `GitError` for a branch that is there and cannot be read."""
    ref = read_ref(git)
    commit = commit_of(git, ref or "HEAD")
    if commit is None and (ref is None or os.path.lexists(layout.common_dir / ref)):
        raise GitError(
            f"{ref or 'HEAD'} of {layout.top_level} does not name a commit",
            hint=Command("-C", layout.top_level, "fsck", program="git"),
        )
    return Head(ref, commit)


def read_ref(git: Git) -> str | None:
    """Return the full name of the current branch, None on a detached HEAD."""
    return os.fsdecode(git.read("symbolic-ref", "--quiet", "HEAD", ok=(0, 1)).out.strip()) or None


def commit_of(git: Git, ref: str) -> str | None:
    """Return the commit a ref names, or None when it names none."""
    result = git.read("rev-parse", "--quiet", "--verify", ref + "^{commit}", ok=(0, 1))
    return result.out.decode("ascii").strip() or None


def check_writable(layout: RepositoryLayout, ref: str | None) -> None:
    """Raise `GitError` with a hint when a commit must not be added now."""
    if layout.is_bare:
        raise GitError(
            f"{layout.project_dir} is in a bare repository or a git directory, which has no working tree",
            hint="keep the project in a clone of it",
        )
    for name, operation, hint in _OPERATIONS:
        if (layout.git_dir / name).exists():
            raise GitError(
                f"{operation} is in progress in {layout.top_level}", hint=hint, details={"operation": operation}
            )
    if ref is None:
        raise GitError(
            f"{layout.top_level} is on no branch (detached HEAD)",
            hint=Hint(
                "{}, or {} to keep what is here",
                Command("switch", "BRANCH", program="git"),
                Command("switch", "-c", "NEW-BRANCH", program="git"),
            ),
        )


def _resolved(project_dir: Path) -> Path:
    try:
        project = project_dir.resolve(strict=True)
    except OSError as error:
        raise storage_error(project_dir, error, "use") from error
    if not project.is_dir():
        raise StorageError(f"{project_dir} is not a folder", hint="name the project's folder")
    return project


def _check_nowhere(project: Path, code: int, stderr: bytes) -> None:
    """Raise unless git said that there is no repository at all."""
    nowhere = b"not a git repository (or any" in stderr
    if nowhere and not os.path.lexists(project / ".git"):
        return
    if nowhere:
        raise GitError(
            f"{project / '.git'} is there, but git takes it for no repository",
            hint=Hint(
                "{} repairs one that is incomplete; or move {} away",
                Command("-C", project, "init", program="git"),
                project / ".git",
            ),
            details={"reason": condensed(stderr)},
        )
    raise failure("rev-parse", code, stderr, project)


def _lines(output: bytes, count: int, project: Path) -> list[str]:
    lines = os.fsdecode(output).removesuffix("\n").split("\n")
    if len(lines) != count:
        raise GitError(
            f"the path of the repository around {project} holds a line break", hint="move it to a plain path"
        )
    return lines


def _check_top_level(git: Git, layout: RepositoryLayout) -> None:
    """Raise unless git finds the same repository from the top level (`core.worktree` can point elsewhere)."""
    result = git.read("rev-parse", "--path-format=absolute", "--git-dir", ok=range(256))
    if result.code or Path(os.fsdecode(result.out.removesuffix(b"\n"))) != layout.git_dir:
        raise GitError(
            f"the working tree {layout.top_level} does not belong to {layout.git_dir} when seen from its top",
            hint=f"unset core.worktree in {layout.git_dir / 'config'}, or give the project a repository of its own",
        )
