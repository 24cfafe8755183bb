"""Where a part of a file stands, found only when somebody asks: most files are read without a look at their lines."""

from __future__ import annotations

from typing import Any

from ktx_cli.context.semantic.model import Place
from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError

Step = str | int
"""One step into a document: a key, or an index of a list."""


class SourceFile:
    """One file of the semantic layer: its path as git sees it, its bytes and the document in them."""

    __slots__ = ("_lines", "_root", "content", "document", "path")

    def __init__(self, path: str, content: bytes, document: Any) -> None:
        self.path, self.content, self.document = path, content, document
        self._root: yaml.Node | None = None
        self._lines: dict[tuple[Step, ...], int] | None = None

    def place(self, *steps: Step) -> Place:
        """Return where the part of the document at `steps` stands."""
        return _DeferredPlace(self, steps)

    def line(self, steps: tuple[Step, ...]) -> int:
        """Return the line, from 1, of the deepest part of `steps` the document has."""
        lines = self._indexed()
        while steps not in lines:
            steps = steps[:-1]
        return lines[steps]

    def part(self, *steps: Step) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the nodes of key and value (of a list's item: twice its own), or None where there is no such part."""
        key = node = self._composed()
        for step in steps:
            found = next((pair for pair in _children(node) if pair[0] == step), None)
            if found is None:
                return None
            _, key, node = found
        return None if key is None or node is None else (key, node)

    def _composed(self) -> yaml.Node | None:
        if self._root is None:
            try:
                self._root = yaml.compose(self.content, where=self.path)
            except ConfigError:  # reported when the file was read; all there is to point at is its first line
                return None
        return self._root

    def _indexed(self) -> dict[tuple[Step, ...], int]:
        if self._lines is None:
            self._lines = {(): 1}
            stack: list[tuple[tuple[Step, ...], yaml.Node | None]] = [((), self._composed())]
            while stack:
                steps, node = stack.pop()
                for step, key, value in _children(node):
                    self._lines[(*steps, step)] = key.line + 1
                    stack.append(((*steps, step), value))
        return self._lines


def _children(node: yaml.Node | None) -> list[tuple[Step, yaml.Node, yaml.Node]]:
    """Return step, key and value of what is directly in a node."""
    if node is None:
        return []
    pairs: list[tuple[Step, yaml.Node, yaml.Node]] = [(str(key.value), key, value) for key, value in node.pairs]
    return pairs or [(index, item, item) for index, item in enumerate(node.items)]


class _DeferredPlace(Place):
    """A place whose line is looked up in the file when it is first needed."""

    __slots__ = ("_file", "_steps")
    _file: SourceFile
    _steps: tuple[Step, ...]

    def __init__(self, file: SourceFile, steps: tuple[Step, ...]) -> None:
        object.__setattr__(self, "path", file.path)
        object.__setattr__(self, "_file", file)
        object.__setattr__(self, "_steps", steps)

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self._file.line(self._steps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.path, self.line) == (other.path, other.line)

    def __hash__(self) -> int:
        return hash((self.path, self.line))

    def __repr__(self) -> str:
        return f"Place({self.path!r}, {self.line})"

    def __reduce__(self) -> tuple[type[Place], tuple[str, int]]:
        return Place, (self.path, self.line)
