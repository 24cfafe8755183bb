"""Hints as a shell would take them."""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import Final

PROGRAMS: Final = frozenset(
    {
        *("chmod", "claude", "df", "export", "gcloud", "git", "hf", "keyring", "ktx", "mkdir", "mv", "pip", "printf"),
        *("rm", "unset", "uv"),
    }
)


def is_command(text: str) -> bool:
    """Whether a shell could run a text: it begins with a program, and no word of it ends as one of a sentence does."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    if not words or not (words[0] in PROGRAMS or PurePath(words[0]).is_absolute()):
        return False
    return not any(word.endswith((",", ";", ":")) for word in words)
