"""Renders a pack as text: lines in sections with references to their files, within a token budget."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.core import plural

CHARACTERS: Final = 3.6
"""Characters per token in names and SQL, estimated low so that a pack never exceeds its budget."""

DRAFT, SOURCES, TRAPS, DECISIONS, RULES, VALUES, QUESTIONS, MORE = (
    "Draft", "Sources", "Traps", "Open decisions", "Rules", "Values", "Verified questions", "More sources",
)  # fmt: skip
SECTIONS: Final = (DRAFT, SOURCES, TRAPS, DECISIONS, RULES, VALUES, QUESTIONS, MORE)
"""The sections in order."""

_FILES: Final = "Files"


def tokens_of(text: str) -> int:
    """Estimate the tokens in a text, slightly above the count of the models' tokenizers."""
    return math.ceil(len(text) / CHARACTERS)


@dataclass(frozen=True, slots=True)
class PackLine:
    """One line of a pack. Lines with a lower `rank` are included first in a small pack.

    `path` is the file that the line comes from, or empty if it comes from the question. Lines of the same `group` stay
    together in their order.
    """

    section: str
    text: str
    path: str
    rank: int
    group: str = ""


@dataclass(slots=True)
class PackText:
    """The lines within a budget, and the number of omitted lines."""

    budget: int
    kept: list[PackLine] = field(default_factory=list)
    left_out: int = 0
    _files: dict[str, int] = field(default_factory=dict)
    _spent: int = 0

    @classmethod
    def of(cls, lines: Sequence[PackLine], budget: int) -> PackText:
        """Return the lines with the lowest ranks that fit the token budget, each cut to a maximum length.

        Text from files cannot start a section or fake a file reference.
        """
        lines = [replace(each, text=_flat(each.text), path=_flat(each.path)) for each in lines]
        text = cls(budget, _spent=_RESERVE)
        order = sorted(range(len(lines)), key=lambda place: (lines[place].rank, place))
        chosen = [place for place in order if text._add(lines[place])]
        text.kept = [lines[place] for place in sorted(chosen)]
        return text

    def _add(self, line: PackLine) -> bool:
        cost = tokens_of(line.text) + _LINE
        if line.path and line.path not in self._files:
            cost += tokens_of(line.path) + _LINE
        if self._spent + cost > self.budget:
            self.left_out += 1
            return False
        self._spent += cost
        if line.path:
            self._files.setdefault(line.path, 0)
        return True

    def render(self) -> str:
        """Return the text. Lines refer to their files by number, and the files are listed at the end."""
        numbers = {path: number for number, path in enumerate(dict.fromkeys(self._paths()), 1)}
        parts = []
        for section in SECTIONS:
            lines = [each for each in self.kept if each.section == section]
            if lines:
                parts.append("\n".join([f"## {section}", *_numbered(lines, numbers)]))
        if self.left_out:
            parts.append(f"({plural(self.left_out, 'line')} omitted; use a larger budget or a narrower question)")
        if numbers:
            parts.append("\n".join([f"## {_FILES}", *(f"[{number}] {path}" for path, number in numbers.items())]))
        return "\n\n".join(parts) + "\n"

    def _paths(self) -> Iterable[str]:
        return (each.path for section in SECTIONS for each in self.kept if each.section == section and each.path)


_LONGEST: Final = 1_600
"""Maximum number of characters in a line."""
_BREAKS: Final = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_MARK: Final = re.compile(r"\[(\d+)\]")


def _flat(text: str) -> str:
    from ktx_cli.agent_tools import visible

    flat = _MARK.sub(r"(\1)", _BREAKS.sub(" ", visible(text)))
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 1]}…"


_RESERVE: Final = 60
"""Tokens for headings and the line about omitted lines."""
_LINE: Final = 3
"""Tokens for the line break and the file number of a line."""


def _numbered(lines: Sequence[PackLine], numbers: dict[str, int]) -> Iterable[str]:
    """Yield lines by group with their file numbers. Groups are in the order of their first lines."""
    groups: dict[str, list[PackLine]] = {}
    for number, each in enumerate(lines):
        groups.setdefault(each.group or f"\0{number}", []).append(each)
    for group in groups.values():
        for each in group:
            yield f"{each.text} [{numbers[each.path]}]" if each.path else each.text
