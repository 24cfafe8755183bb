"""List, explain, accept, reject and draw a connection's inferred joins."""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    Emit,
    Hint,
    KtxError,
    Notice,
    NotReadyError,
    PartialError,
    Record,
    ResultWarning,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    UsageError,
    did_you_mean,
    ignore_events,
    listing,
    monotonic,
    new_run_id,
    one_line,
    picked,
    plural,
    yaml,
)
from ktx_cli.project import (
    DECIDED_BY,
    EDITED_AFTER_KILL,
    EDITED_MEANWHILE,
    RAW_NAME,
    HeldReason,
    Layout,
    Repository,
    StateDatabase,
    WorkingTree,
    connection_of,
    held_hint,
    hold_run_lock,
    load_config,
    read_state,
    translated,
    write_atomic,
)
from ktx_cli.scan import (
    BY_A_PERSON,
    INFERRED_JOINS,
    JOINED,
    STEADY,
    AuthoredSources,
    Decision,
    JoinStatus,
    ReviewDraft,
    ReviewedRelationship,
    empty_overlay,
    read_review,
    relationships_named,
    status_counts,
)
from ktx_cli.semantic import Entry, ParsedCopies, load_manifest, plain_on, shard_files, store_layer

if TYPE_CHECKING:
    from ktx_cli.engine import ProjectBase
    from ktx_cli.project import CommitResult, KtxConfig, RunLock
    from ktx_cli.scan import ChildEvidence, Explained, RelationshipReview, RemovedTexts, RunnerUp, TableProfile

COMMAND = Command("scan", "relationships")
SHOWN = frozenset({JoinStatus.ACCEPTED, JoinStatus.MANUAL, JoinStatus.REVIEW})
"""The default statuses to list."""

Typed = Callable[[ReviewedRelationship], Command]
"""Builds the command for a relationship in hints."""


@dataclass(frozen=True, slots=True)
class RelationshipList:
    """The requested relationships, and the number of joins that foreign keys declare."""

    relationships: list[ReviewedRelationship]
    declared: int
    warnings: list[ResultWarning]


def list_relationships(
    layout: Layout, connections: Sequence[str] = (), *, statuses: Set[JoinStatus] = SHOWN, table: str | None = None
) -> RelationshipList:
    """Return the relationships of connections, or of all, from the working tree, without running git.

    Raises `UsageError` for an unknown connection or table, and `NotReadyError` if no scan has profiled rows.
    """
    from ktx_cli.jobs.ingest.plan import choose_targets

    loaded = load_config(layout.config)
    ids = [target.connection for target in choose_targets(layout, loaded.config, connections, databases_only=True)]
    reviews = read_reviews(layout, ids, connections)
    found = [each for review in reviews for each in (*review.relationships, *review.declared)]
    found = _with_sources(layout, found)
    if table is not None:
        found = _of_table(found, table)
    warnings = [*loaded.notices(), *(warning for review in reviews for warning in review.warnings)]
    declared = sum(each.status is JoinStatus.DECLARED for each in found)
    return RelationshipList([each for each in found if each.status in statuses], declared, warnings)


def _with_sources(layout: Layout, among: list[ReviewedRelationship]) -> list[ReviewedRelationship]:
    """Return relationships whose reason names the context source, such as dbt, that declares the join, if any."""
    if not any(each.status in INFERRED_JOINS for each in among):
        return among
    declaring = declaring_sources(layout)

    def named(each: ReviewedRelationship) -> ReviewedRelationship:
        found, source = each.relationship, declaring(each)
        if source is None or not found.reason:
            return each
        evidence = found.reason.removeprefix(BY_A_PERSON)
        evidence = f"; evidence of the scan: {evidence}" if evidence == found.reason else evidence
        reason = f"declared in `{source}`{evidence}"
        return replace(each, relationship=replace(found, reason=reason))

    return [named(each) for each in among]


def declaring_sources(layout: Layout) -> Callable[[ReviewedRelationship], str | None]:
    """Return a function that returns the context source, such as dbt, that declares an inferred join in effect."""
    from ktx_cli.sources import declared_joins

    tree = WorkingTree(layout.root)
    declared = declared_joins(tree.blobs(RAW_NAME), tree.read)

    def source_of(each: ReviewedRelationship) -> str | None:
        forward = each.joins[0]
        source = declared(forward.shard or "", forward.source, forward.join)
        return source if each.status in INFERRED_JOINS else None

    return source_of


def working_review(layout: Layout, connection: str) -> RelationshipReview | None:
    """Return a connection's relationships and decisions, or None if no scan has profiled rows."""
    return read_review(WorkingTree(layout.root), connection, ParsedCopies(layout, connection))


def join_status_counts(
    layout: Layout, connection: str, warn: Callable[[ResultWarning], object]
) -> Mapping[str, int] | None:
    """Return the number of inferred joins by status, or None if unknown or (with a warning) unreadable."""
    try:
        review = working_review(layout, connection)
    except KtxError as error:
        warn(ResultWarning("relationships_unreadable", error.message, hint=error.hint))
        return None
    if review is None:
        return None
    from ktx_cli.sources import without_declared

    return status_counts(without_declared(review.relationships, WorkingTree(layout.root)))


def read_reviews(layout: Layout, connections: Sequence[str], typed: Sequence[str]) -> list[RelationshipReview]:
    """Return the relationships and decisions from the working tree. Raises the errors of `require_some`."""
    reviews = [working_review(layout, each) for each in connections]
    return require_some(layout, reviews, connections, typed)


def require_some(
    layout: Layout, reviews: Sequence[RelationshipReview | None], connections: Sequence[str], typed: Sequence[str]
) -> list[RelationshipReview]:
    """Return the existing reviews. Raises `NotReadyError` with a hint if there is none.

    `connections` are the connections to review, and `typed` those given by name.
    """
    found = [review for review in reviews if review is not None]
    if found:
        return found
    what = listing((f"connection `{each}`" for each in typed), 3) or "no database"
    if any(shard_files(layout, each) for each in connections):
        yet = "has not been profiled" if typed else "has been profiled yet"
        raise NotReadyError(f"{what} {yet}", hint=Command("scan", *typed, "--depth", "profile"))
    message = "has not been scanned" if typed else "has been scanned yet"
    raise NotReadyError(f"{what} {message}", hint=Command("scan", *typed))


def relationship_names(root: Path, connections: Sequence[str]) -> list[str]:
    """Return the names of all relationships for shell completion. Unreadable connections are skipped."""
    names = []
    for connection in connections:
        try:
            review = working_review(Layout(root), connection)
        except KtxError:  # completion cannot show errors; the command itself reports them
            continue
        names += [each.name for each in review.relationships] if review is not None else []
    return list(dict.fromkeys(names))


def find_relationship(word: str, among: Sequence[ReviewedRelationship], typed: Typed) -> ReviewedRelationship:
    """Return the relationship with a name. Raises `UsageError` if no or several relationships match."""
    found = relationships_named(word, among)
    if len(found) == 1:
        return found[0]
    shown = one_line(word, 120)
    if not found:
        raise UsageError(f"there is no relationship `{shown}`", hint=_nearest(word, among, typed))
    connections = list(dict.fromkeys(each.connection for each in found))
    if len(connections) > 1:
        raise UsageError(f"`{shown}` is in several connections: {listing(connections)}", hint=typed(found[0]))
    raise UsageError(f"`{shown}` is ambiguous: {listing(each.name for each in found)}", hint=typed(found[0]))


def _nearest(word: str, among: Sequence[ReviewedRelationship], typed: Typed) -> str:
    """Return the command for the nearest relationship. A shell cuts an unquoted name at its `>`."""
    names = {each.name: each for each in among}
    begun = [name for name in names if word.endswith("-") and name.startswith(word)]
    near = begun[0] if begun else did_you_mean(word, names)
    if near is not None:
        return typed(names[near])
    connections = {each.connection for each in among}
    return COMMAND.with_words(*(connections if len(connections) == 1 else ()), "--status", "all")


def _of_table(among: Sequence[ReviewedRelationship], table: str) -> list[ReviewedRelationship]:
    found = [each for each in among if table in each.tables]
    if not found:
        near = did_you_mean(table, sorted({name for each in among for name in each.tables}))
        hint = COMMAND.with_words("--status", "all") if near is None else COMMAND.with_words("--table", near)
        raise UsageError(f"no relationship involves a table `{one_line(table, 120)}`", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class TypedDecision:
    """One decision as typed: the name of a relationship, and its connection if known."""

    relationship: str
    decision: Decision
    connection: str | None = None


@dataclass(slots=True)
class Decided(Record):
    """A decision and its outcome: `done`, `unchanged` (already decided) or `held` (a file has uncommitted edits)."""

    reviewed: ReviewedRelationship
    decision: Decision
    result: str = "done"
    paths: frozenset[str] = frozenset()

    @property
    def warning(self) -> ResultWarning | None:
        """The warning that there is nothing to decide, because the reverse join is accepted."""
        opposite, connection = self.reviewed.opposite, self.reviewed.connection
        if opposite is None or not opposite.is_join:
            return None
        declared = opposite.status is JoinStatus.DECLARED
        chosen = ("--status", JoinStatus.DECLARED.value) if declared else ("--reject", opposite.name)
        message = f"`{self.reviewed.name}`: nothing to do, because the reverse join stays accepted"
        hint = Command("scan", "relationships", connection, *chosen)
        return ResultWarning("opposite_stands", message, hint=hint, connection=connection, edge=self.reviewed.name)

    json_keys = ("connection=reviewed.connection", "edge=reviewed.name", "decision", "before=reviewed.status", "result")


@dataclass(slots=True)
class DecisionReport(Record):
    """The decisions in a run. `commit` is None if nothing was committed. `held` lists skipped files with reasons."""

    run_id: str
    project_dir: Path
    decided: list[Decided] = field(default_factory=list)
    commit: str | None = None
    committed: tuple[str, ...] = ()
    held: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    ended: str | None = None

    @property
    def status(self) -> str:
        """`done`, `unchanged`, `partial`, `failed` or `interrupted`."""
        if self.ended is not None:
            return self.ended
        if self.held:
            return "partial"
        return "done" if any(each.result == "done" for each in self.decided) else "unchanged"

    @property
    def committed_line(self) -> str:
        """A one-line summary of the commit."""
        files = plural(len(self.committed), "file")
        return f"{files} in {self.commit[:10]}" if self.commit else "nothing to commit"

    def error(self) -> PartialError | None:
        """Return the error that lists the skipped files, if any."""
        if not self.held:
            return None
        left = [f"{path} ({reason})" for path, reason in self.held]
        hint = Hint("{}; then run the same command again", held_hint(self.held, self.project_dir))
        details = {"left_out": left, "held": [each.reviewed.name for each in self.decided if each.result == "held"]}
        return PartialError(f"some decisions were not saved; skipped: {listing(left)}", hint=hint, details=details)

    @property
    def held_files(self) -> list[dict[str, str]]:
        """The skipped files with reasons."""
        return [{"path": path, "reason": reason} for path, reason in self.held]

    json_keys = (
        *("run_id", "status", "decisions=decided", "commit", "committed", "held=held_files", "ignored", "recovered"),
    )


@dataclass(frozen=True, slots=True)
class DecideRequest:
    """The decisions to make, their connections (empty for all), and the seconds to wait for another run."""

    project_dir: Path
    choices: Sequence[TypedDecision]
    connections: Sequence[str] = ()
    wait_seconds: float = 0.0
    emit: Emit = ignore_events


def decide(request: DecideRequest) -> tuple[DecisionReport, list[ResultWarning]]:
    """Accept and reject relationships in one commit. A decision is skipped if one of its files has edits.

    Raises `UsageError` for a relationship that is unknown, ambiguous or both accepted and rejected, `NotReadyError`
    before the first scan, `ConfigError` for a file that cannot be edited, and `BusyError`. Nothing changes in these
    cases.
    """
    from ktx_cli.jobs.ingest.plan import choose_targets

    layout = Layout(request.project_dir)
    loaded = load_config(layout.config)
    targets = choose_targets(layout, loaded.config, request.connections, databases_only=True)
    repository = Repository.discover(layout.root)
    if repository is None:
        raise NotReadyError("no scan has been committed yet", hint=Command("scan"))
    repository.check_writable()
    run = _DecisionRun(request, layout, loaded.config, repository, [t.connection for t in targets], loaded.notices())
    with hold_run_lock(
        layout,
        run_id=run.report.run_id,
        command=COMMAND,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=run.warnings.append,
    ) as (lock, database):
        started = monotonic()
        request.emit(RunStarted(run.report.run_id, COMMAND))
        try:
            run.recorded(lock, database)
        finally:
            request.emit(RunFinished(run.report.run_id, run.report.status, monotonic() - started))
    return run.report, run.warnings


@dataclass
class _DecisionRun:
    """One run of decisions."""

    request: DecideRequest
    layout: Layout
    config: KtxConfig
    repository: Repository
    connections: Sequence[str]
    warnings: list[ResultWarning]

    def __post_init__(self) -> None:
        self.report = DecisionReport(new_run_id(), self.layout.root)
        self._person = self.repository.author()
        self._removed: dict[str, RemovedTexts] = {}

    def recorded(self, lock: RunLock, database: StateDatabase) -> None:
        """Do the work and record the outcome in the state database."""
        from ktx_cli.runs import finish_run, start_run

        with translated(self.layout.state):
            start_run(database, self.report.run_id, COMMAND)
        try:
            self._work(lock)
        except BaseException as error:
            self.report.ended = "failed" if isinstance(error, Exception) else "interrupted"
            if isinstance(error, KtxError):  # the branch may have moved before the error
                self.report.commit = error.details.get("commit", self.report.commit)
            with contextlib.suppress(sqlite3.Error):  # the error itself matters more
                finish_run(database, self.report.run_id, self.report.status, self.report.commit)
            raise
        with translated(self.layout.state):
            finish_run(database, self.report.run_id, self.report.status, self.report.commit)
        if self.report.commit is not None:
            from ktx_cli.jobs.semantic.statuses import refresh_statuses

            self.warnings += refresh_statuses(self.layout, self.config)

    def _work(self, lock: RunLock) -> None:
        from ktx_cli.engine import ProjectBase

        self._recover()
        tip = self.repository.head().commit
        base = ProjectBase(self.layout, self.repository, tip)
        reviews = {review.connection: review for review in self._reviews(base)}
        self.report.decided = _resolved(self.request.choices, reviews)
        self.warnings += [message for each in self.report.decided if (message := each.warning) is not None]
        self._hold_strays(reviews)
        drafts = self._drafted(reviews)
        if not drafts:
            return
        self.request.emit(StepStarted("commit"))
        started = monotonic()
        while drafts:
            result = self._committed(drafts, base, tip, lock)
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
            self.request.emit(Notice(f"recovered from a killed run: updated {count} to the last commit"))

    def _reviews(self, base: ProjectBase) -> list[RelationshipReview]:
        copies = {each: ParsedCopies(self.layout, each) for each in self.connections}
        found = [read_review(base, each, copies[each]) for each in self.connections]
        return require_some(self.layout, found, self.connections, self.request.connections)

    def _hold_strays(self, reviews: Mapping[str, RelationshipReview]) -> None:
        """Hold rejections whose overlay exists under any file name but is not in git yet."""
        files = WorkingTree(self.layout.root)
        local = {each: AuthoredSources.read(files, each) for each in reviews}
        for each in self.report.decided:
            known = reviews[each.reviewed.connection].authored.files
            sources = [join.source for join in each.reviewed.joins if join.source not in known]
            strays = [file for source in sources for file in local[each.reviewed.connection].files.get(source, ())]
            if strays and each.decision is Decision.REJECT and each.warning is None:
                each.result = "held"
                named = ((file.path, HeldReason.UNTRACKED.value) for file in strays)
                self.report.held = tuple(dict.fromkeys((*self.report.held, *named)))

    def _drafted(self, reviews: Mapping[str, RelationshipReview]) -> list[ReviewDraft]:
        """Return the drafts of the connections with all decisions that are not held."""
        drafts: dict[str, ReviewDraft] = {}
        for each in self.report.decided:
            if each.result == "held":
                continue
            connection = each.reviewed.connection
            draft = drafts.setdefault(connection, ReviewDraft(reviews[connection]))
            each.paths = draft.decide(each.reviewed, each.decision)
            each.result = "done" if each.paths else "unchanged"
        return [draft for draft in drafts.values() if draft.changes()]

    def _committed(self, drafts: list[ReviewDraft], base: ProjectBase, tip: str | None, lock: RunLock) -> CommitResult:
        """Commit all changes, or nothing if one of their paths is held."""
        changes = self._without_ignored_removals(drafts, base)
        self._removed = {draft.connection: draft.removed_texts(base.read_many(changes)) for draft in drafts}
        return self.repository.commit(
            changes,
            message=self._message(),
            base=tip,
            author=None if self._person else self.config.storage.git.author,
            before_publish=lock.check,
            adjust=lambda held: {},
            spared=[path for removed in self._removed.values() for path in removed.shards],
        )

    def _without_ignored_removals(self, drafts: Sequence[ReviewDraft], base: ProjectBase) -> dict[str, bytes | None]:
        """Return all changes. An overlay that git ignores is emptied instead of removed, because it has no history."""
        changes = {path: content for draft in drafts for path, content in draft.changes().items()}
        for path in self.repository.ignored([path for path, content in changes.items() if content is None]):
            changes[path] = empty_overlay(yaml.load(base.read(path) or b"", where=path)["name"])
        return changes

    def _message(self) -> str:
        done = [each for each in self.report.decided if each.result == "done"]
        counts = Counter(each.decision for each in done)
        message = ", ".join(f"{decision.value} {counts[decision]}" for decision in Decision if counts[decision])
        lines = [f"{each.reviewed.connection}: {each.decision.value} {each.reviewed.name}" for each in done]
        trailers = [f"Ktx-Run: {self.report.run_id}"]
        if self._person is not None:
            trailers.append(f"{DECIDED_BY}: {' '.join(self._person[0].split())} <{self._person[1]}>")
        return "\n".join([f"{COMMAND}: {message}", "", *lines, "", *trailers, ""])

    def _hold(self, result: CommitResult) -> None:
        """Mark the decisions that need a held path as held."""
        held = {each.path: each.reason.value for each in result.held}
        self.report.held = tuple(dict.fromkeys((*self.report.held, *held.items())))
        for each in self.report.decided:
            if each.paths & held.keys():
                each.result = "held"

    def _report(self, result: CommitResult, drafts: Sequence[ReviewDraft]) -> None:
        report = self.report
        report.commit, report.committed, report.ignored = result.commit, result.committed, result.ignored
        report.held = (*report.held, *((path, EDITED_MEANWHILE) for path in result.left))
        for draft in drafts:
            self.warnings += self._removed[draft.connection].warnings(
                draft.connection, draft.changes(), result.replaced
            )
            store_layer(self.layout, self.config, draft.connection)
        if result.ignored:
            message = f"{plural(len(result.ignored), 'file')} written but not committed, because git ignores them"
            hint = "remove the folder from .gitignore to keep its history"
            self.warnings.append(ResultWarning("ignored_paths", message, hint=hint, paths=list(result.ignored)))


def _resolved(choices: Sequence[TypedDecision], reviews: Mapping[str, RelationshipReview]) -> list[Decided]:
    """Return each relationship once with its decision. Raises `UsageError` if one is both accepted and rejected."""
    found: dict[tuple[str, str], Decided] = {}
    for choice in choices:
        among = [each for each in reviews.values() if choice.connection in (None, each.connection)]
        named = [each for review in among for each in review.relationships]
        chosen = find_relationship(choice.relationship, named, _typed(choice))
        other = found.setdefault((chosen.connection, chosen.name), Decided(chosen, choice.decision))
        if other.decision is not choice.decision:
            raise UsageError(f"`{chosen.name}` is both accepted and rejected", hint="pass it only once")
    return list(found.values())


def _typed(choice: TypedDecision) -> Typed:
    flag = f"--{choice.decision.value}"
    return lambda found: COMMAND.with_words(found.connection, flag, found.name)


SCANNED: Final = "scan"
DECLARING: Final = frozenset(
    {"datahub", "dbt", "lookml", "metabase", "odcs", "openmetadata", "powerbi", "sigma", "tableau"}
)
"""The sources of evidence that declare joins. The evidence names them."""

RECORDED: Final = "record"
DECLARED: Final = "declared"
"""What an explanation is based on: the evidence of the last scan on this machine, the committed record, or a foreign
key."""


@dataclass(frozen=True, slots=True)
class Explanation(Record):
    """Why a relationship is a join or not. `basis`: as above. `scanned`: when the evidence was collected.

    `decision`: who decided, and why, in sentences. `note`: what is missing from the explanation.
    """

    reviewed: ReviewedRelationship
    decision: tuple[str, ...]
    basis: str
    explained: Explained
    scanned: str | None = None
    note: str | None = None

    json_keys = (
        "connection=reviewed.connection",
        "edge=reviewed.name",
        "status=reviewed.status",
        "score=reviewed.relationship.probability",
        *("decision", "basis", "scanned", "evidence=explained.statements", "doubts=explained.doubts"),
        *("steps=explained.steps", "runners_up=explained.runners_up", "changes=explained.changes", "note"),
    )


@dataclass(frozen=True, slots=True)
class ExplanationReport:
    """The explanations in the order of the request, and the commands that would tell more or decide."""

    explanations: tuple[Explanation, ...]
    warnings: tuple[ResultWarning, ...]
    next_steps: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True)
class _StoredEvidence:
    """What the state database knows about the tables of a relationship."""

    evidence: tuple[ChildEvidence, ...] = ()
    profiles: tuple[TableProfile, ...] = ()
    scanned: str | None = None


def explain_relationships(layout: Layout, names: Sequence[str], connections: Sequence[str] = ()) -> ExplanationReport:
    """Return the explanations of relationships: all of a column, if a name consists only of the part before the arrow.

    Nothing is changed, and no database is read. Raises the errors of `list_relationships`, and `UsageError` for an
    unknown name.
    """
    from ktx_cli.jobs.ingest.plan import choose_targets

    loaded = load_config(layout.config)
    ids = [target.connection for target in choose_targets(layout, loaded.config, connections, databases_only=True)]
    reviews = {review.connection: review for review in read_reviews(layout, ids, connections)}
    among = [each for review in reviews.values() for each in (*review.relationships, *review.declared)]
    found = (
        each
        for name in names
        for each in sorted(relationships_named(name, among), key=lambda each: each.status not in JOINED)
        or [find_relationship(name, among, _explaining)]
    )
    chosen = {id(each): each for each in found}
    declaring = declaring_sources(layout)
    explanations = [
        _explanation(layout, loaded.config, reviews[each.connection], each, declaring(each)) for each in chosen.values()
    ]
    warnings = [*loaded.notices(), *(warning for review in reviews.values() for warning in review.warnings)]
    return ExplanationReport(tuple(explanations), tuple(warnings), tuple(_next_steps(explanations)))


def _explaining(found: ReviewedRelationship) -> Command:
    return COMMAND.with_words(found.connection, "--explain", found.name)


def _explanation(
    layout: Layout, config: KtxConfig, review: RelationshipReview, each: ReviewedRelationship, declared_by: str | None
) -> Explanation:
    from ktx_cli.scan import Explained, Subject, explain, scan_decision

    found = each.relationship
    if found.sources == (JoinStatus.DECLARED.value,):
        return Explanation(each, tuple(_declared(each, review)), DECLARED, Explained())
    stored = _stored(layout, config, each)
    child = next((child for child in stored.evidence if child.columns == found.child_columns), None)
    evidence = None if child is None else child.candidate(found.parent, found.parent_columns, found.condition)
    alone = each.status in (JoinStatus.MANUAL, JoinStatus.DISABLED)
    by_scan = scan_decision(found, child, evidence, alone=alone)
    if declared_by is not None and not alone and (evidence is None or DECLARING.isdisjoint(evidence.sources)):
        by_scan += f" `{declared_by}` declares this join too."
    decision = tuple(_decision(each, review, declared_by, by_scan))
    if child is None or evidence is None:
        rivals = Explained(runners_up=tuple(_recorded_rivals(each, review)))
        return Explanation(each, decision, RECORDED, rivals, note=_missing(each))
    joins = [other.relationship for other in (*review.relationships, *review.declared) if other.status in JOINED]
    profiles = {profile.ref: profile for profile in stored.profiles}
    explained = explain(Subject(found, child, evidence, joins, profiles))
    if each.opposite is not None and each.opposite.is_join:
        explained = replace(explained, changes=())
    note = None
    if abs(evidence.probability - found.probability) >= STEADY:
        note = (
            f"The committed record is from another scan, in which the score was {found.probability:g}. The evidence is "
            "from the last scan on this machine."
        )
    return Explanation(each, decision, SCANNED, explained, stored.scanned, note)


def _stored(layout: Layout, config: KtxConfig, each: ReviewedRelationship) -> _StoredEvidence:
    """Return the stored evidence and profiles, without values if they may not be shown."""
    from ktx_cli.scan import load_evidence, load_profiles_of, scanned_at, without_values

    found = each.relationship

    def read(database: StateDatabase) -> _StoredEvidence:
        return _StoredEvidence(
            load_evidence(database, each.connection, [found.child]),
            load_profiles_of(database, each.connection, [found.child, found.parent]),
            scanned_at(database, each.connection),
        )

    stored = read_state(layout, read) or _StoredEvidence()
    if stored.evidence and not _shows_values(layout, config, each.connection):
        profiles = tuple(map(without_values, stored.profiles))
        return replace(stored, evidence=tuple(e.without_values() for e in stored.evidence), profiles=profiles)
    return stored


def _shows_values(layout: Layout, config: KtxConfig, connection: str) -> bool:
    """Return whether examples of values may be shown: not in strict projects, nor if people have hidden anything."""
    if config.scan.privacy == "strict":
        return False
    from ktx_cli.protection import has_protected
    from ktx_cli.semantic import load_layer

    try:
        return not has_protected(load_layer(layout, config, connection))
    except KtxError:  # the layer may hide something that cannot be read
        return False


def _missing(each: ReviewedRelationship) -> str:
    if each.gone:
        return "Scans no longer detect this join, so there is no evidence about it on this machine."
    return (
        "This machine has no evidence of a scan about this join, only the committed record. A scan at the depth "
        "`profile` collects it."
    )


def _next_steps(explanations: Sequence[Explanation]) -> list[Command]:
    """Return the commands that collect missing evidence, then those that decide about the first join to review."""
    missing = dict.fromkeys(
        each.reviewed.connection for each in explanations if each.basis == RECORDED and not each.reviewed.gone
    )
    steps = [Command("scan", connection, "--depth", "profile") for connection in missing]
    undecided = [each.reviewed for each in explanations if each.reviewed.status is JoinStatus.REVIEW]
    if len(explanations) == len(undecided) == 1:
        (found,) = undecided
        flags = ("--reject",) if found.missing is not None else ("--accept", "--reject")
        steps += [COMMAND.with_words(found.connection, flag, found.name) for flag in flags]
    return steps


def _declared(each: ReviewedRelationship, review: RelationshipReview) -> list[str]:
    columns = "this column" if len(each.relationship.child_columns) == 1 else "these columns"
    declared = "A foreign key of the database declares this join. ktx uses it as it is: it does not score the join "
    declared += f"or look for other references from {columns}."
    if each.status is JoinStatus.DISABLED:
        return [f"A person rejected this join{_place(each, review)}.", declared]
    return [declared]


def _decision(
    each: ReviewedRelationship, review: RelationshipReview, declared_by: str | None, by_scan: str
) -> list[str]:
    """Return who decided about a relationship, and why."""
    if each.gone:
        return [*_of_people(each, review, declared_by), each.relationship.reason]
    sentences = _of_people(each, review, declared_by)
    if each.status in (JoinStatus.MANUAL, JoinStatus.DISABLED):
        sentences.append("Scans keep that decision; the rest of this explanation is about the scan alone.")
    if each.opposite is not None and each.opposite.is_join:
        basis = _BASES[each.opposite.status]
        opposite = f"The opposite join {basis}, so this one is not used: `{each.opposite.name}`."
        return [*sentences, opposite]
    return [*sentences, by_scan]


_BASES: Final = {
    JoinStatus.DECLARED: "is a foreign key of the database",
    JoinStatus.MANUAL: "was accepted by a person",
    JoinStatus.ACCEPTED: "was accepted by the scan",
}
"""Status of a join -> why it is one."""


def _of_people(each: ReviewedRelationship, review: RelationshipReview, declared_by: str | None) -> list[str]:
    if each.missing is not None:
        return [f"A person accepted this join, but {each.missing}."]
    if each.status is JoinStatus.MANUAL:
        place = _place(each, review)
        by = f"`{declared_by}` declares this join" if declared_by is not None else "A person accepted this join"
        return [f"{by}{place}."]
    if each.status is JoinStatus.DISABLED:
        return [f"A person rejected this join{_place(each, review)}."]
    return []


def _place(each: ReviewedRelationship, review: RelationshipReview) -> str:
    path = review.decided_in(each)
    return "" if path is None else f" in {path}"


def _recorded_rivals(each: ReviewedRelationship, review: RelationshipReview) -> list[RunnerUp]:
    """Return the other recorded relationships of the same columns."""
    from ktx_cli.scan import RunnerUp, column_name

    found = each.relationship
    others = [other.relationship for other in review.relationships if other is not each]
    rivals = [o for o in others if (o.child, o.child_columns) == (found.child, found.child_columns)]
    return [
        RunnerUp(column_name(o.parent, o.parent_columns), o.probability, "", "", o.reason)
        for o in sorted(rivals, key=lambda other: -other.probability)
    ]


"""The writers by format. They get the project folder, because programs in it must not run."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A diagram as text with its counts."""

    connection: str
    format: str
    text: str
    tables: int
    joins: int
    hidden_columns: int

    def to_json(self, output: Path | None = None) -> dict[str, Any]:
        """Return the data for the envelope: the text, or the file that it was written to."""
        facts = picked(self, ("connection", "format", "tables", "joins", "hidden_columns"))
        return {**facts, "output": output and str(output), "diagram": self.text if output is None else None}


def draw(
    layout: Layout,
    connection: str | None = None,
    *,
    format: str = "mermaid",
    patterns: Sequence[str] = (),
    keys_only: bool = False,
) -> tuple[Drawing, list[ResultWarning]]:
    """Draw the tables of a connection, or of the only scanned connection, with one of the `DIAGRAM_WRITERS`.

    Raises `UsageError` for an unknown id or pattern, `NotReadyError` before the first scan or if a required Graphviz is
    missing, and `KtxError` if Graphviz fails.
    """
    from ktx_cli.scan import DIAGRAM_WRITERS, diagram_of

    loaded = load_config(layout.config)
    chosen = _chosen(layout, loaded.config, connection)
    manifest = load_manifest(layout, chosen)
    authored = AuthoredSources.read(WorkingTree(layout.root), chosen)
    tables = {name: _without_disabled(name, entry, authored) for name, entry in manifest.tables.items()}
    diagram = diagram_of(tables, patterns=patterns, keys_only=keys_only)
    text = DIAGRAM_WRITERS[format](diagram, layout.root)
    drawing = Drawing(chosen, format, text, len(diagram.entities), len(diagram.edges), diagram.hidden)
    warnings = [*loaded.notices(), *manifest.problems, *authored.warnings]
    if format == "mermaid":
        warnings += _too_large(drawing)
    return drawing, warnings


def _without_disabled(name: str, entry: Entry, authored: AuthoredSources) -> Entry:
    """Return the source without joins that its overlays disable."""
    disabled = {on for file in authored.overlays_of(name) for on in file.disabled}
    joins = entry.get("joins")
    if not disabled or not isinstance(joins, list):
        return entry
    return {**entry, "joins": [join for join in joins if plain_on(join.get("on")) not in disabled]}


def save(drawing: Drawing, path: Path) -> None:
    """Write a drawing to a file, replacing it. Raises `StorageError`."""
    write_atomic(path, drawing.text.encode("utf-8", "replace"))


def _chosen(layout: Layout, config: KtxConfig, wanted: str | None) -> str:
    candidates = config.databases()
    if wanted is not None:
        connection_of(config, wanted)
        if wanted not in candidates:
            hint = Command("connection", "list")
            raise UsageError(f"connection `{wanted}` is a context source, not a database", hint=hint)
    scanned = [each for each in ([wanted] if wanted else sorted(candidates)) if shard_files(layout, each)]
    if not scanned:
        message = f"connection `{wanted}` has not been scanned yet" if wanted else "no database has been scanned yet"
        raise NotReadyError(message, hint=Command("scan", *([wanted] if wanted else [])))
    if len(scanned) > 1:
        message = f"several databases have been scanned; choose one of: {listing(scanned)}"
        raise UsageError(message, hint=Command("scan", "diagram", scanned[0]))
    return scanned[0]


def _too_large(drawing: Drawing) -> list[ResultWarning]:
    from ktx_cli.scan import MOST_EDGES, MOST_TEXT

    if len(drawing.text) <= MOST_TEXT and drawing.joins <= MOST_EDGES:
        return []
    size = f"{len(drawing.text):,} characters and {drawing.joins:,} joins"
    limits = f"{MOST_TEXT:,} characters and {MOST_EDGES:,} joins"
    hint = "add --keys-only or --tables PATTERN, or draw it with --format svg"
    return [ResultWarning("large_diagram", f"Mermaid draws at most {limits}, but this diagram has {size}", hint=hint)]
