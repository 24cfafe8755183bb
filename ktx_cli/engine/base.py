"""The committed tree a run compares with, and what a run has so far."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ktx_cli.core import Record
from ktx_cli.engine.plan import RunPlan, Spending
from ktx_cli.engine.report import IngestReport
from ktx_cli.project import EmptyTree, Layout, Repository, TreeView, Workspace, read_bytes

if TYPE_CHECKING:
    from ktx_cli.engine.documents.curation import Curation
    from ktx_cli.engine.work import SourceWork
    from ktx_cli.scan import ScanOutcome, StageFailure


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
class LastFetch(Record):
    """The facts `ktx status` shows of a source's last fetch; `kind` as in `raw-sources/`."""

    connection: str
    kind: str
    finished: str
    files: int

    json_keys = ("kind", "finished", "files")


def last_fetches(database: sqlite3.Connection) -> dict[str, LastFetch]:
    """Return connection -> the last fetch of its context source, or of its query history, that a run landed with."""
    rows = database.execute(
        "SELECT connection, kind, finished, (SELECT count(*) FROM json_each(files)) FROM fetches ORDER BY connection"
    )
    return {row[0]: LastFetch(*row) for row in rows}


@dataclass(slots=True)
class Run:
    """What a run has so far, beside its plan, which is frozen. `workspace`: what it changes."""

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
