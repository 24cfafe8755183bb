"""The packaged skills, as each kind of client wants them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from ktx_cli.jobs.agents.targets import Place, Where

PREFIX: Final = "ktx-"
"""How the names of all skills begin, those of other versions too."""

NAMES: Final = (f"{PREFIX}analytics", f"{PREFIX}admin")


def skill_files(place: Place, where: Where) -> Mapping[Path, bytes]:
    """Return the files of a client's skills with their contents, {} for one that takes none from files."""
    folder = where.skills(place)
    if folder is None:
        return {}
    return {_path(folder, name, place.rules): _content(name, place.rules) for name in NAMES}


def _path(folder: Path, name: str, rules: bool) -> Path:
    return folder / f"{name}.mdc" if rules else folder / name / "SKILL.md"


def _content(name: str, rules: bool) -> bytes:
    text = files("ktx_cli").joinpath("agent_skills", f"{name}.md").read_text("utf-8")
    if rules:  # Cursor's front matter has no name, and says whether the rule is always in force
        text = text.replace(f"name: {name}\n", "", 1).replace("\n---\n", "\nalwaysApply: false\n---\n", 1)
    return text.encode()
