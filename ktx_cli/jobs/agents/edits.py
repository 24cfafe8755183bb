"""What the editors of configuration files share: insertions that can be taken back, and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ktx_cli.core.errors import ConfigError

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Insertion:
    """Characters that were put in: where they stand in the text that has them."""

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A text with an entry put in. `there`: how many of the keys on the way to the entry were there before."""

    text: str
    insertions: tuple[Insertion, ...]
    there: int


class Editor(Protocol):
    """What the module of a format does; every function raises `ConfigError` for a text it cannot read or edit."""

    def entries(self, text: str, container: Path, where: str) -> dict[str, Any]:
        """Return the entries below a key."""

    def add(self, text: str, container: Path, name: str, entry: dict[str, Any], where: str) -> Edited:
        """Return the text with a new entry."""

    def remove(self, text: str, container: Path, name: str, there: int, where: str) -> str:
        """Return the text without an entry, and without those of the keys around it that are empty and not people's."""

    def is_blank(self, text: str) -> bool:
        """Say whether a text holds nothing."""


def inserted(text: str, places: Sequence[tuple[int, str]]) -> tuple[str, tuple[Insertion, ...]]:
    """Return the text with each piece put in before a character of the old text, and where the pieces stand now."""
    pieces: list[str] = []
    insertions: list[Insertion] = []
    done = shift = 0
    for at, piece in sorted(places, key=lambda place: place[0]):
        pieces += (text[done:at], piece)
        insertions.append(Insertion(at + shift, piece))
        done, shift = at, shift + len(piece)
    return "".join([*pieces, text[done:]]), tuple(insertions)


def taken_back(text: str, insertions: Sequence[Insertion]) -> str | None:
    """Return the text as it was before the insertions, None where they do not stand where they were put."""
    for each in reversed(insertions):
        end = each.at + len(each.text)
        if text[each.at : end] != each.text:
            return None
        text = text[: each.at] + text[end:]
    return text


def refusal(where: str, key: Sequence[str], problem: str, **details: Any) -> ConfigError:
    """Return the error for a file that cannot be edited in place."""
    dotted = ".".join(key)
    return ConfigError(
        f"{where}: {dotted} cannot be edited in place: {problem}",
        hint=f"edit {dotted} in {where} by hand",
        details={"path": where, "key": dotted, **details},
    )


def newline_of(text: str) -> str:
    """Return how the lines of a text end."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
