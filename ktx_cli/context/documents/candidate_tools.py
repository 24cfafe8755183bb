"""Tools with which agents write candidates and give their verdict on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import Field

from ktx_cli.context.documents.candidates import (
    HIGHEST,
    LONGEST_ASSERTION,
    LONGEST_KEY,
    LONGEST_PAGE,
    LONGEST_RATIONALE,
    LONGEST_TOPIC,
    OVER_BUDGET,
    Candidate,
    Hint,
    Scores,
    evidence_of,
    first_verdict,
    tidy,
)
from ktx_cli.context.documents.chunks import slug
from ktx_cli.context.documents.library import Library
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.session import PageBudget, ToolSession
from ktx_cli.context.wiki.keys import could_be_key
from ktx_cli.context.wiki.loading import read_page
from ktx_cli.core.text import listing
from ktx_cli.llm.tools import RuntimeTool, ToolOutput

_SCORE: Final = Field(ge=0, le=HIGHEST)


class WriteCandidate(Input):
    """A fact that may become part of the wiki. One of a key that is there already replaces it."""

    key: str = Field(min_length=1, max_length=LONGEST_KEY, description="Key of the candidate, unique in this run.")
    topic: str = Field(min_length=1, max_length=LONGEST_TOPIC, description="The concept in a few words.")
    assertion: str = Field(min_length=1, max_length=LONGEST_ASSERTION, description="The fact in one sentence.")
    rationale: str = Field("", max_length=LONGEST_RATIONALE, description="Why it is worth keeping.")
    passages: list[str] = Field(min_length=1, max_length=20, description="Citation keys of passages it stands in.")
    page: str | None = Field(None, max_length=LONGEST_PAGE, description="Key of a wiki page it may belong on.")
    hint: Hint = Field("create", description="What should become of it.")
    durability: int = _SCORE
    authority: int = _SCORE
    reuse: int = _SCORE
    novelty: int = _SCORE
    risk: int = _SCORE


class MarkCandidate(Input):
    """The verdict on a candidate. A later one replaces it."""

    key: str = Field(description="Key of a candidate of this task.")
    status: Literal["promoted", "merged", "rejected", "conflict"] = Field(description="What became of it.")
    artifact: str | None = Field(
        None, max_length=300, description="Of `promoted` and `merged`: `wiki:<key>` or `sl:<connection>/<source>`."
    )
    reason: str | None = Field(None, max_length=500, description="Of `rejected` and `conflict`: why, in a few words.")


@dataclass(slots=True)
class Book:
    """The candidates of one loop by key. `written`: artifacts that earlier loops of the run wrote."""

    candidates: dict[str, Candidate] = field(default_factory=dict)
    written: Collection[str] = ()

    @classmethod
    def of(cls, candidates: Iterable[Candidate], written: Collection[str] = ()) -> Book:
        """Return the book of a batch."""
        return cls({each.key: each for each in candidates}, written)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the candidates as plain values."""
        return [each.to_json() for each in self.candidates.values()]

    def restore(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Take over what `to_json` gave."""
        self.candidates = {each["key"]: Candidate.from_json(each) for each in stored}


def mark_tool(session: ToolSession, book: Book) -> RuntimeTool:
    """Return `context_candidate_mark` for the candidates of a book."""

    def mark(at: ToolSession, value: MarkCandidate) -> ToolOutput:
        if value.key not in book.candidates:
            raise Refused(f"`{value.key}` is no candidate of this task; they are: {listing(book.candidates, 20)}")
        into, reason = _checked(at, value, book)
        book.candidates[value.key] = book.candidates[value.key].judged(value.status, reason, into)
        left = sum(each.status == "pending" for each in book.candidates.values())
        return ToolOutput(f"`{value.key}` is {value.status}; {left} left to mark.", {"success": True, "left": left})

    about = "Say what became of a candidate: promoted, merged, rejected or conflict."
    return Tool("context_candidate_mark", about, MarkCandidate, mark, reads=False).on(session)


def _checked(session: ToolSession, value: MarkCandidate, book: Book) -> tuple[str, str]:
    """Return (artifact, reason) of a verdict; `Refused` for one that what happened does not bear out."""
    if value.status in ("rejected", "conflict"):
        reason = tidy(value.reason or "", 500)
        if not reason:
            raise Refused(f"give the `reason` it is {value.status}")
        if value.status == "rejected" and reason == OVER_BUDGET and not budget_used(session.budget):
            raise Refused("there is budget left for pages: decide by what the candidate says")
        return "", reason
    artifact = (value.artifact or "").strip()
    if not _is_there(session, artifact):
        raise Refused(f"there is no artifact `{artifact}`: give `wiki:<key>` or `sl:<connection>/<source>`")
    own = {each.identity for each in session.actions if each.kind != "removed"}
    if value.status == "promoted" and artifact not in own and artifact not in book.written:
        raise Refused(f"nothing was written to `{artifact}` in this run: write it first, or mark it `merged`")
    return artifact, ""


def budget_used(budget: PageBudget | None) -> bool:
    """Say whether pages cannot be created any more, or not changed."""
    return budget is not None and min(budget.creates, budget.updates) <= 0


def _is_there(session: ToolSession, artifact: str) -> bool:
    kind, _, name = artifact.partition(":")
    if kind == "wiki":
        return could_be_key(name) and read_page(session.workspace, name) is not None
    connection, _, source = name.partition("/")
    known = kind == "sl" and connection in session.connections
    return known and source in session.model(connection).sources


def write_tool(
    session: ToolSession, book: Book, library: Library, source: str, accept: Callable[[Candidate], None] | None = None
) -> RuntimeTool:
    """Return `context_candidate_write` for an agent of a source; `accept` is told every candidate as it is written."""

    def write(at: ToolSession, value: WriteCandidate) -> ToolOutput:
        found = {key: (library.place_of(key), library.passage(key)) for key in dict.fromkeys(value.passages)}
        missing = [key for key, (_, passage) in found.items() if passage is None]
        if missing:
            raise Refused(f"there are no passages {listing(missing, 20)}: copy keys from context_evidence_search")
        evidence = (evidence_of(passage, place, library) for place, passage in found.values() if place and passage)
        candidate = Candidate(
            value.key,
            source,
            tidy(value.topic, LONGEST_TOPIC),
            tidy(value.assertion, LONGEST_ASSERTION),
            tidy(value.rationale, LONGEST_RATIONALE),
            tuple(evidence),
            slug(value.page or "", LONGEST_PAGE),
            value.hint,
            Scores(value.durability, value.authority, value.reuse, value.novelty, value.risk),
        )
        kind = "replaced" if value.key in book.candidates else "written"
        book.candidates[value.key] = first_verdict(candidate)
        if accept is not None:
            accept(book.candidates[value.key])
        return ToolOutput(f"The candidate `{value.key}` is {kind}.", {"success": True, "key": value.key})

    about = (
        "Write down a fact that may become part of the wiki, with the passages it stands in. It is decided on later."
    )
    return Tool("context_candidate_write", about, WriteCandidate, write, reads=False).on(session)
