"""Adds one entry to a user-owned JSON file, or removes it, without changing any other character."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Protocol

from ktx_cli.core import ConfigError
from ktx_cli.project import EditRefusedError


def entries(text: str, container: Path, where: str) -> dict[str, Any]:
    """Return the entries of an object in the text, {} if it does not exist; raises `ConfigError` if it is not an
    object.
    """
    value = _inner(parse(text, where).root, container, where)
    return {} if value is None else {member.key: member.value.data for member in value.members}


def add(text: str, container: Path, name: str, entry: dict[str, Any], where: str) -> Edited:
    """Return the text with a new entry at the end of an object, which is created if it is missing."""
    parsed = parse(text, where)
    if parsed.root is None:
        new, insertions = inserted(text, [(len(text), _document(text, _nested((*container, name), entry)))])
        return _proved(parsed, Edited(new, insertions, 0), (*container, name), where)
    path, here, there = (*container, name), _object(parsed.root, (), where), 0
    while (found := _only(here, path[: there + 1], where)) is not None:
        if there == len(container):
            raise refusal(where, path, "it already exists")
        there += 1
        here = _object(found.value, path[:there], where)
    places = _into(parsed, here, path[there], _nested(path[there + 1 :], entry))
    new, insertions = inserted(text, places)
    return _proved(parsed, Edited(new, insertions, there), path, where)


def remove(text: str, container: Path, name: str, there: int, where: str) -> str:
    """Return the text without an entry, and without objects around it that become empty.

    The first `there` objects belong to people and stay.
    """
    text = _without(text, (*container, name), where)
    for depth in range(len(container), there, -1):
        parsed = parse(text, where)
        value = _inner(parsed.root, container[:depth], where)
        if value is None or value.members or any(value.start < start < value.end for start, _ in parsed.comments):
            break
        text = _without(text, container[:depth], where)
    return text


def is_blank(text: str) -> bool:
    """Return whether a text is empty: no comments, and no members except the schema that a client adds itself."""
    parsed = parse(text, "")
    root = parsed.root
    return not parsed.comments and (
        root is None or (root.kind == "object" and all(member.key == "$schema" for member in root.members))
    )


def _nested(path: Path, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _inner(root: Value | None, path: Path, where: str) -> Value | None:
    """Return the object at a path, or None if it does not exist."""
    value = None if root is None else _object(root, (), where)
    for depth in range(1, len(path) + 1):
        member = None if value is None else _only(value, path[:depth], where)
        value = None if member is None else _object(member.value, path[:depth], where)
    return value


def _object(value: Value, path: Path, where: str) -> Value:
    if value.kind == "object":
        return value
    what = f"`{'.'.join(path)}`" if path else "the content"
    hint = f"correct {where}, then run the command again; nothing was written"
    raise ConfigError(f"{where}: {what} is not an object", hint=hint, details={"path": where, "key": ".".join(path)})


def _only(value: Value, path: Path, where: str) -> Member | None:
    """Return the member of an object with the last key of a path; raises `ConfigError` for a duplicate key."""
    found = value.named(path[-1])
    if len(found) > 1:
        raise refusal(where, path, "the key occurs more than once")
    return found[0] if found else None


# -- putting in ------------------------------------------------------------------------------------------------


def _document(text: str, value: Any) -> str:
    newline = newline_of(text)
    begun = "" if text in ("", BOM) or text.endswith("\n") else newline
    return begun + _written(value, "  ", "", newline) + newline


def _into(parsed: Parsed, here: Value, key: str, value: Any) -> list[tuple[int, str]]:
    """Return the insertion for a new last member of an object."""
    text = parsed.text
    between = text[here.start : here.end] if here.members else text.strip().lstrip(BOM)
    if "\n" not in between and (here.members or here is not parsed.root):
        written = f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        return _behind_last(here.members[-1], written) if here.members else [(here.start + 1, written)]
    newline = newline_of(text)
    unit = (parsed.root and _indent_of_members(text, parsed.root)) or "  "
    base = _indent(text, here.start)
    indent = _indent_of_members(text, here) or base + unit
    written = f"{newline}{indent}{json.dumps(key)}: {_written(value, unit, indent, newline)}"
    if here.members:
        return _behind_last(here.members[-1], written, text)
    at = _past_comments(text, here.start + 1)
    return [(at, written + ("" if "\n" in text[at : here.end] else newline + base))]


def _behind_last(last: Member, written: str, text: str | None = None) -> list[tuple[int, str]]:
    """Insert a member after the last one, on the same line (no `text`) or after the comments on that line."""
    end = last.value.end if last.comma is None else last.comma + 1
    at = end if text is None else _past_comments(text, end)
    gap = " " if text is None else ""
    if last.comma is not None:
        return [(at, f"{gap}{written},")]
    return [(end, f",{gap}{written}")] if at == end else [(end, ","), (at, written)]


def _past_comments(text: str, at: int) -> int:
    """Return where the comments after a position on its line end, or the position itself if there are none."""
    place, found = at, at
    while True:
        while text[place : place + 1] in (" ", "\t"):
            place += 1
        if text.startswith("//", place):
            ends = (text.find(mark, place) for mark in "\r\n")
            return min((end for end in ends if end >= 0), default=len(text))
        end = text.find("*/", place + 2) + 2 if text.startswith("/*", place) else 0
        if end < 2 or "\n" in text[place:end]:
            return found
        place = found = end


def _written(value: Any, unit: str, indent: str, newline: str) -> str:
    return json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)


def _indent(text: str, at: int) -> str:
    """Return the blanks at the beginning of the position's line."""
    start = text.rfind("\n", 0, at) + 1
    line = text[start:at].lstrip(BOM)
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indent_of_members(text: str, here: Value) -> str:
    """Return the blanks before the last member that begins a line; empty if none does."""
    for member in reversed(here.members):
        before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
        if not before.strip(" \t"):
            return before
    return ""


# -- taking out ------------------------------------------------------------------------------------------------


def _without(text: str, path: Path, where: str) -> str:
    """Return the text without a member and the blanks before it; one of the surrounding commas is removed."""
    parsed = parse(text, where)
    above = _inner(parsed.root, path[:-1], where)
    member = None if above is None else _only(above, path, where)
    if above is None or member is None:
        return text
    index = above.members.index(member)
    end = member.value.end if member.comma is None else member.comma + 1
    before = above.members[index - 1].comma if index and member.comma is None else None
    wanted = _tree_without(parsed, path)
    for start in (len(text[: member.start].rstrip(" \t\r\n")), member.start):
        head = text[:start] if before is None else text[:before] + text[before + 1 : start]
        new = head + text[end:]
        if _tree(new, where) == wanted:
            return new
    raise refusal(where, path, "the surrounding text leaves no safe place")


# -- proving ---------------------------------------------------------------------------------------------------


def _proved(parsed: Parsed, edited: Edited, path: Path, where: str) -> Edited:
    """Return an edit if the new text contains the old data and the new entry, and nothing else."""
    new = parse(edited.text, where)
    kept = path[: edited.there + 1]
    if _tree_without(new, kept) != (parsed.root.tree if parsed.root else ("object",)):
        raise refusal(where, path, "the surrounding text leaves no safe place")
    return edited


def _tree(text: str, where: str) -> Any:
    try:
        root = parse(text, where).root
    except ConfigError:
        return None
    return root.tree if root else None


def _tree_without(parsed: Parsed, path: Path) -> Any:
    """Return the data in a text without one member."""
    return _dropped(parsed.root.tree, path) if parsed.root else None


def _dropped(tree: Any, path: Path) -> Any:
    kind, *members = tree
    if len(path) == 1:
        return (kind, *(each for each in members if each[0] != path[0]))
    return (kind, *((key, _dropped(item, path[1:]) if key == path[0] else item) for key, item in members))


BOM: Final = "\ufeff"
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD = re.compile(r"(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.+-])", re.ASCII)
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class Value:
    """A value from `start` up to `end`. `raw` is the text of a scalar; an array's items are in `items`."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    raw: str = ""
    members: tuple[Member, ...] = ()
    items: tuple[Value, ...] = ()

    def named(self, key: str) -> list[Member]:
        """Return the members of an object with this key; duplicates give several."""
        return [member for member in self.members if member.key == key]

    @property
    def tree(self) -> Any:
        """The value for comparison: members in order, with duplicates; scalars as written."""
        if self.kind == "object":
            return ("object", *((member.key, member.value.tree) for member in self.members))
        if self.kind == "array":
            return ("array", *(item.tree for item in self.items))
        return self.raw

    @property
    def data(self) -> Any:
        """The value in Python."""
        if self.kind == "object":
            return {member.key: member.value.data for member in self.members}
        return [item.data for item in self.items] if self.kind == "array" else json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class Member:
    """A key, which begins at `start`, and its value. `comma`: the position of the comma after it, None without one."""

    key: str
    start: int
    value: Value
    comma: int | None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text, its single value (None: it has none), and the positions of its comments."""

    text: str
    root: Value | None
    comments: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=4)
def parse(text: str, where: str) -> Parsed:
    """Return a text with the positions of its parts; raises `ConfigError` with the line of invalid JSON."""
    reader = _Reader(text, where)
    root = reader.document()
    return Parsed(text, root, tuple(reader.comments))


class _Reader:
    """Parses a text from its beginning to its end."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.at = len(BOM) if text.startswith(BOM) else 0
        self.comments: list[tuple[int, int]] = []

    def document(self) -> Value | None:
        self.skip()
        if self.at == len(self.text):
            return None
        root = self.value(0)
        self.skip()
        if self.at < len(self.text):
            raise self.error("there is text after the end of the JSON")
        return root

    def skip(self) -> None:
        """Skip blanks and comments."""
        while True:
            self.at = self._behind(_SPACE)
            if not self.text.startswith(("//", "/*"), self.at):
                return
            start, self.at = self.at, self._behind(_COMMENT)
            if self.at == start:
                raise self.error("a comment is not closed")
            self.comments.append((start, self.at))

    def _behind(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        return found.end() if found else self.at

    def value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            raise self.error(f"it is nested more than {_DEEPEST} levels deep")
        start, opening = self.at, self.text[self.at : self.at + 1]
        if opening == "{":
            members = tuple(self._members(depth))
            return Value("object", start, self.at, members=members)
        if opening == "[":
            items = tuple(self._items(depth))
            return Value("array", start, self.at, items=items)
        found = _STRING.match(self.text, start) or _WORD.match(self.text, start)
        if found is None:
            raise self.error("expected a value")
        self.at = found.end()
        return Value("scalar", start, self.at, raw=found[0])

    def _members(self, depth: int) -> Iterator[Member]:
        self.at += 1
        self.skip()
        while not self._closed("}"):
            start, found = self.at, _STRING.match(self.text, self.at)
            if found is None:
                raise self.error("expected a key in double quotes")
            self.at = found.end()
            self.skip()
            if not self._passed(":"):
                raise self.error("expected a colon")
            self.skip()
            value = self.value(depth + 1)
            yield Member(json.loads(found[0]), start, value, self._comma("}"))

    def _items(self, depth: int) -> Iterator[Value]:
        self.at += 1
        self.skip()
        while not self._closed("]"):
            yield self.value(depth + 1)
            self._comma("]")

    def _comma(self, closing: str) -> int | None:
        """Skip the comma after a member or an item, and return its position."""
        self.skip()
        place = self.at
        if self._passed(","):
            self.skip()
            return place
        if not self.text.startswith(closing, self.at):
            raise self.error(f"expected a comma or `{closing}`")
        return None

    def _closed(self, closing: str) -> bool:
        if self.at == len(self.text):
            raise self.error(f"`{closing}` is missing")
        return self._passed(closing)

    def _passed(self, character: str) -> bool:
        there = self.text.startswith(character, self.at)
        self.at += there
        return there

    def error(self, problem: str) -> ConfigError:
        line = self.text.count("\n", 0, self.at) + 1
        column = self.at - (self.text.rfind("\n", 0, self.at) + 1) + 1
        message = f"{self.where}, line {line}, column {column}: {problem}"
        hint = f"correct {self.where}, then run the command again; nothing was written"
        return ConfigError(message, hint=hint, details={"path": self.where, "line": line})


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Insertion:
    """Inserted characters, with their position in the new text."""

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    at: int
    text: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A text with an inserted entry. `there`: how many of the keys around the entry existed before."""

    text: str
    insertions: tuple[Insertion, ...]
    there: int


class Editor(Protocol):
    """The functions of a format module; each raises `ConfigError` for a text that it cannot read or edit."""

    def entries(self, text: str, container: Path, where: str) -> dict[str, Any]:
        """Return the entries below a key."""

    def add(self, text: str, container: Path, name: str, entry: dict[str, Any], where: str) -> Edited:
        """Return the text with a new entry."""

    def remove(self, text: str, container: Path, name: str, there: int, where: str) -> str:
        """Return the text without an entry, and without surrounding keys that are empty and not user-owned."""

    def is_blank(self, text: str) -> bool:
        """Return whether a text is empty."""


def inserted(text: str, places: Sequence[tuple[int, str]]) -> tuple[str, tuple[Insertion, ...]]:
    """Return the text with each piece inserted before a character of the old text, and the new positions."""
    pieces: list[str] = []
    insertions: list[Insertion] = []
    done = shift = 0
    for at, piece in sorted(places, key=lambda place: place[0]):
        pieces += (text[done:at], piece)
        insertions.append(Insertion(at + shift, piece))
        done, shift = at, shift + len(piece)
    return "".join([*pieces, text[done:]]), tuple(insertions)


def taken_back(text: str, insertions: Sequence[Insertion]) -> str | None:
    """Return the text before the insertions, or None if they are not at their positions."""
    for each in reversed(insertions):
        end = each.at + len(each.text)
        if text[each.at : end] != each.text:
            return None
        text = text[: each.at] + text[end:]
    return text


def refusal(where: str, key: Sequence[str], problem: str, **details: Any) -> EditRefusedError:
    """Return the error for a file that cannot be edited in place."""
    dotted = ".".join(key)
    message = f"{where}: cannot edit {dotted} in place: {problem}"
    hint = f"edit {dotted} in {where} by hand"
    return EditRefusedError(message, hint=hint, details={"path": where, "key": dotted, **details})


def newline_of(text: str) -> str:
    """Return the line break of a text."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
