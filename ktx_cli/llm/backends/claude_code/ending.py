"""How a Claude Code call ended: natural, budget or error, and which error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.types import StopReason

_UNSUCCESSFUL_STOPS: Final = (None, "end_turn", "tool_use", "stop_sequence")

_BY_WORD: Final[Mapping[object, str]] = {
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "account_on_hold": "auth",
    "verification_required": "auth",
    "cloud_credential_error": "auth",
    "billing_error": "billing",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "model_not_found": "model",
}
_BY_TERMINAL: Final[Mapping[object, str]] = {
    "prompt_too_long": "context",
    "blocking_limit": "context",
    "rapid_refill_breaker": "context",
    "structured_output_retry_exhausted": "structured_output",
}
_BY_STATUS: Final[Mapping[object, str]] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "model",
    413: "context",
    429: "rate_limit",
    500: "overloaded",
    502: "overloaded",
    503: "overloaded",
    529: "overloaded",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """The last frame of a call, reduced to what decides. `word` is the last error word of an assistant message."""

    subtype: str
    is_error: bool
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_status: int | None = None
    word: str | None = None
    text: str = ""
    resets_at: float | None = None


def stop_reason(ending: Ending | None) -> StopReason:
    """Return how a call ended. Any sign that the turns are used up wins; an API failure says `success` and is none."""
    if ending is None:
        return "error"
    if "max_turns" in (ending.subtype.removeprefix("error_"), ending.terminal_reason, ending.stop_reason):
        return "budget"
    if ending.is_error or ending.subtype != "success":
        return "error"
    if ending.terminal_reason not in (None, "completed"):
        return "error"
    if ending.terminal_reason is None and ending.stop_reason not in _UNSUCCESSFUL_STOPS:
        return "error"
    return "natural"


def ending_error(ending: Ending | None, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error of a call that did not end naturally."""
    names: dict[str, Any] = {"backend": backend, "model": model, "role": role}
    if ending is None:
        return llm_error("execution", **names, message="Claude Code ended without a result")
    facts = {"subtype": ending.subtype, "terminal_reason": ending.terminal_reason}
    code = error_code(ending)
    resets = ending.resets_at if code == "rate_limit" else None
    return llm_error(code, **names, detail=ending.text, status=ending.api_status, resets_at=resets, **_given(facts))


def error_code(ending: Ending) -> str:
    """Return the code of an error ending, the most telling sign first."""
    if stop_reason(ending) == "budget":
        return "max_turns"
    if ending.subtype == "error_max_structured_output_retries":
        return "structured_output"
    for table, sign in (
        (_BY_TERMINAL, ending.terminal_reason),
        (_BY_WORD, ending.word),
        (_BY_STATUS, ending.api_status),
    ):
        if sign in table:
            return table[sign]
    if ending.word == "server_error":
        return "connection" if ending.api_status is None else "overloaded"
    if ending.stop_reason == "refusal":
        return "refusal"
    if ending.stop_reason == "model_context_window_exceeded":
        return "context"
    return "execution"


def _given(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}
