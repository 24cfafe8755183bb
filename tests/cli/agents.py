"""A scripted model that works through a folder of documents, and the project over two tables it does so in."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.codex_session import codex_binary, codex_offline
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer

KTX = str(Path(sys.executable).with_name("ktx"))
MANIFEST = "raw-sources/docs/files/manifest.yaml"
BACKENDS = ("anthropic", "claude-code", "claude-cli", *(("codex",) if codex_binary() else ()))
LOCAL = BACKENDS[1:]
"""The backends of local sessions."""

LONG = "Orders count when they are paid. " * 700
"""So long that each file is a unit of its own."""


def backends(*here: str) -> list[Any]:
    """Return all backends as the cases of a test; `make test` has those named, the others are slow.

    What backends have in common is proved by tests/llm; each start of a local session costs a processor up to seconds.
    """
    return [each if each in here else pytest.param(each, marks=pytest.mark.slow) for each in BACKENDS]


SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, amount REAL, paid INTEGER);
INSERT INTO customers VALUES (1, 'a'), (2, 'b');
INSERT INTO orders VALUES (1, 1, 10.0, 1), (2, 2, 5.0, 0);
"""

CONFIG = """\
llm:
  provider:
    backend: {backend}
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models:
    default: claude-sonnet-5-5
ingest:
  workUnits: {{maxConcurrency: {at_once}, stepBudget: {steps}, failureMode: {failure}}}
  rateLimit: {{retry: {{maxAttempts: 1}}}}
scan:
  enrichment: {{mode: none}}
connections:
  shop: {{driver: sqlite, path: shop.sqlite}}
  docs: {{driver: documents, path: docs}}
"""


def page(topic: str, **fields: Any) -> Call:
    values = {"key": topic, "summary": f"About {topic}", "content": f"# {topic}\n\nWhat the handbook says."}
    return Call("wiki_write", {**values, "raw_paths": [f"{topic}.md"], **fields})


def measure(name: str, expr: str) -> Call:
    text = f"name: orders\nmeasures:\n  - name: {name}\n    expr: {expr}\n"
    return Call("sl_write_source", {"connection": "shop", "source": "orders", "yaml": text})


def usual(topic: str) -> list[Turn]:
    """Return the turns of a unit that reads its file, looks around and writes a page."""
    return [
        calls(Call("read_raw_file", {"path": f"{topic}.md"})),
        calls(Call("discover_data", {"query": "orders"}), text="Looking."),
        calls(page(topic)),
        says("done"),
    ]


def section_questions(text: str, written: Mapping[str, Mapping[str, list[str]]] | None = None) -> dict[str, Any]:
    """Return an answer to what `passage_questions` asks; `written`: headings -> what it says of the sections below."""
    sections = re.findall(r"(s\d+):[\s\\n]*<data id=.*?below: (.*?)(?:\n|\\n)", text, re.DOTALL)
    usual = {"questions": ["What does the handbook say?"], "synonyms": []}
    found = {label: (written or {}).get(heading, usual) for label, heading in sections}
    keys = ("questions", "synonyms")
    return {"sections": [{"section": label, **{key: own[key] for key in keys}} for label, own in found.items()]}


class Agents:
    """A model that plays the turns of each unit in order; `turns`: topic -> its turns in place of the usual ones."""

    def __init__(self, **turns: Sequence[Reply]) -> None:
        self.turns = turns
        self.asked: list[tuple[str, int]] = []
        self._lock = threading.Lock()
        self._played: dict[str, int] = {}

    def __call__(self, request: ModelRequest) -> Reply:
        if "You sort documents" in request.system:
            return gives({"lane": self.lanes(request), "reason": "It says what counts."})
        if "questions that parts of a company's documents answer" in request.system:
            return gives(section_questions(json.dumps(request.body["messages"])))
        text = json.dumps(request.body["messages"])
        topic = self.topic(text)
        if topic is None:
            return says("ok")
        with self._lock:
            number = self._played[topic] = self._played.get(topic, 0) + 1
            self.asked.append((topic, number))
        turns = self.turns.get(topic) or (usual(topic) if topic not in ("reconcile", "repair") else [says("done")])
        return turns[min(number, len(turns)) - 1]

    def lanes(self, request: ModelRequest) -> str:
        """Return where the document of a request goes."""
        return "full"

    def topic(self, text: str) -> str | None:
        found = re.search(r"Task: ([\w-]+)\.md", text)
        if found:
            return found[1]
        if "This run has " in text:
            return "reconcile"
        return "repair" if "repair" in text else None

    def of(self, topic: str) -> int:
        return sum(each == topic for each, _ in self.asked)


@contextlib.contextmanager
def entered(backend: str, server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give a backend its local session, if it needs one."""
    if backend not in LOCAL:
        yield
        return
    open_session = codex_offline if backend == "codex" else offline_session
    with open_session(server) as session, monkeypatch.context() as patch:
        for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "CLAUDE_CODE_OAUTH_TOKEN"):
            patch.delenv(name, raising=False)
        for name, value in session.environ.items():
            patch.setenv(name, value)
        yield


def git(folder: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout


def history(project: Path) -> str:
    """Return the subjects of all commits; nothing where there is no repository."""
    said = subprocess.run(["git", "log", "--all", "--format=%s"], cwd=project, capture_output=True, text=True)
    return said.stdout


def states(project: Path) -> dict[str, str]:
    document = yaml.load((project / MANIFEST).read_bytes(), where=MANIFEST)
    return {path: state["status"] for path, state in document["files"].items()}


def tree(project: Path) -> dict[str, str]:
    """Return every committed file but ktx.yaml -> a hash of it."""
    names = subprocess.run(["git", "ls-files"], cwd=project, capture_output=True, text=True, check=True).stdout.split()
    return {name: hashlib.sha256((project / name).read_bytes()).hexdigest() for name in names if name != "ktx.yaml"}


def units(answer: Any) -> dict[str, Mapping[str, Any]]:
    (source,) = answer.data["sources"]
    return {each["unit"]: each for each in source["units"]}
