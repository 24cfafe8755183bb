"""Detects what can compute embeddings: packages and model folders on this machine, local servers, keys."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError, one_line
from ktx_cli.jobs.setup.detect.models import MAX_BYTES, Listening, ModelOffer, ask, get_json
from ktx_cli.llm import DEFAULT_MODELS, missing_package, model_folder
from ktx_cli.project import Embeddings, KtxConfig, found_program, redact_url
from ktx_cli.warehouses import is_installed

MODEL2VEC: Final = "model2vec"
SENTENCE_TRANSFORMERS: Final = "sentence-transformers"
OPENAI: Final = "openai"


@dataclass(frozen=True, slots=True)
class EmbeddingServer:
    """A program that implements OpenAI's `embeddings` API. `info`: its own description of its only model, if it has
    one.
    """

    name: str
    port: int
    info: str | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"


OLLAMA: Final = "Ollama"
EMBEDDING_SERVERS: tuple[EmbeddingServer, ...] = (
    EmbeddingServer(OLLAMA, 11434),
    EmbeddingServer("LM Studio", 1234),
    EmbeddingServer("vLLM", 8000),
    EmbeddingServer("Text Embeddings Inference", 8080, "/info"),
)
"""The programs with their default ports."""

_EMBEDDING_NAME: Final = re.compile(
    r"embed|minilm|mpnet|(?:^|[/_-])(?:bge|e5|gte|gtr|jina|labse|m3e|paraphrase|potion|uae)(?![a-z0-9])", re.IGNORECASE
)
_OTHER_NAME: Final = re.compile(r"rerank|colbert|clip", re.IGNORECASE)
_MAX_FOLDERS: Final = 200
_MAX_OFFERS: Final = 4


def is_embedding_model(name: str) -> bool:
    """Return whether a model seems to compute embeddings of texts. Servers list all models without their purpose."""
    return _EMBEDDING_NAME.search(name) is not None and _OTHER_NAME.search(name) is None


def embedding_offers(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> list[ModelOffer]:
    """Return the backends, starting with `none`, which always works.

    Loads no model, downloads nothing, and sends no request beyond this machine.
    """
    embeddings = config.ingest.embeddings
    folders = list(_folders(project_dir, environ))
    return [
        ModelOffer("none", "full-text search only, without a model"),
        *_on_this_machine(MODEL2VEC, embeddings, project_dir, folders),
        *_on_this_machine(SENTENCE_TRANSFORMERS, embeddings, project_dir, folders),
        *_servers(),
        *_openai(embeddings, environ),
    ]


def how_to_get_a_model(offers: list[ModelOffer], environ: Mapping[str, str]) -> str | None:
    """Return a sentence with the command that fetches a model, or None if an offer can be used without a key."""
    if any(offer.problem is None and (offer.found or offer.backend not in ("none", OPENAI)) for offer in offers):
        return None
    if found_program(environ, "ollama") is not None:
        how = Hint("{}", Command("pull", "nomic-embed-text", program="ollama"))
    else:
        problems = {offer.backend: offer.problem for offer in offers if offer.problem is not None}
        problem = problems.get(MODEL2VEC)
        download = Command("download", DEFAULT_MODELS[MODEL2VEC], program="hf")
        missing = not is_installed("model2vec") and problem is not None
        install = Command("install", "ktx-cli[embeddings]", program="pip")
        how = Hint("{} && {}", install, download) if missing else Hint("{}", download)
    return f"No embedding model found. To fetch one: {how}"


# -- models on this machine ------------------------------------------------------------------------------------

_TITLES: Final = {
    MODEL2VEC: ("Model2Vec on this machine", "small and fast"),
    SENTENCE_TRANSFORMERS: ("sentence-transformers on this machine", "slower but more accurate"),
}


def _on_this_machine(
    backend: str, embeddings: Embeddings, project_dir: Path, folders: list[tuple[str, str]]
) -> Iterator[ModelOffer]:
    """Yield the configured or default model unless it is missing and others exist, then the others."""
    server = embeddings.sentence_transformers.base_url if backend == SENTENCE_TRANSFORMERS else None
    model = _model(embeddings, backend)
    if server:
        label = f"{backend} of the server {one_line(redact_url(server), 80)} ({one_line(model, 80)})"
        yield ModelOffer(backend, label, {"model": model})
        return
    title, quality = _TITLES[backend]
    others = [name for kind, name in folders if kind == backend and name != model][:_MAX_OFFERS]
    problem = _local_problem(backend, model, project_dir)
    is_chosen = embeddings.backend == backend and embeddings.model is not None
    if problem is None or is_chosen or not others:
        yield ModelOffer(backend, f"{title} ({one_line(model, 80)}), {quality}", {"model": model}, problem)
    for name in others:
        problem = _local_problem(backend, name, project_dir)
        yield ModelOffer(backend, f"{title} ({one_line(name, 80)}), {quality}", {"model": name}, problem, found=name)


def _model(embeddings: Embeddings, backend: str) -> str:
    """Return the model in `ktx.yaml` if it belongs to this backend, else the default model."""
    return (embeddings.model if embeddings.backend == backend else None) or DEFAULT_MODELS[backend]


def _local_problem(package: str, model: str, project_dir: Path) -> KtxError | None:
    """Return what is missing: the package, or else the model."""
    if not is_installed(package.replace("-", "_")):
        return missing_package(package)
    try:
        # sentence-transformers accepts its own models without the organization of the hub
        bare = package == SENTENCE_TRANSFORMERS and "/" not in model and not (project_dir / model).is_dir()
        model_folder(f"{package}/{model}" if bare else model, project_dir)
    except KtxError as error:
        return error
    return None


def _folders(project_dir: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the models on this machine: the backend that loads them, and their name for `ktx.yaml`."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or "")
    places = [(project_dir / "models", "models")]
    if home.is_absolute():
        places.append((home / "models", "~/models"))
    for place, shown in places:
        for folder in _subfolders(place):
            if (backend := _backend_of(folder)) is not None:
                yield backend, f"{shown}/{folder.name}"
    cache = _hub_cache(home, environ)
    for folder in _subfolders(cache) if cache is not None else ():
        kind, _, name = folder.name.partition("--")
        if kind == "models":
            backends = map(_backend_of, _subfolders(folder / "snapshots"))
            if (backend := next(filter(None, backends), None)) is not None:
                yield backend, name.replace("--", "/", 1)


def _hub_cache(home: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the folder in which the Hugging Face libraries look for models while they are offline."""
    for variable, below in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")):
        if (folder := Path(environ.get(variable, ""))).is_absolute():
            return folder / below
    return home / ".cache" / "huggingface" / "hub" if home.is_absolute() else None


def _subfolders(folder: Path) -> list[Path]:
    try:
        found = (each for each in folder.iterdir() if each.is_dir() and each.name.isprintable())
        return sorted(islice(found, _MAX_FOLDERS))
    except OSError:
        return []


def _backend_of(folder: Path) -> str | None:
    """Return the backend that can load a model folder, None if it is not an embedding model."""
    if (_read_json(folder / "config.json") or {}).get("model_type") == MODEL2VEC:
        return MODEL2VEC
    return SENTENCE_TRANSFORMERS if (folder / "modules.json").is_file() else None


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as stream:
            value = json.loads(stream.read(MAX_BYTES))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


# -- servers ---------------------------------------------------------------------------------------------------


def _servers() -> Iterator[ModelOffer]:
    """Yield the servers on this machine that have an embedding model."""
    if not EMBEDDING_SERVERS:
        return
    with ThreadPoolExecutor(len(EMBEDDING_SERVERS)) as pool:
        answers = list(pool.map(_embedding_models, EMBEDDING_SERVERS))
    for server, models in zip(EMBEDDING_SERVERS, answers, strict=True):
        if models:
            named = f"{one_line(models[0], 60)} and {len(models) - 1} more" if models[1:] else one_line(models[0], 80)
            settings = {"model": models[0], "base_url": f"{server.url}/v1"}
            yield ModelOffer(
                OPENAI, f"{server.name} on this machine ({named})", settings, None, models, found=f"{server.url}/v1"
            )


def _embedding_models(server: EmbeddingServer) -> tuple[str, ...]:
    answer: Listening | None = ask(server.url)
    if answer is not None and answer.models:
        return tuple(sorted(filter(is_embedding_model, answer.models)))
    status, value = (server.info and get_json(server.url, server.info)) or (0, None)
    if status != 200 or not isinstance(value, dict):
        return ()
    name, kind = value.get("model_id"), value.get("model_type")
    is_embedding = isinstance(kind, dict) and "embedding" in kind
    return (name,) if isinstance(name, str) and name.isprintable() and is_embedding else ()


def _openai(embeddings: Embeddings, environ: Mapping[str, str]) -> Iterator[ModelOffer]:
    if not environ.get("OPENAI_API_KEY", "").strip():
        return
    settings = {"model": _model(embeddings, OPENAI), "api_key": "env:OPENAI_API_KEY"}
    who = "OpenAI"
    if environ.get("OPENAI_BASE_URL", "").strip():
        settings["base_url"] = "env:OPENAI_BASE_URL"
        who = "the server in OPENAI_BASE_URL"
    yield ModelOffer(OPENAI, f"{who} ({one_line(settings['model'], 80)}), which receives the texts", settings)
