"""Documents in memory, a store in memory, the real client of the API on a scripted server, and a session with tools."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.agent_tools.library import Library
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.documents.raw import RawFile
from ktx_cli.engine.documents.candidates import Candidate, Evidence, Scores
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.tools import RuntimeTool, check_tools, invoke
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.workspace import Workspace
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config


def raw_file(path: str, content: str | bytes) -> RawFile:
    data = content.encode() if isinstance(content, str) else content
    return RawFile(path, hashlib.sha256(data).hexdigest(), len(data), lambda: data)


@pytest.fixture
def raw() -> Callable[[str, str | bytes], RawFile]:
    return raw_file


@pytest.fixture
def library() -> Callable[..., Library]:
    """Return a maker of libraries: `library({"a.md": "text"}, other={...})`, the first being the source `docs`."""

    def make(docs: Mapping[str, str | bytes], **others: Mapping[str, str | bytes]) -> Library:
        sources = {"docs": docs, **others}
        return Library({name: {p: raw_file(p, text) for p, text in each.items()} for name, each in sources.items()})

    return make


@dataclass
class MemoryStore:
    """A store in memory."""

    values: dict[tuple[str, str], Any] = field(default_factory=dict)

    def get(self, kind: str, key: str) -> Any | None:
        return self.values.get((kind, key))

    def put(self, kind: str, key: str, value: Any) -> None:
        self.values[kind, key] = json.loads(json.dumps(value))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def runtime(model_server: ModelServer, tmp_path: Path) -> Iterator[RoutedRuntime]:
    """The real client of the API, on the scripted server."""
    yield create_runtime(subject_config("anthropic", model_server.url), tmp_path, {}, usage_sink=lambda fact: None)


class Files:
    """Files in memory."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = {path: text.encode() for path, text in files.items()}

    def read(self, path: str) -> bytes | None:
        return self._files.get(path)

    def paths(self, prefix: str) -> Iterable[str]:
        return [path for path in sorted(self._files) if path.startswith(prefix)]


@pytest.fixture
def session() -> Callable[..., ToolSession]:
    """Return a maker of sessions on a project of some files."""

    def make(files: Mapping[str, str] | None = None, **fields: Any) -> ToolSession:
        return ToolSession(Workspace(Files(files or {})).child(), connections={}, **fields)

    return make


@pytest.fixture
def call() -> Callable[..., ToolInvocation]:
    """Return a caller of tools, as a loop calls them."""

    def run(tools: Sequence[RuntimeTool], name: str, **arguments: Any) -> ToolInvocation:
        return asyncio.run(invoke(check_tools(tools), name, arguments, "c1"))

    return run


def make_candidate(
    topic: str, assertion: str, *, key: str = "", path: str = "a.md", score: int = 3, **fields: Any
) -> Candidate:
    evidence = (Evidence(f"docs:{path}:text:0123456789abcdef", path, "A", "", None, "0" * 64),)
    given = {"evidence": evidence, "scores": Scores(durability=score), **fields}
    return Candidate(key or topic, "docs", topic, assertion, "", **given)


@pytest.fixture
def candidate() -> Callable[..., Candidate]:
    return make_candidate
