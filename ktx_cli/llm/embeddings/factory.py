"""Makes the embedder that `ktx.yaml` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.project.config import KtxConfig


def create_embedder(config: KtxConfig, project_dir: Path, environ: Mapping[str, str]) -> Embedder | None:
    """Return the embedder of `ingest.embeddings`, None where the backend is `none`; loads no model yet.

    Raises `SecretError` for a key that cannot be resolved, `ConfigError` where a setting is missing.
    """
    ingest = config.ingest
    embeddings = ingest.embeddings
    if embeddings.backend == "openai":
        from ktx_cli.llm.embeddings.openai import OpenAiEmbedder

        return OpenAiEmbedder.of(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "sentence-transformers":
        from ktx_cli.llm.embeddings import sentence_transformers

        return sentence_transformers.create(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "model2vec":
        from ktx_cli.llm.embeddings.model2vec import Model2VecEmbedder

        return Model2VecEmbedder.of(embeddings, project_dir)
    return None
