"""What a search starts from: an open index with the units that it was built from, and the result of an update."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from ktx_cli.core import KtxError, Record
from ktx_cli.search.store import IndexStore
from ktx_cli.search.vectors import Vectors

Identity = tuple[int, int, int]
"""Identifies a state of the index: that of a file, or a tree in a database."""

STEP = "index"


@dataclass(slots=True)
class Base:
    """The open index of a project. `units` maps units to (signature, digest)."""

    identity: Identity
    store: IndexStore
    units: Mapping[str, tuple[str, str]]
    _vectors: Vectors | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def vectors(self, model: str) -> Vectors:
        """Return the index's vectors of a model, which are read on first use."""
        with self._lock:
            if self._vectors is None or self._vectors.model != model:
                self._vectors = Vectors(self.store, model)
            return self._vectors


@dataclass(slots=True)
class Refreshed(Record):
    """The result of an update: total, added and removed documents, reread units, and embedded texts.

    `rebuilt` means that there was no index before. `error` explains missing vectors; words are up to date regardless.
    """

    documents: int = 0
    added: int = 0
    removed: int = 0
    units: int = 0
    vectors: int = 0
    rebuilt: bool = False
    error: KtxError | None = None

    json_keys = ("documents", "added", "removed", "units", "vectors", "rebuilt")
