"""The syntax of LookML, with the line of every key.

    document  = { pair }
    pair      = key ":" value
    value     = sql ";;" | text | word [ block ] | block | list
    block     = "{" { pair } "}"
    list      = "[" [ element { "," element } ] "]"
    element   = text | word | word ":" ( text | word | list )

Keys of SQL and HTML (`sql`, `sql_on`, `html`, `expression`, ...) hold everything up to `;;`. Comments run from `#` to
the end of the line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ktx_cli.core import ConfigError
from ktx_cli.semantic.interchange.report import Item
from ktx_cli.semantic.model import Place

MAX_DEPTH: Final = 50
"""How deep blocks may nest."""

_BLANK: Final = re.compile(r"(?:\s+|#[^\n]*)+")
_KEY: Final = re.compile(r"[\w+.-]+")
_WORD: Final = re.compile(r"[^\s\"{}\[\],:#]+")
_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_RAW_KEY: Final = re.compile(r"(?:sql|html|expression)(?:_\w+)?")


@dataclass(slots=True)
class Block:
    """A mapping of LookML. `name`: what stands between its key and its brace.

    `values`: key -> text, or list of texts and of (key, value); the last of several. `blocks`: key -> its blocks in
    their order. `places`: where each key stands, the last of several.
    """

    key: str
    name: str | None
    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    @property
    def item(self) -> Item:
        """Its values, and its blocks as lists of what they hold."""
        held: Mapping[str, Any] = {
            **self.values,
            **{key: [b.name or b.values for b in found] for key, found in self.blocks.items()},
        }
        return Item(held, lambda *steps: self.places.get(str(steps[0]), self.place) if steps else self.place)

    def below(self, *keys: str) -> list[Block]:
        """Return the blocks of some keys."""
        return [block for key in keys for block in self.blocks.get(key, ())]


def parse_lookml(text: str, path: str) -> Block:
    """Return the document; raises `ConfigError` (`PATH:LINE: what`) for what is no LookML."""
    return _Parser(text, path).document()


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self._text, self._path, self._at = text.removeprefix("\ufeff"), path, 0
        self._line, self._counted = 1, 0

    def document(self) -> Block:
        block = Block("", None, self._place())
        self._pairs(block, 0)
        if self._at < len(self._text):
            self._refuse("a brace is closed that was never opened")
        return block

    def _pairs(self, block: Block, depth: int) -> None:
        """Read pairs up to a closing brace or the end, neither of which is taken."""
        if depth > MAX_DEPTH:
            self._refuse(f"it nests deeper than {MAX_DEPTH} levels")
        while self._skip() and self._text[self._at] != "}":
            place = self._place()
            key = self._take(_KEY, "a key must stand here")
            self._expect(":", f"a colon must follow `{key}`")
            block.places[key] = place
            self._value(block, key, place, depth)

    def _value(self, block: Block, key: str, place: Place, depth: int) -> None:
        if _RAW_KEY.fullmatch(key):
            block.values[key] = self._raw(key)
            return
        if not self._skip():
            self._refuse(f"`{key}` has no value")
        character = self._text[self._at]
        if character == '"':
            block.values[key] = self._string()
        elif character == "[":
            self._at += 1
            block.values[key] = [*_as_list(block.values.get(key)), *self._list(depth)]
        elif character == "{":
            self._block(block, Block(key, None, place), depth)
        else:
            self._word_or_block(block, key, place, depth)

    def _word_or_block(self, block: Block, key: str, place: Place, depth: int) -> None:
        word = self._take(_WORD, f"`{key}` has no value that can be read")
        if self._skip() and self._text[self._at] == "{":
            self._block(block, Block(key, word, place), depth)
        elif key == "include":
            block.values[key] = [*_as_list(block.values.get(key)), word]
        else:
            block.values[key] = word

    def _block(self, parent: Block, block: Block, depth: int) -> None:
        self._at += 1
        self._pairs(block, depth + 1)
        self._expect("}", f"the brace of `{block.key}` is not closed")
        parent.blocks.setdefault(block.key, []).append(block)

    def _list(self, depth: int) -> list[Any]:
        """Return the elements up to the closing bracket."""
        if depth > MAX_DEPTH:
            self._refuse(f"it nests deeper than {MAX_DEPTH} levels")
        result: list[Any] = []
        while self._skip() and self._text[self._at] != "]":
            word = self._element()
            if self._skip() and self._text[self._at] == ":":
                self._at += 1
                result.append((word, self._right_side(depth)))
            else:
                result.append(word)
            if self._skip() and self._text[self._at] == ",":
                self._at += 1
        self._expect("]", "a bracket is not closed")
        return result

    def _right_side(self, depth: int) -> Any:
        if self._skip() and self._text[self._at] == "[":
            self._at += 1
            return self._list(depth + 1)
        return self._element()

    def _element(self) -> str:
        if self._skip() and self._text[self._at] == '"':
            return self._string()
        return self._take(_WORD, "a value must stand here")

    def _raw(self, key: str) -> str:
        end = self._text.find(";;", self._at)
        if end < 0:
            self._refuse(f"`{key}` is not ended by ;;")
        value = self._text[self._at : end].strip()
        self._at = end + 2
        return value

    def _string(self) -> str:
        found = _TEXT.match(self._text, self._at)
        if found is None:
            self._refuse("a text is not closed")
        self._at = found.end()
        return re.sub(r'\\(["\\])', r"\1", found[1])

    def _take(self, pattern: re.Pattern[str], what: str) -> str:
        self._skip()
        found = pattern.match(self._text, self._at)
        if found is None:
            self._refuse(what)
        self._at = found.end()
        return found[0]

    def _expect(self, mark: str, what: str) -> None:
        if not self._skip() or self._text[self._at] != mark:
            self._refuse(what)
        self._at += 1

    def _skip(self) -> bool:
        """Pass blanks and comments; say whether something is left."""
        found = _BLANK.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return self._at < len(self._text)

    def _place(self) -> Place:
        self._line += self._text.count("\n", self._counted, self._at)
        self._counted = self._at
        return Place(self._path, self._line)

    def _refuse(self, what: str) -> NoReturn:
        place = self._place()
        hint = f"correct line {place.line} of {self._path}"
        raise ConfigError(f"{place}: {what}", hint=hint, details={"path": self._path, "line": place.line})


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
