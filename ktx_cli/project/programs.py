"""Finds programs on the PATH, but never one that came with the project: its author could have any program run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ktx_cli.project.tree import boundary


def came_along(program: Path, project_dir: Path) -> bool:
    """Whether a program, or the link that names it, lies in the project or in the repository around it."""
    within = boundary(project_dir)
    link = Path(os.path.realpath(program.parent)) / program.name
    return link.is_relative_to(within) or Path(os.path.realpath(program)).is_relative_to(within)


def find_program(
    name: str, *, project_dir: Path | None = None, search_path: str | None = None
) -> tuple[Path | None, Path | None]:
    """Return the program on `search_path` (default: `PATH`), and the first that was passed over.

    What lies in the project (default: the one around the current folder) is passed over: an entry `.`, an empty one
    and a folder of the project itself, which `direnv` may add, all lead there.
    """
    project = Path.cwd() if project_dir is None else project_dir
    passed = None
    given = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    for entry in given.split(os.pathsep):
        found = shutil.which(name, path=str(Path.cwd() / entry))
        if found is None:
            continue
        if not came_along(Path(found), project):
            return Path(found), passed
        passed = passed or Path(found)
    return None, passed
