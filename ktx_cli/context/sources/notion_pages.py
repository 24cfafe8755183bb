"""The raw files of Notion: a page with its properties, a data source with what its rows have."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.documents.markdown_text import with_front_matter
from ktx_cli.context.sources.notion_api import Thing, plain_id
from ktx_cli.context.sources.notion_blocks import Tree, markdown, rich_text

_VOLATILE: Final = frozenset(("last_edited_time", "last_edited_by", "button", "verification"))
_PARENT: Final = re.compile(rb"^parent: \"?([0-9a-f]{32})\"?$", re.MULTILINE)
_HEAD_BYTES: Final = 4_000


def page_path(page: str) -> str:
    """Return the path of a page's file."""
    return f"pages/{page}.md"


def data_source_path(data_source: str) -> str:
    """Return the path of a data source's file."""
    return f"data-sources/{data_source}.md"


def parent_in(content: bytes) -> str:
    """Return the parent that a file of ours names, empty for none."""
    found = _PARENT.search(content[:_HEAD_BYTES])
    return found[1].decode() if found else ""


def page_file(page: Thing, parent: str, tree: Tree) -> bytes:
    """Return the file of a page."""
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
    """Return the file of a data source: its description, and a table of what its rows have."""
    title = rich_text(source.get("title")) or str(source.get("name") or "")
    front = {"id": plain_id(source.get("id")), "title": title, "url": _address(source), "parent": parent or None}
    lines = ["| property | type | values |", "| --- | --- | --- |"]
    declared = source.get("properties")
    for name, each in sorted(declared.items()) if isinstance(declared, Mapping) else ():
        lines.append(f"| {_cell(name)} | {_cell(each.get('type'))} | {_cell(_options(each))} |")
    return with_front_matter(_given(front), "\n\n".join((rich_text(source.get("description")), "\n".join(lines))))


def title_of(page: Thing) -> str:
    """Return a page's title, in one line."""
    for value in _declared(page).values():
        if value.get("type") == "title":
            return " ".join("".join(_plain(value.get("title"))).split()) or "Untitled"
    return "Untitled"


def _declared(page: Thing) -> Mapping[str, Mapping[str, Any]]:
    found = page.get("properties")
    return {str(k): v for k, v in found.items() if isinstance(v, Mapping)} if isinstance(found, Mapping) else {}


def _properties(page: Thing) -> dict[str, Any]:
    """Return what a page says of itself, without what changes by itself and what is empty; by name."""
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
    """Return a value that is no list: of a formula and a rollup what came out."""
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
    """Return what a choice, a person, a file, a related page or one value of a rollup is called."""
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


def _cell(value: Any) -> str:
    return " ".join(str(value or "").split()).replace("|", "\\|")


def _address(thing: Thing) -> str | None:
    address = thing.get("url")
    return address if isinstance(address, str) else None


def _given(front: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in front.items() if value not in (None, {})}
