"""The backend `gemini`: turns in ktx's own agent loop, through the `google-genai` package."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, KtxError
from ktx_cli.llm.agent_loop import ModelTurn, OwnLoopBackend
from ktx_cli.llm.backends.gemini_api.contents import (
    MALFORMED,
    StreamedAnswer,
    read_answer,
    request_config,
    request_contents,
    unique_calls,
)
from ktx_cli.llm.backends.gemini_api.failures import translate
from ktx_cli.llm.errors import llm_error
from ktx_cli.llm.registry import missing_client
from ktx_cli.llm.settings import missing_setting, resolved_keys, resolved_place
from ktx_cli.llm.types import Cost
from ktx_cli.llm.usage import cost_of
from ktx_cli.project import KtxConfig

if TYPE_CHECKING:
    import httpx2
    from google.genai import Client

    from ktx_cli.llm.agent_loop import Backend, CallRecord, CallSpec, Conversation, Shared

GEMINI_URL: Final = "https://generativelanguage.googleapis.com"
API_VERSION: Final = "v1beta"
"""The version of the API that has function calls with JSON Schema, and thinking levels."""

TIMEOUT_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
MALFORMED_ATTEMPTS: Final = 3
"""Maximum number of requests for one turn whose answers the API cannot read."""


class GeminiBackend(OwnLoopBackend):
    """Runs calls against the Gemini API."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name, shared)
        self._connected = make_client(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn, again if the API could not read a call of the model and returned nothing of it."""
        for _ in range(MALFORMED_ATTEMPTS):
            answer = StreamedAnswer()
            await self._ask(spec, conversation, answer, record)
            if answer.ended not in MALFORMED:
                return self._turn(spec, conversation, answer, record)
            record.unit(answer.answer_id, answer.usage, _cost(answer, spec))
        message = f"the model `{spec.model}` called a tool in a form that cannot be read, {MALFORMED_ATTEMPTS} times"
        raise llm_error("execution", **spec.names, message=message)

    async def account(self) -> str:
        """Return where the credentials come from; only the probe's turn proves that a key works."""
        return "API key"

    def versions(self) -> Mapping[str, str]:
        """Return the SDK version and the URL."""
        return {"google-genai": importlib.metadata.version("google-genai"), "base_url": self._connected.base_url}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connected.aclose()

    async def _ask(
        self, spec: CallSpec, conversation: Conversation, answer: StreamedAnswer, record: CallRecord
    ) -> None:
        on_text: Callable[[str], None] = record.text_delta if spec.kind in ("text", "loop") else _drop
        try:
            stream: Any = await self._connected.client.aio.models.generate_content_stream(
                model=spec.model,
                contents=list(request_contents(conversation)),
                config=request_config(spec, conversation),
            )
            async with contextlib.aclosing(stream) as chunks:
                await read_answer(chunks, answer, on_text)
        except KtxError:
            raise
        except Exception as error:
            raise translate(error, spec.names) from error
        finally:
            if answer.answer_id and answer.ended is None:
                record.unit(answer.answer_id, answer.usage, _cost(answer, spec), complete=False)

    def _turn(
        self, spec: CallSpec, conversation: Conversation, answer: StreamedAnswer, record: CallRecord
    ) -> ModelTurn:
        if answer.ended is None:
            raise llm_error("connection", **spec.names, message="the model's answer was cut off")
        cost = _cost(answer, spec)
        if answer.end is None:
            record.unit(answer.answer_id, answer.usage, cost)
            message = f"the answer from the model `{spec.model}` ended with `{answer.ended}`, which is not supported"
            raise llm_error("execution", **spec.names, message=message)
        calls = unique_calls(answer.calls, conversation) if answer.end == "tools" else []
        facts = (answer.usage, cost, answer.answer_id, answer.model)
        return ModelTurn(answer.text, tuple(calls), answer.end, *facts, raw=answer.echo())


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    return GeminiBackend(name, shared)


def _cost(answer: StreamedAnswer, spec: CallSpec) -> Cost:
    return cost_of(spec.backend, answer.model or spec.model, answer.usage)


def _drop(delta: str) -> None:
    """Keep the text of object calls and probes out of the stream."""


@dataclass(frozen=True, slots=True)
class ConnectedClient:
    """A client of the SDK, its URL, and its HTTP clients, which the SDK does not close because they are not its own."""

    client: Client
    base_url: str
    http_client: httpx2.Client
    async_http_client: httpx2.AsyncClient

    async def aclose(self) -> None:
        """Close the connections."""
        await self.async_http_client.aclose()
        self.http_client.close()


def make_client(backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> ConnectedClient:
    """Return the client of a backend.

    Raises `ConfigError` or `SecretError` for missing settings or a missing package.

    The SDK reads keys, URLs, the version of the API and the switch to Vertex AI from the environment unless they are
    given: all are given here. It has its own HTTP clients, with certificates of the environment, unless both are given.
    """
    problem = missing_setting(config, backend) or missing_client(backend)
    if problem is not None:
        raise problem
    logging.getLogger("google_genai").setLevel(logging.ERROR)  # it warns about keys that are not used
    import httpx2
    from google.genai import Client, types

    key = next(iter(resolved_keys(config, backend, project_dir=project_dir, environ=environ).values()), "")
    place = resolved_place(config, backend, project_dir=project_dir, environ=environ)
    base_url = place.base_url or GEMINI_URL
    context = httpx2.create_ssl_context()
    timeout = httpx2.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)
    own = httpx2.Client(verify=context, timeout=timeout), httpx2.AsyncClient(verify=context, timeout=timeout)
    options = types.HttpOptions(
        base_url=base_url,
        api_version=API_VERSION,
        retry_options=types.HttpRetryOptions(attempts=1),
        httpx_client=own[0],
        httpx_async_client=own[1],
    )
    try:
        return ConnectedClient(Client(vertexai=False, api_key=key, http_options=options), base_url, *own)
    except ImportError as error:
        message = "the variable GOOGLE_GENAI_HTTP_CLIENT names a package that is not installed"
        raise ConfigError(message, hint=Command("GOOGLE_GENAI_HTTP_CLIENT", program="unset")) from error
