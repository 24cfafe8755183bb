"""The demo's handbook: Markdown pages on what the company's words and numbers mean."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.jobs.demo.files import copy_packaged

FOLDER = "handbook"


def write_handbook(folder: Path) -> list[Path]:
    """Write the pages into `folder` and return the files written.

    Raises `StorageError`.
    """
    return copy_packaged(FOLDER, folder)
