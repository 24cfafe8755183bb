"""Searches the overlays agents write to: what all began with is looked through once, then only what each changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from ktx_cli.context.search.index.file import Identity
from ktx_cli.context.search.index.parts import Contents
from ktx_cli.context.search.index.views import Base, View, behind
from ktx_cli.core.recent import Recent
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace

MOST_KEPT: Final = 32
"""How many states of overlays are remembered: those of the loops side by side, before and after a write each."""

_Changes = Mapping[str, bytes | None]
_Key = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class _State:
    """A tree as it is searched: what of it differs from the tree at its bottom, and the view of that."""

    changes: Mapping[str, bytes | None]
    view: View


class Overlays:
    """The views of overlays that stand on the same trees; several threads may ask at once.

    `contents`: asked for once for each tree at the bottom. `base`: the index there is now.
    """

    def __init__(self, contents: Callable[[], Contents], base: Callable[[], Base | None] = lambda: None) -> None:
        self._contents, self._base = contents, base
        self._trunks: WeakKeyDictionary[Tree, _Trunk] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def view(self, workspace: Workspace) -> View:
        """Return the view of an overlay as it is now: its own changes are in it."""
        base = self._base()
        identity = None if base is None else base.identity
        begun = workspace.base()
        with self._lock:  # who comes meanwhile needs the same
            trunk = self._trunks.get(workspace.origin)
            if trunk is None or trunk.identity != identity:
                trunk = _Trunk.of(self._contents(), begun, base)
                self._trunks[workspace.origin] = trunk
        return trunk.view(workspace, begun)


class _Trunk:
    """A tree at the bottom as the first overlay on it began, and the states of the overlays on it."""

    def __init__(self, contents: Contents, state: _State, identity: Identity | None) -> None:
        self.identity = identity
        self._contents, self._state = contents, state
        self._known: Recent[_State] = Recent(MOST_KEPT)

    @classmethod
    def of(cls, contents: Contents, begun: Workspace, base: Base | None) -> _Trunk:
        units = behind(base, dict.fromkeys(contents.units(begun), ""), contents, begun)
        view = View.of(base).changed(contents, begun, units)
        return cls(contents, _State(begun.overlaid(), view), None if base is None else base.identity)

    def view(self, workspace: Workspace, begun: Workspace) -> View:
        state = self._at(begun, self._state)
        return self._at(workspace, state).view

    def _at(self, workspace: Workspace, near: _State) -> _State:
        """Return the state of an overlay, made from one it differs little from."""
        changes = workspace.overlaid()
        touched = _between(near.changes, changes)
        units = {unit for path in touched for unit in self._contents.units_of(path)}
        if not units:
            return near
        return self._known.get(_key(changes), lambda: self._made(workspace, changes, near, units))

    def _made(self, workspace: Workspace, changes: _Changes, near: _State, units: Collection[str]) -> _State:
        return _State(changes, near.view.changed(self._contents, workspace, units))


def _between(one: _Changes, other: _Changes) -> list[str]:
    """Return the paths that are not the same in both: of contents that are one object nothing is compared."""
    missing = object()
    found = [path for path, content in other.items() if one.get(path, missing) != content]
    return found + [path for path in one if path not in other]


def _key(changes: _Changes) -> _Key:
    return tuple(sorted(changes.items(), key=lambda item: item[0]))
