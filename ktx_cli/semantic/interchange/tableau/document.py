"""Read the XML of Tableau files, which may come from anywhere, into plain elements with line numbers.

A document with a DTD or an entity of its own is refused, so that nothing is expanded or loaded. Sizes and depths are
limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn
from xml.parsers import expat

from ktx_cli.core import ConfigError

MAX_CHARACTERS: Final = 40_000_000
"""Maximum length of a document, in characters."""

_DEEPEST: Final = 200
_MOST: Final = 1_000_000
_CLOSED: Final = frozenset(("worksheet", "dashboard", "story", "windows", "thumbnails", "preferences"))
"""Elements whose content is not kept: it is most of a workbook, and defines nothing."""

_FEATURE: Final = re.compile(r"_\.fcp\.[\w.]+?\.(true|false)\.\.\.(.+)", re.DOTALL)
"""A name that only counts if a feature of the document format is on or off, such as `_.fcp.Name.true...relation`."""


@dataclass(slots=True)
class Element:
    """An element: its tag without namespace prefixes of features, its attributes, text, and the elements in it."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""
    is_fallback: bool = False
    """Whether it is for programs without a feature of the format, and another element replaces it."""

    def get(self, name: str, default: str = "") -> str:
        """Return an attribute, or the default."""
        return self.attributes.get(name, default)

    def all(self, *tags: str) -> list[Element]:
        """Return the direct children with one of the tags."""
        return [each for each in self.children if each.tag in tags]

    def find(self, *path: str) -> Element | None:
        """Return the first element on a path of tags, or None."""
        found: Element | None = self
        for tag in path:
            found = next(iter(found.all(tag)), None) if found is not None else None
        return found

    def walk(self) -> Iterator[Element]:
        """Yield the element and everything below it."""
        todo = [self]
        while todo:
            found = todo.pop()
            yield found
            todo += reversed(found.children)

    def whole_text(self) -> str:
        """Return all text below the element, one space between words."""
        return " ".join("".join(each.text for each in self.walk()).split())


def parse_document(text: str, path: str) -> Element:
    """Return the root element. Raises `ConfigError` for a document that is not XML, or may not be read."""
    if len(text) > MAX_CHARACTERS:
        why = f"has more than {MAX_CHARACTERS:,} characters"
        details = {"path": path, "line": 1, "reason": f"it {why}"}
        raise ConfigError(f"{path} {why}", hint="remove unused data sources", details=details)
    builder = _Builder(path)
    try:
        builder.parser.Parse(text.lstrip("\ufeff").encode("utf-8", "surrogatepass"), True)
    except expat.ExpatError as error:
        raise _refused(path, error.lineno, f"it is not valid XML: {expat.ErrorString(error.code)}") from None
    return builder.root()


def _refused(path: str, line: int, why: str) -> ConfigError:
    return ConfigError(
        f"{path}:{line}: the Tableau file cannot be read: {why}",
        hint="save it again with Tableau",
        details={"path": path, "line": line, "reason": why},
    )


class _Builder:
    """Builds elements from the events of expat, and refuses everything that could expand or refer to other files."""

    def __init__(self, path: str) -> None:
        self._path, self._open, self._root, self._count = path, list[Element](), list[Element](), 0
        self._ignored = 0  # how many open elements are inside a closed one
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = self._declared
        self.parser.EntityDeclHandler = self._declared
        self.parser.ExternalEntityRefHandler = self._declared
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def root(self) -> Element:
        """Return the element that contains all others."""
        return self._root[0]

    def _refuse(self, why: str) -> NoReturn:
        raise _refused(self._path, self.parser.CurrentLineNumber, why)

    def _declared(self, *_: Any) -> NoReturn:
        self._refuse("it declares a document type or an entity, which ktx does not expand")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if self._ignored or (self._open and self._open[-1].tag in _CLOSED):
            self._ignored += 1
            if self._ignored > _DEEPEST:
                self._refuse(f"it has more than {_DEEPEST} levels of elements")
            return
        self._count += 1
        if len(self._open) >= _DEEPEST or self._count > _MOST:
            self._refuse(f"it has more than {_MOST:,} elements, or {_DEEPEST} levels of them")
        tag, is_fallback = _plain(name)
        made = Element(tag, _attributes(attributes), self.parser.CurrentLineNumber, is_fallback=is_fallback)
        (self._open[-1].children if self._open else self._root).append(made)
        self._open.append(made)

    def _end(self, _: str) -> None:
        if self._ignored:
            self._ignored -= 1
            return
        made = self._open.pop()
        newer = {each.tag for each in made.children if not each.is_fallback}
        made.children = [each for each in made.children if not each.is_fallback or each.tag not in newer]

    def _text(self, text: str) -> None:
        if not self._ignored:
            self._open[-1].text += text


def _plain(name: str) -> tuple[str, bool]:
    """Return a name without the feature that it depends on, and whether it is for programs without the feature."""
    found = _FEATURE.fullmatch(name)
    return (found[2], found[1] == "false") if found is not None else (name, False)


def _attributes(attributes: dict[str, str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for name, value in attributes.items():
        plain, is_fallback = _plain(name)
        if not is_fallback or plain not in result:
            result[plain] = value
    return result
