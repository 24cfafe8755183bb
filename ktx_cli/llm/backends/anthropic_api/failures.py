"""What the SDK raises, as errors of ours."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.governor import RateSignal

_BY_STATUS: Final = {401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context"}
_TOO_LONG: Final = ("prompt is too long", "context length", "context window", "too many tokens", "input is too long")
_NO_CREDIT: Final = ("credit balance", "insufficient credit", "billing")


def translate(error: Exception, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error for what a request raised; its words go into `detail` alone."""
    import anthropic

    names: dict[str, Any] = {"backend": backend, "model": model, "role": role}
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, names, detail)
    if isinstance(error, anthropic.APIConnectionError):
        return llm_error("connection", **names, detail=detail)
    if type(error).__module__.startswith("google.auth"):
        return llm_error("auth", **names, detail=detail)
    if isinstance(error, anthropic.APIError):  # an error event in the middle of a stream has no status of its own
        return _of_event(error, names, detail)
    if isinstance(error, ValueError | TypeError | RuntimeError) and "resolve" in str(error):
        return llm_error("auth", **names, detail=detail)
    return llm_error("execution", **names, detail=detail)


def _of_status(error: Any, names: dict[str, Any], detail: str) -> LlmError:
    status: int = error.status_code
    words = str(error).lower()
    wait = retry_after(error.response.headers)
    if status == 429:
        return llm_error("rate_limit", **names, detail=detail, status=status, retry_after=wait)
    if status == 529 or status >= 500:
        return llm_error("overloaded", **names, detail=detail, status=status, retry_after=wait)
    if status == 400 and any(sign in words for sign in _TOO_LONG):
        return llm_error("context", **names, detail=detail, status=status)
    if status in (400, 403) and any(sign in words for sign in _NO_CREDIT):
        return llm_error("billing", **names, detail=detail, status=status)
    return llm_error(_BY_STATUS.get(status, "execution"), **names, detail=detail, status=status)


def _of_event(error: Any, names: dict[str, Any], detail: str) -> LlmError:
    words = detail.lower()
    for sign, code in (("overloaded", "overloaded"), ("rate_limit", "rate_limit"), ("api_error", "overloaded")):
        if sign in words:
            return llm_error(code, **names, detail=detail)
    return llm_error("execution", **names, detail=detail)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds a response asks to wait: `retry-after-ms`, `retry-after` in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or not value:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def rate_signal(headers: Mapping[str, str]) -> RateSignal:
    """Return how much of its limits a response says is in use, the fullest limit of all."""
    used = [
        1 - remaining / limit
        for kind in ("requests", "tokens", "input-tokens", "output-tokens")
        for prefix in ("anthropic-ratelimit-", "x-ratelimit-")
        if (limit := _number(headers.get(f"{prefix}{kind}-limit"))) and limit > 0
        if (remaining := _number(headers.get(f"{prefix}{kind}-remaining"))) is not None
    ]
    return RateSignal("allowed", utilization=max(used) if used else None)


def _number(text: str | None) -> float | None:
    try:
        return max(0.0, float(text)) if text else None
    except ValueError:
        return None
