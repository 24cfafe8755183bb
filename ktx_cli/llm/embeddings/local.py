"""Models on this machine: a folder, or one that is in the cache of the Hugging Face hub; none is ever fetched."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, NotReadyError, one_line
from ktx_cli.llm.embeddings.port import DEFAULT_MODELS, MODEL_HINT, Embedder, checked
from ktx_cli.llm.errors import LlmError
from ktx_cli.project import Embeddings, KtxConfig, Retry, read_bytes, resolve_plain

if TYPE_CHECKING:
    from ktx_cli.llm.embeddings.remote import Endpoint

OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""The switches of the libraries that keep them off the network."""
QUIET: Final = "HF_HUB_DISABLE_PROGRESS_BARS"
"""The switch that keeps them from drawing on the terminal while they load a model."""


def stay_offline() -> None:
    """Keep the libraries of this process off the network, and off the terminal."""
    for name in (*OFFLINE, QUIET):
        os.environ[name] = "1"


def model_folder(model: str, project_dir: Path) -> Path:
    """Return the folder of a model: its path (from the project's folder), else where the hub's cache has it.

    Raises `NotReadyError` with the command that fetches it; `NotReadyError` too where the library is missing.
    """
    folder = project_dir / Path(model).expanduser()
    if folder.is_dir():
        return folder
    stay_offline()
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError as error:
        raise missing_package("huggingface_hub", error) from error
    try:
        return Path(snapshot_download(model, local_files_only=True))
    except HFValidationError as error:
        raise NotReadyError(
            f"the folder {folder} of the embeddings model is not there",
            hint=Command("config", "set", "ingest.embeddings.model", "FOLDER"),
            details={"model": model},
        ) from error
    except LocalEntryNotFoundError as error:
        raise NotReadyError(
            f"the embeddings model `{model}` is not on this machine, and ktx downloads nothing",
            hint=Command("download", model, program="hf"),
            details={"model": model},
        ) from error


_EXTRAS: Final = {"sentence-transformers": "ktx-cli[sentence-transformers]"}


def missing_package(name: str, error: ImportError | None = None) -> NotReadyError:
    """Return the error for a library that is not installed, with the extra of ktx that brings it."""
    return NotReadyError(
        f"the embeddings need the package {name}",
        hint=Command("install", _EXTRAS.get(name, "ktx-cli[embeddings]"), program="pip"),
        details={"missing": str(error or f"no module {name}")},
    )


_BATCH: Final = 256


class Model2VecEmbedder:
    """One model, loaded with the first text."""

    def __init__(self, name: str, project_dir: Path, dimensions: int | None, batch_size: int) -> None:
        self._name, self._project_dir = name, project_dir
        self._loaded: Any = None
        self._lock = threading.Lock()
        self.model, self.dimensions, self.batch_size = f"model2vec:{name}", dimensions, batch_size

    @classmethod
    def of(cls, embeddings: Embeddings, project_dir: Path) -> Model2VecEmbedder:
        """Return the embedder of the settings."""
        return cls(
            embeddings.model or DEFAULT_MODELS["model2vec"],
            project_dir,
            embeddings.dimensions,
            embeddings.batch_size or _BATCH,
        )

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; the first `dimensions` numbers of the model's, where they are set."""
        with self._lock:
            self._loaded = self._loaded or self._load()
            # One process: its worker processes would start anew for every batch.
            vectors = self._loaded.encode(list(texts), use_multiprocessing=False).tolist()
        return checked(vectors, len(texts), None, f"the model `{self._name}`")

    def _load(self) -> Any:
        stay_offline()
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise missing_package("model2vec", error) from error
        folder = model_folder(self._name, self._project_dir)
        try:
            return StaticModel.from_pretrained(folder, dimensionality=self.dimensions)
        except Exception as error:  # whatever a file that is no model makes its readers raise
            raise NotReadyError(
                f"the folder {folder} holds no Model2Vec model: {type(error).__name__}",
                hint=MODEL_HINT,
                details={"model": self._name},
            ) from error


_SERVER_BATCH: Final = 100
_SENTENCE_TRANSFORMERS_BATCH: Final = 32


def create(embeddings: Embeddings, retry: Retry, project_dir: Path, environ: Mapping[str, str]) -> Embedder:
    """Return the embedder of the settings: a server's where an address is set. Raises `SecretError`."""
    model = embeddings.model or DEFAULT_MODELS["sentence-transformers"]
    sentence_transformers = embeddings.sentence_transformers
    address, prefix = sentence_transformers.base_url, sentence_transformers.path_prefix
    if not address:
        return LocalEmbedder(
            model, project_dir, embeddings.dimensions, embeddings.batch_size or _SENTENCE_TRANSFORMERS_BATCH
        )
    where = "ingest.embeddings.sentenceTransformers.base_url"
    address = resolve_plain(address, project_dir=project_dir, environ=environ, where=where).strip()
    url = "/".join(part.strip("/") for part in (address, prefix or "", "embeddings/compute-bulk") if part.strip("/"))
    from ktx_cli.llm.embeddings.remote import Endpoint

    endpoint = Endpoint(url, where, retry)
    return ServerEmbedder(
        endpoint, model, embeddings.dimensions, min(embeddings.batch_size or _SERVER_BATCH, _SERVER_BATCH)
    )


class ServerEmbedder:
    """A server that answers `POST .../embeddings/compute-bulk` with the vectors of the one model it has."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int | None, batch_size: int) -> None:
        self._endpoint = endpoint
        self.model, self.dimensions, self.batch_size = f"sentence-transformers:{model}", dimensions, batch_size

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; an empty text, which the server refuses, is sent as a blank one."""
        answer = self._endpoint.post({"texts": [text or " " for text in texts]})
        if not isinstance(answer, dict) or "embeddings" not in answer:
            raise LlmError(
                f"{self._endpoint.who} answered something else than vectors",
                code="execution",
                hint=Command("config", "set", self._endpoint.setting, "URL"),
            )
        return checked(answer["embeddings"], len(texts), self.dimensions, self._endpoint.who)


class LocalEmbedder:
    """A model in this process, loaded with the first text from a folder (of the project) or the hub's cache."""

    def __init__(self, name: str, project_dir: Path, dimensions: int | None, batch_size: int) -> None:
        self._name, self._folder = name, project_dir / Path(name).expanduser()
        self._loaded: Any = None
        self._lock = threading.Lock()
        self.model, self.dimensions, self.batch_size = f"sentence-transformers:{name}", dimensions, batch_size

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; one thread after the other, for the tokenizers are not made for several."""
        with self._lock:
            self._loaded = self._loaded or self._load()
            vectors = self._loaded.encode(list(texts), show_progress_bar=False).tolist()
        return checked(vectors, len(texts), self.dimensions, f"the model `{self._name}`")

    def _load(self) -> Any:
        stay_offline()
        _require_no_code(self._folder)
        try:
            from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise missing_package("sentence-transformers", error) from error
        try:
            place = str(self._folder) if self._folder.is_dir() else self._name
            return SentenceTransformer(place, local_files_only=True, truncate_dim=self.dimensions)
        except (OSError, ValueError) as error:
            raise NotReadyError(
                f"the embeddings model `{self._name}` is not on this machine, and ktx downloads nothing",
                hint=Command("download", self._name, program="hf"),
                details={"model": self._name},
            ) from error


def _require_no_code(folder: Path) -> None:
    """Raise for a folder whose model is made of other classes than the package's own.

    The package runs Python files of a folder, of one in the project too, which could have come with a repository.
    """
    try:
        modules = json.loads(read_bytes(folder / "modules.json") or b"[]")
        kinds = [str(module["type"]) for module in modules]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # the package says what is wrong with it
    foreign = next((kind for kind in kinds if not kind.startswith("sentence_transformers.")), None)
    if foreign is not None:
        raise NotReadyError(
            f"the embeddings model in {folder} runs code of its own (`{one_line(foreign, 80)}`), which ktx does not",
            hint=Command("config", "set", "ingest.embeddings.model", DEFAULT_MODELS["sentence-transformers"]),
            details={"path": str(folder)},
        )


def create_embedder(config: KtxConfig, project_dir: Path, environ: Mapping[str, str]) -> Embedder | None:
    """Return the embedder of `ingest.embeddings`, None where the backend is `none`; loads no model yet.

    Raises `SecretError` for a key that cannot be resolved, `ConfigError` where a setting is missing.
    """
    ingest = config.ingest
    embeddings = ingest.embeddings
    if embeddings.backend == "openai":
        from ktx_cli.llm.embeddings.remote import OpenAiEmbedder

        return OpenAiEmbedder.of(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "sentence-transformers":
        return create(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "model2vec":
        return Model2VecEmbedder.of(embeddings, project_dir)
    return None
