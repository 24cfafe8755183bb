"""Skills: packaged Markdown a model loads when it needs it; a project's own in their place, `skills/<name>.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.context.tools.texts import packaged, text_of
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError

STAGES: Final = ("unit", "reconcile", "curate", "memory")

_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: `stages` are those whose agents may load it, `description` one line that says when to."""

    name: str
    description: str
    stages: tuple[str, ...]
    text: str


def load_skills(root: Path | None = None) -> dict[str, Skill]:
    """Return all packaged skills by name, each as the project at `root` has it; raises as `text_of`."""
    return {name: read_skill(name, *text_of("skills", name, root)) for name in packaged("skills")}


def for_stage(skills: Iterable[Skill], stage: str) -> list[Skill]:
    """Return the skills an agent of a stage may load, by name."""
    return sorted((each for each in skills if stage in each.stages), key=lambda each: each.name)


def read_skill(name: str, text: str, where: str) -> Skill:
    """Return the skill a text is; `ConfigError` where its front matter cannot serve."""
    found = _FRONT.match(text)
    fields = yaml.load(found[1], where=where) if found else None
    if not isinstance(fields, dict) or fields.get("name") != name:
        raise _unusable(where, f"has no front matter with `name: {name}`")
    description, stages = fields.get("description"), fields.get("stages")
    if not isinstance(description, str) or not description.strip():
        raise _unusable(where, "has no `description`")
    if not isinstance(stages, list) or not stages or not set(stages) <= set(STAGES):
        raise _unusable(where, f"has no `stages`, a list of {', '.join(STAGES)}")
    body = text[found.end() :].strip() if found else ""
    return Skill(name, " ".join(description.split()), tuple(stages), f"{body}\n")


def _unusable(where: str, problem: str) -> ConfigError:
    return ConfigError(f"the skill {where} {problem}", hint=f"edit {where}: begin it as the packaged skill begins")
