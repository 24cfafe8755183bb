"""Findings as workflow commands of GitHub Actions, which shows them beside the lines they name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ktx_cli.core.errors import KtxError

LEVELS: Final = ("error", "warning", "notice")
"""What GitHub knows. It shows only the first ten of each level from one step."""


def annotation(level: str, title: str, message: str, file: str | None = None, line: int | None = None) -> str:
    """Return the line to print, without its end. `file` counts from the top of the repository, `line` from 1.

    `level` is one of `LEVELS`, or `info`, `warn` and `fail`, which findings and checks of ktx have.
    """
    known = {"info": "notice", "warn": "warning", "fail": "error"}.get(level, level)
    if known not in LEVELS:
        raise ValueError(f"GitHub has no level `{level}`")
    properties = {"file": file, "line": line if file else None, "title": title}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value not in (None, ""))
    return f"::{known} {given}::{_data(message)}" if given else f"::{known}::{_data(message)}"


def repository_prefix(project: Path) -> str:
    """Return the way from the top of the repository to the project, with `/` at its end; empty where there is none."""
    from ktx_cli.project.repository.discovery import discover_layout

    try:
        found = discover_layout(project)
    except KtxError:  # the annotations name the files from the project then
        return ""
    return "" if found is None else found[1].prefix


def _data(text: str) -> str:
    """Return a message that stays one command: GitHub decodes exactly these three. What does not show is blanked."""
    encoded = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(character if character.isprintable() else " " for character in encoded)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
