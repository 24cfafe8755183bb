"""The server over HTTP: one path per project, `/health`, and an access policy in front of both."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final

import anyio
import anyio.lowlevel
import anyio.to_thread
import h11
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ktx_cli import __version__
from ktx_cli.core import KtxError, one_line
from ktx_cli.jobs.serve.snapshot import SnapshotFollower, published_snapshot
from ktx_cli.mcp.access import HEALTH_PATH, METADATA_PATH, AccessPolicy, Gate, Refusal, is_preflight
from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.server import CLIENT_GONE, KnownUser, ProjectServer
from ktx_cli.mcp.tool import LOGGED
from ktx_cli.project import Layout, load_config

log = logging.getLogger(__name__)

LIVE_PATH: Final = "/healthz"
READY_PATH: Final = "/readyz"
READY_SECONDS: Final = 1.0
"""How long a check for readiness holds: anybody may ask."""
READY_PATIENCE: Final = 0.5
"""How long the answer about readiness waits for a check; after that, it is the last result, if there is one.

Orchestrators often wait for only a second, and a database that does not respond is noticed later.
"""

MOST_SESSIONS: Final = 64
IDLE_SECONDS: Final = 30 * 60
LARGEST_BODY: Final = 1024 * 1024
MOST_REQUESTS: Final = 256
"""Maximum number of concurrent requests; each may have to wait for other calls to its project."""
MOST_OF_ONE: Final = 64
"""Maximum number of concurrent requests with access tokens of one person, so that the server accepts those of others.

Calls to a project have a limit of their own: `AT_ONCE_OF_ONE` in `server.py`.
"""

HEADER_SECONDS: Final = 10.0
BODY_SECONDS: Final = 30.0
SEND_SECONDS: Final = 30.0
"""The seconds that a client has to send its headers, to send its body, and to accept a part of the response."""

DRAINED_BODY: Final = 8 * LARGEST_BODY
DRAIN_SECONDS: Final = 2.0
MOST_DRAINED: Final = 32
"""Maximum number of requests that were not admitted and whose bodies are read at a time."""


class Sessions(StreamableHTTPSessionManager):
    """The sessions of one project."""

    def __init__(
        self,
        server: Server[Any],
        *,
        most: int = MOST_SESSIONS,
        idle_seconds: float = IDLE_SECONDS,
        stateless: bool = False,
    ) -> None:
        super().__init__(
            server,
            session_idle_timeout=idle_seconds,
            max_request_body_size=LARGEST_BODY,
            max_sessions=most,
            stateless=stateless,
            json_response=stateless,  # an answer in one piece, which a proxy can request from another replica
        )

    async def handle_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request. Only a POST can open a session, which may close another one."""
        refusal = None
        if self.stateless and scope["method"] != "POST":
            refusal = _ONLY_POST  # there is no session to send messages in, or to end
        elif scope["method"] not in _METHODS:
            refusal = _NO_METHOD
        elif scope["method"] != "POST" and b"mcp-session-id" not in dict(scope["headers"]):
            refusal = _NO_SESSION
        served = super().handle_request if refusal is None else _answer(refusal)
        await served(scope, receive, send)

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        """Open a session; at the maximum, one of the caller with the most sessions is closed: the longest idle one.

        Otherwise, anyone with access could block all sessions for half an hour. A session with a request or a stream in
        progress is kept.
        """
        if len(self._server_instances) >= (self.max_sessions or MOST_SESSIONS):
            self._end_idle()
        return super()._admit_session(requestor)

    def _end_idle(self) -> None:
        counts = Counter(repr(self._session_owners.get(key)) for key in self._server_instances)
        idle = [
            (-counts[repr(self._session_owners.get(key))], transport.idle_scope.deadline, key)
            for key, transport in self._server_instances.items()
            if transport.idle_scope is not None and math.isfinite(transport.idle_scope.deadline)
        ]
        for _, _, key in sorted(idle)[:1]:
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
    most_of_one: int = MOST_OF_ONE
    body_seconds: float = BODY_SECONDS
    send_seconds: float = SEND_SECONDS
    closing: bool = False
    _now: int = 0
    _of: Counter[tuple[str | None, ...]] = field(default_factory=Counter)
    _draining: int = 0
    _idle: anyio.Event = field(default_factory=anyio.Event)

    def refusal(self, scope: Scope) -> Refusal | None:
        """Return why another request cannot be accepted now. A stream that a client listens on only waits, so it does
        not count.
        """
        reason, message = "closing", "the server is stopping"
        if not self.closing:
            person = _person(scope)
            is_one_too_many = person is not None and self._of[person] >= self.most_of_one
            if scope["method"] == "GET" or (self._now < self.most and not is_one_too_many):
                return None
            reason, message = "load", f"{self.most} requests are in progress"
            if is_one_too_many:
                message = f"{self.most_of_one} requests of one person are in progress"
        return Refusal(503, reason, message, "try again in a second", (("retry-after", "1"),))

    async def answer(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that anybody can send. It does not count, so that nobody without access keeps others out.

        Its body is not needed; of a few such requests at a time, it is read, so that their clients see the answer.
        """
        arriving = Arriving(receive, self.body_seconds)
        drains = self._draining < MOST_DRAINED
        self._draining += drains
        try:
            await app(scope, arriving, Leaving(send, arriving, self.send_seconds, drains=drains))
        finally:
            self._draining -= drains

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve an admitted request within its time limits; raises `SlowClientError` for one that does not arrive."""
        counted = scope["method"] != "GET"
        person = _person(scope)
        self._now += counted
        if person is not None:
            self._of[person] += counted
        try:
            arriving = Arriving(receive, self.body_seconds)
            scope[CLIENT_GONE] = arriving.gone
            await _watched(arriving, app(scope, arriving, Leaving(send, arriving, self.send_seconds)))
        finally:
            self._now -= counted
            if person is not None:
                self._of[person] -= counted
                if not self._of[person]:
                    del self._of[person]
            if not self._now:
                self._idle.set()

    async def idle(self) -> None:
        """Wait until no request is in progress."""
        while self._now:
            self._idle = anyio.Event()
            await self._idle.wait()


def _person(scope: Scope) -> tuple[str | None, ...] | None:
    """Return the person of an access token, whatever agent asks for them; None without an access token."""
    user = scope.get("user")
    return (user.known_as.issuer, user.known_as.subject) if isinstance(user, KnownUser) else None


async def _watched(arriving: Arriving, served: Awaitable[None]) -> None:
    """Serve a request, and notice meanwhile that its client disconnects."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(arriving.watch)
        try:
            await served
        except Exception as error:  # noqa: BLE001 - raised below, not as part of a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


class Arriving:
    """Receives a request's body within a time limit, then waits, without a limit, for the client to disconnect.

    `gone`: set when the client disconnects after its request has arrived.
    """

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._until = anyio.current_time() + seconds
        self._arrived = anyio.Event()
        self.gone = anyio.Event()

    @property
    def complete(self) -> bool:
        """Whether the whole request has arrived."""
        return self._arrived.is_set()

    async def watch(self) -> None:
        """Wait for the client to disconnect: an answer in one piece would not notice it before it is sent."""
        await self._arrived.wait()
        while (await self._receive())["type"] != "http.disconnect":
            await anyio.lowlevel.checkpoint()
        self.gone.set()

    async def __call__(self) -> Message:
        """Return the next message; raises `SlowClientError`."""
        if self.complete:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        try:
            with anyio.fail_after(max(0.0, self._until - anyio.current_time())):
                message = await self._receive()
        except TimeoutError:
            raise SlowClientError from None
        self._take(message)
        return message

    def _take(self, message: Message) -> None:
        if message["type"] == "http.disconnect":
            self.gone.set()
        if not message.get("more_body"):
            self._arrived.set()

    async def drain(self) -> None:
        """Read and discard for a moment, because a client that is still sending would not see the response."""
        left = DRAINED_BODY
        with anyio.move_on_after(DRAIN_SECONDS):
            while not self.complete and left > 0:
                message = await self._receive()
                self._take(message)
                left -= len(message.get("body", b""))


class Leaving:
    """Sends the response as the client accepts it. A client that stops reading counts as disconnected."""

    def __init__(self, send: Send, arriving: Arriving, seconds: float, *, drains: bool = True) -> None:
        self._send = send
        self._arriving = arriving
        self._seconds = seconds
        self._drains = drains

    async def __call__(self, message: Message) -> None:
        """Send a message. A response to a request that was not read closes its connection."""
        if message["type"] == "http.response.start" and not self._arriving.complete:
            if self._drains:
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

_METHODS: Final = ("GET", "POST", "DELETE")
_NO_METHOD = Refusal(405, "method", "the method is not supported", "send a POST", (("allow", ", ".join(_METHODS)),))
_ONLY_POST = replace(_NO_METHOD, headers=(("allow", "POST"),))
_NO_SESSION = Refusal(400, "session", "the session is missing", "send `initialize` first, then its `Mcp-Session-Id`")
_ID_IN_USE = Refusal(
    409, "id", "a request with the same id is in progress in this session", "use another id for each request"
)
_SLOW = Refusal(408, "slow", "the request did not arrive in time", "send it without delay")


@dataclass(slots=True)
class RequestsInProgress:
    """The ids of the requests that are being answered in the sessions of one project."""

    _ids: set[tuple[Any, ...]] = field(default_factory=set)

    @asynccontextmanager
    async def holding(self, scope: Scope, message: Mapping[str, Any]) -> AsyncIterator[bool]:
        """Hold the id of a request for a block; yields whether no other request of its session has it.

        The SDK does not distinguish ids by their type. Messages without an id or a session hold nothing.
        """
        session, number = dict(scope["headers"]).get(b"mcp-session-id"), message.get("id")
        if session is None or "method" not in message or not isinstance(number, str | int):
            yield True
            return
        user = scope.get("user")
        caller = user.known_as.key if isinstance(user, KnownUser) else None  # nobody holds ids of somebody else
        key = (session, caller, str(number))
        is_new = key not in self._ids
        self._ids.add(key)
        try:
            yield is_new
        finally:
            if is_new:
                self._ids.discard(key)


@dataclass(slots=True)
class Served:
    """One project of the server, which shares nothing with the others."""

    path: str
    project: ProjectServer
    audit: AuditLog
    follower: SnapshotFollower | None = None
    """Follows the published snapshot, in a replica."""
    gate: Gate = field(init=False)
    sessions: Sessions = field(init=False)
    requests: RequestsInProgress = field(default_factory=RequestsInProgress)

    @property
    def layout(self) -> Layout:
        """The folder that the server was started for."""
        return self.project.project.layout if self.follower is None else self.follower.layout

    def __post_init__(self) -> None:
        layout = self.layout
        self.project.is_remote = True
        self.gate = Gate(layout, load_config(layout.config).config.serving.identity)
        self.project.server.middleware.append(self.audit.middleware)
        self.sessions = Sessions(self.project.server, stateless=self.follower is not None)

    def unready(self) -> KtxError | None:
        """Return why the project cannot be served now, or None; reads files and the shared state."""
        try:
            self.project.project.config()
            if self.follower is not None:
                load_config(self.layout.config)
                published_snapshot(self.layout)
                return self.follower.problem
        except KtxError as error:
            return error
        return None


@dataclass(slots=True)
class HttpServer:
    """The application that uvicorn runs. `instance`: part of the `/health` response, to distinguish restarts."""

    served: tuple[Served, ...]
    policy: AccessPolicy
    instance: str
    load: Load = field(default_factory=Load)
    _app: ASGIApp = field(init=False)
    _check: asyncio.Task[None] | None = None
    """The check for readiness that is in progress."""
    _checked: tuple[float, bool] = (0.0, False)
    """Until when the last check for readiness holds, and its result."""

    def __post_init__(self) -> None:
        routes = [Route(HEALTH_PATH, self._health, methods=["GET"])]
        routes += [Route(LIVE_PATH, self._live, methods=["GET"]), Route(READY_PATH, self._ready, methods=["GET"])]
        routes += [Route(each.path, _Endpoint(each.sessions.handle_request)) for each in self.served]
        routes += [Route(each, _Endpoint(self._metadata)) for each in (METADATA_PATH, f"{METADATA_PATH}/{{name:path}}")]
        app = Starlette(routes=routes)
        app.router.redirect_slashes = False
        self._app = _with_cors(app, self.policy) if self.policy.origins else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or reject it."""
        if scope["type"] != "http":
            return
        refusal = await self._refusal(scope)
        if refusal is not None:
            self._note(scope, refusal)
            await self.load.answer(_answer(refusal), scope, receive, send)
        elif is_preflight(scope["method"], scope["headers"]) or all(each.path != scope["path"] for each in self.served):
            await self.load.answer(self._app, scope, receive, send)
        else:
            is_message = scope["method"] == "POST"
            await self.load.serve(self._message_checked if is_message else self._app, scope, receive, send)

    async def _message_checked(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, unless its token does not allow the tool that it calls, or its id is in use in its session.

        The SDK would give the answers to both requests with that id to one of them, and the other would wait forever.
        """
        served = next(each for each in self.served if each.path == scope["path"])
        try:
            messages = await _received(receive)
        except SlowClientError:
            self._note(scope, _SLOW)
            await _answer(_SLOW)(scope, receive, send)
            return
        message = _message_in(b"".join(each.get("body", b"") for each in messages))
        async with served.requests.holding(scope, message) as is_new:
            refusal = await self._writing_refused(served, scope, message) if is_new else _ID_IN_USE
            if refusal is None:
                await self._app(scope, _Replayed(messages, receive), send)
                return
        self._note(scope, refusal)
        await _answer(refusal)(scope, receive, send)

    async def _writing_refused(self, served: Served, scope: Scope, message: Mapping[str, Any]) -> Refusal | None:
        user, tool = scope.get("user"), _called_tool(message)
        refusal = served.gate.write_refusal(user) if isinstance(user, KnownUser) and tool is not None else None
        if refusal is None or tool is None or not (await served.project.tools()).get(tool, _READS).writes:
            return None
        return refusal

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions of every project open for a block."""
        async with AsyncExitStack() as stack:
            for each in self.served:
                await stack.enter_async_context(each.sessions.run())
            yield

    async def _refusal(self, scope: Scope) -> Refusal | None:
        """Return why a request is rejected, or None; the user of an access token becomes part of the scope."""
        method, path, headers = scope["method"], scope["path"], scope["headers"]
        if path in (LIVE_PATH, READY_PATH) and method == "GET":
            return None  # an orchestrator asks by address, and learns nothing else
        refusal = self.policy.misdirected(headers)
        if refusal is not None or path == HEALTH_PATH or await self._metadata_at(path) is not None:
            return refusal
        found = next((each for each in self.served if each.path == path), None)
        if is_preflight(method, headers):
            refusal = None
        elif found is None:
            refusal = self.policy.token_missing(headers)
        else:
            admitted = await found.gate.admit(self.policy, headers)
            if isinstance(admitted, KnownUser):
                scope["user"], scope["auth"] = admitted, AuthCredentials(admitted.scopes)
            else:
                refusal = admitted
        if refusal is not None:
            return refusal
        if found is None:
            return Refusal(404, "path", "nothing is served at this path", f"use the path {self.served[0].path}")
        declared = next((value for name, value in headers if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > LARGEST_BODY:
            return Refusal(413, "body", "the request is too large", f"send at most {LARGEST_BODY:,} bytes")
        return self.load.refusal(scope)

    def _note(self, scope: Scope, refusal: Refusal) -> None:
        """Write to the audit log of the requested project, or of the first; without the content of the request."""
        meant = next((each for each in self.served if each.path == scope["path"]), self.served[0])
        client, caller, user = scope.get("client"), refusal.asked_by, scope.get("user")
        if caller is None and isinstance(user, KnownUser):
            caller = user.known_as
        meant.audit.note_refusal(
            {
                **({} if caller is None else caller.to_json()),
                "refused": refusal.reason,
                "status": refusal.status,
                "method": one_line(scope["method"], 20),
                "path": one_line(scope["path"], 100),
                "peer": client[0] if client else None,
            }
        )

    async def _metadata_at(self, path: str) -> ASGIApp | None:
        """Return what answers a request for the metadata of a project, or None if there is none at the path."""
        if path == METADATA_PATH or path.startswith(f"{METADATA_PATH}/"):
            for each in self.served:
                found = await each.gate.metadata(path, each.path)
                if found is not None:
                    return found
        return None

    async def _metadata(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await self._metadata_at(scope["path"])
        await (found or Response(status_code=404))(scope, receive, send)

    async def _live(self, request: Request) -> JSONResponse:
        """Answer whether the process is alive."""
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> JSONResponse:
        """Answer whether the server can answer questions now; the reason is in the log."""
        if not self.load.closing and self._check is None and time.monotonic() > self._checked[0]:
            self._check = asyncio.create_task(self._check_readiness())
        if self._check is not None:
            await asyncio.wait([self._check], timeout=None if self._checked[0] == 0.0 else READY_PATIENCE)
        ready = not self.load.closing and self._checked[1]
        return JSONResponse({"status": "ok" if ready else "unavailable"}, status_code=200 if ready else 503)

    async def _check_readiness(self) -> None:
        try:
            problems = await asyncio.to_thread(lambda: [each.unready() for each in self.served])
            problem = next((each for each in problems if each is not None), None)
            if problem is not None:
                LOGGED.warning(log, f"not ready: {problem.message}")
            self._checked = (time.monotonic() + READY_SECONDS, problem is None)
        except Exception:
            log.exception("the check for readiness failed")
            self._checked = (time.monotonic() + READY_SECONDS, False)
        finally:
            self._check = None

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
    """An application as a route: a class, so that Starlette passes the request on unchanged."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


_READS: Final = SimpleNamespace(writes=False)


async def _received(receive: Receive) -> list[Message]:
    """Return the messages of a whole body, or of as much as may be served."""
    messages: list[Message] = []
    size = 0
    while size <= LARGEST_BODY:
        messages.append(await receive())
        size += len(messages[-1].get("body", b""))
        if not messages[-1].get("more_body"):
            break
    return messages


def _message_in(body: bytes) -> Mapping[str, Any]:
    """Return the message in a body; an empty one for anything else, about which the SDK says what is wrong."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _called_tool(message: Mapping[str, Any]) -> str | None:
    """Return the tool that a message calls, or None."""
    if message.get("method") != "tools/call":
        return None
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return name if isinstance(name, str) else None


class _Replayed:
    """Receives messages again that were already received, and then further ones."""

    def __init__(self, messages: list[Message], receive: Receive) -> None:
        self._messages = messages[::-1]
        self._receive = receive

    async def __call__(self) -> Message:
        return self._messages.pop() if self._messages else await self._receive()


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
