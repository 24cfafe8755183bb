"""Searches what a loop sees: its own writes too."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ktx_cli.context.search.index.overlays import Overlays
from ktx_cli.context.search.index.parts import Contents, Layer, Pages
from ktx_cli.context.search.model import Found, Hit, Scope
from ktx_cli.context.search.ranking import found, rank
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.tools.models import Layers
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

Find = Callable[[Workspace, str, Scope, int], Found]
"""Takes the overlay a loop writes to, a query, a scope and a limit; searches the overlay as it is now."""


def in_memory(layers: Layers) -> Find:
    """Return a `Find` that has no index behind it: it reads the whole overlay when it is first asked."""
    parts = [layer_part(layers, connection) for connection in sorted(layers.dialects)]
    overlays = Overlays(lambda: Contents([Pages(), *parts]))

    def find(workspace: Workspace, query: str, scope: Scope, limit: int) -> Found:
        stores = overlays.view(workspace).stores
        return found(stores, rank(stores, query, scope, limit), limit)

    return find


def layer_part(layers: Layers, connection: str) -> Layer:
    """Return the semantic layer of a connection as something to search, read as the tools of loops read it."""

    def load(tree: Tree) -> Model:
        return layers.model(tree, connection)

    return Layer(None, connection, layers.dialects[connection], load, layers.configured)


def find_in(
    find: Find, workspace: Workspace, connections: Collection[str], query: str, scope: Scope, limit: int
) -> list[Hit]:
    """Return the hits of pages and of these connections alone, best first; what is internal is among them."""
    wanted = limit if scope.connection is not None else 4 * limit + 20
    hits = find(workspace, query, replace(scope, internal=True), wanted).hits
    return [each for each in hits if not each.connection or each.connection in connections][:limit]
