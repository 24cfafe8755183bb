"""Reads HTML as Markdown."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final

from ktx_cli.context.documents.html_tokens import Token, tokens, written
from ktx_cli.context.documents.html_visible import visible
from ktx_cli.context.documents.markdown_text import fenced
from ktx_cli.context.documents.model import Content
from ktx_cli.core.text import one_line

MAX_HTML: Final = 2_000_000
"""Characters of a page with its tags."""

_MOST_LINKS: Final = 1000


def read_html(source: str) -> Content:
    """Return what a reader of the page sees; never runs a script and never follows a link."""
    notes = (f"only the first {MAX_HTML:,} characters of the page were read",) if len(source) > MAX_HTML else ()
    found = list(tokens(source[:MAX_HTML]))
    shown = list(visible(found))
    return Content(markdown_of(shown), _title(found), _links(shown), notes)


def markdown_of(stream: Iterable[Token]) -> str:
    """Return visible tokens as Markdown."""
    return str(_converter().convert(written(stream))).strip() + "\n"


@functools.cache
def _converter() -> Any:
    from markdownify import MarkdownConverter

    class Converter(MarkdownConverter):
        def convert_pre(self, element: Any, text: str, parent_tags: Any) -> str:
            """Return code in a fence that no line of it can end."""
            return f"\n\n{fenced(text.strip(chr(10)), _language(element))}\n" if text.strip() else ""

    return Converter(
        heading_style="ATX",
        bullets="-",
        escape_asterisks=False,
        escape_underscores=False,
        table_infer_header=True,
    )


def _language(element: Any) -> str:
    """Return the language of a block of code: its own class, or that of the `code` in it; empty for none."""
    for each in (element, element.find("code")):
        classes = each.get("class") if each is not None else None
        if classes:
            return str(classes[0]).removeprefix("language-")
    return ""


def _title(found: Iterable[Token]) -> str:
    """Return the page's title, or its first heading."""
    return one_line(_text_in("title", found)) or one_line(_text_in("h1", found))


def _text_in(name: str, found: Iterable[Token]) -> str:
    pieces: list[str] = []
    inside = False
    for token in found:
        if token.name == name:
            if token.kind == "end" and inside:
                break
            inside = token.kind == "start"
        elif inside and token.kind == "text":
            pieces.append(token.value)
    return "".join(pieces)


def _links(shown: Iterable[Token]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_addresses(shown)))[:_MOST_LINKS]


def _addresses(shown: Iterable[Token]) -> Iterator[str]:
    for token in shown:
        if token.kind == "start" and token.name == "a" and "href" in token.attributes:
            yield token.attributes["href"]
