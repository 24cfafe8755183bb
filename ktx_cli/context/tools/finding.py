"""Searches what a loop sees: its own writes too. One function, whatever index stands behind it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection

from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.model import Document, Found, Hit, Scope
from ktx_cli.context.search.pages import page_document
from ktx_cli.context.search.ranking import hits, rank
from ktx_cli.context.search.semantic_layer import documents
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.tools.models import Layers, digest
from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

Find = Callable[[Tree, Collection[str], str, Scope, int], Found]
"""Takes a tree, the paths a loop changed in it, a query, a scope and a limit; searches the tree."""


class InMemory:
    """A `Find` that reads the whole tree: each part of it once, and again where it changed."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._stores: dict[str, tuple[str, Store]] = {}

    def __call__(self, tree: Tree, changed: Collection[str], query: str, scope: Scope, limit: int) -> Found:
        """Return what fits a query, best first."""
        stores = [self._pages(tree), *(self._layer(tree, each) for each in sorted(self._layers.dialects))]
        ranking = rank(stores, query, scope, limit)
        return Found(hits(stores, ranking.documents[:limit]), ranking.total, ranking.corrected)

    def _pages(self, tree: Tree) -> Store:
        contents = {path: tree.read(path) or b"" for path in tree.paths(FOLDER)}
        known = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()

        def read() -> list[Document]:
            found = (page_document(path, content) for path, content in contents.items())
            return [each for each in found if each is not None]

        return self._store("", known, read)

    def _layer(self, tree: Tree, connection: str) -> Store:
        def read() -> list[Document]:
            return list(documents(Shown(self._layers.model(tree, connection), internal=True)))

        return self._store(connection, digest(tree, connection), read)

    def _store(self, name: str, known: str, read: Callable[[], list[Document]]) -> Store:
        if name not in self._stores or self._stores[name][0] != known:
            self._stores[name] = (known, Store.of({name: read()}))
        return self._stores[name][1]


def find_in(
    find: Find, workspace: Workspace, connections: Collection[str], query: str, scope: Scope, limit: int
) -> list[Hit]:
    """Return the hits of pages and of these connections alone, best first."""
    wanted = limit if scope.connection is not None else 4 * limit + 20
    found = find(workspace, tuple(workspace.changes()), query, scope, wanted)
    return [each for each in found.hits if not each.connection or each.connection in connections][:limit]
