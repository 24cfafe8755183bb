"""The blocks of a Notion page: read as a tree of bounded size, written as Markdown.

Addresses that Notion signs for an hour are left out: they would make the page another one at every fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.documents.markdown_text import fenced
from ktx_cli.context.sources.notion_api import NotionApi, Thing, plain_id

MAX_DEPTH: Final = 10
MAX_BLOCKS: Final = 2_000

_LISTED: Final = {"bulleted_list_item": "- ", "numbered_list_item": "1. ", "to_do": "- ", "toggle": "- "}
_FILES: Final = frozenset(("image", "video", "file", "pdf", "audio"))
_LINKS: Final = frozenset(("bookmark", "embed", "link_preview"))


@dataclass(slots=True)
class Block:
    """A block with what is in it."""

    kind: str
    content: Mapping[str, Any]
    id: str = ""
    children: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """The blocks of a page. `pages`, `databases`: ids of those in it. `cut`: why blocks are missing, empty: none is."""

    blocks: list[Block] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    cut: str = ""
    count: int = 0


def read_tree(api: NotionApi, page: str) -> Tree:
    """Return the blocks of a page, at most `MAX_BLOCKS` and `MAX_DEPTH` deep, in the order of the page."""
    tree = Tree()
    _read(api, page, tree, tree.blocks, 1)
    return tree


def _read(api: NotionApi, parent: str, tree: Tree, blocks: list[Block], depth: int) -> None:
    for thing in api.children(parent):
        if tree.count >= MAX_BLOCKS:
            tree.cut = f"it has more than {MAX_BLOCKS:,} blocks"
            return
        tree.count += 1
        block = _block(thing)
        blocks.append(block)
        if block.kind == "child_page":
            tree.pages.append(block.id)
        elif block.kind == "child_database":
            tree.databases.append(block.id)
        elif thing.get("has_children") and depth < MAX_DEPTH:
            _read(api, str(thing.get("id")), tree, block.children, depth + 1)
        elif thing.get("has_children"):
            tree.cut = tree.cut or f"its blocks are nested deeper than {MAX_DEPTH}"


def _block(thing: Thing) -> Block:
    kind = str(thing.get("type") or "unsupported")
    content = thing.get(kind)
    return Block(kind, content if isinstance(content, Mapping) else {}, plain_id(thing.get("id")))


def markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown; items of a list follow each other, all else is a paragraph of its own."""
    pieces: list[str] = []
    for position, block in enumerate(blocks):
        text = _one(block)
        if not text:
            continue
        tight = position and block.kind in _LISTED and blocks[position - 1].kind == block.kind
        pieces.append(("\n" if tight else "\n\n") + text)
    return "".join(pieces).strip("\n")


def _one(block: Block) -> str:
    text, inner = rich_text(block.content.get("rich_text")), markdown(block.children)
    if block.kind in _LISTED:
        return _item(block, text, inner)
    if block.kind.startswith("heading_"):
        level = block.kind.removeprefix("heading_")
        return _joined(f"{'#' * (int(level) if level.isdigit() else 4)} {' '.join(text.split())}", inner)
    if block.kind in ("quote", "callout"):
        return "\n".join(f"> {line}".rstrip() for line in _joined(text, inner).split("\n"))
    if block.kind == "table":
        return _table(block)
    if block.kind == "code":
        return _code(block.content)
    return _joined(text or _other(block), inner)


def _item(block: Block, text: str, inner: str) -> str:
    mark = _LISTED[block.kind]
    if block.kind == "to_do":
        mark += "[x] " if block.content.get("checked") else "[ ] "
    indent = "   " if block.kind == "numbered_list_item" else "  "
    lines = [*text.split("\n"), *(inner.split("\n") if inner else ())]
    return mark + "\n".join(indent + line if number and line else line for number, line in enumerate(lines))


def _other(block: Block) -> str:
    """Return a block that is more than its text."""
    content, kind = block.content, block.kind
    caption = rich_text(content.get("caption"))
    if kind == "divider":
        return "---"
    if kind == "equation":
        return f"$$\n{content.get('expression', '')}\n$$"
    if kind in _FILES:
        return _file(content, caption or str(content.get("name") or kind))
    if kind in _LINKS:
        address = str(content.get("url") or "")
        return f"[{caption or address}]({address})" if address else caption
    if kind in ("child_page", "child_database"):
        return page_link(str(content.get("title") or kind), block.id)
    if kind == "link_to_page":
        target = plain_id(content.get(str(content.get("type") or "page_id")))
        return page_link("Page", target) if target else ""
    return ""


def _file(content: Mapping[str, Any], name: str) -> str:
    external = content.get("external")
    address = str(external.get("url") or "") if isinstance(external, Mapping) else ""
    return f"[{name}]({address})" if address else f"[{name}]"


def page_link(title: str, page: str) -> str:
    """Return a link to a page of Notion."""
    return f"[{title}](https://www.notion.so/{page})"


def _table(block: Block) -> str:
    rows = [[_cell(cell) for cell in child.content.get("cells") or ()] for child in block.children]
    if not rows:
        return ""
    width = max(map(len, rows))
    lines = ["| " + " | ".join((*row, *[""] * (width - len(row)))) + " |" for row in rows]
    return "\n".join((lines[0], "|" + " --- |" * width, *lines[1:]))


def _cell(value: Any) -> str:
    return " ".join(rich_text(value).split()).replace("|", "\\|")


def _joined(text: str, inner: str) -> str:
    return "\n\n".join(part for part in (text, inner) if part)


def rich_text(pieces: Any) -> str:
    """Return a text with its marks as Markdown."""
    if not isinstance(pieces, Iterable) or isinstance(pieces, str | Mapping):
        return ""
    return "".join(_piece(piece) for piece in pieces if isinstance(piece, Mapping))


def _piece(piece: Mapping[str, Any]) -> str:
    text = str(piece.get("plain_text") or "")
    if piece.get("type") == "equation":
        return f"${text}$"
    marks = piece.get("annotations")
    shown = _marked(text, marks if isinstance(marks, Mapping) else {})
    address = piece.get("href")
    if not isinstance(address, str) or not text.strip():
        return shown
    return f"[{shown}]({'https://www.notion.so' + address if address.startswith('/') else address})"


def _marked(text: str, marks: Mapping[str, Any]) -> str:
    """Return a text between its marks; blanks at its ends stay outside, where Markdown needs them."""
    bare = text.strip()
    if not bare:
        return text
    before, _, after = text.partition(bare)
    for name, mark in (("code", "`"), ("bold", "**"), ("italic", "*"), ("strikethrough", "~~")):
        bare = f"{mark}{bare}{mark}" if marks.get(name) else bare
    return before + bare + after


def _code(content: Mapping[str, Any]) -> str:
    """Return a block of code."""
    plain = "".join(str(piece.get("plain_text") or "") for piece in content.get("rich_text") or ())
    language = str(content.get("language") or "").replace("plain text", "")
    return fenced(plain, language.replace(" ", "-")).rstrip("\n")
