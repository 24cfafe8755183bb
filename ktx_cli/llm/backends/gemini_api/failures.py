"""The errors of the Gemini API, by their status and their words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import Command, Hint
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import retry_after

_BY_STATUS: Final[Mapping[str, str]] = {
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAVAILABLE": "overloaded", "INTERNAL": "overloaded", "DEADLINE_EXCEEDED": "overloaded", "UNKNOWN": "overloaded",
    "UNAUTHENTICATED": "auth", "PERMISSION_DENIED": "auth", "CANCELLED": "connection",
}  # fmt: skip
_BY_CODE: Final = {401: "auth", 403: "auth", 408: "connection", 413: "context", 429: "rate_limit", 499: "connection"}

_TOO_LONG: Final = re.compile(r"token count.*exceeds the maximum|exceeds the (?:maximum|model's) .*(?:token|context)")
_NO_KEY: Final = re.compile(r"api.key (?:not valid|not found|expired|is invalid)|api_key_invalid")
_NO_CREDIT: Final = re.compile(
    r"credits are depleted|billing.(?:account|disabled)|enable billing|exceeded its (?:monthly )?spending cap"
)
_NO_MODEL: Final = re.compile(
    r"models?/\S+ is not found|model .*(?:not found|not exist|no longer available|not support)"
)


def translate(error: Exception, names: CallNames) -> LlmError:
    """Return the error for an exception raised by a request; the exception's message only goes into `detail`."""
    from google.genai import errors

    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, errors.APIError):
        return _of_api(error, {**names, "detail": detail})
    if isinstance(error, errors.UnknownApiResponseError | ConnectionError) or _is_of(error, "httpx2"):
        return llm_error("connection", **names, detail=detail)
    return llm_error("execution", **names, detail=detail)


def _is_of(error: Exception, package: str) -> bool:
    return any(kind.__module__.startswith(package) for kind in type(error).__mro__)


def _of_api(error: Any, facts: dict[str, Any]) -> LlmError:
    code, status, words = int(error.code or 0), str(error.status or "").upper(), str(error).lower()
    facts = {**facts, **({"status": code} if code >= 400 else {})}
    if _NO_CREDIT.search(words):
        return llm_error("billing", **facts)
    if code == 429 or code >= 500 or status in ("RESOURCE_EXHAUSTED", "UNAVAILABLE"):
        known = _BY_STATUS.get(status) or _BY_CODE.get(code, "overloaded")
        return llm_error(known, **facts, retry_after=_delay(error))
    if _NO_KEY.search(words):
        return llm_error("auth", **facts)
    if code in (400, 413) and _TOO_LONG.search(words):
        return llm_error("context", **facts)
    if code == 404 and _NO_MODEL.search(words):
        return llm_error("model", **facts)
    if code in (404, 405):
        return _no_api(error, facts)
    return llm_error(_BY_STATUS.get(status) or _BY_CODE.get(code, "execution"), **facts)


def _delay(error: Any) -> float | None:
    """Return the seconds to wait: of the detail `RetryInfo`, such as `34.5s`, or else of the header."""
    for detail in _details(error):
        found = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(detail.get("retryDelay") or ""))
        if found is not None:
            return float(found[1])
    headers = getattr(error.response, "headers", None)
    return None if headers is None else retry_after(headers)


def _details(error: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the details of an error, which is the whole body or the object in it."""
    body = error.details if isinstance(error.details, Mapping) else {}
    inside = body.get("error", body)
    found = inside.get("details") if isinstance(inside, Mapping) else None
    yield from (one for one in found or () if isinstance(one, Mapping))


def _no_api(error: Any, facts: dict[str, Any]) -> LlmError:
    """Return the error for a URL without the API."""
    request = getattr(error.response, "request", None)
    place = request.url.copy_with(query=None, username=None, password=None) if request is not None else "this URL"
    command = Command("config", "set", "llm.provider.gemini.base_url", "URL")
    message = f"there is no Gemini API at {place}"
    return llm_error("execution", **facts, message=message, hint=Hint("{}, without the version at its end", command))
