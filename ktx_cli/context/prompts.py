"""The packaged prompts, and a project's own in their place: `prompts/<name>.md` beside `ktx.yaml`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import shell_words
from ktx_cli.project.files import read_bytes

PACKAGED: Final[Mapping[str, int]] = {"describe_tables": 1, "propose_joins": 1}
"""Name -> version. Raised when a text changes so much that answers to the old one should be asked for anew."""

LONGEST: Final = 40_000
"""Characters a project's own prompt may have."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text. `version` goes into content hashes: the packaged number, or the sha256 of a project's text."""

    name: str
    text: str
    version: str


def load_prompt(name: str, folder: Path | None = None) -> Prompt:
    """Return the project's prompt of a name where `folder` has one, else the packaged one.

    Raises `ConfigError` for a file that cannot serve, `StorageError` for one that cannot be read.
    """
    own = None if folder is None else own_text(folder / f"{name}.md")
    if own is not None:
        return Prompt(name, own, hashlib.sha256(own.encode()).hexdigest())
    text = files("ktx_cli").joinpath("prompts", f"{name}.md").read_text("utf-8")
    return Prompt(name, text, str(PACKAGED[name]))


def own_text(path: Path) -> str | None:
    """Return the text of a project's own prompt or skill, None where there is none; raises as `load_prompt`."""
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
    hint = f"edit it, or use the packaged prompt: {shell_words('rm', path)}"
    return ConfigError(f"the prompt {path} {problem}", hint=hint, details={"path": str(path)})
