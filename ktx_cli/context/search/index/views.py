"""An index and what differs from it, together one thing to search, which never changes: several threads may read it."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ktx_cli.context.search.index.file import Identity, open_index
from ktx_cli.context.search.index.parts import Contents
from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.index.vectors import Vectors
from ktx_cli.context.search.model import Document
from ktx_cli.project.tree import Tree


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
