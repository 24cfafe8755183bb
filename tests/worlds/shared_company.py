"""A company whose units of work are processed by workers, with a scripted model for its documents."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg

from ktx_cli.testing.model_script import ModelRequest, Reply, gives, says
from tests.cli.agents import usual
from tests.worlds.forks import Forks, Started
from tests.worlds.shared_schema import SharedSchema

TOPICS: Final = ("bonus", "fees", "refunds", "stock", "tax", "travel")


class Model:
    """Plays the usual turns of each document, and counts what it was asked; `on_request` is told first."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.on_request: Callable[[str, int], None] = lambda topic, step: None

    def __call__(self, request: ModelRequest) -> Reply:
        topic = next((each for each in TOPICS if f"Task: {each}.md" in request.words), None)
        if topic is None:
            return gives({"lane": "full", "reason": "so"}) if "You sort" in request.system else says("done")
        step = sum(message["role"] == "assistant" for message in request.body["messages"])
        self.asked[topic, step] += 1
        self.on_request(topic, step)
        return usual(topic)[step]


class SharedCompany:
    """The company's project with units on workers."""

    def __init__(self, company: Path, schema: SharedSchema, forks: Forks, scratch: Path) -> None:
        self.folder, self.schema, self._forks, self._scratch = company, schema, forks, scratch
        self.started: list[Started] = []

    def configure(self, *, coordinator: bool = False, heartbeat: float = 0.5) -> None:
        """Share the state and queue the units."""
        path = self.folder / "ktx.yaml"
        settings = f"coordinator: {str(coordinator).lower()}, heartbeat_seconds: {heartbeat}"
        text = path.read_text().replace("ingest:\n", f"ingest:\n  executor: postgres\n  workers: {{{settings}}}\n")
        path.write_text(self.schema.storage() + text)

    def start(self, *arguments: str, starter: Any = None, **environ: str) -> Started:
        """Start ktx; variables with an empty value are not set."""
        said = self._scratch / f"said-{len(self.started)}"
        variables = {name: value for name, value in {**os.environ, **environ}.items() if value}
        process: Started = (starter or self._forks)(arguments, folder=self.folder, environ=variables, said=said)
        self.started.append(process)
        return process

    def said(self, process: Started) -> str:
        """Return what a process has said."""
        return (self._scratch / f"said-{self.started.index(process)}").read_text()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in the schema of the state; `QUEUE` stands for that of the queue."""
        return self.schema.rows(query)

    def wait_for(self, query: str) -> list[tuple[Any, ...]]:
        """Wait until a query returns rows, and return them."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                if found := self.rows(query):
                    return found
            time.sleep(0.05)
        raise AssertionError(f"nothing found by {query}")

    def close(self) -> None:
        """Kill what runs."""
        for each in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)
            each.wait()
