"""How edits apply to plain data, which edits turn one value into another, and how they are spliced into the text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from ktx_cli.core import Layout, Node, yaml

Path = tuple[str | int, ...]
"""The location of a value: mapping keys and list indexes from the root."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change to a YAML document.

    `set` puts `value` at `path` and creates missing parent mappings. `delete` removes the entry or item at `path`.
    `append` puts `value` at the end of the list at `path`. `insert` puts the list `value` before the item at the index
    that ends `path` (the list's length: at its end).
    """

    op: Literal["set", "delete", "append", "insert"]
    path: Path
    value: Any = None


class CannotEdit(Exception):
    """Why an edit cannot be placed; `edit.apply` turns it into a `ConfigError`."""


def shown(path: Path) -> str:
    """Return a path as a person writes it: `connections.warehouse.schemas[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the whole document"


def same_data(left: Any, right: Any) -> bool:
    """Return whether two values are equal, including their types; the order of a mapping's keys does not matter."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        types = {key: type(key) for key in right}
        return all(
            key in right and types[key] is type(key) and same_data(item, right[key]) for key, item in left.items()
        )
    if isinstance(left, list | tuple):
        if not isinstance(right, list | tuple) or len(left) != len(right):
            return False
        return all(same_data(one, other) for one, other in zip(left, right, strict=True))
    return _scalar_type(left) is _scalar_type(right) and bool(left == right or (left != left and right != right))


def _scalar_type(value: Any) -> type:
    return str if isinstance(value, str) else type(value)


def change(data: Any, edit: Edit) -> Any:
    """Return `data` with the edit made; containers on the path are copied, the rest is shared.

    Raises `CannotEdit` if the path leads through something that is not a collection, or past a list's end.
    """
    if edit.op == "append":
        return change(data, placed(data, edit))
    return _change(data, edit.path, edit)


def placed(data: Any, edit: Edit) -> Edit:
    """Return an `append` as the equivalent `insert` or `set` for `data`; other edits are unchanged."""
    if edit.op != "append":
        return edit
    _, target = lookup(data, edit.path)
    if target is None:
        return Edit("set", edit.path, [edit.value])
    if not isinstance(target, list):
        raise CannotEdit(f"{shown(edit.path)} is not a list")
    return Edit("insert", (*edit.path, len(target)), [edit.value])


def lookup(data: Any, path: Sequence[str | int]) -> tuple[bool, Any]:
    """Return (whether the document has this location, the value there)."""
    for step in path:
        if not _has_place(data, step):
            return False, None
        data = data[step]
    return True, data


def _has_place(data: Any, step: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(step, int) and 0 <= step < len(data)
    return isinstance(data, dict) and _has_key(data, step)


def _has_key(mapping: dict[Any, Any], key: Any) -> bool:
    """Return whether the mapping has this key with this type: `1` is not `true`."""
    if key not in mapping:
        return False
    return isinstance(key, str) or any(own == key and type(own) is type(key) for own in mapping)


def _change(data: Any, path: Path, edit: Edit) -> Any:
    if not path:
        if edit.op != "set":
            raise CannotEdit("the whole document can be set, but not deleted")
        return edit.value
    step, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(step, int):
        return _change_list(data, step, rest, edit)
    if data is None and edit.op == "set":
        data = {}
    if not isinstance(data, dict):
        raise CannotEdit(f"the path goes through a {_kind(data)}, which has no {step!r}")
    if isinstance(step, int) and step not in data:
        raise CannotEdit(f"there is no list with an item {step}")
    if edit.op == "delete" and step not in data:
        return data
    if edit.op == "delete" and not rest:
        return {key: item for key, item in data.items() if key != step}
    return {**data, step: _change(data.get(step), rest, edit)}


def _change_list(data: list[Any], index: int, rest: Path, edit: Edit) -> list[Any]:
    inserting = edit.op == "insert" and not rest
    if not 0 <= index < len(data) + inserting:
        raise CannotEdit(f"the list has {len(data)} items, so there is no index {index}")
    if inserting:
        return [*data[:index], *edit.value, *data[index:]]
    if edit.op == "delete" and not rest:
        return [*data[:index], *data[index + 1 :]]
    return [*data[:index], _change(data[index], rest, edit), *data[index + 1 :]]


def _kind(value: Any) -> str:
    return {dict: "mapping", list: "list", str: "text", type(None): "null"}.get(type(value), type(value).__name__)


def item_keys(*lists: Any) -> list[list[Any]] | None:
    """Return the identities of the items in each list, or None if the lists must be treated as a whole.

    Mappings are identified by their `name`, joins by (`to`, `on`), by the same rule in all lists and each only once.
    """
    if not all(isinstance(items, list) for items in lists) or not any(lists):
        return None
    if not all(isinstance(item, dict) for items in lists for item in items):
        return None
    for fields in (("name",), ("to", "on")):
        keys = [[tuple(item.get(field) for field in fields) for item in items] for items in lists]
        if all(_identify(of_one) for of_one in keys):
            return [[key[0] if len(key) == 1 else key for key in of_one] for of_one in keys]
    return None


def _identify(keys: list[tuple[Any, ...]]) -> bool:
    if not all(isinstance(part, str) for key in keys for part in key):
        return False
    return len(set(keys)) == len(keys)


def diff(old: Any, new: Any, path: Path = ()) -> list[Edit]:
    """Return the edits that turn `old` into `new`, as small as the list rules of `item_keys` allow.

    They are correct when made in order; their indexes are also those of `old`, so that edits of different entries can
    be placed together.
    """
    if same_data(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old and new:
        return _diff_mappings(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return _diff_lists(old, new, path)
    return [Edit("set", path, new)]


def _diff_mappings(old: dict[Any, Any], new: dict[Any, Any], path: Path) -> list[Edit]:
    if not all(isinstance(key, str) for mapping in (old, new) for key in mapping) or not old.keys() & new.keys():
        return [Edit("set", path, new)]
    edits = [Edit("delete", (*path, key)) for key in old if key not in new]
    for key, item in new.items():
        edits += diff(old[key], item, (*path, key)) if key in old else [Edit("set", (*path, key), item)]
    return edits


def _diff_lists(old: list[Any], new: list[Any], path: Path) -> list[Edit]:
    keys = item_keys(old, new)
    if keys is None:
        if len(new) > len(old) and same_data(new[: len(old)], old):
            return [Edit("insert", (*path, len(old)), new[len(old) :])]
        return [Edit("set", path, new)]
    was, now = keys
    index_was, index_now = ({key: index for index, key in enumerate(keys)} for keys in (was, now))
    kept = [key for key in was if key in index_now]
    if not kept or kept != [key for key in now if key in index_was]:
        return [Edit("set", path, new)]
    behind = _new_items_behind(was, now)
    edits: list[Edit] = []
    # From the end to the beginning, so that an edit never moves the index of a following one.
    for index in range(len(old), -1, -1):
        if index in behind:
            edits.append(Edit("insert", (*path, index), [new[index_now[key]] for key in behind[index]]))
        if index and was[index - 1] in index_now:
            edits += diff(old[index - 1], new[index_now[was[index - 1]]], (*path, index - 1))
        elif index:
            edits.append(Edit("delete", (*path, index - 1)))
    return edits


def _new_items_behind(was: list[Any], now: list[Any]) -> dict[int, list[Any]]:
    """Return the new keys by the old index before which they come; keys after the last old item follow it."""
    index_was = {key: index for index, key in enumerate(was)}
    found: dict[int, list[Any]] = {}
    position = 0
    for key in now:
        if key in index_was:
            position = index_was[key] + 1
        else:
            found.setdefault(position, []).append(key)
    return found


BREAK = re.compile(r"\r\n?|\n")
_BLANK_OR_COMMENTS = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_PROPERTIES = re.compile(r"(?:[&!][^ \t\r\n]*+[ \t\r\n]++)*+")
_COLON = re.compile(r"[ \t]*:")
_SIBLINGS = 20
"""Number of blocks in a mapping to inspect for their indentation."""


class Places:
    """A parsed text and the positions in it.

    `text` is without byte order mark, `root` is None for an empty document; `newline` is the text's own line break,
    `layout` its indentation.
    """

    def __init__(self, text: str, where: str) -> None:
        self.text = text
        self.root = yaml.compose(text, where=where)
        found = BREAK.search(text)
        self.newline = found.group() if found else "\n"
        self.layout = _layout_of(self.root)

    def plain_key(self, mapping: Node, index: int) -> Node:
        """Return the key node of an entry in a block mapping; reject `? key` and other rare forms."""
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
            raise CannotEdit("there is no colon directly after the key")
        return found.end()

    def dash(self, sequence: Node, index: int) -> int:
        """Return the index of the dash before an item of a block sequence."""
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
        """Reject a flow mapping without braces (`[a: 1]`)."""
        if self.text[node.end - 1] not in "]}":
            raise CannotEdit("the mapping is in a list and has no braces of its own")

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
        """Return the indentation of the nearest of the collections `above` a position, else of the document."""
        found: dict[str, int] = {}
        for node in reversed(above):
            for kind, columns in itertools.islice(_indents(node), _SIBLINGS):
                found.setdefault(kind, columns)
        return _layout(found, self.layout)

    def line_end(self, index: int) -> int:
        """Return where the line of `index` ends, before its line break."""
        found = BREAK.search(self.text, index)
        return found.start() if found else len(self.text)

    def line_start(self, index: int) -> int:
        """Return where the line of `index` begins."""
        return max(self.text.rfind("\n", 0, index), self.text.rfind("\r", 0, index)) + 1

    def column(self, index: int) -> int:
        """Return the column of `index`, counted from 0."""
        return index - self.line_start(index)


def is_block(node: Node) -> bool:
    """Return whether the node is a block collection or a block scalar."""
    return not node.flow if node.kind in ("mapping", "sequence") else bool(node.style) and node.style in "|>"


def is_blank(text: str, start: int) -> bool:
    """Return whether only blanks and a comment follow from `start` on."""
    return skip_blank(text, start) == len(text)


def skip_blank(text: str, index: int) -> int:
    """Return the position after blanks, line breaks and comments."""
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
    """Return the document's indentation, from its first nested mapping and its first list below a key."""
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


_COMMENT = re.compile(r"[ \t]+#.*")


@dataclass(frozen=True, slots=True)
class Splice:
    """Replace the characters from `start` up to `end` with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class _Slot:
    """The location of a node: entry or item `index` of the last of `above`, which is empty for the root."""

    node: Node
    above: tuple[Node, ...] = ()
    index: int = 0

    @property
    def parent(self) -> Node | None:
        """The collection that contains the node."""
        return self.above[-1] if self.above else None


class Document(Places):
    """A parsed text that computes the splice for an edit."""

    def write_no_literals(self) -> None:
        """From now on, write multi-line text in double quotes: a literal block could swallow what follows."""
        self.layout = replace(self.layout, literals=False)

    def spliced(self, edits: Sequence[Edit]) -> str:
        """Return the text with all edits made at once; raises `CannotEdit` if they overlap."""
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
        """Return the splice of a `set`, `delete` or `insert`; raises `CannotEdit` if there is no safe place."""
        if edit.op == "set":
            return self._set(edit.path, edit.value)
        slot = self._find(edit.path[:-1])
        last = edit.path[-1]
        if edit.op == "delete":
            return self._delete(slot, self._index(slot.node, last))
        if slot.node.kind == "sequence" and isinstance(last, int) and 0 <= last <= len(slot.node.items):
            return self._insert_items(slot, last, edit.value)
        raise CannotEdit(f"there is no list with an index {last}")

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
            raise CannotEdit(f"{step!r} does not exist")
        return index

    def _index_or_none(self, node: Node, step: str | int) -> int | None:
        """Return the index of an entry or item, or None for a key that a mapping does not have."""
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
            return self._replace_in_block(node, self.colon(key), written)
        dash = self.dash(parent, slot.index)
        written = yaml.write_item(value, self.column(dash), self.layout_below(slot.above))[1:]
        return self._replace_in_block(node, dash + 1, written)

    def _replace_in_block(self, node: Node, header: int, written: str) -> Splice:
        """Replace what follows a colon or dash that ends at `header`; a comment on that line is kept."""
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
        """Return the comment between a colon or dash and the block below it, with the preceding blanks."""
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
        """Write the value of an empty document after its comments."""
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
        """Insert after the entries that end at `ends`; `alone` is the value if there are none."""
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
            emptied = self._replace(slot, {} if mapping else [])
            above = self.text[self.line_end(emptied.start) : self.line_start(node.start)]
            return replace(emptied, text=emptied.text + above.rstrip()) if "#" in above else emptied
        begin = self._begin(node, index)
        end = self.line_end(self.pair_end(node.pairs[index]) if mapping else self.end(node.items[index]))
        line = self.line_start(begin)
        if not self.text[line:begin].strip():
            return self._delete_lines(line, end)
        if index:
            raise CannotEdit("the entry does not begin on its own line")
        # The first of a compact block (`- a: 1`): the next takes its place, or goes below if comments precede it.
        follower = self._begin(node, 1)
        if not self.text[end:follower].strip():
            return Splice(begin, follower, "")
        return Splice(line + len(self.text[line:begin].rstrip(" \t")), end, "")

    def _begin(self, node: Node, index: int) -> int:
        return self.plain_key(node, index).start if node.kind == "mapping" else self.dash(node, index)

    def _delete_lines(self, start: int, end: int) -> Splice:
        """Delete the lines from `start` to the line end `end`, and at the end of a text also the
        preceding line break.
        """
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
