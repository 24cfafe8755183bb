"""Reads YAML 1.2, and writes YAML that YAML 1.2 and 1.1 readers interpret alike, in the TypeScript ktx's layout.

Block style, sequences indented below their key, double quotes if quotes are needed, multi-line text as literal blocks,
no aliases and no folded lines. The same value always produces the same text.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import yaml

from ktx_cli.core.errors import ConfigError
from ktx_cli.core.yaml_text import MAX_DEPTH, TAG_PREFIX, YamlText, scalar_value

_LONGEST_SIMPLE_KEY: Final = 1000
"""Maximum number of characters in a plain key: parsers look for its colon within 1,024 characters."""

_NOT_PRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_TO_ESCAPE = re.compile(r"[\x00-\x1f\x22\x5c\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_ESCAPES: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_UNSAFE_PLAIN = re.compile(r"^[-?:,\[\]{}#&*!|>'\"%@`~=\s]|^\.\.\.|^<<$|:(?:\s|$)|\s#|\s$")
_UNSAFE_IN_FLOW = re.compile(r"[,\[\]{}:?#]")
_LIKE_NUMBER = re.compile(r"[-+.]?[0-9.][0-9a-fA-FxXoO_.,:+\-TtZz ]*|[-+]?\.(?:inf|nan)", re.IGNORECASE)
_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a file.

    `step`: columns per mapping level (1 to 9). `offset`: columns from a key to the dashes below it. `literals`:
    multi-line text becomes a literal block if possible; else it is double-quoted.
    """

    step: int = 2
    offset: int = 2
    literals: bool = True


FILE_LAYOUT: Final = Layout()
"""The layout of files that ktx writes."""


def dump(value: Any) -> str:
    """Return `value` as a YAML document that ends in a newline.

    Accepts None, bool, int, float, str, list, tuple and dict (with scalar keys), nothing else (`TypeError`).
    `ValueError` for a value nested deeper than `MAX_DEPTH` (or inside itself) and for text with surrogates.
    """
    if isinstance(value, dict) and value:
        return _written(_mapping, value, 0, FILE_LAYOUT) + "\n"
    if isinstance(value, list | tuple) and value:
        return _written(_sequence, value, 0, FILE_LAYOUT) + "\n"
    return flow(value) + "\n"


def flow(value: Any) -> str:
    """Return `value` on one line, as allowed inside brackets; raises the same errors as `dump`."""
    return _flow(value, 1)


def write_entry(key: Any, value: Any, column: int, layout: Layout) -> str:
    """Return the block entry `key: value` for a mapping whose keys are at `column`.

    The first line comes without its indentation, the last one without a newline.
    """
    return _written(_mapping, {key: value}, column, layout)


def write_item(value: Any, column: int, layout: Layout) -> str:
    """Return the block item `- value` for a sequence whose dashes are at `column`, with lines as in `write_entry`."""
    return _written(_sequence, [value], column, layout)


def write_value(value: Any, column: int, layout: Layout) -> str:
    """Return the text after the colon of a key at `column`: ` value`, or a newline and indented lines."""
    return _written(_after_colon, value, column, layout)


def _written(write: Callable[[list[str], Any, int, Layout, int], None], value: Any, column: int, layout: Layout) -> str:
    out: list[str] = []
    write(out, value, column, layout, 1)
    return "".join(out)


def _mapping(out: list[str], value: dict[Any, Any], column: int, layout: Layout, depth: int) -> None:
    _check_depth(depth)
    margin = "\n" + " " * column
    first = True
    for key, item in value.items():
        if not first:
            out.append(margin)
        first = False
        name = _scalar(key)
        out.append(name if len(name) <= _LONGEST_SIMPLE_KEY else f"? {name}{margin}")
        out.append(":")
        _after_colon(out, item, column, layout, depth)


def _after_colon(out: list[str], value: Any, column: int, layout: Layout, depth: int) -> None:
    if isinstance(value, str):
        out.append(" " + _text(value, column, layout.step, layout))
    elif isinstance(value, dict) and value:
        out.append("\n" + " " * (column + layout.step))
        _mapping(out, value, column + layout.step, layout, depth + 1)
    elif isinstance(value, list | tuple) and value:
        out.append("\n" + " " * (column + layout.offset))
        _sequence(out, value, column + layout.offset, layout, depth + 1)
    else:
        out.append(" " + _flow(value, depth))


def _sequence(out: list[str], value: Any, column: int, layout: Layout, depth: int) -> None:
    _check_depth(depth)
    margin = "\n" + " " * column
    first = True
    for item in value:
        out.append("- " if first else margin + "- ")
        first = False
        if isinstance(item, str):
            out.append(_text(item, column, 2, layout))
        elif isinstance(item, dict) and item:
            _mapping(out, item, column + 2, layout, depth + 1)
        elif isinstance(item, list | tuple) and item:
            _sequence(out, item, column + 2, layout, depth + 1)
        else:
            out.append(_flow(item, depth))


def _flow(value: Any, depth: int) -> str:
    _check_depth(depth)
    if isinstance(value, dict):
        pairs = (f"{_scalar(key, True)}: {_flow(item, depth + 1)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item, depth + 1) for item in value) + "]"
    return _scalar(value, depth > 1)


def _check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ValueError(f"the value nests deeper than {MAX_DEPTH} levels, or refers to itself")


def _scalar(value: Any, in_flow: bool = False) -> str:
    if isinstance(value, str):
        return _quoted_if_needed(str(value), in_flow)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _float(value)
    raise TypeError(f"YAML cannot represent a {type(value).__name__}")


def _float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = float.__repr__(value)
    # `1e+16` is a number in YAML 1.2 and text in YAML 1.1; `1.0e+16` is a number in both.
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def _text(value: str, column: int, inset: int, layout: Layout) -> str:
    """Return a text as a block value: a literal block whose parent is at `column`, if possible."""
    if "\n" not in value or not layout.literals or not _can_be_literal(value):
        return _quoted_if_needed(str(value), False)
    body = value.removesuffix("\n")
    chomping = "-" if body == value else "+" if body.endswith("\n") else ""
    indicator = str(inset) if value[0] in " \t\n" else ""
    margin = " " * (column + inset)
    lines = [margin + line if line else "" for line in body.split("\n")]
    return "\n".join(["|" + indicator + chomping, *lines])


def _can_be_literal(value: str) -> bool:
    if value.isspace() or _NOT_PRINTABLE.search(value):
        return False
    return all(not line.isspace() for line in value.split("\n"))


@functools.lru_cache(maxsize=8192)
def _quoted_if_needed(value: str, in_flow: bool) -> str:
    if not value:
        return '""'
    if _SURROGATE.search(value):
        raise ValueError(f"the text {value!r} contains a surrogate, which no encoding of YAML can represent")
    if _NOT_PRINTABLE.search(value) or "\n" in value or "\t" in value:
        return _double_quoted(value)
    if not _needs_quotes(value, in_flow):
        return value
    if ('"' in value or "\\" in value) and "'" not in value:
        return f"'{value}'"
    return _double_quoted(value)


def _needs_quotes(value: str, in_flow: bool) -> bool:
    """Return whether some YAML reader would parse the plain text as syntax, a number, a time, a boolean or null."""
    if _UNSAFE_PLAIN.search(value) or (in_flow and _UNSAFE_IN_FLOW.search(value)):
        return True
    return value.casefold() in _WORDS or _LIKE_NUMBER.fullmatch(value) is not None


def _double_quoted(value: str) -> str:
    return '"' + _TO_ESCAPE.sub(_escape, value) + '"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


__all__ = [
    "FILE_LAYOUT", "MAX_DEPTH", "Layout", "Node", "compose", "dump", "flow", "load", "locate", "write_entry",
    "write_item", "write_value",
]  # fmt: skip

MAX_ALIASED_NODES: Final = 100_000
"""Maximum number of nodes to which all aliases in a document may expand."""

_GC_PAUSE_FROM: Final = 100_000
"""Number of characters above which a load pauses the garbage collector, which would waste half the time."""

_MOST_TABS: Final = 200
"""Maximum number of literal blocks in a text that begin with a tab: each requires a separate parse."""

_Result = TypeVar("_Result")
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NO_KEY: Final = object()


@dataclass(slots=True, eq=False)
class Node:
    """A node in a document, with its position.

    `kind` is `scalar`, `sequence`, `mapping` or `alias`. `start` and `end` are character indexes into the text without
    its byte order mark; `end` of a block collection or block scalar is where the parser found the next token, after
    blanks and comments. `line` and `column` count from 0. `style` is a scalar's quoting (`""` plain, `'`, `"`, `|`,
    `>`). `value` is a scalar's value or an alias's anchor; `items` are a sequence's nodes; `pairs` a mapping's.
    """

    kind: str
    start: int
    end: int
    line: int
    column: int
    value: Any = None
    style: str = ""
    flow: bool = False
    tag: str | None = None
    anchor: str | None = None
    items: list[Node] = field(default_factory=list)
    pairs: list[tuple[Node, Node]] = field(default_factory=list)


def load(text: str | bytes, *, where: str) -> Any:
    """Return the value of a YAML document, or None if it is empty.

    Mappings become dicts in the document's order, aliases copies of their targets. `where` names the text in errors.
    Raises `ConfigError` (`WHERE:LINE:COLUMN: what`) for anything but one valid document, including duplicate keys,
    unknown tags, nesting deeper than `MAX_DEPTH`, aliases that expand excessively, NUL and bytes that are not UTF-8 (or
    UTF-16 with a byte order mark).
    """
    return _read(YamlText(text, where), _build)


def compose(text: str | bytes, *, where: str) -> Node | None:
    """Return the document's root node, or None for an empty document.

    Raises `ConfigError` as `load` does, except for errors in values (duplicate keys, undefined aliases).
    """
    return _read(YamlText(text, where), _compose)


def _read(source: YamlText, reader: Callable[[YamlText], _Result]) -> _Result:
    """Run a reader over the text, and again if it failed at a tab or colon that is text in YAML 1.2."""
    with _collector_paused(source):
        for _ in range(_MOST_TABS):
            try:
                return reader(source)
            except yaml.MarkedYAMLError as error:
                if not (source.hide_tab(error) or source.hide_colons(error)):
                    raise source.syntax_error(error) from error
        message = f"{source.where}: more than {_MOST_TABS} blocks begin with a tab"
        raise ConfigError(message, hint="put these strings in double quotes, with \\t for the tab")


def _build(source: YamlText) -> Any:
    builder = _Builder(source)
    for event in _events(source):
        builder.take(event)
    return builder.root


def _compose(source: YamlText) -> Node | None:
    root: Node | None = None
    open_nodes: list[tuple[Node, list[Node]]] = []
    for event in _events(source):
        kind = type(event)
        if kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            node, children = open_nodes.pop()
            _close(node, children, event)
            continue
        node = _node(event, source)
        if open_nodes:
            open_nodes[-1][1].append(node)
        else:
            root = node
        if node.kind in ("mapping", "sequence"):
            open_nodes.append((node, []))
    return root


Lines = dict["str | int", "int | tuple[int, Lines]"]
"""Maps each step into a document, a key or an index, to the line, counted from 1, and its content."""


def lines_of(text: str | bytes, *, where: str) -> Lines:
    """Return the line of every item in a document; keys that are not text are converted to text.

    Raises `ConfigError` as `compose` does, but takes a fraction of its time and memory.
    """
    return _read(YamlText(text, where), _lines)


def _lines(source: YamlText) -> Lines:
    root: Lines = {}
    top: Lines | None = None
    key: str | int | None = None  # of a mapping: the key whose value follows; of a sequence: the next index
    line = 0
    stack: list[tuple[Lines | None, str | int | None]] = []
    for event in _events(source):
        kind = type(event)
        if kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            top, key = stack.pop()
            continue
        is_scalar = kind is yaml.ScalarEvent
        is_value = key is not None
        if not is_value and top is not None:
            line = event.start_mark.line + 1
            key = str(scalar_value(event, source) if is_scalar else event.anchor if kind is yaml.AliasEvent else None)
        elif type(key) is int:
            line = event.start_mark.line + 1
        if is_value and is_scalar and event.tag is not None:
            scalar_value(event, source)  # an unknown tag is an error
        after: str | int | None = key
        if is_value:
            after = key + 1 if isinstance(key, int) else None
        if is_scalar or kind is yaml.AliasEvent:
            if is_value and top is not None and key is not None:
                top[key] = line
            key = after
            continue
        _check_collection_tag(event, {} if kind is yaml.MappingStartEvent else [], source)
        below: Lines = root if not stack else {}
        if is_value and top is not None and key is not None:
            top[key] = (line, below)
        stack.append((top, after))
        top, key = below, None if kind is yaml.MappingStartEvent else 0
    return root


def locate(text: str | bytes, path: Sequence[str | int]) -> tuple[int, int] | None:
    """Return (line, column), counted from 1, of the deepest part of `path` that the document has.

    An entry of a mapping is located at its key. None if the text is not valid YAML, or contains no part of the path.
    """
    try:
        node = compose(text, where="")
    except ConfigError:
        return None
    found: Node | None = None
    for step in path:
        child = _child(node, step)
        if child is None:
            break
        found, node = child
    return None if found is None else (found.line + 1, found.column + 1)


def _child(node: Node | None, step: str | int) -> tuple[Node, Node] | None:
    """Return (the node to point at, the value node) for one step of a path."""
    if node is None:
        return None
    if node.kind == "sequence" and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step], node.items[step]
    for key, value in node.pairs:
        if key.kind == "scalar" and key.value == step and type(key.value) is type(step):
            return key, value
    return None


def _events(source: YamlText) -> Iterator[Any]:
    """Yield the events of the single document, without stream and document events.

    Depth is limited here, before anything nested is built: the C scanner itself does not recurse.
    """
    parser = _PARSER(source.text_for_parser)
    depth = documents = 0
    try:
        while True:
            event = parser.get_event()
            kind = type(event)
            if kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                depth += 1
                if depth > MAX_DEPTH:
                    message = f"nested deeper than {MAX_DEPTH} levels"
                    raise source.error(event.start_mark, message, "flatten the value")
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                depth -= 1
            elif kind is yaml.StreamEndEvent:
                return
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    hint = "keep one document in the file: remove the '---' and the content of the other"
                    raise source.error(event.start_mark, "a second document begins", hint)
                continue
            elif kind is yaml.StreamStartEvent or kind is yaml.DocumentEndEvent:
                continue
            yield event
    finally:
        parser.dispose()


class _Builder:
    """Builds a value from events, with a stack instead of recursion."""

    __slots__ = ("anchors", "budget", "key", "root", "source", "stack", "top")

    def __init__(self, source: YamlText) -> None:
        self.source = source
        self.root: Any = None
        self.top: Any = None
        self.key: Any = _NO_KEY
        self.stack: list[tuple[Any, Any]] = []
        self.anchors: dict[str, Any] = {}
        self.budget = MAX_ALIASED_NODES

    def take(self, event: Any) -> None:
        """Process the next event of the document."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            value = scalar_value(event, self.source)
            self.add(value, event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.top, self.key = self.stack.pop()
            return
        elif kind is yaml.AliasEvent:
            self.add(self.expand(event), event)
            return
        else:
            value = self.begin(event, {} if kind is yaml.MappingStartEvent else [])
        if event.anchor is not None:
            self.anchors[event.anchor] = value

    def begin(self, event: Any, container: Any) -> Any:
        """Open a mapping or sequence that is already part of its parent."""
        _check_collection_tag(event, container, self.source)
        self.add(container, event)
        self.stack.append((self.top, self.key))
        self.top, self.key = container, _NO_KEY
        return container

    def add(self, value: Any, event: Any) -> None:
        """Put `value` at the current position: root, list item, key or value."""
        top = self.top
        if type(top) is dict:
            if self.key is _NO_KEY:
                self.check_key(value, event)
                self.key = value
            else:
                top[self.key] = value
                self.key = _NO_KEY
        elif top is None:
            self.root = value
        else:
            top.append(value)

    def check_key(self, key: Any, event: Any) -> None:
        """Reject a key that is a collection or a duplicate."""
        if type(key) is dict or type(key) is list:
            message = "a key of the mapping is a collection"
            raise self.source.error(event.start_mark, message, "use a string, a number or a boolean as the key")
        if key in self.top:
            message = f"the key {key!r} occurs twice"
            advice = f"keep one of the two {key!r} entries"
            if type(self.top[key]) is list:
                advice = f"move the items of the second {key!r} to the first, and delete the second"
            raise self.source.error(event.start_mark, message, advice)

    def expand(self, event: Any) -> Any:
        """Return a copy of an alias's target."""
        if event.anchor not in self.anchors:
            hint = f"define &{event.anchor} above it, or quote the value if it is a string that begins with '*'"
            raise self.source.error(event.start_mark, f"the alias *{event.anchor} has no anchor before it", hint)
        value = self.anchors[event.anchor]
        collection = type(value) is dict or type(value) is list
        if collection and (value is self.top or any(value is container for container, _ in self.stack)):
            message = f"the alias *{event.anchor} contains itself"
            raise self.source.error(event.start_mark, message, "write out the value")
        return self.copy(value, len(self.stack), event)

    def copy(self, value: Any, depth: int, event: Any) -> Any:
        """Return a deep copy within the remaining budget of nodes and `MAX_DEPTH`."""
        self.budget -= 1
        if self.budget < 0 or depth > MAX_DEPTH:
            message = f"the aliases expand to more than {MAX_ALIASED_NODES:,} nodes or {MAX_DEPTH} levels"
            raise self.source.error(event.start_mark, message, "write out the values instead of nesting aliases")
        if type(value) is dict:
            return {key: self.copy(item, depth + 1, event) for key, item in value.items()}
        if type(value) is list:
            return [self.copy(item, depth + 1, event) for item in value]
        return value


def _check_collection_tag(event: Any, container: Any, source: YamlText) -> None:
    if event.tag is None or event.tag == "!":
        return
    if event.tag != TAG_PREFIX + ("map" if type(container) is dict else "seq"):
        raise source.tag_error(event)


def _node(event: Any, source: YamlText) -> Node:
    mark = event.start_mark
    node = Node("", mark.index, event.end_mark.index, mark.line, mark.column, anchor=event.anchor)
    kind = type(event)
    if kind is yaml.AliasEvent:
        node.kind, node.value = "alias", event.anchor
    elif kind is yaml.ScalarEvent:
        node.kind, node.value, node.style = "scalar", scalar_value(event, source), event.style or ""
        node.tag = event.tag
    else:
        node.kind = "mapping" if kind is yaml.MappingStartEvent else "sequence"
        node.flow, node.tag = bool(event.flow_style), event.tag
        _check_collection_tag(event, {} if node.kind == "mapping" else [], source)
    return node


def _close(node: Node, children: list[Node], event: Any) -> None:
    node.end = event.end_mark.index
    if node.kind == "mapping":
        node.pairs = list(zip(children[::2], children[1::2], strict=True))
    else:
        node.items = children


@contextlib.contextmanager
def _collector_paused(source: YamlText) -> Iterator[None]:
    """Pause the garbage collector for a large text: a loaded document has no cycles to collect."""
    if len(source.text) < _GC_PAUSE_FROM or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
