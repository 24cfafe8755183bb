"""Searches what a loop sees: its own writes too. One function, whatever index stands behind it."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.model import Document, Found, Hit, Scope
from ktx_cli.context.search.pages import page_document
from ktx_cli.context.search.ranking import hits, rank
from ktx_cli.context.search.semantic_layer import documents
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.tools.models import Layers, digest
from ktx_cli.context.tools.recent import Recent
from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

Find = Callable[[Tree, Collection[str], str, Scope, int], Found]
"""Takes a tree, the paths a loop changed in it, a query, a scope and a limit; searches the tree."""


_Units = dict[str, tuple[Document, ...]]
"""A page by its path, a source by its name -> its documents."""


@dataclass(frozen=True, slots=True)
class _Base:
    """A part of a project as it was when it was indexed."""

    units: _Units
    store: Store

    def beside(self, units: _Units) -> list[Store]:
        """Return the index without what changed since, and one of that."""
        changed = [unit for unit in {**self.units, **units} if self.units.get(unit) != units.get(unit)]
        new = {unit: units[unit] for unit in changed if unit in units}
        return [self.store.without(self._numbers(changed)), Store.of(new)] if changed else [self.store]

    def _numbers(self, units: Collection[str]) -> set[int]:
        ask = "SELECT id FROM docs WHERE unit = ?"
        return {number for unit in units for (number,) in self.store.database.execute(ask, (unit,))}


_BASES: Final[Recent[_Base]] = Recent(8)


class InMemory:
    """A `Find` that reads the whole tree. What a loop began with is indexed once for all loops of a run."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._bases: dict[str, _Base] = {}
        self._views: dict[str, tuple[str, list[Store]]] = {}

    def __call__(self, tree: Tree, changed: Collection[str], query: str, scope: Scope, limit: int) -> Found:
        """Return what fits a query, best first."""
        stores = list(self._part("", pages_digest(tree), lambda: page_units(tree)))
        for connection in sorted(self._layers.dialects):
            stores += self._part(connection, digest(tree, connection), functools.partial(self._layer, tree, connection))
        ranking = rank(stores, query, scope, limit)
        return Found(hits(stores, ranking.documents[:limit]), ranking.total, ranking.corrected)

    def _layer(self, tree: Tree, connection: str) -> _Units:
        found: dict[str, list[Document]] = {}
        for each in documents(Shown(self._layers.model(tree, connection), internal=True)):
            source = each.id if each.kind == "source" else each.id.rpartition(".")[0]
            found.setdefault(source, []).append(each)
        return {source: tuple(listed) for source, listed in found.items()}

    def _part(self, name: str, known: str, read: Callable[[], _Units]) -> list[Store]:
        """Return the indexes of one part of the project, as it is now."""
        if name in self._views and self._views[name][0] == known:
            return self._views[name][1]
        if name not in self._bases:
            self._bases[name] = _BASES.get((name, known), lambda: _indexed(read()))
        stores = self._bases[name].beside(read())
        self._views[name] = (known, stores)
        return stores


def _indexed(units: _Units) -> _Base:
    return _Base(units, Store.of(units))


def page_units(tree: Tree) -> _Units:
    """Return the pages of a tree by path."""
    found = ((path, _page(path, tree.read(path) or b"")) for path in tree.paths(FOLDER))
    return {path: (each,) for path, each in found if each is not None}


def pages_digest(tree: Tree) -> str:
    """Return what tells the pages of a tree from any others."""
    found = hashlib.sha256()
    for path in tree.paths(FOLDER):
        content = tree.read(path) or b""
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()


@functools.lru_cache(maxsize=4_096)
def _page(path: str, content: bytes) -> Document | None:
    return page_document(path, content)


def find_in(
    find: Find, workspace: Workspace, connections: Collection[str], query: str, scope: Scope, limit: int
) -> list[Hit]:
    """Return the hits of pages and of these connections alone, best first."""
    wanted = limit if scope.connection is not None else 4 * limit + 20
    found = find(workspace, tuple(workspace.changes()), query, scope, wanted)
    return [each for each in found.hits if not each.connection or each.connection in connections][:limit]
