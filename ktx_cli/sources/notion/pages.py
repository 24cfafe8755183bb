"""The blocks of a Notion page, read as a tree of limited size and written as Markdown.

Addresses that Notion signs for an hour are omitted, because they would change the page at every fetch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import SourceError
from ktx_cli.documents import fenced, with_front_matter
from ktx_cli.sources.fetch import PageTokens, entries
from ktx_cli.sources.http import HttpAuthError, HttpClient, HttpStatusError

MAX_DEPTH: Final = 10
MAX_BLOCKS: Final = 2_000

_LISTED: Final = {"bulleted_list_item": "- ", "numbered_list_item": "1. ", "to_do": "- ", "toggle": "- "}
_FILES: Final = frozenset(("image", "video", "file", "pdf", "audio"))
_LINKS: Final = frozenset(("bookmark", "embed", "link_preview"))


@dataclass(slots=True)
class Block:
    """A block with its children."""

    kind: str
    content: Mapping[str, Any]
    id: str = ""
    children: list[Block] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """A page's blocks. `pages`, `databases`: their IDs. `cut`: why blocks are missing, or an empty string."""

    blocks: list[Block] = field(default_factory=list)
    pages: list[str] = field(default_factory=list)
    databases: list[str] = field(default_factory=list)
    cut: str = ""
    count: int = 0


def read_tree(api: NotionApi, page: str) -> Tree:
    """Return the blocks of a page in order, up to `MAX_BLOCKS` blocks and `MAX_DEPTH` levels."""
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
            tree.cut = tree.cut or f"its blocks are nested more than {MAX_DEPTH} levels deep"


def _block(thing: Thing) -> Block:
    kind = str(thing.get("type") or "unsupported")
    content = thing.get(kind)
    return Block(kind, content if isinstance(content, Mapping) else {}, plain_id(thing.get("id")))


def markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as Markdown. List items follow each other; everything else is a separate paragraph."""
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
    """Return a block that contains more than text."""
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
    """Return a link to a Notion page."""
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
    """Return rich text as Markdown."""
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
    """Return text between Markdown marks; leading and trailing blanks stay outside, as Markdown requires."""
    bare = text.strip()
    if not bare:
        return text
    before, _, after = text.partition(bare)
    for name, mark in (("code", "`"), ("bold", "**"), ("italic", "*"), ("strikethrough", "~~")):
        bare = f"{mark}{bare}{mark}" if marks.get(name) else bare
    return before + bare + after


def _code(content: Mapping[str, Any]) -> str:
    """Return a code block."""
    plain = "".join(str(piece.get("plain_text") or "") for piece in content.get("rich_text") or ())
    language = str(content.get("language") or "").replace("plain text", "")
    return fenced(plain, language.replace(" ", "-")).rstrip("\n")


_VOLATILE: Final = frozenset(("last_edited_time", "last_edited_by", "button", "verification"))
_PARENT: Final = re.compile(rb"^parent: \"?([0-9a-f]{32})\"?$", re.MULTILINE)
_HEAD_BYTES: Final = 4_000


def page_path(page: str) -> str:
    """Return the path of a page's raw file."""
    return f"pages/{page}.md"


def data_source_path(data_source: str) -> str:
    """Return the path of a data source's raw file."""
    return f"data-sources/{data_source}.md"


def parent_in(content: bytes) -> str:
    """Return the parent in a file that ktx wrote, or an empty string."""
    found = _PARENT.search(content[:_HEAD_BYTES])
    return found[1].decode() if found else ""


def page_file(page: Thing, parent: str, tree: Tree) -> bytes:
    """Return a page's raw file."""
    front = {
        "id": plain_id(page.get("id")),
        "title": title_of(page),
        "url": _address(page),
        "parent": parent or None,
        "properties": _properties(page),
    }
    body = markdown(tree.blocks)
    if tree.cut:
        body += f"\n\n*The rest of the page was not read: {tree.cut}.*"
    return with_front_matter(_given(front), body)


def data_source_file(source: Thing, parent: str) -> bytes:
    """Return a data source's raw file: its description, and a table of its rows' properties."""
    title = rich_text(source.get("title")) or str(source.get("name") or "")
    front = {"id": plain_id(source.get("id")), "title": title, "url": _address(source), "parent": parent or None}
    lines = ["| property | type | values |", "| --- | --- | --- |"]
    declared = source.get("properties")
    for name, each in sorted(declared.items()) if isinstance(declared, Mapping) else ():
        lines.append(f"| {_cell_text(name)} | {_cell_text(each.get('type'))} | {_cell_text(_options(each))} |")
    return with_front_matter(_given(front), "\n\n".join((rich_text(source.get("description")), "\n".join(lines))))


def title_of(page: Thing) -> str:
    """Return a page's title, on one line."""
    for value in _declared(page).values():
        if value.get("type") == "title":
            return " ".join("".join(_plain(value.get("title"))).split()) or "Untitled"
    return "Untitled"


def _declared(page: Thing) -> Mapping[str, Mapping[str, Any]]:
    found = page.get("properties")
    return {str(k): v for k, v in found.items() if isinstance(v, Mapping)} if isinstance(found, Mapping) else {}


def _properties(page: Thing) -> dict[str, Any]:
    """Return the properties of a page by name, except volatile and empty ones."""
    found = {name: _value(each) for name, each in sorted(_declared(page).items()) if each.get("type") != "title"}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def _value(declared: Mapping[str, Any]) -> Any:
    kind = str(declared.get("type"))
    value = declared.get(kind)
    if kind in _VOLATILE or value is None:
        return None
    if kind == "rich_text":
        return rich_text(value)
    if isinstance(value, list):
        return [name for item in value if (name := _name(item))]
    return _simple(kind, value)


def _simple(kind: str, value: Any) -> Any:
    """Return a value that is not a list; for a formula or rollup, its result."""
    if not isinstance(value, Mapping):
        return value
    if kind in ("formula", "rollup"):
        return _value(value)
    if kind == "date":
        return " to ".join(str(value[end]) for end in ("start", "end") if value.get(end))
    if kind == "unique_id":
        return "-".join(str(value[part]) for part in ("prefix", "number") if value.get(part) is not None)
    return _name(value)


def _name(item: Any) -> Any:
    """Return the name of an option, a person, a file, a related page, or one value in a rollup."""
    if not isinstance(item, Mapping):
        return item
    if "type" in item and item["type"] in item and item["type"] not in ("file", "external", "person", "bot"):
        return _value(item) or "".join(_plain(item.get("title")))
    return item.get("name") or plain_id(item.get("id")) or None


def _plain(pieces: Any) -> list[str]:
    if not isinstance(pieces, list):
        return []
    return [str(piece.get("plain_text") or "") for piece in pieces if isinstance(piece, Mapping)]


def _options(declared: Mapping[str, Any]) -> str:
    content = declared.get(str(declared.get("type")))
    options = content.get("options") if isinstance(content, Mapping) else None
    return ", ".join(str(option.get("name")) for option in options or () if isinstance(option, Mapping))


def _cell_text(value: Any) -> str:
    return " ".join(str(value or "").split()).replace("|", "\\|")


def _address(thing: Thing) -> str | None:
    address = thing.get("url")
    return address if isinstance(address, str) else None


def _given(front: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in front.items() if value not in (None, {})}


ADDRESS: Final = "https://api.notion.com"
VERSION: Final = "2025-09-03"
_PAGE_SIZE: Final = 100
_NOT_SEEN: Final = (400, 403, 404)

Thing = Mapping[str, Any]


def plain_id(value: object) -> str:
    """Return an id in any form (with dashes, at the end of a URL) as 32 hex digits, or an empty string."""
    found = re.findall(r"[0-9a-f]{32}", str(value or "").lower().replace("-", ""))
    return found[-1] if found else ""


class NotionApi:
    """Notion API objects. A `get` returns None if the object does not exist or the token cannot read it."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def account(self) -> str:
        """Return the name of the token's owner."""
        return str(_mapping(self._client.get("v1/users/me")).get("name") or "an integration without a name")

    def page(self, page: str) -> Thing | None:
        """Return a page."""
        return self._get(f"v1/pages/{page}")

    def database(self, database: str) -> Thing | None:
        """Return a database, which lists its data sources."""
        return self._get(f"v1/databases/{database}")

    def data_source(self, data_source: str) -> Thing | None:
        """Return a data source, including its rows' properties."""
        return self._get(f"v1/data_sources/{data_source}")

    def block(self, block: str) -> Thing | None:
        """Return a block without its children."""
        return self._get(f"v1/blocks/{block}")

    def children(self, block: str) -> Iterator[Thing]:
        """Yield the blocks in a block or page, in order."""
        return self._listed("GET", f"v1/blocks/{block}/children", {})

    def rows(self, data_source: str) -> Iterator[Thing]:
        """Yield a data source's rows, which are pages."""
        return self._listed("POST", f"v1/data_sources/{data_source}/query", {})

    def accessible(self, kind: str) -> Iterator[Thing]:
        """Yield all objects of a kind (`page` or `data_source`) that the token can read."""
        return self._listed("POST", "v1/search", {"filter": {"property": "object", "value": kind}})

    def _get(self, path: str) -> Thing | None:
        try:
            return _mapping(self._client.get(path))
        except (HttpStatusError, HttpAuthError) as error:
            if error.status in _NOT_SEEN:
                return None
            raise

    def _listed(self, method: str, path: str, body: Mapping[str, Any]) -> Iterator[Thing]:
        tokens, cursor = PageTokens("Notion"), None
        while True:
            asked = {"page_size": _PAGE_SIZE, **({"start_cursor": cursor} if cursor else {})}
            answer = self._client.get(path, asked) if method == "GET" else self._client.post(path, {**body, **asked})
            listed = _mapping(answer)
            yield from entries(listed, "results", "Notion", f"{method} /{path}")
            following = listed.get("next_cursor")
            if not listed.get("has_more"):
                return
            if not following:
                raise SourceError("Notion returned only a part of a list", hint="retry later")
            cursor = tokens.following(following)


def _mapping(answer: Any) -> Thing:
    if not isinstance(answer, Mapping):
        raise SourceError("Notion returned a response that is not a JSON object", hint="retry later")
    return answer
