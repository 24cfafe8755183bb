"""The Responses API: requests from a conversation, and answers from their events.

Nothing is stored at the provider (`store: false`): each request contains the whole conversation, with the reasoning of
earlier turns encrypted as the model returned it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ToolCall, TurnEnd
from ktx_cli.llm.backends.openai_api.abilities import Lack, method_of, schema_in_words, strict_schema
from ktx_cli.llm.backends.openai_api.turns import (
    EMPTY,
    Body,
    OnText,
    StreamedAnswer,
    echo_of,
    parsed_arguments,
    result_text,
    sent_arguments,
    token_limit,
    turn_of,
    usage_of,
)
from ktx_cli.llm.schemas import ANSWER_TOOL
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import encodable

_INCOMPLETE: Final[Mapping[str | None, TurnEnd]] = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class Responses:
    """The Responses API."""

    name = "responses"
    path = "/responses"
    title = "Responses API"

    def body(self, spec: CallSpec, conversation: Conversation, lacks: frozenset[Lack], *, caches: bool) -> Body:
        """See `Api`."""
        body: Body = {
            "model": spec.model,
            "input": [item for entry in conversation.history for item in _items(entry)],
            "stream": True,
            "store": False,
        }
        system = conversation.system if conversation.system.strip() else ""
        tools = [_tool(tool) for tool in spec.tools.values()]
        if Lack.LIMIT not in lacks:
            body["max_output_tokens"] = token_limit(spec)
        if spec.effort is not None and Lack.EFFORT not in lacks:
            body["reasoning"] = {"effort": spec.effort}
        if spec.effort is not None and Lack.SEALED not in lacks:
            body["include"] = ["reasoning.encrypted_content"]
        if spec.schema is not None:
            method = method_of(spec, lacks)
            if method == "format":
                schema = {"name": "answer", "strict": True, "schema": strict_schema(spec.schema)}
                body["text"] = {"format": {"type": "json_schema", **schema}}
            elif method == "tool":
                tools = [_function(ANSWER_TOOL, "Give the answer.", dict(spec.schema))]
                body["tool_choice"] = {"type": "function", "name": ANSWER_TOOL}
            else:
                system = "\n\n".join(part for part in (system, schema_in_words(spec.schema)) if part)
        if tools:
            body["tools"] = tools
        if system:
            body["instructions"] = system
        if caches and Lack.CACHE_KEY not in lacks:
            body["prompt_cache_key"] = _cache_key(spec.model, system, tools)
        made: Body = encodable(body)
        return made

    async def read(self, events: AsyncIterator[Any], answer: StreamedAnswer, on_text: OnText) -> None:
        """See `Api`."""
        items: dict[int, Body] = {}
        async for event in events:
            kind = event.get("type")
            if kind == "response.output_text.delta":
                on_text(event["delta"])
            elif kind == "response.output_item.done":
                items[event["output_index"]] = event["item"]
            elif kind == "error":
                answer.failure = (str(event.get("code") or ""), str(event.get("message") or ""))
            elif isinstance(event.get("response"), Mapping):
                _take_state(answer, event["response"])
                if kind in ("response.completed", "response.incomplete", "response.failed"):
                    output = [items[place] for place in sorted(items)] or event["response"].get("output") or []
                    _take_end(answer, event["response"], output)

    def echo(self, answer: StreamedAnswer, calls: Sequence[ToolCall]) -> list[Body]:
        """See `Api`: the items, reasoning only with its content, arguments always as an object."""
        kept: list[Body] = []
        left = list(calls)
        for item in answer.content or ():
            kind = item.get("type")
            if kind == "function_call" and left:
                call = left.pop(0)
                kept.append({**item, "call_id": call.call_id, "arguments": sent_arguments(call.arguments)})
            elif kind != "reasoning" or item.get("encrypted_content") or item.get("content"):
                kept.append(item)
        if any(item.get("type") in ("message", "function_call") for item in kept):
            return kept
        return [*kept, _assistant(EMPTY)]


def _cache_key(model: str, system: str, tools: list[Body]) -> str:
    """Return a key for requests that begin alike, so that the provider sends them to the same cache."""
    return hashlib.sha256(json.dumps([model, system, tools], sort_keys=True).encode("utf-8", "replace")).hexdigest()[
        :32
    ]


def _items(entry: Entry) -> list[Body]:
    if entry.kind == "results":
        return [
            {"type": "function_call_output", "call_id": one.call_id, "output": result_text(one)}
            for one in entry.results
        ]
    if entry.kind == "turn":
        turn = turn_of(entry)
        echo = echo_of(turn, Responses.name)
        if echo is not None:
            return list(echo)
        text = turn.text if turn.text.strip() else "" if turn.calls else EMPTY
        return [*([_assistant(text)] if text else []), *(_call(call) for call in turn.calls)]
    texts = [part.text for part in entry.parts] or [entry.text]
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text} for text in texts]}]


def _assistant(text: str) -> Body:
    return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def _call(call: ToolCall) -> Body:
    arguments = sent_arguments(call.arguments)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}


def _tool(tool: RuntimeTool) -> Body:
    return _function(tool.name, tool.description, tool.input_schema())


def _function(name: str, description: str, schema: Body) -> Body:
    """Return a tool; not `strict`, because its arguments may be optional."""
    return {"type": "function", "name": name, "description": description, "parameters": schema, "strict": False}


def _take_state(answer: StreamedAnswer, response: Mapping[str, Any]) -> None:
    answer.answer_id = response.get("id") or answer.answer_id
    answer.model = response.get("model") or answer.model
    usage = response.get("usage")
    if isinstance(usage, Mapping):
        details = usage.get("input_tokens_details")
        answer.usage = usage_of(usage.get("input_tokens"), usage.get("output_tokens"), details)


def _take_end(answer: StreamedAnswer, response: Mapping[str, Any], output: list[Body]) -> None:
    """Take over the end of an answer and its items."""
    refused = False
    for item in output:
        if item.get("type") == "function_call":
            arguments = parsed_arguments(item.get("arguments") or "")
            answer.calls.append(ToolCall(item.get("call_id") or "", item["name"], arguments))
        for part in item.get("content") or [] if item.get("type") == "message" else []:
            answer.texts += [part["text"]] if part.get("type") == "output_text" else []
            refused = refused or part.get("type") == "refusal"
    answer.content = output
    status = answer.ended = response.get("status") or "completed"
    if status == "failed":
        error = response.get("error") or {}
        answer.failure = (str(error.get("code") or ""), str(error.get("message") or ""))
    elif status == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        answer.ended, answer.end = str(reason), _INCOMPLETE.get(reason)
    else:
        answer.end = "refusal" if refused else "tools" if answer.calls else "end"
