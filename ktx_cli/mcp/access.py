"""Who may send requests: hosts, origins, the server's token, and access tokens of the project's issuer."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from pydantic import AnyHttpUrl
from starlette.types import ASGIApp

from ktx_cli.core import KtxError, UsageError
from ktx_cli.jobs.serve.caller import CallerIdentity
from ktx_cli.jobs.serve.state import EVERYWHERE, LOOPBACK_NAMES
from ktx_cli.mcp.identity import InvalidTokenError, KeysUnavailableError, TokenVerifier, agent_of, attributes_of
from ktx_cli.mcp.server import KnownUser
from ktx_cli.mcp.tool import LOGGED
from ktx_cli.project import Identity, KtxConfig, Layout, is_loopback, load_config, stamp_of

HEALTH_PATH: Final = "/health"
LARGEST_HEADERS: Final = 16_384

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rejected request. `reason` is a word for the audit log; `hint` is the fix.

    `asked_by`: the caller, if the access token was valid.
    """

    status: int
    reason: str
    message: str
    hint: str
    headers: tuple[tuple[str, str], ...] = ()
    asked_by: CallerIdentity | None = None


@dataclass(frozen=True, slots=True)
class HostName:
    """An allowed host, with any port or a specific one."""

    name: str
    port: str | None = None

    @classmethod
    def parse(cls, text: str) -> HostName | None:
        """Return the host in a `Host` header, None if it is invalid."""
        found = _HOST.fullmatch(text.strip())
        return None if found is None else cls(found["name"].strip("[]").lower(), found["port"])

    def covers(self, other: HostName) -> bool:
        """Return whether the requested host matches."""
        return self.name == other.name and self.port in (None, other.port)


@dataclass(frozen=True, slots=True)
class AccessPolicy:
    """The requests that the server accepts, by host, origin and token. `token`: None if clients need none."""

    hosts: tuple[HostName, ...]
    origins: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)
    is_local: bool = True
    """Whether only programs on this machine can reach the server."""

    @classmethod
    def of(
        cls, host: str, *, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = (), token: str | None
    ) -> AccessPolicy:
        """Return the policy of a server that listens on `host`; raises `UsageError` for invalid names."""
        own = () if host in EVERYWHERE else (HostName(host.lower()),)
        loopback = tuple(map(HostName, LOOPBACK_NAMES))
        hosts = (*loopback, *own, *map(_named, allowed_hosts))
        return cls(hosts, frozenset(map(_origin, allowed_origins)), token, is_loopback(host))

    def misdirected(self, headers: Headers) -> Refusal | None:
        """Return why a request is rejected whoever sends it, or None."""
        if sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
            return Refusal(431, "headers", "the headers are too large", f"send at most {LARGEST_HEADERS:,} bytes")
        if _values(headers, b"transfer-encoding") and _values(headers, b"content-length"):
            # a proxy may see the end of such a request elsewhere, and the rest of it as a request of somebody else
            return Refusal(
                400, "framing", "the request has two lengths", "send either Content-Length or Transfer-Encoding"
            )
        if not self._host_allowed(_values(headers, b"host")):
            return Refusal(
                403,
                "host",
                "the server does not accept this host name",
                "whoever runs the server can add it with --allowed-host NAME",
            )
        origins = _values(headers, b"origin")
        if not all(map(self._origin_allowed, origins)):
            return Refusal(
                403,
                "origin",
                "the server does not accept requests from this origin",
                "whoever runs the server can add it with --allowed-origin ORIGIN",
            )
        return None

    def token_missing(self, headers: Headers) -> Refusal | None:
        """Return the refusal of a request without the server's token, or None."""
        if self.token is None or self.shows_token(headers):
            return None
        reason = "token" if _values(headers, b"authorization") else "no_token"
        return Refusal(401, reason, _NO_TOKEN, _SEND_TOKEN, (("www-authenticate", "Bearer"),))

    def shows_token(self, headers: Headers) -> bool:
        """Return whether a request has the server's token."""
        shown = bearer_token(headers)
        return self.token is not None and shown is not None and hmac.compare_digest(_digest(shown), _digest(self.token))

    def _host_allowed(self, values: list[str]) -> bool:
        asked = HostName.parse(values[0]) if len(values) == 1 else None
        return asked is not None and any(each.covers(asked) for each in self.hosts)

    def _origin_allowed(self, origin: str) -> bool:
        if origin.lower() in self.origins:
            return True
        scheme, _, host = origin.partition("://")
        asked = HostName.parse(host)
        return scheme in ("http", "https") and asked is not None and asked.name in LOOPBACK_NAMES


def bearer_token(headers: Headers) -> str | None:
    """Return the token in the `Authorization` header; None if there is none, or more than one header."""
    values = _values(headers, b"authorization")
    scheme, _, shown = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return shown.strip() or None if scheme.lower() == "bearer" else None


def is_preflight(method: str, headers: Headers) -> bool:
    """Return whether a browser asks what a page may send."""
    return method == "OPTIONS" and bool(_values(headers, b"origin"))


def _digest(text: str) -> bytes:
    """Return text of a constant length, so that the time of a comparison does not reveal the length of the token."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _values(headers: Headers, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _named(text: str) -> HostName:
    found = HostName.parse(text) or HostName.parse(f"[{text}]")
    if found is None:
        raise UsageError(f"`{text}` is not a valid host name", hint="for example: --allowed-host ktx.example.com")
    return found


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or text != f"{parts.scheme}://{parts.netloc}":
        raise UsageError(
            f"`{text}` is not a valid origin", hint="for example: --allowed-origin https://ktx.example.com"
        )
    return text.lower()


_NO_TOKEN: Final = "the token is missing or wrong"
_SEND_TOKEN: Final = "send the header `Authorization: Bearer TOKEN`"
log = logging.getLogger(__name__)

METADATA_PATH: Final = "/.well-known/oauth-protected-resource"


@dataclass(slots=True)
class Gate:
    """Decides who may reach one project: by its issuer's tokens, or by the token of the server if it has no issuer.

    `ktx.yaml` is read again whenever it changes. A project that had an issuer when the server started never becomes
    open to requests without a token of an issuer.
    """

    layout: Layout
    identity: Identity | None = None
    _verifier: TokenVerifier | None = None
    _config: tuple[Any, KtxConfig] | None = None

    async def admit(self, policy: AccessPolicy, headers: Headers) -> KnownUser | Refusal | None:
        """Return who sends a request, None for anyone with the server's token, or why the request is rejected."""
        try:
            config = await self._read()
        except KtxError as error:
            if self.identity is None:  # each call reports the invalid settings
                return policy.token_missing(headers)
            LOGGED.warning(log, f"all requests are refused, because the settings cannot be read: {error.message}")
            return _unavailable("config", "the settings of the project cannot be read")
        found = config.serving.identity
        if found is None:
            if self.identity is not None:
                return _unavailable("config", "ktx.yaml no longer says whose tokens the server accepts")
            return policy.token_missing(headers)
        self.identity = found
        if policy.is_local and policy.shows_token(headers):
            return None
        shown = bearer_token(headers)
        if shown is None:
            reason = "token" if _values(headers, b"authorization") else "no_token"
            return self._challenge(401, reason, _NO_TOKEN, "" if reason == "no_token" else "invalid_token")
        return await self._user(found, config, shown)

    async def _user(self, identity: Identity, config: KtxConfig, shown: str) -> KnownUser | Refusal:
        if self._verifier is None or self._verifier.identity != identity:
            self._verifier = TokenVerifier(identity)
        try:
            token = await self._verifier.checked(shown)
            caller = _caller(identity, config, token)
        except KeysUnavailableError as error:
            LOGGED.warning(log, f"access tokens cannot be checked: {error}")
            return _unavailable("keys", "the keys of the issuer cannot be fetched")
        except InvalidTokenError as error:
            return self._challenge(401, error.reason, "the access token is not accepted", "invalid_token")
        missing = [each for each in identity.scopes if each not in token.scopes]
        if missing:
            lacks = self._challenge(403, "scope", "the access token lacks a scope", "insufficient_scope", missing)
            return replace(lacks, asked_by=caller)
        if caller.agent not in config.serving.agents and _is_refused(identity, config):
            hint = "whoever runs the server can add it to serving.agents in ktx.yaml"
            message = "this client is not one of the agents of the server"
            return Refusal(403, "agent", message, hint, asked_by=caller)
        return KnownUser(token, caller)

    def write_refusal(self, user: KnownUser) -> Refusal | None:
        """Return the refusal of a tool that writes, or None if the token has the scopes for it."""
        if user.known_as.may_write or self.identity is None:
            return None
        scopes = [*self.identity.scopes, *self.identity.write_scopes]
        lacks = self._challenge(403, "scope", "the access token lacks a scope", "insufficient_scope", scopes)
        return replace(lacks, asked_by=user.known_as)

    async def metadata(self, path: str, served_at: str) -> ASGIApp | None:
        """Return what answers with the metadata that tells clients which issuer to ask (RFC 9728).

        `served_at`: the path of the project. None if the project has no issuer or its metadata is not at `path`.
        """
        try:
            self.identity = (await self._read()).serving.identity or self.identity
        except KtxError:  # as before, until the settings can be read
            pass
        if self.identity is None:
            return None
        (route,) = create_protected_resource_routes(
            AnyHttpUrl(self.identity.resource),
            [AnyHttpUrl(self.identity.issuer)],
            scopes_supported=list(dict.fromkeys((*self.identity.scopes, *self.identity.write_scopes))) or None,
            resource_name="ktx",
        )
        return route.handle if path in (route.path, f"{METADATA_PATH}{served_at}", METADATA_PATH) else None

    def _challenge(
        self, status: int, reason: str, message: str, error: str, scopes: Sequence[str] | None = None
    ) -> Refusal:
        assert self.identity is not None
        url = build_resource_metadata_url(AnyHttpUrl(self.identity.resource))
        needed = self.identity.scopes if scopes is None else scopes
        facts = {"error": error, "scope": " ".join(needed), "resource_metadata": str(url)}
        words = ", ".join(f'{name}="{value}"' for name, value in facts.items() if value)
        return Refusal(status, reason, message, _SEND_TOKEN, (("www-authenticate", f"Bearer {words}"),))

    async def _read(self) -> KtxConfig:
        """Return the settings, without waiting for questions that load the project."""
        stamp = stamp_of(self.layout.config)
        if self._config is None or self._config[0] != stamp:
            loaded = await anyio.to_thread.run_sync(load_config, self.layout.config)
            self._config = (stamp, loaded.config)
        return self._config[1]


def _caller(identity: Identity, config: KtxConfig, token: AccessToken) -> CallerIdentity:
    claims = token.claims or {}
    agent = agent_of(claims, () if _is_refused(identity, config) else config.serving.agents)
    return CallerIdentity(
        attributes_of(identity, claims),
        issuer=identity.issuer,
        subject=token.subject,
        agent=agent,
        rights=None if agent is None else config.serving.agents.get(agent),
        may_write=set(identity.write_scopes) <= set(token.scopes),
    )


def _is_refused(identity: Identity, config: KtxConfig) -> bool:
    """Return whether clients that `serving.agents` does not list are refused."""
    chosen = identity.unknown_agents or ("refuse" if config.serving.agents else "allow")
    return chosen == "refuse"


def _unavailable(reason: str, message: str) -> Refusal:
    return Refusal(503, reason, message, "try again in a few seconds", (("retry-after", "5"),))
