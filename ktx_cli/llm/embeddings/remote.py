"""Posts JSON to an embeddings server: attempts, waits, and the errors they end in."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, NotReadyError, SettingPath
from ktx_cli.llm.backends.anthropic_api.backend import retry_after
from ktx_cli.llm.embeddings.port import DEFAULT_MODELS, MODEL_HINT, checked
from ktx_cli.llm.errors import LlmError
from ktx_cli.project import Embeddings, Retry, redact_url, resolve

if TYPE_CHECKING:
    import httpx2


TIMEOUT_SECONDS: Final = 60.0
_CODES: Final = {401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context"}
_HINTS: Final = {
    "auth": Hint("check {}", SettingPath("ingest.embeddings.openai.api_key")),
    "billing": Hint("look at the billing of the account, then run: {}", Command("index")),
    "rate_limit": Hint("run it again later: {}", Command("index")),
    "overloaded": Hint("run it again later: {}", Command("index")),
    "context": Command("config", "set", "ingest.embeddings.batchSize", 8),
    "model": MODEL_HINT,
}
_WORDS: Final = {
    "auth": "did not accept the key",
    "billing": "refused for lack of credit",
    "rate_limit": "asks to wait before the next request",
    "overloaded": "is overloaded or failing",
    "context": "finds the texts too long",
    "model": "has no such model or address",
    "connection": "cannot be reached",
    "execution": "refused the request",
}


@dataclass(slots=True)
class Endpoint:
    """An address that takes JSON. `setting`: the key of `ktx.yaml` with the address, for hints."""

    url: str
    setting: str
    retry: Retry
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def who(self) -> str:
        """What errors call it."""
        return f"the embeddings server {redact_url(self.url)}"

    def post(self, body: Mapping[str, Any]) -> Any:
        """Return the answer to a request as JSON gives it; repeated as `ingest.rateLimit.retry` says."""
        import httpx2

        with httpx2.Client(timeout=TIMEOUT_SECONDS) as client:
            for attempt in range(1, self.retry.max_attempts + 1):
                try:
                    return self._once(client, body)
                except LlmError as error:
                    if not error.retryable or attempt == self.retry.max_attempts:
                        raise
                    wait(self._delay(attempt, error.retry_after))
        raise AssertionError("there is at least one attempt")

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
            raise self._error("execution", "the answer is no JSON") from error

    def _refused(self, response: httpx2.Response) -> LlmError:
        status = response.status_code
        code = _CODES.get(status) or ("rate_limit" if status == 429 else "overloaded" if status >= 500 else "execution")
        return self._error(code, response.text[:2000], status, retry_after(response.headers))

    def _error(self, code: str, detail: str, status: int | None = None, after: float | None = None) -> LlmError:
        reply = f" (HTTP {status})" if status is not None else ""
        hint = _HINTS.get(code, Command("config", "set", self.setting, "URL"))
        details = {} if status is None else {"status": status}
        return LlmError(
            f"{self.who} {_WORDS[code]}{reply}",
            code=code,
            hint=hint,
            detail=detail,
            retry_after=after,
            details=details,
        )

    def _delay(self, attempt: int, asked: float | None) -> float:
        retry = self.retry
        delay: float = min(retry.base_delay_ms * 2 ** (attempt - 1), retry.max_delay_ms) / 1000
        delay = delay * random.uniform(0.5, 1) if retry.jitter else delay
        return max(delay, min(asked or 0.0, retry.max_delay_ms / 1000))


def wait(seconds: float) -> None:
    """Do nothing for some seconds."""
    time.sleep(seconds)


OPENAI_URL: Final = "https://api.openai.com/v1"
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
                f"`{where}.api_key` is missing", hint=Command("config", "set", f"{where}.api_key", "env:OPENAI_API_KEY")
            )
        url = resolve(
            address or OPENAI_URL, project_dir=project_dir, environ=environ, where=f"{where}.base_url"
        ).rstrip("/")
        key = secret and resolve(secret, project_dir=project_dir, environ=environ, where=f"{where}.api_key")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        endpoint = Endpoint(f"{url}/embeddings", f"{where}.base_url", retry, headers)
        return cls(
            endpoint,
            embeddings.model or DEFAULT_MODELS["openai"],
            embeddings.dimensions,
            embeddings.batch_size or _BATCH,
        )

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
                hint=Hint(
                    "{}, without `/embeddings` at its end",
                    Command("config", "set", "ingest.embeddings.openai.base_url", "URL"),
                ),
            ) from error
        return checked(vectors, len(texts), self.dimensions, self._endpoint.who)
