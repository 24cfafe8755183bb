"""What could make vectors for search by meaning: nothing, models on this machine, OpenAI. No model is downloaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.connectors.registry import is_installed
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line
from ktx_cli.llm.embeddings import model2vec, openai, sentence_transformers
from ktx_cli.llm.embeddings.local import missing_package, model_folder
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.ingest import Embeddings
from ktx_cli.project.secrets import redact_url


@dataclass(frozen=True, slots=True)
class EmbeddingOffer:
    """A backend of embeddings. `settings`: `model`, `api_key`, `base_url`. `problem`: why it cannot be used now."""

    backend: str
    label: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    problem: KtxError | None = None


def embedding_offers(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> list[EmbeddingOffer]:
    """Return the backends; `none` is the first and can always be used. No model is loaded, and nothing is fetched."""
    embeddings = config.ingest.embeddings
    return [
        EmbeddingOffer("none", "search by words alone, without a model"),
        _model2vec(embeddings, project_dir),
        _sentence_transformers(embeddings, project_dir),
        *_openai(embeddings, environ),
    ]


def _model2vec(embeddings: Embeddings, project_dir: Path) -> EmbeddingOffer:
    model = _model(embeddings, "model2vec", model2vec.DEFAULT_MODEL)
    problem = _local_problem("model2vec", model2vec.EXTRA, model, project_dir)
    label = f"Model2Vec on this machine ({one_line(model, 80)}), small and fast"
    return EmbeddingOffer("model2vec", label, {"model": model}, problem)


def _sentence_transformers(embeddings: Embeddings, project_dir: Path) -> EmbeddingOffer:
    backend, server = "sentence-transformers", embeddings.sentence_transformers.base_url
    model = _model(embeddings, backend, sentence_transformers.DEFAULT_MODEL)
    if server:
        label = f"{backend} of the server {one_line(redact_url(server), 80)} ({one_line(model, 80)})"
        return EmbeddingOffer(backend, label, {"model": model})
    problem = _local_problem(backend, sentence_transformers.EXTRA, model, project_dir)
    label = f"{backend} on this machine ({one_line(model, 80)}), more exact and slower"
    return EmbeddingOffer(backend, label, {"model": model}, problem)


def _openai(embeddings: Embeddings, environ: Mapping[str, str]) -> Iterator[EmbeddingOffer]:
    if not environ.get("OPENAI_API_KEY", "").strip():
        return
    settings = {"model": _model(embeddings, "openai", openai.DEFAULT_MODEL), "api_key": "env:OPENAI_API_KEY"}
    who = "OpenAI"
    if environ.get("OPENAI_BASE_URL", "").strip():
        settings["base_url"] = "env:OPENAI_BASE_URL"
        who = "the server of OPENAI_BASE_URL"
    yield EmbeddingOffer("openai", f"{who} ({one_line(settings['model'], 80)}), which gets the texts", settings)


def _model(embeddings: Embeddings, backend: str, default: str) -> str:
    """Return the model in `ktx.yaml` where it is one of this backend, else the usual one."""
    return (embeddings.model if embeddings.backend == backend else None) or default


def _local_problem(package: str, extra: str, model: str, project_dir: Path) -> KtxError | None:
    """Return what is missing: the package, else the model."""
    if not is_installed(package.replace("-", "_")):
        return missing_package(package, ImportError(f"no module {package}"), extra)
    try:
        model_folder(_named_by_hub(package, model, project_dir), project_dir)
    except KtxError as error:
        return error
    return None


def _named_by_hub(package: str, model: str, project_dir: Path) -> str:
    """Return the hub's name of a model: sentence-transformers takes its own ones without their first part."""
    bare = package == "sentence-transformers" and "/" not in model and not (project_dir / model).is_dir()
    return f"{package}/{model}" if bare else model
