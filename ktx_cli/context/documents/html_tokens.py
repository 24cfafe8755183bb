"""Cuts HTML, however broken, into tags and text, in time that grows with its length alone."""

from __future__ import annotations

import html
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

_TAG: Final = re.compile(
    r"""<(?P<end>/?)(?P<name>[a-zA-Z][^\s/<>"'=]{0,60}+)"""
    r"""(?P<rest>(?:[^<>"']++|"[^"]{0,8000}+"|'[^']{0,8000}+')*+)>"""
)
_OPENING: Final = re.compile(r"<(?=[a-zA-Z/!?])")
_ATTRIBUTE: Final = re.compile(
    r"""(?P<name>[^\s"'<>/=]{1,80}+)(?:\s*+=\s*+(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s"'<>]++)))?+"""
)
_RAW: Final = frozenset(("script", "style", "textarea", "title", "xmp", "noembed", "noframes"))
"""Elements whose content is text up to their own end tag, whatever it looks like."""


@dataclass(frozen=True, slots=True)
class Token:
    """A start tag, an end tag or a text. `name` is lower-case; `value` is a text, its entities resolved."""

    kind: Literal["start", "end", "text"]
    name: str = ""
    value: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    empty: bool = False
    """It was written `<name/>`."""


def text_token(value: str) -> Token:
    """Return a text."""
    return Token("text", value=value)


def tokens(source: str) -> Iterator[Token]:
    """Yield tags and texts in order. Comments, declarations and processing instructions are left out."""
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
    """Yield what stands at a `<`, and return where it ends."""
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
    """Return the attributes of a tag, the first of a name, as browsers have it."""
    attributes: dict[str, str] = {}
    for found in _ATTRIBUTE.finditer(rest):
        value = found["double"] or found["single"] or found["bare"] or ""
        attributes.setdefault(found["name"].lower(), html.unescape(value))
    return attributes


def written(stream: Iterable[Token]) -> str:
    """Return tokens as HTML that every parser reads alike."""
    return "".join(map(_written, stream))


def _written(token: Token) -> str:
    if token.kind == "text":
        return html.escape(token.value, quote=False)
    if token.kind == "end":
        return f"</{token.name}>"
    attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in token.attributes.items())
    return f"<{token.name}{attributes}>"
