"""A client of `ktx mcp stdio` that says what it is told to, and may kill the server."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.worlds.forks import shared

SECONDS = 60
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


class Stdio:
    """A server of one project, as a process."""

    def __init__(self, folder: Path, *words: str) -> None:
        command = ("mcp", "stdio", "--project-dir", str(folder), *words)
        self.process = shared().piped(command, folder=folder, environ=os.environ)
        self._asked = 0
        self._ask("initialize", HELLO)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of a tool; of an error its code, message and hint behind `error`."""
        result = self._ask("tools/call", {"name": name, "arguments": arguments})
        found: dict[str, Any] = json.loads(result["content"][0]["text"])
        return found

    def over(self, tool: str, run_id: str) -> dict[str, Any]:
        """Return what became of a run, when it has ended; `tool`: which says so."""
        for _ in range(SECONDS * 20):
            found = self.call(tool, run_id=run_id)
            if found.get("over", True):
                return found
            threading.Event().wait(0.05)
        raise AssertionError(found)

    def kill(self) -> None:
        """End it as nothing can be done about."""
        self.process.kill()
        self.process.communicate(timeout=SECONDS)

    def end(self, number: int | None = None) -> int:
        """End it by a signal, or by closing its stdin; returns its exit code."""
        if number is not None:
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS)
        assert errors == "", errors
        return self.process.wait(SECONDS)

    def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        self._asked += 1
        message = {"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            found = json.loads(line)
            if found.get("id") == self._asked:
                return found["result"]
        raise AssertionError(self.process.stderr and self.process.stderr.read())


@contextlib.contextmanager
def stdio(folder: Path, *words: str) -> Iterator[Stdio]:
    """Serve a project for a block."""
    server = Stdio(folder, *words)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        with contextlib.suppress(ValueError):  # its pipes are closed
            server.process.communicate(timeout=SECONDS)


def ended(pid: int) -> bool:
    """Wait until a process of somebody else's is gone; whether it went."""
    for _ in range(SECONDS * 20):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] == "Z":
                return True
        except FileNotFoundError:
            return True
        threading.Event().wait(0.05)
    return False
