"""What of a project is searched, in units that are indexed as a whole: one page, one connection's semantic layer.

A part knows its units by cheap signatures (size and time of files), by digests (their contents), and their documents.
Several threads may ask a part at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ktx_cli.core import KtxError, Recent, ResultWarning, escaped, is_utf8
from ktx_cli.project import SEMANTIC_NAME, Layout, Tree, WorkingTree, hash_of, signatures_below
from ktx_cli.scan import snapshot_path
from ktx_cli.search.corpus import (
    Document,
    Passage,
    Shown,
    all_documents,
    page_document,
    passage_documents,
    value_documents,
)
from ktx_cli.search.index import digest_of
from ktx_cli.semantic import SUFFIXES, ColumnValues, Model, is_stray, stray_paths
from ktx_cli.wiki import FOLDER

if TYPE_CHECKING:
    from ktx_cli.protection import Relations

LoadModel = Callable[[Tree], Model]

Documents = Mapping[bytes, Document]
"""Documents by what tells one content from another."""

DOCUMENT: Final = "document "
"""What the units of passages begin with: each is one document of a source."""

_KEPT: Final = 8
"""How many states of a semantic layer are remembered: those of a few loops side by side."""


class Part(Protocol):
    """Units of one sort. A unit that is gone has no signature."""

    def signatures(self) -> Mapping[str, str]:
        """Return unit -> signature of all units, from sizes and times alone, of the files on the disk."""
        ...

    def units(self, tree: Tree) -> Iterable[str]:
        """Return all units in a tree."""
        ...

    def owns(self, unit: str) -> bool:
        """Say whether a unit is of this part, also one that is gone."""
        ...

    def units_of(self, path: str) -> Sequence[str]:
        """Return the units a file of the project is part of."""
        ...

    def digest(self, unit: str, tree: Tree) -> str:
        """Return what tells one content of a unit from another; reads its files."""
        ...

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return the documents of a unit; none where it is gone."""
        ...


class Pages:
    """The wiki: every page is a unit, named by its path. `root` None: there is no disk, only trees are searched."""

    def __init__(self, root: Path | None = None) -> None:
        self._root = root

    def signatures(self) -> dict[str, str]:
        """Return page's path -> its size and time."""
        return signatures_below(self._root, FOLDER.rstrip("/"), (".md",))

    def units(self, tree: Tree) -> Iterable[str]:
        """Return the pages."""
        return (path for path in tree.paths(FOLDER) if path.endswith(".md") and is_utf8(path))

    def owns(self, unit: str) -> bool:
        """Say whether it is a page."""
        return unit.startswith(FOLDER) and unit.endswith(".md") and is_utf8(unit)

    def units_of(self, path: str) -> Sequence[str]:
        """Return the page."""
        return (path,) if self.owns(path) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the page."""
        return hashlib.sha256(tree.read(unit) or b"").hexdigest()

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return the page; none for a file that can be no page."""
        content = tree.read(unit)
        found = None if content is None else page_document(unit, content)
        return _by_digest([] if found is None else [found])


class Layer:
    """The semantic layer of one connection: one unit, because its files speak of each other.

    `stamp`: what else its documents come from (dialect, calendar). `load` reads it from a tree. `configured`: the ids
    of all connections in `ktx.yaml`; what lies outside of their folders may hide something of it. None: it is of none.
    """

    def __init__(
        self, root: Path | None, connection: str, stamp: str, load: LoadModel, configured: Collection[str] | None = None
    ) -> None:
        self._root, self._stamp, self._load, self._configured = root, stamp, load, configured
        self.connection = connection
        self.folder = Layout.context_paths(connection)[0]
        self._models: Recent[Model] = Recent(_KEPT)
        self._documents: Recent[Documents] = Recent(_KEPT)

    def signatures(self) -> dict[str, str]:
        """Return the unit with the sizes and times of all files together; nothing where there are none."""
        signature = self.signature()
        return {self.folder: signature} if signature else {}

    def signature(self) -> str:
        """Return the sizes and times of all files together, empty where there are none."""
        found = signatures_below(self._root, self.folder, SUFFIXES, irregular=True)
        if found and self._root is not None and self._configured is not None:
            found |= stray_signatures(self._root, self._configured)
        return layer_signature(found, self._stamp)

    def scan_signature(self) -> str:
        """Return the size and time of what lists the last scan, empty where there was none."""
        return scan_signature(self._root, self.connection)

    def units(self, tree: Tree) -> Sequence[str]:
        """Return the unit where it has files."""
        return (self.folder,) if any(path.endswith(SUFFIXES) for path in tree.paths(f"{self.folder}/")) else ()

    def owns(self, unit: str) -> bool:
        """Say whether it is the unit."""
        return unit == self.folder

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each of its files, and for those of no connection."""
        if self._configured is not None and is_stray(path, self._configured):
            return (self.folder,)
        return (self.folder,) if path.startswith(f"{self.folder}/") and path.endswith(SUFFIXES) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of all files."""
        paths = sorted(path for path in tree.paths(f"{self.folder}/") if path.endswith(SUFFIXES))
        paths += () if self._configured is None else stray_paths(tree, self._configured)
        digests = (f"{path} {_digest_at(tree, path)}" for path in paths)
        return hash_of((RULES, self._stamp, *digests))

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return what of the semantic layer is not hidden."""
        digest = self.digest(self.folder, tree)
        return self._documents.get(digest, lambda: _by_digest(all_documents(self._model(tree, digest))))

    def shown(self, tree: Tree) -> Shown:
        """Return what of the semantic layer as a tree has it is public."""
        return Shown(self._model(tree, self.digest(self.folder, tree)))

    def _model(self, tree: Tree, digest: str) -> Model:
        return self._models.get(digest, lambda: self._load(tree))


class Values:
    """The values of the columns of one connection: one unit, beside its semantic layer.

    `stamp`: when and under which rules they were read. `load` returns the lists.
    """

    def __init__(self, layer: Layer, stamp: str, load: Callable[[], Iterable[ColumnValues]]) -> None:
        self._layer, self._stamp, self._load = layer, stamp, load
        self._unit = values_unit(layer.folder)

    def signatures(self) -> dict[str, str]:
        """Return the unit with its stamp and the signatures of what says what is shown: layer and last scan."""
        signature = self._layer.signature()
        scan = self._layer.scan_signature()
        return {self._unit: values_signature(self._stamp, signature, scan)} if signature else {}

    def units(self, tree: Tree) -> Sequence[str]:
        """Return the unit where there is a semantic layer."""
        return (self._unit,) if self._layer.units(tree) else ()

    def owns(self, unit: str) -> bool:
        """Say whether it is the unit."""
        return unit == self._unit

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each file of the semantic layer."""
        return (self._unit,) if self._layer.units_of(path) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the stamp, the semantic layer and the last scan, which says what views read."""
        scan = _digest_at(tree, snapshot_path(self._layer.connection))
        return hash_of((self._stamp, self._layer.digest(self._layer.folder, tree), scan))

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return the values of columns that are shown."""

        def relations() -> Relations:
            from ktx_cli.protection import read_relations

            return read_relations(tree, self._layer.connection)

        return _by_digest(value_documents(self._layer.shown(tree), self._load(), relations))


class Passages:
    """The passages of one source of documents: every document is a unit.

    `documents`: path -> what tells one content from another. `load` takes a path and returns the passages there.
    """

    def __init__(self, source: str, documents: Mapping[str, str], load: Callable[[str], Iterable[Passage]]) -> None:
        self._mark = f"{DOCUMENT}{source}:"
        self._digests = {f"{self._mark}{path}": digest for path, digest in documents.items()}
        self._load = load

    def signatures(self) -> Mapping[str, str]:
        """Return the documents."""
        return self._digests

    def units(self, tree: Tree) -> Iterable[str]:
        """Return the documents: they are in no file of the project, and the same in every tree."""
        return self._digests

    def owns(self, unit: str) -> bool:
        """Say whether it is a document of this source."""
        return unit.startswith(self._mark)

    def units_of(self, path: str) -> Sequence[str]:
        """Return nothing."""
        return ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return what tells one content of a document from another."""
        return self._digests.get(unit, "")

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return the passages of a document."""
        known = unit in self._digests
        return _by_digest(passage_documents(self._load(unit.removeprefix(self._mark)))) if known else {}


class Contents:
    """All parts of a project together; `warnings`: why others are not among them."""

    def __init__(self, parts: Iterable[Part], warnings: Iterable[ResultWarning] = ()) -> None:
        self._parts = tuple(parts)
        self.warnings = tuple(warnings)

    def signatures(self) -> dict[str, str]:
        """Return unit -> signature of everything on the disk."""
        return {unit: signature for part in self._parts for unit, signature in part.signatures().items()}

    def units(self, tree: Tree) -> set[str]:
        """Return all units in a tree."""
        return {unit for part in self._parts for unit in part.units(tree)}

    def units_of(self, path: str) -> list[str]:
        """Return the units a file is part of."""
        return [unit for part in self._parts for unit in part.units_of(path)]

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the digest of a unit, nothing for one that no part has any more."""
        part = self._part_of(unit)
        return "" if part is None else part.digest(unit, tree)

    def documents(self, unit: str, tree: Tree) -> Documents:
        """Return the documents of a unit; none for one that no part has any more."""
        part = self._part_of(unit)
        return {} if part is None else part.documents(unit, tree)

    def _part_of(self, unit: str) -> Part | None:
        return next((part for part in self._parts if part.owns(unit)), None)


def files_between(unit: str, was: str, now: str) -> set[str]:
    """Return the files that make the difference between two signatures of a unit; none where it is made of others."""
    if unit.startswith(FOLDER):
        return {unit}
    if not unit.startswith(f"{SEMANTIC_NAME}/"):
        return set()
    lines = set(was.splitlines()[1:]) ^ set(now.splitlines()[1:])
    return {line.rsplit(" ", 2)[0] for line in lines}


def _digest_at(tree: Tree, path: str) -> str:
    """Return the hash of a file; a word for one that cannot be read, which the semantic layer names."""
    try:
        return hashlib.sha256(tree.read(path) or b"").hexdigest()
    except KtxError:
        return "unreadable"


def _by_digest(found: Iterable[Document]) -> Documents:
    return {digest_of(each): each for each in found}


RULES: Final = "2"
"""By which rules is said what is shown: another number where an index that was written before shows more."""


def layer_signature(files: Mapping[str, str], stamp: str) -> str:
    """Return the signatures of all files of a semantic layer together, empty where there are none."""
    return "\n".join((f"{RULES} {stamp}", *(f"{path} {files[path]}" for path in sorted(files)))) if files else ""


def values_unit(layer: str) -> str:
    """Return the unit of the values beside the semantic layer in a folder."""
    return f"values of {layer}"


def values_signature(stamp: str, layer: str, scan: str) -> str:
    """Return the signature of values read under a stamp, beside a semantic layer and a scan of these signatures."""
    return hash_of((stamp, layer, scan))


def scan_signature(root: Path | None, connection: str) -> str:
    """Return the size and time of what lists the last scan of a connection, empty where there was none."""
    folder, _, name = snapshot_path(connection).rpartition("/")
    return signatures_below(root, folder, (name,)).get(f"{folder}/{name}", "")


def stray_signatures(root: Path, configured: Collection[str]) -> dict[str, str]:
    """Return path -> `size mtime_ns` of the files in `semantic-layer/` outside the folders of all connections.

    `configured`: the ids of these. Raises `StorageError` for a folder that cannot be listed.
    """
    found = {}
    for path in stray_paths(WorkingTree(root), configured):
        try:
            stat = (root / path).stat()
        except OSError:  # a link that leads nowhere
            found[escaped(path)] = "0 0"
        else:
            found[escaped(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return found
