"""The `anthropic`, `vertex`, `bedrock` and `gateway` backends: Messages API turns in ktx's own agent loop."""

from __future__ import annotations

import asyncio
import gc
import importlib.metadata
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ConfigError, Hint, KtxError
from ktx_cli.llm.agent_loop import ModelTurn, OwnLoopBackend
from ktx_cli.llm.backends.anthropic_api import VERCEL_URL
from ktx_cli.llm.backends.anthropic_api.bedrock import (
    bedrock_account,
    bedrock_client,
    bedrock_cost,
    bedrock_error,
    is_missing,
    no_credentials,
)
from ktx_cli.llm.backends.anthropic_api.messages import StreamedMessage, read_answer, request_body
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import RateSignal, header_number, retry_after
from ktx_cli.llm.registry import missing_client
from ktx_cli.llm.settings import ApiAddress, missing_setting, resolved_keys, resolved_place
from ktx_cli.llm.types import Cost
from ktx_cli.llm.usage import cost_of
from ktx_cli.project import KtxConfig

if TYPE_CHECKING:
    import anthropic

    from ktx_cli.llm.agent_loop import Backend, CallRecord, CallSpec, Conversation, Shared, TurnEnd

    Client = anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex | anthropic.AsyncAnthropicBedrock

_ENDS: Final[Mapping[str | None, TurnEnd]] = {
    "end_turn": "end", "stop_sequence": "end", "tool_use": "tools", "pause_turn": "pause",
    "max_tokens": "max_tokens", "refusal": "refusal", "model_context_window_exceeded": "context",
}  # fmt: skip


class AnthropicBackend(OwnLoopBackend):
    """Runs calls against one Messages API."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name, shared)
        self._client = make_client(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn."""
        body = request_body(spec, conversation, self._config.llm.prompt_caching)
        on_text = record.text_delta if spec.kind in ("text", "loop") else _drop
        answer = StreamedMessage()
        try:
            await complete(self._client)
            raw = await self._client.messages.with_raw_response.create(**body)
            self._observe(rate_signal(raw.headers))
            async with await raw.parse() as events:
                await read_answer(aiter(events), answer, on_text)
        except KtxError:
            raise
        except Exception as error:
            raise translate(error, **spec.names) from error
        finally:
            if answer.message_id and not answer.complete:
                record.unit(answer.message_id, answer.as_usage(), _cost(answer, spec), complete=False)
        if not answer.complete:
            raise llm_error("connection", **spec.names, message="the model's answer was cut off")
        if answer.stop_reason not in _ENDS:
            record.unit(answer.message_id, answer.as_usage(), _cost(answer, spec))
            message = (
                f"the answer from the model `{spec.model}` ended with `{answer.stop_reason}`, which is not supported"
            )
            raise llm_error("execution", **spec.names, message=message)
        return _turn(answer, spec)

    async def account(self) -> str:
        """Return where the credentials come from; only the probe's turn proves that a key works."""
        provider = self._config.llm.provider
        signature = getattr(self._client, "own_signature", None)
        if signature is not None:
            return await bedrock_account(signature, CallNames(backend=self.name, model="", role="default"))
        if self.name == "vertex":
            return "Google credentials" if not (provider.vertex and provider.vertex.access_token) else "access token"
        return "API key" if self.name == "anthropic" else f"gateway {provider.gateway.auth}"

    def versions(self) -> Mapping[str, str]:
        """Return the SDK version and the URL."""
        return {"anthropic": importlib.metadata.version("anthropic"), "base_url": str(self._client.base_url)}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    return AnthropicBackend(name, shared)


def _cost(answer: StreamedMessage, spec: CallSpec) -> Cost:
    if spec.backend == "bedrock":
        return bedrock_cost(spec.model, answer.as_usage(), answer.long_writes)
    return cost_of(spec.backend, answer.model or spec.model, answer.as_usage(), long_writes=answer.long_writes)


def _turn(answer: StreamedMessage, spec: CallSpec) -> ModelTurn:
    """Return the answer as a turn; some gateways report `end_turn` even if the model called a tool."""
    end = _ENDS[answer.stop_reason]
    if end == "end" and answer.calls:
        end = "tools"
    calls = tuple(answer.calls) if end == "tools" else ()
    usage, cost, raw = answer.as_usage(), _cost(answer, spec), _echo(answer.blocks)
    return ModelTurn(answer.text, calls, end, usage, cost, answer.message_id, answer.model, raw=raw)


def _echo(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks for the next request: without blank text, which the API rejects, but always at least one."""
    kept = [block for block in blocks if block["type"] != "text" or block.get("text", "").strip()]
    return kept or [{"type": "text", "text": "(empty)"}]


def _drop(delta: str) -> None:
    """Keep the text of object calls and probes out of the stream."""


_BY_STATUS: Final = {401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context"}
_BY_TYPE: Final[Mapping[str | None, str]] = {
    "authentication_error": "auth", "permission_error": "auth", "billing_error": "billing",
    "not_found_error": "model", "request_too_large": "context", "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded", "timeout_error": "overloaded", "api_error": "overloaded",
}  # fmt: skip
_TOO_LONG: Final = ("prompt is too long", "context length", "context window", "too many tokens", "input is too long")
_NO_CREDIT: Final = ("credit balance", "insufficient credit", "billing")


def translate(error: Exception, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error for an exception raised by a request; the exception's message only goes into `detail`."""
    import anthropic

    names = CallNames(backend=backend, model=model, role=role)
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, names, detail)
    if backend == "bedrock" and is_missing(error):
        return no_credentials(error, names)
    code = "execution"
    if isinstance(error, anthropic.APIConnectionError | json.JSONDecodeError) or _is_of(error, "httpx2"):
        code = "connection"
    elif _is_of(error, "google.auth") or (
        isinstance(error, ValueError | TypeError | RuntimeError) and "resolve" in str(error)
    ):
        code = "auth"
    return llm_error(code, **names, detail=detail)


def _is_of(error: Exception, package: str) -> bool:
    return any(kind.__module__.startswith(package) for kind in type(error).__mro__)


def _of_status(error: Any, names: CallNames, detail: str) -> LlmError:
    status: int = error.status_code
    words = str(error).lower()
    facts: dict[str, Any] = {**names, "detail": detail}
    if names["backend"] == "bedrock":
        found = bedrock_error(error, facts if status < 400 else {**facts, "status": status})
        if found is not None:
            return found
    if status < 400:  # an error event in the middle of a stream
        return llm_error(_BY_TYPE.get(_type(error), "execution"), **facts)
    facts["status"] = status
    if status == 429 or status >= 500:
        code = "rate_limit" if status == 429 else "overloaded"
        return llm_error(code, **facts, retry_after=retry_after(error.response.headers))
    if status == 400 and any(sign in words for sign in _TOO_LONG):
        return llm_error("context", **facts)
    if status in (400, 403) and any(sign in words for sign in _NO_CREDIT):
        return llm_error("billing", **facts)
    if status == 404 and _type(error) is None:
        return _no_api(error, facts)
    return llm_error(_BY_STATUS.get(status, "execution"), **facts)


def _type(error: Any) -> str | None:
    """Return the API's error type, or None if the answer is not from the API."""
    body = error.body
    inside = body.get("error") if isinstance(body, dict) else None
    kind = inside.get("type") if isinstance(inside, dict) else None
    return str(kind) if kind else None


def _no_api(error: Any, facts: dict[str, Any]) -> LlmError:
    """Return the error for a URL without a Messages API."""
    url = error.response.request.url
    command = Command("config", "set", f"llm.provider.{facts['backend']}.base_url", "URL")
    message = f"there is no Messages API at {url.copy_with(query=None, username=None, password=None)}"
    return llm_error(
        "execution", **facts, message=message, hint=Hint("{}, without the trailing `/v1/messages`", command)
    )


def rate_signal(headers: Mapping[str, str]) -> RateSignal:
    """Return the used share of the most exhausted limit that a response reports."""
    used = [
        1 - remaining / limit
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
        for prefix in ("anthropic-ratelimit-", "x-ratelimit-")
        if (limit := header_number(headers.get(f"{prefix}{kind}-limit"))) and limit > 0
        if (remaining := header_number(headers.get(f"{prefix}{kind}-remaining"))) is not None
    ]
    return RateSignal("allowed", utilization=max(used) if used else None)


ANTHROPIC_URL: Final = "https://api.anthropic.com"
TIMEOUT_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


def make_client(backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> Client:
    """Return the client of a backend; raises `ConfigError` or `SecretError` for missing settings or packages.

    The SDK reads URLs, tokens, projects and headers from the environment unless they are given: all are given here, and
    the header variables it would add are removed again. Its own spans are off: ktx writes one per call.
    """
    problem = missing_setting(config, backend) or missing_client(backend)
    if problem is not None:
        raise problem
    load_sdk()
    secrets = resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    secret = next(iter(secrets.values()), "")
    provider = config.llm.provider
    place = resolved_place(config, backend, project_dir=project_dir, environ=environ)
    if backend == "vertex":
        project = place.project or environ.get("GOOGLE_CLOUD_PROJECT")
        return _vertex(replace(place, project=project), secret or None)
    if backend == "bedrock":
        keys = {where.rpartition(".")[2]: value for where, value in secrets.items()}
        return bedrock_client(keys, place, _client_options())
    if backend == "gateway":
        headers = {"authorization": f"Bearer {secret}"} if provider.gateway.auth == "bearer" else {"x-api-key": secret}
        return _direct(secret, place.base_url or VERCEL_URL, headers)
    return _direct(secret, place.base_url or ANTHROPIC_URL, {})


def load_sdk() -> None:
    """Import the SDK, whose 3,000 modules take most of a second, with garbage collection off, since there is no
    garbage.

    Every later import of it is a look-up.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        import anthropic  # noqa: F401 - for what it leaves behind
    finally:
        if collects:
            gc.enable()


def _direct(key: str, base_url: str, headers: Mapping[str, str]) -> anthropic.AsyncAnthropic:
    """Return a client; `headers` send the key differently from how the SDK does for Anthropic."""
    import anthropic

    client = anthropic.AsyncAnthropic(api_key=key, base_url=base_url, **_client_options())
    own: dict[str, Any] = {"Authorization": anthropic.omit, **headers} if headers else {}
    client._custom_headers = own  # ANTHROPIC_CUSTOM_HEADERS could carry another key
    return client


def _vertex(place: ApiAddress, token: str | None) -> anthropic.AsyncAnthropicVertex:
    import anthropic

    if token is not None and place.project is None:
        raise _no_project()
    client = anthropic.AsyncAnthropicVertex(
        region=place.location,
        access_token=token,
        base_url=place.base_url or _vertex_url(place.location),
        **_client_options(),
    )
    client.project_id = place.project  # never ANTHROPIC_VERTEX_PROJECT_ID
    client._custom_headers = {}
    return client


def _client_options() -> dict[str, Any]:
    import anthropic

    timeout = anthropic.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)
    return {"max_retries": 0, "timeout": timeout, "open_telemetry": False}


async def complete(client: Client) -> None:
    """Set the machine's Google credentials' project on a Vertex client that has none, because the SDK checks too late.

    Raises `ConfigError` if they have no project.
    """
    import anthropic

    if not isinstance(client, anthropic.AsyncAnthropicVertex) or client.project_id is not None:
        return
    try:
        import google.auth
    except ImportError as error:
        raise missing_google_auth() from error
    credentials, project = await asyncio.to_thread(google.auth.default, scopes=[GOOGLE_SCOPE])
    if not project:
        raise _no_project()
    client.credentials, client.project_id = credentials, project


def missing_google_auth() -> ConfigError:
    """Return the error for a missing package that the machine's Google credentials require."""
    message = "the backend `vertex` requires the package google-auth"
    return ConfigError(message, hint=Command("install", "ktx-cli[vertex]", program="pip"))


def _no_project() -> ConfigError:
    where = "llm.provider.vertex.project"
    return ConfigError(f"the backend `vertex` requires `{where}`", hint=Command("config", "set", where, "PROJECT"))


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{location}-aiplatform.googleapis.com/v1"
