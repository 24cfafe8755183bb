"""Looks through a folder, not deep and not long; hidden folders, packages of others and ktx's own are passed over."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from ktx_cli.context.sources.git_source import LEFT_OUT
from ktx_cli.core.clock import monotonic
from ktx_cli.project.layout import CONFIG_NAME, RAW_NAME, SEMANTIC_NAME, WIKI_NAME

MAX_DEPTH: Final = 3
"""How many folders below the first are looked into."""

MAX_ENTRIES: Final = 10_000
MAX_SECONDS: Final = 0.5
"""Where looking ends, in a home folder or on a slow disk: what was not seen is not offered."""

DBT_FILES: Final = ("dbt_project.yml", "dbt_project.yaml")
"""What makes a folder a dbt project."""

_OWN: Final = frozenset({RAW_NAME, SEMANTIC_NAME, WIKI_NAME})
_OF_DBT: Final = frozenset({"target", "seeds"})
_ENVIRONMENT: Final = "pyvenv.cfg"


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that was looked into. `path`: from where the looking began, which is `.`. `files`: their names."""

    path: PurePosixPath
    files: tuple[str, ...]


def folders_in(root: Path) -> Iterator[Folder]:
    """Yield a folder and those below it, the nearest first; none where it cannot be listed."""
    ends, left = monotonic() + MAX_SECONDS, MAX_ENTRIES
    waiting = deque([PurePosixPath(".")])
    while waiting and left > 0 and monotonic() < ends:
        path = waiting.popleft()
        files, inner = _listed(root / path)
        left -= len(files) + len(inner)
        if _ENVIRONMENT in files:
            continue
        yield Folder(path, tuple(files))
        if len(path.parts) < MAX_DEPTH:
            passed = _passed_over(path, files)
            waiting += [path / name for name in inner if name not in passed]


def topmost(paths: list[PurePosixPath]) -> list[PurePosixPath]:
    """Return the paths that lie in none of the others, in their order."""
    return [path for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]


def _passed_over(path: PurePosixPath, files: list[str]) -> frozenset[str]:
    """Return the names of folders that hold nothing of the user's: what tools leave behind, and what ktx writes."""
    passed = LEFT_OUT
    if path == PurePosixPath(".") or CONFIG_NAME in files:
        passed |= _OWN
    if any(name in files for name in DBT_FILES):
        passed |= _OF_DBT
    return passed


def _listed(folder: Path) -> tuple[list[str], list[str]]:
    """Return the names of the files and of the folders in a folder, sorted; links to folders are not followed."""
    files: list[str] = []
    folders: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith(".") or not entry.name.isprintable():
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file():
                    files.append(entry.name)
    except OSError:
        return [], []
    return sorted(files), sorted(folders)
