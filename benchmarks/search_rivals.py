"""What our search is compared with, and by what: BM25 with stems, FTS5 as it is, vectors trained here; nDCG@10."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktx_cli.search.stems import plain_words, words


def ndcg(ranked: Sequence[str], worth: Mapping[str, int], depth: int = 10) -> float:
    """Return the discounted gain (2^grade - 1) / log2(rank + 1) of the first hits, of the best there could be."""
    gained = _gain(worth.get(each, 0) for each in ranked[:depth])
    return gained / _gain(sorted(worth.values(), reverse=True)[:depth])


def _gain(grades: Iterable[int]) -> float:
    return sum((2**grade - 1) / math.log2(place + 2) for place, grade in enumerate(grades))


def average_precision(ranked: Sequence[str], worth: Mapping[str, int], depth: int = 100) -> float:
    """Return the mean, over the documents that answer (worth 2), of the precision where each was found."""
    wanted = _answers(worth)
    places = [place for place, each in enumerate(ranked[:depth], start=1) if each in wanted]
    return sum(count / place for count, place in enumerate(places, start=1)) / len(wanted)


def recall(ranked: Sequence[str], worth: Mapping[str, int], depth: int = 10) -> float:
    """Return the share of the documents that answer (worth 2) among the first hits."""
    wanted = _answers(worth)
    return len(wanted.intersection(ranked[:depth])) / len(wanted)


def _answers(worth: Mapping[str, int]) -> set[str]:
    return {id for id, grade in worth.items() if grade == 2}


class PlainBm25:
    """BM25 over all texts of a document put together: k1 1.2, b 0.75, words stemmed, nothing else."""

    def __init__(self, texts: Mapping[str, str], k1: float = 1.2, b: float = 0.75) -> None:
        self._k1, self._b = k1, b
        self._counts = {id: Counter(words(text)) for id, text in texts.items()}
        self._lengths = {id: sum(counts.values()) for id, counts in self._counts.items()}
        self._mean = sum(self._lengths.values()) / len(texts)
        self._having: Counter[str] = Counter(word for counts in self._counts.values() for word in counts)

    def search(self, query: str, limit: int = 10) -> list[str]:
        scores: dict[str, float] = defaultdict(float)
        for word in dict.fromkeys(words(query)):
            having = self._having[word]
            idf = math.log(1 + (len(self._counts) - having + 0.5) / (having + 0.5))
            for id, counts in self._counts.items():
                if word in counts:
                    norm = self._k1 * (1 - self._b + self._b * self._lengths[id] / self._mean)
                    scores[id] += idf * counts[word] * (self._k1 + 1) / (counts[word] + norm)
        return sorted(scores, key=lambda id: (-scores[id], id))[:limit]


class PlainFts5:
    """FTS5 with its own tokenizer, any word of the query, its own ranking."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._database = sqlite3.connect(":memory:")
        self._database.execute("CREATE VIRTUAL TABLE t USING fts5 (id UNINDEXED, text)")
        self._database.executemany("INSERT INTO t VALUES (?, ?)", texts.items())

    def search(self, query: str, limit: int = 10) -> list[str]:
        asked = " OR ".join(f'"{word}"' for word in plain_words(query))
        rows = self._database.execute("SELECT id FROM t WHERE t MATCH ? ORDER BY rank, id LIMIT ?", (asked, limit))
        return [id for (id,) in rows]


def train_vectors(texts: Sequence[str], folder: Path, dimensions: int = 64) -> None:
    """Write a Model2Vec model of a corpus: latent semantic analysis, each word weighted by how rare it is.

    A truncated SVD of which words stand in which texts (Deerwester et al. 1990, Indexing by latent semantic analysis).
    """
    import numpy
    from model2vec import StaticModel
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    lists = [plain_words(text) for text in texts]
    having = Counter(word for listed in lists for word in set(listed))
    vocabulary = [word for word, count in having.most_common() if count > 1]
    place = {word: number for number, word in enumerate(vocabulary)}
    rarity: Any = numpy.log(len(lists) / numpy.array([having[word] for word in vocabulary]))
    uses: Any = numpy.zeros((len(lists), len(vocabulary)))
    for row, listed in enumerate(lists):
        for word, count in Counter(listed).items():
            if word in place:
                uses[row, place[word]] = (1 + math.log(count)) * rarity[place[word]]
    uses /= numpy.linalg.norm(uses, axis=1, keepdims=True)
    _, _, vectors = numpy.linalg.svd(uses, full_matrices=False)
    table = vectors[:dimensions].T * rarity[:, None]
    tokens = {"[UNK]": 0, **{word: number + 1 for word, number in place.items()}}
    tokenizer = Tokenizer(WordLevel(tokens, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()  # type: ignore[assignment]
    tokenizer.pre_tokenizer = Whitespace()  # type: ignore[assignment]
    table = numpy.vstack([numpy.zeros((1, dimensions)), table]).astype(numpy.float32)
    StaticModel(table, tokenizer, {}, normalize=True).save_pretrained(folder)
