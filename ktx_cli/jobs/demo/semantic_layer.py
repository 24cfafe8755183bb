"""What the demo's analysts wrote down about their tables: overlays on the sources a scan generates."""

from __future__ import annotations

from pathlib import Path

from ktx_cli.jobs.demo.files import copy_packaged

FOLDER = "semantic-layer"


def write_overlays(folder: Path) -> list[Path]:
    """Write the overlays into `folder` and return the files written.

    Raises `StorageError`.
    """
    return copy_packaged(FOLDER, folder)
