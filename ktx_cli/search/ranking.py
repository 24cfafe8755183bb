"""Rank documents by the words of a query: BM25 over weighted fields, with prefixes and spelling corrections.

FTS5 finds the candidates, and this module ranks them. The formula is BM25F (Robertson, Zaragoza, Taylor 2004, Simple
BM25 extension to multiple weighted fields), which adds the weighted counts of a word in all fields before damping them
once. Several indexes are ranked as one, with joint document counts.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeVar

from ktx_cli.core import Command, ResultWarning, count_edits, did_you_mean, one_line
from ktx_cli.search.corpus import GOVERNED, KINDS, VALUE, WORTH, Document, Found, Hit, Scope
from ktx_cli.search.explanations import explaining
from ktx_cli.search.forms import forms, worth_of_kinds
from ktx_cli.search.index import Store
from ktx_cli.search.stems import asked_words, folded, is_generic, is_stop_word, plain_words, stem, words
from ktx_cli.search.store import TIERS, IndexStore, Row, form_mark, tier_of, unpacked

if TYPE_CHECKING:
    from ktx_cli.search.vectors import Vectors

_K1: Final = 1.5
_B: Final = 0.6
_PREFIX: Final = 0.7
"""Weight of a word that matches only by prefix."""
_CORRECTED: Final = 0.6
"""Weight of a corrected word."""
_NAMED: Final = 1.5
"""Bonus for a document whose name is the query."""
_RELATED: Final = 0.7
"""Weight of a synonym of a query word."""
_SENTENCE: Final = 5
"""Minimum number of words in a natural-language question. Shorter queries consist of keywords."""
_GENERIC: Final = 0.5
"""Weight of a common word in a natural-language question."""
_PHRASE: Final = 0.7
"""Weight of a word in the best matching question or synonym, relative to a word in a text."""
_WHOLE: Final = 0.35
"""Exponent for the matched share of a phrase.

The share is weighted by word, so that missing only a common word of a question costs little.
"""
_FORM: Final = 1.0
"""Weight if the best matching question has the form of the query, relative to a word as rare as that form."""
_ASKED: Final = 0.3
"""Exponent for the share of the query that a phrase covers."""
_SHORTEST_PREFIX: Final = 3
_SHORTEST_CORRECTED: Final = 4
_SHORTEST_PART: Final = 4
"""Minimum length of the parts of a compound word."""
_TWO_SLIPS: Final = 9
"""Minimum length of a word for corrections with two edits instead of one."""
_FREQUENT: Final = 1000
"""A word that finds documents besides rarer words occurs in at most this many documents, or a tenth of all if more."""
_CANDIDATES: Final = 100
"""Minimum number of documents to rank."""
_EXPLAINED: Final = ("source", "measure", "segment")
"""The kinds whose hits list the pages about them."""
_BELOW: Final = 0.99
"""Weight of a value relative to the last governed document."""

Place = tuple[int, int]
"""An index and the number of a document in the index."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A matching document with the stems of the query that it matches."""

    place: Place
    row: Row
    score: float
    terms: frozenset[str]


@dataclass(slots=True)
class Ranking:
    """Ranked documents, best first. `total` counts all matches. See `Found` for `corrected` and `suggested`."""

    documents: list[Ranked] = field(default_factory=list)
    total: int = 0
    corrected: dict[str, str] = field(default_factory=dict)
    suggested: dict[str, str] = field(default_factory=dict)


class Index:
    """An in-memory index of documents, regardless of their owners."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._store = Store.of({"": (replace(each, owner="") for each in documents)})

    def search(self, query: str, limit: int = 20) -> Found:
        """Return the documents that contain words of the query, best first."""
        return found([self._store], rank([self._store], query, Scope(), limit), limit)


def found(stores: Sequence[IndexStore], ranking: Ranking, limit: int, user: str | None = None) -> Found:
    """Return the best documents in a ranking as hits for everybody or for `user`."""
    shown = hits(stores, ranking.documents[:limit], user=user)
    return Found(shown, ranking.total, ranking.corrected, ranking.suggested)


def hits(
    stores: Sequence[IndexStore], ranked: Iterable[Ranked], meant: Collection[Place] = (), *, user: str | None = None
) -> tuple[Hit, ...]:
    """Return ranked documents as hits. `meant` are those with similar vectors."""
    listed = list(ranked)
    stored: dict[Place, tuple[str, bytes]] = {}
    for number, store in enumerate(stores):
        own = [each.row.number for each in listed if each.place[0] == number]
        stored.update(((number, found), shown) for found, shown in store.shown(own).items())
    made = [hit(each.row, stored[each.place], each.score, each.terms, meant=each.place in meant) for each in listed]
    pages = explaining(stores, {(each.connection, each.id) for each in made if each.kind in _EXPLAINED}, user)
    return tuple(
        replace(each, pages=pages.get((each.connection, each.id), ())) if each.kind in _EXPLAINED else each
        for each in made
    )


def grouped_values(hits: Iterable[Hit]) -> list[tuple[Hit, tuple[str, ...]]]:
    """Return hits in order, with only the best value of each column and all matching values of the column as SQL.

    Hits of other kinds have no values.
    """
    values: dict[tuple[str, str], list[str]] = {}
    first: list[tuple[Hit, tuple[str, str]]] = []
    for each in hits:
        column, _, literal = each.id.partition(" = ") if each.kind == VALUE else (each.id, "", "")
        key = (each.connection, column) if each.kind == VALUE else ("", "")
        if each.kind != VALUE or key not in values:
            first.append((each, key))
        if each.kind == VALUE:
            values.setdefault(key, []).append(literal)
    return [(each, tuple(values[key]) if each.kind == VALUE else ()) for each, key in first]


def rank(
    stores: Sequence[IndexStore], query: str, scope: Scope, limit: int, projects: Sequence[Sequence[IndexStore]] = ()
) -> Ranking:
    """Return the best documents from several indexes, `limit` of them or slightly more.

    `projects` groups the indexes by project, because a user's page only shadows pages of the same project.
    """
    asked, spelling = asked_terms(stores, query)
    terms = dict.fromkeys(term for each in asked for term in each.terms)
    finding = _rarer(stores, list(terms))
    hidden = [own for each in projects or [stores] for own in [own_pages(each, scope)] * len(each)]
    ranking = _ranked(stores, finding, asked, query, scope, limit, hidden)
    if len(ranking.documents) < limit and len(finding) < len(terms):
        ranking = _ranked(stores, list(terms), asked, query, scope, limit, hidden)
    ranking.corrected = spelling.corrected if ranking.documents else {}
    ranking.suggested = spelling.suggested
    return ranking


def _rarer(stores: Sequence[IndexStore], terms: list[str]) -> list[str]:
    """Return the terms by which to find documents. Very frequent terms only add to the score of other matches."""
    most = max(_FREQUENT, sum(store.count for store in stores) // 10)
    return [term for term in terms if _having(stores, term) <= most] or terms


def _ranked(
    stores: Sequence[IndexStore],
    terms: list[str],
    asked: list[AskedWord],
    query: str,
    scope: Scope,
    limit: int,
    hidden: Sequence[set[str]],
) -> Ranking:
    """Return the documents in order. `hidden` are the shared pages in each index that the user's own pages replace."""
    wanted = max(_CANDIDATES, 2 * limit)
    scorer = Scorer(stores, asked, query)
    fitting = [
        scored
        for number, store in enumerate(stores)
        for part in _apart(scope)
        for row in store.rows(store.best(terms, part, wanted + len(hidden[number])))
        if not is_shadowed(row, hidden[number]) and (scored := scorer.score(number, row)).score > 0
    ]
    return Ranking(_in_order(fitting), sum(store.total(terms, scope) for store in stores))


def _apart(scope: Scope) -> list[Scope]:
    """Return the scopes to search separately, so that matching values do not crowd out other kinds."""
    kinds = set(scope.kinds or KINDS)
    if VALUE not in kinds or len(kinds) == 1:
        return [scope]
    return [replace(scope, kinds=tuple(kinds - {VALUE})), replace(scope, kinds=(VALUE,))]


def _in_order(ranked: Iterable[Ranked]) -> list[Ranked]:
    """Return documents best first, with values after all governed documents."""
    listed = list(ranked)
    governed = [each.score for each in listed if each.row.kind in GOVERNED]
    lowest = min(governed, default=math.inf)
    capped = [
        replace(each, score=min(each.score, lowest * _BELOW))
        if each.row.kind == VALUE and not _is_spelled_out(each)
        else each
        for each in listed
    ]
    order = {id(each): -old.score for each, old in zip(capped, listed, strict=True)}
    return sorted(capped, key=lambda each: (-round(each.score, 6), round(order[id(each)], 6), *each.row.tie))


def _is_spelled_out(value: Ranked) -> bool:
    """Return whether a query contains all words of a value with several words."""
    stems = set(value.row.name_text.split())
    return len(stems) > 1 and stems <= value.terms


def own_pages(stores: Iterable[IndexStore], scope: Scope) -> set[str]:
    """Return the names of the searching user's pages."""
    return {name for store in stores for name in store.owned(scope.user)} if scope.user else set()


def is_shadowed(row: Row, own: set[str]) -> bool:
    """Return whether a page of the user replaces this shared page."""
    return row.kind == "page" and not row.owner and row.name in own


@dataclass(frozen=True, slots=True)
class AskedWord:
    """A word or phrase in a query: the weighted stems that it matches, and its own weight.

    `text` is the word from `plain_words`, or None for the meaning of a phrase.
    """

    terms: dict[str, float]
    weight: float = 1.0
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Spelling:
    """The corrections of unknown query words, which are searched or only suggested."""

    corrected: dict[str, str] = field(default_factory=dict)
    suggested: dict[str, str] = field(default_factory=dict)


def asked_terms(stores: Sequence[IndexStore], query: str) -> tuple[list[AskedWord], Spelling]:
    """Return the words in a query, and corrections for unknown words.

    An unknown word is corrected if no other word of the query is specific and it is not an ordinary word.
    """
    plain = asked_words(query)
    written = plain_words(query)
    in_words = len(written) >= _SENTENCE
    found: dict[str, dict[str, float]] = {}
    meant: dict[str, tuple[str, str]] = {}
    _prepare(stores, plain, written if in_words else ())
    for place, word in enumerate(plain):
        last = place == len(plain) - 1
        shortest = _SHORTEST_PREFIX if word.isascii() else 1
        related = alternatives(word) if in_words else ()
        found[word] = _terms(stores, word, related, begun=last and len(word) >= shortest)
        if not found[word] and not related and (near := _meant(stores, word)) is not None:
            meant[word] = near
    is_answered = any(found[word] and not is_generic(word) for word in plain)
    corrected = {word: near for word, (near, _) in meant.items() if not is_answered and not is_ordinary(word)}
    suggested = {word: near for word, (near, _) in meant.items() if word not in corrected}
    found |= {word: {meant[word][1]: _CORRECTED} for word in corrected}
    asked = [AskedWord(found[word], _GENERIC if in_words and is_generic(word) else 1.0, word) for word in plain]
    for others in phrases(written) if in_words else ():
        if terms := {term: _RELATED for term in others if _having(stores, term)}:
            asked.append(AskedWord(terms))
    return asked, Spelling(corrected, suggested)


def _prepare(stores: Iterable[IndexStore], asked: Iterable[str], written: Sequence[str]) -> None:
    """Announce the stems that a query asks for. `written` are its words if it is a question."""
    terms = {stem(word) for word in asked} | {term for others in phrases(written) for term in others}
    terms.update(term for word in asked if written for term in alternatives(word))
    for store in stores:
        store.prepare(terms)


def _terms(stores: Sequence[IndexStore], word: str, related: Iterable[str], *, begun: bool) -> dict[str, float]:
    exact = stem(word)
    terms = dict.fromkeys((term for store in stores for term in store.begun(word)), _PREFIX) if begun else {}
    if _having(stores, exact):
        terms[exact] = 1.0
    for term in related:
        if _having(stores, term):
            terms.setdefault(term, _RELATED)
    if not terms and not related:
        terms = dict.fromkeys(_compound(stores, word), _PREFIX)
    return terms


def _meant(stores: Sequence[IndexStore], word: str) -> tuple[str, str] | None:
    """Return the known word nearest to an unknown word, and its stem, or None."""
    if len(word) < _SHORTEST_CORRECTED or is_stop_word(word):
        return None
    spelled = {near: to for store in stores for near, to in store.alike(word).items()}
    near = did_you_mean(word, sorted(each for each in spelled if _begins_alike(word, each)))
    if near is None or count_edits(word, near) > (1 if len(word) < _TWO_SLIPS else 2):
        return None
    if len(word) == _SHORTEST_CORRECTED and sorted(word) != sorted(near):
        return None  # short words have many neighbors; only swapped letters count as a typo
    return near, spelled[near]


@functools.cache
def _ordinary_words() -> tuple[frozenset[str], frozenset[str]]:
    """Return the stems of English words, and German words without stemming, because a stem could be a typo."""
    folder = files("ktx_cli.search")
    english, _, german = folder.joinpath("ordinary_words.txt").read_text("utf-8").partition("\n# German\n")
    lines = (line for line in english.splitlines() if not line.startswith("#"))
    business = plain_words(folder.joinpath("thesaurus.txt").read_text("utf-8"))
    return frozenset(stem(word) for line in lines for word in line.split()), frozenset((*german.split(), *business))


def is_ordinary(word: str) -> bool:
    """Return whether a word from `plain_words` is an everyday English or German word or a business term.

    `ordinary_words.txt` lists everyday words, and `thesaurus.txt` business terms.
    """
    stems, written = _ordinary_words()
    return is_generic(word) or stem(word) in stems or word in written


def _compound(stores: Sequence[IndexStore], word: str) -> tuple[str, ...]:
    """Return the stems of the two parts of a compound word, as in German: `Umsatzziel`, `Lieferungsdatum`."""
    for place in range(_SHORTEST_PART, len(word) - _SHORTEST_PART + 1):
        last = stem(word[place:])
        if _having(stores, last):
            for first in dict.fromkeys((word[:place], word[:place].removesuffix("s"))):
                if len(first) >= _SHORTEST_PART and _having(stores, stem(first)):
                    return stem(first), last
    return ()


def _begins_alike(word: str, other: str) -> bool:
    """Return whether two words start with the same letter or the same two swapped letters, where typos are rare."""
    return word[0] == other[0] or word[:2] == other[1::-1]


def _having(stores: Iterable[IndexStore], term: str) -> int:
    return sum(store.having(term) for store in stores)


_TEXT_WEIGHTS: Final = tuple(0.0 if tier == "phrases" else weight for tier, weight in TIERS.items())
"""The weights of texts with counted words. Phrases are compared individually."""
_TEXTS: Final = frozenset({"page", "passage"})
"""The kinds that are texts, whose lengths are not compared with those of column names."""


def _mean_lengths(stores: Iterable[IndexStore]) -> dict[bool, float]:
    """Return the average document length of texts (True) and of others."""
    totals = {True: (0, 0.0), False: (0, 0.0)}
    for store in stores:
        for kind, (number, length) in store.lengths.items():
            before = totals[kind in _TEXTS]
            totals[kind in _TEXTS] = before[0] + number, before[1] + length
    return {is_text: length / max(number, 1) or 1.0 for is_text, (number, length) in totals.items()}


class Scorer:
    """Scores documents for the words in one query."""

    def __init__(self, stores: Sequence[IndexStore], asked: Sequence[AskedWord], query: str) -> None:
        """Prepare the scoring of jointly ranked indexes for the words and the original query."""
        self._stores = stores
        self._count = max(sum(store.count for store in stores), 1)
        self._means = _mean_lengths(stores)
        self._worths: dict[str, float] = {}
        self._words = len(asked)
        self._name = tuple(words(query))
        asking = folded(query)
        is_sentence = len(plain_words(query)) >= _SENTENCE
        self._kinds = worth_of_kinds(asking)
        self._forms = {
            mark: _FORM * self.worth_of(mark) for mark in map(form_mark, forms(asking) if is_sentence else ())
        }
        self._uses: dict[str, list[tuple[int, float]]] = {}
        most = [0.0] * self._words
        for place, word in enumerate(asked):
            for term, share in word.terms.items():
                worth = word.weight * share * self.worth_of(term)
                self._uses.setdefault(term, []).append((place, worth))
                most[place] = max(most[place], worth)
        self._whole = sum(most) or 1.0
        self._spaced = [(term, f" {term} ") for term in self._uses]
        self._related = {
            term for term in self._uses if all(word.terms.get(term, _RELATED) == _RELATED for word in asked)
        }

    def worth_of(self, term: str) -> float:
        """Return the weight of a term according to its rarity."""
        if term not in self._worths:
            having = min(_having(self._stores, term), self._count)
            self._worths[term] = math.log(1 + (self._count - having + 0.5) / (having + 0.5)) * (_K1 + 1)
        return self._worths[term]

    def _worth_together(self, terms: Iterable[str]) -> float:
        known = self._worths
        return sum([known[term] if term in known else self.worth_of(term) for term in terms])

    def score(self, store: int, row: Row) -> Ranked:
        """Return a document with its score, which is 0 without matching words."""
        counts = self._counts(row)
        if row.kind == VALUE:  # values do not match synonyms
            counts = {term: count for term, count in counts.items() if term not in self._related}
        norm = _K1 * (1 - _B + _B * row.length / self._means[row.kind in _TEXTS])
        parts = [0.0] * self._words
        for term, count in counts.items():
            damped = count / (count + norm)
            for place, worth in self._uses[term]:
                parts[place] = max(parts[place], worth * damped)
        terms, form = self._add_phrase(row, parts)
        score = (sum(parts) + form) * WORTH.get(row.kind, 1.0) * self._kinds.get(row.kind, 1.0) * row.worth
        if self._is_named(row):
            score *= _NAMED
        return Ranked((store, row.number), row, score, terms.union(counts))

    def _add_phrase(self, row: Row, parts: list[float]) -> tuple[frozenset[str], float]:
        """Add the score of the best matching question or synonym.

        Returns its stems and the bonus for the form of the query.
        """
        best, fits, found, form = 0.0, dict[int, float](), frozenset[str](), 0.0
        for phrase, mark in row.phrases_with(self._uses.keys()):
            known = [term for term in phrase if term in self._uses]
            own: dict[int, float] = {}
            for term in known:
                for place, worth in self._uses[term]:
                    if worth > own.get(place, 0.0):
                        own[place] = worth
            alike, most = self._forms.get(mark, 0.0), sum(own.values())
            asked = (most / self._whole) ** _ASKED
            if most * asked + alike <= best:  # not even a complete match would be better
                continue
            share = asked * (self._worth_together(known) / self._worth_together(phrase)) ** _WHOLE
            if share * most + alike > best:
                best, fits = share * most + alike, {place: _PHRASE * share * each for place, each in own.items()}
                found, form = frozenset(known), _PHRASE * alike
        for place, each in fits.items():
            parts[place] += each
        return found, form

    def _is_named(self, row: Row) -> bool:
        """Return whether the query is the name of a document, its last part, its label or a synonym."""
        if not self._name:
            return False
        if f" {self._name[-1]} " in row.name_text:
            return self._name in (tuple(words(row.name)), tuple(words(row.name.rpartition(".")[2])))
        return any(tuple(stems) == self._name for stems in row.other_names({self._name[-1]}))

    def _counts(self, row: Row) -> Mapping[str, float]:
        """Return the weighted counts of stems in a document."""
        counts: dict[str, float] = {}
        for weight, text in zip(_TEXT_WEIGHTS, row.texts, strict=True):
            if weight and len(text) > 2:
                for term, spaced in self._spaced:
                    if spaced in text:
                        counts[term] = counts.get(term, 0.0) + weight * text.count(spaced)
        return counts


K: Final = 60
"""Damps the first ranks. The value is from the paper."""

Item = TypeVar("Item")


def fuse(orders: Iterable[Sequence[Item]]) -> dict[Item, float]:
    """Return the score of each item, which is the sum of 1 / (60 + rank), unordered.

    Reciprocal rank fusion (Cormack, Clarke, Büttcher 2009, Reciprocal rank fusion outperforms Condorcet).
    """
    scores: dict[Item, float] = defaultdict(float)
    for order in orders:
        for rank, item in enumerate(order, start=1):
            scores[item] += 1 / (K + rank)
    return dict(scores)


MEANING: Final = "meaning"
"""The `matched_on` value for similar vectors."""
_SNIPPET: Final = 160
_FLAT: Final = 10_000
_PART: Final = re.compile(r"\S+")


def hit(row: Row, stored: tuple[str, bytes], score: float, terms: Collection[str], *, meant: bool = False) -> Hit:
    """Return a document as a hit.

    `stored` are its summary and packed fields, `terms` the matched stems, and `meant` is true for a similar vector.
    """
    summary, packed = stored
    fields = [(name, tier_of(weight), text) for name, weight, text in unpacked(packed)]
    having = _having_terms(row, fields, terms)
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


def _having_terms(row: Row, fields: Sequence[tuple[str, str, str]], terms: Collection[str]) -> list[tuple[str, str]]:
    """Return (name, text) for each field that contains one of the terms."""
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
    """Return the position of the first part that contains one of the terms, or 0.

    In ASCII text, only parts with the start of a term are checked, which is fast.
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
    """Return a pattern for the starts of words that may have one of the stems, whose last letter may differ."""
    return re.compile("|".join(sorted({re.escape(term[: max(2, len(term) - 1)]) for term in terms})))


_BY_VECTORS: Final = 50
"""Minimum number of documents to request from the vector search."""


def nearest(
    store: IndexStore,
    model: str,
    read_vectors: Callable[[], Vectors],
    ranking: Callable[[], Ranking],
    asked: Sequence[float],
    scope: Scope,
    limit: int,
) -> tuple[list[Ranked], list[ResultWarning]]:
    """Return the documents in an index that are nearest to a query's vector.

    If there are too many to compare all, only documents found by words are compared, with a warning.
    """
    wanted = max(_BY_VECTORS, 2 * limit)
    dimensions = store.dimensions(model)
    if not dimensions:
        return [], []
    if len(asked) != dimensions:
        what = f"searched by words only: the index vectors have {dimensions} dimensions, not {len(asked)}"
        return [], [ResultWarning("no_vectors", what, hint=Command("index"))]
    numbers = store.nearest(model, asked, scope, wanted)
    if numbers is not None:
        return _unshadowed(store, numbers, scope), []
    vectors = read_vectors()
    warnings = []
    among = vectors.within(scope)
    if vectors.too_many:
        among = vectors.places(each.row.number for each in ranking().documents if each.place[0] == 0)
        what = f"compared only the best {len(among)} word matches by meaning, because numpy is not installed"
        warnings.append(ResultWarning("vectors_bounded", what, hint=Command("install", "numpy", program="pip")))
    found = vectors.nearest(asked, among, wanted + len(store.removed))
    numbers = [number for number in found if number not in store.removed][:wanted]
    return _unshadowed(store, numbers, scope), warnings


def _unshadowed(store: IndexStore, numbers: Sequence[int], scope: Scope) -> list[Ranked]:
    """Return documents in the given order, without the shared pages that the user's own pages replace."""
    hidden = own_pages([store], scope)
    rows = {row.number: row for row in store.bare_rows(numbers) if not is_shadowed(row, hidden)}
    return [Ranked((0, number), rows[number], 0.0, frozenset()) for number in numbers if number in rows]


def fused(
    stores: Sequence[IndexStore], ranking: Ranking, meant: Sequence[Ranked], limit: int, user: str | None = None
) -> Found:
    """Merge the results of words and vectors."""
    by_place = {each.place: each for each in (*meant, *ranking.documents)}
    scores = fuse([[each.place for each in ranking.documents], [each.place for each in meant]])
    best = _in_order(replace(by_place[place], score=score) for place, score in scores.items())
    alike = {each.place for each in meant}
    shown = hits(stores, best[:limit], alike, user=user)
    more = alike - {each.place for each in ranking.documents}
    return Found(shown, ranking.total + len(more), ranking.corrected, ranking.suggested)


_LONGEST: Final = 3
"""Maximum number of words in a phrase."""


@functools.cache
def _groups() -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return the stems of the synonyms of each word or phrase.

    `thesaurus.txt` lists groups of business terms with similar meanings, one group per line, in English and German. A
    word or phrase (`called off`) of a query also matches the other words of its group with a lower weight.
    """
    found: dict[tuple[str, ...], dict[str, None]] = {}
    text = files("ktx_cli.search").joinpath("thesaurus.txt").read_text("utf-8")
    for line in text.splitlines():
        entries = [tuple(map(stem, plain_words(each))) for each in line.partition("#")[0].split(",")]
        singles = [entry[0] for entry in entries if len(entry) == 1]
        for entry in filter(None, entries):
            found.setdefault(entry, {}).update(dict.fromkeys(each for each in singles if each not in entry))
    return {entry: tuple(others) for entry, others in found.items()}


def alternatives(word: str) -> tuple[str, ...]:
    """Return the stems of the synonyms of a word."""
    return _groups().get((stem(word),), ())


def phrases(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the stems of the synonyms of every phrase in a query's words."""
    stems = [stem(word) for word in words]
    for start in range(len(stems)):
        for length in range(2, _LONGEST + 1):
            others = _groups().get(tuple(stems[start : start + length]), ())
            if others and start + length <= len(stems):
                yield others
