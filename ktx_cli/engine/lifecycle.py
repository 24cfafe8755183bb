"""The lifecycle of a run that writes: its lock, the committed tree it starts from, at most one commit, its report."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktx_cli.core import (
    KtxError,
    Notice,
    ResultWarning,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    monotonic,
    plural,
)
from ktx_cli.engine.plan import PreflightFailed, RunPlan
from ktx_cli.engine.report import IngestReport
from ktx_cli.project import (
    CURRENT_BRANCH,
    EDITED_AFTER_KILL,
    RAW_NAME,
    Destination,
    HeldReason,
    Repository,
    StateDatabase,
    WorkingTree,
    Workspace,
    hold_run_lock,
    prepare_private_folder,
    transaction,
    translated,
)
from ktx_cli.runs import finish_run, save_report, start_run
from ktx_cli.scan import Failures, ScanOutcome, Stage, StageFailure, folders, record_scan
from ktx_cli.semantic import has_store, store_layer

if TYPE_CHECKING:
    from ktx_cli.engine.documents.curation import Curation
    from ktx_cli.engine.models import Preflight
    from ktx_cli.engine.work import SourceWork
    from ktx_cli.project import CommitResult, Held, Layout, RunLock, TreeView
    from ktx_cli.sources import DocumentQuestions, SourceKey


class ProjectBase:
    """A commit's files and, for ktx folders ignored by git, the working files in them.

    Ignored files have no history, so edits to them exist only on disk. Other uncommitted files are the user's and not
    part of the base.
    """

    def __init__(self, layout: Layout, repository: Repository | None, commit: str | None) -> None:
        self.commit = commit
        self._layout = layout
        self._repository = repository
        self._tree: TreeView | None = None if repository is None else repository.tree(commit)
        self._ignored: dict[str, bytes] = {}

    @classmethod
    def of_head(cls, layout: Layout, repository: Repository | None) -> ProjectBase:
        """Return the base for the current checkout; an empty one without a repository."""
        return cls(layout, repository, None if repository is None else repository.head().commit)

    def read(self, path: str) -> bytes | None:
        """Return a file's content, or None if the file does not exist."""
        content = None if self._tree is None else self._tree.read(path)
        return self._ignored.get(path) if content is None else content

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content for the files that exist."""
        contents = ((path, self.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str) -> dict[str, str]:
        """Return path -> an id of the content, for everything below a folder."""
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
        tree = WorkingTree(self._layout.root)
        ignored = self._repository.ignored([path for path in tree.blobs(prefix) if path not in committed])
        return tree.read_many(sorted(ignored))


@dataclass(frozen=True, slots=True)
class LockedRun:
    """A run that holds the lock, and its resources."""

    plan: RunPlan
    repository: Repository
    lock: RunLock
    database: StateDatabase
    """The state database."""
    base: ProjectBase
    """The commit that the run started from."""

    is_elsewhere: bool = False
    """Whether the commit goes to a branch that is not checked out."""

    def commit(self, changes: ChangeSet, message: str) -> CommitResult | None:
        """Make the run's only commit; returns None if nothing changes."""
        files = changes.workspace.changes()
        if not files:
            return None
        self.plan.emit(StepStarted("commit"))
        started = monotonic()
        result = self.repository.commit(
            files,
            message=message,
            base=self.base.commit,
            author=self.plan.config.storage.git.author,
            before_publish=self.lock.check,
            adjust=lambda held: changes.without(held),
            spared=[path for scan in changes.scans for path in scan.plan.removed_texts.shards],
            destination=self.plan.destination,
            amends=None if self.plan.begun is None else self.plan.begun.commit,
        )
        held = frozenset(held.path for held in result.held)
        self.plan.recorder.warn_of(warning for o in changes.scans for warning in o.removals(held, result.replaced))
        if result.ignored:
            written = "skipped" if self.is_elsewhere else "written but not committed"
            self.plan.warn(
                ResultWarning(
                    "ignored_paths",
                    f"{plural(len(result.ignored), 'file')} {written}, because git ignores them",
                    hint="remove the folder from .gitignore to keep its history",
                    paths=list(result.ignored),
                )
            )
        done = plural(len(result.committed or result.uncommitted), "file")
        done = done if result.commit or result.uncommitted else "nothing to commit"
        self.plan.emit(StepFinished("commit", done, monotonic() - started))
        return result

    def remember(self, changes: ChangeSet, commit: str | None, held: Collection[str]) -> list[tuple[str, StageFailure]]:
        """Store the layers and the state that the next run compares with; return the connections for which that failed.

        `commit`: the one that was made, if any. A source with files that were held or are in no commit is read again as
        a whole, because the next run must find its changes wherever it starts.
        """
        now = self.base if commit is None else ProjectBase(self.plan.layout, self.repository, commit)
        failed: list[tuple[str, StageFailure]] = []
        for scan in changes.scans:
            failures = Failures()
            with failures.stage(Stage.REMEMBER):
                self._remember_scan(scan, now, held)
            failed += [(scan.connection, failure) for failure in failures.found()]
        if changes.works:
            from ktx_cli.engine.provenance import keep_texts
            from ktx_cli.engine.source_phase import save_fetches
            from ktx_cli.engine.work import forget_units, remember_questions
            from ktx_cli.sources import RawStore

            landed = [work for work in changes.works if not work.touched_paths().intersection(held)]
            with translated(self.plan.layout.state):
                save_fetches(self.database, landed, changes.workspace)
                remember_questions(self.database, landed, changes.questions)
                if changes.curations:
                    from ktx_cli.engine.documents.lanes import remember_waiting

                    with transaction(self.database):
                        remember_waiting(self.database, changes.curations)
            forget_units(self.database, self.plan.layout.state, changes.works, held)
            keep_texts(RawStore(self.plan.layout.raw_store), landed, self.plan.layout.root)
        return failed

    def _remember_scan(self, scan: ScanOutcome, now: ProjectBase, held: Collection[str]) -> None:
        files, layout = None, self.plan.layout
        if not set(held).intersection(scan.files):
            files = {path: blob for folder in folders(scan.connection) for path, blob in now.blobs(folder).items()}
        with translated(layout.state):
            record_scan(self.database, self.plan.run_id, scan, files)
        if scan.plan.shards and (scan.files or not has_store(layout, scan.connection)):
            store_layer(layout, self.plan.config, scan.connection)


_RAW_ATTRIBUTES: Final = f"{RAW_NAME}/.gitattributes"
_MARK_RAW: Final = b"""\
# Written by ktx: records of scans and sources, which reviews need not show. Your changes to this file stay.
* linguist-generated=true gitlab-generated=true
"""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """What a run would commit: its overlay, and the scans and sources that wrote to it."""

    workspace: Workspace
    scans: Sequence[ScanOutcome] = ()
    works: Sequence[SourceWork] = ()
    curations: tuple[Curation, ...] = ()
    """What became of the candidates of documents."""
    questions: Mapping[SourceKey, Sequence[DocumentQuestions]] = field(default_factory=dict)
    """The questions that document passages answer, as written by this run."""

    @classmethod
    def of_scans(cls, base: ProjectBase, scans: Sequence[ScanOutcome], *, mark_raw: bool = False) -> ChangeSet:
        """Return the changes that scans make to a base. With `mark_raw`, reviews collapse the project's raw files."""
        workspace = Workspace(base)
        for scan in scans:
            workspace.apply(scan.files)
        if mark_raw and workspace.changes() and workspace.read(_RAW_ATTRIBUTES) is None:
            workspace.write(_RAW_ATTRIBUTES, _MARK_RAW)
        return cls(workspace, scans)

    def without(self, held: frozenset[str]) -> dict[str, bytes | None]:
        """Return the changes that may be made if the held paths keep their content.

        Changes from a source stay, unless scans must not write the file either; deliveries do not list held files.
        """
        changes = self.workspace.changes()
        allowed = {path: content for scan in self.scans for path, content in scan.without(held).items()}
        asked = {path: content for scan in self.scans for path, content in scan.files.items()}
        own = {path for path, content in allowed.items() if asked[path] == content}
        kept = {path: changes[path] for path in changes if path not in held and (path in own or path not in asked)}
        deliveries: dict[str, bytes] = {}
        if self.works:
            from ktx_cli.engine.source_phase import deliveries_without

            deliveries = {path: text for path, text in deliveries_without(self.works, held).items() if path in changes}
        return {path: allowed[path] for path in changes if path in allowed} | kept | deliveries

    def absent(self, run_base: ProjectBase, repository: Repository) -> dict[str, str]:
        """Return the committed files that no change affects and that cannot be read on disk -> why.

        Files outside a sparse checkout do not count.
        """
        absent: list[Held] = []
        for scan in self.scans:
            known = (path for folder in folders(scan.connection) for path in run_base.paths(f"{folder}/"))
            absent += repository.absent(path for path in known if path not in scan.files)
        if absent and repository.head().commit != run_base.commit:  # the user switched to another branch meanwhile
            return {}
        return {held.path: held.reason.value for held in absent if held.reason is not HeldReason.SKIP_WORKTREE}


def writable_repository(layout: Layout, destination: Destination = CURRENT_BRANCH) -> Repository | None:
    """Return the repository of a project, None if there is none; raises `KtxError` if ktx cannot commit to it."""
    repository = Repository.discover(layout.root)
    if repository is not None:
        repository.start(destination)
    return repository


@contextlib.contextmanager
def closing(plan: RunPlan, report: IngestReport) -> Iterator[None]:
    """Announce the end of a run with its status, and always close its record."""
    started = monotonic()
    try:
        yield
    finally:
        report.seconds = monotonic() - started
        plan.emit(RunFinished(plan.run_id, report.status, report.seconds))
        plan.recorder.close()


def under_lock(
    plan: RunPlan,
    report: IngestReport,
    repository: Repository | None,
    preflight: Preflight | None,
    work: Callable[[LockedRun], None],
) -> None:
    """Do a run's work under the lock, after cleaning up after a killed run; always writes the report.

    `repository` None: one is created; `preflight` None: the run uses no model. Raises `GitError` if git tracks files of
    `.ktx`, `BusyError` if another run holds the lock, and what `work` raises.
    """
    layout = plan.layout
    prepare_private_folder(layout)
    if repository is not None:
        repository.require_hidden()
    with hold_run_lock(
        layout, run_id=plan.run_id, command=plan.command, wait_seconds=plan.wait_seconds, emit=plan.emit, warn=plan.warn
    ) as (lock, database):
        plan.emit(RunStarted(plan.run_id, plan.command))
        with translated(layout.state):
            start_run(database, plan.run_id, plan.command)
        try:
            work(_begin(plan, report, repository, lock, database))
        except BaseException as error:
            report.end(error.error if isinstance(error, PreflightFailed) else error)
            with contextlib.suppress(sqlite3.Error, KtxError):  # the error itself matters more
                _finish(plan, report, preflight, database)
            write_report(plan, report)
            raise
        _finish(plan, report, preflight, database)
        write_report(plan, report)


def _begin(
    plan: RunPlan, report: IngestReport, repository: Repository | None, lock: RunLock, database: StateDatabase
) -> LockedRun:
    if repository is None:
        repository = Repository.create(plan.layout.root)
        report.created_repository = True
        plan.emit(Notice(f"created a git repository in {plan.layout.root}"))
    recovery = repository.recover()
    report.recovered = recovery.finished
    report.held = tuple((path, EDITED_AFTER_KILL) for path in recovery.left)
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        plan.emit(Notice(f"finished an interrupted run: {count} updated to the last commit"))
    start = repository.start(plan.destination)
    report.branch = start.ref
    is_elsewhere = plan.destination.branch is not None and start.ref != repository.head().ref
    base = ProjectBase(plan.layout, repository, start.commit)
    return LockedRun(plan, repository, lock, database, base, is_elsewhere)


def _finish(plan: RunPlan, report: IngestReport, preflight: Preflight | None, database: StateDatabase) -> None:
    if preflight is not None:
        preflight.store(report)
    with translated(plan.layout.state):
        finish_run(database, plan.run_id, report.status, report.commit)


def write_report(plan: RunPlan, report: IngestReport) -> None:
    """Write the report of a run; a failure is a warning, because the run itself is already over."""
    try:
        save_report(plan.layout, plan.run_id, report.to_json())
    except KtxError as error:  # also of a `ktx.yaml` that was edited meanwhile, which says where the state is
        message = f"could not write the run report: {error.message}"
        plan.warn(ResultWarning("report_not_written", message, hint=error.hint))
