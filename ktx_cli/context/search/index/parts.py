"""What of a project is searched, in units that are indexed as a whole: one page, one connection's semantic layer.

A part knows its units by cheap signatures (size and time of files), by digests (their contents), and their documents.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ktx_cli.context.scan.profiling.dictionary import ColumnValues
from ktx_cli.context.scan.shards import SUFFIXES
from ktx_cli.context.search.model import Document
from ktx_cli.context.search.pages import page_document
from ktx_cli.context.search.passages import Passage, passage_documents
from ktx_cli.context.search.semantic_layer import documents
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.search.values import value_documents
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.project.files import storage_error
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import Tree

LoadModel = Callable[[Tree], Model]


class Part(Protocol):
    """Units of one sort. A unit that is gone has no signature."""

    def signatures(self) -> Mapping[str, str]:
        """Return unit -> signature of all units, from sizes and times alone."""
        ...

    def units_of(self, path: str) -> Sequence[str]:
        """Return the units a file of the project is part of."""
        ...

    def digest(self, unit: str, tree: Tree) -> str:
        """Return what tells one content of a unit from another; reads its files."""
        ...

    def documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        """Return the documents of a unit; none where it is gone."""
        ...


class Pages:
    """The wiki: every page is a unit, named by its path."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def signatures(self) -> dict[str, str]:
        """Return page's path -> its size and time."""
        return signatures_below(self._root, FOLDER.rstrip("/"), (".md",))

    def units_of(self, path: str) -> Sequence[str]:
        """Return the page."""
        return (path,) if path.startswith(FOLDER) and path.endswith(".md") else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the page."""
        return hashlib.sha256(tree.read(unit) or b"").hexdigest()

    def documents(self, unit: str, tree: Tree) -> list[Document]:
        """Return the page; none for a file that can be no page."""
        content = tree.read(unit)
        found = None if content is None else page_document(unit, content)
        return [] if found is None else [found]


class Layer:
    """The semantic layer of one connection: one unit, because its files speak of each other.

    `stamp`: what else its documents come from (dialect, calendar). `load` reads it from a tree.
    """

    def __init__(self, root: Path, connection: str, stamp: str, load: LoadModel) -> None:
        self._root, self._stamp, self._load = root, stamp, load
        self.folder = Layout.context_paths(connection)[0]
        self._model: tuple[str, Shown] | None = None

    def signatures(self) -> dict[str, str]:
        """Return the unit with the sizes and times of all files together."""
        return {self.folder: self.signature()}

    def signature(self) -> str:
        """Return the sizes and times of all files together."""
        found = signatures_below(self._root, self.folder, SUFFIXES)
        return "\n".join((self._stamp, *(f"{path} {found[path]}" for path in sorted(found))))

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each of its files."""
        return (self.folder,) if path.startswith(f"{self.folder}/") and path.endswith(SUFFIXES) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of all files."""
        paths = sorted(path for path in tree.paths(f"{self.folder}/") if path.endswith(SUFFIXES))
        return _hash((self._stamp, *(f"{path} {hashlib.sha256(tree.read(path) or b'').hexdigest()}" for path in paths)))

    def documents(self, unit: str, tree: Tree) -> Iterator[Document]:
        """Return what of the semantic layer is public."""
        return documents(self.shown(tree))

    def shown(self, tree: Tree) -> Shown:
        """Return the semantic layer as a tree has it; the last one read is remembered."""
        digest = self.digest(self.folder, tree)
        if self._model is None or self._model[0] != digest:
            self._model = (digest, Shown(self._load(tree)))
        return self._model[1]


class Values:
    """The values of the columns of one connection: one unit, beside its semantic layer.

    `stamp`: when and under which rules they were read. `load` returns the lists.
    """

    def __init__(self, layer: Layer, stamp: str, load: Callable[[], Iterable[ColumnValues]]) -> None:
        self._layer, self._stamp, self._load = layer, stamp, load
        self._unit = f"values of {layer.folder}"

    def signatures(self) -> dict[str, str]:
        """Return the unit with its stamp and the signature of the semantic layer, which says what is shown."""
        return {self._unit: _hash((self._stamp, self._layer.signature()))}

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each file of the semantic layer."""
        return (self._unit,) if self._layer.units_of(path) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the stamp and the semantic layer."""
        return _hash((self._stamp, self._layer.digest(self._layer.folder, tree)))

    def documents(self, unit: str, tree: Tree) -> Iterator[Document]:
        """Return the values of columns that are shown."""
        return value_documents(self._layer.shown(tree), self._load())


class Passages:
    """The passages of one connection: one unit. `stamp` changes whenever they do."""

    def __init__(self, connection: str, stamp: str, load: Callable[[], Iterable[Passage]]) -> None:
        self._unit, self._stamp, self._load = f"passages of {connection}", stamp, load

    def signatures(self) -> dict[str, str]:
        """Return the unit with its stamp."""
        return {self._unit: self._stamp}

    def units_of(self, path: str) -> Sequence[str]:
        """Return nothing: passages are in no file of the project."""
        return ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the stamp."""
        return self._stamp

    def documents(self, unit: str, tree: Tree) -> Iterator[Document]:
        """Return the passages."""
        return passage_documents(self._load())


class Contents:
    """All parts of a project together."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = list(parts)
        self._part_of: dict[str, Part] = {}

    def signatures(self) -> dict[str, str]:
        """Return unit -> signature of everything."""
        found: dict[str, str] = {}
        for part in self._parts:
            units = part.signatures()
            self._part_of.update(dict.fromkeys(units, part))
            found.update(units)
        return found

    def units_of(self, path: str) -> list[str]:
        """Return the units a file is part of."""
        found = [(part, unit) for part in self._parts for unit in part.units_of(path)]
        self._part_of.update({unit: part for part, unit in found})
        return [unit for _, unit in found]

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the digest of a unit, nothing for one that no part has any more."""
        part = self._part_of.get(unit)
        return "" if part is None else part.digest(unit, tree)

    def documents(self, unit: str, tree: Tree) -> list[Document]:
        """Return the documents of a unit; none for one that no part has any more."""
        part = self._part_of.get(unit)
        return [] if part is None else list(part.documents(unit, tree))


def files_between(unit: str, was: str, now: str) -> set[str]:
    """Return the files that make the difference between two signatures of a unit; none where it is made of others."""
    if unit.startswith(FOLDER):
        return {unit}
    lines = set(was.splitlines()[1:]) ^ set(now.splitlines()[1:])
    return {line.rsplit(" ", 2)[0] for line in lines}


def signatures_below(root: Path, folder: str, endings: tuple[str, ...]) -> dict[str, str]:
    """Return path -> `size mtime_ns` of the files in a folder and below that have one of some endings.

    Links to folders are not followed. Raises `StorageError` for a folder that cannot be read.
    """
    found: dict[str, str] = {}
    folders = [folder]
    while folders:
        here = folders.pop()
        try:
            with os.scandir(root / here) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{here}/{entry.name}")
                    elif entry.name.endswith(endings) and entry.is_file():
                        found[f"{here}/{entry.name}"] = _signature(entry)
        except (FileNotFoundError, NotADirectoryError):  # there is none
            continue
        except OSError as error:
            raise storage_error(root / here, error, "read") from error
    return {path: signature for path, signature in found.items() if signature}


def _signature(entry: os.DirEntry[str]) -> str:
    try:
        stat = entry.stat()
    except FileNotFoundError:  # it went while the folder was read
        return ""
    return f"{stat.st_size} {stat.st_mtime_ns}"


def _hash(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
