"""The backends `anthropic`, `vertex` and `gateway`: turns of the Messages API under the own loop."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.backend import CallRecord, CallSpec, Outcome
from ktx_cli.llm.backends.anthropic_api.client import complete, make_client
from ktx_cli.llm.backends.anthropic_api.failures import incomplete, rate_signal, translate, unknown_ending
from ktx_cli.llm.backends.anthropic_api.messages import request_body
from ktx_cli.llm.backends.anthropic_api.stream import Answer, read_answer
from ktx_cli.llm.governor import RateSignal
from ktx_cli.llm.own_loop import Conversation, ModelTurn, Repair, Retried, TurnEnd, run_own_loop
from ktx_cli.llm.prices import cost_of
from ktx_cli.llm.types import Cost
from ktx_cli.project.config import KtxConfig

_ENDS: Final[Mapping[str | None, TurnEnd]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "pause_turn": "pause",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "context",
}


class AnthropicBackend:
    """Runs calls against one Messages API. `observe` is told what responses say of rate limits."""

    def __init__(
        self,
        name: str,
        config: KtxConfig,
        *,
        project_dir: Path,
        environ: Mapping[str, str],
        retried: Retried,
        repair: Repair,
        observe: Callable[[RateSignal], None],
    ) -> None:
        self.name = name
        self._config = config
        self._client = make_client(name, config, project_dir=project_dir, environ=environ)
        self._retried = retried
        self._repair = repair
        self._observe = observe

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Carry out one call."""
        repair = self._repair if spec.role != "repair" else None
        return await run_own_loop(self, spec, record, retried=self._retried, repair=repair)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn."""
        body = request_body(spec, conversation, self._config.llm.prompt_caching)
        on_text = record.text_delta if spec.kind in ("text", "loop") else _drop
        names = {"backend": self.name, "model": spec.model, "role": spec.role}
        answer = Answer()
        try:
            await complete(self._client)
            raw = await self._client.messages.with_raw_response.create(**body)
            self._observe(rate_signal(raw.headers))
            async with await raw.parse() as events:
                await read_answer(aiter(events), answer, on_text)
        except KtxError:
            raise
        except Exception as error:
            raise translate(error, **names) from error
        finally:
            if answer.message_id and not answer.complete:
                record.unit(answer.message_id, answer.as_usage(), _cost(answer, spec), complete=False)
        if not answer.complete:
            raise incomplete(**names)
        if answer.stop_reason not in _ENDS:
            record.unit(answer.message_id, answer.as_usage(), _cost(answer, spec))
            raise unknown_ending(answer.stop_reason, **names)
        return _turn(answer, spec)

    async def account(self) -> str:
        """Say where the credentials come from; a key is proven by the probe's turn alone."""
        provider = self._config.llm.provider
        if self.name == "vertex":
            return "Google credentials" if not (provider.vertex and provider.vertex.access_token) else "access token"
        return "API key" if self.name == "anthropic" else f"gateway {provider.gateway.auth}"

    def versions(self) -> Mapping[str, str]:
        """Return the version of the SDK and the address."""
        return {"anthropic": importlib.metadata.version("anthropic"), "base_url": str(self._client.base_url)}

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def _cost(answer: Answer, spec: CallSpec) -> Cost:
    return cost_of(spec.backend, answer.model or spec.model, answer.as_usage(), long_writes=answer.long_writes)


def _turn(answer: Answer, spec: CallSpec) -> ModelTurn:
    """Return the answer as a turn; gateways say `end_turn` also where a model calls a tool."""
    end = _ENDS[answer.stop_reason]
    if end == "end" and answer.calls:
        end = "tools"
    calls = tuple(answer.calls) if end == "tools" else ()
    return ModelTurn(
        answer.text,
        calls,
        end,
        answer.as_usage(),
        _cost(answer, spec),
        answer.message_id,
        answer.model,
        raw=_echo(answer.blocks),
    )


def _echo(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the blocks as the next request repeats them: no blank text, which the API refuses, but one at least."""
    kept = [block for block in blocks if block["type"] != "text" or block.get("text", "").strip()]
    return kept or [{"type": "text", "text": "(empty)"}]


def _drop(delta: str) -> None:
    """Leave the pieces of an object or a probe out of the stream."""
