"""Repositories to read in tests: on disk, and over HTTP through git's own `http-backend`, with a token or without."""

from __future__ import annotations

import gzip
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ENVIRON = {
    "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.com", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1",
}  # fmt: skip


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env={**os.environ, **ENVIRON}, capture_output=True, check=True, text=True
    )
    return done.stdout


class Repository:
    """A repository with a working tree, as a team has it."""

    def __init__(self, folder: Path, branch: str = "main", *options: str) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "-b", branch, *options)

    def commit(self, files: Mapping[str, str | None]) -> str:
        """Write (None: delete) files, commit, and return the commit."""
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, "commit", "-q", "--allow-empty", "-m", "x")
        return git(self.folder, "rev-parse", "HEAD").strip()


class GitServer:
    """`requests`: (method, path, Authorization) of each. `authorization`: what it must be, None: anything.

    `trouble`: what becomes of the requests that would send objects, `error` (500) or `cut`: the connection ends in the
    middle of them. `fetches`: how often objects were asked for.
    """

    def __init__(self, root: Path) -> None:
        self.requests: list[tuple[str, str, str | None]] = []
        self.authorization: str | None = None
        self.status: int | None = None
        self.location = ""
        self.trouble: str | None = None
        self.fetches = 0
        self._root = root

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    port = 0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        shown = handler.headers.get("Authorization")
        self.requests.append((handler.command, handler.path, shown))
        if self.status is not None:
            handler.send_response(self.status)
            handler.send_header("Location", self.location + handler.path)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        if self.authorization is not None and shown != self.authorization:
            handler.send_response(401)
            handler.send_header("WWW-Authenticate", 'Basic realm="git"')
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        self._serve(handler)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        path, _, query = handler.path.partition("?")
        body = _body(handler)
        is_fetch = b"command=fetch" in body
        self.fetches += is_fetch
        if is_fetch and self.trouble == "error":
            handler.send_response(500)
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return
        variables = {
            **os.environ, **ENVIRON, "GIT_PROJECT_ROOT": str(self._root), "GIT_HTTP_EXPORT_ALL": "1",
            "REQUEST_METHOD": handler.command, "PATH_INFO": path, "QUERY_STRING": query,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""), "REMOTE_ADDR": "127.0.0.1",
        }  # fmt: skip
        said = subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=False)
        head, _, content = said.stdout.partition(b"\r\n\r\n")
        lines = [line.decode().partition(": ") for line in head.split(b"\r\n") if line]
        status = next((int(value.split()[0]) for name, _, value in lines if name == "Status"), 200)
        handler.send_response(status)
        for name, _, value in lines:
            if name != "Status":
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if is_fetch and self.trouble == "cut":
            content = content[: len(content) // 2]
            handler.close_connection = True
        handler.wfile.write(content)


def _body(handler: BaseHTTPRequestHandler) -> bytes:
    """Return what a request sends, which git compresses when it is long."""
    sent = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
    return gzip.decompress(sent) if handler.headers.get("Content-Encoding") == "gzip" else sent


@contextmanager
def serve(root: Path) -> Iterator[GitServer]:
    """Serve all repositories below a folder."""
    server = GitServer(root)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def do_POST(self) -> None:
            server.answer(self)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server.port = listening.server_port
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()
