"""The port of a search index, and how documents are stored in every index."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, Protocol

from ktx_cli.search.corpus import PHRASE, Document, Scope
from ktx_cli.search.forms import forms
from ktx_cli.search.stems import asked_words, folded, plain_words, stem

VERSION: Final = 12
"""Version of the tables, stems and document contents. An index of another version is rebuilt."""

TIERS: Final = {"name": 4.0, "phrases": PHRASE, "strong": 2.0, "plain": 1.0, "weak": 0.5, "beside": 0.25}
"""The columns with the weights of their fields."""
FINDING: Final = ("name", "phrases", "strong", "plain", "weak")
"""The columns that searches look in."""

MARK: Final = "\ue000"
"""Precedes every tag: a character that no word contains."""
OWNED: Final = f"{MARK}o"
"""The tag of documents that are not shared."""
BETWEEN: Final = "\ue001"
"""Separates two phrases: a character that no word contains."""
_FORM: Final = "\ue002"
"""Precedes the form of a question: a character that no word contains."""
INTERNAL: Final = f"{MARK}i"
"""The tag of documents that are only found on request."""
ALL_COLUMNS: Final = ("tag", *TIERS)
"""The columns of an index with stems."""
MOST_SPELLINGS: Final = 64
"""Maximum number of words that a prefix matches, shortest first."""
KIND_BITS: Final = 40
"""Document numbers start with the number of the kind, so that documents of a kind are adjacent."""
_NAME: Final = list(TIERS).index("name")
_PHRASES: Final = list(TIERS).index("phrases")
_TITLE: Final = list(TIERS).index("strong")
_DESCRIPTION: Final = list(TIERS).index("plain")


@functools.cache
def tier_of(weight: float) -> str:
    """Return the column for a field's weight, the nearest by ratio."""
    return min(TIERS, key=lambda name: max(TIERS[name] / weight, weight / TIERS[name]))


def tag(letter: str, name: str) -> str:
    """Return the token for a filter: `k` for a kind, `c` a connection, `u` a user, `t` a page's tag."""
    return f"{MARK}{letter}{name.encode('utf-8', 'surrogatepass').hex()}"


def form_mark(form: str) -> str:
    """Return the token for the form of a question."""
    return f"{_FORM}{form}"


@dataclass(frozen=True, slots=True)
class Row:
    """A stored document for ranking.

    `texts` are its stems, one text for each of `TIERS`, with phrases separated by two spaces and one space around. It
    is empty if texts were not requested.
    """

    number: int
    kind: str
    name: str
    connection: str
    owner: str
    place: int
    length: float
    worth: float
    texts: tuple[str, ...] = ()

    @property
    def name_text(self) -> str:
        """The stems of the document's name."""
        return self.texts[_NAME]

    @property
    def title_text(self) -> str:
        """The stems of the document's title and headings."""
        return self.texts[_TITLE]

    @property
    def description_text(self) -> str:
        """The stems of the document's description."""
        return self.texts[_DESCRIPTION]

    def phrases_with(self, terms: Set[str]) -> Iterator[tuple[list[str], str]]:
        """Yield the stems of each question and synonym that contains one of the stems, with a mark for its form.

        The mark is empty if the phrase is not a question.
        """
        text = self.texts[_PHRASES]
        for phrase in text.split(BETWEEN) if len(text) > 2 else ():
            stems = phrase.split()
            if not terms.isdisjoint(stems):
                yield (stems[:-1], stems[-1]) if stems[-1][0] == _FORM else (stems, "")

    def other_names(self, terms: Set[str]) -> Iterator[list[str]]:
        """Yield the stems of the document's label, and of each synonym that contains one of the stems."""
        return (stems for stems, mark in self.phrases_with(terms) if not mark)

    @property
    def tie(self) -> tuple[int, str, str, str]:
        """The sort key of documents with equal scores, which no two documents of a tree share."""
        return self.place, self.connection, self.name, self.kind


@dataclass(frozen=True, slots=True)
class NewPart:
    """A part of a unit, with its documents. `digest` identifies its content."""

    unit: str
    name: str
    digest: str
    documents: Iterable[Document]


class IndexStore(Protocol):
    """An open index, in a file, in memory or in a database. It is immutable and safe for several threads."""

    @property
    def removed(self) -> frozenset[int]:
        """The documents that searches leave out."""

    @property
    def count(self) -> int:
        """The number of documents."""

    @property
    def lengths(self) -> Mapping[str, tuple[int, float]]:
        """The number of documents and their total weighted length in words, for each kind."""

    @property
    def models(self) -> Collection[str]:
        """The models of the vectors in the index; see `vectors.model_name`."""

    def without(self, removed: Collection[int]) -> IndexStore:
        """Return a copy that excludes further documents."""

    def parts(self, unit: str) -> dict[str, str]:
        """Return the digests of the parts of a unit by name. A removed unit has none."""

    def of_part(self, unit: str, name: str) -> dict[bytes, int]:
        """Return the documents in a part of a unit, by digest."""

    def prepare(self, terms: Iterable[str]) -> None:
        """Announce stems that `having` is called with, so that a database is asked for all of them at once."""

    def having(self, term: str) -> int:
        """Return the number of documents that contain a stem, including removed ones."""

    def begun(self, word: str) -> list[str]:
        """Return the stems of words with a prefix, shortest first."""

    def containing(self, part: str, most: int) -> list[str]:
        """Return the stems of words with a prefix or suffix, shortest first."""

    def alike(self, word: str) -> dict[str, str]:
        """Return the stems of words of similar length that share the first or last third with a word."""

    def best(self, terms: Iterable[str], scope: Scope, wanted: int) -> list[int]:
        """Return up to `wanted` documents with one of the stems, best first by BM25."""

    def total(self, terms: Iterable[str], scope: Scope) -> int:
        """Return the number of documents that contain one of the stems."""

    def within(self, scope: Scope) -> list[int]:
        """Return all documents in a scope, sorted."""

    def rows(self, numbers: Sequence[int]) -> Iterable[Row]:
        """Return documents for ranking in any order."""

    def bare_rows(self, numbers: Sequence[int]) -> Iterable[Row]:
        """Return documents without their texts, in any order."""

    def shown(self, numbers: Sequence[int]) -> dict[int, tuple[str, bytes]]:
        """Return the summary and packed fields of each document by number."""

    def naming(self, names: Collection[str]) -> list[tuple[str, str, str]]:
        """Return (name, page, owner) of the pages that mention one of the semantic layer names."""

    def named_by(self, number: int) -> list[str]:
        """Return the semantic layer names that a page mentions, in lower case."""

    def owned(self, user: str) -> set[str]:
        """Return the names of a user's pages."""

    def dimensions(self, model: str) -> int:
        """Return the length of the vectors of a model, or 0 without vectors."""

    def vectors(self, model: str) -> list[tuple[int, bytes, str]]:
        """Return (document, packed vector, kind) of all documents with a vector of a model, sorted by document."""

    def nearest(self, model: str, vector: Sequence[float], scope: Scope, wanted: int) -> list[int] | None:
        """Return up to `wanted` documents whose vectors are nearest, or None if the index does not compare vectors.

        `vector` has the length of `dimensions`.
        """


def stored_texts(document: Document, spelled: dict[str, str]) -> tuple[dict[str, str], float, set[str]]:
    """Return the stems of a document for each column, its weighted length, and its words.

    Adds words and stems to `spelled`.
    """
    texts = dict.fromkeys(ALL_COLUMNS, "")
    length = 0.0
    words: set[str] = set()
    for tier, weight in TIERS.items():
        own = [each.text for each in document.fields if tier_of(each.weight) == tier]
        if tier == "phrases":
            texts[tier] = _phrases_text(own, spelled, words)
            continue
        found = [word for text in own for word in plain_words(text)]
        words.update(found)
        spelled.update((word, stem(word)) for word in found if word not in spelled)
        texts[tier] = "  ".join(spelled[word] for word in found)
        length += weight * len(found)
    texts["tag"] = " ".join(_tags(document))
    return texts, length, words


def words_of(fields: Iterable[tuple[str, float, str]]) -> set[str]:
    """Return the words that `stored_texts` finds in the fields of a document, as `unpacked` returns them."""
    found: set[str] = set()
    for _, weight, text in fields:
        if tier_of(weight) == "phrases":
            found.update(word for line in text.splitlines() for word in asked_words(line))
        else:
            found.update(plain_words(text))
    return found


def _phrases_text(texts: Iterable[str], spelled: dict[str, str], words: set[str]) -> str:
    """Return the stems of phrases without uninformative words; those of a question are followed by its form."""
    phrases = []
    for line in (line for text in texts for line in text.splitlines()):
        found = asked_words(line)
        words.update(found)
        spelled.update((word, stem(word)) for word in found if word not in spelled)
        marks = map(form_mark, forms(folded(line))[-1:])
        phrases.append("  ".join((*(spelled[word] for word in found), *marks)))
    return f"  {BETWEEN}  ".join(filter(None, phrases))


def _tags(document: Document) -> list[str]:
    tags = [tag("k", document.kind)]
    tags += [tag("c", document.connection)] if document.connection else [f"{MARK}n"]
    tags += [tag("t", each) for each in document.tags]
    tags += [INTERNAL] if document.internal else []
    return tags + ([OWNED, tag("u", document.owner)] if document.owner else [])


def packed_fields(document: Document) -> bytes:
    """Return the fields of a document for `unpacked`."""
    written = json.dumps([(each.name, each.weight, each.text) for each in document.fields])
    return zlib.compress(written.encode(), 1)


def storable(text: str) -> str:
    """Return a text without lone surrogates, which databases cannot store."""
    return text.encode("utf-8", "replace").decode()


def unpacked(fields: bytes) -> list[tuple[str, float, str]]:
    """Return (name, weight, text) for each field of a stored document."""
    return [(name, weight, text) for name, weight, text in json.loads(zlib.decompress(fields))]
