"""Finds by meaning: what the vectors of an index add to what words find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ktx_cli.context.search.fusion import fuse
from ktx_cli.context.search.index.store import Store
from ktx_cli.context.search.index.vectors import Vectors, model_name, model_of
from ktx_cli.context.search.model import Found, Scope
from ktx_cli.context.search.ranking import Ranked, Ranking, hits, is_shadowed, own_pages
from ktx_cli.core.errors import ResultWarning
from ktx_cli.llm.embeddings.port import Embedder

_NEAREST: Final = 50
"""How many documents the vectors bring in at least."""


def no_vectors(store: Store, embedder: Embedder) -> ResultWarning | None:
    """Return the warning that an index has no vectors of a model, None where it has."""
    stored = model_of(store.database)
    if stored == model_name(embedder):
        return None
    what = "has no vectors" if stored is None else f"has vectors of another model ({stored})"
    return ResultWarning("no_vectors", f"searched by words alone: the index {what}", hint="ktx index")


def nearest(
    store: Store, vectors: Vectors, ranking: Ranking, asked: Sequence[float], scope: Scope, limit: int
) -> tuple[list[Ranked], list[ResultWarning]]:
    """Return the documents of an index (the first of those that were ranked) nearest to a query's vector.

    Where there are too many to compare all, those that words found are, and a warning says so.
    """
    if vectors.numbers and len(asked) != vectors.dimensions:
        what = f"searched by words alone: the index has vectors of {vectors.dimensions} numbers, the model {len(asked)}"
        return [], [ResultWarning("no_vectors", what, hint="ktx index")]
    warnings = []
    among = vectors.within(scope)
    if vectors.too_many:
        among = vectors.places(each.row.number for each in ranking.documents if each.place[0] == 0)
        what = f"only the best {len(among)} by words were compared by meaning, for want of numpy"
        warnings.append(ResultWarning("vectors_bounded", what, hint="pip install numpy"))
    wanted = max(_NEAREST, 2 * limit)
    found = vectors.nearest(asked, among, wanted + len(store.removed))
    numbers = [number for number in found if number not in store.removed][:wanted]
    hidden = own_pages([store], scope)
    rows = {row.number: row for row in store.bare_rows(numbers) if not is_shadowed(row, hidden)}
    return [Ranked((0, number), rows[number], 0.0, frozenset()) for number in numbers if number in rows], warnings


def fused(stores: Sequence[Store], ranking: Ranking, meant: Sequence[Ranked], limit: int) -> Found:
    """Return what words and vectors found in one order."""
    by_place = {each.place: each for each in (*meant, *ranking.documents)}
    scores = fuse([[each.place for each in ranking.documents], [each.place for each in meant]])
    best = sorted(scores, key=lambda place: (-round(scores[place], 6), *by_place[place].row.tie))
    alike = {each.place for each in meant}
    shown = hits(stores, (replace(by_place[place], score=scores[place]) for place in best[:limit]), alike)
    more = alike - {each.place for each in ranking.documents}
    return Found(shown, ranking.total + len(more), ranking.corrected)
