"""The JSON a `claude --print` ends with: taken, refused, and what of a program's words goes where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ktx_cli.llm.backends.claude.binary import CliAnswer
from ktx_cli.llm.backends.claude_cli import EXCERPT, RAW_MARK, check_ending, read_envelope
from ktx_cli.llm.errors import LlmError


def result(**facts: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "hello", **facts}


def read(out: Any, code: int = 0, err: str = "") -> Any:
    text = out if isinstance(out, str) else json.dumps(out)
    return read_envelope(CliAnswer(code, text, err), model="sonnet", role="triage")


def refused(out: Any, code: int = 0, err: str = "") -> LlmError:
    with pytest.raises(LlmError) as caught:
        read(out, code, err)
    return caught.value


TAKEN = {
    "an envelope": (result(), 0),
    "an error envelope of a process that failed": (result(is_error=True), 1),
    "an error envelope of a process that did not": (result(is_error=True), 0),
    "the array of a verbose run": ([{"type": "system"}, result(), {"type": "other"}], 0),
    "the last result of several": ([result(result="first"), result(), 7], 0),
    "the array of a verbose run that failed": ([result(is_error=True)], 1),
}


@pytest.mark.requirement("G11", "G12", "G14")
@pytest.mark.table("case", TAKEN)
def test_what_is_taken(case: str) -> None:
    out, code = TAKEN[case]
    assert read(out, code)["result"] == "hello"


REFUSED = {
    "no JSON": ("Sorry, I cannot", 0, "", "`claude` did not answer in JSON", "Sorry, I cannot"),
    "nothing": ("", 0, "warning", "`claude` did not answer in JSON", "warning"),
    "a number": ("5", 0, "", "`claude` did not answer in JSON", "5"),
    "null": ("null", 0, "", "`claude` did not answer in JSON", "null"),
    "an array without a result": ([{"type": "system"}], 0, "", "`claude` did not answer in JSON", "system"),
    "no JSON and failed": ("", 1, "unknown option --x", "`claude` ended with exit code 1", "unknown option --x"),
    "failed without a word": ("half", 2, "", "`claude` ended with exit code 2", "half"),
    "ended by a signal": ("", -9, "", "`claude` ended with exit code -9", ""),
    "a good envelope and failed": (result(), 1, "crashed", "`claude` ended with exit code 1", "crashed"),
}


@pytest.mark.requirement("G11", "G12")
@pytest.mark.table("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    out, code, err, message, raw = REFUSED[case]
    error = refused(out, code, err)
    assert (error.code, error.message, error.details["model"]) == ("connection", message, "sonnet")
    mark = error.detail.index(RAW_MARK)
    assert raw in error.detail[mark:]
    assert raw not in f"{error.hint} {error.details}" or not raw


def test_an_excerpt_is_short() -> None:
    error = refused("x" * 10_000)
    assert error.detail.count("x") <= EXCERPT + 10


def test_a_managed_mcp_file_is_named() -> None:
    error = refused("", 1, "Error: You cannot use --strict-mcp-config when an enterprise MCP config is present")
    assert (error.code, error.details["origin"]) == ("isolation", "managed-mcp.json")


ENDINGS = [
    (result(), None),
    (result(terminal_reason="completed", stop_reason="end_turn"), None),
    (result(is_error=True, api_error_status=401, result="API Error: 401"), "auth"),
    (result(is_error=True, api_error_status=403), "auth"),
    (result(is_error=True, result="Not logged in · Please run /login"), "auth"),
    (result(is_error=True, api_error_status=400, result="Credit balance is too low"), "billing"),
    (result(is_error=True, api_error_status=404), "model"),
    (result(is_error=True, api_error_status=429), "rate_limit"),
    (result(is_error=True, api_error_status=529), "overloaded"),
    (result(is_error=True, api_error_status=500), "overloaded"),
    (result(is_error=True, result="API Error: Unable to connect to API (ConnectionRefused)"), "connection"),
    (result(is_error=True, terminal_reason="prompt_too_long", api_error_status=400), "context"),
    (result(is_error=True, terminal_reason="api_error", api_error_status=400, result="other"), "execution"),
    (result(subtype="error_max_turns", is_error=True, terminal_reason="max_turns"), "max_turns"),
    (result(subtype="error_max_structured_output_retries", is_error=True), "structured_output"),
    (result(subtype="error_during_execution"), "execution"),
    (result(terminal_reason="aborted_streaming"), "execution"),
    (result(stop_reason="refusal"), "refusal"),
    (result(stop_reason="model_context_window_exceeded"), "context"),
    (result(stop_reason="max_tokens"), "execution"),
    ({"type": "result", "result": "the words say: not logged in"}, None),
]


@pytest.mark.requirement("G11", "R49")
@pytest.mark.table(("envelope", "code"), ENDINGS)
def test_how_a_call_ended(envelope: dict[str, Any], code: str | None) -> None:
    if code is None:
        check_ending(envelope, model="sonnet", role="triage")
        return
    with pytest.raises(LlmError) as caught:
        check_ending(envelope, model="sonnet", role="triage")
    assert caught.value.code == code
    status = envelope.get("api_error_status")
    assert caught.value.details.get("status") == status


@pytest.mark.requirement("R52")
def test_a_refused_schema_is_no_broken_connection() -> None:
    words = 'Error: --json-schema is not a valid JSON Schema: strict mode: unknown keyword: "x"'
    error = refused("", 1, words)
    assert (error.code, error.retryable, error.detail) == ("structured_output", False, words)


@pytest.mark.requirement("R52")
def test_an_answer_nested_too_deeply_is_not_asked_for_again() -> None:
    error = refused("[" * 20_000)
    assert (error.code, error.retryable) == ("execution", False)
    assert "nested too deeply" in error.message
