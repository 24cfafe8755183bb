"""Vectors of the OpenAI API, or of a server that speaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import NotReadyError
from ktx_cli.llm.embeddings.answers import checked
from ktx_cli.llm.embeddings.http import Endpoint
from ktx_cli.llm.errors import LlmError
from ktx_cli.project.config.ingest import Embeddings, Retry
from ktx_cli.project.secrets import resolve

OPENAI_URL: Final = "https://api.openai.com/v1"
DEFAULT_MODEL: Final = "text-embedding-3-small"
_BATCH: Final = 100


class OpenAiEmbedder:
    """One model behind `POST <base_url>/embeddings`."""

    def __init__(self, endpoint: Endpoint, model: str, dimensions: int | None, batch_size: int) -> None:
        self._endpoint, self._name = endpoint, model
        self.model, self.dimensions, self.batch_size = f"openai:{model}", dimensions, batch_size

    @classmethod
    def of(cls, embeddings: Embeddings, retry: Retry, project_dir: Path, environ: Mapping[str, str]) -> OpenAiEmbedder:
        """Return the embedder of the settings. Raises `SecretError`; `NotReadyError` where OpenAI's key is missing."""
        where = "ingest.embeddings.openai"
        openai = embeddings.openai
        secret, address = openai.api_key, openai.base_url
        if secret is None and address is None:
            raise NotReadyError(
                f"`{where}.api_key` is missing", hint=f"ktx config set {where}.api_key env:OPENAI_API_KEY"
            )
        url = resolve(
            address or OPENAI_URL, project_dir=project_dir, environ=environ, where=f"{where}.base_url"
        ).rstrip("/")
        key = secret and resolve(secret, project_dir=project_dir, environ=environ, where=f"{where}.api_key")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        endpoint = Endpoint(f"{url}/embeddings", f"{where}.base_url", retry, headers)
        return cls(endpoint, embeddings.model or DEFAULT_MODEL, embeddings.dimensions, embeddings.batch_size or _BATCH)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text; an empty text, which the API refuses, is sent as a blank one."""
        body: dict[str, Any] = {"model": self._name, "input": [text or " " for text in texts]}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        answer = self._endpoint.post(body)
        try:
            ordered = sorted(answer["data"], key=lambda each: each["index"])
            vectors = [each["embedding"] for each in ordered]
        except (KeyError, TypeError) as error:
            raise LlmError(
                f"{self._endpoint.who} answered something else than vectors",
                code="execution",
                hint="ktx config set ingest.embeddings.openai.base_url URL, without `/embeddings` at its end",
            ) from error
        return checked(vectors, len(texts), self.dimensions, self._endpoint.who)
