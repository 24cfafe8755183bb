"""What every maker of vectors can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Embedder(Protocol):
    """Makes vectors of texts with one model.

    `model`: the backend and the model, what makes vectors comparable. `dimensions`: the numbers in a vector, None
    where the model says it only with the first. `batch_size`: how many texts it takes at once.
    """

    model: str
    dimensions: int | None
    batch_size: int

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in their order; at most `batch_size` texts.

        Raises `KtxError`: the model is not there (`not_ready`), its server cannot be reached (`connection`), does not
        accept the key (`auth`), asks to wait (`rate_limit`) or answers something else (`execution`).
        """
        ...
