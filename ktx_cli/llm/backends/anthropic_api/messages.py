"""A call as a request of the Messages API: blocks, tools, cache marks, structured output."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from ktx_cli.llm.backend import CallSpec
from ktx_cli.llm.backends.anthropic_api.response_format import is_lossless, strict_schema
from ktx_cli.llm.caching import Part, ttl
from ktx_cli.llm.own_loop import Conversation, Entry, ModelTurn
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.project.config.llm import PromptCaching

MAX_TOKENS: Final = 32_000
MAX_TOKENS_GATEWAY: Final = 8_192
"""Output tokens asked for at most; models behind a gateway often allow no more."""

_CLAUDE: Final = re.compile(r"(?:^|[/.:])(?:claude-|anthropic/)")
"""What the ids of the models that know cache marks have, also behind a gateway."""

ANSWER_TOOL: Final = "give_answer"
"""The tool that carries an object where the response format cannot."""


def request_body(spec: CallSpec, conversation: Conversation, caching: PromptCaching) -> dict[str, Any]:
    """Return the arguments of `messages.create`, the same for the same input."""
    body: dict[str, Any] = {
        "model": spec.model,
        "max_tokens": MAX_TOKENS_GATEWAY if spec.backend == "gateway" else MAX_TOKENS,
        "messages": [_message(entry) for entry in conversation.history],
        "stream": True,
    }
    marks = _Marks(caching, spec)
    tools = [_tool(tool) for tool in spec.tools.values()]
    if tools:
        tools[-1] = marks.on(tools[-1], "tools")
        body["tools"] = tools
    if conversation.system.strip():
        body["system"] = [marks.on({"type": "text", "text": conversation.system}, "system")]
    if spec.schema is not None:
        _ask_for_object(body, spec)
    if spec.kind == "loop":
        content = body["messages"][-1]["content"]
        content[-1] = marks.on(content[-1], "history")
    return body if _is_encodable(body) else _encodable(body)


def _is_encodable(body: Any) -> bool:
    """Say whether UTF-8 can write a body, as it nearly always can: looking at each of its texts costs more."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _encodable(value: Any) -> Any:
    """Return a value without halves of surrogate pairs, which a model or a tool can write and UTF-8 cannot."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_encodable(one) for one in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return value


class _Marks:
    """Puts cache marks on blocks, for models that know them, in the order the API reads: tools, system, history.

    A long-lived mark may not follow a short-lived one: behind one of 5 minutes there are only such.
    """

    def __init__(self, caching: PromptCaching, spec: CallSpec) -> None:
        self._caching = caching
        self._backend = spec.backend
        self._known = _CLAUDE.search(spec.model.lower()) is not None
        self._short = False

    def on(self, block: dict[str, Any], part: Part) -> dict[str, Any]:
        lifetime = ttl(self._caching, part, backend=self._backend) if self._known else None
        if lifetime is None or block.get("type") in ("thinking", "redacted_thinking"):
            return block
        self._short = self._short or lifetime == "5m"
        return {**block, "cache_control": {"type": "ephemeral", "ttl": "5m" if self._short else lifetime}}


def _message(entry: Entry) -> dict[str, Any]:
    if entry.kind == "turn":
        turn = _turn_of(entry)
        return {"role": "assistant", "content": list(turn.raw)}
    if entry.kind == "results":
        return {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": one.call_id, "content": one.text, "is_error": one.is_error}
                for one in entry.results
            ],
        }
    return {"role": "user", "content": [{"type": "text", "text": entry.text}]}


def _turn_of(entry: Entry) -> ModelTurn:
    if entry.turn is None:
        raise ValueError("an entry of kind `turn` has a turn")
    return entry.turn


def _tool(tool: RuntimeTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema()}


def _ask_for_object(body: dict[str, Any], spec: CallSpec) -> None:
    schema = dict(spec.schema or {})
    if spec.backend != "gateway" and is_lossless(schema):
        body["output_config"] = {"format": {"type": "json_schema", "schema": strict_schema(schema)}}
        return
    body["tools"] = [{"name": ANSWER_TOOL, "description": "Give the answer.", "input_schema": schema}]
    body["tool_choice"] = {"type": "tool", "name": ANSWER_TOOL}
