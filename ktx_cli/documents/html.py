"""Read HTML as Markdown."""

from __future__ import annotations

import functools
import html
import itertools
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ktx_cli.core import one_line
from ktx_cli.documents.markdown import fenced
from ktx_cli.documents.raw import Content

MAX_HTML: Final = 2_000_000
"""The maximum length of a page including its tags."""

_MOST_LINKS: Final = 1000


def read_html(source: str) -> Content:
    """Return the text that a reader of the page sees. Never runs a script or follows a link."""
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
            """Return code in a fence that no line of the code can close."""
            return f"\n\n{fenced(text.strip(chr(10)), _language(element))}\n" if text.strip() else ""

    return Converter(
        heading_style="ATX", bullets="-", escape_asterisks=False, escape_underscores=False, table_infer_header=True
    )


def _language(element: Any) -> str:
    """Return the language of a code block from its own class or that of the `code` in it, or an empty string."""
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


_TAG: Final = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/<>"'=]{0,60}+)"""
    r"""(?P<rest>(?:[^<>"']++|"[^"]{0,8000}+"|'[^']{0,8000}+')*+)>"""
)
_OPENING: Final = re.compile(r"<(?=[a-zA-Z/!?])")
_ATTRIBUTE: Final = re.compile(
    r"""(?P<name>[^\s"'<>/=]{1,80}+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s"'<>]++)))?+"""
)
_RAW: Final = frozenset(("script", "style", "textarea", "title", "xmp", "noembed", "noframes"))
"""Elements whose content is text up to their own end tag, whatever it contains."""


@dataclass(frozen=True, slots=True)
class Token:
    """A start tag, an end tag or text. `name` is lower-case; `value` has its entities resolved."""

    kind: Literal["start", "end", "text"]
    name: str = ""
    value: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False
    """Whether the tag was written as `<name/>`."""


def text_token(value: str) -> Token:
    """Return a text token."""
    return Token("text", value=value)


def tokens(source: str) -> Iterator[Token]:
    """Yield tags and texts in order, without comments, declarations and processing instructions."""
    position = 0
    while position < len(source):
        opening = _OPENING.search(source, position)
        start = opening.start() if opening else len(source)
        if start > position:
            yield text_token(html.unescape(source[position:start]))
        if opening is None:
            return
        position = yield from _markup(source, start)


def _markup(source: str, at: int) -> Generator[Token, None, int]:
    """Yield the token at a `<`, and return its end position."""
    for mark, closing in (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">")):
        if source.startswith(mark, at):
            end = source.find(closing, at + len(mark))
            end = len(source) if end < 0 else end
            if mark == "<![CDATA[":
                yield text_token(source[at + len(mark) : end])
            return end + len(closing)
    found = _TAG.match(source, at)
    if found is None:
        yield text_token("<")
        return at + 1
    tag = _tag(found)
    yield tag
    if tag.kind == "start" and tag.name in _RAW and not tag.empty:
        return (yield from _raw(source, found.end(), tag.name))
    return found.end()


def _raw(source: str, at: int, name: str) -> Generator[Token, None, int]:
    closing = re.compile(rf"</{name}(?=[\s/>])[^>]*+>", re.IGNORECASE).search(source, at)
    start, end = closing.span() if closing else (len(source), len(source))
    yield text_token(html.unescape(source[at:start]))
    yield Token("end", name)
    return end


def _tag(found: re.Match[str]) -> Token:
    name = found["name"].lower()
    if found["end"]:
        return Token("end", name)
    rest = found["rest"]
    return Token("start", name, attributes=_attributes(rest), empty=rest.rstrip().endswith("/"))


def _attributes(rest: str) -> dict[str, str]:
    """Return a tag's attributes; the first of duplicates counts, as in browsers."""
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(rest):
        value = found["double"] or found["single"] or found["bare"] or ""
        attributes.setdefault(found["name"].lower(), html.unescape(value))
    return attributes


def written(stream: Iterable[Token]) -> str:
    """Return tokens as HTML that every parser reads the same way."""
    return "".join(map(_written, stream))


def _written(token: Token) -> str:
    if token.kind == "text":
        return html.escape(token.value, quote=False)
    if token.kind == "end":
        return f"</{token.name}>"
    attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in token.attributes.items())
    return f"<{token.name}{attributes}>"


MAX_DEPTH: Final = 60
"""The maximum nesting of elements; deeper tags are ignored."""

MAX_ELEMENTS: Final = 60_000
"""The maximum number of elements in a page; only the text of the rest is kept."""

_LIST_RUN: Final = 400
"""The number of items after which a numbered list is split, because counting them takes quadratic time."""

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
"""Start tag -> the elements it closes if their end tag is omitted, and the containers in which they stay open."""

_HIDDEN_STYLE: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0(?:\.0+)?(?:[\s;!]|$)"
    r"|font-size\s*:\s*0(?:\.0+)?(?:px|pt|em|rem|%)?(?:[\s;!]|$)|(?:left|top|text-indent)\s*:\s*-[0-9]{4,}px",
    re.IGNORECASE,
)
_BLANKS: Final = re.compile(r"[ \t\r\n\f\v]{2,}")
_LANGUAGE: Final = re.compile(r"(?:language|lang|brush:)[-\s]*([A-Za-z0-9_+#-]{1,30})")


def visible(stream: Iterable[Token]) -> Iterator[Token]:
    """Yield the tokens that a reader sees, with every element closed, and the attributes that Markdown supports."""
    return _without_blanks(_Filter().read(stream))


def _without_blanks(stream: Iterable[Token]) -> Iterator[Token]:
    """Merge adjacent texts and collapse runs of blanks, which are insignificant outside `pre`."""
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
        """Return a text token, with bars escaped in a table cell because they would end it."""
        in_cell = "|" in token.value and ("td" in self._open or "th" in self._open)
        return text_token(token.value.replace("|", "\\|")) if in_cell else token

    def _skip(self, token: Token) -> None:
        """Track nesting until the skipped element ends."""
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
        yield Token("start", token.name, attributes=_html_visible_attributes(token))

    def _continued_list(self) -> Iterator[Token]:
        """Split a numbered list that has become too long, and continue with the next number."""
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
    """Return a void element; for an inline image, only its description."""
    source, described = (token.attributes.get(name, "").strip() for name in ("src", "alt"))
    if token.name == "img" and not _may_link(source):
        return text_token(described)
    return Token("start", token.name, attributes={"alt": described, "src": source} if token.name == "img" else {})


def _html_visible_attributes(token: Token) -> dict[str, str]:
    given = token.attributes
    if token.name == "a":
        return {"href": given["href"].strip()} if _may_link(given.get("href", "")) else {}
    if token.name in ("pre", "code"):
        found = _LANGUAGE.search(given.get("class", "")[:200])
        return {"class": f"language-{found[1].lower()}"} if found else {}
    return {}


def _may_link(address: str) -> bool:
    """Return whether an address may be shown: a web or mail address, or one on the same site."""
    scheme = re.match(r"\s*([a-zA-Z][a-zA-Z0-9+.-]*):", address)
    return bool(address.strip()) and (scheme is None or scheme[1].lower() in ("http", "https", "mailto"))
