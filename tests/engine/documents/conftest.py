"""Documents and candidates in memory, sessions with tools, and a run of one source on a scripted server."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.agent_tools.layers import Layers, in_memory
from ktx_cli.agent_tools.library import Library
from ktx_cli.agent_tools.session import StagedWork, ToolSession
from ktx_cli.core.diagnostics import Command
from ktx_cli.core.events import Event
from ktx_cli.documents.raw import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine.documents.candidates import TABLES, Evidence, PageCandidate, Scores
from ktx_cli.engine.documents.curation import Curation, Curator
from ktx_cli.engine.documents.lanes import DocumentLanes, Documents, remember_waiting
from ktx_cli.engine.documents.triage import QuestionRunner, load_document_prompts
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.plan import RunPlan
from ktx_cli.engine.task import AgentContext, AgentRunner, Cancellation, ValueSamples
from ktx_cli.engine.work import SourceWork, TaskStore, UnitOutcome
from ktx_cli.llm.port import LlmRuntime
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.tools import RuntimeTool, check_tools, invoke
from ktx_cli.llm.types import ToolInvocation
from ktx_cli.project.layout import EmptyTree, Layout
from ktx_cli.project.state import StateEnrichmentStore, open_for_writing, transaction
from ktx_cli.project.workspace import Workspace
from ktx_cli.prompts import Prompt
from ktx_cli.runs import Recorder
from ktx_cli.semantic.model import CalendarSettings
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config


def raw_file(path: str, content: str | bytes) -> RawFile:
    data = content.encode() if isinstance(content, str) else content
    return RawFile(path, hashlib.sha256(data).hexdigest(), len(data), lambda: data)


class Papers:
    """A source of documents."""

    kind = "files"
    documents = True
    skills: tuple[str, ...] = ()


@dataclass
class World:
    """One run. `limits`: settings of the connection; `units`: groups of files, else one a file."""

    root: Path
    database: sqlite3.Connection
    files: Mapping[str, str]
    url: str
    limits: Mapping[str, int] = field(default_factory=dict)
    units: Sequence[tuple[str, ...]] = ()
    version: str = "1"
    cancellation: Cancellation = field(default_factory=Cancellation)
    events: list[Event] = field(default_factory=list)
    workspace: Workspace = field(default_factory=lambda: Workspace(EmptyTree()))

    def __post_init__(self) -> None:
        raw = {path: raw_file(path, text) for path, text in sorted(self.files.items())}
        groups = self.units or [(path,) for path in raw]
        units = tuple(WorkUnit(group[0], group[0], tuple(group)) for group in groups)
        changes = Changes(added=tuple(raw))
        self.work = SourceWork(
            "docs",
            SimpleNamespace(**self.limits),
            Papers(),
            snapshot=Snapshot(raw),
            changes=changes,
            units=units,  # type: ignore[arg-type]
        )
        self.documents = Documents.of([self.work], self.database)
        self.base = self.workspace.child()

    def sort(self) -> DocumentLanes:
        """Sort the documents."""

        async def work(runtime: LlmRuntime) -> None:
            questions = QuestionRunner(
                runtime, StateEnrichmentStore(Layout(self.root), self.database), self.cancellation
            )
            await self.documents.sort(questions, load_document_prompts(), self.events.append)

        self._with(work)
        return self.documents.lanes["docs", "files"]

    def curate(
        self, candidates: Sequence[PageCandidate] = (), merged: Sequence[UnitOutcome] = (), *, land: bool = True
    ) -> Curation:
        """Curate candidates, those that wait too; `land`: as when the run's commit follows."""
        earlier = self.documents.earlier["docs", "files"]

        async def work(runtime: LlmRuntime) -> Curation:
            return await self.curator(runtime).curate(
                self.workspace, self.work, candidates, earlier, merged, StagedWork()
            )

        found = self._with(work)
        if land:
            with transaction(self.database):
                remember_waiting(self.database, [found])
        return found

    def curate_all(self) -> tuple[Curation, ...]:
        """Curate what the lanes gave, as a run does."""

        async def work(runtime: LlmRuntime) -> tuple[Curation, ...]:
            return await self.documents.curate(self.curator(runtime), self.workspace, ())

        found: tuple[Curation, ...] = self._with(work)
        with transaction(self.database):
            remember_waiting(self.database, found)
        return found

    def curator(self, runtime: LlmRuntime) -> Curator:
        layers = Layers({}, CalendarSettings())
        layout = Layout(self.root)
        recorder = Recorder(layout, "run", self.events.append)
        plan = RunPlan(Command("ingest"), layout, subject_config("anthropic", self.url), {}, recorder)
        context = AgentContext(
            plan,
            self.base,
            gates=Gates(self.base, layers),
            prompts={"version": Prompt("version", "", self.version)},
            skills={},
            library=self.documents.library,
            values=ValueSamples(self.database),
            find=in_memory(layers),
        )
        store = TaskStore(self.database, Layout(self.root).state)
        runner = AgentRunner(runtime, self.cancellation, store, self.events.append)
        return Curator(context, runner, load_document_prompts().curate, lambda: None)

    def _with(self, work: Callable[[LlmRuntime], Any]) -> Any:
        async def run() -> Any:
            runtime = create_runtime(subject_config("anthropic", self.url), self.root, {}, usage_sink=lambda fact: None)
            async with runtime:
                return await work(runtime)

        return asyncio.run(run())

    def pages(self) -> dict[str, str]:
        """The pages of the overlay by key."""
        paths = self.workspace.paths("wiki/global/")
        return {path[len("wiki/global/") : -3]: self.workspace.read_text(path) or "" for path in paths}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with open_for_writing(Layout(tmp_path)) as opened:
        opened.executescript(TABLES)
        yield opened


@pytest.fixture
def world(tmp_path: Path, database: sqlite3.Connection, model_server: ModelServer) -> Callable[..., World]:
    """Return a maker of runs of one project."""

    def make(files: Mapping[str, str], **fields: Any) -> World:
        return World(tmp_path, database, files, model_server.url, **fields)

    return make


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

    def get_many(self, kind: str, keys: Iterable[str]) -> dict[str, Any]:
        return {key: self.values[kind, key] for key in keys if (kind, key) in self.values}

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
) -> PageCandidate:
    evidence = (Evidence(f"docs:{path}:text:0123456789abcdef", path, "A", "", None, "0" * 64),)
    given = {"evidence": evidence, "scores": Scores(durability=score), **fields}
    return PageCandidate(key or topic, "docs", topic, assertion, "", **given)


@pytest.fixture
def candidate() -> Callable[..., PageCandidate]:
    return make_candidate
