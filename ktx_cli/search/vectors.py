"""The vectors of an index: creating, storing and comparing them."""

from __future__ import annotations

import array
import functools
import heapq
import math
import operator
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Emit, Recent, ResultWarning, StepProgress
from ktx_cli.search.corpus import WORTH, Scope
from ktx_cli.search.index import get_meta, set_meta
from ktx_cli.search.store import IndexStore, unpacked

if TYPE_CHECKING:
    from ktx_cli.llm import Embedder

EMBEDDED: Final = ("source", "measure", "segment", "page", "column", "passage")
"""The kinds with vectors. Row values are never sent to a model."""
PLAIN_BOUND: Final = 5_000_000
"""Maximum count of numbers to compare for a query without numpy (about 0.2 s)."""
TEXT_LIMIT: Final = 2000
"""Maximum number of characters in a document that its vector represents."""
MANY: Final = 5_000
"""Number of vectors above which they are first compared in few dimensions."""
SKETCH: Final = 64
"""Number of dimensions for the first comparison."""
AGAIN: Final = 20
"""Multiple of the wanted results to compare completely afterwards."""
_SAMPLE: Final = 4_000
_STEP: Final = "vectors"
_PROBE: Final = "length"
"""The text whose vector shows the length of a model's vectors."""


def model_of(database: sqlite3.Connection) -> str | None:
    """Return the model and length of an index's vectors, or None."""
    return get_meta(database, "vectors")


def model_name(embedder: Embedder) -> str:
    """Return the name under which a model is stored, because vectors of different models cannot be compared."""
    return f"{embedder.model} {embedder.dimensions or ''}".strip()


_MISSING: Final = (
    "FROM docs AS d LEFT JOIN vectors AS v ON v.doc = d.id WHERE v.doc IS NULL"
    f" AND d.kind IN ({', '.join('?' for _ in EMBEDDED)})"
)


def needs_vectors(database: sqlite3.Connection, embedder: Embedder | None) -> bool:
    """Whether `embed_missing` would change an index."""
    if embedder is None or model_of(database) != model_name(embedder):
        return embedder is not None or model_of(database) is not None
    return database.execute(f"SELECT 1 {_MISSING} LIMIT 1", EMBEDDED).fetchone() is not None


def length_of(embedder: Embedder, known: int) -> int:
    """Return the length of the vectors that a model returns now. Raises the errors of the embedder.

    `known`: the length of the stored vectors. If the files of a model state it, the model is not loaded.
    """
    from ktx_cli.llm import StatesLength

    if isinstance(embedder, StatesLength) and embedder.stated_length() == known:
        return known
    return len(embedder.embed([_PROBE])[0])


def drop_other_lengths(database: sqlite3.Connection, length: int) -> bool:
    """Delete the vectors of an index if they have another length, and return whether there were any."""
    rows = database.execute("SELECT length(vector) / 4 FROM vectors LIMIT 1").fetchall()
    if not rows or rows[0][0] == length:
        return False
    database.execute("DELETE FROM vectors")
    return True


def embed_missing(database: sqlite3.Connection, embedder: Embedder | None, emit: Emit) -> int:
    """Compute missing vectors in batches, and return the number of embedded texts.

    If the model now returns vectors of another length, all are computed again. Raises the errors of the embedder;
    finished batches are kept.
    """
    if embedder is None:
        _drop(database)
        return 0
    if model_of(database) != model_name(embedder):
        _drop(database)
        set_meta(database, "vectors", model_name(embedder))
    missing = database.execute(
        f"SELECT d.id, d.name, d.summary, d.fields {_MISSING} ORDER BY d.id", EMBEDDED
    ).fetchall()
    for start in range(0, len(missing), embedder.batch_size):
        batch = missing[start : start + embedder.batch_size]
        texts = [embedded_text(name, summary, fields) for _, name, summary, fields in batch]
        found = embedder.embed(texts)
        if start == 0 and drop_other_lengths(database, len(found[0])):
            return embed_missing(database, embedder, emit)
        rows = zip((number for number, *_ in batch), map(packed, found), strict=True)
        database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
        emit(StepProgress(_STEP, start + len(batch), len(missing)))
    return len(missing)


def packed(vector: Sequence[float]) -> bytes:
    """Return a normalized vector as little-endian 32-bit floats. A zero vector does not change."""
    norm = math.sqrt(sum(value * value for value in vector)) or 1.0
    numbers = array.array("f", (value / norm for value in vector))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(blob: bytes) -> array.array[float]:
    """Return a stored vector as numbers."""
    numbers = array.array("f", blob)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


class Matrix:
    """Weighted vectors as the rows of a matrix, compared exactly or first in few dimensions.

    With many rows, `AGAIN` times the wanted number is selected in the `SKETCH` principal components of a sample, and
    only these are compared completely. Sums use `einsum`, because the threads of a matrix product keep spinning
    afterwards and slow down the rest of the search.
    """

    def __init__(self, numpy: Any, rows: Any, worth: Any) -> None:
        self._numpy, self._rows, self._worth = numpy, rows, worth
        self._basis = self._sketch = None
        if len(rows) >= MANY and rows.shape[1] > SKETCH:
            sample = rows[:: max(1, len(rows) // _SAMPLE)].astype("f8")
            self._basis = numpy.linalg.eigh(sample.T @ sample)[1][:, -SKETCH:].astype("<f4")
            self._sketch = rows @ self._basis

    def nearest(self, asked: Any, places: Any, wanted: int) -> list[tuple[int, float]]:
        """Return (position, similarity) of up to `wanted` rows at the given positions, most similar first."""
        if self._sketch is not None and len(places) > AGAIN * wanted:
            alike = (self._alike(self._sketch, asked @ self._basis) * self._worth)[places]
            places = places[self._best(alike, AGAIN * wanted)]
        rows = self._rows if len(places) == len(self._rows) else self._rows[places]
        alike = self._alike(rows, asked) * self._worth[places]
        best = self._best(alike, wanted)
        found = sorted(zip((-alike[best]).tolist(), places[best].tolist(), strict=True))
        return [(place, -distance) for distance, place in found]

    def _alike(self, rows: Any, asked: Any) -> Any:
        return self._numpy.einsum("ij,j->i", rows, asked)

    def _best(self, alike: Any, wanted: int) -> Any:
        if wanted >= len(alike):
            return self._numpy.arange(len(alike))
        return self._numpy.argpartition(-alike, wanted)[:wanted]


class Vectors:
    """The vectors of an index, which are read once."""

    def __init__(self, store: IndexStore, model: str) -> None:
        rows = store.vectors(model)
        self.model = model
        self.numbers = [row[0] for row in rows]
        self._blobs = [row[1] for row in rows]
        self.dimensions = len(rows[0][1]) // 4 if rows else 0
        self._worths = [WORTH.get(kind, 1.0) for _, _, kind in rows]
        self._store = store
        self._within: Recent[Sequence[int]] = Recent(8)

    @property
    def too_many(self) -> bool:
        """Whether there are too many vectors to compare all."""
        return _numpy() is None and len(self.numbers) * self.dimensions > PLAIN_BOUND

    def within(self, scope: Scope) -> Sequence[int]:
        """Return the positions of the documents in a scope. Recent scopes are cached."""
        key = (tuple(scope.kinds), scope.connection, scope.user, scope.internal, scope.tag)
        return self._within.get(key, lambda: self.places(self._store.within(scope)))

    def places(self, documents: Iterable[int]) -> Sequence[int]:
        """Return the sorted positions of documents with a vector, as an array if numpy is available."""
        found = sorted(self._place_of[number] for number in documents if number in self._place_of)
        return found if _numpy() is None else _numpy().asarray(found, dtype="i8")

    def nearest(self, query: Sequence[float], among: Sequence[int], wanted: int) -> list[int]:
        """Return up to `wanted` documents at the given positions, nearest first."""
        asked = unpack(packed(query))
        compared = self._by_python if _numpy() is None else self._by_numpy
        return [self.numbers[place] for place in compared(asked, among, wanted)]

    def _by_python(self, asked: array.array[float], places: Sequence[int], wanted: int) -> list[int]:
        blobs, worths = self._blobs, self._worths
        similar = (worths[place] * sum(map(operator.mul, asked, unpack(blobs[place]))) for place in places)
        scored = zip((-each for each in similar), places, strict=True)
        return [place for distance, place in heapq.nsmallest(wanted, scored) if distance < 0]

    def _by_numpy(self, asked: array.array[float], places: Sequence[int], wanted: int) -> list[int]:
        found = self._matrix.nearest(_numpy().asarray(asked, dtype="<f4"), places, wanted)
        return [place for place, alike in found if alike > 0]

    @functools.cached_property
    def _matrix(self) -> Matrix:
        numpy = _numpy()
        vectors = numpy.frombuffer(b"".join(self._blobs), dtype="<f4").reshape(len(self._blobs), self.dimensions)
        return Matrix(numpy, vectors, numpy.asarray(self._worths, dtype="<f4"))

    @functools.cached_property
    def _place_of(self) -> dict[int, int]:
        return {number: place for place, number in enumerate(self.numbers)}


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:  # optional: installed with `ktx-cli[embeddings]`
        return None
    return numpy


def _drop(database: sqlite3.Connection) -> None:
    if model_of(database) is not None:
        database.execute("DELETE FROM vectors")
        database.execute("DELETE FROM meta WHERE key = 'vectors'")


def embedded_text(name: str, summary: str, fields: bytes) -> str:
    """Return the text for a vector: the name, then all texts in order, short ones first."""
    texts: Iterator[str] = (text for _, _, text in unpacked(fields))
    return "\n".join(dict.fromkeys((name, *texts, summary)))[:TEXT_LIMIT]


def no_vectors(store: IndexStore, embedder: Embedder) -> ResultWarning | None:
    """Return the warning that an index has no vectors of a model, or None if it has."""
    if model_name(embedder) in store.models:
        return None
    stored = ", ".join(sorted(store.models))
    reason = f"the index has vectors of another model ({stored})" if stored else "the index has no vectors"
    return ResultWarning("no_vectors", f"searched by words only: {reason}", hint=Command("index"), problem=reason)
