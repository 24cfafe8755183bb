"""A person's word on joins that scans found: lease, the files that change, one commit or none."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.context.scan.catalog import ParsedCopies, write_parsed_copies
from ktx_cli.context.scan.decisions import Decision, Draft
from ktx_cli.context.scan.losses import Losses
from ktx_cli.context.scan.overlays import Overlays, empty_overlay
from ktx_cli.context.scan.review import Review, read_review
from ktx_cli.core import yaml
from ktx_cli.core.clock import monotonic, new_run_id
from ktx_cli.core.errors import KtxError, NotReadyError, ResultWarning, UsageError
from ktx_cli.core.events import Emit, Notice, RunFinished, RunStarted, StepFinished, StepStarted, ignore_events
from ktx_cli.core.text import plural, shell_words
from ktx_cli.jobs.decided import Choice, Decided, DecisionReport
from ktx_cli.jobs.ingest import ledger
from ktx_cli.jobs.ingest.base import ProjectBase
from ktx_cli.jobs.ingest.targets import choose_targets
from ktx_cli.jobs.relationships import COMMAND, Typed, WorkingFiles, find_edge, require_some
from ktx_cli.project.config import KtxConfig, load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.leases import Lease, hold_lease
from ktx_cli.project.repository import EDITED_AFTER_KILL, EDITED_MEANWHILE, CommitResult, HeldReason, Repository
from ktx_cli.project.state import translated


@dataclass(frozen=True, slots=True)
class DecideRequest:
    """What to decide, among which connections (none: all), and how long to wait for another run (seconds)."""

    project_dir: Path
    choices: Sequence[Choice]
    connections: Sequence[str] = ()
    wait_seconds: float = 0.0
    emit: Emit = ignore_events


def decide(request: DecideRequest) -> tuple[DecisionReport, list[ResultWarning]]:
    """Accept and reject edges, in one commit; a decision that meets a file with edits is left out whole.

    Raises `UsageError` for an edge that is unknown, ambiguous or both accepted and rejected, `NotReadyError` before
    the first scan, `ConfigError` for a file that cannot be edited, `BusyError`: nothing is changed then.
    """
    layout = Layout(request.project_dir)
    loaded = load_config(layout.config)
    targets = choose_targets(layout, loaded.config, request.connections, databases_only=True)
    repository = Repository.discover(layout.root)
    if repository is None:
        raise NotReadyError("no scan is committed yet", hint="ktx scan")
    repository.check_writable()
    run = _Run(request, layout, loaded.config, repository, [t.connection for t in targets], loaded.notices())
    with hold_lease(
        layout,
        run_id=run.report.run_id,
        command=COMMAND,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=run.warnings.append,
    ) as (lease, database):
        started = monotonic()
        request.emit(RunStarted(run.report.run_id, COMMAND))
        try:
            run.recorded(lease, database)
        finally:
            request.emit(RunFinished(run.report.run_id, run.report.status, monotonic() - started))
    return run.report, run.warnings


class _Run:
    """One run of decisions while it lasts."""

    def __init__(
        self,
        request: DecideRequest,
        layout: Layout,
        config: KtxConfig,
        repository: Repository,
        connections: Sequence[str],
        warnings: list[ResultWarning],
    ) -> None:
        self.request = request
        self.layout = layout
        self.config = config
        self.repository = repository
        self.connections = connections
        self.warnings = warnings
        self.report = DecisionReport(new_run_id(), layout.root)
        self._losses: dict[str, Losses] = {}

    def recorded(self, lease: Lease, database: sqlite3.Connection) -> None:
        """Do the work, and record in the state database how it ended."""
        with translated(self.layout.state):
            ledger.start_run(database, self.report.run_id, COMMAND)
        try:
            self._work(lease)
        except BaseException as error:
            self.report.ended = "failed" if isinstance(error, Exception) else "interrupted"
            if isinstance(error, KtxError):  # the branch may have moved before the error
                self.report.commit = error.details.get("commit", self.report.commit)
            with contextlib.suppress(sqlite3.Error):  # the error itself matters more
                ledger.finish_run(database, self.report.run_id, self.report.status, self.report.commit)
            raise
        with translated(self.layout.state):
            ledger.finish_run(database, self.report.run_id, self.report.status, self.report.commit)

    def _work(self, lease: Lease) -> None:
        self._recover()
        tip = self.repository.head().commit
        base = ProjectBase(self.layout, self.repository, tip)
        reviews = {review.connection: review for review in self._reviews(base)}
        self.report.decided = _resolved(self.request.choices, reviews)
        self.warnings += [said for each in self.report.decided if (said := each.warning) is not None]
        self._hold_strays(reviews)
        drafts = self._drafted(reviews)
        if not drafts:
            return
        self.request.emit(StepStarted("commit"))
        started = monotonic()
        while drafts:
            result = self._committed(drafts, base, tip, lease)
            if not result.held:
                self._report(result, drafts)
                break
            self._hold(result)
            drafts = self._drafted(reviews)
        self.request.emit(StepFinished("commit", self.report.committed_line, monotonic() - started))

    def _recover(self) -> None:
        recovery = self.repository.recover()
        self.report.recovered = recovery.finished
        self.report.held = tuple((path, EDITED_AFTER_KILL) for path in recovery.left)
        if recovery.finished:
            count = plural(len(recovery.finished), "file")
            self.request.emit(Notice(f"finished what a killed run left: {count} brought to the last commit"))

    def _reviews(self, base: ProjectBase) -> list[Review]:
        copies = {each: ParsedCopies(self.layout, each) for each in self.connections}
        found = [read_review(base, each, copies[each]) for each in self.connections]
        return require_some(self.layout, found, self.connections, self.request.connections)

    def _hold_strays(self, reviews: Mapping[str, Review]) -> None:
        """Leave out rejections whose overlay is there and not in git yet, under whatever file name."""
        files = WorkingFiles(self.layout.root)
        local = {each: Overlays.read(files, each) for each in reviews}
        for each in self.report.decided:
            known = reviews[each.edge.connection].overlays.files
            sources = [join.source for join in each.edge.joins if join.source not in known]
            strays = [file for source in sources for file in local[each.edge.connection].files.get(source, ())]
            if strays and each.decision is Decision.REJECT and each.warning is None:
                each.result = "held"
                named = ((file.path, HeldReason.UNTRACKED.value) for file in strays)
                self.report.held = tuple(dict.fromkeys((*self.report.held, *named)))

    def _drafted(self, reviews: Mapping[str, Review]) -> list[Draft]:
        """Return the drafts of the connections with all decisions but those that are held."""
        drafts: dict[str, Draft] = {}
        for each in self.report.decided:
            if each.result == "held":
                continue
            connection = each.edge.connection
            draft = drafts.setdefault(connection, Draft(reviews[connection]))
            each.paths = draft.decide(each.edge, each.decision)
            each.result = "done" if each.paths else "unchanged"
        return [draft for draft in drafts.values() if draft.changes()]

    def _committed(self, drafts: Sequence[Draft], base: ProjectBase, tip: str | None, lease: Lease) -> CommitResult:
        """Commit all changes, or none where one of their paths is held."""
        changes = self._without_ignored_removals(drafts, base)
        self._losses = {draft.connection: draft.losses(base.read_many(changes)) for draft in drafts}
        return self.repository.commit(
            changes,
            message=self._message(),
            base=tip,
            author=self.config.storage.git.author,
            before_publish=lease.check,
            adjust=lambda held: {},
            spared=[path for losses in self._losses.values() for path in losses.shards],
        )

    def _without_ignored_removals(self, drafts: Sequence[Draft], base: ProjectBase) -> dict[str, bytes | None]:
        """Return all changes; an overlay that git ignores has no history and is not removed, so it stays, empty."""
        changes = {path: content for draft in drafts for path, content in draft.changes().items()}
        for path in self.repository.ignored([path for path, content in changes.items() if content is None]):
            changes[path] = empty_overlay(yaml.load(base.read(path) or b"", where=path)["name"])
        return changes

    def _message(self) -> str:
        done = [each for each in self.report.decided if each.result == "done"]
        counts = Counter(each.decision for each in done)
        said = ", ".join(f"{decision.value} {counts[decision]}" for decision in Decision if counts[decision])
        lines = [f"{each.edge.connection}: {each.decision.value} {each.edge.name}" for each in done]
        return "\n".join([f"{COMMAND}: {said}", "", *lines, "", f"Ktx-Run: {self.report.run_id}", ""])

    def _hold(self, result: CommitResult) -> None:
        """Leave out the decisions that need a held path."""
        held = {each.path: each.reason.value for each in result.held}
        self.report.held = tuple(dict.fromkeys((*self.report.held, *held.items())))
        for each in self.report.decided:
            if each.paths & held.keys():
                each.result = "held"

    def _report(self, result: CommitResult, drafts: Sequence[Draft]) -> None:
        report = self.report
        report.commit, report.committed, report.ignored = result.commit, result.committed, result.ignored
        report.held = (*report.held, *((path, EDITED_MEANWHILE) for path in result.left))
        for draft in drafts:
            self.warnings += self._losses[draft.connection].warnings(draft.connection, draft.changes(), result.replaced)
            write_parsed_copies(self.layout, draft.connection, draft.shards())
        if result.ignored:
            self.warnings.append(
                ResultWarning(
                    "ignored_paths",
                    f"{plural(len(result.ignored), 'file')} written but not committed, because git ignores them",
                    hint="take the folder out of .gitignore to keep its history",
                    paths=list(result.ignored),
                )
            )


def _resolved(choices: Sequence[Choice], reviews: Mapping[str, Review]) -> list[Decided]:
    """Return each edge once with its decision; `UsageError` where one is to be accepted and rejected."""
    found: dict[tuple[str, str], Decided] = {}
    for choice in choices:
        among = [each for each in reviews.values() if choice.connection in (None, each.connection)]
        edge = find_edge(choice.edge, [e for review in among for e in review.edges], _typed(choice))
        other = found.setdefault((edge.connection, edge.name), Decided(edge, choice.decision))
        if other.decision is not choice.decision:
            raise UsageError(f"`{edge.name}` is both accepted and rejected", hint="name it once")
    return list(found.values())


def _typed(choice: Choice) -> Typed:
    flag = f"--{choice.decision.value}"
    return lambda edge: shell_words(*COMMAND.split(), edge.connection, flag, edge.name)
