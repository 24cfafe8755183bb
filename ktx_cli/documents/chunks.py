"""Cuts documents into passages that can be cited: at headings, long ones at paragraphs.

The key of a passage comes from the headings it stands below, which of several sections of these headings it is in, and
which part of the section it is: an edit in another section leaves it as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ktx_cli.core import one_line
from ktx_cli.documents.markdown import is_heading, outside_fences
from ktx_cli.documents.raw import Document

LONGEST: Final = 4_800
"""Characters of a passage."""

_SLUG: Final = 40
_PLAIN: Final = re.compile(r"[^\w]+")
_ENDINGS: Final = ("\n", " ")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document. `key` is how it is cited, `heading` the headings it stands below, `order` counts from 0."""

    key: str
    path: str
    heading: str
    text: str
    order: int


@dataclass(frozen=True, slots=True)
class _Section:
    headings: tuple[str, ...]
    text: str


def passages(document: Document, source: str) -> tuple[Passage, ...]:
    """Return the passages of a document of a source, in order; together they are all of its text but blank lines."""
    found: list[Passage] = []
    seen: Counter[tuple[str, ...]] = Counter()
    for section in _sections(document.markdown):
        for part, text in enumerate(_parts(section.text)):
            key = citation_key(source, document.path, section.headings, seen[section.headings], part)
            found.append(Passage(key, document.path, " > ".join(section.headings), text, len(found)))
        seen[section.headings] += 1
    return tuple(found)


def citation_key(source: str, path: str, headings: tuple[str, ...], occurrence: int, part: int) -> str:
    """Return `<source>:<path>:<slug>:<16 hex>`; `occurrence` and `part` count from 0."""
    digest = hashlib.sha256(json.dumps([list(headings), occurrence, part]).encode()).hexdigest()[:16]
    return f"{source}:{path}:{slug(headings[-1] if headings else '') or 'text'}:{digest}"


def slug(text: str, limit: int = _SLUG) -> str:
    """Return the letters and digits of a text in lower case, `-` for what is between them."""
    return _PLAIN.sub("-", text.casefold()).strip("-_")[:limit].rstrip("-_")


def _sections(markdown: str) -> Iterator[_Section]:
    """Yield the sections; one with nothing but its heading goes into the next."""
    begun = 0
    headings: tuple[str, ...] = ()
    lines = markdown.split("\n")
    stack: list[tuple[int, str]] = []
    for number, line in outside_fences(markdown):
        if is_heading(line):
            if _has_body(lines, begun, number, headed=bool(stack)):
                yield _Section(headings, _joined(lines[begun:number], ended=True))
                begun = number
            headings = _below(stack, line)
    rest = _joined(lines[begun:], ended=False)
    if rest.strip():
        yield _Section(headings, rest)


def _has_body(lines: list[str], first: int, end: int, *, headed: bool) -> bool:
    """Say whether lines hold more than headings and blanks."""
    body = (line for line in lines[first:end] if line.strip())
    return any(not (headed and is_heading(line)) for line in body)


def _joined(lines: list[str], *, ended: bool) -> str:
    return "\n".join(lines) + ("\n" if ended else "")


def _below(stack: list[tuple[int, str]], line: str) -> tuple[str, ...]:
    """Take a heading in, and return the headings that what follows stands below."""
    mark = line.strip()
    level = len(mark) - len(mark.lstrip("#"))
    while stack and stack[-1][0] >= level:
        stack.pop()
    stack.append((level, one_line(mark.strip("#"))))
    return tuple(text for _, text in stack)


def _parts(text: str) -> Iterator[str]:
    """Yield parts of a section, none longer than a passage may be."""
    part = ""
    for block in _blocks(text):
        if part and len(part) + len(block) > LONGEST:
            yield from _shown(part)
            part = ""
        part += block
    yield from _shown(part)


def _shown(part: str) -> Iterator[str]:
    if part.strip():
        yield part


def _blocks(text: str) -> Iterator[str]:
    """Yield paragraphs with the blank lines behind them; of one that is too long, parts."""
    lines = text.split("\n")
    blank = {number for number, line in outside_fences(text) if not line.strip()}
    first = 0
    for number in range(1, len(lines)):
        if number - 1 in blank and number not in blank:
            yield from _cut(_joined(lines[first:number], ended=True))
            first = number
    yield from _cut(_joined(lines[first:], ended=False))


def _cut(block: str) -> Iterator[str]:
    """Yield a block in parts that end with a line, else with a word, else anywhere."""
    while len(block) > LONGEST:
        found = (block.rfind(ending, 0, LONGEST) + 1 for ending in _ENDINGS)
        place = next((each for each in found if each > LONGEST // 2), LONGEST)
        yield block[:place]
        block = block[place:]
    yield block
