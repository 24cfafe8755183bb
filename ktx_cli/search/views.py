"""An index and what differs from it, together one thing to search, which never changes: several threads may read it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from weakref import WeakKeyDictionary

from ktx_cli.core import Recent
from ktx_cli.project import Tree, Workspace
from ktx_cli.search.corpus import Document
from ktx_cli.search.index import Identity, Store, open_index
from ktx_cli.search.parts import Contents
from ktx_cli.search.vectors import Vectors


@dataclass(slots=True)
class Base:
    """The index of a project as it is open. `units`: unit -> (signature, digest)."""

    identity: Identity
    store: Store
    units: Mapping[str, tuple[str, str]]
    _vectors: Vectors | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def vectors(self) -> Vectors:
        """Return its vectors, read when they are first asked for."""
        with self._lock:
            self._vectors = self._vectors or Vectors(self.store)
            return self._vectors


@dataclass(frozen=True, slots=True)
class View:
    """What is searched: the index of a project first, where there is one, then what is not in it."""

    stores: tuple[Store, ...] = ()
    base: Base | None = None

    @classmethod
    def of(cls, base: Base | None) -> View:
        """Return an index alone."""
        return cls() if base is None else cls((base.store,), base)

    def changed(self, contents: Contents, tree: Tree, units: Iterable[str]) -> View:
        """Return a view in which some units are as a tree has them."""
        fresh: dict[str, list[Document]] = {}
        removed: dict[int, list[int]] = defaultdict(list)
        for unit in sorted(units):
            documents = contents.documents(unit, tree)
            here: set[bytes] = set()
            for place, store in enumerate(self.stores):
                stored = store.of_unit(unit)
                here |= stored.keys()
                removed[place] += [number for digest, number in stored.items() if digest not in documents]
            fresh[unit] = [document for digest, document in documents.items() if digest not in here]
        left = [store.without(removed[place]) for place, store in enumerate(self.stores)]
        return View((*left, *([Store.of(fresh)] if any(fresh.values()) else [])), self.base)


def open_base(path: Path, found: Identity) -> Base | None:
    """Open the index of a project; None for one of another version. Raises SQLite's error for a damaged one."""
    database = open_index(path)
    if database is None:
        return None
    rows = database.ask("SELECT key, signature, digest FROM units")
    return Base(found, Store(database), {key: (signature, digest) for key, signature, digest in rows})


def behind(base: Base | None, units: Mapping[str, str], contents: Contents, tree: Tree) -> set[str]:
    """Return the units that are not in an index as they are now; one whose content is the same is.

    `units`: unit -> signature of those there are; what has an empty one is looked into.
    """
    if base is None:
        return set(units)
    known = base.units
    touched = {unit for unit, signature in units.items() if not signature or known.get(unit, ("",))[0] != signature}
    same = {unit for unit in touched if unit in known and contents.digest(unit, tree) == known[unit][1]}
    return (touched - same) | (known.keys() - units.keys())


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
