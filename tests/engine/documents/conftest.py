"""A run of one source of documents: snapshot, units, overlay, state database, the real client on a scripted server."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.agent_tools.layers import Layers, in_memory
from ktx_cli.agent_tools.session import StagedWork
from ktx_cli.core.diagnostics import Command
from ktx_cli.core.events import Event
from ktx_cli.documents.raw import Changes, RawFile, Snapshot, WorkUnit
from ktx_cli.engine.documents.candidates import TABLES, Candidate
from ktx_cli.engine.documents.curation import Curation, Curator
from ktx_cli.engine.documents.lanes import DocumentLanes, Documents, remember_waiting
from ktx_cli.engine.documents.triage import QuestionRunner, load_document_prompts
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.plan import RunPlan
from ktx_cli.engine.task import AgentContext, AgentRunner, Cancellation, ValueSamples
from ktx_cli.engine.work import SourceWork, TaskStore, UnitOutcome
from ktx_cli.llm.port import LlmRuntime
from ktx_cli.llm.routing import create_runtime
from ktx_cli.project.layout import EmptyTree, Layout
from ktx_cli.project.state import StateEnrichmentStore, open_for_writing, transaction
from ktx_cli.project.workspace import Workspace
from ktx_cli.prompts import Prompt
from ktx_cli.runs import Recorder
from ktx_cli.semantic.model import CalendarSettings
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config


def raw_file(path: str, text: str) -> RawFile:
    data = text.encode()
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
        self, candidates: Sequence[Candidate] = (), merged: Sequence[UnitOutcome] = (), *, land: bool = True
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
