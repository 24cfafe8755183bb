"""Ranks documents by the words of a query: BM25 over weighted fields, with prefixes and small typing errors.

FTS5 finds the candidates, this module puts them in order. The formula is BM25F (Robertson, Zaragoza, Taylor 2004,
Simple BM25 extension to multiple weighted fields): the counts of a word in the fields are added with their weights
before they are damped once. Several indexes are ranked as one: the counts of documents are of all of them.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from ktx_cli.core import did_you_mean, one_line
from ktx_cli.search.corpus import WORTH, Document, Found, Hit, Scope
from ktx_cli.search.index import TIERS, Row, Store, tier_of, unpacked
from ktx_cli.search.tokens import asked_words, stem, words

_K1: Final = 1.5
_B: Final = 0.6
_PREFIX: Final = 0.7
"""What a word counts of which only the beginning was asked."""
_CORRECTED: Final = 0.6
"""What a word counts that was probably meant."""
_NAMED: Final = 1.5
"""What a document counts whose name the query is."""
_SHORTEST_PREFIX: Final = 3
_SHORTEST_CORRECTED: Final = 4
_NEAREST: Final = 0.75
"""How alike a word must be to one that was probably meant, as `difflib` measures it, 0 to 1."""
_FREQUENT: Final = 1000
"""How many documents may have a word that finds them beside rarer ones, and a tenth of all."""
_CANDIDATES: Final = 100
"""How many documents are put in order at least."""

Place = tuple[int, int]
"""Which index, and the number of a document in it."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document that fits, and the stems of the query it has."""

    place: Place
    row: Row
    score: float
    terms: frozenset[str]


@dataclass(slots=True)
class Ranking:
    """Documents in order, the best first. `total`: how many have a word; `corrected`: as in `Found`."""

    documents: list[Ranked] = field(default_factory=list)
    total: int = 0
    corrected: dict[str, str] = field(default_factory=dict)


class Index:
    """Documents to be searched, in memory, whoever they are for; their words are counted once."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._store = Store.of({"": (replace(each, owner="") for each in documents)})

    def search(self, query: str, limit: int = 20) -> Found:
        """Return the documents that have words of the query, those with more of them first."""
        return found([self._store], rank([self._store], query, Scope(), limit), limit)


def found(stores: Sequence[Store], ranking: Ranking, limit: int) -> Found:
    """Return the best of a ranking with what is shown of them."""
    return Found(hits(stores, ranking.documents[:limit]), ranking.total, ranking.corrected)


def hits(stores: Sequence[Store], ranked: Iterable[Ranked], meant: Collection[Place] = ()) -> tuple[Hit, ...]:
    """Return ranked documents with what is shown of them. `meant`: those whose vector is alike."""
    listed = list(ranked)
    stored: dict[Place, tuple[str, bytes]] = {}
    for number, store in enumerate(stores):
        own = [each.row.number for each in listed if each.place[0] == number]
        stored.update(((number, found), shown) for found, shown in store.shown(own).items())
    return tuple(
        hit(each.row, stored[each.place], each.score, each.terms, meant=each.place in meant) for each in listed
    )


def rank(stores: Sequence[Store], query: str, scope: Scope, limit: int) -> Ranking:
    """Return the best documents of several indexes, `limit` of them or somewhat more."""
    asked, corrected = _asked(stores, query)
    terms = dict.fromkeys(term for each in asked for term in each)
    finding = _rarer(stores, list(terms))
    ranking = _ranked(stores, finding, asked, query, scope, limit)
    if len(ranking.documents) < limit and len(finding) < len(terms):
        ranking = _ranked(stores, list(terms), asked, query, scope, limit)
    ranking.corrected = corrected if ranking.documents else {}
    return ranking


def _rarer(stores: Sequence[Store], terms: list[str]) -> list[str]:
    """Return the terms that find documents: one that very many have counts beside others, and would find them all."""
    most = max(_FREQUENT, sum(store.count for store in stores) // 10)
    return [term for term in terms if _having(stores, term) <= most] or terms


def _ranked(
    stores: Sequence[Store], terms: list[str], asked: list[dict[str, float]], query: str, scope: Scope, limit: int
) -> Ranking:
    hidden = own_pages(stores, scope)
    wanted = max(_CANDIDATES, 2 * limit) + len(hidden)
    scorer = _Scorer(stores, asked, tuple(words(query)))
    fitting = [
        scored
        for number, store in enumerate(stores)
        for row in store.rows(store.best(terms, scope, wanted))
        if not is_shadowed(row, hidden) and (scored := scorer.score(number, row)).score > 0
    ]
    fitting.sort(key=lambda each: (-round(each.score, 6), *each.row.tie))
    return Ranking(fitting, sum(store.total(terms, scope) for store in stores))


def own_pages(stores: Iterable[Store], scope: Scope) -> set[str]:
    """Return the names of the pages of the user who searches."""
    return {name for store in stores for name in store.owned(scope.user)} if scope.user else set()


def is_shadowed(row: Row, own: set[str]) -> bool:
    """Say whether a page of everybody's has one of a user in its place."""
    return row.kind == "page" and not row.owner and row.name in own


def _asked(stores: Sequence[Store], query: str) -> tuple[list[dict[str, float]], dict[str, str]]:
    """Return for each word of a query the stems it stands for with what each counts, and what was corrected."""
    plain = asked_words(query)
    corrected: dict[str, str] = {}
    asked = []
    for place, word in enumerate(plain):
        last = place == len(plain) - 1
        shortest = _SHORTEST_PREFIX if word.isascii() else 1
        asked.append(_terms(stores, word, corrected, begun=last and len(word) >= shortest))
    return asked, corrected


def _terms(stores: Sequence[Store], word: str, corrected: dict[str, str], *, begun: bool) -> dict[str, float]:
    exact = stem(word)
    terms = dict.fromkeys((term for store in stores for term in store.begun(word)), _PREFIX) if begun else {}
    if _having(stores, exact):
        terms[exact] = 1.0
    if not terms and len(word) >= _SHORTEST_CORRECTED:
        spelled = {near: to for store in stores for near, to in store.alike(word).items()}
        meant = did_you_mean(word, sorted(spelled))
        if meant is not None and difflib.SequenceMatcher(None, word, meant).ratio() >= _NEAREST:
            corrected[word] = meant
            terms = {spelled[meant]: _CORRECTED}
    return terms


def _having(stores: Iterable[Store], term: str) -> int:
    return sum(store.having(term) for store in stores)


class _Scorer:
    """Scores documents for the words of one query; each stands for one or more stems."""

    def __init__(self, stores: Sequence[Store], asked: list[dict[str, float]], name: tuple[str, ...]) -> None:
        count = max(sum(store.count for store in stores), 1)
        self._mean = sum(store.length for store in stores) / count or 1.0
        self._words = len(asked)
        self._name = name
        self._uses: dict[str, list[tuple[int, float]]] = {}
        for place, terms in enumerate(asked):
            for term, share in terms.items():
                having = min(_having(stores, term), count)
                idf = math.log(1 + (count - having + 0.5) / (having + 0.5))
                self._uses.setdefault(term, []).append((place, share * idf * (_K1 + 1)))
        self._spaced = [(term, f" {term} ") for term in self._uses]

    def score(self, store: int, row: Row) -> Ranked:
        """Return a document with its score, 0 where it has no word."""
        counts = self._counts(row)
        norm = _K1 * (1 - _B + _B * row.length / self._mean)
        parts = [0.0] * self._words
        for term, count in counts.items():
            damped = count / (count + norm)
            for place, worth in self._uses[term]:
                parts[place] = max(parts[place], worth * damped)
        score = sum(parts) * WORTH.get(row.kind, 1.0)
        if self._is_named(row):
            score *= _NAMED
        return Ranked((store, row.number), row, score, frozenset(counts))

    def _is_named(self, row: Row) -> bool:
        """Say whether the query is the name of a document, or the last part of it."""
        if not self._name or f" {self._name[-1]} " not in row.name_text:
            return False
        return self._name in (tuple(words(row.name)), tuple(words(row.name.rpartition(".")[2])))

    def _counts(self, row: Row) -> Mapping[str, float]:
        """Return what each stem counts in a document by the weights of its fields."""
        counts: dict[str, float] = {}
        for weight, text in zip(TIERS.values(), row.texts, strict=True):
            if len(text) > 2:
                for term, spaced in self._spaced:
                    if spaced in text:
                        counts[term] = counts.get(term, 0.0) + weight * text.count(spaced)
        return counts


K: Final = 60
"""Damps the first ranks, the value of the paper."""

Item = TypeVar("Item")


def fuse(orders: Iterable[Sequence[Item]]) -> dict[Item, float]:
    """Return what each item counts by its ranks, the sum of 1 / (60 + rank), in no order.

    Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009, Reciprocal rank fusion outperforms Condorcet).
    """
    scores: dict[Item, float] = defaultdict(float)
    for order in orders:
        for rank, item in enumerate(order, start=1):
            scores[item] += 1 / (K + rank)
    return dict(scores)


MEANING: Final = "meaning"
"""Stands among `matched_on` where the vectors are alike."""
_SNIPPET: Final = 160
_FLAT: Final = 10_000
_PART: Final = re.compile(r"\S+")


def hit(row: Row, stored: tuple[str, bytes], score: float, terms: Collection[str], *, meant: bool = False) -> Hit:
    """Return a document as a hit.

    `stored`: its summary and packed fields; `terms`: the stems of the query it has; `meant`: its vector is alike.
    """
    summary, packed = stored
    fields = [(name, tier_of(weight), text) for name, weight, text in unpacked(packed)]
    having = _hits_having(row, fields, terms)
    excerpt = having[-1][1] if having else (fields[-1][2] if fields else "")
    names = tuple(dict.fromkeys([*(name for name, _ in having), *([MEANING] if meant else [])]))
    return Hit(row.kind, row.name, row.connection, score, summary, snippet(excerpt, terms), names)


def snippet(text: str, terms: Collection[str]) -> str:
    """Return the part of a text around the first of the terms, on one line."""
    text = text[:_FLAT]
    at = _place(text, frozenset(terms))
    begun = max(0, at - _SNIPPET)
    before = len(one_line(text[begun:at] + "x", _FLAT)) - 1
    flat = one_line(text[begun : at + 2 * _SNIPPET], _FLAT)
    start = 0 if begun == 0 and before < _SNIPPET // 2 else flat.find(" ", max(0, before - _SNIPPET // 2)) + 1
    part = flat[start : start + _SNIPPET]
    more = start + _SNIPPET < len(flat) or bool(text[at + 2 * _SNIPPET :].strip())
    return ("…" if begun + start else "") + part.rstrip() + ("…" if more else "")


def _hits_having(row: Row, fields: Sequence[tuple[str, str, str]], terms: Collection[str]) -> list[tuple[str, str]]:
    """Return (name, text) of the fields that have one of the terms; where one column has one field, it says so."""
    if not terms:
        return []
    columns = {tier for tier, text in zip(TIERS, row.texts, strict=True) if any(f" {term} " in text for term in terms)}
    shared = Counter(tier for _, tier, _ in fields)
    return [
        (name, text)
        for name, tier, text in fields
        if tier in columns and (shared[tier] == 1 or not set(terms).isdisjoint(words(text)))
    ]


def _place(text: str, terms: frozenset[str]) -> int:
    """Return where the first part with one of the terms begins, 0 where none does.

    In a text of plain letters only parts with the beginning of a term in them are looked into, which costs little.
    """
    if not terms:
        return 0
    parts: Iterable[re.Match[str]] = _PART.finditer(text)
    if text.isascii():
        lower = text.lower()
        found = _beginnings(terms).finditer(lower)
        starts = (max(lower.rfind(blank, 0, at.start()) for blank in " \n\t\r") for at in found)
        parts = filter(None, (_PART.match(text, start + 1) for start in starts))
    return next((part.start() for part in parts if not terms.isdisjoint(words(part[0]))), 0)


@functools.lru_cache(maxsize=256)
def _beginnings(terms: frozenset[str]) -> re.Pattern[str]:
    """Return what finds the beginnings of words whose stem may be one of some: a stem may have another last letter."""
    return re.compile("|".join(sorted({re.escape(term[: max(2, len(term) - 1)]) for term in terms})))
