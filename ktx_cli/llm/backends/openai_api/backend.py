"""The backends `openai` and `openai-compatible`: turns in ktx's own agent loop, through the `openai` package."""

from __future__ import annotations

import gc
import importlib.metadata
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError
from ktx_cli.llm.agent_loop import ModelTurn, OwnLoopBackend
from ktx_cli.llm.backends.openai_api.abilities import Abilities, Lack, lack_in, method_of
from ktx_cli.llm.backends.openai_api.chat import Chat
from ktx_cli.llm.backends.openai_api.failures import failed, no_api, rate_signal, translate, without_tools, words_of
from ktx_cli.llm.backends.openai_api.responses import Responses
from ktx_cli.llm.backends.openai_api.turns import Api, StreamedAnswer, unique_calls
from ktx_cli.llm.errors import llm_error
from ktx_cli.llm.registry import missing_client
from ktx_cli.llm.settings import missing_setting, resolved_keys, resolved_place
from ktx_cli.llm.types import Cost
from ktx_cli.llm.usage import cost_of
from ktx_cli.project import KtxConfig

if TYPE_CHECKING:
    import openai

    from ktx_cli.llm.agent_loop import Backend, CallRecord, CallSpec, Conversation, Shared

log = logging.getLogger(__name__)

OPENAI_URL: Final = "https://api.openai.com/v1"
TIMEOUT_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
_NO_KEY: Final = "none"
"""What the SDK gets as a key for a server without one; it is not sent."""


class OpenAiBackend(OwnLoopBackend):
    """Runs calls against one API."""

    def __init__(self, name: str, shared: Shared) -> None:
        super().__init__(name, shared)
        self._client, self._headers = make_client(
            name, shared.config, project_dir=shared.project_dir, environ=shared.environ
        )
        self._api: Api = (
            Chat() if name != "openai" and shared.config.llm.provider.openai_compatible.api == "chat" else Responses()
        )
        self._abilities = Abilities(str(self._client.base_url), self._api.name)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn, again without what the server turns out not to support."""
        lacks = self._abilities.lacks(spec.model) | self._ignored(spec, conversation)
        while True:
            body = self._api.body(spec, conversation, lacks, caches=self._config.llm.prompt_caching.enabled)
            lack = await self._lack_or_answer(spec, body, lacks, answer := StreamedAnswer(), record)
            if lack is None:
                return self._turn(spec, conversation, answer, lacks)
            lacks |= {lack}

    async def account(self) -> str:
        """Return where the credentials come from; only the probe's turn proves that a key works."""
        provider = self._config.llm.provider
        if self.name == "openai":
            return "API key"
        return f"API key ({provider.openai_compatible.auth})" if provider.openai_compatible.api_key else "no key"

    def versions(self) -> Mapping[str, str]:
        """Return the SDK version and the URL."""
        return {"openai": importlib.metadata.version("openai"), "base_url": str(self._client.base_url)}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _lack_or_answer(
        self, spec: CallSpec, body: dict[str, Any], lacks: frozenset[Lack], answer: StreamedAnswer, record: CallRecord
    ) -> Lack | None:
        """Send a request and read its answer; return what the server lacks if it rejected the request for that."""
        import openai

        on_text = record.text_delta if spec.kind in ("text", "loop") else _drop
        try:
            await self._ask(spec, body, answer, on_text)
        except KtxError:
            raise
        except openai.APIStatusError as error:
            found = lack_in(error.status_code, words_of(error), body, lacks)
            if found is None:
                raise translate(error, spec.names, self._api) from error
            lack, of_all_calls = found
            if lack is Lack.TOOLS and spec.tools:
                raise without_tools(spec.names, words_of(error)) from error
            log.info("%s does not support %s; asking without", spec.model, lack.value)
            if of_all_calls:
                self._abilities.learn(spec.model, lack)
            return lack
        except Exception as error:
            raise translate(error, spec.names, self._api) from error
        finally:
            if answer.answer_id and answer.end is None:
                unit = self._unit(answer)
                record.unit(unit, answer.usage, _cost(answer, spec), complete=answer.ended is not None)
        return None

    async def _ask(
        self, spec: CallSpec, body: dict[str, Any], answer: StreamedAnswer, on_text: Callable[[str], None]
    ) -> None:
        import openai

        stream = await self._client.post(
            self._api.path,
            cast_to=object,
            body=body,
            options={"headers": self._headers},
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        async with stream as events:
            self._observe(rate_signal(events.response.headers))
            if "html" in events.response.headers.get("content-type", ""):
                raise no_api(str(events.response.request.url), {**spec.names}, self._api)
            await self._api.read(_objects(events), answer, on_text)

    def _turn(
        self, spec: CallSpec, conversation: Conversation, answer: StreamedAnswer, lacks: frozenset[Lack]
    ) -> ModelTurn:
        if answer.failure is not None:
            code, message = answer.failure
            raise failed((code.lower(),), message, spec.names)
        if answer.end is None and answer.ended is None:
            raise llm_error("connection", **spec.names, message="the model's answer was cut off")
        if answer.end is None:
            message = f"the answer from the model `{spec.model}` ended with `{answer.ended}`, which is not supported"
            raise llm_error("execution", **spec.names, message=message)
        calls = unique_calls(answer.calls, conversation) if answer.end == "tools" else []
        method = None if spec.schema is None else method_of(spec, lacks)
        raw = {"api": self._api.name, "echo": self._api.echo(answer, calls), "method": method}
        cost, unit = _cost(answer, spec), self._unit(answer)
        return ModelTurn(answer.text, tuple(calls), answer.end, answer.usage, cost, unit, answer.model, raw=raw)

    def _unit(self, answer: StreamedAnswer) -> str:
        """Return the id of an answer; only OpenAI's own are unique."""
        return answer.answer_id if self.name == "openai" else ""

    def _ignored(self, spec: CallSpec, conversation: Conversation) -> frozenset[Lack]:
        """Return what a server ignored in the last request for an object, whose answer then was not an object at all.

        It is remembered, because a server that ignores a part of a request never reports an error.
        """
        turns = [entry.turn for entry in conversation.history if entry.turn is not None]
        if spec.schema is None or self.name == "openai" or not turns or turns[-1].calls or _is_json(turns[-1].text):
            return frozenset()
        lack = {"format": Lack.FORMAT, "tool": Lack.FORCED_TOOL}.get(turns[-1].raw["method"])
        if lack is not None:
            self._abilities.learn(spec.model, lack)
        return frozenset() if lack is None else frozenset({lack})


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    return OpenAiBackend(name, shared)


def _cost(answer: StreamedAnswer, spec: CallSpec) -> Cost:
    return cost_of(spec.backend, answer.model or spec.model, answer.usage)


def _is_json(text: str) -> bool:
    text = text.strip().removeprefix("```json").removeprefix("```").strip()
    return text.startswith("{")


async def _objects(events: Any) -> AsyncIterator[Any]:
    """Yield the events that are JSON objects; some servers send others to keep a connection open."""
    async for event in events:
        if isinstance(event, dict):
            yield event


def _drop(delta: str) -> None:
    """Keep the text of object calls and probes out of the stream."""


def make_client(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[openai.AsyncOpenAI, dict[str, str | openai.Omit]]:
    """Return the client of a backend, and the headers of its requests that send the key differently from the SDK.

    Raises `ConfigError` or `SecretError` for missing settings or a missing package.

    The SDK reads keys, URLs, the organization, the project and headers from the environment unless they are given: all
    are given here, or removed again.
    """
    problem = missing_setting(config, backend) or missing_client(backend)
    if problem is not None:
        raise problem
    load_sdk()
    import openai

    secrets = resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    key = next(iter(secrets.values()), "")
    place = resolved_place(config, backend, project_dir=project_dir, environ=environ)
    compatible = backend != "openai"
    client = openai.AsyncOpenAI(
        api_key=key or _NO_KEY,
        admin_api_key="",
        webhook_secret="",
        base_url=place.base_url or OPENAI_URL,
        max_retries=0,
        timeout=openai.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
    )
    client.organization = client.project = None  # never OPENAI_ORG_ID and OPENAI_PROJECT_ID
    client._custom_headers = {}  # OPENAI_CUSTOM_HEADERS could carry another key
    if compatible and not key:
        return client, {"Authorization": openai.omit}
    if compatible and config.llm.provider.openai_compatible.auth == "key":
        return client, {"Authorization": openai.omit, "api-key": key}
    return client, {}


def load_sdk() -> None:
    """Import the SDK with garbage collection off, since there is no garbage.

    OPENAI_LOG would make it write prompts to the terminal: what it changes in the logging of the process is undone.
    """
    root, collects = logging.getLogger(), gc.isenabled()
    handlers = list(root.handlers)
    gc.disable()
    try:
        import openai  # noqa: F401 - for what it leaves behind
    finally:
        if collects:
            gc.enable()
    root.handlers[:] = handlers
    logging.getLogger("openai").setLevel(logging.NOTSET)
