"""A model provider on loopback that plays a script and records every request; it speaks every API of `WIRES`."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from ktx_cli.testing.model_script import Cut, Failure, InOrder, ModelRequest, Reply, Script, Turn, render
from ktx_cli.testing.model_wire import WIRES, wire_of

FOREVER_SECONDS = 60.0
"""The maximum delay of a response if its client never disconnects."""


class ModelServer:
    """The scripted server. Use it as a context manager; `url` is its address, `requests` what it received.

    `script` is a list of replies, played in order, or a function of the request. `settings` is the response of the two
    settings endpoints of Claude Code (None: 404). `answers`: the JSON for other paths that a client asks for.
    """

    def __init__(self, script: Script | Iterable[Reply] = (), *, settings: dict[str, Any] | None = None) -> None:
        self.script: Script = script if callable(script) else InOrder(script)
        self.settings = settings
        self.answers: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._requests: list[ModelRequest] = []
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base address, without a trailing slash."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[ModelRequest]:
        """Every request so far."""
        with self._lock:
            return list(self._requests)

    @property
    def model_calls(self) -> list[ModelRequest]:
        """The requests that ask a model for a turn."""
        return [request for request in self.requests if request.is_model_call]

    def play(self, script: Script | Iterable[Reply]) -> None:
        """Change the script and delete the recorded requests."""
        with self._lock:
            self.script = script if callable(script) else InOrder(script)
            self._requests.clear()

    def start(self) -> None:
        """Start to respond."""
        self._thread.start()

    def stop(self) -> None:
        """Stop and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def record(self, method: str, path: str, headers: dict[str, str], body: dict[str, Any]) -> ModelRequest:
        """Record a request; numbers start at 1."""
        with self._lock:
            wire = wire_of(path) if method == "POST" else None
            request = ModelRequest(
                len(self._requests) + 1,
                method,
                path,
                headers,
                body if wire is None else wire.body(path, body),
                time.monotonic(),
                wire is not None,
                body,
            )
            self._requests.append(request)
            return request

    def __enter__(self) -> ModelServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, owner: ModelServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: clients that disconnect early are part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # Otherwise every response waits 40 ms for the client to acknowledge its headers.
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        request = self._record()
        settings = self.server.owner.settings
        if settings is not None and request.path.startswith("/api/claude_code/settings"):
            self._send_json(200, settings)
        else:
            self._send_other(request)

    def do_HEAD(self) -> None:
        self._record()
        self._send_json(200, {})

    def do_POST(self) -> None:
        request = self._record()
        if not request.is_model_call:
            self._send_other(request)
            return
        reply = self.server.owner.script(request)
        if not self._wait(reply):
            return
        if isinstance(reply, Failure):
            self._send_error(reply, request)
        elif isinstance(reply, Cut):
            self._send_cut(reply, request)
        else:
            self._send_message(reply, request)

    def _record(self) -> ModelRequest:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length) if length else b""
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {"unparsed": raw.decode("utf-8", "replace")}
        headers = {name.lower(): value for name, value in self.headers.items()}
        if not isinstance(body, dict):
            body = {"unparsed": body}
        return self.server.owner.record(self.command, self.path.split("?")[0], headers, body)

    def _wait(self, reply: Reply) -> bool:
        """Delay the response as the reply requires; return False if the client disconnected meanwhile."""
        seconds = FOREVER_SECONDS if isinstance(reply, Turn) and reply.forever else reply.delay
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], left)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                self.close_connection = True
                return False
            if readable:
                time.sleep(min(left, 0.01))
        return True

    def _send_other(self, request: ModelRequest) -> None:
        answers = self.server.owner.answers
        if request.path in answers:
            self._send_json(200, answers[request.path])
        else:
            self._send_error(Failure(404, "not_found_error", f"no {request.path}"), request)

    def _send_error(self, failure: Failure, request: ModelRequest) -> None:
        wire = wire_of(request.path) or WIRES[0]
        status, body = wire.failure(failure)
        self._send_json(status, body, failure.headers)

    def _send_json(self, status: int, value: Any, headers: Any = None) -> None:
        self._send(status, "application/json", json.dumps(value).encode(), headers)

    def _send_message(self, turn: Turn, request: ModelRequest, share: float = 1.0) -> None:
        wire = wire_of(request.path)
        assert wire is not None
        kind, data = wire.answer(render(turn, request), request)
        self._send(200, kind, data, share=share)

    def _send(self, status: int, kind: str, data: bytes, headers: Any = None, share: float = 1.0) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data[: int(len(data) * share)])

    def _send_cut(self, cut: Cut, request: ModelRequest) -> None:
        if cut.share > 0:
            self._send_message(cut.turn, request, cut.share)
        self.close_connection = True
