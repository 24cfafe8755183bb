"""What can go wrong between ktx and a site it reads over HTTP, and how long a site asks to wait."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from ktx_cli.core.errors import KtxError, NotReadyError, SourceError
from ktx_cli.core.text import one_line
from ktx_cli.project import secrets

RETRIED: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
"""Answers that another try may better."""

_SHOWN_CHARACTERS: Final = 200
_READ_OF_AN_ERROR: Final = 20_000


class HttpStatusError(SourceError):
    """A site answered with an error. `status`: of HTTP, 0 where there was no answer."""

    status: int = 0


class HttpAuthError(NotReadyError):
    """A site did not accept the credentials (401), or they may not read this (403); `status` says which."""

    status: int = 0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and when a request is sent again; times in seconds.

    The delay is drawn from 0 to `base * 2 ** n`, at most `cap` ("full jitter", Brooker, AWS Architecture Blog, 2015).
    A site that asks to wait longer than `longest_wait` is not waited for.
    """

    tries: int = 5
    base: float = 0.5
    cap: float = 30.0
    longest_wait: float = 120.0

    def delay(self, tried: int, asked: float | None, uniform: Callable[[float, float], float]) -> float:
        """Return the seconds to wait after `tried` tries; `asked` is what the site said."""
        drawn = uniform(0.0, min(self.cap, self.base * 2.0**tried))
        return drawn if asked is None else max(asked, drawn)


CHECKING: Final = RetryPolicy(tries=2, cap=2.0, longest_wait=5.0)
"""For a look whether a site answers, which a person waits for."""


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds a `Retry-After` header asks for, None where it says nothing usable; `now` is Unix time."""
    if not value:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}(?:\.[0-9]{0,9})?\s*", value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, aware.timestamp() - now)


def said_by(content: bytes) -> str:
    """Return what an error's body says in one line: the message of its JSON, or its text where that is no page."""
    text = content[:_READ_OF_AN_ERROR].decode("utf-8", "replace").strip()
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = "" if text.startswith("<") else text
    return one_line(secrets.mask(_message_in(body)), _SHOWN_CHARACTERS)


def _message_in(body: Any) -> str:
    if isinstance(body, dict):
        named = (_message_in(body.get(key)) for key in ("message", "error_description", "detail", "title", "error"))
        return next((text for text in named if text), _message_in(body.get("errors")))
    if isinstance(body, list):
        return _message_in(body[0]) if body else ""
    return body if isinstance(body, str) else ""


def status_error(name: str, asked: str, status: int, said: str, hints: Mapping[str, str]) -> KtxError:
    """Return the error of an answer; `asked` is the request in words, `hints` has `credential` and `address`."""
    tail = f": {said}" if said else ""
    details = {"status": status, "request": asked}
    if status in (401, 403):
        what = f"{name} does not accept the credentials" if status == 401 else f"{name} refuses {asked}"
        denied = HttpAuthError(f"{what} ({status}){tail}", hint=hints["credential"], details=details)
        denied.status = status
        return denied
    hint = hints["address"] if status < 500 and status != 429 else f"wait until {name} answers again, then run it again"
    failed = HttpStatusError(f"{name} answered {asked} with {status}{tail}", hint=hint, details=details)
    failed.status = status
    return failed
