"""The files that are the same in every demo company: table definitions, dbt project and handbook."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from ktx_cli.project.files import write_atomic

_ROOT = "company_files"


def packaged_text(name: str) -> str:
    """Return the text of a packaged file; `name` with `/` between folders."""
    return _at(name).read_text(encoding="utf-8")


def packaged_names(folder: str) -> list[str]:
    """Return the names of all files under a packaged folder, relative to it, sorted."""
    return sorted(_walk(_at(folder), ""))


def copy_packaged(folder: str, target: Path) -> list[Path]:
    """Write a packaged folder to `target`, but nothing over a file that is there; return the files written.

    Raises `StorageError` naming the file that could not be written.
    """
    written = []
    for name in packaged_names(folder):
        path = target / name
        if not os.path.lexists(path):
            write_atomic(path, packaged_text(f"{folder}/{name}").encode())
            written.append(path)
    return written


def _at(name: str) -> Traversable:
    return files("ktx_cli.jobs.demo").joinpath(_ROOT, *name.split("/"))


def _walk(folder: Traversable, prefix: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
