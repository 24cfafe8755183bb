"""Process Markdown in linear time: front matter, headings, links, fences, and the citable passages of a document."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import ConfigError, one_line, yaml
from ktx_cli.documents.raw import Document

_FRONT: Final = re.compile(
    r"---[ \t]*\r?\n(?P<front>.{0,200000}?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_FRONT_LINE: Final = re.compile(r"[\w\"'][\w .\"'-]{0,60}:(?:\s|$)|\s*- |\s*#|\s+\S|[\]}]")
"""A key, an item, a comment, or a continuation line of a value."""
_FENCE: Final = re.compile(r" {0,3}(?P<mark>`{3,}|~{3,})(?P<rest>[^\n]*)")
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]++(?P<text>[^\n]*?)[ \t]*#*[ \t]*$")
_CODE: Final = r"(?P<ticks>`+)(?!`).{0,500}?(?<!`)(?P=ticks)(?!`)"
_INLINE_CODE: Final = re.compile(_CODE)
_CODE_OR_COMMENT: Final = re.compile(rf"(?P<comment><!--)|{_CODE}")
_LINK: Final = re.compile(
    r"\]\(\s{0,9}<?(?P<inline>[^\s<>()]{1,2000}+(?:\([^\s()]{0,200}\)[^\s<>()]{0,2000})?)"
    r"|<(?P<auto>https?://[^\s<>]{1,2000}+)>"
    r"|^ {0,3}\[[^\]\n]{1,200}\]:\s{0,9}<?(?P<reference>[^\s<>]{1,2000}+)"
)
_MOST_LINKS: Final = 1000


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter of a text and the rest, or `{}` and the whole text if there is none.

    If front matter is not valid YAML, only the text after it is returned.
    """
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    try:
        value = yaml.load(found["front"], where="front matter")
    except ConfigError:
        lines = [line for line in found["front"].split("\n") if line.strip()]
        return {}, text[found.end() :] if all(map(_FRONT_LINE.match, lines)) else text
    return (
        ({str(key): item for key, item in value.items()}, text[found.end() :])
        if isinstance(value, dict)
        else ({}, text)
    )


def with_front_matter(front: Mapping[str, Any], body: str) -> bytes:
    """Return a file with front matter and a body; equal values give equal bytes."""
    return f"---\n{yaml.dump(_writable(dict(front)))}---\n\n{body.strip()}\n".encode("utf-8", "replace")


def _writable(value: Any) -> Any:
    """Return a value without lone surrogates, which JSON may contain but UTF-8 cannot."""
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def outside_fences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside fenced code, with their zero-based line numbers."""
    mark = ""
    for number, line in enumerate(markdown.split("\n")):
        found = _FENCE.match(line)
        if mark:
            if found and found["mark"].startswith(mark) and not found["rest"].strip():
                mark = ""
        elif found and not (found["mark"][0] == "`" and "`" in found["rest"]):
            mark = found["mark"]
        else:
            yield number, line


def first_heading(markdown: str) -> str:
    """Return the text of the first heading, or an empty string."""
    for _, line in outside_fences(markdown):
        found = _HEADING.match(line)
        if found and found["text"]:
            return one_line(found["text"])
    return ""


def is_heading(line: str) -> bool:
    """Return whether a line outside a fence is a heading."""
    return _HEADING.match(line) is not None


def links_in(markdown: str) -> tuple[str, ...]:
    """Return the link targets in a text, in order and without duplicates; images and code are ignored."""
    found: dict[str, None] = {}
    for _, line in outside_fences(markdown):
        for match in _LINK.finditer(_INLINE_CODE.sub("", line[:20_000])):
            address = match["inline"] or match["auto"] or match["reference"]
            if not address.startswith("#"):
                found.setdefault(address)
    return tuple(found)[:_MOST_LINKS]


def without_comments(markdown: str) -> str:
    """Return a text without HTML comments, which readers of the page do not see; line numbers do not change."""
    if "<!--" not in markdown:
        return markdown
    lines = markdown.split("\n")
    inside = False
    closings = sum("-->" in line for line in lines)
    for number, line in list(outside_fences(markdown)):
        closings -= "-->" in line
        lines[number], inside = _visible_part(line, inside, closings > 0)
    return "\n".join(lines)


def _visible_part(line: str, inside: bool, closes: bool) -> tuple[str, bool]:
    """Return the part of a line outside comments, and whether a comment continues on the next line. `closes`: an end
    follows.
    """
    kept: list[str] = []
    position = 0
    while inside or (start := _comment_start(line, position)) >= 0:
        if not inside:
            if not closes and line.find("-->", start) < 0:
                break
            kept.append(line[position:start])
        end = line.find("-->", position if inside else start + 4)
        if end < 0:
            return "".join(kept), True
        position, inside = end + 3, False
    return "".join((*kept, line[position:])), False


def _comment_start(line: str, position: int) -> int:
    """Return the position of the next comment outside code, or -1."""
    for found in _CODE_OR_COMMENT.finditer(line, position):
        if found["comment"]:
            return found.start()
    return -1


def fenced(code: str, language: str = "") -> str:
    """Return code in a fence that is longer than any run of backticks in it."""
    fence = "`" * max(3, max((len(run) for run in re.findall(r"`+", code)), default=0) + 1)
    return f"{fence}{language}\n{code}\n{fence}\n"


LONGEST: Final = 4_800
"""The maximum length of a passage."""

_SLUG: Final = 40
_PLAIN: Final = re.compile(r"[^\w]+")
_ENDINGS: Final = ("\n", " ")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document. `key`: its citation key. `heading`: the headings above it. `order`: counts from 0."""

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
    """Return the passages of a source's document in order; together they are the whole text except blank lines."""
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
    """Return the letters and digits of a text in lower case, with `-` for everything in between."""
    return _PLAIN.sub("-", text.casefold()).strip("-_")[:limit].rstrip("-_")


def _sections(markdown: str) -> Iterator[_Section]:
    """Yield the sections; a section with only a heading is merged into the next."""
    begun = looked = 0
    headings: tuple[str, ...] = ()
    lines = markdown.split("\n")
    stack: list[tuple[int, str]] = []
    for number, line in outside_fences(markdown):
        if is_heading(line):
            if _has_body(lines, looked, number, headed=bool(stack)):
                yield _Section(headings, _joined(lines[begun:number], ended=True))
                begun = number
            looked = number
            headings = _below(stack, line)
    rest = _joined(lines[begun:], ended=False)
    if rest.strip():
        yield _Section(headings, rest)


def _has_body(lines: list[str], first: int, end: int, *, headed: bool) -> bool:
    """Return whether lines contain more than headings and blank lines."""
    body = (line for line in lines[first:end] if line.strip())
    return any(not (headed and is_heading(line)) for line in body)


def _joined(lines: list[str], *, ended: bool) -> str:
    return "\n".join(lines) + ("\n" if ended else "")


def _below(stack: list[tuple[int, str]], line: str) -> tuple[str, ...]:
    """Process a heading, and return the headings above the following text."""
    mark = line.strip()
    level = len(mark) - len(mark.lstrip("#"))
    while stack and stack[-1][0] >= level:
        stack.pop()
    stack.append((level, one_line(mark.strip("#"))))
    return tuple(text for _, text in stack)


def _parts(text: str) -> Iterator[str]:
    """Yield parts of a section, each within the length limit of a passage."""
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
    """Yield paragraphs with the blank lines after them, splitting those that are too long."""
    lines = text.split("\n")
    blank = {number for number, line in outside_fences(text) if not line.strip()}
    first = 0
    for number in range(1, len(lines)):
        if number - 1 in blank and number not in blank:
            yield from _cut(_joined(lines[first:number], ended=True))
            first = number
    yield from _cut(_joined(lines[first:], ended=False))


def _cut(block: str) -> Iterator[str]:
    """Yield a block in parts that end at a line break, else between words, else anywhere."""
    while len(block) > LONGEST:
        found = (block.rfind(ending, 0, LONGEST) + 1 for ending in _ENDINGS)
        place = next((each for each in found if each > LONGEST // 2), LONGEST)
        yield block[:place]
        block = block[place:]
    yield block
