"""Packaged Markdown by folder and name, and a project's own in its place: in `prompts/`, `skills/` by `ktx.yaml`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Literal

from ktx_cli.context.prompts import own_text

Folder = Literal["prompts", "skills"]


def text_of(folder: Folder, name: str, root: Path | None = None) -> tuple[str, str]:
    """Return (text, where it stands): the project's of that name where `root` has one, else the packaged one.

    Raises `ConfigError` for a project's file that cannot serve, `StorageError` for one that cannot be read.
    """
    place = f"{folder}/{name}.md"
    own = None if root is None else own_text(root / place)
    if own is not None:
        return own.replace("\r\n", "\n"), place
    return files("ktx_cli").joinpath(folder, f"{name}.md").read_text("utf-8"), f"the packaged {place}"


def packaged(folder: Folder) -> list[str]:
    """Return the names of the packaged files of a folder, sorted."""
    names = (each.name for each in files("ktx_cli").joinpath(folder).iterdir())
    return sorted(name.removesuffix(".md") for name in names if name.endswith(".md"))
