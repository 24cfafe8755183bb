"""Serialize parts of a semantic layer as JSON, and deserialize them to equal objects.

The fields come from the type annotations of the dataclasses, so that new fields are stored automatically. A location is
stored as its file and the path within the document; its line is determined on first use, as for loaded files.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Callable, Mapping
from datetime import date
from enum import Enum
from typing import Any, Final, TypeVar

from ktx_cli.core import AgentStep, Argument, Command, Diagnostic, Hint, Severity, yaml
from ktx_cli.project import Tree
from ktx_cli.semantic.load.entries import DeferredPlace, SourceFile
from ktx_cli.semantic.model import Place, Source

_T = TypeVar("_T")
Convert = Callable[[Any], Any]


class NotStorable(Exception):
    """A value that does not survive a round trip through JSON."""


class Paths:
    """The files that locations refer to: by number when stored, as readers of a tree when loaded.

    `tree`: the tree from which files are read, or None if nothing is read.
    """

    def __init__(self, names: list[str], tree: Tree | None = None) -> None:
        self.names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._tree, self._files = tree, dict[str, SourceFile]()

    def number(self, path: str) -> int:
        """Return the number of a file; a new file gets the next number."""
        if path not in self._numbers:
            self._numbers[path] = len(self.names)
            self.names.append(path)
        return self._numbers[path]

    def file(self, number: int) -> SourceFile:
        """Return the file with a number; its content is read when one of its lines is looked up."""
        path = self.names[number]
        if path not in self._files:
            self._files[path] = _UnreadFile(path, self._tree)
        return self._files[path]

    def unread(self, path: str, document: Any) -> SourceFile:
        """Return a file with a known document; its content is read when one of its lines is looked up."""
        return _UnreadFile(path, self._tree, document)


class _UnreadFile(SourceFile):
    """A file in a tree, which is read when a line is looked up; one that was since removed only has a first line."""

    __slots__ = ("_tree",)

    def __init__(self, path: str, tree: Tree | None, document: Any = None) -> None:
        super().__init__(path, b"", document)
        self._tree = tree

    def compose(self) -> yaml.Node | None:
        """Return the node of the whole document, or None if it cannot be read."""
        self._read_content()
        return super().compose()

    def _read_lines(self) -> yaml.Lines:
        self._read_content()
        return super()._read_lines()

    def _read_content(self) -> None:
        if not self.content:
            self.content = (None if self._tree is None else self._tree.read(self.path)) or b""


class Codec:
    """Writes and reads objects whose locations are in some files."""

    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self._pairs: dict[Any, tuple[Convert, Convert]] = {}

    def dump(self, value: Any, kind: Any) -> str:
        """Return a value of a type (as in an annotation) as JSON; raises `NotStorable` if that loses information."""
        return json.dumps(self._pair(kind)[0](value), ensure_ascii=False, separators=(",", ":"))

    def load(self, text: str, kind: type[_T]) -> _T:
        """Return the value from the JSON that `dump` wrote."""
        found: _T = self._pair(kind)[1](json.loads(text))
        return found

    def _pair(self, kind: Any) -> tuple[Convert, Convert]:
        """Return the functions that convert a value of a type to JSON and back."""
        found = self._pairs.get(kind)
        if found is None:
            found = self._pairs[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> tuple[Convert, Convert]:
        if kind in (str, int, bool, float, type(None)):
            return _same, _same
        if kind is Any:
            return plain, _same
        if kind is Hint:
            return str, Hint.of
        if kind is Place:
            return self._dump_place, self._load_place
        if kind is date:
            return date.isoformat, date.fromisoformat
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return _optional(*self._pair(_only([each for each in inner if each is not type(None)], kind)))
        if origin is tuple:
            return self._tuple(inner)
        if origin is Mapping:
            dump, load = self._pair(inner[1])
            return _mapping(plain, _same) if inner[1] is Any else _mapping(dump, load)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _value_of, {each.value: each for each in kind}.__getitem__
        if dataclasses.is_dataclass(kind):
            return self._dataclass(kind)
        raise TypeError(f"a semantic layer cannot store {kind}")

    def _tuple(self, inner: tuple[Any, ...]) -> tuple[Convert, Convert]:
        if len(inner) == 2 and inner[1] is Ellipsis:
            dump, load = self._pair(inner[0])
            if dump is _same:
                return list, tuple
            return (lambda value: [dump(each) for each in value]), (lambda value: tuple(map(load, value)))
        pairs = [self._pair(each) for each in inner]
        if all(dump is _same for dump, _ in pairs):
            return list, tuple
        dumps, loads = [dump for dump, _ in pairs], [load for _, load in pairs]
        return (
            lambda value: [dump(each) for dump, each in zip(dumps, value, strict=True)],
            lambda value: tuple(load(each) for load, each in zip(loads, value, strict=True)),
        )

    def _dataclass(self, kind: Any) -> tuple[Convert, Convert]:
        """Store a dataclass as the list of its fields, without trailing fields that have their defaults."""
        hints = typing.get_type_hints(kind)
        fields = [each for each in dataclasses.fields(kind) if each.init]
        pairs = [self._pair(hints[each.name]) for each in fields]
        names = [each.name for each in fields]
        dumps = [dump for dump, _ in pairs]
        loads = [(index, load) for index, (_, load) in enumerate(pairs) if load is not _same]
        defaults = [None if each.default is dataclasses.MISSING else dump(each.default)
                    if each.default is not None else None
                    for each, dump in zip(fields, dumps, strict=True)]  # fmt: skip
        required = sum(
            each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING for each in fields
        )
        has_default = [each.default is not dataclasses.MISSING for each in fields]

        def dump_all(value: Any) -> list[Any]:
            stored = [dump(getattr(value, name)) for dump, name in zip(dumps, names, strict=True)]
            while len(stored) > required and has_default[len(stored) - 1] and stored[-1] == defaults[len(stored) - 1]:
                stored.pop()
            return stored

        def load_all(stored: list[Any]) -> Any:
            count = len(stored)
            for index, load in loads:
                if index < count:
                    stored[index] = load(stored[index])
            return kind(*stored)

        return dump_all, load_all

    def _dump_place(self, place: Place) -> list[Any]:
        if not isinstance(place, DeferredPlace):
            return [self.paths.number(place.path), place.line, place.object, place.connection]
        stored = [self.paths.number(place.path), list(place.steps)]
        return stored if place.object is place.connection is None else [*stored, place.object, place.connection]

    def _load_place(self, stored: list[Any]) -> Place:
        number, where, *rest = stored
        if isinstance(where, int):
            return Place(self.paths.names[number], where, *rest)
        return DeferredPlace(self.paths.file(number), tuple(where), *rest)

    def dump_diagnostic(self, each: Diagnostic) -> str:
        """Return a diagnostic about a file of the layer as JSON."""
        place = each.location
        if not isinstance(place, Place):
            raise NotStorable
        hint = None if each.hint is None else list(map(_dump_hint_part, each.hint.parts))
        stored = [each.code, each.severity.value, each.message, self._dump_place(place), hint]
        return json.dumps(stored, ensure_ascii=False, separators=(",", ":"))

    def load_diagnostic(self, text: str) -> Diagnostic:
        """Return the diagnostic from the JSON that `dump_diagnostic` wrote."""
        code, severity, message, place, parts = json.loads(text)
        hint = None if parts is None else _load_hint(parts)
        return Diagnostic(code, Severity(severity), message, self._load_place(place), hint)


class SourceDigests(Codec):
    """Identifies the content of a source, regardless of its position in files."""

    def __init__(self) -> None:
        super().__init__(Paths([]))

    def of(self, source: Source) -> str:
        """Return a source's digest."""
        try:
            text = self.dump(source, Source)
        except NotStorable:
            text = repr(source)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _dump_place(self, place: Place) -> list[Any]:
        return []


def _dump_hint_part(part: str) -> str | list[Any]:
    """Return a part of a hint as JSON: a text, or a kind of part and what it is made of."""
    if isinstance(part, Argument):
        return ["argument", part.name, plain(part.value)]
    if isinstance(part, Command) and all(type(word) is str for word in part.words):
        return ["command", part.program, *part.words]
    if isinstance(part, AgentStep):
        return ["step", str(part), *map(_dump_hint_part, part.typed.parts)]
    if type(part) is not str:
        raise NotStorable
    return part


def _load_hint(parts: list[Any]) -> Hint:
    """Return the hint from the parts that `_dump_hint_part` wrote."""
    return Hint.steps(*(part if isinstance(part, str) else _load_hint_part(*part) for part in parts), between="")


def _load_hint_part(kind: str, first: str, *more: Any) -> str:
    if kind == "argument":
        return Argument(first, *more)
    if kind == "command":
        return Command(*more, program=first)
    return AgentStep(first, typed=_load_hint([*more]))


def _same(value: Any) -> Any:
    return value


def _value_of(value: Any) -> Any:
    return value.value


def _only(kinds: list[Any], whole: Any) -> Any:
    if len(kinds) != 1:
        raise TypeError(f"a semantic layer cannot store {whole}")
    return kinds[0]


_SCALARS: Final = (str, int, float, bool, type(None))


def plain(value: Any) -> Any:
    """Return a value from a file unchanged; raises `NotStorable` if it does not survive a round trip through JSON."""
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: plain(each) for key, each in value.items()}
    elif isinstance(value, list):
        return [plain(each) for each in value]
    elif type(value) in _SCALARS and value == value:
        return value
    raise NotStorable


def _optional(dump: Convert, load: Convert) -> tuple[Convert, Convert]:
    if dump is _same and load is _same:
        return _same, _same
    return (lambda value: None if value is None else dump(value), lambda value: None if value is None else load(value))


def _mapping(dump: Convert, load: Convert) -> tuple[Convert, Convert]:
    return (
        lambda value: {name: dump(each) for name, each in value.items()},
        lambda value: {name: load(each) for name, each in value.items()},
    )
