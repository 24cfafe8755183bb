"""The text side of edits: which characters of a YAML document to replace by which, and no others."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.core.yaml import Layout, Node
from ktx_cli.project.edit_data import CannotEdit, Edit, Path

_BREAK = re.compile(r"\r\n?|\n")
_BLANK_OR_COMMENTS = re.compile(r"(?:[ \t\r\n]+|#[^\r\n]*)*")
_PROPERTIES = re.compile(r"(?:[&!][^ \t\r\n]*[ \t\r\n]+)*")
_COLON = re.compile(r"[ \t]*:")
_COMMENT = re.compile(r"[ \t]+#.*")
_SIBLINGS = 20
"""How many blocks of a mapping are looked at for how it indents."""


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace the characters from `start` up to `end` by `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where a node hangs: entry or item `index` of the last of `above`, which is empty for the root."""

    node: Node
    above: tuple[Node, ...] = ()
    index: int = 0

    @property
    def parent(self) -> Node | None:
        """The collection that holds the node."""
        return self.above[-1] if self.above else None


class Document:
    """A parsed text that says what to splice for an edit.

    `text` is without byte order mark.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.root = yaml.compose(text, where=where)
        found = _BREAK.search(text)
        self.newline = found.group() if found else "\n"
        self.layout = _layout_of(self.root)

    def write_no_literals(self) -> None:
        """From now on write multi-line texts in double quotes: a literal block could swallow what follows."""
        self.layout = replace(self.layout, literals=False)

    def spliced(self, edits: Sequence[Edit]) -> str:
        """Return the text with all edits made at once; `CannotEdit` when their places overlap."""
        splices = sorted((self.splice(edit) for edit in edits), key=lambda splice: (splice.start, splice.end))
        pieces: list[str] = []
        place = 0
        for splice in splices:
            if splice.start < place:
                raise CannotEdit("two edits change the same characters")
            pieces += (self.text[place : splice.start], splice.text)
            place = splice.end
        return "".join([*pieces, self.text[place:]])

    def splice(self, edit: Edit) -> Splice:
        """Return the splice of a `set`, `delete` or `insert`; `CannotEdit` where there is no safe place."""
        if edit.op == "set":
            return self._set(edit.path, edit.value)
        slot = self._find(edit.path[:-1])
        last = edit.path[-1]
        if edit.op == "delete":
            return self._delete(slot, self._index(slot.node, last))
        if slot.node.kind == "sequence" and isinstance(last, int) and 0 <= last <= len(slot.node.items):
            return self._insert_items(slot, last, edit.value)
        raise CannotEdit(f"there is no list with a place {last}")

    def _find(self, path: Path) -> _Slot:
        if self.root is None:
            raise CannotEdit("the document is empty")
        slot = _Slot(self.root)
        for step in path:
            slot = self._child(slot, self._index(slot.node, step))
        return slot

    def _child(self, slot: _Slot, index: int) -> _Slot:
        node = slot.node
        child = node.pairs[index][1] if node.kind == "mapping" else node.items[index]
        return _Slot(child, (*slot.above, node), index)

    def _index(self, node: Node, step: str | int) -> int:
        index = self._index_or_none(node, step)
        if index is None:
            raise CannotEdit(f"{step!r} is not there")
        return index

    def _index_or_none(self, node: Node, step: str | int) -> int | None:
        """Return the index of an entry or item, None for a key a mapping does not have."""
        if node.kind == "alias":
            raise CannotEdit(f"the path goes through the alias *{node.value}")
        if node.kind == "sequence" and isinstance(step, int) and 0 <= step < len(node.items):
            return step
        if node.kind != "mapping":
            raise CannotEdit(f"the path goes through a {node.kind}, which has no {step!r}")
        for index, (key, _) in enumerate(node.pairs):
            if key.kind == "scalar" and key.value == step and type(key.value) is type(step):
                return index
        return None

    # -- set ---------------------------------------------------------------------------------------------------

    def _set(self, path: Path, value: Any) -> Splice:
        if self.root is None:
            return self._fill(_nested(path, value), 0)
        slot = _Slot(self.root)
        for depth, step in enumerate(path):
            node = slot.node
            if node.kind == "scalar" and node.value is None:
                return self._replace(slot, _nested(path[depth:], value))
            index = self._index_or_none(node, step)
            if index is None:
                return self._insert_entry(slot, step, _nested(path[depth + 1 :], value))
            slot = self._child(slot, index)
        return self._replace(slot, value)

    def _replace(self, slot: _Slot, value: Any) -> Splice:
        node, parent = slot.node, slot.parent
        if parent is None:
            return self._replace_root(node, value)
        if parent.flow:
            return self._replace_in_flow(slot, value)
        if parent.kind == "mapping":
            key = self._plain_key(parent, slot.index)
            written = yaml.write_value(value, key.column, self._layout(slot.above))
            return self._replace_in_block(node, self._colon(key), written, key.column)
        dash = self._dash(parent, slot.index)
        written = yaml.write_item(value, self._column(dash), self._layout(slot.above))[1:]
        return self._replace_in_block(node, dash + 1, written, self._column(dash))

    def _replace_in_block(self, node: Node, header: int, written: str, column: int) -> Splice:
        """Replace what follows a colon or dash that ends at `header`; a comment on that line stays."""
        first, _, rest = written.partition("\n")
        on_header_line = _BREAK.search(self.text, header, node.start) is None
        if on_header_line and not _is_block(node):
            if not rest:
                empty = node.start == node.end
                return Splice(header, header, first) if empty else Splice(node.start, node.end, first[1:])
            end = self._line_end(node.end)
            comment = self.text[node.end : end]
        else:
            end = self._line_end(self._end(node))
            comment = self._header_comment(node, header, on_header_line)
        comment = comment.rstrip()
        return Splice(header, end, self._lines(first + comment + ("\n" + rest if rest else "")))

    def _header_comment(self, node: Node, header: int, on_header_line: bool) -> str:
        """Return the comment between a colon or dash and the block below it, with the blanks before it."""
        if not on_header_line:
            return self.text[header : self._line_end(header)]
        if node.kind != "scalar":
            return ""
        found = _COMMENT.search(self.text, node.start, self._line_end(node.start))
        return found.group() if found else ""

    def _replace_in_flow(self, slot: _Slot, value: Any) -> Splice:
        node, parent = slot.node, slot.parent
        written = yaml.flow([value])[1:-1]
        if node.start != node.end:
            return Splice(node.start, node.end, written)
        assert parent is not None
        key = parent.pairs[slot.index][0]
        return Splice(node.end, node.end, (" " if ":" in self.text[key.end : node.end] else ": ") + written)

    def _replace_root(self, node: Node, value: Any) -> Splice:
        written = self._lines(self._dump(value))
        if node.start == node.end:
            return self._fill(value, node.end)
        end = self._line_end(self._end(node)) if _is_block(node) else node.end
        behind_marker = self.text[self._line_start(node.start) : node.start].strip()
        return Splice(node.start, end, (self.newline if behind_marker else "") + written)

    def _fill(self, value: Any, start: int) -> Splice:
        """Write the value of a document that has none yet behind its comments."""
        if _BLANK_OR_COMMENTS.fullmatch(self.text, start) is None:
            raise CannotEdit("the document is empty and ends with '...'")
        before = self.text[start:]
        complete = not before or before.endswith(("\n", "\r"))
        written = self._lines(self._dump(value))
        end = len(self.text)
        return Splice(end, end, written + self.newline if complete else self.newline + written)

    def _dump(self, value: Any) -> str:
        if isinstance(value, dict) and value:
            return "\n".join(yaml.write_entry(key, item, 0, self.layout) for key, item in value.items())
        if isinstance(value, list | tuple) and value:
            return "\n".join(yaml.write_item(item, 0, self.layout) for item in value)
        return yaml.flow(value)

    # -- insert ------------------------------------------------------------------------------------------------

    def _insert_entry(self, slot: _Slot, key: Any, value: Any) -> Splice:
        node = slot.node
        if node.flow:
            written = yaml.flow({key: value})[1:-1]
            return self._insert_in_flow(slot, [max(k.end, v.end) for k, v in node.pairs], written, {key: value})
        first = self._plain_key(node, 0)
        end = self._line_end(self._pair_end(node.pairs[-1]))
        written = yaml.write_entry(key, value, first.column, self._layout((*slot.above, node)))
        return Splice(end, end, self._lines("\n" + " " * first.column + written))

    def _insert_items(self, slot: _Slot, index: int, values: list[Any]) -> Splice:
        node = slot.node
        if node.flow:
            written = yaml.flow(values)[1:-1]
            if index == 0 and node.items:
                return Splice(node.items[0].start, node.items[0].start, written + ", ")
            return self._insert_in_flow(slot, [item.end for item in node.items[:index]], written, values)
        first = self._dash(node, 0)
        margin = "\n" + " " * self._column(first)
        layout = self._layout((*slot.above, node))
        items = [yaml.write_item(value, self._column(first), layout) for value in values]
        if index == 0:
            return Splice(first, first, self._lines("".join(item + margin for item in items)))
        end = self._line_end(self._end(node.items[index - 1]))
        return Splice(end, end, self._lines("".join(margin + item for item in items)))

    def _insert_in_flow(self, slot: _Slot, ends: list[int], written: str, alone: Any) -> Splice:
        """Insert behind the entries that end at `ends`; `alone` is the value when there are none."""
        node = slot.node
        self._check_brackets(node)
        if ends:
            return Splice(ends[-1], ends[-1], ", " + written)
        if slot.parent is None or not slot.parent.flow:
            return self._replace(slot, alone)
        return Splice(node.end - 1, node.end - 1, written)

    # -- delete ------------------------------------------------------------------------------------------------

    def _delete(self, slot: _Slot, index: int) -> Splice:
        node = slot.node
        if node.flow:
            return self._delete_in_flow(node, index)
        mapping = node.kind == "mapping"
        count = len(node.pairs) if mapping else len(node.items)
        if count == 1:
            return self._replace(slot, {} if mapping else [])
        begin = self._begin(node, index)
        end = self._line_end(self._pair_end(node.pairs[index]) if mapping else self._end(node.items[index]))
        line = self._line_start(begin)
        if not self.text[line:begin].strip():
            return self._delete_lines(line, end)
        if index:
            raise CannotEdit("the entry does not begin on a line of its own")
        # The first of a compact block (`- a: 1`): the next takes its place, or goes below where comments precede it.
        follower = self._begin(node, 1)
        if not self.text[end:follower].strip():
            return Splice(begin, follower, "")
        return Splice(line + len(self.text[line:begin].rstrip()), end, "")

    def _begin(self, node: Node, index: int) -> int:
        return self._plain_key(node, index).start if node.kind == "mapping" else self._dash(node, index)

    def _delete_lines(self, start: int, end: int) -> Splice:
        """Delete the lines from `start` to the line end `end`, at the end of a text the break before them."""
        found = _BREAK.match(self.text, end)
        if found:
            return Splice(start, found.end(), "")
        for length in (2, 1):
            if _BREAK.fullmatch(self.text, max(start - length, 0), start):
                return Splice(start - length, end, "")
        return Splice(start, end, "")

    def _delete_in_flow(self, node: Node, index: int) -> Splice:
        self._check_brackets(node)
        spans = [(k.start, max(k.end, v.end)) for k, v in node.pairs] or [(i.start, i.end) for i in node.items]
        start, end = spans[index]
        if self.text[:start].rstrip(" \t\r\n").endswith("?"):
            raise CannotEdit("the entry has an explicit key ('? ')")
        if len(spans) == 1:
            return Splice(start, node.end - 1, "")
        if index + 1 < len(spans) and "#" not in self.text[end : spans[index + 1][0]]:
            return Splice(start, spans[index + 1][0], "")
        if index and index + 1 == len(spans) and "#" not in self.text[spans[index - 1][1] : start]:
            return Splice(spans[index - 1][1], end, "")
        comma = _skip_blank(self.text, end)
        return Splice(start, comma + 1 if self.text[comma] == "," else end, "")

    # -- places ------------------------------------------------------------------------------------------------

    def _plain_key(self, mapping: Node, index: int) -> Node:
        """Return the key node of an entry of a block mapping; refuse `? key` and other rare forms."""
        key = mapping.pairs[index][0]
        line = self._line_start(key.start)
        begins = mapping.tag is not None or mapping.anchor is not None or mapping.start == mapping.pairs[0][0].start
        if not begins or key.column != mapping.pairs[0][0].column or "?" in self.text[line : key.start]:
            raise CannotEdit("the mapping has an explicit key ('? ')")
        return key

    def _colon(self, key: Node) -> int:
        """Return the index behind a block entry's colon."""
        found = _COLON.match(self.text, key.end)
        if found is None:
            raise CannotEdit("there is no colon directly behind the key")
        return found.end()

    def _dash(self, sequence: Node, index: int) -> int:
        """Return the index of the dash of a block sequence's item."""
        if index:
            place = self._end(sequence.items[index - 1])
        else:
            found = _PROPERTIES.match(self.text, sequence.start)
            place = found.end() if found else sequence.start
        place = _skip_blank(self.text, place)
        if self.text[place : place + 1] != "-":
            raise CannotEdit("the item's dash cannot be found")
        return place

    def _check_brackets(self, node: Node) -> None:
        if self.text[node.end - 1] not in "]}":
            raise CannotEdit("the mapping stands in a list without braces of its own")

    def _end(self, node: Node) -> int:
        """Return where a node's own text ends: without the comments and blank lines below a block."""
        if node.kind == "mapping" and not node.flow:
            return self._pair_end(node.pairs[-1])
        if node.kind == "sequence" and not node.flow:
            return self._end(node.items[-1])
        if not node.style or node.style not in "|>":
            return node.end
        header = self.text[node.start : self._line_end(node.start)].partition("#")[0]
        body = self.text[node.start : node.end]
        if "+" in header:
            return node.end - (len(body) - len(_without_break(body)))
        return node.start + len(body.rstrip())

    def _pair_end(self, pair: tuple[Node, Node]) -> int:
        return max(pair[0].end, self._end(pair[1]))

    def _layout(self, above: Sequence[Node]) -> Layout:
        """Return how the nearest of the collections `above` a place indents, else how the document does."""
        found: dict[str, int] = {}
        for node in reversed(above):
            for kind, columns in itertools.islice(_indents(node), _SIBLINGS):
                found.setdefault(kind, columns)
        return _layout(found, self.layout)

    def _line_end(self, index: int) -> int:
        found = _BREAK.search(self.text, index)
        return found.start() if found else len(self.text)

    def _line_start(self, index: int) -> int:
        return max(self.text.rfind("\n", 0, index), self.text.rfind("\r", 0, index)) + 1

    def _column(self, index: int) -> int:
        return index - self._line_start(index)

    def _lines(self, text: str) -> str:
        return text.replace("\n", self.newline)


def _nested(path: Path, value: Any) -> Any:
    for step in reversed(path):
        if isinstance(step, int):
            raise CannotEdit(f"there is no list with an item {step}")
        value = {step: value}
    return value


def _is_block(node: Node) -> bool:
    return not node.flow if node.kind in ("mapping", "sequence") else bool(node.style) and node.style in "|>"


def _skip_blank(text: str, index: int) -> int:
    found = _BLANK_OR_COMMENTS.match(text, index)
    return found.end() if found else index


def _without_break(text: str) -> str:
    return text[:-2] if text.endswith("\r\n") else text[:-1] if text.endswith(("\n", "\r")) else text


def _indents(mapping: Node) -> Iterator[tuple[str, int]]:
    """Yield the columns from the mapping's keys to the blocks below them."""
    for key, value in mapping.pairs:
        if not mapping.flow and _is_block(value) and value.line != key.line and value.kind != "scalar":
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
