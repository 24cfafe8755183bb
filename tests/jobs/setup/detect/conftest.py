"""A machine of the test's own: no gateway listens but those of the test, no file but its own is there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.setup.detect import embeddings as detection
from ktx_cli.jobs.setup.detect import models as gateways


class Gateway:
    """Answers every GET alike; `paths` and `headers` are what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, b'{"data": [{"id": "qwen3:8b"}, {"id": "glm"}]}'
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                outer.headers.append({key.lower(): value for key, value in self.headers.items()})
                self.send_response(outer.status)
                self.send_header("location", "http://127.0.0.1:9/")
                self.send_header("content-length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture(autouse=True)
def no_gateway_of_the_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "LOCAL_GATEWAYS", ())
    monkeypatch.setattr(detection, "EMBEDDING_SERVERS", ())


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    found = Gateway()
    yield found
    found.stop()


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port whose connections are taken and never answered."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield listener.getsockname()[1]


Put = Callable[..., Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write files below a folder of the test: their contents by path."""

    def write(**contents: Any) -> Path:
        folder = tmp_path / "folder"
        folder.mkdir(exist_ok=True)
        for name, content in contents.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder

    return write
