"""A client of the server over HTTP that sends what it is told to, right or wrong, and servers to send it to."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mcp.conftest import made
from tests.worlds.forks import shared

KTX = Path(sys.executable).with_name("ktx")
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
VERSION = "2025-06-18"


__all__ = ["Got", "Wire", "ktx", "made", "started"]


@dataclass(frozen=True)
class Got:
    """An answer as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC message of an answer, alone or as the last event of a stream."""
        text = self.body.decode()
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            text = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")][-1]
        found: dict[str, Any] = json.loads(text)
        return found

    @property
    def reason(self) -> str:
        """The word of a refusal."""
        return str(self.message["error"]["data"]["code"])


@dataclass
class Wire:
    """Requests to one server. `token`: what is shown where nothing else is said."""

    port: int
    path: str = "/mcp"
    token: str | None = None
    session: str | None = None
    _connection: http.client.HTTPConnection | None = field(default=None, repr=False)

    def send(
        self,
        method: str = "POST",
        path: str | None = None,
        *,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Got:
        """Send one request on a connection of its own and return what came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {
            **ACCEPT,
            **({} if self.token is None else {"Authorization": f"Bearer {self.token}"}),
            **(headers or {}),
        }
        if self.session is not None and "Mcp-Session-Id" not in sent:
            sent |= {"Mcp-Session-Id": self.session, "Mcp-Protocol-Version": VERSION}
        data = body if body is None or isinstance(body, bytes) or hasattr(body, "__next__") else json.dumps(body)
        try:
            connection.request(method, path or self.path, body=data, headers=sent, encode_chunked=False)
            answer = connection.getresponse()
            return Got(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def initialize(self, **headers: str) -> Got:
        """Begin a session."""
        client = {"name": "wire", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": client}
        got = self.send(body={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, headers=headers)
        self.session = got.headers.get("mcp-session-id")
        return got

    def ask(self, method: str, params: Mapping[str, Any]) -> Got:
        """Send a request of the protocol in the session."""
        return self.send(body={"jsonrpc": "2.0", "id": 7, "method": method, "params": dict(params)})

    def tools(self) -> list[dict[str, Any]]:
        """Return the tools the server has."""
        found: list[dict[str, Any]] = self.ask("tools/list", {}).message["result"]["tools"]
        return found

    def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[int, dict[str, Any] | None, str]:
        """Call a tool; returns the status, the error if it is one, and the text of the answer."""
        got = self.ask("tools/call", {"name": name, "arguments": dict(arguments)})
        result = got.message.get("result")
        if result is None:
            return got.status, got.message["error"], got.body.decode()
        text = result["content"][0]["text"]
        return got.status, json.loads(text)["error"] if result.get("isError") else None, text


def ktx(*words: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `ktx` in a folder, as a process."""
    return shared().run(words, folder=folder, environ={**os.environ, **environ}, timeout=90)


@contextmanager
def started(folder: Path, *words: str, token: str | None = None) -> Iterator[Wire]:
    """Have `ktx mcp start` leave a server for a block."""
    environ = {} if token is None else {"KTX_MCP_TOKEN": token}
    done = ktx("mcp", "start", "--port", "0", "--json", *words, folder=folder, **environ)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        data = json.loads(done.stdout)["data"]
        yield Wire(int(data["url"].split(":")[2].split("/")[0]), token=token)
    finally:
        stopped = ktx("mcp", "stop", folder=folder)
        assert stopped.returncode == 0, stopped.stderr
