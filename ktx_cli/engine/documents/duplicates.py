"""Brings candidates together that say the same: the best of each group stands for the others."""

from __future__ import annotations

import math
import operator
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ktx_cli.core import KtxError, ResultWarning
from ktx_cli.engine.documents.candidates import Candidate
from ktx_cli.llm import Embedder
from ktx_cli.search import folded, plain_words, words

ALIKE: Final = 0.86
"""Cosine from which two candidates say the same."""

OVERLAP: Final = 0.8
"""Share of their words two candidates have in common that say the same, where there are no vectors."""

_NEGATION: Final = re.compile(r"\b(?:not?|never|none|nor|cannot|without|except\w*|exclud\w*|unless|only)\b|n['’]t\b")


class _Groups(Protocol):
    """Finds the first representative a candidate says the same as."""

    def near(self, number: int) -> Iterable[int]:
        """Return the places of representatives that are like a candidate, in order."""
        ...

    def add(self, number: int) -> None:
        """Take a candidate as a representative."""
        ...


@dataclass(slots=True)
class Deduplicated:
    """Candidates without duplicates."""

    left: list[Candidate] = field(default_factory=list)
    """Those that stand for themselves or for others, in their order."""
    merged: list[Candidate] = field(default_factory=list)
    """The others, with their verdict."""
    warnings: tuple[ResultWarning, ...] = ()
    """Why vectors could not be used."""


def deduplicate(candidates: Iterable[Candidate], embedder: Callable[[], Embedder | None]) -> Deduplicated:
    """Return pending candidates without duplicates, best first.

    Each joins the first representative it is like, else it becomes one. Two that differ in a number or in a `not` are
    never the same, however alike: one of them may be wrong. A representative has the highest scores and all evidence.
    """
    ordered = sorted(candidates, key=lambda each: each.rank)
    groups, warnings = _groups(ordered, embedder)
    standing: dict[int, Candidate] = {}
    merged: list[Candidate] = []
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


def _joined(representative: Candidate, other: Candidate) -> Candidate:
    evidence = tuple(dict.fromkeys((*representative.evidence, *other.evidence)))
    return replace(representative, evidence=evidence, scores=representative.scores.highest(other.scores))


def _facts(candidate: Candidate) -> tuple[Counter[str], Counter[str]]:
    """Return what must not differ between two candidates that say the same: numbers and negations."""
    text = folded(candidate.assertion)
    numbers = Counter(re.findall(r"\d+(?:[.,]\d+)*", text))
    return numbers, Counter(_NEGATION.findall(text))


def _groups(
    ordered: Sequence[Candidate], embedder: Callable[[], Embedder | None]
) -> tuple[_Groups, tuple[ResultWarning, ...]]:
    try:
        maker = embedder() if len(ordered) > 1 else None
        if maker is not None:
            return _ByMeaning(list(_embedded(maker, ordered))), ()
    except KtxError as error:
        what = f"candidates were compared by words alone: {error.message}"
        return _ByWords(ordered), (ResultWarning("no_vectors", what, hint=error.hint),)
    return _ByWords(ordered), ()


def _embedded(embedder: Embedder, ordered: Sequence[Candidate]) -> Iterator[list[float]]:
    texts = [f"{each.topic} - {each.assertion}" for each in ordered]
    for start in range(0, len(texts), embedder.batch_size):
        for vector in embedder.embed(texts[start : start + embedder.batch_size]):
            length = math.sqrt(sum(number * number for number in vector)) or 1.0
            yield [number / length for number in vector]


class _ByMeaning:
    """Compares vectors of length 1; numpy does where it is installed. Both round, so that they say the same."""

    def __init__(self, vectors: Sequence[Sequence[float]]) -> None:
        self._vectors = vectors
        self._standing: list[int] = []
        self._numpy = _numpy()
        self._rows = None if self._numpy is None else self._numpy.empty((len(vectors), len(vectors[0])))

    def near(self, number: int) -> list[int]:
        similar = zip(self._standing, self._similar(self._vectors[number]), strict=True)
        return [place for place, cosine in similar if round(cosine, 6) >= ALIKE]

    def _similar(self, own: Sequence[float]) -> list[float]:
        if self._rows is not None:
            found: list[float] = (self._rows[: len(self._standing)] @ self._numpy.asarray(own)).tolist()
            return found
        return [sum(map(operator.mul, own, self._vectors[place])) for place in self._standing]

    def add(self, number: int) -> None:
        if self._rows is not None:
            self._rows[len(self._standing)] = self._vectors[number]
        self._standing.append(number)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:  # an option: `ktx-cli[embeddings]` brings it
        return None
    return numpy


class _ByWords:
    """Compares the sets of stems. Two that have enough in common share one of their rarest words.

    The prefix filter of Bayardo, Ma and Srikant (2007, Scaling up all pairs similarity search).
    """

    def __init__(self, ordered: Sequence[Candidate]) -> None:
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


def _words_of(candidate: Candidate) -> list[str]:
    text = f"{candidate.topic} {candidate.assertion}"
    return words(text) or plain_words(text) or [folded(text)]


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other)
