"""What the SDK raises, as errors of ours."""

from __future__ import annotations

import email.utils
import json
import math
import time
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.governor import RateSignal

_BY_STATUS: Final = {401: "auth", 402: "billing", 403: "auth", 404: "model", 408: "connection", 413: "context"}
_BY_TYPE: Final[Mapping[str | None, str]] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "billing_error": "billing",
    "not_found_error": "model",
    "request_too_large": "context",
    "rate_limit_error": "rate_limit",
    "overloaded_error": "overloaded",
    "timeout_error": "overloaded",
    "api_error": "overloaded",
}
_TOO_LONG: Final = ("prompt is too long", "context length", "context window", "too many tokens", "input is too long")
_NO_CREDIT: Final = ("credit balance", "insufficient credit", "billing")


def translate(error: Exception, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error for what a request raised; its words go into `detail` alone."""
    import anthropic

    names: dict[str, Any] = {"backend": backend, "model": model, "role": role}
    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, anthropic.APIStatusError):
        return _of_status(error, names, detail)
    if isinstance(error, anthropic.APIConnectionError | json.JSONDecodeError) or _is_of(error, "httpx2"):
        return llm_error("connection", **names, detail=detail)
    if _is_of(error, "google.auth"):
        return llm_error("auth", **names, detail=detail)
    if isinstance(error, ValueError | TypeError | RuntimeError) and "resolve" in str(error):
        return llm_error("auth", **names, detail=detail)
    return llm_error("execution", **names, detail=detail)


def incomplete(*, backend: str, model: str, role: str) -> LlmError:
    """Return the error for an answer whose end never came."""
    return llm_error(
        "connection", backend=backend, model=model, role=role, message="the answer of the model broke off in the middle"
    )


def unknown_ending(reason: str | None, *, backend: str, model: str, role: str) -> LlmError:
    """Return the error for an answer that ended for a reason ktx does not know."""
    message = f"the answer of the model `{model}` ended with `{reason}`, which ktx does not know"
    return llm_error("execution", backend=backend, model=model, role=role, message=message)


def _is_of(error: Exception, package: str) -> bool:
    return any(kind.__module__.startswith(package) for kind in type(error).__mro__)


def _of_status(error: Any, names: dict[str, Any], detail: str) -> LlmError:
    status: int = error.status_code
    words = str(error).lower()
    facts: dict[str, Any] = {**names, "detail": detail}
    if status < 400:  # an error event in the middle of a stream
        return llm_error(_BY_TYPE.get(_type(error), "execution"), **facts)
    facts["status"] = status
    if status == 429 or status >= 500:
        code = "rate_limit" if status == 429 else "overloaded"
        return llm_error(code, **facts, retry_after=retry_after(error.response.headers))
    if status == 400 and any(sign in words for sign in _TOO_LONG):
        return llm_error("context", **facts)
    if status in (400, 403) and any(sign in words for sign in _NO_CREDIT):
        return llm_error("billing", **facts)
    if status == 404 and _type(error) is None:
        return _no_api(error, facts)
    return llm_error(_BY_STATUS.get(status, "execution"), **facts)


def _type(error: Any) -> str | None:
    """Return the API's error type, None where the answer is none of the API's."""
    body = error.body
    inside = body.get("error") if isinstance(body, dict) else None
    kind = inside.get("type") if isinstance(inside, dict) else None
    return str(kind) if kind else None


def _no_api(error: Any, facts: dict[str, Any]) -> LlmError:
    """Return the error for an address that has no Messages API behind it."""
    url = error.response.request.url
    backend = facts["backend"]
    return llm_error(
        "execution",
        **facts,
        message=f"there is no Messages API at {url.copy_with(query=None, username=None, password=None)}",
        hint=f"ktx config set llm.provider.{backend}.base_url URL, without `/v1/messages` at its end",
    )


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
        number = float(text) if text else None
    except ValueError:
        return None
    return max(0.0, number) if number is not None and math.isfinite(number) else None
