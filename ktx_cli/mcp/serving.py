"""Runs a server from its settings to its last request, over HTTP or over stdin and stdout."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import fcntl
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import anyio
import anyio.abc
import anyio.to_thread
import mcp_types as types
import uvicorn
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from ktx_cli.core import BusyError, Command, KtxError, UsageError, isoformat, now, one_line
from ktx_cli.jobs.serve.caller import CallerIdentity, Meter, with_agent
from ktx_cli.jobs.serve.project import ServedProject
from ktx_cli.jobs.serve.snapshot import CHECK_SECONDS, SnapshotFollower
from ktx_cli.jobs.serve.state import (
    TOKEN_VARIABLE,
    ServedFolder,
    ServerSettings,
    ServerState,
    only_server,
    remove_server_state,
    required_token,
    write_server_state,
)
from ktx_cli.mcp.access import LARGEST_HEADERS, AccessPolicy
from ktx_cli.mcp.audit import AuditLog
from ktx_cli.mcp.http import LARGEST_BODY, HttpServer, Served, TimedProtocol
from ktx_cli.mcp.server import ProjectServer
from ktx_cli.mcp.tool import Options
from ktx_cli.project import Layout, load_config, mask
from ktx_cli.telemetry import Measured, begin_command, end_command, observe, start

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 5
"""The seconds that requests in progress have to finish when the server stops."""

LOOK_SECONDS: Final = 10
MOST_CONNECTIONS: Final = 1024
KEEP_ALIVE_SECONDS: Final = 75

Started = Callable[[ServerState], None]


@dataclass(slots=True)
class Ending:
    """The end of a server: the signal it received, if any."""

    signal: int | None = None


def serve_http(
    settings: ServerSettings, environ: Mapping[str, str], started: Started, *, is_foreground: bool = False
) -> Ending:
    """Serve until a signal arrives. `started` is called once with the state, when the server is bound and recorded.

    `is_foreground`: the log goes to the stderr of a command that somebody runs.
    Raises what keeps it from starting: `UsageError`, `ConfigError`, `SecretError`, `BusyError`.
    """
    configs = [load_config(Layout(Path(each.folder)).config).config for each in settings.projects]
    issuers = [each.serving.identity is not None for each in configs]
    token, _ = required_token(settings, environ, issuers=all(issuers))
    instance, ending = secrets.token_hex(8), Ending()
    kept = {name: value for name, value in environ.items() if name not in (TOKEN_VARIABLE, "KTX_PROJECT_DIR")}
    with ExitStack() as stack:
        stack.enter_context(plain_log())
        served = tuple(stack.enter_context(_served(each, settings, kept)) for each in settings.projects)
        bound = stack.enter_context(closing(_bound(settings)))
        port = bound.getsockname()[1]
        is_protected = token is not None or any(issuers)
        state = ServerState(instance, settings, port, token_required=is_protected, is_foreground=is_foreground)
        for each in served:
            stack.callback(remove_server_state, each.layout, instance)
            write_server_state(each.layout, _state_of(each, state))
        observe("ktx.snapshot.published", lambda: _snapshots(served))
        policy = AccessPolicy.of(
            settings.host, allowed_hosts=settings.allowed_hosts, allowed_origins=settings.allowed_origins, token=token
        )
        anyio.run(_run, HttpServer(served, policy, instance), bound, state, started, ending)
    return ending


def _state_of(served: Served, state: ServerState) -> ServerState:
    """Return the state of the server as it is stored for one of its projects."""
    follower = served.follower
    if follower is None or follower.snapshot is None:
        return state
    problem = follower.problem
    shown = None if problem is None else {"message": mask(problem.message), "hint": mask(problem.hint or "") or None}
    return replace(state, snapshot=follower.snapshot.to_json(), problem=shown)


def _snapshots(served: Sequence[Served]) -> Measured:
    """Return when the snapshots that are served were published, as Unix time, each with its commit."""
    snapshots = [each.follower.snapshot for each in served if each.follower is not None]
    return [
        (int(datetime.fromisoformat(each.published).timestamp()), {"ktx.snapshot.commit": each.commit})
        for each in snapshots
        if each is not None
    ]


@contextmanager
def _served(folder: ServedFolder, settings: ServerSettings, environ: Mapping[str, str]) -> Any:
    """Keep one project open: its lock, its server and its audit log; raises `ConfigError` for unusable settings."""
    layout = Layout(Path(folder.folder))
    config = load_config(layout.config).config
    if settings.agent is not None:
        with_agent(CallerIdentity(), config, settings.agent)  # raises for an unknown agent
    with ExitStack() as stack:
        stack.enter_context(only_server(layout))
        follower = None
        if settings.replica:
            follower = stack.enter_context(closing(SnapshotFollower(layout, dict(environ))))
            project = follower.open()
        else:
            project = stack.enter_context(closing(ServedProject(layout, dict(environ), is_own_process=True)))
        audit = AuditLog(layout, "http", settings.privacy, settings.agent)
        read_only = settings.read_only or settings.replica
        options = Options(read_only, settings.privacy, settings.user_attributes, settings.profile, settings.agent)
        meter = stack.enter_context(closing(Meter(layout)))
        server = ProjectServer(project, options, meter)
        if follower is not None:
            follower.on_change = server.serve
        server.resume()
        with closing(audit):
            yield Served(folder.path, server, audit, follower)


def _bound(settings: ServerSettings) -> socket.socket:
    """Return a listening socket; raises `BusyError` for a port in use, `UsageError` for an invalid host."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"`{settings.host}` is not a host of this machine", hint="use --host 127.0.0.1") from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(128)
    except OSError as error:
        bound.close()
        raise _not_bound(settings, error) from error
    bound.set_inheritable(False)
    return bound


def _not_bound(settings: ServerSettings, error: OSError) -> KtxError:
    import errno

    if error.errno == errno.EADDRINUSE:
        message = f"port {settings.port} of {settings.host} is in use by another program"
        hint = Command("mcp", "start", "--port", "0")
        return BusyError(message, hint=hint, details={"host": settings.host, "port": settings.port})
    message = f"cannot listen on port {settings.port} of {settings.host}: {error.strerror or error}"
    return UsageError(message, hint=Command("mcp", "start", "--host", "127.0.0.1", "--port", "0"))


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own signal handlers: ktx's handlers end the sessions first."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield


async def _run(server: HttpServer, bound: socket.socket, state: ServerState, started: Started, ending: Ending) -> None:
    runner = _Uvicorn(_config(server))
    async with anyio.create_task_group() as tasks:
        await tasks.start(_wait_for_signal, server, runner, ending)
        tasks.start_soon(_end_without_projects, server, runner)
        for each in server.served:
            if each.follower is not None:
                tasks.start_soon(_follow, each, each.follower, state)
        started(state)
        await runner.serve(sockets=[bound])
        tasks.cancel_scope.cancel()


async def _follow(served: Served, follower: SnapshotFollower, state: ServerState) -> None:
    """Serve each newer snapshot that is published; one that cannot be opened is logged, and the last one stays."""
    logged: KtxError | None = None
    stored = _state_of(served, state)
    while True:
        await anyio.sleep(CHECK_SECONDS)
        await anyio.to_thread.run_sync(follower.refresh, abandon_on_cancel=True)
        if follower.problem is not None and (logged is None or logged.message != follower.problem.message):
            log.warning("the newest snapshot is not served: %s", follower.problem.message)
        logged = follower.problem
        found = _state_of(served, state)
        if found != stored:
            try:
                await anyio.to_thread.run_sync(write_server_state, served.layout, found)
                stored = found
            except KtxError as error:  # the next attempt is as soon as the next look for a snapshot
                log.warning("`ktx mcp status` shows the previous snapshot: %s", error.message)


async def _end_without_projects(server: HttpServer, runner: uvicorn.Server) -> None:
    """Stop if every project's folder was removed: such a server could no longer be stopped by name."""
    while any(each.layout.root.is_dir() for each in server.served):
        await anyio.sleep(LOOK_SECONDS)
    runner.should_exit = True


async def _wait_for_signal(
    server: HttpServer, runner: uvicorn.Server, ending: Ending, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    """Keep the sessions open until a signal arrives; then accept no more requests, let those in progress
    finish, and stop.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async with server.running():
            task_status.started()
            async for number in signals:
                ending.signal = int(number)
                break
            server.load.closing = True
            with anyio.move_on_after(GRACE_SECONDS):
                await server.load.idle()
        runner.should_exit = True


def _config(server: HttpServer) -> uvicorn.Config:
    return uvicorn.Config(
        server,
        http=TimedProtocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=LARGEST_HEADERS,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


PATIENCE_SECONDS: Final = 2.0


def leave(code: int) -> NoReturn:
    """End this process. A statement that nobody waits for is not waited for, however long it may take."""
    end_command(code)
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(PATIENCE_SECONDS)
            if thread.is_alive():
                sys.stderr.flush()
                os._exit(code)
    sys.exit(code)


_LEVELS: Final = {"mcp": logging.ERROR, "uvicorn": logging.ERROR, "asyncio": logging.ERROR, "ktx_cli": logging.INFO}
"""The level of each logger. Warnings of libraries are about what clients do; rejected requests are in the audit log."""


class _Line(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = f"{isoformat(now())} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        if record.exc_info and record.exc_info[1] is not None:
            text += f" ({type(record.exc_info[1]).__name__})"
        return one_line(mask(text), 1000)


@contextmanager
def plain_log() -> Iterator[None]:
    """Write log messages to stderr for a block."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Line())
    root = logging.getLogger()
    before = {name: logging.getLogger(name).level for name in _LEVELS}
    for name, level in _LEVELS.items():
        logging.getLogger(name).setLevel(level)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


_PIECE: Final = 65_536
LARGEST_MESSAGE: Final = 8 * LARGEST_BODY


def serve_stdio(server: ProjectServer) -> int:
    """Serve until the client closes stdin or a signal arrives, and return the exit code.

    Stdout only carries the protocol: any other output, from Python or below, goes to stderr.
    """
    audit = AuditLog(server.project.layout, "stdio", server.options.privacy, server.options.agent)
    server.meter = meter = Meter(server.project.layout)
    server.server.middleware.append(audit.middleware)
    server.resume()
    with plain_log(), contextlib.closing(meter), contextlib.closing(audit):
        return anyio.run(_serve, server)


async def _serve(server: ProjectServer) -> int:
    ended: list[int] = []
    async with anyio.create_task_group() as tasks:
        await tasks.start(_end_on_signal, tasks.cancel_scope, ended)
        lines = _Lines()
        # its annotation asks for a file, but only its lines are read
        async with stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
            lines.answer = write.send
            with contextlib.redirect_stdout(
                sys.stderr
            ):  # after the SDK has taken stdout, so that it took the right one
                await server.server.run(read, write, server.server.create_initialization_options())
        tasks.cancel_scope.cancel()
    return 130 if signal.SIGINT in ended else 0


async def _end_on_signal(
    scope: anyio.CancelScope, ended: list[int], *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        task_status.started()
        async for number in signals:
            ended.append(number)
            scope.cancel()


class _Lines:
    """The lines of stdin, read by a thread that does not delay the end of the process.

    A thread that waits for a line cannot be interrupted, and the SDK's own would keep the process until one arrived.
    Meanwhile, descriptor 0 is the null device: a child must not read input for the server.
    """

    def __init__(self) -> None:
        self.answer: Callable[[SessionMessage], Awaitable[None]] = _dropped
        """Sends the response to an invalid message; the SDK itself ignores such lines silently."""
        send, self._lines = anyio.create_memory_object_stream[bytes](16)
        descriptor = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 3)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        arguments = (descriptor, send, asyncio.get_running_loop())
        threading.Thread(target=_read, args=arguments, name="stdin", daemon=True).start()

    def __aiter__(self) -> AsyncIterator[str]:
        return self._each()

    async def _each(self) -> AsyncIterator[str]:
        async with self._lines as lines:
            async for line in lines:
                error = _fault(line)
                if error is not None:
                    await self.answer(SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=None, error=error)))
                elif line.strip():
                    yield line.decode()


async def _dropped(message: SessionMessage) -> None:
    """Drop a response that nobody would receive."""


def _fault(line: bytes) -> types.ErrorData | None:
    """Return the JSON-RPC error for an invalid line, or None for a message or an empty line."""
    if not line.strip():
        return None
    if len(line) > LARGEST_MESSAGE:
        return types.ErrorData(
            code=types.INVALID_REQUEST, message=f"a message must not exceed {LARGEST_MESSAGE:,} bytes"
        )
    try:
        types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        line.decode()
        return None
    except ValueError:  # pydantic's errors are such, too
        pass
    try:
        json.loads(line.decode())
    except (ValueError, RecursionError):
        return types.ErrorData(code=types.PARSE_ERROR, message="the line is not JSON in UTF-8")
    message = "the line is not a single JSON-RPC message; batches are not supported"
    return types.ErrorData(code=types.INVALID_REQUEST, message=message)


def _read(descriptor: int, send: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Pass lines on until there are no more, or nobody accepts them."""
    rest, taken = b"", True
    while taken and (piece := os.read(descriptor, _PIECE)):
        *lines, rest = (rest + piece).split(b"\n")
        taken = all(_handed_over(send, line, loop) for line in lines)
        rest = rest[: LARGEST_MESSAGE + 1]  # of a line that is too long, only enough is kept to detect that
    if rest and taken:
        _handed_over(send, rest, loop)
    with contextlib.suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(send.close)


def _handed_over(send: Any, line: bytes, loop: asyncio.AbstractEventLoop) -> bool:
    """Pass a line on, and return whether it was accepted."""
    sending = send.send(line)
    try:
        asyncio.run_coroutine_threadsafe(sending, loop).result()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, concurrent.futures.CancelledError, RuntimeError):
        sending.close()
        return False
    return True


def main() -> None:
    """Serve; the parent process reads from stdout whether the server started; stdout then becomes the log."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    code = 0

    def say(**document: Any) -> None:
        """Write the line once, and release the waiting parent process."""
        with contextlib.suppress(BrokenPipeError):  # the parent process is gone, but the server runs all the same
            os.write(1, json.dumps(document).encode() + b"\n")
        os.dup2(2, 1)

    start(os.environ)  # the command that started this process says what is wrong
    begin_command("mcp-server")
    try:
        settings = ServerSettings.from_json(json.loads(sys.argv[1]))
        serve_http(settings, os.environ, lambda state: say(instance=state.instance))
    except KtxError as error:
        say(error=error.to_json())
        code = error.exit_code
    leave(code)


if __name__ == "__main__":
    main()
