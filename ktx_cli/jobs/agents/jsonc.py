"""JSON with comments and trailing commas, parsed with the place of every part; values are kept as they are written."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.core.errors import ConfigError

BOM: Final = "\ufeff"
_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_WORD = re.compile(r"(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.+-])", re.ASCII)
_DEEPEST: Final = 200


@dataclass(frozen=True, slots=True)
class Value:
    """A value from `start` up to `end`. `raw` is what a scalar is written as; an array's items are in `items`."""

    kind: Literal["object", "array", "scalar"]
    start: int
    end: int
    raw: str = ""
    members: tuple[Member, ...] = ()
    items: tuple[Value, ...] = ()

    def named(self, key: str) -> list[Member]:
        """Return the members of an object that have this key: more than one where it is written twice."""
        return [member for member in self.members if member.key == key]

    @property
    def tree(self) -> Any:
        """What the value says, for comparing: members in their order, duplicates too, scalars as written."""
        if self.kind == "object":
            return ("object", *((member.key, member.value.tree) for member in self.members))
        if self.kind == "array":
            return ("array", *(item.tree for item in self.items))
        return self.raw

    @property
    def data(self) -> Any:
        """The value as Python has it."""
        if self.kind == "object":
            return {member.key: member.value.data for member in self.members}
        return [item.data for item in self.items] if self.kind == "array" else json.loads(self.raw)


@dataclass(frozen=True, slots=True)
class Member:
    """A key, which begins at `start`, with its value. `comma`: where the comma behind it stands, None without one."""

    key: str
    start: int
    value: Value
    comma: int | None


@dataclass(frozen=True, slots=True)
class Parsed:
    """A text, its one value (None: it has none), and where its comments are."""

    text: str
    root: Value | None
    comments: tuple[tuple[int, int], ...]


@functools.lru_cache(maxsize=4)
def parse(text: str, where: str) -> Parsed:
    """Return a text with the places of its parts; `ConfigError` with the line where it is no JSON."""
    reader = _Reader(text, where)
    root = reader.document()
    return Parsed(text, root, tuple(reader.comments))


class _Reader:
    """Reads a text from its beginning to its end."""

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
            raise self.error("something stands behind the end of the JSON")
        return root

    def skip(self) -> None:
        """Pass over blanks and comments."""
        while True:
            self.at = self._behind(_SPACE)
            if not self.text.startswith(("//", "/*"), self.at):
                return
            start, self.at = self.at, self._behind(_COMMENT)
            if self.at == start:
                raise self.error("a comment has no end")
            self.comments.append((start, self.at))

    def _behind(self, pattern: re.Pattern[str]) -> int:
        found = pattern.match(self.text, self.at)
        return found.end() if found else self.at

    def value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            raise self.error(f"more than {_DEEPEST} levels are nested")
        start, opening = self.at, self.text[self.at : self.at + 1]
        if opening == "{":
            members = tuple(self._members(depth))
            return Value("object", start, self.at, members=members)
        if opening == "[":
            items = tuple(self._items(depth))
            return Value("array", start, self.at, items=items)
        found = _STRING.match(self.text, start) or _WORD.match(self.text, start)
        if found is None:
            raise self.error("a value was expected")
        self.at = found.end()
        return Value("scalar", start, self.at, raw=found[0])

    def _members(self, depth: int) -> Iterator[Member]:
        self.at += 1
        self.skip()
        while not self._closed("}"):
            start, found = self.at, _STRING.match(self.text, self.at)
            if found is None:
                raise self.error("a key in double quotes was expected")
            self.at = found.end()
            self.skip()
            if not self._passed(":"):
                raise self.error("a colon was expected")
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
        """Pass over the comma behind a member or an item, and say where it stood."""
        self.skip()
        place = self.at
        if self._passed(","):
            self.skip()
            return place
        if not self.text.startswith(closing, self.at):
            raise self.error(f"a comma or `{closing}` was expected")
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
        return ConfigError(
            f"{self.where}, line {line}, column {column}: {problem}",
            hint=f"correct {self.where}, then run the command again; nothing was written",
            details={"path": self.where, "line": line},
        )
