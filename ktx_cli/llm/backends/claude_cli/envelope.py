"""The JSON `claude --print` ends with: read, checked, and turned into an answer or an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.backends.claude.processes import CliAnswer
from ktx_cli.llm.backends.claude_code.ending import Ending, ending_error, stop_reason
from ktx_cli.llm.errors import LlmError, llm_error

NAME: Final = "claude-cli"
EXCERPT: Final = 500
"""Characters of what a process left that go into a detail."""

RAW_MARK: Final = "--- raw ---"
"""What follows it in a detail is the program's own text, never looked at for signs."""


def read_envelope(answer: CliAnswer, *, model: str, role: str) -> Mapping[str, Any]:
    """Return the result envelope of a process, of a failed call too; raises `LlmError` where there is none.

    The array that `--verbose` prints is taken as well.
    """
    envelope = _parse(answer.out)
    if answer.code != 0 and (envelope is None or not envelope.get("is_error")):
        raise _broken(f"`claude` ended with exit code {answer.code}", answer.err or answer.out, model, role)
    if envelope is None:
        raise _broken("`claude` did not answer in JSON", answer.out or answer.err, model, role)
    return envelope


def check_ending(envelope: Mapping[str, Any], *, model: str, role: str) -> None:
    """Raise `LlmError` unless the call ended naturally: an API failure says `success`, and `is_error` beside it."""
    ending = _ending(envelope)
    if stop_reason(ending) != "natural":
        raise ending_error(ending, backend=NAME, model=model, role=role)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        results = [one for one in value if isinstance(one, dict) and one.get("type") == "result"]
        value = results[-1] if results else None
    return value if isinstance(value, dict) else None


def _ending(envelope: Mapping[str, Any]) -> Ending:
    status = envelope.get("api_error_status")
    return Ending(
        str(envelope.get("subtype", "success")),
        bool(envelope.get("is_error")),
        envelope.get("terminal_reason"),
        envelope.get("stop_reason"),
        status if isinstance(status, int) else None,
        _word(envelope),
        str(envelope.get("result") or ""),
    )


def _word(envelope: Mapping[str, Any]) -> str | None:
    """Return the error word the binary's own sentences stand for: the envelope has no field for it."""
    said = str(envelope.get("result") or "").lower()
    if not envelope.get("is_error"):
        return None
    for sign, word in (
        ("not logged in", "authentication_failed"),
        ("please run /login", "authentication_failed"),
        ("credit balance is too low", "billing_error"),
        ("connection error", "server_error"),
        ("unable to connect", "server_error"),
    ):
        if sign in said:
            return word
    return None


def _broken(message: str, raw: str, model: str, role: str) -> LlmError:
    detail = f"{message}\n{RAW_MARK}\n{raw.strip()[:EXCERPT]}"
    return llm_error(
        "connection", backend=NAME, model=model, role=role, message=message, detail=detail, hint="ktx doctor"
    )
