"""Reads the lists of names that stand beside the code as data."""

from __future__ import annotations

from importlib import resources


def read_words(name: str) -> list[str]:
    """Return the words of one of the package's text files; a line that begins with `#` is a remark."""
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    return [word for line in text.splitlines() if not line.startswith("#") for word in line.split()]
