"""What a server or a model cannot do: found when it rejects a request, remembered, and worked around.

ktx first asks in the best way: with a JSON Schema for the answer, an effort, a limit, the usage at the end of a stream.
Servers that implement an API of OpenAI support different parts of it. If one rejects a request and names a part that
ktx can do without, ktx asks again without it, and never sends that part to this model again in the same process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from ktx_cli.llm.agent_loop import CallSpec
from ktx_cli.llm.schemas import DEFINITION, VARIANT_KEYS, is_lossless

Method = Literal["format", "tool", "prompt"]
"""How to ask for an object: by a response format, by a tool that the model must call, or by words in the prompt."""


class Lack(StrEnum):
    """A part of the API that a server or a model does not support."""

    FORMAT = "a JSON Schema for the answer"
    FORCED_TOOL = "a tool that the model must call"
    TOOLS = "tools"
    PARALLEL = "several tool calls in one answer"
    SYSTEM = "a system prompt"
    EFFORT = "an effort"
    LIMIT_NAME = "`max_completion_tokens`"
    LIMIT = "a limit of the answer"
    STREAM_USAGE = "the usage at the end of a stream"
    SEALED = "encrypted reasoning"
    CACHE_KEY = "a key for the cache"


@dataclass(frozen=True, slots=True)
class Sign:
    """The sign of a lack: `words` in the error, for a request that `used` the part."""

    lack: Lack
    used: Callable[[Mapping[str, Any]], bool]
    words: re.Pattern[str]


def _has(*keys: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda body: any(key in body for key in keys)


def _has_format(body: Mapping[str, Any]) -> bool:
    return "response_format" in body or "text" in body


def _has_several_calls(body: Mapping[str, Any]) -> bool:
    return any(len(message.get("tool_calls") or ()) > 1 for message in body.get("messages") or ())


def _has_system(body: Mapping[str, Any]) -> bool:
    return any(message.get("role") == "system" for message in body.get("messages") or ())


_UNSUPPORTED: Final = (
    r"(?:unsupported|not support|unknown|unrecogni[sz]ed|unexpected|extra|not permitted|forbidden|invalid value)"
)


def _rejects(part: str) -> str:
    """Return a pattern for an error that names a part and says that it is not supported."""
    return rf"{_UNSUPPORTED}.*(?:{part})|(?:{part}).*{_UNSUPPORTED}"


_SIGNS: Final = tuple(
    Sign(lack, used, re.compile(words))
    for lack, used, words in (
        (Lack.PARALLEL, _has_several_calls, r"single tool.?calls?|parallel.tool|(?:multiple|several) tool.?calls"),
        (Lack.FORCED_TOOL, _has("tool_choice"), r"tool.choice"),
        (
            Lack.TOOLS,
            _has("tools"),
            r"not support (?:the )?(?:use of )?(?:tool|function)|support tool use|enable-auto-tool-choice"
            r"|tool.(?:use|call(?:s|ing)?) (?:is|are) not (?:supported|available|enabled)"
            r"|tools? (?:param\w* )?(?:is|are) not supported|unsupported param\w*:? .?tools",
        ),
        (Lack.SYSTEM, _has_system, r"system (?:role|messages?|prompts?) (?:is |are )?not supported|not support system"),
        (Lack.FORMAT, _has_format, r"response.?format|text\.format|json.schema|structured.output|guided|grammar"),
        (Lack.SEALED, _has("include"), _rejects(r"encrypted.content|\binclude\b")),
        (Lack.EFFORT, _has("reasoning", "reasoning_effort"), _rejects(r"reasoning|\beffort|thinking")),
        (Lack.STREAM_USAGE, _has("stream_options"), r"stream.options|include.usage"),
        (Lack.CACHE_KEY, _has("prompt_cache_key"), r"prompt.cache.key"),
        (Lack.LIMIT_NAME, _has("max_completion_tokens"), _rejects("max_completion_tokens")),
        (
            Lack.LIMIT,
            _has("max_completion_tokens", "max_tokens", "max_output_tokens"),
            r"max.(?:completion.|output.|new.)?tokens|in the completion|output tokens",
        ),
    )
)
"""The signs, the more specific first."""

_STATUSES: Final = frozenset({400, 422, 501})
"""The statuses of a server that does not support a part of a request."""

_OF_MODELS: Final[Mapping[int, frozenset[Lack]]] = {
    404: frozenset({Lack.TOOLS}),  # a router without a server that has the model and tools
    500: frozenset({Lack.PARALLEL, Lack.SYSTEM, Lack.TOOLS}),  # an error in a model's template
}
"""Further statuses, with the lacks of models that they may show."""

_OF_THIS_CALL: Final = re.compile(r"invalid.{0,3}(?:json.{0,3})?schema")
"""Matches an error about the schema of one call, which says nothing about other schemas."""


def lack_in(status: int, words: str, body: Mapping[str, Any], known: frozenset[Lack]) -> tuple[Lack, bool] | None:
    """Return what a rejected request shows that the server lacks, and whether that is true of all calls; else None.

    `words`: the error in lower case; `known`: the lacks that the request already took into account.
    """
    possible = frozenset(Lack) if status in _STATUSES else _OF_MODELS.get(status, frozenset())
    for sign in _SIGNS:
        if sign.lack in possible - known and sign.used(body) and sign.words.search(words):
            return sign.lack, not _OF_THIS_CALL.search(words)
    return None


_FOUND: Final[dict[tuple[str, str, str], frozenset[Lack]]] = {}


class Abilities:
    """The lacks of the models behind one URL, by what their requests showed; shared by all clients of the process."""

    def __init__(self, base_url: str, api: str) -> None:
        self._place = (base_url, api)

    def lacks(self, model: str) -> frozenset[Lack]:
        """Return the known lacks of a model."""
        return _FOUND.get((*self._place, model), frozenset())

    def learn(self, model: str, lack: Lack) -> None:
        """Remember a lack of a model until the process ends."""
        _FOUND[(*self._place, model)] = self.lacks(model) | {lack}


def method_of(spec: CallSpec, lacks: frozenset[Lack]) -> Method:
    """Return how to ask for the object of a call."""
    if Lack.FORMAT not in lacks and is_strict(spec.schema or {}):
        return "format"
    return "prompt" if {Lack.TOOLS, Lack.FORCED_TOOL} & lacks else "tool"


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether the strict form can carry a schema; it has no `allOf`."""
    return schema.get("type") == "object" and is_lossless(schema) and '"allOf"' not in json.dumps(schema)


def schema_in_words(schema: Mapping[str, Any]) -> str:
    """Return a request for an object in words, for a model that supports neither formats nor tools."""
    return (
        "Answer with a single JSON object, without any other text. It must match this JSON Schema:\n"
        f"{json.dumps(schema, sort_keys=True)}"
    )


_CARRIED: Final = frozenset({"type", "enum", "const", "items", "description"})
"""Keywords that a strict schema takes over unchanged, apart from what is in them."""

_LIMITS: Final = re.compile(r"(?:exclusive)?m(?:in|ax)|multipleOf|pattern|format|uniqueItems")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a lossless schema in the strict form: closed objects whose properties are all required, and no limits.

    Limits go into the description, where the model reads them; ktx checks them in the answer.
    """
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith(DEFINITION):
        return {"$ref": reference}
    made = {key: value for key, value in schema.items() if key in _CARRIED}
    limits = {key: value for key, value in schema.items() if _LIMITS.match(key)}
    if limits:
        made["description"] = f"{schema.get('description', '')} {json.dumps(limits, sort_keys=True)}".strip()
    if isinstance(made.get("items"), Mapping):
        made["items"] = strict_schema(made["items"])
    variants = [strict_schema(one) for key in VARIANT_KEYS for one in schema.get(key, ())]
    if variants:
        made["anyOf"] = variants
    if schema.get("type") == "object":
        properties = {name: strict_schema(one) for name, one in schema.get("properties", {}).items()}
        made |= {"properties": properties, "required": list(properties), "additionalProperties": False}
    if "$defs" in schema:
        made["$defs"] = {name: strict_schema(one) for name, one in schema["$defs"].items()}
    return made
