"""What a run compares with: the committed tree, and on disk the files of ours that git ignores."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Command, Emit, ResultWarning, ignore_events, isoformat, now
from ktx_cli.engine.plan import Depth, Prompts, RunPlan, Spending, Target
from ktx_cli.engine.report import Forecast, IngestReport
from ktx_cli.engine.work import SourceWork
from ktx_cli.project import (
    EmptyTree,
    KtxConfig,
    Layout,
    Repository,
    TreeView,
    Workspace,
    current_holder,
    read_bytes,
    transaction,
)
from ktx_cli.runs import Recorder, unit_average
from ktx_cli.scan import ScanOutcome, StageFailure

if TYPE_CHECKING:
    from ktx_cli.agent_tools import Layers
    from ktx_cli.engine.documents.curation import Curation
    from ktx_cli.scan import PreviousScan


class ProjectBase:
    """A commit's files, and where git ignores one of our folders the working files in it.

    Ignored files have no history, so what people wrote into them is on disk alone. Files that are neither committed
    nor ignored are the user's business and not part of the base.
    """

    def __init__(self, layout: Layout, repository: Repository | None, commit: str | None) -> None:
        self.commit = commit
        self._layout = layout
        self._repository = repository
        self._tree: TreeView | None = None if repository is None else repository.tree(commit)
        self._ignored: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None where there is no such file."""
        content = None if self._tree is None else self._tree.read(path)
        return self._ignored.get(path) if content is None else content

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content of those that exist."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str) -> dict[str, str]:
        """Return path -> an id of the content, of everything below a folder."""
        committed = {} if self._tree is None else self._tree.blobs(prefix)
        self._ignored.update(self._read_ignored(prefix, committed))
        ignored = {
            path: f"sha256:{hashlib.sha256(content).hexdigest()}"
            for path, content in self._ignored.items()
            if path.startswith(f"{prefix}/") and path not in committed
        }
        return {**committed, **ignored}

    def paths(self, prefix: str) -> list[str]:
        """Return the paths that begin with `prefix`, sorted."""
        committed = () if self._tree is None else self._tree.entries
        return sorted(path for path in {*committed, *self._ignored} if path.startswith(prefix))

    def _read_ignored(self, prefix: str, committed: Mapping[str, str]) -> dict[str, bytes]:
        if self._repository is None:
            return {}
        root = self._layout.root
        found = [path.relative_to(root).as_posix() for path in (root / prefix).rglob("*") if path.is_file()]
        ignored = self._repository.ignored([path for path in found if path not in committed])
        contents = ((path, read_bytes(root / path)) for path in sorted(ignored))
        return {path: content for path, content in contents if content is not None}


@dataclass(frozen=True, slots=True)
class LastScan:
    """The facts `ktx status` shows of a connection's last scan."""

    connection: str
    run_id: str
    finished: str
    tables: int
    columns: int


@dataclass(frozen=True, slots=True)
class LastFetch:
    """The facts `ktx status` shows of a source's last fetch; `kind` as in `raw-sources/`."""

    connection: str
    kind: str
    finished: str
    files: int

    def to_json(self) -> dict[str, str | int]:
        """Return what stands beside the connection's id."""
        return {"kind": self.kind, "finished": self.finished, "files": self.files}


def start_run(database: sqlite3.Connection, run_id: str, command: str) -> None:
    """Record that a run has begun; one of the same id, which was interrupted, is begun again."""
    database.execute(
        "INSERT OR REPLACE INTO runs (run_id, command, status, started) VALUES (?, ?, 'running', ?)",
        (run_id, command, isoformat(now())),
    )


def finish_run(database: sqlite3.Connection, run_id: str, status: str, commit: str | None) -> None:
    """Record how a run ended."""
    database.execute(
        "UPDATE runs SET status = ?, finished = ?, commit_id = ? WHERE run_id = ?",
        (status, isoformat(now()), commit, run_id),
    )


def previous_scans(database: sqlite3.Connection, connections: Iterable[str]) -> dict[str, PreviousScan]:
    """Return connection -> what its last complete scan left; those that were never scanned are not in it."""
    from ktx_cli.scan import PreviousScan

    wanted = set(connections)
    rows = database.execute("SELECT connection, digest, files FROM scans").fetchall()
    return {row[0]: PreviousScan(row[1], json.loads(row[2])) for row in rows if row[0] in wanted}


def record_scan(database: sqlite3.Connection, run_id: str, outcome: ScanOutcome, files: dict[str, str] | None) -> None:
    """Record a scan; `files` None: not all of it was committed, so the next run looks at everything again."""
    with transaction(database):
        database.execute(
            "INSERT OR REPLACE INTO scans VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                outcome.connection,
                run_id,
                isoformat(now()),
                outcome.digest if files is not None else "",
                json.dumps(files or {}),
                outcome.tables,
                outcome.columns,
                json.dumps(outcome.row_estimates),
            ),
        )


def last_scans(database: sqlite3.Connection) -> dict[str, LastScan]:
    """Return connection -> its last scan."""
    rows = database.execute("SELECT connection, run_id, finished, tables, columns FROM scans ORDER BY connection")
    return {row[0]: LastScan(*row) for row in rows}


def last_fetches(database: sqlite3.Connection) -> dict[str, LastFetch]:
    """Return connection -> the last fetch of its context source, or of its query history, that a run landed with."""
    rows = database.execute(
        "SELECT connection, kind, finished, (SELECT count(*) FROM json_each(files)) FROM fetches ORDER BY connection"
    )
    return {row[0]: LastFetch(*row) for row in rows}


def last_runs(database: sqlite3.Connection, limit: int = 3) -> list[dict[str, str | None]]:
    """Return the newest runs first; one that did not end and holds no lease was `killed`."""
    holder = current_holder(database)
    running = holder.run_id if holder is not None and holder.is_alive(time.time()) else None
    rows = database.execute(
        "SELECT run_id, command, status, started, finished, commit_id FROM runs ORDER BY run_id DESC LIMIT ?", (limit,)
    )
    names = ("run_id", "command", "status", "started", "finished", "commit")
    found = [dict(zip(names, row, strict=True)) for row in rows]
    killed = {"status": "killed"}
    return [each | killed if each["status"] == "running" and each["run_id"] != running else each for each in found]


INGEST: Final = Command("ingest")


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """What to do: which connections (none: all), how, and for how long to wait for another run (seconds).

    `depth` None: as deep as the configuration allows. `max_usd` (at list prices), `max_tokens`: what models may take.
    `run_id`: where somebody waits for this very run; its model is then checked before anything is read.
    """

    project_dir: Path
    environ: Mapping[str, str]
    connections: Sequence[str] = ()
    command: Command = INGEST
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
    """What a run has so far, beside its plan. `workspace`: what it changes."""

    plan: RunPlan
    report: IngestReport
    outcomes: list[ScanOutcome] = field(default_factory=list)
    spending: Spending = field(init=False)
    workspace: Workspace = field(default_factory=lambda: Workspace(EmptyTree()))
    curations: tuple[Curation, ...] = ()

    def __post_init__(self) -> None:
        """What the models take is a part of the report."""
        self.report.spending = self.spending = Spending(self.plan.max_usd, self.plan.max_tokens)

    def note_failures(self, connection: str, failures: Iterable[StageFailure]) -> None:
        """Report stages of a connection that failed after it was scanned."""
        for failure in failures:
            self.plan.warn(failure.warning(connection))
            for report in self.report.connections:
                if report.connection == connection:
                    report.failures = (*report.failures, failure)

    @property
    def works(self) -> list[SourceWork]:
        """The context sources of the run."""
        return self.report.sources

    # Modules that do not take the plan yet read these.

    @property
    def request(self) -> RunPlan:
        """The plan."""
        return self.plan

    @property
    def layout(self) -> Layout:
        """The paths of the project."""
        return self.plan.layout

    @property
    def config(self) -> KtxConfig:
        """The configuration of the project."""
        return self.plan.config

    @property
    def targets(self) -> Sequence[Target]:
        """The connections to work on."""
        return self.plan.targets

    @property
    def depth(self) -> Depth:
        """How deep the scan looks."""
        return self.plan.depth

    @property
    def prompts(self) -> Prompts | None:
        """The prompts of the scan."""
        return self.plan.prompts

    @property
    def recorder(self) -> Recorder:
        """What receives events and warnings."""
        return self.plan.recorder

    @property
    def warnings(self) -> list[ResultWarning]:
        """The warnings so far."""
        return self.plan.recorder.warnings

    @property
    def warn(self) -> Callable[[ResultWarning], None]:
        """Adds a warning."""
        return self.plan.warn

    @property
    def layers(self) -> Layers:
        """The semantic layers of all databases."""
        return self.plan.layers

    @property
    def asks_model(self) -> bool:
        """Whether agents work in this run."""
        return self.plan.asks_model


def forecast(run: Run) -> Forecast | None:
    """Return what agents would have to do in a run whose sources were read; None where no model would be asked."""
    units = sum(len(work.units) for work in run.works if work.error is None)
    if not run.asks_model or not units:
        return None
    return Forecast(units, run.config.ingest.work_units.step_budget, unit_average(run.layout))
