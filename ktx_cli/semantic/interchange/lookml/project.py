"""Read a LookML project: its views and explores by name, with refinements and extensions applied.

The parser records the line of every key and reads this syntax:

    document  = { pair }
    pair      = key ":" value
    value     = sql ";;" | text | word [ block ] | block | list
    block     = "{" { pair } "}"
    list      = "[" [ element { "," element } ] "]"
    element   = text | word | word ":" ( text | word | list )

Keys of SQL and HTML (`sql`, `sql_on`, `html`, `expression`, ...) contain everything up to `;;`. Comments run from `#`
to the end of the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from ktx_cli.core import ConfigError, one_line
from ktx_cli.semantic.interchange.drafts import truncated
from ktx_cli.semantic.interchange.report import Item, Report, UnresolvedError
from ktx_cli.semantic.model import Place

MAX_DEPTH: Final = 50
"""The maximum depth of nested blocks."""

_BLANK: Final = re.compile(r"(?:\s+|#[^\n]*)+")
_KEY: Final = re.compile(r"[\w+.-]+")
_WORD: Final = re.compile(r"[^\s\"{}\[\],:#]+")
_TEXT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_RAW_KEY: Final = re.compile(r"(?:sql|html|expression)(?:_\w+)?")


@dataclass(slots=True)
class Block:
    """A LookML block, such as `view: orders { ... }` with the key `view` and the name `orders`.

    `values` maps keys to a text or to a list of texts and (key, value) pairs, `blocks` maps keys to their blocks in
    order, and `places` maps keys to locations. If a key occurs several times, `values` and `places` have the last one.
    """

    key: str
    name: str | None
    place: Place
    values: dict[str, Any] = field(default_factory=dict)
    blocks: dict[str, list[Block]] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)

    @property
    def item(self) -> Item:
        """The block as a report item, with nested blocks as lists of mappings."""
        held: Mapping[str, Any] = {
            **self.values,
            **{key: [b.name or b.values for b in found] for key, found in self.blocks.items()},
        }
        return Item(held, lambda *steps: self.places.get(str(steps[0]), self.place) if steps else self.place)

    def below(self, *keys: str) -> list[Block]:
        """Return the nested blocks with some keys."""
        return [block for key in keys for block in self.blocks.get(key, ())]


def parse_lookml(text: str, path: str) -> Block:
    """Parse a document. Raises `ConfigError` (`PATH:LINE: message`) for invalid LookML."""
    return _Parser(text, path).document()


class _Parser:
    def __init__(self, text: str, path: str) -> None:
        self._text, self._path, self._at = text.removeprefix("\ufeff"), path, 0
        self._line, self._counted = 1, 0

    def document(self) -> Block:
        block = Block("", None, self._place())
        self._pairs(block, 0)
        if self._at < len(self._text):
            self._refuse("unmatched closing brace")
        return block

    def _pairs(self, block: Block, depth: int) -> None:
        """Read pairs until a closing brace or the end of the document."""
        if depth > MAX_DEPTH:
            self._refuse(f"blocks are nested more than {MAX_DEPTH} levels deep")
        while self._skip() and self._text[self._at] != "}":
            place = self._place()
            key = self._take(_KEY, "expected a key")
            self._expect(":", f"expected a colon after `{key}`")
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
        word = self._take(_WORD, f"invalid value of `{key}`")
        if self._skip() and self._text[self._at] == "{":
            self._block(block, Block(key, word, place), depth)
        elif key == "include":
            block.values[key] = [*_as_list(block.values.get(key)), word]
        else:
            block.values[key] = word

    def _block(self, parent: Block, block: Block, depth: int) -> None:
        self._at += 1
        self._pairs(block, depth + 1)
        self._expect("}", f"missing closing brace of `{block.key}`")
        parent.blocks.setdefault(block.key, []).append(block)

    def _list(self, depth: int) -> list[Any]:
        """Return the elements of a list."""
        if depth > MAX_DEPTH:
            self._refuse(f"blocks are nested more than {MAX_DEPTH} levels deep")
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
        self._expect("]", "missing closing bracket")
        return result

    def _right_side(self, depth: int) -> Any:
        if self._skip() and self._text[self._at] == "[":
            self._at += 1
            return self._list(depth + 1)
        return self._element()

    def _element(self) -> str:
        if self._skip() and self._text[self._at] == '"':
            return self._string()
        return self._take(_WORD, "expected a value")

    def _raw(self, key: str) -> str:
        end = self._text.find(";;", self._at)
        if end < 0:
            self._refuse(f"missing ;; after `{key}`")
        value = self._text[self._at : end].strip()
        self._at = end + 2
        return value

    def _string(self) -> str:
        found = _TEXT.match(self._text, self._at)
        if found is None:
            self._refuse("unterminated string")
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
        """Skip whitespace and comments. Returns False at the end of the document."""
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


SUFFIXES: Final = (".lkml", ".lookml")
_SINGLE: Final = frozenset({"derived_table", "case", "query", "always_filter", "conditionally_filter", "filters"})


@dataclass(slots=True)
class Project:
    """The `views` and `explores` by name. `tops` are the documents, which have further keys."""

    views: dict[str, Block] = field(default_factory=dict)
    explores: dict[str, Block] = field(default_factory=dict)
    tops: list[Block] = field(default_factory=list)


def read_project(files: Mapping[str, str], report: Report) -> Project:
    """Read all LookML files, and apply refinements in the order of their paths. Invalid files are reported."""
    project = Project()
    refinements: list[Block] = []
    for path, text in sorted(files.items()):
        if path.endswith(".dashboard.lookml"):
            report.dropped(f"file {path}", "dashboards contain no definitions", Place(path))
        elif path.endswith(SUFFIXES):
            _read_file(path, text, project, refinements, report)
    _refine(project, refinements, report)
    for kind in (project.views, project.explores):
        _extend(kind, report)
    return project


def _read_file(path: str, text: str, project: Project, refinements: list[Block], report: Report) -> None:
    try:
        top = parse_lookml(text, path)
    except ConfigError as error:
        why = f"invalid LookML: {error.message}"
        report.dropped(f"file {path}", why, Place(path, error.details["line"]))
        return
    project.tops.append(top)
    for key, kind in (("view", project.views), ("explore", project.explores)):
        for block in top.below(key):
            name = block.name or ""
            if name.startswith("+"):
                refinements.append(block)
            elif not name or name in kind:
                why = f"another {key} has the same name" if name else "the name is missing"
                report.dropped(f"{key} `{name or '?'}`", why, block.place)
            else:
                kind[name] = block


def _refine(project: Project, refinements: list[Block], report: Report) -> None:
    for block in refinements:
        name = (block.name or "").removeprefix("+")
        kind = project.views if block.key == "view" else project.explores
        what = f"refinement of {block.key} `{name}`"
        if name in kind:
            kind[name] = merged(kind[name], block)
            report.kept(what, block.place, name)
        else:
            report.dropped(what, f"no {block.key} has this name", block.place)


def _extend(blocks: dict[str, Block], report: Report) -> None:
    """Merge the extended blocks into the blocks with `extends`."""
    done: dict[str, Block] = {}
    for name in blocks:
        _extended(name, blocks, done, [], report)
    for name, block in done.items():
        blocks[name] = block


def _extended(name: str, blocks: dict[str, Block], done: dict[str, Block], above: list[str], report: Report) -> Block:
    if name in done:
        return done[name]
    block = blocks[name]
    wanted = _extends(block)
    result: Block | None = None
    for parent in wanted:
        what = f"`extends: {parent}` of {block.key} `{name}`"
        if parent not in blocks or parent in (*above, name):
            why = "it extends itself" if parent in blocks else f"no {block.key} has this name"
            report.dropped(what, why, block.places.get("extends", block.place))
            continue
        base = _extended(parent, blocks, done, [*above, name], report)
        result = merged(result, base) if result is not None else base
        report.kept(what, block.places.get("extends", block.place), name)
    if result is not None:
        made = merged(result, block)
        made.place, made.name = block.place, name
        if "extension" not in block.values:
            made.values.pop("extension", None)
        block = made
    done[name] = block
    return block


def _extends(block: Block) -> list[str]:
    """Return the names that a block extends, from `extends: [a]` or `extends__all: [[a]]`."""
    value = block.values.get("extends")
    return [str(each) for each in value if isinstance(each, str)] if isinstance(value, list) else []


def merged(base: Block, above: Block) -> Block:
    """Return a new block with the keys of `above` merged into those of `base`, and fields of the same name merged."""
    made = deepcopy(base)
    made.values |= {key: deepcopy(value) for key, value in above.values.items() if key != "extends"}
    made.places |= above.places
    for key, blocks in above.blocks.items():
        own = made.blocks.setdefault(key, [])
        for block in blocks:
            _merge_one(own, block, single=key in _SINGLE)
    return made


def _merge_one(own: list[Block], block: Block, *, single: bool) -> None:
    for index, each in enumerate(own):
        if each.name == block.name and (block.name is not None or single):
            own[index] = merged(each, block)
            own[index].place = block.place
            return
    own.append(deepcopy(block))


TIMEFRAMES: Final = {
    "raw": None, "time": None, "date": "day", "week": "week", "month": "month", "quarter": "quarter", "year": "year",
    "hour": "hour", "minute": "minute", "second": "second",
}  # fmt: skip
"""The ktx grain for each timeframe of a dimension group, or None for the untruncated time."""

_REFERENCE: Final = re.compile(r"\$\{\s*([\w.]+)\s*\}")
_TABLE: Final = re.compile(r"\$\{TABLE\}\s*\.\s*")
_LIQUID: Final = re.compile(r"\{%|\{\{")


def without_liquid(text: str) -> str:
    """Return the text unchanged. Raises `UnresolvedError` if it contains Liquid."""
    if _LIQUID.search(text):
        raise UnresolvedError(f"it contains Liquid: {one_line(text, 80)}")
    return text


def replaced(text: str, find: Callable[[str], str]) -> str:
    """Return SQL with `${TABLE}.column` replaced by the column, and other `${reference}`s by the result of `find`."""
    plain = _TABLE.sub("", without_liquid(text).strip())
    found = _REFERENCE.sub(lambda match: find(match[1]), plain)
    if "${" in found:
        raise UnresolvedError(f"it contains an invalid reference: {one_line(text, 80)}")
    return found


def references(text: str) -> list[str]:
    """Return the references in `${...}`, except `TABLE`."""
    return [name for name in _REFERENCE.findall(text) if name != "TABLE"]


def cut(column: str, timeframe: str, dialect: str) -> str:
    """Return a column truncated to a timeframe. Raises `UnresolvedError` if ktx does not support the timeframe."""
    if timeframe not in TIMEFRAMES:
        raise UnresolvedError(f"ktx does not support the timeframe `{timeframe}`")
    grain = TIMEFRAMES[timeframe]
    return column if grain is None else truncated(column, grain, dialect)
