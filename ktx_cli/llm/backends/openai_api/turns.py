"""What the two APIs of OpenAI share: an answer while it is received, and the parts of requests that are alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from ktx_cli.llm.agent_loop import CallSpec, Conversation, Entry, ModelTurn, ToolCall, TurnEnd
from ktx_cli.llm.backends.openai_api.abilities import Lack
from ktx_cli.llm.types import ToolInvocation, Usage

Body = dict[str, Any]
OnText = Callable[[str], None]

FAILED: Final = "Error: "
"""What the result of a failed tool call begins with; neither API has a field for it."""

EMPTY: Final = "(empty)"
"""The text of an answer without any, which servers do not accept in a history."""

MAX_TOKENS: Final = 32_000
MAX_TOKENS_UNKNOWN: Final = 8_192
"""Maximum number of output tokens to request; unknown models often do not allow more."""


@dataclass(slots=True)
class StreamedAnswer:
    """An answer that is still being received.

    `content`: what its API needs of it to repeat it. `ended`: the API's reason for its end, None before the end.
    `failure`: the code and the message of an error in the middle of the answer.
    """

    answer_id: str = ""
    model: str | None = None
    texts: list[str] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    content: Any = None
    end: TurnEnd | None = None
    ended: str | None = None
    usage: Usage = field(default_factory=Usage)
    failure: tuple[str, str] | None = None

    @property
    def text(self) -> str:
        """The text, joined."""
        return "".join(self.texts)


class Api(Protocol):
    """One of the two APIs. `name`: its value in the settings; `path`: what its URL adds to the base URL."""

    name: str
    path: str
    title: str

    def body(self, spec: CallSpec, conversation: Conversation, lacks: frozenset[Lack], *, caches: bool) -> Body:
        """Return the body of a request, identical for identical input."""
        ...

    async def read(self, events: AsyncIterator[Any], answer: StreamedAnswer, on_text: OnText) -> None:
        """Add the content of events to the answer; received content is in it even if this raises."""
        ...

    def echo(self, answer: StreamedAnswer, calls: Sequence[ToolCall]) -> Any:
        """Return plain values that repeat an answer in the next request; `calls`: its calls with their final ids."""
        ...


def token_limit(spec: CallSpec) -> int:
    """Return the number of output tokens to request."""
    return MAX_TOKENS if spec.backend == "openai" or spec.effort is not None else MAX_TOKENS_UNKNOWN


def turn_of(entry: Entry) -> ModelTurn:
    """Return the turn of an entry that has one."""
    if entry.turn is None:
        raise ValueError("an entry of kind `turn` must have a turn")
    return entry.turn


def echo_of(turn: ModelTurn, api: str) -> Any:
    """Return what repeats a turn; None if another API wrote it, as in a loop resumed with other settings."""
    raw = turn.raw
    return raw["echo"] if isinstance(raw, Mapping) and raw.get("api") == api else None


def result_text(result: ToolInvocation) -> str:
    """Return the result of a tool call as the model reads it."""
    return f"{FAILED}{result.text}" if result.is_error else result.text


def parsed_arguments(text: str) -> Mapping[str, Any] | str:
    """Return the arguments of a tool call: an object, or the text if it is not one."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def sent_arguments(arguments: Mapping[str, Any] | str) -> str:
    """Return arguments as text for the history: always an object, because some servers parse it."""
    return json.dumps({"unparsed": arguments} if isinstance(arguments, str) else dict(arguments))


def unique_calls(calls: list[ToolCall], conversation: Conversation) -> list[ToolCall]:
    """Return calls whose ids differ from each other and from all earlier ones: some servers count anew in each turn."""
    used = {call.call_id for entry in conversation.history if entry.turn for call in entry.turn.calls}
    found: list[ToolCall] = []
    for call in calls:
        call_id, number = call.call_id or "call", 1
        while call_id in used:
            number += 1
            call_id = f"{call.call_id or 'call'}_{number}"
        used.add(call_id)
        found.append(replace(call, call_id=call_id))
    return found


def usage_of(prompt: Any, answer: Any, details: Any) -> Usage:
    """Return the usage for the tokens of a whole prompt, of an answer, and the details about the cache."""
    details = details if isinstance(details, Mapping) else {}
    read, written = _count(details.get("cached_tokens")), _count(details.get("cache_write_tokens"))
    return Usage(max(0, _count(prompt) - read - written), _count(answer), read, written)


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0
