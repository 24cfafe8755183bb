"""Tools with which agents look for what documents say, so that a page can be traced to a passage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import Field

from ktx_cli.context.documents.chunks import Passage
from ktx_cli.context.documents.library import Library, Place
from ktx_cli.context.documents.neighbours import Neighbours, Relation
from ktx_cli.context.search.model import Hit
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import LONGEST, RESERVE, Parts, joined
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.untrusted import wrapped
from ktx_cli.core.text import listing, one_line, plural
from ktx_cli.llm.tools import RuntimeTool, ToolOutput

MOST: Final = 25
"""Hits of a search, and neighbours of a document."""

_ROOM: Final = LONGEST - RESERVE
_LINE: Final = 300


class SearchEvidence(Input):
    """What to look for in documents."""

    query: str = Field(description="Words of the topic.", max_length=500)
    connection: str | None = Field(None, description="One source of documents; without it all of this run.")
    limit: int = Field(10, ge=1, le=MOST, description="Passages at most.")


class ReadEvidence(Input):
    """A passage or a document; exactly one of them."""

    passage: str | None = Field(None, description="Citation key of a passage, as a search gave it.")
    document: str | None = Field(None, description="Id of a document: what its citation keys begin with.")
    neighbours: bool = Field(False, description="Of a passage: show those before and behind it too.")
    start: int = Field(1, ge=1, description="Of a document: its passage to begin with, from 1.")


class EvidenceNeighbours(Input):
    """Which documents to list."""

    document: str = Field(description="Id of a document: what its citation keys begin with.")
    relation: Relation = Field(description="`same_path`: those in the same folder, or below the same page.")
    limit: int = Field(10, ge=1, le=MOST, description="Documents at most.")


class _Evidence:
    """The tools' work on one library; how documents hang together is found out when it is first asked."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._neighbours: Neighbours | None = None

    def search(self, session: ToolSession, value: SearchEvidence) -> ToolOutput:
        sources = sorted(self._library.sources)
        if value.connection is not None and value.connection not in sources:
            raise Refused(f"`{value.connection}` is no source of documents of this run; there are: {listing(sources)}")
        found = self._library.search(value.query, value.connection, value.limit)
        if not found:
            return ToolOutput("No passage fits. Try broader or other words.", {"success": True, "keys": []})
        parts = Parts(_ROOM)
        for each in found:
            parts.add(self._hit(each))
        note = parts.more("passages", "ask for fewer")
        shown = [each.id for each in found[: parts.shown]]
        return ToolOutput(joined(parts.text(), note), {"success": True, "keys": shown})

    def read(self, session: ToolSession, value: ReadEvidence) -> ToolOutput:
        if (value.passage is None) == (value.document is None):
            raise Refused("give `passage` or `document`, exactly one of them")
        if value.passage is not None:
            return self._passage(value.passage, neighbours=value.neighbours)
        place = self._place(value.document or "")
        found = self._library.passages(place)
        if value.start > max(len(found), 1):
            raise Refused(f"the document has {plural(len(found), 'passage')}: begin with one of them")
        return self._told(place, found[value.start - 1 :])

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
            raise Refused(f"there is no passage `{one_line(key)}`: copy its key from context_evidence_search")
        around = 1 if neighbours else 0
        found = self._library.passages(place)[max(0, passage.order - around) : passage.order + around + 1]
        return self._told(place, found)

    def _told(self, place: Place, passages: Sequence[Passage]) -> ToolOutput:
        """Return passages of one document, as many as there is room for."""
        problem = self._library.problem(place)
        if problem is not None:
            raise Refused(f"the document cannot be read: {problem.message}")
        head = wrapped(self._head(place), f"a document of {place.source}")
        parts = Parts(_ROOM - len(head))
        for each in passages:
            parts.add(shown(each, place.source))
        rest = passages[parts.shown].order + 1 if parts.left_out else 0
        note = parts.more("passages", f"read on with start {rest}")
        keys = [each.key for each in passages[: parts.shown]]
        return ToolOutput(joined(head, parts.text(), note), {"success": True, "keys": keys})

    def _hit(self, hit: Hit) -> str:
        place = self._library.place_of(hit.id)
        source = "" if place is None else place.source
        return wrapped(f"key: {hit.id}\nin: {hit.summary}\n\n{hit.snippet}", f"a passage of {source}")

    def _head(self, place: Place) -> str:
        document = self._library.document(place)
        if document is None:
            return f"document: {place}"
        facts = {"document": str(place), "title": document.title, "url": document.url, "parent": document.parent}
        facts |= {str(name): _said(each) for name, each in document.properties.items()}
        return "\n".join(f"{name}: {one_line(said, _LINE)}" for name, said in list(facts.items())[:30] if said)

    def _place(self, name: str) -> Place:
        place = self._library.named(name)
        if place is None:
            raise Refused(f"there is no document `{one_line(name)}`: its id is what its citation keys begin with")
        return place


def shown(passage: Passage, source: str) -> str:
    """Return a passage as a model may see it, with its citation key."""
    place = f"key: {passage.key}" + (f"\nbelow: {passage.heading}" if passage.heading else "")
    return wrapped(f"{place}\n\n{passage.text.strip()}", f"a passage of {source}")


def _said(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _more(found: Sequence[Place], limit: int) -> str:
    return f"({plural(len(found) - limit, 'more document')}: ask for a larger limit)" if len(found) > limit else ""


def evidence_tools(session: ToolSession, library: Library) -> tuple[RuntimeTool, ...]:
    """Return the tools for `ToolSession.extra`."""
    return tuple(tool.on(session) for tool in _tools(_Evidence(library)))


def _tools(evidence: _Evidence) -> Iterable[Tool]:
    return (
        Tool(
            "context_evidence_search",
            "Find passages of the documents of this run by their words. Each has a citation key.",
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
            "List the documents around one: its parent, its children, those it links to and that link to it.",
            EvidenceNeighbours,
            evidence.neighbours,
        ),
    )
