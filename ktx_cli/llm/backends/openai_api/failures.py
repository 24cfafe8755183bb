"""The errors and rate limits of OpenAI's APIs, and of the servers that implement them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.core import Command, Hint
from ktx_cli.llm.backends.openai_api.abilities import Lack
from ktx_cli.llm.backends.openai_api.turns import Api
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.governor import RateSignal, header_number, retry_after

_BY_STATUS: Final = {401: "auth", 402: "billing", 403: "auth", 408: "connection", 413: "context"}
_BY_CODE: Final[Mapping[str, str]] = {
    "insufficient_quota": "billing", "billing_hard_limit_reached": "billing", "billing_not_active": "billing",
    "context_length_exceeded": "context", "exceed_context_size_error": "context", "string_above_max_length": "context",
    "model_not_found": "model", "deploymentnotfound": "model", "invalid_model": "model",
    "content_filter": "refusal", "content_policy_violation": "refusal", "invalid_prompt": "refusal",
    "rate_limit_exceeded": "rate_limit", "429": "rate_limit", "402": "billing", "401": "auth", "403": "auth",
    "server_error": "overloaded", "overloaded": "overloaded", "server_is_overloaded": "overloaded",
    "slow_down": "overloaded", "500": "overloaded", "502": "overloaded", "503": "overloaded",
}  # fmt: skip
"""ktx's code for a code or a type in an error; gateways use HTTP statuses as codes in the middle of a stream."""

_TOO_LONG: Final = re.compile(
    r"maximum context length|context (?:length|window|size)|prompt is too long|too many tokens|context the overflows"
)
_NO_CREDIT: Final = re.compile(r"exceeded your current quota|insufficient (?:credit|quota|balance|funds)|billing")
_NO_MODEL: Final = re.compile(
    r"model .*(?:not exist|not found|not available|not loaded)|not a valid model|no such model"
)
_FLAGGED: Final = re.compile(r"content management policy|usage policy|flagged|responsibleaipolicy")


def words_of(error: Exception) -> str:
    """Return the whole error of the API in lower case."""
    return str(error).lower()


def translate(error: Exception, names: CallNames, api: Api) -> LlmError:
    """Return the error for an exception raised by a request; the exception's message only goes into `detail`."""
    import openai

    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, openai.APIStatusError):
        return _of_status(error, names, detail, api)
    if isinstance(error, openai.APIConnectionError | json.JSONDecodeError) or _is_of(error, "httpx2"):
        return llm_error("connection", **names, detail=detail)
    if isinstance(error, openai.APIError):  # in the middle of a stream
        return failed(_marks(error.code, error.type), str(error), names)
    return llm_error("execution", **names, detail=detail)


def failed(codes: tuple[str, ...], message: str, names: CallNames) -> LlmError:
    """Return the error for one in the middle of an answer, by its codes or else its words."""
    code = next((_BY_CODE[each] for each in codes if each in _BY_CODE), None) or _by_words(message.lower())
    return llm_error(code or "execution", **names, detail=f"{' '.join(codes)}: {message}")


def _is_of(error: Exception, package: str) -> bool:
    return any(kind.__module__.startswith(package) for kind in type(error).__mro__)


def _marks(*values: Any) -> tuple[str, ...]:
    return tuple(str(value).lower() for value in values if value)


def _by_words(words: str) -> str | None:
    signs = (("context", _TOO_LONG), ("refusal", _FLAGGED), ("billing", _NO_CREDIT), ("model", _NO_MODEL))
    return next((code for code, sign in signs if sign.search(words)), None)


def _of_status(error: Any, names: CallNames, detail: str, api: Api) -> LlmError:
    status: int = error.status_code
    words, codes = words_of(error), _marks(error.code, error.type)
    facts: dict[str, Any] = {**names, "detail": detail, "status": status}
    known = next((_BY_CODE[each] for each in codes if each in _BY_CODE), None)
    if status == 429 or status >= 500:
        code = "billing" if status == 429 and (known == "billing" or _NO_CREDIT.search(words)) else None
        code = code or ("rate_limit" if status == 429 else "overloaded")
        return llm_error(code, **facts, retry_after=retry_after(error.response.headers))
    if known in ("context", "refusal", "billing", "model"):
        return llm_error(known, **facts)
    if status in (400, 403, 404, 422) and (code := _by_words(words)) is not None:
        return llm_error(code, **facts)
    if status in (404, 405) or (status == 400 and "unknown_url" in codes):
        return no_api(str(error.response.request.url), facts, api)
    return llm_error(_BY_STATUS.get(status, "execution"), **facts)


def no_api(url: str, facts: dict[str, Any], api: Api) -> LlmError:
    """Return the error for a URL without the API."""
    import httpx2

    place = httpx2.URL(url).copy_with(query=None, username=None, password=None)
    block = str(facts["backend"]).replace("-", "_")
    command = Command("config", "set", f"llm.provider.{block}.base_url", "URL")
    message = f"there is no {api.title} at {place}"
    return llm_error("execution", **facts, message=message, hint=Hint("{}, without `{}`", command, api.path))


def without_tools(names: CallNames, detail: str) -> LlmError:
    """Return the error for an agent loop on a model that cannot call tools."""
    message = f"the model `{names['model']}` does not support tools on this server, and an agent loop requires them"
    setting = Command("config", "set", f"llm.models.{names['role']}", "MODEL")
    hint = Hint("use a model with tools: {}", setting)
    if "enable-auto-tool-choice" in detail:
        hint = Hint("start vLLM with `--enable-auto-tool-choice` and `--tool-call-parser`, or {}", setting)
    return llm_error("model", **names, message=message, hint=hint, detail=detail, lacks=Lack.TOOLS.value)


def rate_signal(headers: Mapping[str, str]) -> RateSignal:
    """Return the used share of the most exhausted limit that a response reports."""
    used = [
        1 - remaining / limit
        for kind in ("requests", "tokens")
        if (limit := header_number(headers.get(f"x-ratelimit-limit-{kind}"))) and limit > 0
        if (remaining := header_number(headers.get(f"x-ratelimit-remaining-{kind}"))) is not None
    ]
    return RateSignal("allowed", utilization=max(used) if used else None)
