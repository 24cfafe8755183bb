"""How documents hang together: the page above, the pages below, what links where, what lies beside."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from ktx_cli.context.documents.library import Library, Place
from ktx_cli.context.documents.model import Document

Relation = Literal["parent", "children", "linked", "backlinked", "same_path"]

_INDEX: Final = ("index", "readme", "_index")
_LONG_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Who is whose neighbour, of all readable documents."""

    parents: Mapping[Place, Place]
    links: Mapping[Place, tuple[Place, ...]]
    places: tuple[Place, ...]

    @classmethod
    def of(cls, library: Library) -> Neighbours:
        """Return the neighbours of a library's documents; a link or parent that is not among them is none."""
        found = {place: document for place in library.places() if (document := library.document(place)) is not None}
        names = _Names(found)
        parents = {place: above for place, each in found.items() if (above := names.parent(place, each)) is not None}
        links = {place: tuple(dict.fromkeys(names.linked(place, each))) for place, each in found.items()}
        return cls(parents, links, tuple(found))

    def related(self, place: Place, relation: Relation) -> list[Place]:
        """Return the neighbours of a kind; links in their order, others by path."""
        if relation == "parent":
            return [self.parents[place]] if place in self.parents else []
        if relation == "linked":
            return list(self.links.get(place, ()))
        if relation == "children":
            return [each for each in self.places if self.parents.get(each) == place]
        if relation == "backlinked":
            return [each for each in self.places if place in self.links.get(each, ())]
        return [each for each in self.places if each != place and self._beside(each, place)]

    def _beside(self, one: Place, other: Place) -> bool:
        if one.source != other.source:
            return False
        above = (self.parents.get(one), self.parents.get(other))
        if above[0] is not None or above[1] is not None:
            return above[0] == above[1]
        return PurePosixPath(one.path).parent == PurePosixPath(other.path).parent


class _Names:
    """What documents are called in links: ids, addresses, paths."""

    def __init__(self, documents: Mapping[Place, Document]) -> None:
        self._documents = documents
        self._ids: dict[tuple[str, str], Place] = {}
        self._addresses: dict[str, Place] = {}
        self._stems: dict[tuple[str, str], Place] = {}
        for place, document in documents.items():
            self._stems.setdefault((place.source, _stem(place)), place)
            for name in (document.properties.get("id"), PurePosixPath(place.path).stem):
                if isinstance(name, str | int) and str(name):
                    self._ids.setdefault((place.source, _plain_id(str(name))), place)
            if document.url:
                self._addresses.setdefault(_address(document.url), place)

    def parent(self, place: Place, document: Document) -> Place | None:
        if document.parent is None:
            return self._index_of(place, "")
        named = self._ids.get((place.source, _plain_id(document.parent)))
        found = named if named is not None and "id" in document.properties else self._index_of(place, document.parent)
        return found if found != place else None

    def linked(self, place: Place, document: Document) -> Iterator[Place]:
        for link in document.links:
            found = self._target(place, link)
            if found is not None and found != place:
                yield found

    def _index_of(self, place: Place, folder: str) -> Place | None:
        """Return the document that stands for a folder: its index, or one that is called as it."""
        names = [posixpath.join(folder, name).lower() for name in _INDEX] + ([folder.lower()] if folder else [])
        if _stem(place) in names[: len(_INDEX)]:  # the index of a folder is below that of the folder above
            return self._index_of(place, posixpath.dirname(folder)) if folder else None
        found = (self._stems.get((place.source, name)) for name in names)
        return next((each for each in found if each is not None), None)

    def _target(self, place: Place, link: str) -> Place | None:
        try:
            parts = urlsplit(link.strip())
        except ValueError:
            return None
        if parts.scheme in ("http", "https"):
            return self._addresses.get(_address(link)) or self._by_id(place.source, parts.path.split("/"))
        if parts.scheme or not parts.path:
            return None
        return self._by_path(place, unquote(parts.path)) or self._by_id(place.source, parts.path.split("/"))

    def _by_path(self, place: Place, path: str) -> Place | None:
        joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(place.path), path)).lstrip("/")
        names = (Place(place.source, joined + ending) for ending in ("", ".md", "/index.md", "/README.md"))
        return next((each for each in names if each in self._documents), None)

    def _by_id(self, source: str, segments: Sequence[str]) -> Place | None:
        """Return the page whose id is in a path: a segment, or the end of one as Notion writes it."""
        for segment in reversed(segments):
            name = _plain_id(segment)
            long = _LONG_ID.search(name)
            found = self._ids.get((source, long[0] if long else name)) if long or name.isdigit() else None
            if found is not None:
                return found
        return None


def _stem(place: Place) -> str:
    return posixpath.splitext(place.path)[0].lower()


def _plain_id(text: str) -> str:
    return text.replace("-", "").lower()


def _address(url: str) -> str:
    """Return an address without what does not tell pages apart."""
    return url.strip().partition("#")[0].rstrip("/").lower()
