"""Searches a project: the index for what is as it was, memory for what changed since; writes nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ktx_cli.context.search.index.file import Identity, identity, open_index
from ktx_cli.context.search.index.meaning import fused, nearest, no_vectors
from ktx_cli.context.search.index.parts import Contents, files_between
from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.index.vectors import EMBEDDED, Vectors, nobody
from ktx_cli.context.search.index.writing import digest_of
from ktx_cli.context.search.model import Document, Found, Scope
from ktx_cli.context.search.ranking import Ranked, Ranking, hits, rank
from ktx_cli.context.wiki.keys import FOLDER
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing, plural
from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.project.layout import SEMANTIC_NAME
from ktx_cli.project.tree import Tree

HINT: Final = "ktx index"
LOOK_SECONDS: Final = 1.0
"""How long a process takes the files of a project for unchanged after it looked at them, at least."""
_LOOKS: Final = 0.02
"""How much of its time a process looks at files at most."""


@dataclass(slots=True)
class _Base:
    """The index as it is open now. `units`: unit -> (signature, digest)."""

    identity: Identity
    database: sqlite3.Connection
    store: Store
    units: Mapping[str, tuple[str, str]]
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found, and what there is to know about the search."""

    found: Found
    warnings: tuple[ResultWarning, ...] = ()


@dataclass(slots=True)
class Searcher:
    """Searches one project again and again; a program that lives long keeps one. Use it in one thread at a time.

    `contents` may differ at each look, and is asked for at each; `tree` is what the files are read from; `embedder` is
    asked for at each search there are vectors for, and one that cannot be had is a warning.
    """

    path: Path
    contents: Callable[[], Contents]
    tree: Tree
    embedder: Callable[[], Embedder | None] = nobody
    look_seconds: float = LOOK_SECONDS
    _base: _Base | None = None
    _look_at: float = 0.0
    _view: tuple[list[Store], list[ResultWarning]] = field(default_factory=lambda: ([], []))
    _delta_of: tuple[Identity | None, Mapping[str, str]] | None = None
    _overlay: tuple[object, list[Store]] = field(default_factory=lambda: (None, []))
    _unusable: tuple[Identity, sqlite3.Error] | None = None

    def search(self, query: str, scope: Scope = Scope(), limit: int = 20) -> Answer:  # noqa: B008 - it is frozen
        """Return what fits a query, best first. Raises `StorageError` where files of the project cannot be read."""
        try:
            return self._answer(*self._current(), query, scope, limit)
        except sqlite3.Error as error:
            self._give_up(error)
            return self._answer(*self._current(), query, scope, limit)

    def search_tree(
        self,
        tree: Tree,
        changed: Collection[str],
        query: str,
        scope: Scope = Scope(),  # noqa: B008 - it is frozen
        limit: int = 20,
    ) -> Answer:
        """Return what fits a query in a tree (an overlay) whose `changed` paths differ from the project's files."""
        try:
            return self._answer(self._overlaid(tree, changed), [], query, scope, limit)
        except sqlite3.Error as error:
            self._give_up(error)
            return self._answer(self._overlaid(tree, changed), [], query, scope, limit)

    def close(self) -> None:
        """Close the index."""
        if self._base is not None:
            self._base.database.close()
        self._base, self._look_at, self._delta_of, self._overlay = None, 0.0, None, (None, [])

    def _overlaid(self, tree: Tree, changed: Collection[str]) -> list[Store]:
        contents = self.contents()
        signatures = contents.signatures()
        base, _ = self._opened()
        units = self._behind(base, signatures, contents)
        units |= {unit for path in changed for unit in contents.units_of(path)}
        key = (None if base is None else base.identity, {unit: contents.digest(unit, tree) for unit in units})
        if self._overlay[0] != key:  # else the overlay is as it was last time
            self._overlay = (key, _with_delta(base, contents, tree, units))
        return self._overlay[1]

    def _give_up(self, error: sqlite3.Error) -> None:
        """Do without the index that is there now, in which damage was come upon."""
        if self._base is None:
            raise error  # it is not in the index, then
        self._unusable = (self._base.identity, error)
        self.close()

    def _current(self) -> tuple[list[Store], list[ResultWarning]]:
        known = None if self._base is None else self._base.identity
        if monotonic() >= self._look_at or identity(self.path) != known:
            started = monotonic()
            self._view = self._looked_at()
            ended = monotonic()
            self._look_at = ended + max(self.look_seconds, (ended - started) / _LOOKS) if self.look_seconds else 0.0
        return self._view

    def _looked_at(self) -> tuple[list[Store], list[ResultWarning]]:
        contents = self.contents()
        signatures = contents.signatures()
        base, warnings = self._opened()
        units = self._behind(base, signatures, contents)
        key = (None if base is None else base.identity, {unit: signatures.get(unit, "") for unit in units})
        if self._delta_of != key:  # else what was read last time is as it was
            self._view = (_with_delta(base, contents, self.tree, units), [])
            self._delta_of = key
        if base is not None and units:
            known = {unit: base.units.get(unit, ("", ""))[0] for unit in units}
            warnings = [_behind_warning({unit: (was, signatures.get(unit, "")) for unit, was in known.items()})]
        return self._view[0], warnings

    def _opened(self) -> tuple[_Base | None, list[ResultWarning]]:
        """Return the index there is now; none where it is missing, damaged or of another version, which is told."""
        found = identity(self.path)
        if self._base is not None and self._base.identity == found:
            return self._base, []
        if self._base is not None:
            self.close()
        if found is None:
            return None, [_unused("there is no search index yet")]
        try:
            if self._unusable is not None and self._unusable[0] == found:
                raise self._unusable[1]
            self._base = _open(self.path, found)
        except sqlite3.Error as error:
            return None, [_unused(f"the search index {self.path} is damaged: {error}")]
        if self._base is None:
            return None, [_unused("the search index is of another version of ktx")]
        return self._base, []

    def _behind(self, base: _Base | None, signatures: Mapping[str, str], contents: Contents) -> set[str]:
        """Return the units that are not in the index as they are now; a file that only its time differs of is."""
        if base is None:
            return set(signatures)
        touched = {unit for unit, signature in signatures.items() if base.units.get(unit, ("",))[0] != signature}
        same = {
            unit for unit in touched if unit in base.units and contents.digest(unit, self.tree) == base.units[unit][1]
        }
        return (touched - same) | (base.units.keys() - signatures.keys())

    def _answer(
        self, stores: list[Store], warnings: list[ResultWarning], query: str, scope: Scope, limit: int
    ) -> Answer:
        ranking = rank(stores, query, scope, limit)
        meant, more = self._nearest(stores, ranking, query, scope, limit)
        if not meant:
            shown = hits(stores, ranking.documents[:limit])
            return Answer(Found(shown, ranking.total, ranking.corrected), (*warnings, *more))
        return Answer(fused(stores, ranking, meant, limit), (*warnings, *more))

    def _nearest(
        self, stores: list[Store], ranking: Ranking, query: str, scope: Scope, limit: int
    ) -> tuple[list[Ranked], list[ResultWarning]]:
        """Return the documents whose vectors are near that of a query, and why there are none or not all."""
        base = self._base
        if base is None or not query.strip() or (scope.kinds and not set(scope.kinds) & set(EMBEDDED)):
            return [], []
        try:
            embedder = self.embedder()
            if embedder is None:
                return [], []
            unlike = no_vectors(base.database, embedder)
            if unlike is not None:
                return [], [unlike]
            (asked,) = embedder.embed([query])
        except KtxError as error:
            return [], [ResultWarning("no_vectors", f"searched by words alone: {error.message}", hint=error.hint)]
        base.vectors = base.vectors or Vectors(base.database)
        return nearest(stores[0], base.vectors, ranking, asked, scope, limit)


def _open(path: Path, found: Identity) -> _Base | None:
    database = open_index(path)
    if database is None:
        return None
    with contextlib.ExitStack() as stack:
        stack.callback(database.close)
        rows = database.execute("SELECT key, signature, digest FROM units")
        units = {key: (signature, digest) for key, signature, digest in rows}
        base = _Base(found, database, Store(database), units)
        stack.pop_all()
    return base


def _with_delta(base: _Base | None, contents: Contents, tree: Tree, units: Iterable[str]) -> list[Store]:
    """Return the index without what is different now, and an index in memory of that."""
    fresh: dict[str, list[Document]] = {}
    removed: list[int] = []
    for unit in sorted(units):
        documents = {digest_of(each): each for each in contents.documents(unit, tree)}
        stored = _stored(base, unit)
        fresh[unit] = [document for digest, document in documents.items() if digest not in stored]
        removed += [number for digest, number in stored.items() if digest not in documents]
    delta = [Store.of(fresh)] if any(fresh.values()) else []
    return [*([] if base is None else [base.store.without(removed)]), *delta]


def _stored(base: _Base | None, unit: str) -> dict[bytes, int]:
    if base is None:
        return {}
    return dict(base.database.execute("SELECT digest, id FROM docs WHERE unit = ?", (unit,)).fetchall())


def _behind_warning(units: Mapping[str, tuple[str, str]]) -> ResultWarning:
    """Return the warning for units whose signatures were and are now others, each of one file a line or of none."""
    files = sorted({file for unit, (was, now) in units.items() for file in files_between(unit, was, now)})
    others = sorted(unit for unit in units if not any(unit.startswith(folder) for folder in (FOLDER, SEMANTIC_NAME)))
    what = " and ".join(part for part in (plural(len(files), "file") if files else "", listing(others)) if part)
    message = f"the search index is behind by {what}; what changed was read for this search"
    return ResultWarning("index_behind", message, hint=HINT, files=len(files))


def _unused(why: str) -> ResultWarning:
    return ResultWarning("no_index", f"{why}; the files were read for this search", hint=HINT)
