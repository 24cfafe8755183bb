"""Vectors of documents: kept as 32-bit floats beside the words, compared by cosine.

numpy compares them where it is installed. Without it Python does, up to `PLAIN_BOUND` numbers; beyond that only the
best documents by words are compared, and the search says so.
"""

from __future__ import annotations

import array
import functools
import heapq
import math
import operator
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from ktx_cli.context.search.index.schema import get_meta, set_meta
from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.index.writing import unpacked
from ktx_cli.context.search.model import Scope
from ktx_cli.core.events import Emit, StepProgress
from ktx_cli.core.recent import Recent
from ktx_cli.llm.embeddings.port import Embedder

EMBEDDED: Final = ("source", "measure", "segment", "page", "column", "passage")
"""The kinds that get a vector: values of rows are never given to a model."""
PLAIN_BOUND: Final = 5_000_000
"""How many numbers Python alone compares for a query (about 0.2 s)."""
TEXT_LIMIT: Final = 2000
"""How many characters of a document its vector is made from."""
_STEP: Final = "vectors"


def nobody() -> None:
    """Return no embedder."""


def model_of(database: sqlite3.Connection) -> str | None:
    """Return the model and the length of the vectors of an index, None where it has none."""
    return get_meta(database, "vectors")


def model_name(embedder: Embedder) -> str:
    """Return what is stored of a model: vectors of another one cannot be compared."""
    return f"{embedder.model} {embedder.dimensions or ''}".strip()


def embed_missing(database: sqlite3.Connection, embedder: Embedder | None, emit: Emit) -> int:
    """Make the vectors that are missing, batch by batch; returns how many texts were embedded.

    Raises what the embedder raises; the batches before that are kept.
    """
    if embedder is None:
        _drop(database)
        return 0
    if model_of(database) != model_name(embedder):
        _drop(database)
        set_meta(database, "vectors", model_name(embedder))
    marks = ", ".join("?" for _ in EMBEDDED)
    missing = database.execute(
        "SELECT d.id, d.name, d.summary, d.fields FROM docs AS d LEFT JOIN vectors AS v ON v.doc = d.id"
        f" WHERE v.doc IS NULL AND d.kind IN ({marks}) ORDER BY d.id",
        EMBEDDED,
    ).fetchall()
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        texts = [_text(name, summary, fields) for _, name, summary, fields in batch]
        rows = zip((number for number, *_ in batch), map(packed, embedder.embed(texts)), strict=True)
        database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        emit(StepProgress(_STEP, start + len(batch), len(missing)))
    return len(missing)


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector of length 1 in the same direction as little-endian 32-bit floats; one of zeros stays."""
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    numbers = array.array("f", (value / norm for value in vector))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(blob: bytes) -> array.array[float]:
    """Return the numbers of a stored vector."""
    numbers = array.array("f", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class Vectors:
    """The vectors of an index, read once."""

    def __init__(self, store: Store) -> None:
        rows = store.database.ask("SELECT doc, vector FROM vectors ORDER BY doc")
        self.numbers = [row[0] for row in rows]
        self._blobs = [row[1] for row in rows]
        self.dimensions = len(rows[0][1]) // 4 if rows else 0
        self._store = store
        self._within: Recent[list[int]] = Recent(8)

    @property
    def too_many(self) -> bool:
        """Whether they cannot all be compared here."""
        return _numpy() is None and len(self.numbers) * self.dimensions > PLAIN_BOUND

    def within(self, scope: Scope) -> list[int]:
        """Return the documents of a scope that have a vector; those of the scopes last asked for are remembered."""
        key = (tuple(scope.kinds), scope.connection, scope.user, scope.internal, scope.tag)
        return self._within.get(key, lambda: sorted(self._place_of.keys() & set(self._store.within(scope))))

    def nearest(self, query: Sequence[float], among: Sequence[int], wanted: int) -> list[int]:
        """Return those of some documents that are nearest in direction, at most `wanted`, the nearest first."""
        asked = unpack(packed(query))
        places = range(len(self.numbers)) if len(among) == len(self.numbers) else self._places(among)
        compared = self._by_python if _numpy() is None else self._by_numpy
        return [self.numbers[place] for place in compared(asked, places, wanted)]

    def _by_python(self, asked: array.array[float], places: Sequence[int], wanted: int) -> list[int]:
        similar = (sum(map(operator.mul, asked, unpack(self._blobs[place]))) for place in places)
        scored = zip((-each for each in similar), places, strict=True)
        return [place for distance, place in heapq.nsmallest(wanted, scored) if distance < 0]

    def _by_numpy(self, asked: array.array[float], places: Sequence[int], wanted: int) -> list[int]:
        numpy = _numpy()
        chosen = self._matrix if len(places) == len(self.numbers) else self._matrix[list(places)]
        similar = chosen @ numpy.asarray(asked, dtype="<f4")
        best = range(len(similar))
        if wanted < len(similar):
            best = numpy.argpartition(-similar, wanted)[:wanted].tolist()
        ordered = sorted((-float(similar[each]), places[each]) for each in best)
        return [place for distance, place in ordered if distance < 0]

    @functools.cached_property
    def _matrix(self) -> Any:
        numpy = _numpy()
        return numpy.frombuffer(b"".join(self._blobs), dtype="<f4").reshape(len(self._blobs), self.dimensions)

    @functools.cached_property
    def _place_of(self) -> dict[int, int]:
        return {number: place for place, number in enumerate(self.numbers)}

    def _places(self, among: Iterable[int]) -> list[int]:
        return sorted(self._place_of[number] for number in among if number in self._place_of)


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:  # an option: `ktx-cli[embeddings]` brings it
        return None
    return numpy


def _drop(database: sqlite3.Connection) -> None:
    if model_of(database) is not None:
        database.execute("DELETE FROM vectors")
        database.execute("DELETE FROM meta WHERE key = 'vectors'")


def _text(name: str, summary: str, fields: bytes) -> str:
    """Return what a vector is made from: the name, then all texts, the short ones first as they stand."""
    texts: Iterator[str] = (text for _, _, text in unpacked(fields))
    return "\n".join(dict.fromkeys((name, *texts, summary)))[:TEXT_LIMIT]
