"""Relations between documents (parents, children, links, siblings), and the tools that search and read documents."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from pydantic import Field

from ktx_cli.agent_tools import LONGEST, RESERVE, DocumentId, Input, Library, Parts, Tool, ToolSession, joined, wrapped
from ktx_cli.core import listing, one_line, plural
from ktx_cli.documents import Document, Passage
from ktx_cli.llm import RuntimeTool, ToolOutput
from ktx_cli.protection import Refused
from ktx_cli.search import Hit

Relation = Literal["parent", "children", "linked", "backlinked", "same_path"]

_INDEX: Final = ("index", "readme", "_index")
_LONG_ID: Final = re.compile(r"[0-9a-f]{32}\Z")


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The relations between all readable documents."""

    parents: Mapping[DocumentId, DocumentId]
    links: Mapping[DocumentId, tuple[DocumentId, ...]]
    places: tuple[DocumentId, ...]

    @classmethod
    def of(cls, library: Library) -> Neighbours:
        """Return the neighbors of a library's documents; links and parents outside the library are dropped."""
        found = {place: document for place in library.places() if (document := library.document(place)) is not None}
        names = _Names(found)
        parents = {place: above for place, each in found.items() if (above := names.parent(place, each)) is not None}
        links = {place: tuple(dict.fromkeys(names.linked(place, each))) for place, each in found.items()}
        return cls(parents, links, tuple(found))

    def related(self, place: DocumentId, relation: Relation) -> list[DocumentId]:
        """Return a document's neighbors of one kind; links keep their order, others are sorted by path."""
        if relation == "parent":
            return [self.parents[place]] if place in self.parents else []
        if relation == "linked":
            return list(self.links.get(place, ()))
        if relation == "children":
            return [each for each in self.places if self.parents.get(each) == place]
        if relation == "backlinked":
            return [each for each in self.places if place in self.links.get(each, ())]
        return [each for each in self.places if each != place and self._beside(each, place)]

    def _beside(self, one: DocumentId, other: DocumentId) -> bool:
        if one.source != other.source:
            return False
        above = (self.parents.get(one), self.parents.get(other))
        if above[0] is not None or above[1] is not None:
            return above[0] == above[1]
        return PurePosixPath(one.path).parent == PurePosixPath(other.path).parent


class _Names:
    """The names by which links refer to documents: ids, URLs, paths."""

    def __init__(self, documents: Mapping[DocumentId, Document]) -> None:
        self._documents = documents
        self._ids: dict[tuple[str, str], DocumentId] = {}
        self._addresses: dict[str, DocumentId] = {}
        self._stems: dict[tuple[str, str], DocumentId] = {}
        for place, document in documents.items():
            self._stems.setdefault((place.source, _stem(place)), place)
            for name in (document.properties.get("id"), PurePosixPath(place.path).stem):
                if isinstance(name, str | int) and str(name):
                    self._ids.setdefault((place.source, _plain_id(str(name))), place)
            if document.url:
                self._addresses.setdefault(_address(document.url), place)

    def parent(self, place: DocumentId, document: Document) -> DocumentId | None:
        if document.parent is None:
            return self._index_of(place, "")
        named = self._ids.get((place.source, _plain_id(document.parent)))
        found = named if named is not None and "id" in document.properties else self._index_of(place, document.parent)
        return found if found != place else None

    def linked(self, place: DocumentId, document: Document) -> Iterator[DocumentId]:
        for link in document.links:
            found = self._target(place, link)
            if found is not None and found != place:
                yield found

    def _index_of(self, place: DocumentId, folder: str) -> DocumentId | None:
        """Return the document that represents a folder: its index, or one with the folder's name."""
        names = [posixpath.join(folder, name).lower() for name in _INDEX] + ([folder.lower()] if folder else [])
        if _stem(place) in names[: len(_INDEX)]:  # the index of a folder is below that of its parent folder
            return self._index_of(place, posixpath.dirname(folder)) if folder else None
        found = (self._stems.get((place.source, name)) for name in names)
        return next((each for each in found if each is not None), None)

    def _target(self, place: DocumentId, link: str) -> DocumentId | None:
        try:
            parts = urlsplit(link.strip())
        except ValueError:
            return None
        if parts.scheme in ("http", "https"):
            return self._addresses.get(_address(link)) or self._by_id(place.source, parts.path.split("/"))
        if parts.scheme or not parts.path:
            return None
        return self._by_path(place, unquote(parts.path)) or self._by_id(place.source, parts.path.split("/"))

    def _by_path(self, place: DocumentId, path: str) -> DocumentId | None:
        joined = posixpath.normpath(posixpath.join("/", posixpath.dirname(place.path), path)).lstrip("/")
        names = (DocumentId(place.source, joined + ending) for ending in ("", ".md", "/index.md", "/README.md"))
        return next((each for each in names if each in self._documents), None)

    def _by_id(self, source: str, segments: Sequence[str]) -> DocumentId | None:
        """Return the page whose id is in a path: a segment, or the end of one, as in Notion."""
        for segment in reversed(segments):
            name = _plain_id(segment)
            long = _LONG_ID.search(name)
            found = self._ids.get((source, long[0] if long else name)) if long or name.isdigit() else None
            if found is not None:
                return found
        return None


def _stem(place: DocumentId) -> str:
    return posixpath.splitext(place.path)[0].lower()


def _plain_id(text: str) -> str:
    return text.replace("-", "").lower()


def _address(url: str) -> str:
    """Return a URL without the parts that do not identify a page."""
    return url.strip().partition("#")[0].rstrip("/").lower()


MOST: Final = 25
"""Number of search hits and of a document's neighbors."""

_ROOM: Final = LONGEST - RESERVE
_LINE: Final = 300


class SearchEvidence(Input):
    """A search of the documents."""

    query: str = Field(description="Words about the topic.", max_length=500)
    connection: str | None = Field(None, description="A document source. Defaults to all sources of this run.")
    limit: int = Field(10, ge=1, le=MOST, description="Maximum number of passages.")


class ReadEvidence(Input):
    """A passage or a document, exactly one of them."""

    passage: str | None = Field(None, description="Citation key of a passage, as returned by a search.")
    document: str | None = Field(None, description="Document id: the beginning of its citation keys.")
    neighbours: bool = Field(False, description="For a passage: also show the passages before and after it.")
    start: int = Field(1, ge=1, description="For a document: the number of the passage to start with, from 1.")


class EvidenceNeighbours(Input):
    """Which documents to list."""

    document: str = Field(description="Id of a document: the beginning of its citation keys.")
    relation: Relation = Field(description="`same_path`: documents in the same folder, or below the same page.")
    limit: int = Field(10, ge=1, le=MOST, description="Maximum number of documents.")


class _Evidence:
    """The tools' access to one library; relations between documents are computed when first requested."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._neighbours: Neighbours | None = None

    def search(self, session: ToolSession, value: SearchEvidence) -> ToolOutput:
        sources = sorted(self._library.sources)
        if value.connection is not None and value.connection not in sources:
            raise Refused(
                f"`{value.connection}` is not a document source of this run; the sources are: {listing(sources)}"
            )
        found = self._library.search(value.query, value.connection, value.limit)
        if not found:
            return ToolOutput("No passage matches. Try broader or other words.", {"success": True, "keys": []})
        parts = Parts(_ROOM)
        for each in found:
            parts.add(self._hit(each))
        note = parts.more("passages", "ask for fewer")
        shown = [each.id for each in found[: parts.shown]]
        return ToolOutput(joined(parts.text(), note), {"success": True, "keys": shown})

    def read(self, session: ToolSession, value: ReadEvidence) -> ToolOutput:
        if (value.passage is None) == (value.document is None):
            raise Refused("give either `passage` or `document`")
        if value.passage is not None:
            return self._passage(value.passage, neighbours=value.neighbours)
        place = self._place(value.document or "")
        found = self._library.passages(place)
        if value.start > max(len(found), 1):
            raise Refused(f"the document has {plural(len(found), 'passage')}: start with one of these")
        return self._text(place, found[value.start - 1 :])

    def neighbours(self, session: ToolSession, value: EvidenceNeighbours) -> ToolOutput:
        place = self._place(value.document)
        if self._neighbours is None:
            self._neighbours = Neighbours.of(self._library)
        found = self._neighbours.related(place, value.relation)
        if not found:
            return ToolOutput("There are none.", {"success": True, "documents": []})
        parts = Parts(_ROOM)
        for each in found[: value.limit]:
            parts.add(wrapped(self._head(each), f"a document of {each.source}"))
        note = parts.more("documents", "ask for fewer") or _more(found, value.limit)
        shown = [str(each) for each in found[: parts.shown]]
        return ToolOutput(joined(parts.text(), note), {"success": True, "documents": shown})

    def _passage(self, key: str, *, neighbours: bool) -> ToolOutput:
        place, passage = self._library.place_of(key), self._library.passage(key)
        if place is None or passage is None:
            raise Refused(f"there is no passage `{one_line(key)}`: copy the key from context_evidence_search")
        around = 1 if neighbours else 0
        found = self._library.passages(place)[max(0, passage.order - around) : passage.order + around + 1]
        return self._text(place, found)

    def _text(self, place: DocumentId, passages: Sequence[Passage]) -> ToolOutput:
        """Return as many passages of a document as fit."""
        problem = self._library.problem(place)
        if problem is not None:
            raise Refused(f"cannot read the document: {problem.message}")
        head = wrapped(self._head(place), f"a document of {place.source}")
        parts = Parts(_ROOM - len(head))
        for each in passages:
            parts.add(shown(each, place.source))
        rest = passages[parts.shown].order + 1 if parts.left_out else 0
        note = parts.more("passages", f"continue with start {rest}")
        keys = [each.key for each in passages[: parts.shown]]
        return ToolOutput(joined(head, parts.text(), note), {"success": True, "keys": keys})

    def _hit(self, hit: Hit) -> str:
        place = self._library.place_of(hit.id)
        source = "" if place is None else place.source
        return wrapped(f"key: {hit.id}\nin: {hit.summary}\n\n{hit.snippet}", f"a passage of {source}")

    def _head(self, place: DocumentId) -> str:
        document = self._library.document(place)
        if document is None:
            return f"document: {place}"
        facts = {"document": str(place), "title": document.title, "url": document.url, "parent": document.parent}
        facts |= {str(name): _value(each) for name, each in document.properties.items()}
        return "\n".join(f"{name}: {one_line(value, _LINE)}" for name, value in list(facts.items())[:30] if value)

    def _place(self, name: str) -> DocumentId:
        place = self._library.named(name)
        if place is None:
            raise Refused(f"there is no document `{one_line(name)}`: its id is the beginning of its citation keys")
        return place


def shown(passage: Passage, source: str) -> str:
    """Return a passage as a model may see it, with its citation key."""
    place = f"key: {passage.key}" + (f"\nbelow: {passage.heading}" if passage.heading else "")
    return wrapped(f"{place}\n\n{passage.text.strip()}", f"a passage of {source}")


def _value(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _more(found: Sequence[DocumentId], limit: int) -> str:
    return f"({plural(len(found) - limit, 'more document')}: request a larger limit)" if len(found) > limit else ""


def evidence_tools(session: ToolSession, library: Library) -> tuple[RuntimeTool, ...]:
    """Return the tools for `ToolSession.extra`."""
    return tuple(tool.on(session) for tool in _tools(_Evidence(library)))


def _tools(evidence: _Evidence) -> Iterable[Tool]:
    return (
        Tool(
            "context_evidence_search",
            "Search this run's documents for passages by words. Each result has a citation key.",
            SearchEvidence,
            evidence.search,
        ),
        Tool(
            "context_evidence_read",
            "Read a passage by its citation key, or a document from its beginning.",
            ReadEvidence,
            evidence.read,
        ),
        Tool(
            "context_evidence_neighbors",
            "List the documents around one: its parent, its children, those it links to and those that link to it.",
            EvidenceNeighbours,
            evidence.neighbours,
        ),
    )
