"""Load the current layer or manifest from its store, or from the files if there is no store."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from ktx_cli.core import Diagnostic, KtxError, ResultWarning
from ktx_cli.project import SEMANTIC_NAME, Layout, Tree, WorkingTree, hash_of, stamp_of
from ktx_cli.semantic.lookup import ChangedSources, lookup_of
from ktx_cli.semantic.manifest import Entry, Shard, parse_shard, relation_of, shard_files, stray_names
from ktx_cli.semantic.model import CalendarSettings, Model, Source
from ktx_cli.semantic.store.codec import Codec, Paths
from ktx_cli.semantic.store.reader import (
    LayerStore,
    StoredSources,
    changed_files,
    is_layer_file,
    layer_stamps,
    note_unstored,
    open_store,
    store_path,
    stored_by_this_version,
)

if TYPE_CHECKING:
    from ktx_cli.semantic.store.parts import EntryFacts


def read_model(
    layout: Layout, connection: str, dialect: str, calendar: CalendarSettings, configured: Collection[str] | None
) -> Model:
    """Return a connection's semantic layer from its current files on disk.

    It comes from the store if there is one; only sources whose files changed since then are read again. The result is
    the same as that of `load_model`.
    """
    found = stored_model(layout, connection, dialect, calendar, configured)
    if found is not None:
        return found
    from ktx_cli.semantic.load.load import load_tree

    parse = ParsedCopies(layout, connection).parse
    model = load_tree(WorkingTree(layout.root), connection, dialect, calendar, parse=parse, configured=configured)
    note_unstored(layout, model)
    return model


def stored_model(
    layout: Layout, connection: str, dialect: str, calendar: CalendarSettings, configured: Collection[str] | None
) -> Model | None:
    """Return the layer from its store, or None if there is none or a change requires reading all files."""
    store = open_store(layout, connection, dialect, configured)
    if store is None:
        return None
    tree = WorkingTree(layout.root)
    try:
        changed = changed_files(store, layer_stamps(layout.root, connection, configured), tree)
    except KtxError:  # what reads the files says what is wrong with them
        store.close()
        return None
    sources = StoredSources(store)
    problems: Callable[[], Iterable[Diagnostic]] = functools.partial(_stored_problems, store)
    if not changed:
        return Model(connection, dialect, sources, LazyProblems(problems), calendar, store.barred, store.sealed)
    from ktx_cli.semantic.store.changes import changes_of, merged_problems

    changes = changes_of(store, changed, connection, dialect)
    if changes is None:
        store.close()
        return None
    merged = functools.partial(lambda: merged_problems(problems(), changes.subjects, changes.problems))
    return Model(connection, dialect, ChangedSources(sources, changes.sources), LazyProblems(merged), calendar)


def stored_copy(
    layout: Layout, tree: Tree, connection: str, dialect: str, calendar: CalendarSettings, configured: Collection[str]
) -> Model | None:
    """Return the layer in a tree from the store of the current layer, or None if they do not have the same files.

    That is several times as fast as `load_tree`. Nothing is read from the store or the tree later.
    """
    store = open_store(layout, connection, dialect, configured)
    if store is None:
        return None
    try:
        hashes = {path: each.sha256 for path, each in store.files().items()}
        names = list(tree.paths(f"{Layout.context_paths(connection)[0]}/"))
        contents = {path: tree.read(path) or b"" for path in names if is_layer_file(path, connection)}
        if stray_names(tree, {*configured, connection}) or hashes != {
            path: hashlib.sha256(content).hexdigest() for path, content in contents.items()
        }:
            return None
        store.codec = Codec(Paths(store.paths.names, _Read(contents)))
        sources, problems = dict(StoredSources(store)), tuple(_stored_problems(store))
        return Model(connection, dialect, sources, problems, calendar, store.barred, store.sealed)
    except KtxError:  # what reads the files says what is wrong with them
        return None
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class _Read:
    """The files that were read from a tree, in which lines are looked up later."""

    contents: Mapping[str, bytes]

    def read(self, path: str) -> bytes | None:
        return self.contents.get(path)

    def paths(self, prefix: str) -> Iterable[str]:
        return (path for path in self.contents if path.startswith(prefix))


def _stored_problems(store: LayerStore) -> Iterable[Diagnostic]:
    rows = store.ask("SELECT problem FROM problems ORDER BY path, number")
    return (store.codec.load_diagnostic(problem) for (problem,) in rows)


class LazyProblems(Sequence[Diagnostic]):
    """The problems of a layer in order, created on first access."""

    def __init__(self, make: Callable[[], Iterable[Diagnostic]]) -> None:
        self._make = make

    @functools.cached_property
    def _all(self) -> tuple[Diagnostic, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> Diagnostic: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Diagnostic]: ...

    def __getitem__(self, index: int | slice) -> Diagnostic | Sequence[Diagnostic]:
        """Return a problem, or a slice of them."""
        return self._all[index]

    def __len__(self) -> int:
        """Return the number of problems."""
        return len(self._all)


def is_stored(layout: Layout, connection: str, dialect: str, configured: Collection[str] | None) -> bool:
    """Return whether the store of a layer matches its current files, based only on their stamps.

    Raises `StorageError` for a folder that cannot be listed.
    """
    store = open_store(layout, connection, dialect, configured)
    if store is None:
        return False
    try:
        known = {path: each.stamp for path, each in store.files().items()}
    finally:
        store.close()
    return known == layer_stamps(layout.root, connection, configured)


def source_digests(model: Model) -> dict[str, str]:
    """Return source -> digest, which stays the same as long as the source's visible content does.

    If some columns are not public, the visible content of a source may depend on every other one, unless it stands
    alone.
    """
    found = dict(_digests(model.sources))
    if lookup_of(model).is_all_public:
        return {name: digest for name, (digest, _) in found.items()}
    whole = hash_of(f"{name} {digest}" for name, (digest, _) in sorted(found.items()))
    return {name: digest if alone else hash_of((digest, whole)) for name, (digest, alone) in found.items()}


def _digests(sources: Mapping[str, Source | None]) -> Iterator[tuple[str, tuple[str, bool]]]:
    if isinstance(sources, StoredSources):
        yield from sources.digests.items()
    elif isinstance(sources, ChangedSources):
        yield from (pair for pair in _digests(sources.base) if pair[0] not in sources.changes)
        yield from _digests(sources.changes)
    else:
        from ktx_cli.semantic.store.codec import SourceDigests
        from ktx_cli.semantic.visible import stands_alone

        digests = SourceDigests()
        for name, source in sources.items():
            if source is not None:
                yield name, (digests.of(source), stands_alone(source))


def stored_hashes(layout: Layout, connection: str) -> dict[str, str]:
    """Return path -> sha256 of the layer files whose stamps are unchanged since the layer was stored."""
    store = stored_by_this_version(layout, connection)
    if store is None:
        return {}
    try:
        files = store.files().items()
    finally:
        store.close()
    known = {path: each for path, each in files if each.stamp is not None and each.sha256}
    return {path: each.sha256 for path, each in known.items() if stamp_of(layout.root / path) == each.stamp}


class ParsedCopies:
    """The parsed shards of one connection, identified by the sha256 of the text from which they were parsed."""

    def __init__(self, layout: Layout, connection: str) -> None:
        self._layout, self._connection = layout, connection

    def parse(self, content: bytes, where: str) -> Shard:
        """Return the shard, from the store if it has exactly these bytes. Raises the errors of `parse_shard`."""
        digest = hashlib.sha256(content).hexdigest()
        document = self._document(digest)
        return parse_shard(content, where) if document is None else Shard(document, digest)

    def _document(self, digest: str) -> dict[str, Any] | None:
        if self.store is None:
            return None
        query = "SELECT number, rest FROM files WHERE sha256 = ? AND rest IS NOT NULL AND kind = 'shard'"
        rows = self.store.ask(query, (digest,))
        if not rows:
            return None
        number, rest = rows[0]
        query = "SELECT name, document FROM entries WHERE file = ? ORDER BY number"
        tables = {name: json.loads(text) for name, text in self.store.ask(query, (number,))}
        return {key: tables if key == "tables" else value for key, value in json.loads(rest).items()}

    @functools.cached_property
    def store(self) -> LayerStore | None:
        """The store that the copies are read from."""
        return stored_by_this_version(self._layout, self._connection)


def has_store(layout: Layout, connection: str) -> bool:
    """Return whether a run has stored a connection's layer."""
    return store_path(layout, connection).exists()


@dataclass(frozen=True, slots=True)
class DeclaredEntry:
    """A source's entry in a layer file, with its declarations; `read` returns the entire entry.

    `is_generated`: whether it is in the manifest.
    """

    path: str
    source: str
    is_generated: bool
    facts: EntryFacts
    read: Callable[[], Mapping[str, Any]]

    @classmethod
    def of(cls, path: str, source: str, document: Mapping[str, Any]) -> DeclaredEntry:
        """Return the entry for a document that was read."""
        from ktx_cli.semantic.store.parts import EntryFacts, is_shard

        return cls(path, source, is_shard(path), EntryFacts.of(document), lambda: document)


def declared_entries(layout: Layout, connection: str) -> list[DeclaredEntry] | None:
    """Return all current entries in a layer's files, by path, from its store.

    Files that changed since then are read. None if there is no store, or if it does not contain a file as parsed: then
    all files must be read to find the definitions and their problems.
    """
    from ktx_cli.semantic.store.parts import EntryFacts, is_shard, parts_of

    store = stored_by_this_version(layout, connection)
    if store is None or store.ask("SELECT 1 FROM files WHERE NOT plain LIMIT 1"):
        return None
    try:
        changed = changed_files(store, layer_stamps(layout.root, connection, None), WorkingTree(layout.root))
    except KtxError:
        return None
    changed = {path: content for path, content in changed.items() if path.startswith(f"{SEMANTIC_NAME}/{connection}/")}
    found = []
    for path, source, number, index, facts in store.ask(
        "SELECT f.path, e.name, e.file, e.number, e.facts FROM entries AS e JOIN files AS f ON f.number = e.file"
    ):
        if path not in changed:
            read = functools.partial(_stored_document, store, number, index)
            found.append(DeclaredEntry(path, source, is_shard(path), EntryFacts.load(facts), read))
    if changed:
        from ktx_cli.semantic.store.changes import parsed_files

        files = parsed_files(changed, connection)
        if files is None:
            return None
        for path, file in files.items():
            rest, entries = ("", []) if file is None else parts_of(file)
            if rest is None:
                return None
            for source, _, document in entries:
                found.append(DeclaredEntry.of(path, source, document))
    return sorted(found, key=lambda each: each.path)


def _stored_document(store: LayerStore, file: int, number: int) -> Mapping[str, Any]:
    ((text,),) = store.ask("SELECT document FROM entries WHERE file = ? AND number = ?", (file, number))
    document: Mapping[str, Any] = json.loads(text)
    return document


class Manifest:
    """All generated sources of a connection, and the shards that could not be read (`problems`).

    Those in a store are read from there on demand.
    """

    def __init__(self, shards: Sequence[Shard | int], store: LayerStore | None, problems: Sequence[ResultWarning]):
        """Collect the shards in order; those that a store contains unchanged are collected by their numbers."""
        self._shards, self._store = shards, store
        self.problems = tuple(problems)

    @functools.cached_property
    def tables(self) -> dict[str, Entry]:
        """Source name -> entry."""
        found: dict[str, Entry] = {}
        for shard in self._shards:
            if isinstance(shard, Shard):
                found.update(shard.tables)
            else:
                rows = self._ask("SELECT name, document FROM entries WHERE file = ? ORDER BY number", shard)
                found.update((name, json.loads(text)) for name, text in rows)
        return found

    @functools.cached_property
    def relations(self) -> dict[str, Any]:
        """Source name -> the `table` of its entry as written, or None if that is not text."""
        found: dict[str, Any] = {}
        for shard in self._shards:
            if isinstance(shard, Shard):
                found.update((name, relation_of(entry)) for name, entry in shard.tables.items())
            else:
                found.update(self._ask("SELECT name, relation FROM entries WHERE file = ? ORDER BY number", shard))
        return found

    def _ask(self, query: str, number: int) -> list[tuple[Any, ...]]:
        return [] if self._store is None else self._store.ask(query, (number,))


def load_manifest(layout: Layout, connection: str) -> Manifest:
    """Read the manifest from the working tree; a broken shard is a problem but does not block the others."""
    tree, copies = WorkingTree(layout.root), ParsedCopies(layout, connection)
    stored = {} if copies.store is None else copies.store.files()
    shards: list[Shard | int] = []
    problems: list[ResultWarning] = []
    for path in shard_files(layout, connection):
        where = path.relative_to(layout.root).as_posix()
        known = stored.get(where)
        if known is not None and known.is_plain and known.stamp is not None and known.stamp == stamp_of(path):
            shards.append(known.number)
            continue
        try:
            content = tree.read(where)
            if content is not None:
                shards.append(copies.parse(content, where))
        except KtxError as error:
            problems.append(ResultWarning("broken_shard", error.message, hint=error.hint, path=where))
    return Manifest(shards, copies.store, problems)
