"""The check that the embeddings model is there and makes vectors of the length that is configured."""

from __future__ import annotations

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.readiness.running import failed
from ktx_cli.llm.embeddings import create_embedder

CHECK = "embeddings"


def check_embeddings(context: CheckContext) -> list[Finding]:
    """One vector is made of one word."""
    try:
        embedder = create_embedder(context.loaded.config, context.project_dir, context.environ)
        if embedder is None:
            return [Finding(CHECK, Level.SKIP, "no embeddings are configured: search goes by words")]
        (vector,) = embedder.embed(["revenue"])
    except KtxError as error:
        return [failed(CHECK, error)]
    return [Finding(CHECK, Level.OK, f"{embedder.model} makes vectors of {len(vector)} numbers")]
