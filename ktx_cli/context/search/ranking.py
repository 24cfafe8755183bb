"""Ranks documents by the words of a query: BM25 over weighted fields, with prefixes and small typing errors.

The formula is BM25F (Robertson, Zaragoza, Taylor 2004, Simple BM25 extension to multiple weighted fields): the counts
of a word in the fields are added with their weights before they are damped once.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from ktx_cli.context.search.model import Document, Field, Found, Hit
from ktx_cli.context.search.words import asked_words, plain_words, stem, words
from ktx_cli.core.text import did_you_mean, one_line

_K1: Final = 1.2
_B: Final = 0.5
_PREFIX: Final = 0.7
"""What a word counts of which only the beginning was asked."""
_CORRECTED: Final = 0.6
"""What a word counts that was probably meant."""
_NAMED: Final = 1.5
"""What a document counts whose name the query is."""
_SHORTEST_PREFIX: Final = 3
_SHORTEST_CORRECTED: Final = 4
_SNIPPET: Final = 160
_PART: Final = re.compile(r"\S+")


class Index:
    """Documents to be searched, in memory; their words are counted once."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self._documents = list(documents)
        self._postings: dict[str, dict[int, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
        self._lengths: list[float] = []
        self._spelled: dict[str, str] = {}
        for number, document in enumerate(self._documents):
            self._lengths.append(sum(self._add(number, place, each) for place, each in enumerate(document.fields)))
        self._mean = sum(self._lengths) / len(self._lengths) if self._lengths else 1.0

    def search(self, query: str, limit: int = 20) -> Found:
        """Return the documents that have words of the query, those with more of them first."""
        asked = asked_words(query)
        corrected: dict[str, str] = {}
        scores: dict[int, float] = defaultdict(float)
        met: dict[int, int] = defaultdict(int)
        places: dict[int, dict[int, str]] = defaultdict(dict)
        for word in asked:
            for number, (score, where) in self._scored(word, corrected).items():
                scores[number] += score
                met[number] += 1
                for place, found in where.items():
                    places[number].setdefault(place, found)
        final = {number: score * (met[number] / len(asked)) for number, score in scores.items()}
        for number in final:
            if _is_name(self._documents[number], query):
                final[number] *= _NAMED
        best = sorted(final, key=lambda each: (-round(final[each], 6), *_tie(self._documents[each])))
        hits = tuple(_hit(self._documents[each], final[each], places[each]) for each in best[:limit])
        return Found(hits, len(best), corrected)

    def _add(self, number: int, place: int, each: Field) -> float:
        found = plain_words(each.text)
        for plain in found:
            if plain not in self._spelled:
                self._spelled[plain] = stem(plain)
            self._postings[self._spelled[plain]][number].append((place, each.weight))
        return each.weight * len(found)

    def _scored(self, word: str, corrected: dict[str, str]) -> dict[int, tuple[float, dict[int, str]]]:
        """Return of every document that has the word its score, and the fields with the word as they have it."""
        found: dict[int, tuple[float, dict[int, str]]] = {}
        for term, share in self._terms(word, corrected).items():
            postings = self._postings[term]
            idf = math.log(1 + (len(self._documents) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, uses in postings.items():
                count = sum(weight for _, weight in uses)
                norm = _K1 * (1 - _B + _B * self._lengths[number] / self._mean)
                score = share * idf * count * (_K1 + 1) / (count + norm)
                if number not in found or found[number][0] < score:
                    found[number] = (score, {place: term for place, _ in uses})
        return found

    def _terms(self, word: str, corrected: dict[str, str]) -> dict[str, float]:
        """Return the terms a word of the query stands for, and what each counts."""
        exact = stem(word)
        terms = {exact: 1.0} if exact in self._postings else {}
        if len(word) >= _SHORTEST_PREFIX:
            begun = (term for plain, term in self._spelled.items() if plain.startswith(word))
            terms = {**dict.fromkeys(begun, _PREFIX), **terms}
        if not terms and len(word) >= _SHORTEST_CORRECTED:
            near = did_you_mean(word, self._spelled)
            if near is not None:
                corrected[word] = near
                terms = {self._spelled[near]: _CORRECTED}
        return terms


def _is_name(document: Document, query: str) -> bool:
    asked = words(query)
    return asked in (words(document.id), words(document.id.rpartition(".")[2]))


def _tie(document: Document) -> tuple[int, str, str]:
    return document.order, document.connection, document.id


def _hit(document: Document, score: float, places: Mapping[int, str]) -> Hit:
    fields = [document.fields[place] for place in sorted(places)]
    told = next((document.fields[place] for place in sorted(places, reverse=True)), None)
    snippet = "" if told is None else _snippet(told.text, set(places.values()))
    names = tuple(dict.fromkeys(each.name for each in fields))
    return Hit(document.kind, document.id, document.connection, score, document.summary, snippet, names)


def _snippet(text: str, terms: set[str]) -> str:
    """Return the part of a text around the first of the terms."""
    flat = one_line(text, 10_000)
    at = next((found.start() for found in _PART.finditer(flat) if terms & set(words(found[0]))), 0)
    start = 0 if at < _SNIPPET // 2 else flat.find(" ", at - _SNIPPET // 2) + 1
    part = flat[start : start + _SNIPPET]
    return ("…" if start else "") + part.rstrip() + ("…" if start + _SNIPPET < len(flat) else "")
