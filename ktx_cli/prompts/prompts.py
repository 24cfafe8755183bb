"""The packaged prompts, and the project's own prompts that replace them: `prompts/<name>.md` next to `ktx.yaml`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from ktx_cli.core import Command, ConfigError, Hint, yaml
from ktx_cli.project import read_bytes

PACKAGED: Final[Mapping[str, int]] = {"describe_tables": 1, "propose_joins": 2}
"""Name -> version. Increased if a text changes so much that answers to the old text should be requested again."""

LONGEST: Final = 40_000
"""Maximum number of characters of a project's own prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text. `version` goes into content hashes: the packaged number, or the sha256 of a project's text."""

    name: str
    text: str
    version: str


def load_prompt(name: str, folder: Path | None = None) -> Prompt:
    """Return the project's prompt with a name if `folder` has one, or else the packaged prompt.

    Raises `ConfigError` for a file that is not usable, `StorageError` for a file that cannot be read.
    """
    own = None if folder is None else own_text(folder / f"{name}.md")
    if own is not None:
        return Prompt(name, own, hashlib.sha256(own.encode()).hexdigest())
    text = files("ktx_cli").joinpath("prompts", f"{name}.md").read_text("utf-8")
    return Prompt(name, text, str(PACKAGED[name]))


def own_text(path: Path) -> str | None:
    """Return the text of a project's own prompt or skill, or None if there is none; raises like `load_prompt`."""
    if path.is_symlink() or path.parent.is_symlink():
        raise _unusable(path, "is a link, which could lead to a file that must not go to the model")
    content = read_bytes(path)
    if content is None:
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _unusable(path, "is not UTF-8 text") from None
    if not text.strip():
        raise _unusable(path, "is empty")
    if len(text) > LONGEST:
        raise _unusable(path, f"has more than {LONGEST:,} characters")
    return text


def _unusable(path: Path, problem: str) -> ConfigError:
    hint = Hint("edit it, or use the packaged prompt: {}", Command(path, program="rm"))
    return ConfigError(f"the prompt {path} {problem}", hint=hint, details={"path": str(path)})


Folder = Literal["prompts", "skills"]


def text_of(folder: Folder, name: str, root: Path | None = None) -> tuple[str, str]:
    """Return (text, origin): the project's own text with a name if `root` has one, or else the packaged text.

    Raises `ConfigError` for a project's file that is not usable, `StorageError` for a file that cannot be read.
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


STAGES: Final = ("unit", "reconcile", "curate", "memory")

_FRONT: Final = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill: agents of its `stages` may load it, and the one-line `description` says when to do so."""

    name: str
    description: str
    stages: tuple[str, ...]
    text: str


def load_skills(root: Path | None = None) -> dict[str, Skill]:
    """Return all packaged skills by name, from the project at `root` if it has its own; raises like `text_of`."""
    return {name: read_skill(name, *text_of("skills", name, root)) for name in packaged("skills")}


def for_stage(skills: Iterable[Skill], stage: str) -> list[Skill]:
    """Return the skills that an agent of a stage may load, by name."""
    return sorted((each for each in skills if stage in each.stages), key=lambda each: each.name)


def read_skill(name: str, text: str, where: str) -> Skill:
    """Return the skill in a text; raises `ConfigError` if its front matter is not usable."""
    found = _FRONT.match(text)
    fields = yaml.load(found[1], where=where) if found else None
    if not isinstance(fields, dict) or fields.get("name") != name:
        raise _skills_unusable(where, f"has no front matter with `name: {name}`")
    description, stages = fields.get("description"), fields.get("stages")
    if not isinstance(description, str) or not description.strip():
        raise _skills_unusable(where, "has no `description`")
    if not isinstance(stages, list) or not stages or not set(stages) <= set(STAGES):
        raise _skills_unusable(where, f"has no `stages`, a list of {', '.join(STAGES)}")
    body = text[found.end() :].strip() if found else ""
    return Skill(name, " ".join(description.split()), tuple(stages), f"{body}\n")


def _skills_unusable(where: str, problem: str) -> ConfigError:
    return ConfigError(f"the skill {where} {problem}", hint=f"edit {where}: begin it as the packaged skill begins")
