"""Keeps of an HTML page what a reader of it sees: no scripts, no styles, nothing hidden, no deep nesting."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Final

from ktx_cli.context.documents.html_tokens import Token, text_token

MAX_DEPTH: Final = 60
"""Elements inside each other; what is deeper is read as if its tags were not there."""

MAX_ELEMENTS: Final = 60_000
"""Elements of a page; of what follows the text is kept."""

_LIST_RUN: Final = 400
"""Items after which a numbered list is continued by another: counting them takes the square of their number."""

_DROPPED: Final = frozenset((
    "script", "style", "template", "noscript", "noembed", "noframes", "iframe", "frame", "object", "embed",
    "applet", "svg", "canvas", "math", "audio", "video", "map", "title", "textarea", "select", "datalist", "xmp",
    "dialog",
))  # fmt: skip
_VOID: Final = frozenset((
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "frame",
))  # fmt: skip
_KEPT: Final = frozenset((
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody",
    "tfoot", "tr", "td", "th", "caption", "pre", "code", "kbd", "samp", "blockquote", "a", "b", "strong", "i",
    "em", "del", "s", "div", "section", "article", "main", "header", "footer", "figure", "figcaption", "q",
))  # fmt: skip
_EMPTY_KEPT: Final = frozenset(("br", "hr", "img"))
_ENDED_BY: Final = {
    "li": ("li", ("ul", "ol")),
    "dt": ("dt dd", ("dl",)),
    "dd": ("dt dd", ("dl",)),
    "tr": ("tr td th", ("table",)),
    "td": ("td th", ("tr", "table")),
    "th": ("td th", ("tr", "table")),
    "p": ("p", ("div", "td", "th", "li", "blockquote", "section", "article")),
}
"""A start tag -> the elements it ends where their end tag was left out, and those in which they stay open."""

_HIDDEN_STYLE: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?(?:[\s;!]|$)"
    r"|font-size\s*:\s*0(?:\.0+)?(?:px|pt|em|rem|%)?(?:[\s;!]|$)|(?:left|top|text-indent)\s*:\s*-[0-9]{4,}px",
    re.IGNORECASE,
)
_BLANKS: Final = re.compile(r"[ \t\r\n\f\v]{2,}")
_LANGUAGE: Final = re.compile(r"(?:language|lang|brush:)[-\s]*([A-Za-z0-9_+#-]{1,30})")


def visible(stream: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens a reader sees, every element closed, with the attributes that Markdown has a place for."""
    return _without_blanks(_Filter().read(stream))


def _without_blanks(stream: Iterable[Token]) -> Iterator[Token]:
    """Yield texts that touch as one, with one blank for many, which mean nothing outside `pre`."""
    preformatted = 0
    for is_text, run in itertools.groupby(stream, key=lambda token: token.kind == "text"):
        if is_text:
            text = "".join(token.value for token in run)
            yield text_token(text if preformatted else _BLANKS.sub(_one_blank, text))
            continue
        for token in run:
            if token.name == "pre":
                preformatted += 1 if token.kind == "start" else -1
            yield token


def _one_blank(found: re.Match[str]) -> str:
    return "\n" if "\n" in found[0] else " "


class _Filter:
    def __init__(self) -> None:
        self._open: list[str] = []
        self._items: list[int] = []
        self._elements = 0
        self._dropping = ""
        self._dropped_depth = 0

    def read(self, stream: Iterable[Token]) -> Iterator[Token]:
        for token in stream:
            if self._dropping:
                self._skip(token)
            elif token.kind == "text":
                yield self._text(token)
            elif token.kind == "start":
                yield from self._start(token)
            else:
                yield from self._end(token.name)
        yield from self._closed(len(self._open))

    def _text(self, token: Token) -> Token:
        """Return a text; a bar in the cell of a table would end the cell."""
        in_cell = "|" in token.value and ("td" in self._open or "th" in self._open)
        return text_token(token.value.replace("|", "\\|")) if in_cell else token

    def _skip(self, token: Token) -> None:
        """Count until the element that is left out ends."""
        if token.name != self._dropping or token.kind == "text" or token.empty:
            return
        self._dropped_depth += 1 if token.kind == "start" else -1
        if self._dropped_depth == 0:
            self._dropping = ""

    def _start(self, token: Token) -> Iterator[Token]:
        name = token.name
        if name in _VOID:
            if name in _EMPTY_KEPT and not _hidden(token):
                yield _empty(token)
            return
        if name in _DROPPED or _hidden(token):
            self._dropping, self._dropped_depth = ("", 0) if token.empty else (name, 1)
            return
        if name not in _KEPT or token.empty or self._elements >= MAX_ELEMENTS:
            return
        yield from self._implied_ends(name)
        if len(self._open) < MAX_DEPTH:
            yield from self._opened(token)

    def _opened(self, token: Token) -> Iterator[Token]:
        self._elements += 1
        if token.name == "li":
            yield from self._continued_list()
        if token.name in ("ul", "ol"):
            self._items.append(0)
        self._open.append(token.name)
        yield Token("start", token.name, attributes=_attributes(token))

    def _continued_list(self) -> Iterator[Token]:
        """End a numbered list that has become long, and go on with the next number."""
        if not self._items or not self._open or self._open[-1] != "ol":
            return
        self._items[-1] += 1
        number = self._items[-1]
        if number % _LIST_RUN == 1 and number > 1:
            yield Token("end", "ol")
            yield Token("start", "ol", attributes={"start": str(number)})

    def _implied_ends(self, name: str) -> Iterator[Token]:
        ended, inside = _ENDED_BY.get(name, ("", ()))
        names = ended.split()
        depth = 0
        for position in range(len(self._open) - 1, -1, -1):
            if self._open[position] in inside:
                break
            if self._open[position] in names:
                depth = len(self._open) - position
        yield from self._closed(depth)

    def _end(self, name: str) -> Iterator[Token]:
        for position in range(len(self._open) - 1, -1, -1):
            if self._open[position] == name:
                yield from self._closed(len(self._open) - position)
                return

    def _closed(self, count: int) -> Iterator[Token]:
        for _ in range(count):
            name = self._open.pop()
            if name in ("ul", "ol"):
                self._items.pop()
            yield Token("end", name)


def _hidden(token: Token) -> bool:
    attributes = token.attributes
    if "hidden" in attributes or attributes.get("aria-hidden", "").lower() == "true":
        return True
    return _HIDDEN_STYLE.search(attributes.get("style", "")[:2000]) is not None


def _empty(token: Token) -> Token:
    """Return an element without content; of an image that is in the page itself its description alone."""
    source, described = (token.attributes.get(name, "").strip() for name in ("src", "alt"))
    if token.name == "img" and not _may_link(source):
        return text_token(described)
    return Token("start", token.name, attributes={"alt": described, "src": source} if token.name == "img" else {})


def _attributes(token: Token) -> dict[str, str]:
    given = token.attributes
    if token.name == "a":
        return {"href": given["href"].strip()} if _may_link(given.get("href", "")) else {}
    if token.name in ("pre", "code"):
        found = _LANGUAGE.search(given.get("class", "")[:200])
        return {"class": f"language-{found[1].lower()}"} if found else {}
    return {}


def _may_link(address: str) -> bool:
    """Say whether an address is one to show: of the web, of mail, or of the same site."""
    scheme = re.match(r"\s*([a-zA-Z][a-zA-Z0-9+.-]*):", address)
    return bool(address.strip()) and (scheme is None or scheme[1].lower() in ("http", "https", "mailto"))
