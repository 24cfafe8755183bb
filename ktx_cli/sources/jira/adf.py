"""The Atlassian Document Format, in which Jira Cloud returns texts, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ktx_cli.documents import Token, markdown_of, text_token, visible

MAX_DEPTH: Final = 40
"""The maximum nesting of nodes; deeper ones are omitted."""

MAX_NODES: Final = 20_000

_BLOCKS: Final = {
    "paragraph": "p",
    "bulletList": "ul",
    "orderedList": "ol",
    "listItem": "li",
    "taskList": "ul",
    "taskItem": "li",
    "decisionList": "ul",
    "decisionItem": "li",
    "blockquote": "blockquote",
    "table": "table",
    "tableRow": "tr",
    "tableHeader": "th",
    "tableCell": "td",
    "layoutSection": "div",
    "layoutColumn": "div",
    "panel": "div",
    "expand": "div",
    "nestedExpand": "div",
    "mediaSingle": "p",
}
_MARKS: Final = {"strong": "strong", "em": "em", "code": "code", "strike": "s"}
_CARDS: Final = frozenset(("inlineCard", "blockCard", "embedCard"))

Node = Mapping[str, Any]


def adf_markdown(document: Any) -> str:
    """Return a document as Markdown; anything else than a document is empty. Names of people become `@user`."""
    if not isinstance(document, Mapping):
        return ""
    return markdown_of(visible(_Converter().read(document, 0))).strip()


class _Converter:
    def __init__(self) -> None:
        self._left = MAX_NODES

    def read(self, node: Node, depth: int) -> Iterator[Token]:
        """Yield a node as HTML tokens."""
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            return
        kind, attributes = str(node.get("type") or ""), _attributes(node)
        if kind == "text":
            yield from _marked(node)
        elif kind == "heading":
            level = attributes.get("level")
            yield from self._element(f"h{level if level in range(1, 7) else 6}", node, depth)
        elif kind == "codeBlock":
            yield from self._code(node, str(attributes.get("language") or ""))
        elif kind in _BLOCKS:
            yield from self._element(_BLOCKS[kind], node, depth, _lead(kind, attributes))
        elif kind in _CARDS:
            yield from _link(str(attributes.get("url") or ""))
        elif kind in ("hardBreak", "rule"):
            yield Token("start", "br" if kind == "hardBreak" else "hr", empty=True)
        else:
            yield from self._other(kind, node, attributes, depth)

    def _other(self, kind: str, node: Node, attributes: Node, depth: int) -> Iterator[Token]:
        if kind == "mention":
            yield text_token("@user")
        elif kind == "date":
            yield text_token(_day(attributes.get("timestamp")))
        elif kind in ("emoji", "status", "placeholder"):
            yield text_token(str(attributes.get("text") or attributes.get("shortName") or ""))
        elif kind in ("media", "mediaInline"):
            yield text_token(str(attributes.get("alt") or ""))
        else:
            yield from self._inside(node, depth)

    def _element(self, name: str, node: Node, depth: int, lead: str = "") -> Iterator[Token]:
        yield Token("start", name)
        if lead and name == "div":
            yield from (Token("start", "p"), Token("start", "strong"), text_token(lead))
            yield from (Token("end", "strong"), Token("end", "p"))
        elif lead:
            yield text_token(lead)
        yield from self._inside(node, depth)
        yield Token("end", name)

    def _inside(self, node: Node, depth: int) -> Iterator[Token]:
        content = node.get("content")
        for child in content if isinstance(content, list) else ():
            if isinstance(child, Mapping):
                yield from self.read(child, depth + 1)

    def _code(self, node: Node, language: str) -> Iterator[Token]:
        content = node.get("content")
        texts = [str(child.get("text") or "") for child in content or () if isinstance(child, Mapping)]
        yield Token("start", "pre", attributes={"class": f"language-{language}"} if language else {})
        yield text_token("".join(texts))
        yield Token("end", "pre")


def _attributes(node: Node) -> Node:
    found = node.get("attrs")
    return found if isinstance(found, Mapping) else {}


def _lead(kind: str, attributes: Node) -> str:
    """Return the text in front of a node's content."""
    if kind == "taskItem":
        return "[x] " if attributes.get("state") == "DONE" else "[ ] "
    if kind == "decisionItem":
        return "Decision: " if attributes.get("state", "DECIDED") == "DECIDED" else "Undecided: "
    if kind == "panel":
        return f"{str(attributes.get('panelType') or 'info').capitalize()}:"
    return str(attributes.get("title") or "") if kind in ("expand", "nestedExpand") else ""


def _marked(node: Node) -> Iterator[Token]:
    """Yield a text inside the elements of its marks."""
    marks = [mark for mark in node.get("marks") or () if isinstance(mark, Mapping)]
    names = [_MARKS[kind] for mark in marks if (kind := str(mark.get("type"))) in _MARKS]
    links = [str(_attributes(mark).get("href") or "") for mark in marks if mark.get("type") == "link"]
    opened = [Token("start", "a", attributes={"href": href}) for href in links[:1] if href]
    yield from opened
    yield from (Token("start", name) for name in names)
    yield text_token(str(node.get("text") or ""))
    yield from (Token("end", name) for name in reversed(names))
    yield from (Token("end", "a") for _ in opened)


def _link(url: str) -> Iterator[Token]:
    if url:
        yield from (Token("start", "a", attributes={"href": url}), text_token(url), Token("end", "a"))


def _day(timestamp: Any) -> str:
    """Return the day of a timestamp in milliseconds, or an empty string."""
    try:
        return datetime.fromtimestamp(int(timestamp) / 1000, UTC).date().isoformat()
    except (TypeError, ValueError, OverflowError, OSError):
        return ""
