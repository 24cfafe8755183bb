"""A model server that says byte for byte what a test wants: broken streams, odd events, pauses, lost connections."""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

HOLD = object()
"""In an answer: wait until the client goes away."""

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"


def frames(*events: Mapping[str, Any]) -> bytes:
    """Events as a server sends them."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def begin(**facts: Any) -> dict[str, Any]:
    """The first event of an answer."""
    usage = {"input_tokens": 11, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": "msg_raw",
        "type": "message",
        "role": "assistant",
        "model": "claude-raw",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return {"type": "message_start", "message": {**message, **facts}}


def block(index: int, content: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def finish(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    """The last events of an answer."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7, **usage}}, {"type": "message_stop"}]


def text_answer(*pieces: str, reason: str = "end_turn") -> bytes:
    """A whole answer of one text block."""
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return frames(begin(), *block(0, {"type": "text", "text": ""}, *deltas), *finish(reason))


def whole(body: bytes, *headers: str) -> list[bytes]:
    """A complete response."""
    lines = "".join(f"{header}\r\n" for header in headers).encode()
    return [HEAD + lines + b"content-length: %d\r\n\r\n" % len(body) + body]


class RawServer:
    """Answers each connection with the next list of pieces: bytes are sent, numbers are pauses, `HOLD` waits.

    The connection closes after the last piece. `bodies` are the requests; `gone` is set when a client hung up.
    """

    def __init__(self, *answers: list[Any]) -> None:
        self._answers = list(answers)
        self._lock = threading.Lock()
        self.bodies: list[dict[str, Any]] = []
        self.gone = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def next_answer(self, body: dict[str, Any]) -> list[Any]:
        """Return what the next request gets."""
        with self._lock:
            self.bodies.append(body)
            return self._answers.pop(0)

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, owner: RawServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients hang up in the middle."""


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Read one request and send the pieces of its answer."""
        length = 0
        while line := self.rfile.readline().strip():
            name, _, value = line.decode().partition(":")
            if name.lower() == "content-length":
                length = int(value)
        if not length:
            return
        for piece in self.server.owner.next_answer(json.loads(self.rfile.read(length))):
            if piece is HOLD:
                self.connection.recv(1)
                self.server.owner.gone.set()
            elif isinstance(piece, float):
                time.sleep(piece)
            else:
                self.wfile.write(piece)
