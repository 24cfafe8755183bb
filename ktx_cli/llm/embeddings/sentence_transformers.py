"""Vectors of a sentence-transformers model: in this process where it is installed, or of a server that has it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import NotReadyError
from ktx_cli.core.text import one_line, shell_words
from ktx_cli.llm.embeddings.answers import checked
from ktx_cli.llm.embeddings.http import Endpoint
from ktx_cli.llm.embeddings.local import missing_package, stay_offline
from ktx_cli.llm.embeddings.port import Embedder
from ktx_cli.llm.errors import LlmError
from ktx_cli.project.config.ingest import Embeddings, Retry
from ktx_cli.project.files import read_bytes
from ktx_cli.project.secrets import resolve_plain

DEFAULT_MODEL: Final = "sentence-transformers/all-MiniLM-L6-v2"
EXTRA: Final = "ktx-cli[sentence-transformers]"
"""What brings the package."""

_SERVER_BATCH: Final = 100
_BATCH: Final = 32


def create(embeddings: Embeddings, retry: Retry, project_dir: Path, environ: Mapping[str, str]) -> Embedder:
    """Return the embedder of the settings: a server's where an address is set. Raises `SecretError`."""
    model = embeddings.model or DEFAULT_MODEL
    sentence_transformers = embeddings.sentence_transformers
    address, prefix = sentence_transformers.base_url, sentence_transformers.path_prefix
    if not address:
        return LocalEmbedder(model, project_dir, embeddings.dimensions, embeddings.batch_size or _BATCH)
    where = "ingest.embeddings.sentenceTransformers.base_url"
    address = resolve_plain(address, project_dir=project_dir, environ=environ, where=where).strip()
    url = "/".join(part.strip("/") for part in (address, prefix or "", "embeddings/compute-bulk") if part.strip("/"))
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
                hint=f"ktx config set {self._endpoint.setting} URL",
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
            raise missing_package("sentence-transformers", error, EXTRA) from error
        try:
            place = str(self._folder) if self._folder.is_dir() else self._name
            return SentenceTransformer(place, local_files_only=True, truncate_dim=self.dimensions)
        except (OSError, ValueError) as error:
            raise NotReadyError(
                f"the embeddings model `{self._name}` is not on this machine, and ktx downloads nothing",
                hint=shell_words("hf", "download", self._name),
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
            hint=shell_words("ktx", "config", "set", "ingest.embeddings.model", DEFAULT_MODEL),
            details={"path": str(folder)},
        )
