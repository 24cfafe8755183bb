"""Reads a file of SQL: comments that stand on lines of their own become prose, the rest fenced code."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from operator import itemgetter
from typing import Final

from ktx_cli.context.documents.markdown_text import fenced
from ktx_cli.context.documents.model import Content

_PIECE: Final = re.compile(
    r"(?P<line>--[^\n]*+)"
    r"|(?P<block>/\*.*?(?:\*/|\Z))"
    r"|'(?:[^']++|'')*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|(?P<quote>\$[A-Za-z_0-9]{0,60}\$)"
    r"|[^-/'\"$]++|.",
    re.DOTALL,
)


def read_sql(source: str) -> Content:
    """Return the file as Markdown. A comment behind code stays in it."""
    runs = itertools.groupby(_pieces(source), key=itemgetter(0))
    shown = (_shown(is_prose, "".join(text for _, text in run)) for is_prose, run in runs)
    return Content("\n".join(text for text in shown if text))


def _shown(is_prose: bool, text: str) -> str:
    if not text.strip():
        return ""
    if not is_prose:
        return fenced(text.strip("\n"), "sql")
    return "\n".join(line.strip() for line in text.strip().splitlines()) + "\n"


def _pieces(source: str) -> Iterator[tuple[bool, str]]:
    """Yield pieces, each with whether it is prose; blanks belong to what stands before them."""
    is_prose = line_begins = True
    for is_comment, text in _tokens(source):
        if is_comment and line_begins:
            is_prose = True
            yield True, _uncommented(text)
            continue
        if text.strip():
            is_prose = False
        yield is_prose, text
        if text.strip() or "\n" in text:
            line_begins = "\n" in text and not text.rpartition("\n")[2].strip()


def _tokens(source: str) -> Iterator[tuple[bool, str]]:
    """Yield the file in pieces, each with whether it is a comment; none ends inside a string."""
    position = 0
    while position < len(source):
        found = _PIECE.match(source, position)
        assert found is not None  # the last choice takes any character
        end = found.end()
        if found["quote"]:
            closing = source.find(found["quote"], end)
            end = end if closing < 0 else closing + len(found["quote"])
        yield bool(found["line"] or found["block"]), source[position:end]
        position = end


def _uncommented(text: str) -> str:
    """Return a comment without its marks."""
    if text.startswith("--"):
        return text.lstrip("-").strip()
    lines = text.removeprefix("/*").removesuffix("*/").splitlines()
    return "\n".join(line.strip().lstrip("*").strip() for line in lines).strip()
