"""A web site on loopback that answers as a test says, fails as a test says, and keeps every request."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Asked:
    """A request as the site got it; `query` has the first value of each parameter, `body` the JSON or text sent.

    `queries`: all values of each parameter.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    queries: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """An answer: `body` as bytes or to become JSON; `cut`: the connection ends after so many bytes of it.

    `drips`: its headers come byte by byte and have no end.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    drips: bool = False


Answers = Callable[[Asked], Reply | None]


class WebSite:
    """What a test scripts: `answers` says what is there, `fail` what goes wrong first at a path."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.forget()

    def forget(self) -> None:
        self.asked: list[Asked] = []
        self.answers: Answers = lambda asked: None
        self._failures: dict[str, list[Reply]] = {}

    def fail(self, path: str, *replies: Reply) -> None:
        """Give these replies for the next requests of a path."""
        self._failures.setdefault(path, []).extend(replies)

    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        waiting = self._failures.get(asked.path)
        if waiting:
            return waiting.pop(0)
        return self.answers(asked) or Reply({"message": "nothing here"}, 404)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer: two would wait for each other
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        address = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length)
        queries = parse_qs(address.query, keep_blank_values=True)
        query = {name: values[0] for name, values in queries.items()}
        headers = {name.lower(): value for name, value in self.headers.items()}
        site: WebSite = self.server.site  # type: ignore[attr-defined]
        self._send(site.reply(Asked(self.command, address.path, query, headers, _decoded(sent), queries)))

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def _send(self, reply: Reply) -> None:
        if reply.drips:
            self._drip()
            return
        content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(content)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content[: reply.cut])
        if reply.cut is not None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)

    def _drip(self) -> None:
        """Send a byte at a time of headers until nobody reads them."""
        self.close_connection = True
        with suppress(OSError):
            self.connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while True:
                self.connection.sendall(b"x")
                time.sleep(0.005)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def _decoded(sent: bytes) -> Any:
    try:
        return json.loads(sent)
    except ValueError:
        return sent.decode()


@contextmanager
def serve_site() -> Iterator[WebSite]:
    """Serve one site on a free port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.site = WebSite(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.site  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()
