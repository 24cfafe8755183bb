"""The tables of the semantic layer as a few bytes, made once for each state of an overlay: all sources ask for them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from ktx_cli.project.layout import SCHEMA_NAME, SEMANTIC_NAME
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

_State = Mapping[str, bytes | None]
_MADE: Final[WeakKeyDictionary[Tree, tuple[_State, bytes]]] = WeakKeyDictionary()
"""The tree at the bottom of overlays -> what stood above it when the bytes were made, and the bytes."""


def tables(workspace: Workspace) -> bytes:
    """Return a line for each file of the manifest in an overlay, with its sha256."""
    state = {path: content for path, content in workspace.overlaid().items() if _is_table(path)}
    made = _MADE.get(workspace.origin)
    if made is None or made[0] != state:
        made = _MADE[workspace.origin] = state, _lines(workspace)
    return made[1]


def _lines(workspace: Workspace) -> bytes:
    paths = filter(_is_table, workspace.paths(f"{SEMANTIC_NAME}/"))
    contents = ((path, workspace.read(path) or b"") for path in paths)
    return "".join(f"{path}\0{hashlib.sha256(content).hexdigest()}\n" for path, content in contents).encode()


def _is_table(path: str) -> bool:
    return path.startswith(f"{SEMANTIC_NAME}/") and f"/{SCHEMA_NAME}/" in path
