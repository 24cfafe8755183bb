"""Finds programs on the PATH, but never one that came with the project: its author could have any program run."""

from __future__ import annotations

import collections
import os
import shutil
from pathlib import Path
from typing import Final

from ktx_cli.project.layout import boundary

_PROJECTS: Final[collections.deque[Path]] = collections.deque(maxlen=64)
"""The projects this process looked for a program from last; what lies in any of them is passed over for all."""


def came_along(program: Path, project_dir: Path) -> bool:
    """Whether a program, or the link that names it, lies in the project or in the repository around it."""
    within = boundary(project_dir)
    link = Path(os.path.realpath(program.parent)) / program.name
    return link.is_relative_to(within) or Path(os.path.realpath(program)).is_relative_to(within)


def find_program(
    name: str, *, project_dir: Path | None = None, search_path: str | None = None
) -> tuple[Path | None, Path | None]:
    """Return the program on `search_path` (default: `PATH`), and the first that was passed over.

    What lies in the project (default: those asked for before, else the one around the current folder) is passed over:
    an entry `.`, an empty one and a folder of the project itself, which `direnv` may add, all lead there.
    """
    if project_dir is not None and project_dir not in _PROJECTS:
        _PROJECTS.append(project_dir)
    projects = list(_PROJECTS) or [Path.cwd()]
    passed = None
    given = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    for entry in given.split(os.pathsep):
        found = shutil.which(name, path=str(Path.cwd() / entry))
        if found is None:
            continue
        if not any(came_along(Path(found), project) for project in projects):
            return Path(found), passed
        passed = passed or Path(found)
    return None, passed
