"""Small readers and writers of Markdown: front matter, headings, links, fences; each in linear time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import ConfigError, one_line, yaml

_FRONT: Final = re.compile(
    r"---[ \t]*\r?\n(?P<front>.{0,200000}?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
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
    """Return the mapping at the head of a text and what follows it; `{}` and the whole text where there is none."""
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    try:
        value = yaml.load(found["front"], where="front matter")
    except ConfigError:
        return {}, text
    return (
        ({str(key): item for key, item in value.items()}, text[found.end() :])
        if isinstance(value, dict)
        else ({}, text)
    )


def with_front_matter(front: Mapping[str, Any], body: str) -> bytes:
    """Return a file of front matter and body, the same bytes for the same values."""
    return f"---\n{yaml.dump(_writable(dict(front)))}---\n\n{body.strip()}\n".encode("utf-8", "replace")


def _writable(value: Any) -> Any:
    """Return a value without lone surrogates, which JSON may hold and UTF-8 cannot."""
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value


def outside_fences(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that are in no fenced code, with their numbers from 0."""
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
    """Return the text of the first heading, empty where there is none."""
    for _, line in outside_fences(markdown):
        found = _HEADING.match(line)
        if found and found["text"]:
            return one_line(found["text"])
    return ""


def is_heading(line: str) -> bool:
    """Say whether a line that is in no fence is a heading."""
    return _HEADING.match(line) is not None


def links_in(markdown: str) -> tuple[str, ...]:
    """Return the addresses a text links to, in order, each once; none of images' and of code."""
    found: dict[str, None] = {}
    for _, line in outside_fences(markdown):
        for match in _LINK.finditer(_INLINE_CODE.sub("", line[:20_000])):
            address = match["inline"] or match["auto"] or match["reference"]
            if not address.startswith("#"):
                found.setdefault(address)
    return tuple(found)[:_MOST_LINKS]


def without_comments(markdown: str) -> str:
    """Return a text without HTML comments, which nobody sees who reads the page; its lines keep their numbers."""
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
    """Return what of a line is in no comment, and whether one goes on behind it; `closes`: an end is still to come."""
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
    """Return where the next comment begins that is not in code, -1 where none does."""
    for found in _CODE_OR_COMMENT.finditer(line, position):
        if found["comment"]:
            return found.start()
    return -1


def fenced(code: str, language: str = "") -> str:
    """Return code in a fence that is longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{code}\n{fence}\n"
