"""The JSON `claude --print` ends with: read, checked, and turned into an answer or an error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.backends.claude.managed import forbids_own_servers, managed_servers_error
from ktx_cli.llm.backends.claude.processes import CliAnswer
from ktx_cli.llm.backends.claude_code.ending import Ending, ending_error, stop_reason
from ktx_cli.llm.backends.claude_code.failures import REFUSED_SCHEMA, refused_schema, too_deep
from ktx_cli.llm.errors import LlmError, llm_error

NAME: Final = "claude-cli"
EXCERPT: Final = 500
"""Characters of what a process left that go into a detail."""

RAW_MARK: Final = "--- raw ---"
"""What follows it in a detail is the program's own text, never looked at for signs."""


def read_envelope(answer: CliAnswer, *, model: str, role: str) -> Mapping[str, Any]:
    """Return the result envelope of a process, of a failed call too; raises `LlmError` where there is none.

    Of the array that `--verbose` prints it is the last frame, its text that of the whole answer, and `init` the first.
    """
    try:
        envelope = _parse(answer.out)
    except RecursionError as error:
        raise too_deep(backend=NAME, model=model, role=role) from error
    if envelope is None and forbids_own_servers(answer.err):
        raise managed_servers_error(NAME)
    if envelope is None and REFUSED_SCHEMA in answer.err:
        raise refused_schema(backend=NAME, model=model, role=role, detail=answer.err.strip()[:EXCERPT])
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
        frames = [one for one in value if isinstance(one, dict)]
        results = [one for one in frames if one.get("type") == "result"]
        started = [one for one in frames if one.get("subtype") == "init"]
        said = {"init": started[0] if started else {}, "result": _said(frames, results[-1])} if results else {}
        value = {**results[-1], **said} if results else None
    return value if isinstance(value, dict) else None


def _said(frames: list[dict[str, Any]], result: dict[str, Any]) -> Any:
    """Return the text of the whole answer: a result holds the last block alone, what came before it is in messages.

    An answer the provider stopped as a refusal, which the binary then asks for again, is no part of it.
    """
    texts: list[tuple[Any, str]] = []
    for frame in frames if not result.get("is_error") else ():
        message = frame.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        if frame.get("type") == "assistant" and isinstance(message, dict):
            texts += [(message.get("id"), str(block.get("text"))) for block in blocks if block.get("type") == "text"]
        elif frame.get("type") == "user":
            answered = any(block.get("type") == "tool_result" for block in blocks)
            refused = frame.get("refused_message_id")
            texts = [] if answered else [one for one in texts if one[0] != refused]
    return "".join(text for _, text in texts) or result.get("result")


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
