"""Where things stand in a YAML text: ends of nodes, colons, dashes, lines, and how the document indents."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ktx_cli.core import yaml
from ktx_cli.core.yaml import Layout, Node
from ktx_cli.project.edit_data import CannotEdit

BREAK = re.compile(r"\r\n?|\n")
_BLANK_OR_COMMENTS = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_PROPERTIES = re.compile(r"(?:[&!][^ \t\r\n]*+[ \t\r\n]++)*+")
_COLON = re.compile(r"[ \t]*:")
_SIBLINGS = 20
"""How many blocks of a mapping are looked at for how it indents."""


class Places:
    """A parsed text and the places in it.

    `text` is without byte order mark, `root` None for an empty document; `newline` is the text's own line break,
    `layout` how it indents.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.root = yaml.compose(text, where=where)
        found = BREAK.search(text)
        self.newline = found.group() if found else "\n"
        self.layout = _layout_of(self.root)

    def plain_key(self, mapping: Node, index: int) -> Node:
        """Return the key node of an entry of a block mapping; refuse `? key` and other rare forms."""
        key = mapping.pairs[index][0]
        line = self.line_start(key.start)
        begins = mapping.tag is not None or mapping.anchor is not None or mapping.start == mapping.pairs[0][0].start
        if not begins or key.column != mapping.pairs[0][0].column or "?" in self.text[line : key.start]:
            raise CannotEdit("the mapping has an explicit key ('? ')")
        return key

    def colon(self, key: Node) -> int:
        """Return the index behind a block entry's colon."""
        found = _COLON.match(self.text, key.end)
        if found is None:
            raise CannotEdit("there is no colon directly behind the key")
        return found.end()

    def dash(self, sequence: Node, index: int) -> int:
        """Return the index of the dash of a block sequence's item."""
        if index:
            place = self.end(sequence.items[index - 1])
        else:
            found = _PROPERTIES.match(self.text, sequence.start)
            place = found.end() if found else sequence.start
        place = skip_blank(self.text, place)
        if self.text[place : place + 1] != "-":
            raise CannotEdit("the item's dash cannot be found")
        return place

    def check_brackets(self, node: Node) -> None:
        """Refuse a flow mapping without braces (`[a: 1]`)."""
        if self.text[node.end - 1] not in "]}":
            raise CannotEdit("the mapping stands in a list without braces of its own")

    def end(self, node: Node) -> int:
        """Return where a node's own text ends: without the comments and blank lines below a block."""
        if node.kind == "mapping" and not node.flow:
            return self.pair_end(node.pairs[-1])
        if node.kind == "sequence" and not node.flow:
            return self.end(node.items[-1])
        if not node.style or node.style not in "|>":
            return node.end
        header = self.text[node.start : self.line_end(node.start)].partition("#")[0]
        body = self.text[node.start : node.end]
        if "+" in header:
            return node.end - (len(body) - len(_without_break(body)))
        return node.start + len(body.rstrip(" \t\r\n"))

    def pair_end(self, pair: tuple[Node, Node]) -> int:
        """Return where an entry's own text ends."""
        return max(pair[0].end, self.end(pair[1]))

    def layout_below(self, above: Sequence[Node]) -> Layout:
        """Return how the nearest of the collections `above` a place indents, else how the document does."""
        found: dict[str, int] = {}
        for node in reversed(above):
            for kind, columns in itertools.islice(_indents(node), _SIBLINGS):
                found.setdefault(kind, columns)
        return _layout(found, self.layout)

    def line_end(self, index: int) -> int:
        """Return where the line of `index` ends, before its break."""
        found = BREAK.search(self.text, index)
        return found.start() if found else len(self.text)

    def line_start(self, index: int) -> int:
        """Return where the line of `index` begins."""
        return max(self.text.rfind("\n", 0, index), self.text.rfind("\r", 0, index)) + 1

    def column(self, index: int) -> int:
        """Return the column of `index`, counted from 0."""
        return index - self.line_start(index)


def is_block(node: Node) -> bool:
    """Say whether the node is a block collection or a block scalar."""
    return not node.flow if node.kind in ("mapping", "sequence") else bool(node.style) and node.style in "|>"


def is_blank(text: str, start: int) -> bool:
    """Say whether nothing but blanks and comments stands from `start` on."""
    return skip_blank(text, start) == len(text)


def skip_blank(text: str, index: int) -> int:
    """Return the place behind blanks, breaks and comments."""
    found = _BLANK_OR_COMMENTS.match(text, index)
    return found.end() if found else index


def _without_break(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith(("\n", "\r")) else text


def _indents(mapping: Node) -> Iterator[tuple[str, int]]:
    """Yield the columns from the mapping's keys to the blocks below them."""
    for key, value in mapping.pairs:
        if not mapping.flow and is_block(value) and value.line != key.line and value.kind != "scalar":
            yield ("step" if value.kind == "mapping" else "offset"), value.column - key.column


def _layout_of(root: Node | None) -> Layout:
    """Return how the document indents, by its first nested mapping and its first list below a key."""
    found: dict[str, int] = {}
    todo = [root] if root is not None else []
    while todo and len(found) < 2:
        node = todo.pop()
        for kind, columns in _indents(node):
            found.setdefault(kind, columns)
        todo += reversed([value for _, value in node.pairs] + node.items)
    return _layout(found, None)


def _layout(found: dict[str, int], default: Layout | None) -> Layout:
    """Return the layout with the columns found, as far as a writer can use them."""
    if default is None:
        default = Layout(2, found.get("step", 2))
    step, offset = found.get("step", default.step), found.get("offset", default.offset)
    return replace(default, step=min(max(step, 1), 8), offset=min(max(offset, 0), 8))
