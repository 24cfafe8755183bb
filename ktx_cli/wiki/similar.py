"""Finds pages with the same or nearly the same text, for the tool that writes pages and for lint."""

from __future__ import annotations

import re
import unicodedata
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from ktx_cli.project import Tree
from ktx_cli.wiki.page import CATALOG, FOLDER, Page, place_of, split
from ktx_cli.wiki.store import file_of

DUPLICATE: Final = 0.8
"""Share of common text at which two pages are duplicates."""

SIMILAR: Final = 0.5
"""Share of common text at which two pages may be duplicates."""

_SHORT: Final = 40
"""Minimum number of words for partial similarity; shorter texts are either equal or different."""
_SENTENCE: Final = 12
"""Number of words below which two pages may both legitimately contain the same text."""
_MASK: Final = 0xFFFFFFFF
_SAMPLE: Final = 64
"""Number of indexed triples per page: enough to find every page that shares half of its text."""
_MOST_PAGES: Final = 50
"""Maximum number of pages per indexed triple; more common phrases are not significant."""
_MOST_COMPARED: Final = 8
_CATALOG: Final = re.compile(rf"^source: {CATALOG}\s*$", re.MULTILINE)
_SHORTEST_SUMMARY: Final = 4
"""Number of words below which several pages may have the same summary."""

_WORD: Final = re.compile(r"\w+")
_SUMMARY: Final = re.compile(r"^summary:[ \t]*(?P<text>[^\r\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of two pages: `share` is the share of the shorter text's word triples, 0 to 1.

    `words`: the number of words of the shorter text.
    """

    page: Page
    share: float
    words: int
    same_summary: bool = False

    @property
    def is_duplicate(self) -> bool:
        """Whether one of the two pages has no content of its own; a short text may belong on both."""
        enough = _SENTENCE if self.share == 1 else _SHORT
        return (self.share >= DUPLICATE and self.words >= enough) or self.same_summary


@dataclass(slots=True)
class SimilarPages:
    """Pages by the triples of words in their texts. Only pages of one scope are compared."""

    _pages: list[Page] = field(default_factory=list)
    _by_triple: dict[int, list[int]] = field(default_factory=dict)
    _by_line: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def of(cls, pages: Iterable[Page]) -> SimilarPages:
        """Return the index of pages."""
        made = cls()
        for page in pages:
            made.add(page)
        return made

    def add(self, page: Page) -> None:
        """Add a page."""
        number = len(self._pages)
        self._pages.append(page)
        text = _read(page.body)
        for triple in text.triples[:_SAMPLE]:
            places = self._by_triple.setdefault(triple, [])
            if len(places) < _MOST_PAGES:
                places.append(number)
        for line in filter(None, (text.line, _summary(page))):
            self._by_line.setdefault((page.scope, line), number)

    def like(self, page: Page) -> list[Likeness]:
        """Return the pages that share a page's summary or at least half of its text, most similar first."""
        text, summary = _read(page.body), _summary(page)
        hits = Counter(number for triple in text.triples for number in self._by_triple.get(triple, ()))
        keys = ((page.scope, line) for line in (text.line, summary))
        same = [self._by_line[key] for key in keys if key in self._by_line]
        candidates = sorted(hits, key=lambda number: (-hits[number], number))
        others = [self._pages[number] for number in dict.fromkeys((*same, *candidates))]
        others = [other for other in others if other.scope == page.scope and other.path != page.path]
        found = (_likeness(text, summary, other) for other in others[: _MOST_COMPARED + len(same)])
        alike = [each for each in found if each.share >= SIMILAR or each.same_summary]
        return sorted(alike, key=lambda each: (-each.share, not each.same_summary, each.page.path))


def outlines(tree: Tree, scope: str) -> Iterator[Page]:
    """Yield the pages of a scope with only their bodies and summaries, because parsing all front matter is slow.

    Catalogs of documents are excluded: they have no content of their own.
    """
    for path in sorted(tree.paths(f"{FOLDER}{scope}/")):
        place, content = place_of(path), file_of(tree, path)
        if place is not None and isinstance(content, bytes):
            head, body = split(content.decode("utf-8", "replace"))
            if _CATALOG.search(head):
                continue
            found = _SUMMARY.search(head)
            summary = "" if found is None else found["text"].strip().strip("\"'")
            yield Page(place[1], place[0], {"summary": summary}, body)


@dataclass(frozen=True, slots=True)
class _Text:
    """A text prepared for comparison: as one line, with its word count and its word triples as sorted checksums."""

    line: str
    count: int
    triples: array[int]


@lru_cache(maxsize=8192)
def _read(body: str) -> _Text:
    words = _words(body)
    sums = [zlib.crc32(word.encode("utf-8", "replace")) for word in words]
    triples = {
        (31 * (31 * one + two) + three) & _MASK for one, two, three in zip(sums, sums[1:], sums[2:], strict=False)
    }
    return _Text(" ".join(body.split()).casefold(), len(words), array("I", sorted(triples)))


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _summary(page: Page) -> str:
    """Return the words of a summary, or nothing if it is too short to distinguish pages."""
    words = _words(page.summary)
    return "\n" + " ".join(words) if len(words) >= _SHORTEST_SUMMARY else ""


def _likeness(text: _Text, summary: str, other: Page) -> Likeness:
    second = _read(other.body)
    same_summary = bool(summary) and _summary(other) == summary
    return Likeness(other, _share(text, second), min(text.count, second.count), same_summary)


def _share(one: _Text, other: _Text) -> float:
    """Return the share of the shorter text that is in the longer one; for short texts, the share that both have in
    common.
    """
    if one.line == other.line:
        return 1.0 if one.line else 0.0
    first, second = set(one.triples), set(other.triples)
    shared = len(first & second)
    if min(one.count, other.count) >= _SHORT:
        return shared / min(len(first), len(second))
    return min(shared / max(len(first | second), 1), DUPLICATE - 0.01)
