"""Candidates: facts from documents that may become part of the wiki, with their passages and verdicts."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Protocol, Self

from pydantic import Field

from ktx_cli.agent_tools import DocumentId, Input, Library, PageBudget, Tool, ToolSession
from ktx_cli.core import KtxError, Record, ResultWarning, listing, one_line
from ktx_cli.documents import Passage, slug
from ktx_cli.llm import Embedder, RuntimeTool, ToolOutput
from ktx_cli.project import StateDatabase
from ktx_cli.protection import Refused
from ktx_cli.search import folded, plain_words, words
from ktx_cli.wiki import could_be_key, read_page

Hint = Literal["create", "update", "merge", "conflict", "skip"]
Status = Literal["pending", "promoted", "merged", "rejected", "conflict"]

HINTS: Final[tuple[Hint, ...]] = ("create", "update", "merge", "conflict", "skip")
NOT_DURABLE: Final = "not_durable"
OVER_BUDGET: Final = "exceeded_run_budget"
OVER_PASSES: Final = "exceeded_curator_passes"
PASS_ERROR: Final = "curator_pass_error"
NO_VERDICT: Final = "no_verdict"
RUN_ENDED: Final = "run_ended"
EVIDENCE_GONE: Final = "evidence_gone"

LONGEST_KEY, LONGEST_TOPIC, LONGEST_ASSERTION, LONGEST_RATIONALE, LONGEST_PAGE = 160, 200, 500, 1_000, 120
HIGHEST: Final = 3


@dataclass(frozen=True, slots=True)
class Scores:
    """Each from 0 to 3."""

    durability: int = 0
    authority: int = 0
    reuse: int = 0
    novelty: int = 0
    risk: int = 0

    @property
    def promotion(self) -> int:
        """How strongly the candidate's scores support adding it to the wiki: -3 to 12."""
        return self.durability + self.authority + self.reuse + self.novelty - self.risk

    def highest(self, other: Scores) -> Scores:
        """Return the higher value of each score."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return Scores(**{name: max(own, theirs) for (name, own), theirs in pairs})


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage that contains a candidate, with the `sha256` of its text."""

    key: str
    path: str
    title: str
    heading: str
    url: str | None
    sha256: str


@dataclass(frozen=True, slots=True)
class PageCandidate(Record):
    """A fact that may become part of the wiki."""

    key: str
    source: str
    """The connection that the candidate comes from."""
    topic: str
    assertion: str
    rationale: str
    evidence: tuple[Evidence, ...]
    page: str = ""
    """The key of a page that the candidate may belong on; empty if unknown."""
    hint: Hint = "create"
    scores: Scores = Scores()
    status: Status = "pending"
    reason: str = ""
    """Why the candidate was rejected, or what it contradicts."""
    into: str = ""
    """The artifact that the candidate went into (`wiki:refunds`), or the key of the candidate that represents it."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The raw files that contain the candidate."""
        return tuple(dict.fromkeys(each.path for each in self.evidence))

    @property
    def rank(self) -> tuple[int, str, tuple[str, ...], str]:
        """The sort key: the score, then names."""
        return -self.scores.promotion, self.source, self.paths, self.key

    def judged(self, status: Status, reason: str = "", into: str = "") -> PageCandidate:
        """Return the candidate with a verdict."""
        return replace(self, status=status, reason=reason, into=into)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return the candidate from the result of `to_json`."""
        evidence = tuple(Evidence(**each) for each in stored["evidence"])
        return cls(**{**stored, "evidence": evidence, "scores": Scores(**stored["scores"])})


def first_verdict(candidate: PageCandidate) -> PageCandidate:
    """Return a new candidate with the verdict that its hint implies; other candidates are unchanged."""
    if candidate.hint == "conflict":
        return candidate.judged("conflict", "the document contradicts itself or another rule")
    return candidate.judged("rejected", NOT_DURABLE) if candidate.hint == "skip" else candidate


def candidate_key(topic: str, path: str) -> str:
    """Return the key of a document's statement on a topic; it is the same in every run."""
    digest = hashlib.sha256(f"{path}\n{topic.casefold()}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug(topic, LONGEST_KEY - 10) or 'fact'}-{digest}"


def evidence_of(passage: Passage, place: DocumentId, library: Library) -> Evidence:
    """Return the part of a passage that a candidate stores."""
    document = library.document(place)
    title, url = ("", None) if document is None else (document.title, document.url)
    digest = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass")).hexdigest()
    return Evidence(passage.key, passage.path, title, passage.heading, url, digest)


def scores_of(values: Mapping[str, int]) -> Scores:
    """Return the scores, clamped to their ranges."""
    names = asdict(Scores())
    return Scores(**{name: min(max(int(values.get(name, 0)), 0), HIGHEST) for name in names})


def unique(candidates: Iterable[PageCandidate]) -> list[PageCandidate]:
    """Return the candidates by key; of several with the same key, the last one is kept."""
    return list({(each.source, each.key): each for each in candidates}.values())


class MarkCandidate(Input):
    """The verdict on a candidate. A later one replaces it."""

    key: str = Field(description="Key of a candidate in this task.")
    status: Literal["promoted", "merged", "rejected", "conflict"] = Field(description="The outcome for the candidate.")
    artifact: str | None = Field(
        None, max_length=300, description="Of `promoted` and `merged`: `wiki:<key>` or `sl:<connection>/<source>`."
    )
    reason: str | None = Field(None, max_length=500, description="For `rejected` and `conflict`: why, in a few words.")


@dataclass(slots=True)
class Book:
    """The candidates of one loop."""

    candidates: dict[str, PageCandidate] = field(default_factory=dict)
    """The candidates by key."""
    written: Collection[str] = ()
    """The artifacts that earlier loops of the run wrote."""

    @classmethod
    def of(cls, candidates: Iterable[PageCandidate], written: Collection[str] = ()) -> Book:
        """Return the book for a batch."""
        return cls({each.key: each for each in candidates}, written)

    def to_json(self) -> list[dict[str, Any]]:
        """Return the candidates as plain values."""
        return [each.to_json() for each in self.candidates.values()]

    def restore(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Restore what `to_json` returned."""
        self.candidates = {each["key"]: PageCandidate.from_json(each) for each in stored}


def mark_tool(session: ToolSession, book: Book) -> RuntimeTool:
    """Return the `context_candidate_mark` tool for the candidates of a book."""

    def mark(at: ToolSession, value: MarkCandidate) -> ToolOutput:
        if value.key not in book.candidates:
            raise Refused(
                f"`{value.key}` is not a candidate in this task; the candidates are: {listing(book.candidates, 20)}"
            )
        into, reason = _checked(at, value, book)
        book.candidates[value.key] = book.candidates[value.key].judged(value.status, reason, into)
        left = sum(each.status == "pending" for each in book.candidates.values())
        return ToolOutput(f"`{value.key}` is {value.status}; {left} left to mark.", {"success": True, "left": left})

    about = "Record the outcome for a candidate: promoted, merged, rejected or conflict."
    return Tool("context_candidate_mark", about, MarkCandidate, mark, reads=False).on(session)


def _checked(session: ToolSession, value: MarkCandidate, book: Book) -> tuple[str, str]:
    """Return the (artifact, reason) of a verdict; raises `Refused` if the verdict contradicts what happened."""
    if value.status in ("rejected", "conflict"):
        reason = one_line(value.reason or "", 500)
        if not reason:
            raise Refused(f"give the `reason` why it is {value.status}")
        if value.status == "rejected" and reason == OVER_BUDGET and not budget_used(session.budget):
            raise Refused("the budget for pages is not used up: decide by the candidate's content")
        return "", reason
    artifact = (value.artifact or "").strip()
    if not _is_there(session, artifact):
        raise Refused(f"there is no artifact `{artifact}`: give `wiki:<key>` or `sl:<connection>/<source>`")
    own = {each.identity for each in session.actions if each.kind != "removed"}
    if value.status == "promoted" and artifact not in own and artifact not in book.written:
        raise Refused(f"nothing was written to `{artifact}` in this run: write it first, or mark it `merged`")
    return artifact, ""


def budget_used(budget: PageBudget | None) -> bool:
    """Return whether pages can no longer be created, and whether they can no longer be changed."""
    return budget is not None and min(budget.creates, budget.updates) <= 0


def _is_there(session: ToolSession, artifact: str) -> bool:
    kind, _, name = artifact.partition(":")
    if kind == "wiki":
        return could_be_key(name) and read_page(session.workspace, name) is not None
    connection, _, source = name.partition("/")
    return (kind == "sl" and connection in session.connections) and source in session.model(connection).sources


TABLES: Final = """
CREATE TABLE IF NOT EXISTS waiting_candidates (
    connection TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, candidate TEXT NOT NULL,
    PRIMARY KEY (connection, kind, key)
) STRICT;
"""

WAITING: Final = frozenset((OVER_BUDGET, OVER_PASSES))
"""Reasons that have nothing to do with the candidate itself."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The candidates of earlier runs, as seen by this run."""

    candidates: tuple[PageCandidate, ...] = ()
    """Candidates that are continued, with evidence in the current passages."""
    gone: tuple[PageCandidate, ...] = ()
    """Candidates without a passage to cite."""


def waiting(database: StateDatabase, connection: str, kind: str) -> list[PageCandidate]:
    """Return what earlier runs stored for a source, by key."""
    rows = database.execute(
        "SELECT candidate FROM waiting_candidates WHERE connection = ? AND kind = ? ORDER BY key", (connection, kind)
    )
    return [PageCandidate.from_json(json.loads(text)) for (text,) in rows.fetchall()]


def keep_waiting(database: StateDatabase, connection: str, kind: str, candidates: Iterable[PageCandidate]) -> None:
    """Store the waiting candidates of a curated run in place of the earlier ones, after the run is committed.

    The caller has a transaction.
    """
    database.execute("DELETE FROM waiting_candidates WHERE connection = ? AND kind = ?", (connection, kind))
    database.executemany(
        "INSERT OR REPLACE INTO waiting_candidates VALUES (?, ?, ?, ?)",
        [
            (connection, kind, each.key, json.dumps(each.to_json(), sort_keys=True))
            for each in candidates
            if each.status == "rejected" and each.reason in WAITING
        ],
    )


def carry(earlier: Iterable[PageCandidate], present: Collection[str], library: Library) -> Carried:
    """Return the continued candidates of earlier runs; `present`: keys of this run's candidates, which replace them.

    Passages are looked up by their citation keys. A candidate none of whose passages still exists is not continued:
    nothing supports it now.
    """
    candidates: list[PageCandidate] = []
    gone: list[PageCandidate] = []
    for each in earlier:
        if each.key in present:
            continue
        bound = tuple(found for old in each.evidence if (found := _bound(old, library)) is not None)
        if bound:
            candidates.append(replace(each.judged("pending"), evidence=bound))
        else:
            gone.append(each.judged("rejected", EVIDENCE_GONE))
    return Carried(tuple(candidates), tuple(gone))


def _bound(old: Evidence, library: Library) -> Evidence | None:
    place, passage = library.place_of(old.key), library.passage(old.key)
    return None if place is None or passage is None else evidence_of(passage, place, library)


ALIKE: Final = 0.86
"""Minimum cosine similarity at which two candidates are the same."""

OVERLAP: Final = 0.8
"""Minimum share of common words at which two candidates are the same, if there are no vectors."""

_NEGATION: Final = re.compile(r"\b(?:not?|never|none|nor|cannot|without|except\w*|exclud\w*|unless|only)\b|n['’]t\b")


class _Groups(Protocol):
    """Finds the first representative that is the same as a candidate."""

    def near(self, number: int) -> Iterable[int]:
        """Return the indexes of representatives that resemble a candidate, in order."""
        ...

    def add(self, number: int) -> None:
        """Add a candidate as a representative."""
        ...


@dataclass(slots=True)
class Deduplicated:
    """Candidates without duplicates."""

    left: list[PageCandidate] = field(default_factory=list)
    """Candidates that represent themselves or others, in order."""
    merged: list[PageCandidate] = field(default_factory=list)
    """The remaining candidates, with their verdicts."""
    warnings: tuple[ResultWarning, ...] = ()
    """Why vectors could not be used."""


def deduplicate(candidates: Iterable[PageCandidate], embedder: Callable[[], Embedder | None]) -> Deduplicated:
    """Return pending candidates without duplicates, best first.

    Each joins the first representative that it resembles, or else becomes one. Two that differ in a number or in a
    `not` are never the same, however similar: one of them may be wrong. A representative has the highest scores and all
    evidence.
    """
    ordered = sorted(candidates, key=lambda each: each.rank)
    groups, warnings = _groups(ordered, embedder)
    standing: dict[int, PageCandidate] = {}
    merged: list[PageCandidate] = []
    facts = [_facts(each) for each in ordered]
    for number, each in enumerate(ordered):
        home = next((place for place in groups.near(number) if facts[place] == facts[number]), None)
        if home is None:
            standing[number] = each
            groups.add(number)
        else:
            standing[home] = _joined(standing[home], each)
            merged.append(each.judged("merged", into=standing[home].key))
    return Deduplicated(sorted(standing.values(), key=lambda each: each.rank), merged, warnings)


def _joined(representative: PageCandidate, other: PageCandidate) -> PageCandidate:
    evidence = tuple(dict.fromkeys((*representative.evidence, *other.evidence)))
    return replace(representative, evidence=evidence, scores=representative.scores.highest(other.scores))


def _facts(candidate: PageCandidate) -> tuple[Counter[str], Counter[str]]:
    """Return what must not differ between two equal candidates: numbers and negations."""
    text = folded(candidate.assertion)
    return Counter(re.findall(r"\d+(?:[.,]\d+)*", text)), Counter(_NEGATION.findall(text))


def _groups(
    ordered: Sequence[PageCandidate], embedder: Callable[[], Embedder | None]
) -> tuple[_Groups, tuple[ResultWarning, ...]]:
    try:
        maker = embedder() if len(ordered) > 1 else None
        if maker is not None:
            return _ByMeaning(list(_embedded(maker, ordered))), ()
    except KtxError as error:
        what = f"candidates were compared only by their words: {error.message}"
        return _ByWords(ordered), (ResultWarning("no_vectors", what, hint=error.hint),)
    return _ByWords(ordered), ()


def _embedded(embedder: Embedder, ordered: Sequence[PageCandidate]) -> Iterator[list[float]]:
    texts = [f"{each.topic} - {each.assertion}" for each in ordered]
    for start in range(0, len(texts), embedder.batch_size):
        for vector in embedder.embed(texts[start : start + embedder.batch_size]):
            length = math.sqrt(sum(number * number for number in vector)) or 1.0
            yield [number / length for number in vector]


class _ByMeaning:
    """Compares vectors of length 1, using numpy if it is installed. Both round, so that they agree."""

    def __init__(self, vectors: Sequence[Sequence[float]]) -> None:
        self._vectors = vectors
        self._kept: list[int] = []
        self._numpy = _numpy()
        self._rows = None if self._numpy is None else self._numpy.empty((len(vectors), len(vectors[0])))

    def near(self, number: int) -> list[int]:
        similar = zip(self._kept, self._similar(self._vectors[number]), strict=True)
        return [place for place, cosine in similar if round(cosine, 6) >= ALIKE]

    def _similar(self, own: Sequence[float]) -> list[float]:
        if self._rows is not None:
            found: list[float] = (self._rows[: len(self._kept)] @ self._numpy.asarray(own)).tolist()
            return found
        return [sum(map(operator.mul, own, self._vectors[place])) for place in self._kept]

    def add(self, number: int) -> None:
        if self._rows is not None:
            self._rows[len(self._kept)] = self._vectors[number]
        self._kept.append(number)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:  # an option: `ktx-cli[embeddings]` brings it
        return None
    return numpy


class _ByWords:
    """Compares sets of stems. Two that have enough in common share one of their rarest words.

    The prefix filter of Bayardo, Ma and Srikant (2007, Scaling up all pairs similarity search).
    """

    def __init__(self, ordered: Sequence[PageCandidate]) -> None:
        self._words = [frozenset(_words_of(each)) for each in ordered]
        self._count = Counter(word for each in self._words for word in each)
        self._having: dict[str, list[int]] = defaultdict(list)

    def near(self, number: int) -> list[int]:
        own = self._words[number]
        places = {place for word in self._rarest(number) for place in self._having.get(word, ())}
        return sorted(place for place in places if _overlap(own, self._words[place]) >= OVERLAP)

    def add(self, number: int) -> None:
        for word in self._rarest(number):
            self._having[word].append(number)

    def _rarest(self, number: int) -> list[str]:
        own = sorted(self._words[number], key=lambda word: (self._count[word], word))
        return own[: len(own) - math.ceil(OVERLAP * len(own)) + 1]


def _words_of(candidate: PageCandidate) -> list[str]:
    text = f"{candidate.topic} {candidate.assertion}"
    return words(text) or plain_words(text) or [folded(text)]


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
