"""Embedders: their interface, models on this machine, and servers with OpenAI's `embeddings` API."""

from __future__ import annotations

import json
import math
import os
import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ktx_cli.core import Command, Hint, KtxError, NotReadyError, SettingPath, one_line
from ktx_cli.llm.errors import LlmError
from ktx_cli.project import Embeddings, KtxConfig, Retry, origin_of, read_bytes, redact_url, resolve, resolve_plain

if TYPE_CHECKING:
    import httpx2


class Embedder(Protocol):
    """Computes vectors for texts with one model.

    `model`: the backend and the model, which make vectors comparable. `dimensions`: the length of a vector, None if it
    is only known from the first one. `batch_size`: the maximum number of texts per call.
    """

    model: str
    dimensions: int | None
    batch_size: int

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order; at most `batch_size` texts.

        Raises `KtxError`: the model is missing (`not_ready`), its server cannot be reached (`connection`), rejects the
        key (`auth`), asks to wait (`rate_limit`) or returns something else (`execution`).
        """
        ...


@runtime_checkable
class StatesLength(Protocol):
    """An embedder that may know the length of its vectors without computing one."""

    def stated_length(self) -> int | None:
        """Return the length that the files of the model state, or None if they state none.

        Raises `NotReadyError` if the model is missing.
        """
        ...


DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "model2vec": "minishlab/potion-base-8M",
    "sentence-transformers": "sentence-transformers/all-MiniLM-L6-v2",
    "openai": "text-embedding-3-small",
}
"""Backend -> its default model."""

MODEL_HINT = Command("config", "set", "ingest.embeddings.model", "MODEL")


def checked(vectors: Any, count: int, dimensions: int | None, who: str) -> list[list[float]]:
    """Return the vectors in an answer; raises `LlmError` (`execution`) if they are not as requested."""
    if not isinstance(vectors, Sequence) or len(vectors) != count:
        found = f"{len(vectors)} vectors" if isinstance(vectors, Sequence) else "no vectors"
        raise _malformed(f"{who} returned {found} for {count} texts")
    checked = [[_number(value, who) for value in _listed(vector, who)] for vector in vectors]
    lengths = {len(vector) for vector in checked}
    if dimensions is not None and lengths - {dimensions}:
        message = (
            f"{who} returned vectors of {max(lengths)} numbers, but `ingest.embeddings.dimensions` is {dimensions}"
        )
        hint = Command("config", "set", "ingest.embeddings.dimensions", max(lengths))
        raise LlmError(message, code="execution", hint=hint)
    if len(lengths) > 1 or 0 in lengths:
        raise _malformed(f"{who} returned vectors of different lengths")
    return checked


def _listed(vector: Any, who: str) -> Sequence[Any]:
    if isinstance(vector, Sequence) and not isinstance(vector, str):
        return vector
    raise _malformed(f"{who} returned a vector that is not a list of numbers")


def _number(value: Any, who: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise _malformed(f"{who} returned a vector that is not a list of numbers")


def _malformed(message: str) -> LlmError:
    return LlmError(message, code="execution", hint=MODEL_HINT)


OFFLINE: Final = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""Environment variables that keep the libraries off the network."""
QUIET: Final = "HF_HUB_DISABLE_PROGRESS_BARS"
"""Environment variable that keeps the libraries from drawing on the terminal while they load a model."""


def stay_offline() -> None:
    """Keep the libraries of this process off the network, and off the terminal."""
    for name in (*OFFLINE, QUIET):
        os.environ[name] = "1"


def model_folder(model: str, project_dir: Path) -> Path:
    """Return the folder of a model: its path (relative to the project), or its location in the hub's cache.

    Raises `NotReadyError` with the command that downloads it, also if the library is missing.
    """
    folder = origin_of(project_dir) / Path(model).expanduser()
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
        message = f"the folder {folder} of the embeddings model does not exist"
        hint = Command("config", "set", "ingest.embeddings.model", "FOLDER")
        raise NotReadyError(message, hint=hint, details={"model": model}) from error
    except LocalEntryNotFoundError as error:
        message = f"the embeddings model `{model}` is not on this machine, and ktx does not download models"
        raise NotReadyError(message, hint=Command("download", model, program="hf"), details={"model": model}) from error


_EXTRAS: Final = {"sentence-transformers": "ktx-cli[sentence-transformers]"}


def missing_package(name: str, error: ImportError | None = None) -> NotReadyError:
    """Return the error for a library that is not installed, with the ktx extra that installs it."""
    message = f"embeddings require the package {name}"
    hint = Command("install", _EXTRAS.get(name, "ktx-cli[embeddings]"), program="pip")
    return NotReadyError(message, hint=hint, details={"missing": str(error or f"no module {name}")})


_BATCH: Final = 256
_MOST_HEADER: Final = 1 << 20
"""The most bytes of a header of a file of tensors that are read."""


class Model2VecEmbedder:
    """One model, loaded when the first text arrives."""

    def __init__(self, name: str, project_dir: Path, dimensions: int | None, batch_size: int) -> None:
        self._name, self._project_dir = name, project_dir
        self._loaded: Any = None
        self._lock = threading.Lock()
        self.model, self.dimensions, self.batch_size = f"model2vec:{name}", dimensions, batch_size

    @classmethod
    def of(cls, embeddings: Embeddings, project_dir: Path) -> Model2VecEmbedder:
        """Return the embedder for the settings."""
        model, batch = embeddings.model or DEFAULT_MODELS["model2vec"], embeddings.batch_size or _BATCH
        return cls(model, project_dir, embeddings.dimensions, batch)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, cut to its first `dimensions` numbers if set."""
        with self._lock:
            self._loaded = self._loaded or self._load()
            # One process: its worker processes would be started again for every batch.
            vectors = self._loaded.encode(list(texts), use_multiprocessing=False).tolist()
        return checked(vectors, len(texts), None, f"the model `{self._name}`")

    def stated_length(self) -> int | None:
        """Return the number of columns of the table of vectors, as `dimensions` cuts it."""
        try:
            with (model_folder(self._name, self._project_dir) / "model.safetensors").open("rb") as stream:
                header = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), _MOST_HEADER)))
            length = int(header["embeddings"]["shape"][1])
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return None  # loading the model tells what is wrong with it
        return length if self.dimensions is None else min(length, self.dimensions)

    def _load(self) -> Any:
        stay_offline()
        try:
            from model2vec import StaticModel
        except ImportError as error:
            raise missing_package("model2vec", error) from error
        folder = model_folder(self._name, self._project_dir)
        try:
            return StaticModel.from_pretrained(folder, dimensionality=self.dimensions)
        except Exception as error:  # loading an invalid model file can raise anything
            message = f"the folder {folder} does not contain a Model2Vec model: {type(error).__name__}"
            raise NotReadyError(message, hint=MODEL_HINT, details={"model": self._name}) from error


_SERVER_BATCH: Final = 100
_SENTENCE_TRANSFORMERS_BATCH: Final = 32


def create(embeddings: Embeddings, retry: Retry, project_dir: Path, environ: Mapping[str, str]) -> Embedder:
    """Return the embedder for the settings, which uses a server if a URL is set. Raises `SecretError`."""
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
    endpoint = Endpoint(url, where, retry)
    return ServerEmbedder(
        endpoint, model, embeddings.dimensions, min(embeddings.batch_size or _SERVER_BATCH, _SERVER_BATCH)
    )


class ServerEmbedder:
    """A server whose `POST .../embeddings/compute-bulk` returns the vectors of its single model."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int | None, batch_size: int) -> None:
        self._endpoint = endpoint
        self.model, self.dimensions, self.batch_size = f"sentence-transformers:{model}", dimensions, batch_size

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; an empty text, which the server rejects, is sent as a space."""
        answer = self._endpoint.post({"texts": [text or " " for text in texts]})
        if not isinstance(answer, dict) or "embeddings" not in answer:
            message = f"{self._endpoint.who} did not return vectors"
            raise LlmError(message, code="execution", hint=Command("config", "set", self._endpoint.setting, "URL"))
        return checked(answer["embeddings"], len(texts), self.dimensions, self._endpoint.who)


class LocalEmbedder:
    """A model in this process, loaded for the first text from a folder (in the project) or the hub's cache."""

    def __init__(self, name: str, project_dir: Path, dimensions: int | None, batch_size: int) -> None:
        self._name, self._project_dir = name, project_dir
        self._folder = origin_of(project_dir) / Path(name).expanduser()
        self._loaded: Any = None
        self._lock = threading.Lock()
        self.model, self.dimensions, self.batch_size = f"sentence-transformers:{name}", dimensions, batch_size

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; one thread at a time, because the tokenizers are not thread-safe."""
        with self._lock:
            self._loaded = self._loaded or self._load()
            vectors = self._loaded.encode(list(texts), show_progress_bar=False).tolist()
        return checked(vectors, len(texts), self.dimensions, f"the model `{self._name}`")

    def stated_length(self) -> int | None:
        """Return the length of what the last part of the model with a stated length returns, as `dimensions` cuts it.

        A part that pools in several ways at once returns more, and is not the stated one.
        """
        length = None
        try:
            folder = model_folder(self._name, self._project_dir)
            for module in json.loads(read_bytes(folder / "modules.json") or b"[]"):
                settings = json.loads(read_bytes(folder / module["path"] / "config.json") or b"{}")
                length = settings.get("out_features", settings.get("word_embedding_dimension", length))
        except (KtxError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None  # as above
        return length if self.dimensions is None or length is None else min(length, self.dimensions)

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
            message = f"the embeddings model `{self._name}` is not on this machine, and ktx does not download models"
            hint = Command("download", self._name, program="hf")
            raise NotReadyError(message, hint=hint, details={"model": self._name}) from error


def _require_no_code(folder: Path) -> None:
    """Raise for a folder whose model uses classes outside the package.

    The package runs Python files in a model's folder, which may be in the project and have come with a repository.
    """
    try:
        modules = json.loads(read_bytes(folder / "modules.json") or b"[]")
        kinds = [str(module["type"]) for module in modules]
    except (ValueError, TypeError, KeyError, RecursionError):
        return  # the package reports what is wrong with it
    foreign = next((kind for kind in kinds if not kind.startswith("sentence_transformers.")), None)
    if foreign is not None:
        raise NotReadyError(
            f"the embeddings model in {folder} runs its own code (`{one_line(foreign, 80)}`), which ktx does not allow",
            hint=Command("config", "set", "ingest.embeddings.model", DEFAULT_MODELS["sentence-transformers"]),
            details={"path": str(folder)},
        )


def create_embedder(config: KtxConfig, project_dir: Path, environ: Mapping[str, str]) -> Embedder | None:
    """Return the embedder for `ingest.embeddings`, or None for the backend `none`, without loading a model yet.

    Raises `SecretError` for a key that cannot be resolved, `ConfigError` for a missing setting.
    """
    ingest = config.ingest
    embeddings = ingest.embeddings
    if embeddings.backend == "openai":
        return OpenAiEmbedder.of(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "sentence-transformers":
        return create(embeddings, ingest.rate_limit.retry, project_dir, environ)
    if embeddings.backend == "model2vec":
        return Model2VecEmbedder.of(embeddings, project_dir)
    return None


TIMEOUT_SECONDS: Final = 60.0
_CODES: Final = {401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context"}
_HINTS: Final = {
    "auth": Hint("check {}", SettingPath("ingest.embeddings.openai.api_key")),
    "billing": Hint("check the billing of the account, then run: {}", Command("index")),
    "rate_limit": Hint("run it again later: {}", Command("index")),
    "overloaded": Hint("run it again later: {}", Command("index")),
    "context": Command("config", "set", "ingest.embeddings.batchSize", 8),
    "model": MODEL_HINT,
}
_WORDS: Final = {
    "auth": "rejected the key", "billing": "rejected the request because of insufficient credit",
    "rate_limit": "asks ktx to wait before the next request", "overloaded": "is overloaded or failing",
    "context": "reports that the texts are too long", "model": "does not have this model or URL",
    "connection": "cannot be reached", "execution": "rejected the request",
}  # fmt: skip


@dataclass(slots=True)
class Endpoint:
    """A URL that accepts JSON. `setting`: the key of `ktx.yaml` with the URL, for hints."""

    url: str
    setting: str
    retry: Retry
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """Its name in errors."""
        return f"the embeddings server {redact_url(self.url)}"

    def post(self, body: Mapping[str, Any]) -> Any:
        """Return the JSON answer to a request, retried as configured in `ingest.rateLimit.retry`."""
        import httpx2

        with httpx2.Client(timeout=TIMEOUT_SECONDS) as client:
            for attempt in range(1, self.retry.max_attempts + 1):
                try:
                    return self._once(client, body)
                except LlmError as error:
                    if not error.retryable or attempt == self.retry.max_attempts:
                        raise
                    wait(self._delay(attempt, error.retry_after))
        raise AssertionError("at least one attempt is required")

    def _once(self, client: httpx2.Client, body: Mapping[str, Any]) -> Any:
        import httpx2

        try:
            response = client.post(self.url, json=body, headers=dict(self.headers))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._error("connection", f"{type(error).__name__}: {error}") from error
        if response.status_code >= 300:
            raise self._refused(response)
        try:
            return response.json()
        except ValueError as error:
            raise self._error("execution", "the answer is not JSON") from error

    def _refused(self, response: httpx2.Response) -> LlmError:
        from ktx_cli.llm.governor import retry_after

        status = response.status_code
        code = _CODES.get(status) or ("rate_limit" if status == 429 else "overloaded" if status >= 500 else "execution")
        return self._error(code, response.text[:2000], status, retry_after(response.headers))

    def _error(self, code: str, detail: str, status: int | None = None, after: float | None = None) -> LlmError:
        reply = f" (HTTP {status})" if status is not None else ""
        hint = _HINTS.get(code, Command("config", "set", self.setting, "URL"))
        details = {} if status is None else {"status": status}
        message = f"{self.who} {_WORDS[code]}{reply}"
        return LlmError(message, code=code, hint=hint, detail=detail, retry_after=after, details=details)

    def _delay(self, attempt: int, asked: float | None) -> float:
        retry = self.retry
        delay: float = min(retry.base_delay_ms * 2 ** (attempt - 1), retry.max_delay_ms) / 1000
        delay = delay * random.uniform(0.5, 1) if retry.jitter else delay
        return max(delay, min(asked or 0.0, retry.max_delay_ms / 1000))


def wait(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)


OPENAI_URL: Final = "https://api.openai.com/v1"
_OPENAI_BATCH: Final = 100


class OpenAiEmbedder:
    """One model behind `POST <base_url>/embeddings`."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int | None, batch_size: int) -> None:
        self._endpoint, self._name = endpoint, model
        self.model, self.dimensions, self.batch_size = f"openai:{model}", dimensions, batch_size

    @classmethod
    def of(cls, embeddings: Embeddings, retry: Retry, project_dir: Path, environ: Mapping[str, str]) -> OpenAiEmbedder:
        """Return the embedder of the settings. Raises `SecretError`; `NotReadyError` if OpenAI's key is missing."""
        where = "ingest.embeddings.openai"
        openai = embeddings.openai
        secret, address = openai.api_key, openai.base_url
        if secret is None and address is None:
            message = f"`{where}.api_key` is missing"
            raise NotReadyError(message, hint=Command("config", "set", f"{where}.api_key", "env:OPENAI_API_KEY"))
        url = resolve(
            address or OPENAI_URL, project_dir=project_dir, environ=environ, where=f"{where}.base_url"
        ).rstrip("/")
        key = secret and resolve(secret, project_dir=project_dir, environ=environ, where=f"{where}.api_key")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        endpoint = Endpoint(f"{url}/embeddings", f"{where}.base_url", retry, headers)
        model, batch = embeddings.model or DEFAULT_MODELS["openai"], embeddings.batch_size or _OPENAI_BATCH
        return cls(endpoint, model, embeddings.dimensions, batch)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; an empty text, which the API rejects, is sent as a space."""
        body: dict[str, Any] = {"model": self._name, "input": [text or " " for text in texts]}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        answer = self._endpoint.post(body)
        try:
            ordered = sorted(answer["data"], key=lambda each: each["index"])
            vectors = [each["embedding"] for each in ordered]
        except (KeyError, TypeError) as error:
            message = f"{self._endpoint.who} did not return vectors"
            address = Command("config", "set", "ingest.embeddings.openai.base_url", "URL")
            hint = Hint("{}, without the trailing `/embeddings`", address)
            raise LlmError(message, code="execution", hint=hint) from error
        return checked(vectors, len(texts), self.dimensions, self._endpoint.who)
