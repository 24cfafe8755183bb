"""The report of a run: its connections, sources and commit, and the error with which the command ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ktx_cli.core import CancelledError, Hint, KtxError, PartialError, Record, listing, one_line, plural
from ktx_cli.engine.plan import RunPlan, Spending
from ktx_cli.project import EDITED_MEANWHILE, CommitResult, held_hint
from ktx_cli.scan import INFERRED_JOINS, JoinStatus, TableChanges, status_counts

if TYPE_CHECKING:
    from ktx_cli.engine.definitions import BrokenDefinition
    from ktx_cli.engine.forecast import RunEstimate
    from ktx_cli.engine.work import Reconciliation, SourceWork
    from ktx_cli.project import Tree
    from ktx_cli.scan import DescriptionReport, GoneJoin, ProfileCounts, ReviewedRelationship, ScanOutcome, StageFailure
    from ktx_cli.semantic import OpenDecision
    from ktx_cli.wiki import Contradiction


MOST_OF_ONE = 200
"""Maximum number of characters that an error shows for one skipped item."""

DONE, UNCHANGED, FAILED, PLANNED = "done", "unchanged", "failed", "planned"


@dataclass(frozen=True, slots=True)
class FileChanges(Record):
    """Project paths that a run wrote and removed, or would in a dry run. Sorted."""

    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, changes: Mapping[str, bytes | None]) -> FileChanges:
        """Return the paths of changes (path -> content, or None for a removed file)."""
        paths = sorted(changes)
        return cls(
            written=tuple(path for path in paths if changes[path] is not None),
            removed=tuple(path for path in paths if changes[path] is None),
        )


@dataclass(slots=True)
class ConnectionReport(Record):
    """One connection: `status` is done, planned (a dry run's done), unchanged or failed.

    `tables` includes views, `views` counts them. `problems` are single objects that could not be read. `declared`:
    foreign keys between the tables. `relationships`: status -> number of inferred relationships, None if no rows were
    read. `joins`: the relationships that are joins, highest score first; `gone`: those that were joins before.
    `descriptions`: their outcome; None if none were to be written. `profile`: how many tables were profiled; None if no
    rows were read. `failures`: stages of the scan that failed.
    """

    connection: str
    driver: str
    status: str
    tables: int = 0
    views: int = 0
    columns: int = 0
    changes: TableChanges = field(default_factory=TableChanges)
    files: FileChanges = field(default_factory=FileChanges)
    problems: list[dict[str, str | None]] = field(default_factory=list)
    relationships: dict[str, int] | None = None
    declared: int = 0
    joins: tuple[ReviewedRelationship, ...] = ()
    gone: tuple[GoneJoin, ...] = ()
    descriptions: DescriptionReport | None = None
    profile: ProfileCounts | None = None
    failures: tuple[StageFailure, ...] = ()
    seconds: float = 0.0
    error: KtxError | None = None

    @classmethod
    def of(cls, outcome: ScanOutcome, seconds: float, base: Tree, *, dry_run: bool = False) -> ConnectionReport:
        """Return the report of a successful scan. `base`: where joins that sources such as dbt declare are recorded."""
        reviewed = list(outcome.plan.reviewed) if outcome.has_rows else []
        if any(each.is_overruled for each in reviewed):
            from ktx_cli.sources import without_declared

            reviewed = without_declared(reviewed, base)
        to_ask = None if outcome.descriptions is None else outcome.descriptions.to_ask
        asks = to_ask is not None and to_ask.calls > 0
        return cls(
            connection=outcome.connection,
            driver=outcome.driver,
            status=UNCHANGED if outcome.unchanged and not asks else PLANNED if dry_run else DONE,
            tables=outcome.tables,
            views=outcome.views,
            columns=outcome.columns,
            changes=outcome.plan.changes,
            problems=[
                {"object": None if p.ref is None else str(p.ref), "what": p.what, "message": p.message}
                for p in outcome.problems
            ],
            relationships=status_counts(reviewed) if outcome.has_rows else None,
            declared=outcome.declared,
            joins=_joins_in_effect(reviewed),
            gone=outcome.plan.gone,
            descriptions=outcome.descriptions,
            profile=outcome.counts,
            failures=outcome.failures,
            seconds=seconds,
        )

    @property
    def left_out(self) -> list[str]:
        """What was skipped although the connection was scanned."""
        texts = [] if self.descriptions is None else self.descriptions.left_out()
        return [*map(str, self.failures), *texts]

    @property
    def summary(self) -> str:
        """A short summary for a person who will read the details in the report."""
        return FAILED if self.error is not None else plural(self.tables, "table")

    @property
    def result(self) -> str:
        """One line for a person."""
        if self.error is not None:
            return f"failed: {self.error.message}"
        views = f" ({plural(self.views, 'view')} among them)" if self.views else ""
        counts = f"{plural(self.tables, 'table')}{views}, {plural(self.columns, 'column')}"
        parts = [f"{len(names)} {what}" for what, names in self._named() if names]
        changed = ", ".join(parts) if parts else "nothing changed" if self.status == UNCHANGED else "files updated"
        bad = f"; {plural(len(self.problems), 'problem')}" if self.problems else ""
        texts = f"; {self.descriptions.summary}" if self.descriptions is not None else ""
        gone = f"; {plural(len(self.gone), 'join')} removed" if self.gone else ""
        rows = "" if self.profile is None or not self.profile.text else f"; {self.profile.text}"
        return f"{counts}{self._found()}; {changed}{rows}{gone}{texts}{bad}"

    @property
    def to_review(self) -> int:
        """Number of inferred joins that wait for review."""
        return (self.relationships or {}).get(JoinStatus.REVIEW, 0)

    def _found(self) -> str:
        declared = f", {plural(self.declared, 'declared foreign key')}" if self.declared else ""
        if self.relationships is None:
            return declared
        joins = sum(self.relationships.get(status, 0) for status in INFERRED_JOINS)
        none = "no further joins inferred" if self.declared else "no joins inferred"
        inferred = plural(joins, "inferred join") if joins else none
        return f"{declared}, {inferred}" + (f", {self.to_review} to review" if self.to_review else "")

    def _named(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        c = self.changes
        return (("added", c.added), ("changed", c.changed), ("removed", c.removed), ("not read", c.kept))

    json_keys = (
        "connection", "driver", "status", "result", "tables", "views", "columns", "changes", "files", "problems",
        "relationships", "declared_foreign_keys=declared", "joins=_joins", "gone", "profile", "failures",
        "descriptions",
        "seconds=_seconds", "error",
    )  # fmt: skip

    def _joins(self) -> list[dict[str, Any]]:
        return [
            {"edge": e.name, "status": e.status.value, "score": r.probability, "reason": r.reason}
            for e, r in ((each, each.relationship) for each in self.joins)
        ]

    def _seconds(self) -> float:
        return round(self.seconds, 3)


def _joins_in_effect(reviewed: Iterable[ReviewedRelationship]) -> tuple[ReviewedRelationship, ...]:
    stand = [each for each in reviewed if each.status in INFERRED_JOINS]
    return tuple(sorted(stand, key=lambda each: (-each.relationship.probability, each.name)))


def _named(connection: str, error: KtxError) -> str:
    """Return an error with its connection, which most messages already name."""
    name = f"connection `{connection}`"
    return error.message if name in error.message else f"{name}: {error.message}"


@dataclass(slots=True)
class IngestReport(Record):
    """A whole run. `commit` None: nothing was committed. `branch`: the one a commit goes to, None on a detached HEAD.
    `uncommitted`: files that were written for a person to commit. `held`: path and why it was left alone.
    `again`: the command that does the same again. `named_branch`: the branch that was asked for, if one was.

    `reconciled`: what the loop over all units did, None if there was none. `repaired`: what the last gates rejected and
    the model fixed. `stopped`: why agents could not continue. `failure`: what ended the run, if anything did. `broken`:
    definitions that compiled before the run but no longer do. `files`: what a run wrote, in a dry run what it would
    write without the agents; `forecast`: the work of those. `contradictions`: those that agents recorded.
    `open_decisions`: what the data cannot settle, largest effect first. `to_scan`: databases outside the run whose next
    scan uses keys and joins that a source has declared since.
    """

    run_id: str
    command: str
    dry_run: bool = False
    connections: list[ConnectionReport] = field(default_factory=list)
    sources: list[SourceWork] = field(default_factory=list)
    commit: str | None = None
    branch: str | None = None
    committed: tuple[str, ...] = ()
    uncommitted: tuple[str, ...] = ()
    held: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    created_repository: bool = False
    llm: str = "none"
    depth: str = "structural"
    seconds: float = 0.0
    ended: str | None = None
    failure: KtxError | None = None
    reconciled: Reconciliation | None = None
    documents: list[dict[str, Any]] = field(default_factory=list)
    repaired: tuple[str, ...] = ()
    stopped: KtxError | None = None
    spending: Spending = field(default_factory=Spending)
    files: FileChanges = field(default_factory=FileChanges)
    forecast: RunEstimate | None = None
    broken: tuple[BrokenDefinition, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    open_decisions: tuple[OpenDecision, ...] = ()
    to_scan: tuple[str, ...] = ()
    project_dir: Path = Path()
    again: str = ""
    named_branch: str | None = None

    @classmethod
    def of(cls, plan: RunPlan) -> IngestReport:
        """Return the report of a planned run; connections that cannot be used have failed."""
        return cls(
            plan.run_id,
            plan.command,
            again=plan.again,
            named_branch=plan.destination.branch,
            dry_run=plan.dry_run,
            project_dir=plan.layout.root,
            llm="none" if plan.no_llm else plan.config.llm.provider.backend,
            depth=plan.depth.value,
            connections=[
                ConnectionReport(target.connection, target.driver, FAILED, error=error)
                for target, error in plan.broken.items()
            ],
            spending=Spending(plan.max_usd, plan.max_tokens),
        )

    def add_files(self, changes: Mapping[str, bytes | None], scans: Iterable[ScanOutcome] = ()) -> None:
        """Set the changed files, and for each connection the files that its scan wrote."""
        self.files = FileChanges.of(changes)
        own = {scan.connection: scan.files for scan in scans}
        for report in self.connections:
            files = own.get(report.connection, {})
            report.files = FileChanges.of({path: content for path, content in changes.items() if path in files})

    def add_commit(
        self, result: CommitResult, changes: Mapping[str, bytes | None], scans: Iterable[ScanOutcome]
    ) -> None:
        """Set the commit and the skipped items."""
        self.commit, self.committed, self.ignored = result.commit, result.committed, result.ignored
        self.uncommitted = result.uncommitted
        held = [
            *((each.path, each.reason.value) for each in result.held),
            *((p, EDITED_MEANWHILE) for p in result.left),
        ]
        self.held = (*self.held, *held)
        written = {
            path: changes[path] for path in (*result.committed, *result.uncommitted, *result.ignored) if path in changes
        }
        self.add_files(written, scans)

    def add_failure(self, connection: str, failure: StageFailure) -> None:
        """Record that a stage of a connection failed after the connection was scanned."""
        for report in self.connections:
            if report.connection == connection:
                report.failures = (*report.failures, failure)

    def message(self, begin: str | None = None) -> str:
        """Return the commit message: what was read, and the run; `begin`: its first lines."""
        scanned = [c for c in self.connections if c.status != UNCHANGED]
        read = [work for work in self.sources if work.status != UNCHANGED]
        names = dict.fromkeys([*(c.connection for c in scanned), *(work.connection for work in read)])
        lines = [begin or f"{self.command}: {', '.join(names)}", ""]
        lines += [f"{c.connection}: {c.result}" for c in scanned]
        lines += [f"{work.name}: {work.result}" for work in read]
        return "\n".join([*lines, "", f"Ktx-Run: {self.run_id}", ""])

    @property
    def held_paths(self) -> frozenset[str]:
        """The files that were skipped."""
        return frozenset(path for path, _ in self.held)

    @property
    def status(self) -> str:
        """`done`, `planned` (a dry run that found changes), `unchanged`, `partial`, `failed` or `interrupted`."""
        if self.ended is not None:
            return self.ended
        failed = [part for part in self.parts if part.error is not None]
        if failed and len(failed) == len(self.parts):
            return FAILED
        if failed or self.held or self.broken or self.stopped is not None or any(part.left_out for part in self.parts):
            return "partial"
        if self.dry_run and any(part.status != UNCHANGED for part in self.parts):
            return PLANNED
        return DONE if self.commit or self.uncommitted or self.ignored else UNCHANGED

    def end(self, error: BaseException) -> None:
        """Record the error that ended the run early; the branch may already have moved."""
        asked = isinstance(error, CancelledError) or not isinstance(error, Exception)
        self.ended = "interrupted" if asked else FAILED
        if isinstance(error, KtxError):
            self.failure = error
            self.commit = error.details.get("commit", self.commit)
        elif asked:
            self.failure = CancelledError("interrupted")

    @property
    def parts(self) -> list[ConnectionReport | SourceWork]:
        """All databases to read, then all sources."""
        return [*self.connections, *self.sources]

    def error(self) -> KtxError | None:
        """Return the error with which the command ends: the only error, or a partial error that lists what was skipped.

        If the only problem is that the model became unavailable, the model's own error is returned.
        """
        failed = [part.error for part in self.parts if part.error is not None]
        if failed and len(failed) == len(self.parts):
            if len({error.code for error in failed}) == 1:
                return failed[0]
            message = f"no connection could be read: {listing(error.message for error in failed)}"
            return KtxError(message, hint=failed[0].hint)
        unasked = [f"{each} ({part.connection})" for part in self.parts for each in part.left_out]
        unread = [_named(p.connection, p.error) for p in self.parts if p.error is not None]
        if self.stopped is not None:
            return self._ended(self.stopped, [*unread, *unasked])
        if not failed and not self.held:
            stopped = self._stopped() if unasked else None
            again = Hint("run `{}` again", self.again)
            if self.broken:
                from ktx_cli.engine.definitions import way_out

                again = way_out(self.broken)
            return stopped or (self._partial(unasked, again) if unasked or self.broken else None)
        left = [*unread, *unasked]
        left += [f"{path} ({reason})" for path, reason in self.held]
        hint = (
            failed[0].hint
            if failed
            else Hint("{}; then run `{}` again", held_hint(self.held, self.project_dir), self.again)
        )
        return self._partial(left, hint or Hint("run `{}` again", self.again))

    def _ended(self, error: KtxError, unasked: list[str]) -> KtxError:
        """Return the error of a run whose agents could not continue; a used-up run budget has its own exit code."""
        if error.code == "budget":
            return error
        left = [*unasked, *(f"{path} ({reason})" for path, reason in self.held)]
        message = f"{error.message}; finished work is kept; skipped: {_named_left(left)}" if left else error.message
        return PartialError(message, hint=error.hint, code=error.code, details={**error.details, "left_out": left})

    def _stopped(self) -> KtxError | None:
        """Return the error after which the model was no longer called."""
        return next(
            (c.descriptions.stopped for c in self.connections if c.descriptions and c.descriptions.stopped), None
        )

    def _partial(self, left: list[str], hint: str) -> PartialError:
        parts = []
        if self.broken:
            from ktx_cli.engine.definitions import broken_sentence

            parts.append(broken_sentence(self.broken, "no longer compile"))
        parts += [f"finished with errors; skipped: {_named_left(left)}"] if left else []
        broken = {"broken": [each.to_json() for each in self.broken]} if self.broken else {}
        return PartialError("; ".join(parts), hint=hint, details={"left_out": left, **broken})

    json_keys: ClassVar[tuple[str, ...]] = (
        "run_id", "command", "dry_run", "commit", "branch", "named_branch", "committed", "uncommitted", "held=_held",
        "ignored", "recovered", "created_repository", "llm", "depth", "seconds=_seconds", "documents", "repaired",
        "status", "connections", "sources", "contradictions", "open_decisions", "to_scan", "reconciled", "failure",
        "stopped", "usage=spending", "files", "broken", "forecast",
    )  # fmt: skip

    def _held(self) -> list[dict[str, str]]:
        return [{"path": path, "reason": reason} for path, reason in self.held]

    def _seconds(self) -> float:
        return round(self.seconds, 3)


def _named_left(left: list[str]) -> str:
    """Return what was skipped, as part of a sentence; `details` contains all of it."""
    return listing(one_line(each, MOST_OF_ONE) for each in left)
