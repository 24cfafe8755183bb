"""The probe of the embeddings: one text made into a vector, by the code the search index uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.embeddings import create_embedder
from ktx_cli.project.config import KtxConfig

TEXT: Final = "monthly revenue by region"
"""What is asked for: nothing of the user's."""


@dataclass(frozen=True, slots=True)
class EmbeddingReport:
    """A vector came. `model`: backend and model; `latency_ms`: loading included."""

    model: str
    dimensions: int
    latency_ms: float

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {"model": self.model, "dimensions": self.dimensions, "latency_ms": round(self.latency_ms, 1)}


def probe_embeddings(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> EmbeddingReport | None:
    """Make one vector as `ktx index` would; None where no embeddings are configured.

    Raises what `Embedder.embed` and `create_embedder` raise, and `ConfigError` where the vector is not as long as
    `ingest.embeddings.dimensions` says.
    """
    embedder = create_embedder(config, project_dir, environ)
    if embedder is None:
        return None
    started = monotonic()
    (vector,) = embedder.embed([TEXT])
    wanted = config.ingest.embeddings.dimensions
    if wanted is not None and len(vector) != wanted:
        raise ConfigError(
            f"the vectors of {embedder.model} have {len(vector)} numbers, and {wanted} are configured",
            hint=f"ktx config set ingest.embeddings.dimensions {len(vector)}",
        )
    return EmbeddingReport(embedder.model, len(vector), (monotonic() - started) * 1000)
