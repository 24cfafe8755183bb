"""Gateways that listen on this machine: they are asked for their models, without a key, and nobody else is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ktx_cli.core import KtxError, monotonic, one_line
from ktx_cli.llm import DEFAULT_MODELS, missing_package, model_folder
from ktx_cli.project import Embeddings, KtxConfig, redact_url
from ktx_cli.sources import bound
from ktx_cli.warehouses import is_installed, is_local

if TYPE_CHECKING:
    import httpx2


CONNECT_SECONDS: Final = 0.2
ANSWER_SECONDS: Final = 0.5
"""How long all of an answer may take, connecting included."""

MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class LocalGateway:
    """A program that speaks the Anthropic API. `keys`: variables its key may be in."""

    name: str
    port: int
    keys: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


LOCAL_GATEWAYS: Final = (
    LocalGateway("LiteLLM", 4000, ("LITELLM_API_KEY", "LITELLM_MASTER_KEY")),
    LocalGateway("Ollama", 11434),
    LocalGateway("LM Studio", 1234),
)
"""The programs and the ports they listen on unless they are told another."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Something answers there. `models`: what it says it has. `asks_for_key`: it says that only to who has one."""

    models: tuple[str, ...] = ()
    asks_for_key: bool = False


def ask(url: str) -> Listening | None:
    """Return what an address of this machine answers to `GET /v1/models`; None where no gateway does in time."""
    if not _is_plain_loopback(url):
        return None
    import httpx2

    ends = monotonic() + ANSWER_SECONDS

    def left() -> float:
        if (seconds := ends - monotonic()) > 0:
            return seconds
        raise TimeoutError

    timeout = httpx2.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
    # No certificates are read for plain HTTP: that alone takes 40 ms. No proxy stands before loopback.
    with httpx2.Client(timeout=timeout, trust_env=False, verify=False) as client:
        bound(client, left)
        try:
            with client.stream("GET", f"{url.rstrip('/')}/v1/models") as response:
                return _understood(response.status_code, _content(response))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            return None


def _is_plain_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and is_local(parts.hostname or "")
    except ValueError:
        return False


def _content(response: httpx2.Response) -> Any:
    """Return the JSON of an answer; `ValueError` for another, or one that is too long."""
    content = b""
    for piece in response.iter_bytes():
        content += piece
        if len(content) > MAX_BYTES:
            raise ValueError("too long")
    return json.loads(content)


def _understood(status: int, value: Any) -> Listening | None:
    """Return what an answer means; a web server that knows nothing of models is no gateway."""
    if not isinstance(value, dict):
        return None
    if status in (401, 403) and "error" in value:
        return Listening(asks_for_key=True)
    entries = value.get("data")
    if status != 200 or not isinstance(entries, list):
        return None
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return Listening(tuple(name for name in names if isinstance(name, str) and name.isprintable()))


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
    model = _model(embeddings, "model2vec", DEFAULT_MODELS["model2vec"])
    problem = _local_problem("model2vec", model, project_dir)
    label = f"Model2Vec on this machine ({one_line(model, 80)}), small and fast"
    return EmbeddingOffer("model2vec", label, {"model": model}, problem)


def _sentence_transformers(embeddings: Embeddings, project_dir: Path) -> EmbeddingOffer:
    backend, server = "sentence-transformers", embeddings.sentence_transformers.base_url
    model = _model(embeddings, backend, DEFAULT_MODELS[backend])
    if server:
        label = f"{backend} of the server {one_line(redact_url(server), 80)} ({one_line(model, 80)})"
        return EmbeddingOffer(backend, label, {"model": model})
    problem = _local_problem(backend, model, project_dir)
    label = f"{backend} on this machine ({one_line(model, 80)}), more exact and slower"
    return EmbeddingOffer(backend, label, {"model": model}, problem)


def _openai(embeddings: Embeddings, environ: Mapping[str, str]) -> Iterator[EmbeddingOffer]:
    if not environ.get("OPENAI_API_KEY", "").strip():
        return
    settings = {"model": _model(embeddings, "openai", DEFAULT_MODELS["openai"]), "api_key": "env:OPENAI_API_KEY"}
    who = "OpenAI"
    if environ.get("OPENAI_BASE_URL", "").strip():
        settings["base_url"] = "env:OPENAI_BASE_URL"
        who = "the server of OPENAI_BASE_URL"
    yield EmbeddingOffer("openai", f"{who} ({one_line(settings['model'], 80)}), which gets the texts", settings)


def _model(embeddings: Embeddings, backend: str, default: str) -> str:
    """Return the model in `ktx.yaml` where it is one of this backend, else the usual one."""
    return (embeddings.model if embeddings.backend == backend else None) or default


def _local_problem(package: str, model: str, project_dir: Path) -> KtxError | None:
    """Return what is missing: the package, else the model."""
    if not is_installed(package.replace("-", "_")):
        return missing_package(package)
    try:
        model_folder(_named_by_hub(package, model, project_dir), project_dir)
    except KtxError as error:
        return error
    return None


def _named_by_hub(package: str, model: str, project_dir: Path) -> str:
    """Return the hub's name of a model: sentence-transformers takes its own ones without their first part."""
    bare = package == "sentence-transformers" and "/" not in model and not (project_dir / model).is_dir()
    return f"{package}/{model}" if bare else model
