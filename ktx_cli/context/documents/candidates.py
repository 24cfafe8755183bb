"""Candidates: facts of documents that may become part of the wiki, the passages they stand in, and their verdict."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal, Self

from ktx_cli.context.documents.chunks import Passage, slug
from ktx_cli.context.documents.library import Library, Place
from ktx_cli.core.text import one_line

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
        """How much speaks for the wiki: -3 to 12."""
        return self.durability + self.authority + self.reuse + self.novelty - self.risk

    def highest(self, other: Scores) -> Scores:
        """Return the higher one of each."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return Scores(**{name: max(own, theirs) for (name, own), theirs in pairs})


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage a candidate stands in, as it was: `sha256` of its text."""

    key: str
    path: str
    title: str
    heading: str
    url: str | None
    sha256: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact that may become part of the wiki. `source`: the connection it is of.

    `page`: key of a page it may belong on, empty: none known. `reason`: of a rejection or a conflict. `into`: the
    artifact it went into (`wiki:refunds`), or the key of the candidate that stands for it.
    """

    key: str
    source: str
    topic: str
    assertion: str
    rationale: str
    evidence: tuple[Evidence, ...]
    page: str = ""
    hint: Hint = "create"
    scores: Scores = Scores()
    status: Status = "pending"
    reason: str = ""
    into: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """The raw files it stands in."""
        return tuple(dict.fromkeys(each.path for each in self.evidence))

    @property
    def rank(self) -> tuple[int, str, tuple[str, ...], str]:
        """What decides which comes first: the score, then names."""
        return -self.scores.promotion, self.source, self.paths, self.key

    def judged(self, status: Status, reason: str = "", into: str = "") -> Candidate:
        """Return it with a verdict."""
        return replace(self, status=status, reason=reason, into=into)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "evidence": [asdict(each) for each in self.evidence]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Return what `to_json` gave."""
        evidence = tuple(Evidence(**each) for each in stored["evidence"])
        return cls(**{**stored, "evidence": evidence, "scores": Scores(**stored["scores"])})


def first_verdict(candidate: Candidate) -> Candidate:
    """Return a new candidate with the verdict its hint is, else as it is."""
    if candidate.hint == "conflict":
        return candidate.judged("conflict", "the document contradicts itself or another rule")
    return candidate.judged("rejected", NOT_DURABLE) if candidate.hint == "skip" else candidate


def candidate_key(topic: str, path: str) -> str:
    """Return the key of what a document says on a topic: the same in every run."""
    digest = hashlib.sha256(f"{path}\n{topic.casefold()}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug(topic, LONGEST_KEY - 10) or 'fact'}-{digest}"


def evidence_of(passage: Passage, place: Place, library: Library) -> Evidence:
    """Return what a candidate keeps of a passage."""
    document = library.document(place)
    title, url = ("", None) if document is None else (document.title, document.url)
    digest = hashlib.sha256(passage.text.encode("utf-8", "surrogatepass")).hexdigest()
    return Evidence(passage.key, passage.path, title, passage.heading, url, digest)


def tidy(text: str, limit: int) -> str:
    """Return a text of a model as it is kept: on one line."""
    return one_line(text, limit)


def scores_of(values: Mapping[str, int]) -> Scores:
    """Return scores, each brought into its range."""
    names = asdict(Scores())
    return Scores(**{name: min(max(int(values.get(name, 0)), 0), HIGHEST) for name in names})


def unique(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates by key; the last of a key replaces the others."""
    return list({(each.source, each.key): each for each in candidates}.values())
