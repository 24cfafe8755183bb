"""How a call ended, for every row of the table of observed results."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.llm.backends.claude_code.reader import Ending, ending_error, error_code, stop_reason

STOP = "stop_sequence"
E = "error"

ROWS: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("normal", {"terminal_reason": "completed", "stop_reason": "end_turn"}, "natural", None),
    ("structured ok", {"terminal_reason": "completed", "stop_reason": "tool_use"}, "natural", None),
    (
        "max turns",
        {"subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns", "stop_reason": "tool_use"},
        "budget",
        "max_turns",
    ),
    ("max turns by subtype alone", {"subtype": "error_max_turns", "is_error": True}, "budget", "max_turns"),
    ("max turns by terminal reason alone", {"terminal_reason": "max_turns"}, "budget", "max_turns"),
    ("max turns by stop reason alone", {"stop_reason": "max_turns"}, "budget", "max_turns"),
    ("max turns wins over is_error", {"is_error": True, "terminal_reason": "max_turns"}, "budget", "max_turns"),
    (
        "max budget",
        {"subtype": "error_max_budget_usd", "is_error": True, "terminal_reason": "budget_exhausted"},
        E,
        "execution",
    ),
    (
        "schema never satisfied",
        {
            "subtype": "error_max_structured_output_retries",
            "is_error": True,
            "terminal_reason": "structured_output_retry_exhausted",
            "stop_reason": "tool_use",
        },
        E,
        "structured_output",
    ),
    (
        "schema never satisfied, by terminal reason",
        {"terminal_reason": "structured_output_retry_exhausted"},
        E,
        "structured_output",
    ),
    ("not logged in", {"is_error": True, "word": "authentication_failed"}, E, "auth"),
    ("401", {"is_error": True, "api_status": 401, "word": "authentication_failed"}, E, "auth"),
    ("403", {"is_error": True, "api_status": 403, "word": "authentication_failed"}, E, "auth"),
    ("401 without a word", {"is_error": True, "api_status": 401}, E, "auth"),
    ("no such organisation", {"is_error": True, "word": "oauth_org_not_allowed"}, E, "auth"),
    ("credit", {"is_error": True, "api_status": 400, "word": "billing_error"}, E, "billing"),
    ("402", {"is_error": True, "api_status": 402}, E, "billing"),
    ("400 other", {"is_error": True, "api_status": 400, "word": "unknown"}, E, "execution"),
    (
        "prompt too long",
        {"is_error": True, "terminal_reason": "prompt_too_long", "api_status": 400, "word": "invalid_request"},
        E,
        "context",
    ),
    ("prompt too long, found locally", {"is_error": True, "terminal_reason": "blocking_limit"}, E, "context"),
    ("refilled too fast", {"is_error": True, "terminal_reason": "rapid_refill_breaker"}, E, "context"),
    ("413", {"is_error": True, "api_status": 413}, E, "context"),
    ("unknown model", {"is_error": True, "api_status": 404, "word": "model_not_found"}, E, "model"),
    ("404", {"is_error": True, "api_status": 404}, E, "model"),
    ("429", {"is_error": True, "api_status": 429, "word": "rate_limit"}, E, "rate_limit"),
    ("subscription limit", {"is_error": True, "word": "rate_limit"}, E, "rate_limit"),
    ("529", {"is_error": True, "api_status": 529, "word": "server_error"}, E, "overloaded"),
    ("500", {"is_error": True, "api_status": 500, "word": "server_error"}, E, "overloaded"),
    ("overloaded", {"is_error": True, "word": "overloaded"}, E, "overloaded"),
    ("network refused", {"is_error": True, "word": "server_error"}, E, "connection"),
    ("output cap again and again", {"is_error": True, "word": "max_output_tokens"}, E, "execution"),
    (
        "interrupted",
        {"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_streaming"},
        E,
        "execution",
    ),
    ("a local command", {}, "natural", None),
    ("refusal without a terminal reason", {"stop_reason": "refusal"}, E, "refusal"),
    ("window full without a terminal reason", {"stop_reason": "model_context_window_exceeded"}, E, "context"),
    ("cut without a terminal reason", {"stop_reason": "max_tokens"}, E, "execution"),
    ("paused without a terminal reason", {"stop_reason": "pause_turn"}, E, "execution"),
    ("refusal the binary got over", {"terminal_reason": "completed", "stop_reason": "refusal"}, "natural", None),
    ("a terminal reason of tomorrow", {"terminal_reason": "sunspots"}, E, "execution"),
    ("a subtype of tomorrow", {"subtype": "error_sunspots"}, E, "execution"),
    *[
        (f"terminal {reason}", {"terminal_reason": reason}, E, "execution")
        for reason in (
            "image_error",
            "model_error",
            "malformed_tool_use_exhausted",
            "aborted_tools",
            "stop_hook_prevented",
            "hook_stopped",
            "tool_deferred",
            "background_requested",
            "tool_deferred_unavailable",
            "turn_setup_failed",
        )
    ],
]


@pytest.mark.requirement("R49", "R52")
@pytest.mark.table(("facts", "reason", "code"), [row[1:] for row in ROWS])
def test_ending(facts: dict[str, Any], reason: str, code: str | None) -> None:
    ending = Ending(**{"subtype": "success", "is_error": False, **facts})
    assert stop_reason(ending) == reason
    if code is not None:
        assert error_code(ending) == code


@pytest.mark.requirement("R49")
def test_no_result_is_an_error() -> None:
    assert stop_reason(None) == "error"
    error = ending_error(None, backend="claude-code", model="haiku", role="triage")
    assert (error.code, error.message) == ("execution", "Claude Code ended without a result")


@pytest.mark.requirement("R41", "R52", "C10")
def test_the_providers_words_are_detail_alone() -> None:
    words = "Not logged in · Please run /login"
    ending = Ending("success", True, "api_error", "stop_sequence", 401, "authentication_failed", words)
    error = ending_error(ending, backend="claude-code", model="haiku", role="triage")
    assert error.detail == words
    assert words not in f"{error.message}{error.hint}{error.details}"
    assert "sign in to Claude Code" in (error.hint or "")
    assert error.details["status"] == 401


def test_a_limit_keeps_the_time_it_resets() -> None:
    ending = Ending("success", True, "api_error", word="rate_limit", resets_at=1_900_000_000.0)
    error = ending_error(ending, backend="claude-code", model="haiku", role="triage")
    assert (error.code, error.resets_at) == ("rate_limit", 1_900_000_000.0)
