"""Every way in which a model call can fail, the same for every backend, with a message and a hint for the user.

LlmError, by code
├── auth                the provider rejected the credentials, or there is no session
├── billing             no credit
├── rate_limit          wait; `retry_after` or `resets_at` says how long
├── overloaded          the provider is overloaded or failing
├── model               no such model, or not for this account
├── context             the prompt is too long for the model
├── max_turns           a text or object call used up its turns
├── structured_output   no object that fits the schema
├── permission          a tool was refused
├── isolation           a process on this machine was not isolated as required
├── connection          the provider, or the local binary, cannot be reached or does not answer properly
├── execution           anything else that failed while the model worked
├── refusal             the model declined
├── cancelled           the caller stopped the call
└── no_backend          no backend is configured
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypedDict

from ktx_cli.core import Command, Hint, KtxError, SettingPath

NO_BACKEND_HINT: Final = Command("setup", "--llm-backend", "claude-code")

_LATER: Final = "run this command again later; finished work is kept"
_WORDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "auth": ("{who} rejected the credentials", None),
    "billing": (
        "{who} rejected the request because of insufficient credit",
        "check the billing of the account, then run this command again",
    ),
    "rate_limit": ("{who} asks ktx to wait before the next request", _LATER),
    "overloaded": ("{who} is overloaded or failing", _LATER),
    "model": ("{who} has no model `{model}` for this account", None),
    "context": ("the prompt is too long for the model `{model}`", None),
    "max_turns": ("the model `{model}` did not answer within its turn limit", None),
    "structured_output": ("the model `{model}` did not return an answer that fits the schema", None),
    "permission": ("{who} refused a tool", None),
    "isolation": ("{who} could not be run in isolation", Command("doctor")),
    "connection": ("{who} cannot be reached", "check the network, the proxy and the URL of the backend"),
    "execution": ("the call to the model `{model}` failed", "run it again with --debug to see the provider's message"),
    "refusal": ("the model `{model}` declined to answer", None),
    "cancelled": ("the call to the model was cancelled", None),
    "no_backend": ("this command needs a model, but no model backend is configured", NO_BACKEND_HINT),
}
"""The message for each code, and its hint if the hint is the same for every backend and role."""

CODES: Final = tuple(_WORDS)
RETRYABLE: Final = frozenset({"rate_limit", "overloaded", "connection"})

_PROVIDER: Final = Hint("check {}", SettingPath("llm.provider"))


class CallNames(TypedDict):
    """The names that identify a call in its errors."""

    backend: str
    model: str
    role: str


class LlmError(KtxError):
    """A failed model call. `detail` holds the provider's own message, for the debug log only.

    `retry_after` is in seconds; `resets_at` is a Unix time in seconds. `status` is the HTTP status, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str | None = None,
        detail: str = "",
        retry_after: float | None = None,
        resets_at: float | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        facts = dict(details or {})
        if retry_after is not None:
            facts["retry_after"] = retry_after
        if resets_at is not None:
            facts["resets_at"] = resets_at
        super().__init__(message, hint=hint, details=facts, code=code)
        self.detail = detail
        self.retry_after = retry_after
        self.resets_at = resets_at

    @property
    def retryable(self) -> bool:
        """Return whether the same call may succeed later."""
        return self.code in RETRYABLE


class ToolError(KtxError):
    """A tool failure that the model should read: its message becomes the result of the call."""

    code = "execution"


def llm_error(
    code: str,
    *,
    backend: str,
    model: str = "",
    role: str = "default",
    message: str | None = None,
    hint: str | None = None,
    detail: str = "",
    status: int | None = None,
    retry_after: float | None = None,
    resets_at: float | None = None,
    kind: type[LlmError] | None = None,
    **facts: Any,
) -> LlmError:
    """Return the error for a code, as a `kind`; `message` and `hint` replace the usual ones."""
    from ktx_cli.llm.registry import find_kind

    backend_kind = find_kind(backend)
    template = (backend_kind.no_credentials if backend_kind and code == "auth" else "") or _WORDS[code][0]
    names = {"who": backend_kind.who if backend_kind else "the model backend", "model": model or "default"}
    details: dict[str, Any] = {"backend": backend, **({"model": model} if model else {}), **facts}
    if status is not None:
        details["status"] = status
    return (kind or LlmError)(
        message or template.format(**names),
        code=code,
        hint=hint or _advice(code, backend, role),
        detail=detail,
        retry_after=retry_after,
        resets_at=resets_at,
        details=details,
    )


def cancelled(backend: str, model: str = "") -> LlmError:
    """Return the error for a call that its caller stopped."""
    return llm_error("cancelled", backend=backend, model=model)


def _advice(code: str, backend: str, role: str) -> str | None:
    if code == "auth":
        from ktx_cli.llm.registry import find_kind

        backend_kind = find_kind(backend)
        return backend_kind.credentials_hint if backend_kind else _PROVIDER
    if code in ("model", "context"):
        return Command("config", "set", f"llm.models.{role}", "MODEL")
    return _WORDS[code][1]
