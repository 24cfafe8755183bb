"""Edits of a page's text by old and new passages, as a model writes them: all of them, or none."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.context.wiki.nearness import NEAR, nearest
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import one_line, plural

_LITERAL: Final = re.compile(r"\\r\\n|\\n")
_SHORT_CODE: Final = re.compile(r"(?<!`)(`{1,2})(?!`)(?:(?!\1).)+\1(?!`)")


@dataclass(frozen=True, slots=True)
class Replacement:
    """A passage and what comes in its place; `old` must stand in the text once."""

    old: str
    new: str


def replaced(text: str, replacements: Sequence[Replacement]) -> str:
    """Return the text with every replacement made, each in the text the one before left.

    A passage is looked for as it is, then with any white space between its words, then by likeness (`NEAR` or more).
    Raises `UsageError` with everything that could not be placed: nothing, or several passages fit.
    """
    problems: list[str] = []
    for number, each in enumerate(replacements, start=1):
        found = _span(text, each.old)
        if isinstance(found, str):
            problems.append(f"replacement {number} (`{one_line(each.old, 60)}`) {found}")
        else:
            text = text[: found[0]] + each.new + text[found[1] :]
    if problems:
        raise UsageError(
            f"nothing was changed: {'; '.join(problems)}",
            hint="read the page again and quote each passage as it stands there, with enough of it to be the only one",
            details={"problems": problems},
        )
    return text


def with_newlines(body: str) -> str:
    """Return a body whose line ends arrived as the two characters `\\n` with line ends; any other as it is.

    A body of one line that names `\\n` only inside of code means it so.
    """
    if "\\n" not in body or "\n" in body.strip():
        return body
    code = [found.span() for found in _SHORT_CODE.finditer(body)]
    found = [each for each in _LITERAL.finditer(body) if not any(a < each.start() < b for a, b in code)]
    pieces, position = [], 0
    for each in found:
        pieces.append(body[position : each.start()])
        position = each.end()
    return "\n".join([*pieces, body[position:]])


def _span(text: str, old: str) -> tuple[int, int] | str:
    """Return where the one passage stands that `old` means, else why there is none."""
    if not old.strip():
        return "has no old text"
    for spans in (_exact(text, old), _spaced(text, old)):
        if len(spans) > 1:
            return f"fits {plural(len(spans), 'passage')}"
        if spans:
            return spans[0]
    alike = nearest(text, old)
    if len(alike) > 1:
        return f"is like {plural(len(alike), 'passage')}"
    return alike[0] if alike else f"fits nothing, and nothing is like it by {NEAR:.0%}"


def _exact(text: str, old: str) -> list[tuple[int, int]]:
    return _overlapping(re.compile(re.escape(old)), text)


def _spaced(text: str, old: str) -> list[tuple[int, int]]:
    return _overlapping(re.compile(r"\s+".join(map(re.escape, old.split()))), text)


def _overlapping(pattern: re.Pattern[str], text: str) -> list[tuple[int, int]]:
    """Return where a pattern fits, also where it fits again before it ends."""
    spans: list[tuple[int, int]] = []
    found = pattern.search(text)
    while found is not None:
        spans.append(found.span())
        found = pattern.search(text, found.start() + 1)
    return spans
