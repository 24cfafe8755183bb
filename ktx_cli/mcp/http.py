"""The server over HTTP: one address a project, `/health`, and what stands in front of both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ktx_cli import __version__
from ktx_cli.core import one_line
from ktx_cli.mcp.access import HEALTH_PATH, LARGEST_BODY, Guard, Load, Refusal, Sessions, SlowClientError
from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.server import ProjectServer

REFUSED: Final = -32000
"""The code of a request that was not let in, as JSON-RPC has it."""

_SLOW = Refusal(408, "slow", "the request did not arrive in time", "send it at once")


@dataclass(slots=True)
class Served:
    """One project of the server: nothing of it is shared with another."""

    path: str
    project: ProjectServer
    audit: AuditLog
    sessions: Sessions = field(init=False)

    def __post_init__(self) -> None:
        self.project.server.middleware.append(self.audit.middleware)
        self.sessions = Sessions(self.project.server)


@dataclass(slots=True)
class HttpServer:
    """What uvicorn runs. `instance`: what `/health` answers with, so that a start is told from the one before."""

    served: tuple[Served, ...]
    guard: Guard
    instance: str
    load: Load = field(default_factory=Load)
    _app: ASGIApp = field(init=False)

    def __post_init__(self) -> None:
        routes = [Route(HEALTH_PATH, self._health, methods=["GET"])]
        routes += [Route(each.path, _Endpoint(each.sessions)) for each in self.served]
        app = Starlette(routes=routes, exception_handlers={SlowClientError: self._slow})
        app.router.redirect_slashes = False
        self._app = _with_cors(app, self.guard) if self.guard.origins else app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            self._note(scope, refusal)
        app = self._app if refusal is None else _answer(refusal)
        await self.load.serve(app, scope, receive, send)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the sessions of every project for a block; in the end they are closed."""
        async with AsyncExitStack() as stack:
            for each in self.served:
                await stack.enter_async_context(each.sessions.run())
            yield

    def _refusal(self, scope: Scope) -> Refusal | None:
        method, path = scope["method"], scope["path"]
        refusal = self.guard.refusal(method, path, scope["headers"])
        if refusal is not None or path == HEALTH_PATH:
            return refusal
        if not any(each.path == path for each in self.served):
            return Refusal(404, "path", "there is nothing here", f"the server answers at {self.served[0].path}")
        return _too_large(scope["headers"]) or self.load.refusal(method)

    def _note(self, scope: Scope, refusal: Refusal) -> None:
        """Tell the audit log of the project that was meant, or of the first; not what was sent."""
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
    """A project's sessions as a route: a class, so that Starlette hands the request on as it is."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._sessions.handle_request(scope, receive, send)


def _with_cors(app: ASGIApp, guard: Guard) -> ASGIApp:
    """Let browsers read answers on the pages that were allowed by name."""
    return CORSMiddleware(
        app,
        allow_origins=sorted(guard.origins),
        allow_methods=["GET", "POST", "DELETE"],
        allow_headers=["authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"],
        expose_headers=["mcp-session-id"],
    )


def _too_large(headers: Any) -> Refusal | None:
    declared = next((value for name, value in headers if name == b"content-length"), b"0")
    if declared.isdigit() and int(declared) <= LARGEST_BODY:
        return None
    return Refusal(413, "body", "the request is too large", f"at most {LARGEST_BODY:,} bytes")


def _answer(refusal: Refusal) -> Response:
    error: Mapping[str, Any] = {
        "code": REFUSED,
        "message": refusal.message,
        "data": {"code": refusal.reason, "hint": refusal.hint},
    }
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error}, status_code=refusal.status, headers=dict(refusal.headers)
    )
