"""The text side of edits: which characters of a YAML document to replace by which, and no others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.core.yaml import Node
from ktx_cli.project.edit_data import CannotEdit, Edit, Path
from ktx_cli.project.edit_places import BREAK, Places, is_blank, is_block, skip_blank

_COMMENT = re.compile(r"[ \t]+#.*")


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


class Document(Places):
    """A parsed text that says what to splice for an edit."""

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
            key = self.plain_key(parent, slot.index)
            written = yaml.write_value(value, key.column, self.layout_below(slot.above))
            return self._replace_in_block(node, self.colon(key), written, key.column)
        dash = self.dash(parent, slot.index)
        written = yaml.write_item(value, self.column(dash), self.layout_below(slot.above))[1:]
        return self._replace_in_block(node, dash + 1, written, self.column(dash))

    def _replace_in_block(self, node: Node, header: int, written: str, column: int) -> Splice:
        """Replace what follows a colon or dash that ends at `header`; a comment on that line stays."""
        first, _, rest = written.partition("\n")
        on_header_line = BREAK.search(self.text, header, node.start) is None
        if on_header_line and not is_block(node):
            if not rest:
                empty = node.start == node.end
                return Splice(header, header, first) if empty else Splice(node.start, node.end, first[1:])
            end = self.line_end(node.end)
            comment = self.text[node.end : end]
        else:
            end = self.line_end(self.end(node))
            comment = self._header_comment(node, header, on_header_line)
        comment = comment.rstrip(" \t")
        return Splice(header, end, self._lines(first + comment + ("\n" + rest if rest else "")))

    def _header_comment(self, node: Node, header: int, on_header_line: bool) -> str:
        """Return the comment between a colon or dash and the block below it, with the blanks before it."""
        if not on_header_line:
            return self.text[header : self.line_end(header)]
        if node.kind != "scalar":
            return ""
        found = _COMMENT.search(self.text, node.start, self.line_end(node.start))
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
        end = self.line_end(self.end(node)) if is_block(node) else node.end
        behind_marker = self.text[self.line_start(node.start) : node.start].strip()
        return Splice(node.start, end, (self.newline if behind_marker else "") + written)

    def _fill(self, value: Any, start: int) -> Splice:
        """Write the value of a document that has none yet behind its comments."""
        if not is_blank(self.text, start):
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
        first = self.plain_key(node, 0)
        end = self.line_end(self.pair_end(node.pairs[-1]))
        written = yaml.write_entry(key, value, first.column, self.layout_below((*slot.above, node)))
        return Splice(end, end, self._lines("\n" + " " * first.column + written))

    def _insert_items(self, slot: _Slot, index: int, values: list[Any]) -> Splice:
        node = slot.node
        if node.flow:
            written = yaml.flow(values)[1:-1]
            if index == 0 and node.items:
                return Splice(node.items[0].start, node.items[0].start, written + ", ")
            return self._insert_in_flow(slot, [item.end for item in node.items[:index]], written, values)
        first = self.dash(node, 0)
        margin = "\n" + " " * self.column(first)
        layout = self.layout_below((*slot.above, node))
        items = [yaml.write_item(value, self.column(first), layout) for value in values]
        if index == 0:
            line = self.line_start(first)
            if not self.text[line:first].strip():
                return Splice(line, line, self._lines("".join(margin[1:] + item + "\n" for item in items)))
            return Splice(first, first, self._lines("".join(item + margin for item in items)))
        end = self.line_end(self.end(node.items[index - 1]))
        return Splice(end, end, self._lines("".join(margin + item for item in items)))

    def _insert_in_flow(self, slot: _Slot, ends: list[int], written: str, alone: Any) -> Splice:
        """Insert behind the entries that end at `ends`; `alone` is the value when there are none."""
        node = slot.node
        self.check_brackets(node)
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
        end = self.line_end(self.pair_end(node.pairs[index]) if mapping else self.end(node.items[index]))
        line = self.line_start(begin)
        if not self.text[line:begin].strip():
            return self._delete_lines(line, end)
        if index:
            raise CannotEdit("the entry does not begin on a line of its own")
        # The first of a compact block (`- a: 1`): the next takes its place, or goes below where comments precede it.
        follower = self._begin(node, 1)
        if not self.text[end:follower].strip():
            return Splice(begin, follower, "")
        return Splice(line + len(self.text[line:begin].rstrip(" \t")), end, "")

    def _begin(self, node: Node, index: int) -> int:
        return self.plain_key(node, index).start if node.kind == "mapping" else self.dash(node, index)

    def _delete_lines(self, start: int, end: int) -> Splice:
        """Delete the lines from `start` to the line end `end`, at the end of a text the break before them."""
        found = BREAK.match(self.text, end)
        if found:
            return Splice(start, found.end(), "")
        for length in (2, 1):
            if BREAK.fullmatch(self.text, max(start - length, 0), start):
                return Splice(start - length, end, "")
        return Splice(start, end, "")

    def _delete_in_flow(self, node: Node, index: int) -> Splice:
        self.check_brackets(node)
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
        comma = skip_blank(self.text, end)
        return Splice(start, comma + 1 if self.text[comma] == "," else end, "")

    def _lines(self, text: str) -> str:
        return text.replace("\n", self.newline)


def _nested(path: Path, value: Any) -> Any:
    for step in reversed(path):
        if isinstance(step, int):
            raise CannotEdit(f"there is no list with an item {step}")
        value = {step: value}
    return value
