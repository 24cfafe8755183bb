"""Search a project with its index and, for changed files, with an index in memory. Also updates the index."""

from __future__ import annotations

import functools
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar
from weakref import WeakKeyDictionary

from ktx_cli.core import (
    Command,
    Emit,
    KtxError,
    Recent,
    ResultWarning,
    StepProgress,
    ignore_events,
    listing,
    monotonic,
    plural,
)
from ktx_cli.project import SEMANTIC_NAME, Tree, Workspace
from ktx_cli.search.base import STEP, Base, Identity, Refreshed
from ktx_cli.search.corpus import DOCUMENT, NOT_HERE, Contents, Document, Documents, Found, Hit, Scope, files_between
from ktx_cli.search.explanations import explaining
from ktx_cli.search.index import Store, add, changing, forget_words, identity, open_index, remove
from ktx_cli.search.store import IndexStore, NewPart
from ktx_cli.search.vectors import (
    EMBEDDED,
    drop_other_lengths,
    embed_missing,
    length_of,
    model_name,
    needs_vectors,
    no_vectors,
)
from ktx_cli.wiki import FOLDER

if TYPE_CHECKING:
    from ktx_cli.llm import Embedder
    from ktx_cli.search.location import SharedIndex
    from ktx_cli.search.ranking import Ranked, Ranking
    from ktx_cli.search.shared_index import SharedTrees
    from ktx_cli.search.tables import FoundTable, Neighbors


@dataclass(frozen=True, slots=True)
class View:
    """The stores to search: the index of a project, if any, followed by stores for changed files."""

    stores: tuple[IndexStore, ...] = ()
    base: Base | None = None

    @classmethod
    def of(cls, base: Base | None) -> View:
        """Return a view of only the index."""
        return cls() if base is None else cls((base.store,), base)

    def changed(self, contents: Contents, tree: Tree, units: Iterable[str]) -> View:
        """Return a view in which some units come from a tree. Unchanged parts are not read again."""
        fresh: list[NewPart] = []
        removed: dict[int, list[int]] = defaultdict(list)
        for unit in sorted(units):
            known: dict[str, str] = {}
            for store in self.stores:
                known |= store.parts(unit)
            now = contents.parts(unit, tree)
            gone = [name for name, digest in known.items() if digest and name not in now]
            changed = [name for name, digest in now.items() if known.get(name) != digest]
            found = contents.documents(unit, tree, changed)
            for name, documents in chain(found, ((name, _NO_DOCUMENTS) for name in gone)):
                here: set[bytes] = set()
                for place, store in enumerate(self.stores):
                    stored = store.of_part(unit, name)
                    here |= stored.keys()
                    removed[place] += [number for digest, number in stored.items() if digest not in documents]
                new = [document for digest, document in documents.items() if digest not in here]
                fresh.append(NewPart(unit, name, now.get(name, ""), new))
            contents.release(unit)
        left = [store.without(removed[place]) for place, store in enumerate(self.stores)]
        return View((*left, *([Store.of_parts(fresh)] if fresh else [])), self.base)


_NO_DOCUMENTS: Final[Documents] = {}


def open_base(path: Path, found: Identity) -> Base | None:
    """Open the index of a project. Returns None for another version. Raises the SQLite error for a damaged one."""
    database = open_index(path)
    if database is None:
        return None
    rows = database.ask("SELECT key, signature, digest FROM units")
    return Base(found, Store(database), {key: (signature, digest) for key, signature, digest in rows})


def behind(base: Base | None, units: Mapping[str, str], contents: Contents, tree: Tree) -> set[str]:
    """Return the units whose content differs from the index.

    `units` maps existing units to signatures. Units with an empty signature are compared by content.
    """
    if base is None:
        return set(units)
    known = base.units
    touched = {unit for unit, signature in units.items() if not signature or known.get(unit, ("",))[0] != signature}
    same = {unit for unit in touched if unit in known and contents.digest(unit, tree) == known[unit][1]}
    return (touched - same) | (known.keys() - units.keys())


MOST_KEPT: Final = 32
"""Number of cached overlay states, enough for parallel agent loops before and after a write."""

_Changes = Mapping[str, bytes | None]
_Key = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class _State:
    """A searchable tree: its differences from the base tree, and its view."""

    changes: Mapping[str, bytes | None]
    view: View


class Overlays:
    """The views of overlays on the same base trees. Safe for several threads.

    `contents` is called once for each base tree. `base` returns the current index.
    """

    def __init__(self, contents: Callable[[], Contents], base: Callable[[], Base | None] = lambda: None) -> None:
        self._contents, self._base = contents, base
        self._trunks: WeakKeyDictionary[Tree, _Trunk] = WeakKeyDictionary()
        self._lock = threading.Lock()

    def view(self, workspace: Workspace) -> View:
        """Return the view of an overlay, including its changes."""
        base = self._base()
        identity = None if base is None else base.identity
        begun = workspace.base()
        with self._lock:  # concurrent callers need the same view
            trunk = self._trunks.get(workspace.origin)
            if trunk is None or trunk.identity != identity:
                trunk = _Trunk.of(self._contents(), begun, base)
                self._trunks[workspace.origin] = trunk
        return trunk.view(workspace, begun)


class _Trunk:
    """A base tree and the states of the overlays on it."""

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
        """Return the state of an overlay, derived from a similar state."""
        changes = workspace.overlaid()
        touched = _between(near.changes, changes)
        units = {unit for path in touched for unit in self._contents.units_of(path)}
        if not units:
            return near
        return self._known.get(_key(changes), lambda: self._made(workspace, changes, near, units))

    def _made(self, workspace: Workspace, changes: _Changes, near: _State, units: Collection[str]) -> _State:
        return _State(changes, near.view.changed(self._contents, workspace, units))


def _between(one: _Changes, other: _Changes) -> list[str]:
    """Return the paths that differ. Contents that are the same object are not compared."""
    missing = object()
    found = [path for path, content in other.items() if one.get(path, missing) != content]
    return found + [path for path in one if path not in other]


def _key(changes: _Changes) -> _Key:
    return tuple(sorted(changes.items(), key=lambda item: item[0]))


HINT: Final = Command("index")
EVERYTHING: Final = Scope()
LOOK_SECONDS: Final = 1.0
"""Minimum time after a check during which files count as unchanged."""
_LOOKS: Final = 0.02
"""Maximum share of time that a process may spend on checking files."""
_QUERIES: Final = 256
"""Number of cached query vectors."""

_Warnings = list[ResultWarning]
_Answer = TypeVar("_Answer")


def no_embedder() -> None:
    """Return no embedder."""


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """The result of a search and its warnings."""

    found: Found
    warnings: tuple[ResultWarning, ...] = ()


@dataclass(slots=True)
class Searcher:
    """Searches one project repeatedly. Safe for several threads; long-running programs keep one.

    `path` is the file with the index, or the index in a database, whose errors are raised as `StorageError`. `contents`
    is called for every check of the files, and `tree` reads them. `embedder` is called for every search with vectors;
    if it fails, the result has a warning. `is_part`: the contents are only a part of what the index contains. They are
    read from the files then, because the statistics of the index, and so scores, depend on all of it.
    """

    path: Path | SharedIndex
    contents: Callable[[], Contents]
    tree: Tree
    embedder: Callable[[], Embedder | None] = no_embedder
    look_seconds: float = LOOK_SECONDS
    is_part: bool = False
    _base: Base | None = None
    _look_at: float = 0.0
    _looked: tuple[View, _Warnings] = field(default_factory=lambda: (View(), []))
    _view_of: tuple[Identity | None, Mapping[str, str]] | None = None
    _unusable: tuple[Identity, sqlite3.Error] | None = None
    _trees: SharedTrees | None = None
    _overlays: Overlays = field(init=False)
    _vectors: Recent[list[float]] = field(default_factory=lambda: Recent(_QUERIES))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._overlays = Overlays(self.contents, lambda: self._opened()[0])

    def search(self, query: str, scope: Scope = EVERYTHING, limit: int = 20) -> SearchAnswer:
        """Return the matches of a query, best first. Raises `StorageError` if project files cannot be read."""
        return self._answer(self.current, query, scope, limit)

    def tables(
        self, query: str, neighbors: Neighbors, scope: Scope = EVERYTHING, limit: int = 50
    ) -> tuple[list[FoundTable], tuple[ResultWarning, ...]]:
        """Return the sources that a question may need, best first, and the warnings of the search."""
        from ktx_cli.search.tables import find_tables

        def answer(view: View, warnings: _Warnings) -> tuple[list[FoundTable], tuple[ResultWarning, ...]]:
            meant, more = self._nearest(view, lambda: self._ranked(view, query, scope, limit), query, scope, limit)
            rows = [each.row for each in meant]
            return find_tables(view.stores, query, scope, neighbors, limit, rows), (*warnings, *more)

        return self._asking(self.current, answer)

    def search_tree(self, workspace: Workspace, query: str, scope: Scope = EVERYTHING, limit: int = 20) -> SearchAnswer:
        """Return the matches of a query in an overlay, including its changes."""
        return self._answer(lambda: (self._overlays.view(workspace), []), query, scope, limit)

    def explaining(self, connection: str, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Return the keys of the shared pages that refer to each source, measure or segment of a connection."""
        view, _ = self.current()
        found = explaining(view.stores, [(connection, name) for name in names])
        return {name: pages for (_, name), pages in found.items()}

    def drift(self) -> tuple[ResultWarning, ...]:
        """Return warnings about an unused, outdated or incomplete index, without searching."""
        contents = self.contents()
        signatures = contents.signatures()
        base, warnings = self._opened((contents, signatures))
        units = behind(base, signatures, contents, self.tree)
        if base is None:
            return tuple(warnings) if units else ()
        try:
            embedder = self.embedder()
        except KtxError:  # other checks report why the embedder is unavailable
            embedder = None
        unlike = None if embedder is None else no_vectors(base.store, embedder)
        return (*_staleness_warnings(base, units, signatures, warnings), *([] if unlike is None else [unlike]))

    def place(self) -> str:
        """Return the database of a shared index and what compares vectors there, or an empty string for a file."""
        if isinstance(self.path, Path):
            return ""
        from ktx_cli.search.shared_index import where_compared

        return where_compared(self.path)

    def close(self) -> None:
        """Close the index. A later search opens it again."""
        with self._lock:
            self._base, self._look_at, self._view_of, self._trees = None, 0.0, None, None
            self._looked = (View(), [])
            self._overlays = Overlays(self.contents, lambda: self._opened()[0])

    def _answer(self, view: Callable[[], tuple[View, _Warnings]], query: str, scope: Scope, limit: int) -> SearchAnswer:
        return self._asking(view, lambda seen, warnings: self._found(seen, warnings, query, scope, limit))

    def _asking(self, view: Callable[[], tuple[View, _Warnings]], ask: Callable[[View, _Warnings], _Answer]) -> _Answer:
        """Return an answer from a view, without the index if it is damaged."""
        for _ in range(2):
            base = None
            try:
                seen, warnings = view()
                base = seen.base
                return ask(seen, warnings)
            except sqlite3.Error as error:
                self._give_up(base, error)
        return ask(*view())

    def _give_up(self, base: Base | None, error: sqlite3.Error) -> None:
        """Stop using the current index, which is damaged."""
        with self._lock:
            base = base or self._base
            if base is None:
                raise error  # the error does not come from the index
            self._unusable = (base.identity, error)
            self.close()

    def current(self) -> tuple[View, _Warnings]:
        """Return the current view with its warnings."""
        with self._lock:
            known = None if self._base is None else self._base.identity
            if monotonic() >= self._look_at or (isinstance(self.path, Path) and identity(self.path) != known):
                started = monotonic()
                self._looked = self._look()
                ended = monotonic()
                self._look_at = ended + max(self.look_seconds, (ended - started) / _LOOKS) if self.look_seconds else 0.0
            return self._looked

    def _look(self) -> tuple[View, _Warnings]:
        contents = self.contents()
        signatures = contents.signatures()
        base, warnings = self._opened((contents, signatures))
        units = behind(base, signatures, contents, self.tree)
        key = (None if base is None else base.identity, {unit: signatures.get(unit, "") for unit in units})
        view = self._looked[0]
        if self._view_of != key:  # otherwise the last view is still current
            view, self._view_of = View.of(base).changed(contents, self.tree, units), key
        return view, [*contents.warnings, *_staleness_warnings(base, units, signatures, warnings)]

    def _opened(self, looked: tuple[Contents, Mapping[str, str]] | None = None) -> tuple[Base | None, _Warnings]:
        """Return the current index, or None and a warning if it is missing, damaged or of another version.

        `looked` are the contents with their current signatures, if the caller has them.
        """
        if self.is_part:
            return None, []
        with self._lock:
            if not isinstance(self.path, Path):
                self._base = self._opened_tree(self.path, looked)
                return self._base, [] if self._base else [_unused("the project has no search index yet")]
            there = identity(self.path)
            if self._base is not None and self._base.identity == there:
                return self._base, []
            self._base = None
            if there is None:
                return None, [_unused("the project has no search index yet")]
            try:
                if self._unusable is not None and self._unusable[0] == there:
                    raise self._unusable[1]
                self._base = open_base(self.path, there)
            except sqlite3.Error as error:
                return None, [_unused(f"the search index {self.path} is damaged: {error}")]
            if self._base is None:
                return None, [_unused("the search index was created by another version of ktx")]
            return self._base, []

    def _opened_tree(self, index: SharedIndex, looked: tuple[Contents, Mapping[str, str]] | None) -> Base | None:
        """Return the tree in a shared index that is nearest to the files."""
        if self._trees is None:
            from ktx_cli.search.shared_index import SharedTrees

            self._trees = SharedTrees(index)
        if looked is not None:
            return self._trees.base(*looked, self.tree)
        kept = self._trees.recent(self.look_seconds)
        if kept is not None:
            return kept
        contents = self.contents()
        return self._trees.base(contents, contents.signatures(), self.tree)

    def _found(self, view: View, warnings: _Warnings, query: str, scope: Scope, limit: int) -> SearchAnswer:
        from ktx_cli.search.ranking import found, fused

        ranking = self._ranked(view, query, scope, limit)
        meant, more = self._nearest(view, lambda: ranking, query, scope, limit)
        if not meant:
            return SearchAnswer(found(view.stores, ranking, limit, scope.user), (*warnings, *more))
        return SearchAnswer(fused(view.stores, ranking, meant, limit, scope.user), (*warnings, *more))

    def _ranked(self, view: View, query: str, scope: Scope, limit: int) -> Ranking:
        from ktx_cli.search.ranking import rank

        return rank(view.stores, query, scope, limit)

    def _nearest(
        self, view: View, ranking: Callable[[], Ranking], query: str, scope: Scope, limit: int
    ) -> tuple[list[Ranked], _Warnings]:
        """Return the documents nearest to a query by vectors, with warnings if vectors are missing or incomplete.

        `ranking` returns the documents found by words. It is called if there are too many vectors to compare all.
        """
        base = view.base
        if base is None or not query.strip() or (scope.kinds and not set(scope.kinds) & set(EMBEDDED)):
            return [], []
        try:
            embedder = self.embedder()
            if embedder is None:
                return [], []
            unlike = no_vectors(base.store, embedder)
            if unlike is not None:
                return [], [unlike]
            asked = self._vectors.get((embedder.model, query), lambda: embedder.embed([query])[0])
        except KtxError as error:
            return [], [ResultWarning.because("no_vectors", "searched by words only", error)]
        from ktx_cli.search.ranking import nearest

        model = model_name(embedder)
        return nearest(view.stores[0], model, lambda: base.vectors(model), ranking, asked, scope, limit)


def _staleness_warnings(
    base: Base | None, units: Collection[str], signatures: Mapping[str, str], warnings: _Warnings
) -> _Warnings:
    """Return the warnings about an index from which some units differ."""
    if base is None or not units:
        return warnings
    known = {unit: base.units.get(unit, ("", ""))[0] for unit in units}
    return [_behind_warning({unit: (was, signatures.get(unit, "")) for unit, was in known.items()})]


def _behind_warning(units: Mapping[str, tuple[str, str]]) -> ResultWarning:
    """Return the warning about changed units, given their old and new signatures with one file per line."""
    files = sorted({file for unit, (was, now) in units.items() for file in files_between(unit, was, now)})
    documents = sum(unit.startswith(DOCUMENT) for unit in units)
    others = sorted(unit for unit in units if not unit.startswith((FOLDER, f"{SEMANTIC_NAME}/", DOCUMENT)))
    parts = (plural(len(files), "file") if files else "", plural(documents, "document") if documents else "")
    what = " and ".join(part for part in (*parts, listing(others)) if part)
    reason = f"the search index is behind by {what}"
    message = f"{reason}; ktx read the changed files for this search"
    return ResultWarning("index_behind", message, hint=HINT, problem=reason, files=len(files))


def _unused(why: str) -> ResultWarning:
    return ResultWarning("no_index", f"{why}; ktx read the files for this search", hint=HINT, problem=why)


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The joint result of several projects, best first. Projects are identified by their index among the searchers.

    `hits` and `warnings` are paired with their projects. The other fields are those of `Found`.
    """

    hits: tuple[tuple[int, Hit], ...]
    total: int
    corrected: Mapping[str, str]
    suggested: Mapping[str, str]
    warnings: tuple[tuple[int, ResultWarning], ...]


def _together(searchers: Sequence[Searcher], ask: Callable[[list[tuple[View, _Warnings]]], _Answer]) -> _Answer:
    """Return an answer from the views of several projects, without damaged indexes."""
    for _ in range(2):
        try:
            return ask([each.current() for each in searchers])
        except sqlite3.Error:
            for each in searchers:
                each.search("a", EVERYTHING, 1)  # the searcher of the damaged index detects it
    return ask([each.current() for each in searchers])


def search_together(searchers: Sequence[Searcher], query: str, scope: Scope, limit: int) -> JointAnswer:
    """Return the matches of a query in several projects, ranked with joint word frequencies.

    Vectors of different projects are not compared. Raises `StorageError` if files of a project cannot be read.
    """
    return _together(searchers, lambda seen: _found_together(seen, query, scope, limit))


def tables_together(
    searchers: Sequence[Searcher], query: str, scopes: Sequence[Scope], limit: int
) -> list[list[FoundTable]]:
    """Return the sources in each project, within its own scope, that a question may need, with comparable scores.

    Joins do not raise the scores. Raises the errors of `search_together`.
    """
    from ktx_cli.search.tables import find_tables

    def ask(seen: list[tuple[View, _Warnings]]) -> list[list[FoundTable]]:
        among = [store for view, _ in seen for store in view.stores]
        return [
            find_tables(view.stores, query, scope, lambda connection, source: (), limit, among=among)
            for (view, _), scope in zip(seen, scopes, strict=True)
        ]

    return _together(searchers, ask)


def _found_together(seen: Sequence[tuple[View, _Warnings]], query: str, scope: Scope, limit: int) -> JointAnswer:
    from ktx_cli.search.ranking import hits, rank

    projects = [view.stores for view, _ in seen]
    ranking = rank([store for stores in projects for store in stores], query, scope, limit, projects)
    best = ranking.documents[:limit]
    shown: dict[tuple[int, int], tuple[int, Hit]] = {}
    first = 0
    for number, stores in enumerate(projects):
        own = [each for each in best if first <= each.place[0] < first + len(stores)]
        moved = [replace(each, place=(each.place[0] - first, each.place[1])) for each in own]
        found = hits(stores, moved, user=scope.user)
        shown |= {each.place: (number, hit) for each, hit in zip(own, found, strict=True)}
        first += len(stores)
    warnings = [(number, each) for number, (view, known) in enumerate(seen) if view.stores for each in known]
    return JointAnswer(
        tuple(shown[each.place] for each in best), ranking.total, ranking.corrected, ranking.suggested, tuple(warnings)
    )


def refresh(
    path: Path | SharedIndex,
    contents: Contents,
    tree: Tree,
    *,
    embedder: Callable[[], Embedder | None] = no_embedder,
    emit: Emit = ignore_events,
    check_length: bool = False,
) -> Refreshed:
    """Update the index at `path`, a file or a database. The caller holds the run lock.

    Units whose files have the same sizes and times are skipped; if only the times differ, just the times are updated.
    Vectors of another model are deleted, and all vectors without an embedder. If the embedder fails, the result has an
    `error`. `check_length`: compare the length of the model's vectors even if none is missing, by computing one more
    unless the files of the model state it.
    Raises `StorageError` without changing the index.
    """
    if not isinstance(path, Path):
        from ktx_cli.search.shared_index import refresh_shared

        return refresh_shared(path, contents, tree, embedder, emit, check_length=check_length)
    with changing(path) as index:
        done = Refreshed(rebuilt=index.known is None)
        stored = None if index.known is None else Store(index.known)
        stems: set[str] = set()
        for changes in _batches(_changes(stored, contents, tree, emit)):
            for change in changes:
                stems |= change.write(index.changed, done)
        if stems:
            forget_words(index.changed, stems)
        try:
            wanted = embedder()
            if check_length and wanted is not None:
                stored_length = Store(index.database).dimensions(model_name(wanted))
                if stored_length and stored_length != (length := length_of(wanted, stored_length)):
                    drop_other_lengths(index.changed, length)
            if needs_vectors(index.database, wanted):
                index.commit()
                done.vectors = embed_missing(index.changed, wanted, emit)
        except KtxError as error:
            done.error = error
        done.documents = Store(index.database).count
    return done


@dataclass(frozen=True, slots=True)
class _UnitChange:
    """A changed unit. `signature` is None if it was removed; `read` is true if its parts were read."""

    unit: str
    signature: str | None
    digest: str
    read: bool

    size: ClassVar = 1

    def write(self, database: sqlite3.Connection, done: Refreshed) -> set[str]:
        """Store the current signature of the unit's files."""
        if self.signature is None:
            database.execute("DELETE FROM units WHERE key = ?", (self.unit,))
        else:
            row = (self.unit, self.signature, self.digest)
            database.execute("INSERT OR REPLACE INTO units VALUES (?, ?, ?)", row)
        done.units += self.read
        return set()


@dataclass(frozen=True, slots=True)
class _PartChange:
    """A changed part of a unit. `digest` is None if it was removed; `gone` are its previous documents."""

    unit: str
    name: str
    digest: str | None
    new: Sequence[Document]
    gone: Sequence[int]

    @property
    def size(self) -> int:
        """The number of documents in the part."""
        return 1 + len(self.new) + len(self.gone)

    def write(self, database: sqlite3.Connection, done: Refreshed) -> set[str]:
        """Replace the part's documents, and return the stems of the old ones."""
        stems = remove(database, self.gone)
        if self.digest is None:
            database.execute("DELETE FROM parts WHERE unit = ? AND name = ?", (self.unit, self.name))
        else:
            add(database, self.unit, self.new, self.name, self.digest)
        done.added, done.removed = done.added + len(self.new), done.removed + len(self.gone)
        return stems


_Change = _UnitChange | _PartChange
_AT_ONCE: Final = 10_000
"""Number of documents to read before writing."""


def _batches(changes: Iterable[_Change]) -> Iterator[list[_Change]]:
    """Yield changes in batches of documents, so that a run that fails early writes nothing."""
    batch: list[_Change] = []
    size = 0
    for change in changes:
        batch.append(change)
        size += change.size
        if size >= _AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _changes(stored: Store | None, contents: Contents, tree: Tree, emit: Emit) -> Iterator[_Change]:
    """Yield the differences between an index, or a new one if None, and the files on disk."""
    signatures = contents.signatures()
    rows = [] if stored is None else stored.database.ask("SELECT key, signature, digest FROM units")
    known = {key: (signature, digest) for key, signature, digest in rows}
    changed = [
        unit
        for unit, signature in signatures.items()
        if known.get(unit, ("",))[0] != signature or known[unit][1] == NOT_HERE
    ]
    for number, unit in enumerate(changed):
        digest = contents.digest(unit, tree)
        is_same = unit in known and known[unit][1] == digest
        if not is_same:
            now = contents.parts(unit, tree)
            yield from _part_changes(stored, unit, now, functools.partial(contents.documents, unit, tree))
            contents.release(unit)
            digest = NOT_HERE if NOT_HERE in now.values() else digest
        if known.get(unit) != (signatures[unit], digest):
            yield _UnitChange(unit, signatures[unit], digest, read=not is_same)
        if number % 100 == 0:
            emit(StepProgress(STEP, number, len(changed)))
    for unit in sorted(known.keys() - signatures.keys()):
        yield from _part_changes(stored, unit, {}, lambda _: iter(()))
        yield _UnitChange(unit, None, "", read=False)


def _part_changes(
    stored: Store | None,
    unit: str,
    now: Mapping[str, str],
    read: Callable[[Collection[str]], Iterable[tuple[str, Documents]]],
) -> Iterator[_Change]:
    """Yield the changed parts of a unit. `now` maps the current parts to their digests."""
    known = {} if stored is None else stored.parts(unit)
    names = [name for name, digest in now.items() if known.get(name) != digest]
    gone = ((name, _NO_DOCUMENTS) for name in sorted(known.keys() - now.keys()))
    for name, documents in chain(read(names), gone):
        before = stored.of_part(unit, name) if stored is not None and name in known else {}
        new = [document for digest, document in documents.items() if digest not in before]
        yield _PartChange(
            unit, name, now.get(name), new, [number for digest, number in before.items() if digest not in documents]
        )
