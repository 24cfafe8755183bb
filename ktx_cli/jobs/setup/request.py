"""What setup is asked to do, and what it did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.jobs.agents.report import Report as AgentsReport
from ktx_cli.jobs.connections import SourceCheck
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.models.embedding_probe import EmbeddingReport
from ktx_cli.jobs.models.probing import ProbeRun
from ktx_cli.jobs.setup.answers import Answers
from ktx_cli.jobs.setup.suggesting import first_database


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """What to set up, and where. `test` false: saved without connecting, and without asking a model."""

    project_dir: Path
    environ: Mapping[str, str]
    answers: Answers = field(default_factory=Answers)
    test: bool = True
    emit: Emit = ignore_events


@dataclass(slots=True)
class SetupReport:
    """What setup did; `commit` None: `ktx.yaml` was not committed.

    `tests`: of each connection that was set up what its test found, None where none was made. `error`: why the first
    build, or the installation into agent clients, did not come to its end; what was set up before is saved.
    """

    project_dir: Path
    created_project: bool
    created_repository: bool = False
    tests: dict[str, ConnectionTest | SourceCheck | None] = field(default_factory=dict)
    probes: ProbeRun = field(default_factory=ProbeRun)
    embeddings: EmbeddingReport | None = None
    changed: bool = False
    commit: str | None = None
    build: IngestReport | None = None
    agents: AgentsReport | None = None
    error: KtxError | None = None
    warnings: list[ResultWarning] = field(default_factory=list)
    has_connections: bool = False
    question: str | None = None

    @property
    def next_steps(self) -> list[str]:
        """What is worth typing now: the next step, and after a build a question."""
        if not self.has_connections:
            return [first_database(self.project_dir) or "ktx setup --help"]
        if self.build is None:
            return ["ktx ingest"]
        return [self.question] if self.question else ["ktx status"]

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        first = next(iter(self.tests), None)
        found = self.tests.get(first or "")
        return {
            "project_dir": str(self.project_dir),
            "created_project": self.created_project,
            "created_repository": self.created_repository,
            "connection": first,
            "server_version": getattr(found, "server_version", None),
            "tables": getattr(found, "tables", None),
            "connections": [_tested(connection, test) for connection, test in self.tests.items()],
            "probes": [result.to_json() for result in self.probes.results],
            "embeddings": None if self.embeddings is None else self.embeddings.to_json(),
            "changed": self.changed,
            "commit": self.commit,
            "next": self.next_steps[0],
            "build": None if self.build is None else self.build.to_json(),
            "agents": None if self.agents is None else self.agents.to_json(),
        }


def _tested(connection: str, test: ConnectionTest | SourceCheck | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": connection, "tested": test is not None}
    if isinstance(test, SourceCheck):
        return {**shown, "origin": test.origin}
    if test is not None:
        shown |= {"server_version": test.server_version, "tables": test.tables, "can_write": test.can_write}
    return shown
