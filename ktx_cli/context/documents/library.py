"""The documents of a run's sources, each read once: whole, in passages, and found by words."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.context.documents.chunks import Passage, passages
from ktx_cli.context.documents.model import Document, UnreadableDocumentError
from ktx_cli.context.documents.reading import read_document
from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.model import Hit, Scope
from ktx_cli.context.search.passages import Passage as Searched
from ktx_cli.context.search.passages import passage_documents
from ktx_cli.context.search.ranking import hits, rank
from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.untrusted import visible
from ktx_cli.core.errors import KtxError, StorageError

KIND: Final = "passage"


@dataclass(frozen=True, slots=True)
class Place:
    """A document of a source: the id of its connection, and its path there."""

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
    _documents: dict[Place, Document | KtxError] = field(default_factory=dict, repr=False)
    _passages: dict[Place, tuple[Passage, ...]] = field(default_factory=dict, repr=False)
    _store: Store | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def places(self) -> Iterator[Place]:
        """Yield every document, sorted."""
        for source in sorted(self.sources):
            yield from (Place(source, path) for path in sorted(self.sources[source]))

    def document(self, place: Place) -> Document | None:
        """Return a document, None where there is none or it cannot be read."""
        found = self._read(place)
        return found if isinstance(found, Document) else None

    def problem(self, place: Place) -> KtxError | None:
        """Return why a document cannot be read: `UnreadableDocumentError`, or `StorageError` where it is gone."""
        found = self._read(place)
        return found if isinstance(found, KtxError) else None

    def passages(self, place: Place) -> tuple[Passage, ...]:
        """Return the passages of a document in order."""
        with self._lock:
            if place not in self._passages:
                document = self.document(place)
                self._passages[place] = () if document is None else passages(document, place.source)
            return self._passages[place]

    def named(self, text: str) -> Place | None:
        """Return the document of an id `<source>:<path>`, or of a path that one source alone has."""
        found = [each for each in self.places() if text in (str(each), visible(str(each)))]
        found = found or [each for each in self.places() if text in (each.path, visible(each.path))]
        return found[0] if len(found) == 1 else None

    def passage(self, key: str) -> Passage | None:
        """Return the passage of a citation key, None where there is none now."""
        place = self.place_of(key)
        found = () if place is None else self.passages(place)
        return next((each for each in found if key in (each.key, visible(each.key))), None)

    def place_of(self, key: str) -> Place | None:
        """Return the document a citation key is of."""
        name = key.rsplit(":", 2)[0]
        source, _, path = name.partition(":")
        place = Place(source, path)
        return place if path in self.sources.get(source, {}) else self.named(name)

    def search(self, query: str, source: str | None, limit: int) -> tuple[Hit, ...]:
        """Return the passages that fit a query, best first; their `id` is the citation key."""
        with self._lock:
            stores = [self._searched()]
            ranking = rank(stores, query, Scope((KIND,), source), limit)
            return hits(stores, ranking.documents[:limit])

    def _searched(self) -> Store:
        if self._store is None:
            units = {str(place): passage_documents(self.to_search(place)) for place in self.places()}
            self._store = Store.of(units)
        return self._store

    def to_search(self, place: Place) -> Iterator[Searched]:
        """Yield the passages of a document as an index takes them."""
        document = self.document(place)
        for each in self.passages(place):
            title = "" if document is None else document.title
            yield Searched(each.key, place.source, title, each.text, each.heading)

    def _read(self, place: Place) -> Document | KtxError | None:
        with self._lock:
            raw = self.sources.get(place.source, {}).get(place.path)
            if raw is not None and place not in self._documents:
                try:
                    self._documents[place] = read_document(raw)
                except (UnreadableDocumentError, StorageError) as error:
                    self._documents[place] = error
            return self._documents.get(place)
