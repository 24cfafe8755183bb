"""Read individual sources of a layer, and their checks, from its store on demand."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from weakref import WeakSet

from ktx_cli import __version__
from ktx_cli.core import Command, Diagnostic, Hint, ResultWarning, Severity, StorageError
from ktx_cli.project import SEMANTIC_NAME, Layout, WorkingTree, stamp_of, stamps_below
from ktx_cli.semantic.lookup import ChangedSources, Lookup, SourceMap, labels_of, lookup_of
from ktx_cli.semantic.manifest import is_shard_path, is_yaml, stray_names
from ktx_cli.semantic.model import Barred, Join, Source
from ktx_cli.semantic.store.codec import Codec, Paths

if TYPE_CHECKING:
    from collections.abc import Collection

    from ktx_cli.project import Stamp, Tree
    from ktx_cli.semantic.check import MeasureKey, SourceChecks
    from ktx_cli.semantic.model import Model

log = logging.getLogger(__name__)

FORMAT: Final = 9
"""Raised if files from earlier versions of ktx must not be read."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a layer was read from. `stamp` is None if it had just changed, so that its content must be compared.

    `is_plain`: it is readable, states its subject, and is stored as parsed.
    """

    number: int
    path: str
    stamp: Stamp | None
    sha256: str
    is_plain: bool


def store_path(layout: Layout, connection: str) -> Path:
    """Return the path of a layer's store."""
    return layout.cache / f"layer-{connection}.sqlite"


def layer_stamps(root: Path, connection: str, configured: Collection[str] | None) -> dict[str, Stamp]:
    """Return path -> stamp for the files from which a layer is read; see `load_tree` for `configured`.

    Raises `StorageError` for a folder that cannot be listed.
    """
    tops = [Layout.context_paths(connection)[0]]
    if configured is not None:
        strays = stray_names(WorkingTree(root), {*configured, connection})
        tops += [f"{SEMANTIC_NAME}/{name}" for name in strays]
    found = stamps_below(root, tops)
    for top in tops[1:]:
        stamp = stamp_of(root / top)
        if stamp is not None:
            found[top] = stamp
    return {path: stamp for path, stamp in found.items() if is_layer_file(path, connection)}


def is_layer_file(path: str, connection: str) -> bool:
    """Return whether a layer is read from a file: a YAML file, in the folder of the shards only if it is one."""
    return is_yaml(path) and (is_shard_path(path) or not path.startswith(f"{Layout.schema_path(connection)}/"))


def identity_of(dialect: str, configured: Collection[str] | None) -> list[Any]:
    """Return what a store depends on besides its files, such as the dialect in which they are read."""
    return [FORMAT, __version__, dialect, None if configured is None else sorted(configured)]


def open_store(layout: Layout, connection: str, dialect: str, configured: Collection[str] | None) -> LayerStore | None:
    """Open the store of a layer, or return None if there is none that this version of ktx can use."""
    store = stored_by_this_version(layout, connection)
    if store is not None and store.facts.get("identity") != identity_of(dialect, configured):
        store.close()
        return None
    return store


def stored_by_this_version(layout: Layout, connection: str) -> LayerStore | None:
    """Open the store of a layer, regardless of the dialect of its sources; returns None as `open_store` does."""
    place = store_path(layout, connection)
    if not place.is_file():
        return None
    try:
        store = LayerStore(place, layout.root)
    except (sqlite3.Error, ValueError, OSError):
        log.debug("the store of the layer %s cannot be used", connection, exc_info=True)
        return None
    if list(store.facts.get("identity") or ())[:2] != identity_of("", None)[:2]:
        store.close()
        return None
    return store


def changed_files(store: LayerStore, stamps: Mapping[str, Stamp], tree: Tree) -> dict[str, bytes | None]:
    """Return path -> content (None if removed) of the files that have changed since a layer was stored.

    Raises `KtxError` for one that cannot be read.
    """
    known = store.files()
    found: dict[str, bytes | None] = {path: None for path in known if path not in stamps}
    for path, stamp in stamps.items():
        stored = known.get(path)
        if stored is not None and stored.stamp == stamp:
            continue
        content = tree.read(path)
        if stored is None or content is None or hashlib.sha256(content).hexdigest() != stored.sha256:
            found[path] = content
    return found


class LayerStore:
    """The store of one layer, open for reading by any thread; it is replaced as a whole and never changed.

    It keeps its file open, even after that is replaced: see `close_stores`.
    """

    def __init__(self, place: Path, root: Path) -> None:
        """Open a store of a project in a folder; raises `sqlite3.Error` if it cannot be read."""
        self.root, self.place = root, place
        uri = f"file:{quote(os.fsencode(place))}?mode=ro&immutable=1"
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        _OPEN.add(self)
        try:
            rows = self._database.execute("SELECT key, value FROM facts").fetchall()
            self.facts: Mapping[str, Any] = {key: json.loads(value) for key, value in rows}
            paths = [path for (path,) in self._database.execute("SELECT path FROM places ORDER BY number")]
        except (sqlite3.Error, ValueError):
            self._database.close()
            raise
        self.paths = Paths(paths, WorkingTree(root))
        self.codec = Codec(self.paths)

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query. Values that are not valid Unicode match nothing.

        Raises `StorageError` for a damaged store.
        """
        try:
            with self._lock:
                return self._database.execute(query, values).fetchall()
        except UnicodeEncodeError:
            return []
        except sqlite3.DatabaseError as error:
            remove, index = Command(self.place, program="rm"), Command("index")
            hint = Hint("delete it and rebuild it: {} && {}", remove, index)
            raise StorageError(f"the stored layer {self.place} cannot be read: {error}", hint=hint) from error

    def close(self) -> None:
        """Close the store; data that was read from it stays valid."""
        with self._lock:
            self._database.close()

    def files(self) -> dict[str, StoredFile]:
        """Return the files from which the layer was read, by path."""
        rows = self.ask("SELECT number, path, stamp, sha256, plain FROM files")
        return {
            path: StoredFile(number, path, None if stamp is None else tuple(json.loads(stamp)), sha256, bool(plain))
            for number, path, stamp, sha256, plain in rows
        }

    def sources_of(self, query: str, values: Sequence[Any] = ()) -> list[str]:
        """Return the names that a query returns."""
        return [name for (name,) in self.ask(query, values)]

    @functools.cached_property
    def barred(self) -> dict[str, Barred]:
        """The barred sources, as in the model."""
        stored = self.facts["barred"]
        return {
            name: Barred(self.codec.load_diagnostic(problem), tuple(map(tuple, tables)))
            for name, (problem, tables) in stored.items()
        }

    @functools.cached_property
    def sealed(self) -> Diagnostic | None:
        """The error that bars all tables, as in the model."""
        stored = self.facts["sealed"]
        return None if stored is None else self.codec.load_diagnostic(stored)


_OPEN: Final[WeakSet[LayerStore]] = WeakSet()

_UNSTORED: Final[dict[Path, tuple[str, int]]] = {}
"""Missing store of a large layer that was read without one -> connection, and its number of sources."""

_LARGE: Final = 1_000
"""Number of sources from which a layer is large, because reading that many files takes seconds."""


def note_unstored(layout: Layout, model: Model) -> None:
    """Record that all files of a layer were read because it has no store; see `close_stores`."""
    place = store_path(layout, model.connection)
    if len(model.sources) >= _LARGE and not place.exists():
        _UNSTORED[place] = (model.connection, len(model.sources))


def close_stores() -> list[ResultWarning]:
    """Close all open stores at the end of a command, and return warnings about missing stores.

    A disk cannot be mounted read-only while a replaced file on it is open.
    """
    for store in list(_OPEN):
        store.close()
    missing = sorted(each for place, each in _UNSTORED.items() if not place.exists())
    _UNSTORED.clear()
    return [
        ResultWarning(
            "layer_not_stored",
            f"the semantic layer of `{connection}` ({count:,} sources) is not stored, so ktx read all of its files",
            hint=Command("index"),
        )
        for connection, count in missing
    ]


class StoredSources(SourceMap):
    """The sources in a store by name; each is read once."""

    def __init__(self, store: LayerStore) -> None:
        self.store = store
        self._read: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        """Return the source with a name; raises `KeyError` if there is none."""
        found = self._read.get(name)
        if found is None:
            rows = self.store.ask("SELECT source FROM sources WHERE name = ?", (name,)) if name in self else ()
            if not rows:
                raise KeyError(name)
            found = self._read[name] = self.store.codec.load(rows[0][0], Source)
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether a source has the name."""
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        """Return the names, sorted."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self._names)

    @functools.cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(self.store.sources_of("SELECT name FROM sources ORDER BY name"))

    @functools.cached_property
    def digests(self) -> Mapping[str, tuple[str, bool]]:
        """Name -> the digest of a source's content, and whether the source stands alone."""
        rows = self.store.ask("SELECT name, digest, stands_alone FROM sources ORDER BY name")
        return {name: (digest, bool(alone)) for name, digest, alone in rows}

    @functools.cached_property
    def lookup(self) -> Lookup:
        """The lookup over these sources, which queries the store."""
        return _StoredLookup(self)


class _StoredLookup(Lookup):
    """Looks up sources in a store."""

    def __init__(self, sources: StoredSources) -> None:
        self._sources, self._store = sources, sources.store
        self._joins: dict[str, list[tuple[str, Join]]] = {}

    def with_column(self, name: str) -> Sequence[str]:
        """See `Lookup`."""
        spellings: dict[str, list[str]] = defaultdict(list)
        query = "SELECT source, name FROM columns WHERE folded = ? ORDER BY source"
        for source, spelling in self._store.ask(query, (name.casefold(),)):
            spellings[source].append(spelling)
        return [source for source, known in spellings.items() if name in known or len(known) == 1]

    def with_measure(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        found = self._found("SELECT source FROM measures WHERE folded = ? ORDER BY source", name.casefold())
        return [each for each in found if each.measure(name) is not None]

    def with_segment(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._found("SELECT source FROM segments WHERE name = ? ORDER BY source", name)

    def of_table(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._found("SELECT name FROM sources WHERE relation = ? ORDER BY name", name.casefold())

    def joins_of(self, source: str) -> Sequence[tuple[str, Join]]:
        """See `Lookup`."""
        if source not in self._joins:
            query = 'SELECT owner, "join" FROM joins WHERE owner = ?1 OR target = ?1 ORDER BY owner, number'
            found = ((owner, self._store.codec.load(join, Join)) for owner, join in self._store.ask(query, (source,)))
            self._joins[source] = [pair for pair in found if pair[1].to in self._sources]
        return self._joins[source]

    def joined(self) -> Iterable[tuple[str, str]]:
        """See `Lookup`."""
        rows = self._store.ask("SELECT owner, target FROM joins ORDER BY owner, number")
        return [(owner, target) for owner, target in rows if target in self._sources]

    def aliased(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        query = "SELECT owner, alias, target FROM joins WHERE alias IS NOT NULL ORDER BY owner, number"
        return [row for row in self._store.ask(query) if row[2] in self._sources]

    def labelled(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        for owner, target, stored in self._store.ask('SELECT owner, target, "join" FROM joins ORDER BY owner, number'):
            if target in self._sources:
                yield from ((owner, target, label) for label in labels_of(owner, self._store.codec.load(stored, Join)))

    def with_parameters(self) -> Sequence[Source]:
        """See `Lookup`."""
        return self._found("SELECT name FROM sources WHERE has_parameters ORDER BY name")

    def of_tables(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """See `Lookup`."""
        rows = self._store.ask('SELECT name, "table" FROM sources WHERE "table" IS NOT NULL ORDER BY name')
        return [(name, tuple(json.loads(parts))) for name, parts in rows]

    def restricted(self) -> Iterable[str]:
        """See `Lookup`."""
        return self._store.sources_of("SELECT name FROM sources WHERE is_restricted ORDER BY name")

    def protected(self) -> Iterable[str]:
        """See `Lookup`."""
        return self._store.sources_of("SELECT name FROM sources WHERE is_protected ORDER BY name")

    def _found(self, query: str, *values: str) -> list[Source]:
        return [self._sources[name] for name in self._store.sources_of(query, values)]


CHECKED: Final = "checked"
"""The key of the fact that a store contains the checks of its sources."""

_MOST_CHECKED: Final = 2_000
"""Maximum number of sources to check again one by one; for more, checking all takes no longer."""


def check_model(model: Model, *, errors_only: bool = False) -> list[Diagnostic]:
    """Return the problems of a model that were not found when its files were read, sorted by file and line.

    An `error` is about a definition that no query can use; a `warning` about one that may give a wrong number, or none.
    For a model from a store, only changes since then are checked.
    """
    from ktx_cli.semantic.check import ProblemList, check_connected, check_cycles

    report = ProblemList()
    uses: dict[MeasureKey, Sequence[MeasureKey]] = {}
    found = stored_checks(model)
    for name, each in (all_checks(model) if found is None else found).items():
        uses |= {(name, measure): used for measure, used in each.uses.items()}
        report.problems += each.problems
    check_cycles(model, uses, report)
    if errors_only:
        report.problems = [each for each in report.problems if each.severity is Severity.ERROR]
    else:
        check_connected(model, report)
    return report.sorted()


def stored_checks(model: Model) -> dict[str, SourceChecks] | None:
    """Return the checks of a model's sources, or None if all sources must be checked to determine them.

    Sources that have no problems, and whose measures are not computed from others, may be skipped.
    """
    sources = model.sources
    base = sources.base if isinstance(sources, ChangedSources) else sources
    if not isinstance(base, StoredSources) or not base.store.facts.get(CHECKED):
        return None
    again = checked_again(model) if isinstance(sources, ChangedSources) else {}
    if again is None:
        return None
    changes = sources.changes if isinstance(sources, ChangedSources) else {}
    kept = _kept(base.store)
    return {name: each for name, each in kept.items() if name not in changes and name not in again} | again


def checked_again(model: Model) -> dict[str, SourceChecks] | None:
    """Return the checks of a model's changed sources and of those that they affect, or None as above."""
    from ktx_cli.semantic.check import ModelChecks

    sources = model.sources
    if not isinstance(sources, ChangedSources) or not isinstance(sources.base, StoredSources):
        return None
    store = sources.base.store
    if sources.base.lookup.parameters.keys() != lookup_of(model).parameters.keys():
        return None
    names = {name for name in sources.changes if name in sources}
    names.update(store.sources_of("SELECT source FROM dependencies WHERE reaches"))
    for changed in sources.changes:
        names.update(store.sources_of("SELECT owner FROM joins WHERE target = ?", (changed,)))
    if any((source is None) == (name in sources.base) for name, source in sources.changes.items()):
        names |= set(store.sources_of("SELECT DISTINCT source FROM checks WHERE is_error"))  # hints list the sources
        names |= set(store.sources_of("SELECT DISTINCT owner FROM joins WHERE alias IS NOT NULL"))
    if len(names) > _MOST_CHECKED:
        return None
    checks = ModelChecks(model)
    return {name: checks.check(sources[name]) for name in sorted(names) if name in sources}


def all_checks(model: Model) -> dict[str, SourceChecks]:
    """Return the checks of all sources in a model."""
    from ktx_cli.semantic.check import ModelChecks

    checks = ModelChecks(model)
    return {name: checks.check(source) for name, source in model.sources.items()}


def _kept(store: LayerStore) -> dict[str, SourceChecks]:
    """Return the checks that a store contains."""
    from ktx_cli.semantic.check import SourceChecks

    problems: dict[str, list[Diagnostic]] = defaultdict(list)
    for name, problem in store.ask("SELECT source, problem FROM checks ORDER BY source, number"):
        problems[name].append(store.codec.load_diagnostic(problem))
    rows = store.ask("SELECT source, uses, reaches FROM dependencies")
    found = {name: (_uses_of(uses), bool(reaches)) for name, uses, reaches in rows}
    nothing: tuple[Mapping[str, Sequence[MeasureKey]], bool] = ({}, False)
    return {
        name: SourceChecks(tuple(problems.get(name, ())), *found.get(name, nothing))
        for name in sorted({*problems, *found})
    }


def _uses_of(stored: str) -> dict[str, list[MeasureKey]]:
    return {measure: [(owner, name) for owner, name in used] for measure, used in json.loads(stored).items()}
