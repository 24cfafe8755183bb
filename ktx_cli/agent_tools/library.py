"""The documents of a run's sources, each read once: as a whole, in passages, and searchable by words."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, StorageError
from ktx_cli.documents import RawFile
from ktx_cli.project import SOURCES, KtxConfig, Layout, StateDatabase, read_bytes, read_state
from ktx_cli.search import Hit, Passages, Scope, Store, passage_documents
from ktx_cli.search import Passage as SearchPassage
from ktx_cli.search import Passage as Searched
from ktx_cli.sources import (
    RawStore,
    delivery_digest,
    delivery_path,
    load_questions,
    parse_delivery,
    passage_digest,
    question_stamps,
    source_for,
)

if TYPE_CHECKING:
    from ktx_cli.documents import Document, Passage, Standing
    from ktx_cli.sources import PathStamps

KIND: Final = "passage"


@dataclass(frozen=True, slots=True)
class DocumentId:
    """A document in a source: the id of its connection, and its path there."""

    source: str
    path: str

    def __str__(self) -> str:
        return f"{self.source}:{self.path}"


@dataclass(slots=True)
class Library:
    """Documents by source and path. What cannot be read is in it by its path alone; `problem` says why.

    Several loops may use one at the same time.
    """

    sources: Mapping[str, Mapping[str, RawFile]]
    _documents: dict[DocumentId, Document | KtxError] = field(default_factory=dict, repr=False)
    _passages: dict[DocumentId, tuple[Passage, ...]] = field(default_factory=dict, repr=False)
    _store: Store | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def places(self) -> Iterator[DocumentId]:
        """Yield every document, sorted."""
        for source in sorted(self.sources):
            yield from (DocumentId(source, path) for path in sorted(self.sources[source]))

    def document(self, place: DocumentId) -> Document | None:
        """Return a document, or None if it does not exist or cannot be read."""
        found = self._read(place)
        return None if isinstance(found, KtxError) else found

    def problem(self, place: DocumentId) -> KtxError | None:
        """Return why a document cannot be read: `UnreadableDocumentError`, or `StorageError` if it no longer exists."""
        found = self._read(place)
        return found if isinstance(found, KtxError) else None

    def standing(self, place: DocumentId) -> Standing | None:
        """Return whether a document declares itself superseded or a draft."""
        from ktx_cli.documents import stated_standing

        document = self.document(place)
        return None if document is None else stated_standing(self.sources[place.source][place.path], document)

    def passages(self, place: DocumentId) -> tuple[Passage, ...]:
        """Return the passages of a document in order."""
        from ktx_cli.documents import passages

        with self._lock:
            if place not in self._passages:
                document = self.document(place)
                self._passages[place] = () if document is None else passages(document, place.source)
            return self._passages[place]

    def named(self, text: str) -> DocumentId | None:
        """Return the document of an id `<source>:<path>`, or of a path that only one source has."""
        from ktx_cli.agent_tools.fence import visible

        found = [each for each in self.places() if text in (str(each), visible(str(each)))]
        found = found or [each for each in self.places() if text in (each.path, visible(each.path))]
        return found[0] if len(found) == 1 else None

    def passage(self, key: str) -> Passage | None:
        """Return the passage with a citation key, or None if it no longer exists."""
        from ktx_cli.agent_tools.fence import visible

        place = self.place_of(key)
        found = () if place is None else self.passages(place)
        return next((each for each in found if key in (each.key, visible(each.key), _shown_key(each))), None)

    def place_of(self, key: str) -> DocumentId | None:
        """Return the document that a citation key belongs to."""
        name = key.rsplit(":", 2)[0]
        source, _, path = name.partition(":")
        files = self.sources.get(source, {})
        if path not in files and _MASKED.fullmatch(path):
            path = next((each for each in files if shown_path(each) == path), path)
        return DocumentId(source, path) if path in files else self.named(name)

    def search(self, query: str, source: str | None, limit: int) -> tuple[Hit, ...]:
        """Return the passages that match a query, best first; their `id` is the citation key."""
        from ktx_cli.search import hits, rank

        with self._lock:
            stores = [self._searched()]
            return hits(stores, rank(stores, query, Scope((KIND,), source), limit).documents[:limit])

    def _searched(self) -> Store:
        if self._store is None:
            units = {str(place): passage_documents(self.to_search(place)) for place in self.places()}
            self._store = Store.of(units)
        return self._store

    def to_search(self, place: DocumentId) -> Iterator[Searched]:
        """Yield the passages of a document in the form that an index accepts."""
        from ktx_cli.wiki import screened

        document = self.document(place)
        title = "" if document is None else self._title(place, document)
        for each in self.passages(place):
            yield Searched(_shown_key(each), place.source, title, screened(each.text), each.heading)

    def _title(self, place: DocumentId, document: Document) -> str:
        """Return the title of a document, marked if the document declares itself superseded or a draft."""
        standing = self.standing(place)
        return document.title if standing is None else f"{document.title} ({standing.value})"

    def _read(self, place: DocumentId) -> Document | KtxError | None:
        from ktx_cli.documents import UnreadableDocumentError, read_document

        with self._lock:
            raw = self.sources.get(place.source, {}).get(place.path)
            if raw is not None and place not in self._documents:
                try:
                    self._documents[place] = _screened(read_document(raw))
                except (UnreadableDocumentError, StorageError) as error:
                    self._documents[place] = error
            return self._documents.get(place)


def _screened(document: Document) -> Document:
    """Return a document without secrets and contact data, and without instructions in its title and headings."""
    from ktx_cli.documents import is_heading, outside_fences
    from ktx_cli.wiki import screened, screened_line, without_private

    lines = without_private(document.markdown).split("\n")
    for number, line in list(outside_fences("\n".join(lines))):
        if is_heading(line):
            lines[number] = screened(line)
    return replace(document, title=screened_line(document.title, "title"), markdown="\n".join(lines))


_MASKED: Final = re.compile(r"not-shown-[0-9a-f]{16}[.\w]*")
_ID: Final = re.compile(r"[0-9a-f]{32,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""A part of the file names that other programs export, which is not a secret."""


@functools.lru_cache(maxsize=10_000)
def shown_path(path: str) -> str:
    """Return the path of a document for passage ids: `not-shown-<16 hex>` if the path must not be shown."""
    from ktx_cli.wiki import screened_line

    parts = [_ID.sub("", part) for part in path.split("/")]
    words = re.sub(r"[\W_]+", " ", " ".join(parts))
    if all(screened_line(text, "path") == text for text in (*parts, words)):
        return path
    digest = hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest()
    return f"not-shown-{digest[:16]}{PurePosixPath(path).suffix}"


def _shown_key(passage: Passage) -> str:
    """Return a citation key as a search shows it."""
    source, _, rest = passage.key.partition(":")
    return f"{source}:{shown_path(passage.path)}{rest.removeprefix(passage.path)}"


_RULES: Final = "screened-2"
"""The rules for omitting text from documents. The name changes if an older index contains more."""

_FETCHES = "SELECT connection, kind, files, delivery FROM fetches ORDER BY connection"


def passages_of(layout: Layout, config: KtxConfig) -> list[Passages]:
    """Return the documents of every source that is still configured, as of the last run that wrote its delivery file.

    Raises `ConfigError` for a delivery file that is invalid.
    """

    def read(database: StateDatabase) -> tuple[dict[str, Mapping[str, str]], dict[str, dict[str, str]]]:
        return _fetched(database, layout, config), question_stamps(database)

    found, stamps = read_state(layout, read) or ({}, {})
    return [
        Passages(source, _digests(files, stamps.get(source, {})), _loader(layout, config, source, files))
        for source, files in found.items()
    ]


def _digests(files: Mapping[str, str], stamps: PathStamps) -> dict[str, str]:
    """Return path -> a stamp of the document's state: the rules, its content, and its questions."""
    return {path: " ".join((_RULES, sha256, stamps.get(path, ""))).rstrip() for path, sha256 in files.items()}


def passage_of(layout: Layout, config: KtxConfig, key: str) -> SearchPassage | None:
    """Return the passage with a citation key from a search, or None if its document no longer has such a passage."""
    source, _, rest = key.partition(":")
    asked = rest.rsplit(":", 2)[0]
    files = (read_state(layout, lambda database: _fetched(database, layout, config)) or {}).get(source, {})
    paths = [asked] if asked in files else [each for each in files if shown_path(each) == asked]
    passages = _loader(layout, config, source, files)(paths[0]) if paths else None
    return next((each for each in passages or () if each.id == key), None)


def _fetched(database: StateDatabase, layout: Layout, config: KtxConfig) -> dict[str, Mapping[str, str]]:
    """Return document source -> path -> sha256.

    The last fetch may be that of another commit, in another clone even: then the delivery file says which files the
    context was made from.
    """
    sources = config.sources()
    found: dict[str, Mapping[str, str]] = {}
    for id_, kind, files, delivery in database.execute(_FETCHES):
        if id_ in sources and _is_of_documents(sources[id_], kind):
            where = delivery_path(id_, kind)
            content = read_bytes(layout.root / where)
            is_of_this_commit = delivery in ("", delivery_digest(content))  # older runs did not store it
            found[id_] = json.loads(files) if is_of_this_commit else _delivered(content, where)
    return found


@functools.lru_cache(maxsize=32)
def _delivered(content: bytes | None, where: str) -> Mapping[str, str]:
    """Return path -> sha256 of the files in a delivery file."""
    return {path: state.sha256 for path, state in parse_delivery(content, where).files.items()}


def _is_of_documents(entry: Any, kind: str) -> bool:
    known = SOURCES.find(entry.driver)
    return known is not None and known.documents and (known.kind or known.driver) == kind


def _loader(
    layout: Layout, config: KtxConfig, source: str, files: Mapping[str, str]
) -> Callable[[str], Iterable[SearchPassage] | None]:
    """Return the function that returns the passages of a path, or None if its content is not on this machine."""
    entry = config.sources()[source]
    store = RawStore(layout.raw_store)
    folders = functools.cache(lambda: tuple(source_for(entry.driver).folders(entry, layout.root)))

    def load(path: str) -> Iterator[SearchPassage] | None:
        raw = store.find(path, files[path]) or _on_disk(folders(), path, files[path])
        return None if raw is None else passages(path, raw)

    def passages(path: str, raw: RawFile) -> Iterator[SearchPassage]:
        library, place = Library({source: {path: raw}}), DocumentId(source, path)
        found = None
        if library.standing(place) is None:  # what does not hold must not rank as an answer
            stored = read_state(layout, lambda database: load_questions(database, source, (path,)))
            found = (stored or {}).get(path)
        for each in library.to_search(place):
            own = found and found.passages.get(passage_digest(each.title, each.heading, each.text))
            yield replace(each, questions=own.questions, synonyms=own.synonyms) if own else each

    return load


def _on_disk(folders: Iterable[Path], path: str, sha256: str) -> RawFile | None:
    """Return a file if its content is unchanged, or None if it has changed or no longer exists."""
    for folder in folders:
        content = read_bytes(folder / path)
        if content is not None and hashlib.sha256(content).hexdigest() == sha256:
            return RawFile(path, sha256, len(content), functools.partial(bytes, content))
    return None
