"""Where the links of a page lead, as a browser reads it: of Markdown, autolinks and HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

from ktx_cli.context.wiki.markdown import inline_code, without, without_fences

_MARKDOWN: Final = re.compile(
    r"\]\(\s{0,9}(?:<(?P<angled>[^<>\n]{1,2000})>|(?P<inline>(?:[^\s<>()]|\([^\s<>()]{0,500}\)){1,2000}+))"
    r"|^[ >\t*+\-0-9.)]{0,12}\[[^\]\n^][^\]\n]{0,200}\]:[ \t]{0,9}\n?[ \t]{0,9}"
    r"(?:<(?P<held>[^<>\n]{1,2000})>|(?P<defined>[^\s<>]{1,2000}))[ \t]*(?=\n|\r|$|[\"'(])"
    r"|<(?P<auto>[a-z][a-z0-9+.-]{1,31}:[^\s<>]{0,2000}|[\w.+-]{1,64}@[\w-]{1,64}\.[\w.-]{1,200})>",
    re.IGNORECASE | re.MULTILINE,
)
_TAG: Final = re.compile(
    r"<[a-z](?:[^<>\"']++|\"[^\"]{0,500}+\"|'[^']{0,500}+'){0,20}+>", re.IGNORECASE
)  # fmt: skip
_ATTRIBUTE: Final = re.compile(
    r"[\s\"'/](?:href|src|action|formaction|ping|poster|cite|background|data|xlink:href)\s{0,9}=\s{0,9}"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\s\"'>]+))",
    re.IGNORECASE,
)
_ESCAPED: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_DROPPED: Final = re.compile(r"[\t\n\r]")
_EDGES: Final = "".join(map(chr, range(0x21)))
"""Controls and blanks around an address, which browsers take away."""


def destinations(text: str) -> Iterator[tuple[int, str]]:
    """Yield (place, destination) of every link outside code: references, escapes, tabs and line ends are undone."""
    if not any(each in text for each in ("](", "]:", "<")):
        return
    plain = without_fences(text)
    plain = without(plain, inline_code(plain))
    for found in _MARKDOWN.finditer(plain):
        yield found.start(), _read(_ESCAPED.sub("", found[found.lastgroup or 0]))
    for tag in _TAG.finditer(plain) if "=" in plain else ():
        for each in _ATTRIBUTE.finditer(tag[0]):
            yield tag.start() + each.start(), _read(each[each.lastgroup or 0])


def _read(written: str) -> str:
    return _DROPPED.sub("", html.unescape(written)).strip(_EDGES)
