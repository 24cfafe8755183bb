"""The embeddings as far as can be told without loading a model or asking a server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final, Literal

from ktx_cli.core.errors import KtxError, NotReadyError
from ktx_cli.core.text import shell_words
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level

CHECK: Final = "embeddings"


@dataclass(frozen=True, slots=True)
class EmbeddingFacts:
    """`usable`: nothing that it needs is missing; whether vectors come, `ktx doctor` tries."""

    backend: str
    model: str | None
    state: Literal["none", "usable", "unverified", "unusable"]
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        """Return the facts as they stand in the envelope."""
        return {"backend": self.backend, "model": self.model, "state": self.state}


def embedding_facts(context: CheckContext) -> EmbeddingFacts:
    """Return whether vectors are configured, and whether what they need is there; asks no keyring, loads no model."""
    settings = context.loaded.config.ingest.embeddings
    if settings.backend == "none":
        return EmbeddingFacts("none", None, "none", Finding(CHECK, Level.OK, "none"))
    name = f"{settings.backend}:{settings.model}" if settings.model else settings.backend
    if str(settings.openai.api_key or "").strip().startswith("keyring:") and settings.backend == "openai":
        finding = Finding(
            CHECK, Level.SKIP, f"{name}: unverified, the keyring is not asked", f"ktx doctor --only {CHECK}"
        )
        return EmbeddingFacts(settings.backend, settings.model, "unverified", finding)
    try:
        model = _require(context)
    except KtxError as error:
        finding = Finding(CHECK, Level.WARN, f"{name}: {error.message}", error.hint, Concern.SETUP)
        return EmbeddingFacts(settings.backend, settings.model, "unusable", finding)
    return EmbeddingFacts(settings.backend, model, "usable", Finding(CHECK, Level.OK, f"{settings.backend}:{model}"))


def _require(context: CheckContext) -> str:
    """Return the model; raises `KtxError` for what is missing."""
    from ktx_cli.llm.embeddings import create_embedder

    config = context.loaded.config
    settings = config.ingest.embeddings
    embedder = create_embedder(config, context.project_dir, context.environ)
    assert embedder is not None
    model = embedder.model.partition(":")[2]
    in_process = settings.backend == "model2vec" or (
        settings.backend == "sentence-transformers" and not settings.sentence_transformers.base_url
    )
    if in_process:
        from ktx_cli.llm.embeddings.local import model_folder

        _require_package(settings.backend)
        model_folder(model, context.project_dir)
    return model


def _require_package(backend: str) -> None:
    if find_spec(backend.replace("-", "_")) is None:
        from ktx_cli.llm.embeddings import model2vec, sentence_transformers

        extra = (model2vec if backend == "model2vec" else sentence_transformers).EXTRA
        raise NotReadyError(f"the embeddings need the package {backend}", hint=shell_words("pip", "install", extra))
