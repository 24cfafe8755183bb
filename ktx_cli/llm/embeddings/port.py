"""What every maker of vectors can do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ktx_cli.core import Command
from ktx_cli.llm.errors import LlmError


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


DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "model2vec": "minishlab/potion-base-8M",
    "sentence-transformers": "sentence-transformers/all-MiniLM-L6-v2",
    "openai": "text-embedding-3-small",
}
"""Backend -> the model it uses where the configuration names none."""

MODEL_HINT = Command("config", "set", "ingest.embeddings.model", "MODEL")


def checked(vectors: Any, count: int, dimensions: int | None, who: str) -> list[list[float]]:
    """Return vectors as an answer has them; `LlmError` (`execution`) where they are not what was asked for."""
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        found = f"{len(vectors)} vectors" if isinstance(vectors, Sequence) else "no vectors"
        raise _malformed(f"{who} returned {found} for {count} texts")
    checked = [[_number(value, who) for value in _listed(vector, who)] for vector in vectors]
    lengths = {len(vector) for vector in checked}
    if dimensions is not None and lengths - {dimensions}:
        raise LlmError(
            f"{who} returned vectors of {max(lengths)} numbers, `ingest.embeddings.dimensions` says {dimensions}",
            code="execution",
            hint=Command("config", "set", "ingest.embeddings.dimensions", max(lengths)),
        )
    if len(lengths) > 1 or 0 in lengths:
        raise _malformed(f"{who} returned vectors of different lengths")
    return checked


def _listed(vector: Any, who: str) -> Sequence[Any]:
    if isinstance(vector, Sequence) and not isinstance(vector, str):
        return vector
    raise _malformed(f"{who} returned a vector that is no list of numbers")


def _number(value: Any, who: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise _malformed(f"{who} returned a vector that is no list of numbers")


def _malformed(message: str) -> LlmError:
    return LlmError(message, code="execution", hint=MODEL_HINT)
