"""One run of `ktx ingest` or `ktx scan` while it lasts: what was asked, and what is known so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.connectors.registry import dialect_of
from ktx_cli.context.scan.failures import StageFailure
from ktx_cli.context.scan.outcome import ScanOutcome
from ktx_cli.context.tools.models import Layers
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.jobs.ingest.depth import Depth
from ktx_cli.jobs.ingest.prompts import Prompts
from ktx_cli.jobs.ingest.report import IngestReport
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.spending import Spending
from ktx_cli.jobs.ingest.targets import Target
from ktx_cli.jobs.runs.recording import Recorder
from ktx_cli.jobs.semantic.layers import calendar_of
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.tree import EmptyTree
from ktx_cli.project.workspace import Workspace

if TYPE_CHECKING:
    from ktx_cli.jobs.ingest.documents.curating import Curated


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to do: which connections (none: all), how, and for how long to wait for another run (seconds).

    `depth` None: as deep as the configuration allows. `max_usd` (at list prices), `max_tokens`: what models may take.
    `run_id`: where somebody waits for this very run; its model is then checked before anything is read.
    """

    project_dir: Path
    environ: Mapping[str, str]
    connections: Sequence[str] = ()
    command: str = "ktx ingest"
    databases_only: bool = False
    depth: Depth | None = None
    no_llm: bool = False
    dry_run: bool = False
    wait_seconds: float = 0.0
    max_usd: float | None = None
    max_tokens: int | None = None
    emit: Emit = ignore_events
    run_id: str | None = None


@dataclass(slots=True)
class Run:
    """The state of one run while it lasts. `prompts` None: no model is to be asked. `workspace`: what it changes."""

    request: IngestRequest
    layout: Layout
    config: KtxConfig
    targets: Sequence[Target]
    report: IngestReport
    depth: Depth
    warnings: list[ResultWarning]
    prompts: Prompts | None = None
    outcomes: list[ScanOutcome] = field(default_factory=list)
    spending: Spending = field(default_factory=Spending)
    workspace: Workspace = field(default_factory=lambda: Workspace(EmptyTree()))
    curated: tuple[Curated, ...] = ()
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        """Keep what happens from now on; what the models take is a part of the report."""
        self.recorder = Recorder(self.layout, self.report.run_id, self.request.emit)
        self.request = replace(self.request, emit=self.recorder.emit)
        self.report.spending = self.spending

    def warn(self, warning: ResultWarning) -> None:
        """Add a warning that is not there yet."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def note_failures(self, connection: str, failures: Iterable[StageFailure]) -> None:
        """Report stages of a connection that failed after it was scanned."""
        for failure in failures:
            self.warn(failure.warning(connection))
            for report in self.report.connections:
                if report.connection == connection:
                    report.failures = (*report.failures, failure)

    @property
    def works(self) -> list[SourceWork]:
        """The context sources of the run."""
        return self.report.sources

    @property
    def layers(self) -> Layers:
        """The semantic layers of all databases, as a tree has them."""
        dialects = {each: dialect_of(entry.driver) or "" for each, entry in self.config.databases().items()}
        return Layers(dialects, calendar_of(self.config), self.config.connections.keys())

    @property
    def asks_model(self) -> bool:
        """Whether agents work in this run: a backend is configured, and the caller did not say no."""
        return not self.request.no_llm and self.config.llm.provider.backend != "none"
