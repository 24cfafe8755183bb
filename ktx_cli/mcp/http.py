"""The server over HTTP: one path per project, `/health`, and an access policy in front of both."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import math
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import h11
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ktx_cli import __version__
from ktx_cli.core import UsageError, one_line
from ktx_cli.jobs.serve.state import EVERYWHERE, LOOPBACK_NAMES
from ktx_cli.mcp.server import AuditLog, ProjectServer

HEALTH_PATH: Final = "/health"
LARGEST_HEADERS: Final = 16_384

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE)

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rejected request. `reason` is a word for the audit log; `hint` is the fix."""

    status: int
    reason: str
    message: str
    hint: str
    headers: tuple[tuple[str, str], ...] = ()


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

    @classmethod
    def of(
        cls, host: str, *, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = (), token: str | None
    ) -> AccessPolicy:
        """Return the policy of a server that listens on `host`; raises `UsageError` for invalid names."""
        own = () if host in EVERYWHERE else (HostName(host.lower()),)
        loopback = tuple(map(HostName, LOOPBACK_NAMES))
        return cls((*loopback, *own, *map(_named, allowed_hosts)), frozenset(map(_origin, allowed_origins)), token)

    def refusal(self, method: str, path: str, headers: Headers) -> Refusal | None:
        """Return why a request is rejected, or None if it is accepted, without reading the body."""
        if sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
            return Refusal(431, "headers", "the headers are too large", f"send at most {LARGEST_HEADERS:,} bytes")
        if not self._host_allowed(_values(headers, b"host")):
            return Refusal(
                403, "host", "the server does not accept this host name", "start the server with --allowed-host NAME"
            )
        origins = _values(headers, b"origin")
        if not all(map(self._origin_allowed, origins)):
            return Refusal(
                403,
                "origin",
                "the server does not accept requests from this origin",
                "start the server with --allowed-origin ORIGIN",
            )
        preflight = method == "OPTIONS" and bool(origins)
        if path == HEALTH_PATH or preflight or self._token_shown(_values(headers, b"authorization")):
            return None
        reason = "token" if _values(headers, b"authorization") else "no_token"
        message, hint = ("the token is missing or wrong", "send the header `Authorization: Bearer TOKEN`")
        return Refusal(401, reason, message, hint, (("www-authenticate", "Bearer"),))

    def _host_allowed(self, values: list[str]) -> bool:
        asked = HostName.parse(values[0]) if len(values) == 1 else None
        return asked is not None and any(each.covers(asked) for each in self.hosts)

    def _origin_allowed(self, origin: str) -> bool:
        if origin.lower() in self.origins:
            return True
        scheme, _, host = origin.partition("://")
        asked = HostName.parse(host)
        return scheme in ("http", "https") and asked is not None and asked.name in LOOPBACK_NAMES

    def _token_shown(self, values: list[str]) -> bool:
        if self.token is None:
            return True
        scheme, _, shown = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and hmac.compare_digest(_digest(shown.strip()), _digest(self.token))


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


MOST_SESSIONS: Final = 64
IDLE_SECONDS: Final = 30 * 60
LARGEST_BODY: Final = 1024 * 1024
MOST_REQUESTS: Final = 256
"""Maximum number of concurrent requests; each may have to wait for other calls to its project."""

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
SEND_SECONDS: Final = 30.0
"""The seconds that a client has to send its headers, to send its body, and to accept a part of the response."""

DRAINED_BODY: Final = 8 * LARGEST_BODY
DRAIN_SECONDS: Final = 2.0


class Sessions(StreamableHTTPSessionManager):
    """The sessions of one project."""

    def __init__(self, server: Server[Any], *, most: int = MOST_SESSIONS, idle_seconds: float = IDLE_SECONDS) -> None:
        super().__init__(
            server, session_idle_timeout=idle_seconds, max_request_body_size=LARGEST_BODY, max_sessions=most
        )

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Open a session; at the maximum, the one that has been idle longest is closed.

        Otherwise, anyone with access could block all sessions for half an hour. A session with a request or a stream in
        progress is kept.
        """
        if len(self._server_instances) >= (self.max_sessions or MOST_SESSIONS):
            self._end_idle()
        return super()._admit_session(requestor)

    def _end_idle(self) -> None:
        idle = [
            (transport.idle_scope.deadline, key)
            for key, transport in self._server_instances.items()
            if transport.idle_scope is not None and math.isfinite(transport.idle_scope.deadline)
        ]
        for _, key in sorted(idle)[:1]:
            transport = self._server_instances.pop(key)
            assert transport.idle_scope is not None
            transport.idle_scope.cancel()  # ends as after its idle time

    @property
    def count(self) -> int:
        """The number of open sessions."""
        return len(self._server_instances)


class SlowClientError(Exception):
    """A client took too long to send its request."""


@dataclass(slots=True)
class Load:
    """Counts the requests in progress. `closing`: no more are accepted."""

    most: int = MOST_REQUESTS
    body_seconds: float = BODY_SECONDS
    send_seconds: float = SEND_SECONDS
    closing: bool = False
    _now: int = 0
    _idle: anyio.Event = field(default_factory=anyio.Event)

    def refusal(self, method: str) -> Refusal | None:
        """Return why another request cannot be accepted now. A stream that a client listens on only waits, so it does
        not count.
        """
        reason, message = "closing", "the server is stopping"
        if not self.closing:
            if method == "GET" or self._now < self.most:
                return None
            reason, message = "load", f"{self.most} requests are in progress"
        return Refusal(503, reason, message, "try again in a second", (("retry-after", "1"),))

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request within its time limits; raises `SlowClientError` for one that does not arrive."""
        counted = scope["method"] != "GET"
        self._now += counted
        try:
            arriving = Arriving(receive, self.body_seconds)
            await app(scope, arriving, Leaving(send, arriving, self.send_seconds))
        finally:
            self._now -= counted
            if not self._now:
                self._idle.set()

    async def idle(self) -> None:
        """Wait until no request is in progress."""
        while self._now:
            self._idle = anyio.Event()
            await self._idle.wait()


class Arriving:
    """Receives a request's body within a time limit, then waits, without a limit, for the client to disconnect."""

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._until = anyio.current_time() + seconds
        self.complete = False

    async def __call__(self) -> Message:
        """Return the next message; raises `SlowClientError`."""
        if self.complete:
            return await self._receive()
        try:
            with anyio.fail_after(max(0.0, self._until - anyio.current_time())):
                message = await self._receive()
        except TimeoutError:
            raise SlowClientError from None
        self.complete = not message.get("more_body")
        return message

    async def drain(self) -> None:
        """Read and discard for a moment, because a client that is still sending would not see the response."""
        left = DRAINED_BODY
        with anyio.move_on_after(DRAIN_SECONDS):
            while not self.complete and left > 0:
                message = await self._receive()
                self.complete = not message.get("more_body")
                left -= len(message.get("body", b""))


class Leaving:
    """Sends the response as the client accepts it. A client that stops reading counts as disconnected."""

    def __init__(self, send: Send, arriving: Arriving, seconds: float) -> None:
        self._send = send
        self._arriving = arriving
        self._seconds = seconds

    async def __call__(self, message: Message) -> None:
        """Send a message. A response to a request that was not read closes its connection."""
        if message["type"] == "http.response.start" and not self._arriving.complete:
            await self._arriving.drain()
            message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        try:
            with anyio.fail_after(self._seconds):
                await self._send(message)
        except TimeoutError:
            raise OSError("the client does not read its answer") from None


class TimedProtocol(H11Protocol):
    """Closes connections whose headers do not arrive in time; uvicorn itself would wait forever."""

    header_seconds = HEADER_SECONDS
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start waiting for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Keep waiting unless the headers are complete."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._forget()
        super().connection_lost(exc)

    def _watch(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._forget()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.header_seconds, self._late)

    def _forget(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _late(self) -> None:
        self._timer = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()


REFUSED: Final = -32000
"""The JSON-RPC code of a rejected request."""

_SLOW = Refusal(408, "slow", "the request did not arrive in time", "send it without delay")


@dataclass(slots=True)
class Served:
    """One project of the server, which shares nothing with the others."""

    path: str
    project: ProjectServer
    audit: AuditLog
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.project.server.middleware.append(self.audit.middleware)
        self.sessions = Sessions(self.project.server)


@dataclass(slots=True)
class HttpServer:
    """The application that uvicorn runs. `instance`: part of the `/health` response, to distinguish restarts."""

    served: tuple[Served, ...]
    policy: AccessPolicy
    instance: str
    load: Load = field(default_factory=Load)
    _app: ASGIApp = field(init=False)

    def __post_init__(self) -> None:
        routes = [Route(HEALTH_PATH, self._health, methods=["GET"])]
        routes += [Route(each.path, _Endpoint(each.sessions)) for each in self.served]
        app = Starlette(routes=routes, exception_handlers={SlowClientError: self._slow})
        app.router.redirect_slashes = False
        self._app = _with_cors(app, self.policy) if self.policy.origins else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or reject it."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            self._note(scope, refusal)
        app = self._app if refusal is None else _answer(refusal)
        await self.load.serve(app, scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions of every project open for a block."""
        async with AsyncExitStack() as stack:
            for each in self.served:
                await stack.enter_async_context(each.sessions.run())
            yield

    def _refusal(self, scope: Scope) -> Refusal | None:
        method, path = scope["method"], scope["path"]
        refusal = self.policy.refusal(method, path, scope["headers"])
        if refusal is not None or path == HEALTH_PATH:
            return refusal
        if not any(each.path == path for each in self.served):
            return Refusal(404, "path", "nothing is served at this path", f"use the path {self.served[0].path}")
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > LARGEST_BODY:
            return Refusal(413, "body", "the request is too large", f"send at most {LARGEST_BODY:,} bytes")
        return self.load.refusal(method)

    def _note(self, scope: Scope, refusal: Refusal) -> None:
        """Write to the audit log of the requested project, or of the first; without the content of the request."""
        meant = next((each for each in self.served if each.path == scope["path"]), self.served[0])
        client = scope.get("client")
        meant.audit.note(
            {
                "refused": refusal.reason,
                "status": refusal.status,
                "method": one_line(scope["method"], 20),
                "path": one_line(scope["path"], 100),
                "peer": client[0] if client else None,
            }
        )

    async def _slow(self, request: Request, error: Exception) -> Response:
        self._note(request.scope, _SLOW)
        return _answer(_SLOW)

    async def _health(self, request: Request) -> JSONResponse:
        problem = next((each.audit.problem for each in self.served if each.audit.problem), None)
        return JSONResponse(
            {
                "status": "closing" if self.load.closing else "ok",
                "version": __version__,
                "id": self.instance,
                "sessions": sum(each.sessions.count for each in self.served),
                "audit": problem or "ok",
            }
        )


class _Endpoint:
    """A project's sessions as a route: a class, so that Starlette passes the request on unchanged."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._sessions.handle_request(scope, receive, send)


def _with_cors(app: ASGIApp, policy: AccessPolicy) -> ASGIApp:
    """Let browsers read responses on pages from allowed origins."""
    return CORSMiddleware(
        app,
        allow_origins=sorted(policy.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"],
        expose_headers=["mcp-session-id"],
    )


def _answer(refusal: Refusal) -> Response:
    error: Mapping[str, Any] = {
        "code": REFUSED,
        "message": refusal.message,
        "data": {"code": refusal.reason, "hint": refusal.hint},
    }
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error}, status_code=refusal.status, headers=dict(refusal.headers)
    )
