"""A call as a request of the Messages API: blocks, tools, cache marks, structured output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.backend import CallSpec
from ktx_cli.llm.caching import Part, ttl
from ktx_cli.llm.own_loop import Conversation, Entry, ModelTurn
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.project.config.llm import PromptCaching

MAX_TOKENS: Final = 32_000
MAX_TOKENS_GATEWAY: Final = 8_192
"""Output tokens asked for at most; models behind a gateway often allow no more."""

TYPE_KEYS: Final = frozenset({"type", "$ref", "anyOf", "allOf", "oneOf", "enum", "const"})
"""Keywords that say what a value may be."""

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
    if conversation.system:
        body["system"] = [marks.on({"type": "text", "text": conversation.system}, "system")]
    tools = [_tool(tool) for tool in spec.tools.values()]
    if tools:
        tools[-1] = marks.on(tools[-1], "tools")
        body["tools"] = tools
    if spec.schema is not None:
        _ask_for_object(body, spec)
    if spec.kind == "loop":
        content = body["messages"][-1]["content"]
        content[-1] = marks.on(content[-1], "history")
    return body


class _Marks:
    """Puts cache marks on blocks, for models that know them."""

    def __init__(self, caching: PromptCaching, spec: CallSpec) -> None:
        self._caching = caching
        self._backend = spec.backend
        self._known = "claude" in spec.model

    def on(self, block: dict[str, Any], part: Part) -> dict[str, Any]:
        lifetime = ttl(self._caching, part, backend=self._backend) if self._known else None
        return {**block, "cache_control": {"type": "ephemeral", "ttl": lifetime}} if lifetime else block


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


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in the form the response format takes: closed objects, no limits it does not know."""
    from anthropic import transform_schema

    return transform_schema(json.loads(json.dumps(schema)))


def is_lossless(schema: Any) -> bool:
    """Say whether the response format can carry a schema: no free-form maps, nothing without a type."""
    if isinstance(schema, list):
        return all(is_lossless(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    if isinstance(schema.get("additionalProperties"), Mapping) or schema.get("additionalProperties") is True:
        return False
    if schema.get("type") == "object" and not schema.get("properties"):
        return False
    named = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    nested = [schema[key] for key in ("items", "anyOf", "allOf", "oneOf", "prefixItems") if key in schema]
    return all(_is_typed(one) and is_lossless(one) for one in named) and all(is_lossless(one) for one in nested)


def _is_typed(schema: Any) -> bool:
    return isinstance(schema, Mapping) and not TYPE_KEYS.isdisjoint(schema)
