"""Requests of the Gemini API from a conversation, and answers from its chunks.

Parts that a model signs (`thought_signature`) go back as they came, next to the calls they belong to: the models
require it within a turn.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ModelTurn, ToolCall, TurnEnd
from ktx_cli.llm.backends.gemini_api import FIRST_WITH_LEVELS, version_of
from ktx_cli.llm.schemas import ANSWER_TOOL, is_lossless
from ktx_cli.llm.types import ToolInvocation, Usage, encodable

if TYPE_CHECKING:
    from google.genai import types

Plain = dict[str, Any]

MAX_TOKENS: Final = 65_536
MAX_TOKENS_UNKNOWN: Final = 8_192
"""Maximum number of output tokens to request, including thoughts; older models do not allow more."""

BUDGETS: Final = {"low": 1_024, "medium": 8_192, "high": 24_576}
"""The thinking budget in tokens of an effort, for the models without thinking levels."""

EMPTY: Final = "(empty)"
"""The text of an answer without any, which the API does not accept in a history."""

ENDS: Final[Mapping[str, TurnEnd]] = {
    "STOP": "end", "MAX_TOKENS": "max_tokens",
    **dict.fromkeys(
        ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR"),
        "refusal",
    ),
}  # fmt: skip
"""The end of a turn by the finish reason of its candidate."""

MALFORMED: Final = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The finish reasons of an answer that the API could not read, and does not return."""


def request_contents(conversation: Conversation) -> list[types.Content]:
    """Return the history as the contents of a request."""
    from google.genai import types

    plain = encodable([_content(entry) for entry in conversation.history])
    return [types.Content.model_validate_json(json.dumps(one)) for one in plain]


def request_config(spec: CallSpec, conversation: Conversation) -> types.GenerateContentConfig:
    """Return everything else in a request, identical for identical input."""
    from google.genai import types

    config: Plain = {
        "max_output_tokens": MAX_TOKENS if spec.effort is not None else MAX_TOKENS_UNKNOWN,
        "automatic_function_calling": {"disable": True},
        "automatic_continuation": False,
    }
    if conversation.system.strip():
        config["system_instruction"] = conversation.system
    tools = [_function(tool.name, tool.description, tool.input_schema()) for tool in spec.tools.values()]
    if spec.schema is not None and _has_format(spec.schema):
        config |= {"response_mime_type": "application/json", "response_json_schema": json_schema(spec.schema)}
    elif spec.schema is not None:
        tools = [_function(ANSWER_TOOL, "Give the answer.", spec.schema)]
        forced = {"mode": "ANY", "allowed_function_names": [ANSWER_TOOL]}
        config["tool_config"] = {"function_calling_config": forced}
    if tools:
        config["tools"] = [{"function_declarations": tools}]
    if spec.effort is not None:
        has_levels = version_of(spec.model) >= FIRST_WITH_LEVELS
        thinking = {"thinking_level": spec.effort} if has_levels else {"thinking_budget": BUDGETS[spec.effort]}
        config["thinking_config"] = thinking
    return types.GenerateContentConfig.model_validate(encodable(config))


def _has_format(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object" and is_lossless(schema) and '"allOf"' not in json.dumps(schema)


def _function(name: str, description: str, schema: Mapping[str, Any]) -> Plain:
    return {"name": name, "description": description, "parameters_json_schema": json_schema(schema)}


_KEPT: Final = frozenset(
    {
        *("type", "format", "description", "enum", "required", "minItems", "maxItems", "minimum", "maximum"),
        *("$ref", "additionalProperties", "items", "prefixItems", "anyOf", "oneOf", "properties", "$defs"),
    }
)
"""The keywords of JSON Schema that the API supports."""


def json_schema(schema: Mapping[str, Any]) -> Plain:
    """Return a schema with the keywords that the API supports; ktx checks the others in the answer.

    A constant becomes an `enum` with one value. `allOf` with a single schema, as for a reference with a description,
    becomes that schema.
    """
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    if len(schema.get("allOf", ())) == 1:
        schema = {**schema["allOf"][0], **schema}
    made = {key: value for key, value in schema.items() if key in _KEPT}
    for key in ("properties", "$defs"):
        if key in made:
            made[key] = {name: json_schema(one) for name, one in made[key].items()}
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in made:
            made[key] = [json_schema(one) for one in made[key]]
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), Mapping):
            made[key] = json_schema(made[key])
    return made


def _content(entry: Entry) -> Plain:
    if entry.kind == "results":
        return {"role": "user", "parts": [_response(one) for one in entry.results]}
    if entry.kind == "turn":
        if entry.turn is None:
            raise ValueError("an entry of kind `turn` must have a turn")
        return {"role": "model", "parts": _parts_of(entry.turn)}
    texts = [part.text for part in entry.parts] or [entry.text]
    return {"role": "user", "parts": [{"text": text} for text in texts]}


def _response(result: ToolInvocation) -> Plain:
    """Return the result of a tool call; the API finds the call by the id, or else by the name and the order."""
    answer = {"error" if result.is_error else "output": result.text}
    own_id = {} if result.call_id.startswith(OWN_ID) else {"id": result.call_id}
    return {"functionResponse": {**own_id, "name": result.name, "response": answer}}


OWN_ID: Final = "ktx_call_"
"""What the id of a call begins with if the API did not give it one."""


def _parts_of(turn: ModelTurn) -> list[Plain]:
    """Return the parts of a turn as they came, or those that another backend's turn consists of."""
    raw = turn.raw
    if isinstance(raw, Mapping) and "parts" in raw:
        return list(raw["parts"])
    parts: list[Plain] = [{"text": turn.text}] if turn.text.strip() else []
    parts += [{"functionCall": {"name": call.name, "args": _arguments(call)}} for call in turn.calls]
    return parts or [{"text": EMPTY}]


def _arguments(call: ToolCall) -> Plain:
    return {"unparsed": call.arguments} if isinstance(call.arguments, str) else dict(call.arguments)


@dataclass(slots=True)
class StreamedAnswer:
    """An answer that is still being received. `ended`: the API's reason for its end, None before the end.

    `parts`: the parts of the answer as plain values, ready to be sent back.
    """

    answer_id: str = ""
    model: str | None = None
    texts: list[str] = field(default_factory=list)
    parts: list[Plain] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    ended: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """The text, joined."""
        return "".join(self.texts)

    @property
    def end(self) -> TurnEnd | None:
        """The end of the turn, None before it and for an unknown reason."""
        end = ENDS.get(self.ended or "")
        return "tools" if end == "end" and self.calls else end

    def echo(self) -> Plain:
        """Return what repeats the answer in the next request."""
        has_content = any("functionCall" in part or part.get("text", "").strip() for part in self.parts)
        return {"parts": [*self.parts, *([] if has_content else [{"text": EMPTY}])]}


async def read_answer(
    chunks: AsyncIterator[types.GenerateContentResponse], answer: StreamedAnswer, on_text: Callable[[str], None]
) -> None:
    """Add the content of chunks to the answer; received content is in it even if this raises."""
    async for chunk in chunks:
        answer.answer_id = chunk.response_id or answer.answer_id
        answer.model = chunk.model_version or answer.model
        if chunk.usage_metadata is not None:
            answer.usage = _usage(chunk.usage_metadata)
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None:
            answer.ended = "PROHIBITED_CONTENT"
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content.parts or ()) if candidate.content is not None else ():
                _add_part(answer, part, on_text)
            if candidate.finish_reason is not None:
                answer.ended = str(candidate.finish_reason.value)


def _add_part(answer: StreamedAnswer, part: types.Part, on_text: Callable[[str], None]) -> None:
    if part.thought and not part.thought_signature:
        return
    plain = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    if part.text and not part.thought:
        answer.texts.append(part.text)
        on_text(part.text)
    if part.function_call is not None:
        call = part.function_call
        answer.calls.append(ToolCall(call.id or "", call.name or "", call.args or {}))
    before = answer.parts[-1] if answer.parts else {}
    if before.keys() == plain.keys() == {"text"}:
        before["text"] += plain["text"]
    else:
        answer.parts.append(plain)


def unique_calls(calls: list[ToolCall], conversation: Conversation) -> list[ToolCall]:
    """Return calls that all have an id: an own one if the API did not give them one."""
    number = sum(len(entry.turn.calls) for entry in conversation.history if entry.turn is not None)
    return [
        call if call.call_id else replace(call, call_id=f"{OWN_ID}{number + place}")
        for place, call in enumerate(calls, 1)
    ]


def _usage(counts: types.GenerateContentResponseUsageMetadata) -> Usage:
    """Return the usage. Thoughts are output; the API counts only reads of its cache."""
    read = counts.cached_content_token_count or 0
    prompt = (counts.prompt_token_count or 0) + (counts.tool_use_prompt_token_count or 0)
    return Usage(max(0, prompt - read), (counts.candidates_token_count or 0) + (counts.thoughts_token_count or 0), read)
