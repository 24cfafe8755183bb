"""Parse TMDL, the text format of Power BI models.

The parser records the line of every object and reads this syntax, in which indentation nests objects:

    object    = { "/// " description } kind [ name ] [ "=" expression ] { property | object }
    property  = key ":" value | key "=" expression | key
    name      = "'" text "'" | text

An expression is the rest of its line, the lines below it that are indented more than properties, or the lines between
two lines of three backticks. A key without a value is a flag.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from ktx_cli.core import ConfigError, one_line
from ktx_cli.semantic.model import Place

MAX_DEPTH: Final = 50
"""The maximum depth of nested objects."""

_TAB: Final = 4
_FENCE: Final = "```"
_PROPERTY: Final = re.compile(r"(\w+)\s*:\s*(.*)", re.DOTALL)
_EXPRESSION: Final = re.compile(r"(\w+)\s*=\s*(.*)", re.DOTALL)
_OBJECT: Final = re.compile(r"(?:ref\s+)?(\w+)\s+('(?:[^']|'')*'|[^\s=:'][^=:]*?)\s*(?:=\s*(.*))?", re.DOTALL)
_FLAG: Final = re.compile(r"\w+")
_PART: Final = re.compile(r"'((?:[^']|'')*)'|([^.']+)")


@dataclass(slots=True)
class Node:
    """A TMDL object, such as `measure Revenue = SUM(Sales[Amount])` with the value `SUM(Sales[Amount])`.

    `properties` maps keys in lower case to texts; the value of a flag is `true`. `is_ref` is true for an object that
    another file defines.
    """

    kind: str
    name: str
    place: Place
    value: str | None = None
    description: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)
    is_ref: bool = False

    def below(self, kind: str) -> list[Node]:
        """Return the nested objects of a kind that are defined here."""
        return [child for child in self.children if child.kind == kind and not child.is_ref]

    def text(self, key: str) -> str | None:
        """Return a property, or None if it is missing. TMDL ignores case in keys."""
        return self.properties.get(key.lower())

    def flag(self, key: str) -> bool:
        """Return whether a property is true."""
        return (self.text(key) or "").lower() == "true"


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    indent: int
    text: str
    raw: str


def parse_tmdl(text: str, path: str) -> Node:
    """Parse a document into an object of the kind `document`. Raises `ConfigError` (`PATH:LINE: message`)."""
    return _Parser(text, path).document()


def reference_parts(text: str) -> tuple[str, ...]:
    """Return the parts of a reference such as `Sales.'Product Key'`."""
    return tuple(
        found[1].replace("''", "'") if found[1] is not None else found[2].strip() for found in _PART.finditer(text)
    )


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self._path = path
        raws = text.removeprefix("\ufeff").split("\n")
        self._lines = [_line(number, raw.rstrip("\r")) for number, raw in enumerate(raws, 1)]
        self._at = 0
        self._unit = min((line.indent for line in self._lines if line.indent and line.text), default=_TAB)

    def document(self) -> Node:
        document = Node("document", "", Place(self._path))
        self._members(document, -1, 0)
        return document

    def _members(self, parent: Node, indent: int, depth: int) -> None:
        """Read the properties and objects that are indented more than `indent`."""
        if depth > MAX_DEPTH:
            self._refuse(f"objects are nested more than {MAX_DEPTH} levels deep")
        description: list[str] = []
        for line in self._rest():
            if line.indent <= indent:
                return
            if line.text.startswith("///"):
                description.append(line.text[3:].strip())
                self._at += 1
                continue
            self._at += 1
            if not line.text.startswith("//"):
                self._member(parent, line, "\n".join(description).strip() or None, depth)
            description.clear()

    def _rest(self) -> Iterator[_Line]:
        """Yield the current line, skipping blank ones, as long as there is one."""
        while self._at < len(self._lines):
            if self._lines[self._at].text:
                yield self._lines[self._at]
            else:
                self._at += 1

    def _member(self, parent: Node, line: _Line, description: str | None, depth: int) -> None:
        if (found := _PROPERTY.fullmatch(line.text)) is not None:
            parent.properties[found[1].lower()] = _unquoted(found[2].strip())
        elif (found := _EXPRESSION.fullmatch(line.text)) is not None:
            parent.properties[found[1].lower()] = self._expression(found[2].strip(), line, line.indent + 1)
        elif (found := _OBJECT.fullmatch(line.text)) is not None:
            place, is_ref = Place(self._path, line.number), line.text.startswith("ref ")
            node = Node(found[1], _name(found[2]), place, description=description, is_ref=is_ref)
            if found[3] is not None:
                node.value = self._expression(found[3].strip(), line, line.indent + 2 * self._unit)
            parent.children.append(node)
            self._members(node, line.indent, depth + 1)
        elif _FLAG.fullmatch(line.text) is not None:
            self._flag_or_object(parent, line, depth)
        else:
            self._refuse(f"`{one_line(line.text, 60)}` is not an object or a property", line)

    def _flag_or_object(self, parent: Node, line: _Line, depth: int) -> None:
        """Read a single word: an object without a name if something is nested in it, otherwise a flag."""
        following = next(self._rest(), None)
        if following is None or following.indent <= line.indent:
            parent.properties[line.text.lower()] = "true"
            return
        node = Node(line.text, "", Place(self._path, line.number))
        parent.children.append(node)
        self._members(node, line.indent, depth + 1)

    def _expression(self, first: str, line: _Line, indent: int) -> str:
        """Return an expression: `first`, and the lines below that are indented by at least `indent`."""
        if first == _FENCE:
            return self._fenced(line)
        lines = [_Line(line.number, 0, first, first)] if first else []
        while self._at < len(self._lines):
            current = self._lines[self._at]
            if not first and not lines and current.text == _FENCE:
                self._at += 1
                return self._fenced(line)
            if current.text and current.indent < indent:
                break
            lines.append(current)
            self._at += 1
        while lines and not lines[-1].text:
            lines.pop()
        margin = min((each.indent for each in lines[bool(first) :] if each.text), default=0)
        return "\n".join([first, *(_cut(each, margin) for each in lines[1:])] if first else
                         [_cut(each, margin) for each in lines])  # fmt: skip

    def _fenced(self, line: _Line) -> str:
        start = self._at
        while self._at < len(self._lines) and self._lines[self._at].text != _FENCE:
            self._at += 1
        if self._at == len(self._lines):
            self._refuse("the expression has no closing backticks", line)
        lines = self._lines[start : self._at]
        self._at += 1
        margin = min((each.indent for each in lines if each.text), default=0)
        return "\n".join(_cut(each, margin) for each in lines).strip("\n")

    def _refuse(self, message: str, line: _Line | None = None) -> NoReturn:
        number = line.number if line is not None else self._lines[min(self._at, len(self._lines) - 1)].number
        raise ConfigError(
            message, where=f"{self._path}:{number}", hint="open the model in Power BI Desktop and save it again",
            details={"path": self._path, "line": number},
        )  # fmt: skip


def _line(number: int, raw: str) -> _Line:
    text = raw.strip()
    margin = raw[: len(raw) - len(raw.lstrip())].expandtabs(_TAB)
    return _Line(number, len(margin), text, raw)


def _cut(line: _Line, margin: int) -> str:
    return " " * (line.indent - margin) + line.text if line.text else ""


def _name(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") and text.endswith("'") and len(text) > 1 else text


def _unquoted(text: str) -> str:
    """Return a property value without the quotes around it."""
    return text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text
