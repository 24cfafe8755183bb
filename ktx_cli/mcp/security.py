"""Who may talk to the server over HTTP: checked by host, origin and token before a request is read."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.serving.settings import EVERYWHERE, LOOPBACK_NAMES

HEALTH_PATH: Final = "/health"
LARGEST_HEADERS: Final = 16_384

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not served. `reason` is a word of the audit log; `hint` what helps."""

    status: int
    reason: str
    message: str
    hint: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Name:
    """A host that is allowed, with any port or one."""

    name: str
    port: str | None = None

    @classmethod
    def parse(cls, text: str) -> Name | None:
        """Return what a `Host` header names, None for what is no name."""
        found = _HOST.fullmatch(text.strip())
        return None if found is None else cls(found["name"].strip("[]").lower(), found["port"])

    def covers(self, other: Name) -> bool:
        """Say whether a host that was asked for is this one."""
        return self.name == other.name and self.port in (None, other.port)


@dataclass(frozen=True, slots=True)
class Guard:
    """Looks at what a request says of itself. `token`: what clients must show; None for none."""

    hosts: tuple[Name, ...]
    origins: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, host: str, *, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = (), token: str | None
    ) -> Guard:
        """Return the guard of a server that listens on `host`; `UsageError` for names that are none."""
        own = () if host in EVERYWHERE else (Name(host.lower()),)
        loopback = tuple(map(Name, LOOPBACK_NAMES))
        return cls((*loopback, *own, *map(_named, allowed_hosts)), frozenset(map(_origin, allowed_origins)), token)

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Return why a request is refused, None where it is served; nothing of its body is read."""
        if sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
            return Refusal(431, "headers", "the headers are too long", f"at most {LARGEST_HEADERS:,} bytes")
        if not self._host_allowed(_values(headers, b"host")):
            return Refusal(403, "host", "this host name is not served", "start the server with --allowed-host NAME")
        origins = _values(headers, b"origin")
        if not all(map(self._origin_allowed, origins)):
            return Refusal(403, "origin", "this origin may not ask", "start the server with --allowed-origin ORIGIN")
        preflight = method == "OPTIONS" and bool(origins)
        if path == HEALTH_PATH or preflight or self._token_shown(_values(headers, b"authorization")):
            return None
        return Refusal(
            401,
            "token" if _values(headers, b"authorization") else "no_token",
            "the server needs a token, and this is not the one",
            "send the header `Authorization: Bearer TOKEN`",
            (("www-authenticate", "Bearer"),),
        )

    def _host_allowed(self, values: list[str]) -> bool:
        asked = Name.parse(values[0]) if len(values) == 1 else None
        return asked is not None and any(each.covers(asked) for each in self.hosts)

    def _origin_allowed(self, origin: str) -> bool:
        if origin.lower() in self.origins:
            return True
        scheme, _, host = origin.partition("://")
        asked = Name.parse(host)
        return scheme in ("http", "https") and asked is not None and asked.name in LOOPBACK_NAMES

    def _token_shown(self, values: list[str]) -> bool:
        if self.token is None:
            return True
        scheme, _, shown = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(_digest(shown.strip()), _digest(self.token))


def _digest(text: str) -> bytes:
    """Return texts at one length, so that the time a comparison takes does not tell how long the token is."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _named(text: str) -> Name:
    found = Name.parse(text) or Name.parse(f"[{text}]")
    if found is None:
        raise UsageError(f"`{text}` is no host name", hint="for example: --allowed-host ktx.example.com")
    return found


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise UsageError(f"`{text}` is no origin", hint="for example: --allowed-origin https://ktx.example.com")
    return text.lower()
