"""A model of six steps a unit in a process of its own, so that what it takes is not the program's.

`serving(latency)` starts it and yields what leads `ktx` to it. Asked, it says how many requests it had, how many were
answered at once at most, and the CPU seconds it took.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import Call, ModelRequest, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer

STEPS = 6
"""Requests of a unit."""

_TOPIC = re.compile(r"Task: (?:[\w-]+/)*([\w-]+)\.md")


def turns(topic: str, path: str) -> list[Turn]:
    """Return what the model does for one document: reads, looks around, writes one page."""
    page = {"key": topic, "summary": f"About {topic}", "content": f"# {topic}\n\nWhat the handbook says of {topic}."}
    return [
        calls(Call("read_raw_file", {"path": path})),
        calls(Call("discover_data", {"query": "orders"})),
        calls(Call("entity_details", {"targets": ["orders"]})),
        calls(Call("wiki_search", {"query": topic})),
        calls(Call("wiki_write", {**page, "raw_paths": [path]})),
        says("done"),
    ]


class SixSteps:
    """Plays the turns of each unit after a delay; every document is worth an agent, and the whole run needs nothing."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Count from nothing again."""
        self.played: Counter[str] = Counter()
        self._ends: list[float] = []
        self.most = 0

    def __call__(self, request: ModelRequest) -> Turn:
        with self._lock:
            now = time.monotonic()
            self._ends = [end for end in self._ends if end > now]
            self._ends.append(now + self._latency)
            self.most = max(self.most, len(self._ends))
            turn = self._turn(request.body["messages"])
        return replace(turn, delay=self._latency)

    def _turn(self, messages: list[Any]) -> Turn:
        first = json.dumps(messages[0])
        found = _TOPIC.search(first)
        if found is None:
            self.played["others"] += 1
            lane = "skip" if "small-" in first else "full"
            return says("done") if "This run has " in first else gives({"lane": lane, "reason": "So it is."})
        topic, path = found[1], found[0].removeprefix("Task: ")
        answers = sum(message["role"] == "assistant" for message in messages)
        self.played[topic] += 1
        return turns(topic, path)[min(answers, STEPS - 1)]


@dataclass(frozen=True)
class Facts:
    """What the model was asked since the last time. `others`: requests of no unit; `most`: answered at once."""

    units: int
    requests: int
    others: int
    most: int
    cpu: float


class Model:
    """The process; `environ` leads a program to it, `url` is its address."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._start = self._read()

    @property
    def url(self) -> str:
        """The base address."""
        return str(self._start["url"])

    @property
    def environ(self) -> dict[str, str]:
        """The complete environment of a Claude Code session behind which the model is."""
        return dict(self._start["environ"])

    def facts(self) -> Facts:
        """Return what happened since the last call, and forget it."""
        assert self._process.stdin is not None
        self._process.stdin.write("facts\n")
        self._process.stdin.flush()
        return Facts(**self._read())

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextlib.contextmanager
def serving(latency: float) -> Iterator[Model]:
    """Yield a model that takes `latency` seconds for every answer."""
    command = [sys.executable, "-m", "benchmarks.ingest_model", str(latency)]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Model(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    """Serve until the input ends; every line of it is answered with what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("latency", type=float)
    script = SixSteps(parser.parse_args().latency)
    with ModelServer(script) as server, offline_session(server) as session:
        print(json.dumps({"url": server.url, "environ": session.environ}), flush=True)
        before = time.process_time()
        for _ in sys.stdin:
            played, now = script.played, time.process_time()
            others = played.pop("others", 0)
            facts = {
                "units": len(played),
                "requests": played.total() + others,
                "others": others,
                "most": script.most,
                "cpu": now - before,
            }
            script.forget()
            server.play(script)
            before = now
            print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
