"""Chat Completions: requests from a conversation, and answers from their chunks.

Servers differ in what they support and in how they write their chunks; the reader accepts every form that is known.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ModelTurn, ToolCall, TurnEnd
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
from ktx_cli.llm.types import BETWEEN_PARTS, encodable

_ENDS: Final[Mapping[str, TurnEnd]] = {
    "stop": "end", "eos": "end", "tool_calls": "tools", "function_call": "tools", "length": "max_tokens",
    "content_filter": "refusal", "refusal": "refusal",
}  # fmt: skip

_THOUGHTS: Final = ("reasoning_content", "reasoning_details")
"""The fields for reasoning that some providers want back with the calls that followed it."""


class Chat:
    """Chat Completions."""

    name = "chat"
    path = "/chat/completions"
    title = "Chat Completions API"

    def body(self, spec: CallSpec, conversation: Conversation, lacks: frozenset[Lack], *, caches: bool) -> Body:
        """See `Api`. Nothing controls the cache: providers that have one use it by themselves."""
        body: Body = {"model": spec.model, "stream": True}
        system = conversation.system if conversation.system.strip() else ""
        tools = [_function(tool.name, tool.description, tool.input_schema()) for tool in spec.tools.values()]
        if Lack.STREAM_USAGE not in lacks:
            body["stream_options"] = {"include_usage": True}
        if Lack.LIMIT not in lacks:
            name = "max_tokens" if Lack.LIMIT_NAME in lacks else "max_completion_tokens"
            body[name] = token_limit(spec)
        if spec.effort is not None and Lack.EFFORT not in lacks:
            body["reasoning_effort"] = spec.effort
        if spec.schema is not None:
            method = method_of(spec, lacks)
            if method == "format":
                schema = {"name": "answer", "strict": True, "schema": strict_schema(spec.schema)}
                body["response_format"] = {"type": "json_schema", "json_schema": schema}
            elif method == "tool":
                tools = [_function(ANSWER_TOOL, "Give the answer.", dict(spec.schema))]
                body["tool_choice"] = {"type": "function", "function": {"name": ANSWER_TOOL}}
            else:
                system = BETWEEN_PARTS.join(part for part in (system, schema_in_words(spec.schema)) if part)
        if tools:
            body["tools"] = tools
        body["messages"] = _messages(system, conversation, lacks)
        made: Body = encodable(body)
        return made

    async def read(self, events: AsyncIterator[Any], answer: StreamedAnswer, on_text: OnText) -> None:
        """See `Api`."""
        calls: list[_Call] = []
        thoughts: dict[str, Any] = {}
        visible = _Visible()
        refused = False
        async for chunk in events:
            answer.answer_id = chunk.get("id") or answer.answer_id
            answer.model = chunk.get("model") or answer.model
            usage = chunk.get("usage")
            if isinstance(usage, Mapping):
                details = usage.get("prompt_tokens_details")
                answer.usage = usage_of(usage.get("prompt_tokens"), usage.get("completion_tokens"), details)
            for choice in (chunk.get("choices") or ())[:1]:
                delta = choice.get("delta") or choice.get("message") or {}
                if delta.get("content") and (text := visible.part(delta["content"])):
                    answer.texts.append(text)
                    on_text(text)
                refused = refused or bool(delta.get("refusal"))
                for name in _THOUGHTS:
                    if delta.get(name):
                        thoughts[name] = thoughts[name] + delta[name] if name in thoughts else delta[name]
                for part in delta.get("tool_calls") or ():
                    _add_call(calls, part)
                answer.ended = choice.get("finish_reason") or answer.ended
        if rest := visible.rest():
            answer.texts.append(rest)
            on_text(rest)
        _finish(answer, calls, thoughts, refused=refused)

    def echo(self, answer: StreamedAnswer, calls: Sequence[ToolCall]) -> Body:
        """See `Api`: the message, with the reasoning only if there are calls."""
        return {**_message(answer.text, calls), **(answer.content or {} if calls else {})}


def _messages(system: str, conversation: Conversation, lacks: frozenset[Lack]) -> list[Body]:
    messages: list[Body] = [{"role": "system", "content": system}] if system else []
    waiting: list[ToolCall] = []
    for entry in conversation.history:
        if entry.kind == "turn":
            turn = turn_of(entry)
            if Lack.PARALLEL in lacks and len(turn.calls) > 1:
                waiting = list(turn.calls)
            else:
                messages.append(_assistant(turn))
        elif entry.kind == "results" and waiting:
            messages += _one_by_one(waiting, entry)
            waiting = []
        elif entry.kind == "results":
            messages += [_result(one.call_id, result_text(one)) for one in entry.results]
        else:
            text = BETWEEN_PARTS.join(part.text for part in entry.parts) or entry.text
            messages.append({"role": "user", "content": text})
    if system and Lack.SYSTEM in lacks:
        del messages[0]
        messages[0] = {"role": "user", "content": f"{system}{BETWEEN_PARTS}{messages[0]['content']}"}
    return messages


def _assistant(turn: ModelTurn) -> Body:
    echo = echo_of(turn, Chat.name)
    if isinstance(echo, Mapping):
        return dict(echo)
    return _message(turn.text, turn.calls)


def _message(text: str, calls: Sequence[ToolCall]) -> Body:
    """Return an answer as a message; without calls it always has text, because servers do not accept it empty."""
    message: Body = {"role": "assistant", "content": text if text.strip() else None if calls else EMPTY}
    return {**message, "tool_calls": [_sent_call(call) for call in calls]} if calls else message


def _one_by_one(calls: list[ToolCall], entry: Entry) -> list[Body]:
    """Return parallel calls as if the model had made one after the other."""
    results = {one.call_id: one for one in entry.results}
    messages: list[Body] = []
    for call in calls:
        messages += [_message("", [call]), _result(call.call_id, result_text(results[call.call_id]))]
    return messages


def _result(call_id: str, text: str) -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def _sent_call(call: ToolCall) -> Body:
    function = {"name": call.name, "arguments": sent_arguments(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _function(name: str, description: str, schema: Body) -> Body:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


_BEGIN: Final = "<think>"
_END: Final = "</think>"


@dataclass(slots=True)
class _Visible:
    """Keeps the reasoning out of a text that begins with it, as models write it on servers that do not separate it."""

    waiting: str = ""
    is_open: bool = True

    def part(self, text: str) -> str:
        """Return what can be shown once this part of a text was received."""
        if not self.is_open:
            return text
        self.waiting += text
        begun = self.waiting.lstrip()
        if _BEGIN.startswith(begun[: len(_BEGIN)]) and len(begun) < len(_BEGIN):
            return ""
        if begun.startswith(_BEGIN):
            _, end, after = begun.partition(_END)
            if not end or not after.strip():
                return ""
            begun = after.lstrip()
        else:
            begun = self.waiting
        self.waiting, self.is_open = "", False
        return begun

    def rest(self) -> str:
        """Return what remains to be shown at the end; reasoning that never ended is not."""
        return "" if self.waiting.lstrip().startswith(_BEGIN) else self.waiting


@dataclass(slots=True)
class _Call:
    """A tool call, and the text of its arguments received so far."""

    index: Any
    call_id: str
    name: str
    text: str = ""


def _add_call(calls: list[_Call], part: Mapping[str, Any]) -> None:
    """Add a piece of a tool call. A new one begins with a new index or a new id; some servers send only one of them."""
    function = part.get("function") or {}
    index, call_id = part.get("index"), part.get("id") or ""
    same = [call for call in calls if call.index == index] if index is not None else calls[-1:]
    call = same[-1] if same else None
    if call is None or (call_id and call.call_id and call_id != call.call_id):
        call = _Call(index, call_id, "")
        calls.append(call)
    call.call_id = call.call_id or call_id
    call.name = call.name or function.get("name") or ""
    arguments = function.get("arguments")
    call.text += arguments if isinstance(arguments, str) else "" if arguments is None else sent_arguments(arguments)


def _finish(answer: StreamedAnswer, calls: list[_Call], thoughts: Body, *, refused: bool) -> None:
    """Take over what the chunks said; some servers report `stop` even if the model called a tool."""
    answer.calls = [ToolCall(call.call_id, call.name, parsed_arguments(call.text)) for call in calls]
    answer.content = thoughts
    end = _ENDS.get(answer.ended or "")
    answer.end = "refusal" if refused and end is not None else "tools" if end == "end" and answer.calls else end
