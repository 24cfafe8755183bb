"""`ktx decide`: record people's answers to decision points, in one commit or in the working files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ktx_cli.core import (
    Emit,
    KtxError,
    Notice,
    NotReadyError,
    ResultWarning,
    UsageError,
    did_you_mean,
    ignore_events,
    listing,
    new_run_id,
    one_line,
    plural,
)
from ktx_cli.jobs.contradictions import sign_decision
from ktx_cli.jobs.decide.draft import DecisionDraft, Drafted, GivenAnswer
from ktx_cli.jobs.decide.points import COMMAND, LoadedDecisions, find_point, read_all
from ktx_cli.project import (
    CONFIG_NAME,
    KtxConfig,
    Layout,
    Repository,
    WorkingTree,
    Workspace,
    hold_run_lock,
    remove_file,
    require_whole,
    write_atomic,
)

if TYPE_CHECKING:
    from ktx_cli.agent_tools import Layers
    from ktx_cli.project import RunLock, Tree
    from ktx_cli.semantic import DecisionAnswer, DecisionPoint


@dataclass(frozen=True, slots=True)
class Choice:
    """A person's choice for a point (its id, or `connection/id`). If `reading` is None, the answer is undone."""

    point: str
    reading: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class DecideRequest:
    """The answers to record in one commit, or only in the working files if `commit` is false.

    `by` is the name of the person; the default is the git author.
    """

    layout: Layout
    config: KtxConfig
    choices: Sequence[Choice]
    by: str | None = None
    commit: bool = True
    wait_seconds: float = 0.0
    emit: Emit = ignore_events


@dataclass(slots=True)
class DecideReport:
    """The recorded and undone decisions, the changed files, and the commit, if any."""

    decided: list[Drafted] = field(default_factory=list)
    taken_back: list[DecisionAnswer] = field(default_factory=list)
    files: tuple[str, ...] = ()
    commit: str | None = None
    warnings: list[ResultWarning] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the data for the envelope."""
        return {
            "decided": [drafted_json(each) for each in self.decided],
            "taken_back": [f"{each.connection}/{each.point}" for each in self.taken_back],
            "files": list(self.files),
            "commit": self.commit,
        }


def drafted_json(drafted: Drafted) -> dict[str, Any]:
    """Return the changes made by an answer for the envelope."""
    answer = drafted.answer
    return {
        **answer_json(answer),
        "not_changed": [{"measure": measure, "reason": reason} for measure, reason in drafted.left.items()],
        "page": drafted.page,
        "tests": list(drafted.tests),
    }


def answer_json(answer: DecisionAnswer) -> dict[str, Any]:
    """Return an answer for the envelope."""
    names = ("connection", "point", "alternative", "decision", "reason", "decided_by", "decided_on", "segment")
    return {name: getattr(answer, name) for name in names} | {"measures": list(answer.measures)}


def decide(request: DecideRequest) -> DecideReport:
    """Write all answers into definitions, pages, tests and `decisions.yaml`, or none of them.

    Raises `UsageError` for an unknown point or reading, `NotReadyError` before the first scan is committed,
    `ConfigError` for a file that cannot be edited, `BusyError`, and `PartialError` if a file has uncommitted edits.
    """
    layout = request.layout
    repository = Repository.discover(layout.root) if request.commit else None
    if request.commit and repository is None:
        raise NotReadyError("the project has no git repository yet", hint=COMMAND.with_words("--no-commit"))
    if repository is not None:
        repository.check_writable()
    found, _ = read_all(layout, request.config)
    chosen = [_chosen(found, each) for each in request.choices]  # report an invalid choice before a missing signature
    given = [_given(request, choice, *names) for choice, names in zip(request.choices, chosen, strict=True)]
    report = DecideReport()
    with hold_run_lock(
        layout,
        run_id=new_run_id(),
        command=COMMAND,
        wait_seconds=request.wait_seconds,
        emit=request.emit,
        warn=report.warnings.append,
    ) as (lock, _):
        if repository is None:
            _write(layout, _drafted(request, WorkingTree(layout.root), given, report), report)
        else:
            _commit(request, repository, lock, given, report)
    report.warnings += [warning for each in report.decided for warning in each.warnings]
    return report


def _chosen(found: Sequence[LoadedDecisions], choice: Choice) -> tuple[str, str, str | None]:
    """Return the connection, point and reading for a choice, or None for undo. Raises `UsageError`."""
    loaded, point = find_point(found, choice.point)
    connection = loaded.decisions.connection
    if choice.reading is None:
        if all(each.point != point.id for each in loaded.decisions.answers):
            raise UsageError(f"`{point.id}` is undecided", hint=COMMAND.with_words(point.id))
        return connection, point.id, None
    chosen = point.alternative(choice.reading)
    if chosen is None:
        raise no_such_reading(point, choice.reading)
    return connection, point.id, chosen.id


def _given(
    request: DecideRequest, choice: Choice, connection: str, point: str, reading: str | None
) -> tuple[str, str, GivenAnswer | None]:
    """Return the connection and point for a choice, with its signed answer, or None for undo."""
    signed = sign_decision(request.layout, choice.reason, request.by)
    answer = None
    if reading is not None:
        answer = GivenAnswer(connection, point, reading, signed.by, signed.on, choice.reason)
    return connection, point, answer


def no_such_reading(point: DecisionPoint, word: str) -> UsageError:
    """Return the error for an unknown reading of a point."""
    ids = [each.id for each in point.alternatives]
    near = did_you_mean(word, ids) or ids[0]
    message = f"`{point.id}` has no reading `{one_line(word, 60)}`; available: {listing(ids)}"
    return UsageError(message, hint=COMMAND.with_words(point.id, "--as", near), details={"candidates": ids})


def layers_of(config: KtxConfig) -> Layers:
    """Return a loader for the semantic layers of the databases of a project from any tree."""
    from ktx_cli.agent_tools import Layers
    from ktx_cli.semantic import calendar_of
    from ktx_cli.warehouses import dialect_of

    dialects = {each: dialect_of(entry.driver) or "" for each, entry in config.databases().items()}
    return Layers(dialects, calendar_of(config), config.connections.keys())


def _drafted(
    request: DecideRequest, tree: Tree, given: Sequence[tuple[str, str, GivenAnswer | None]], report: DecideReport
) -> Mapping[str, bytes | None]:
    """Return the files that the answers change in a tree, by path. A removed file is None."""
    workspace = Workspace(tree)
    draft = DecisionDraft(workspace, layers_of(request.config))
    for connection, point, answer in given:
        if answer is not None:
            report.decided.append(draft.decide(answer))
        elif (before := draft.take_back(connection, point)) is not None:
            report.taken_back.append(before)
    return workspace.changes()


def _write(layout: Layout, changes: Mapping[str, bytes | None], report: DecideReport) -> None:
    for path, content in changes.items():
        if content is None:
            remove_file(layout.root / path)
        else:
            write_atomic(layout.root / path, content)
    report.files = tuple(changes)


def _commit(
    request: DecideRequest,
    repository: Repository,
    lock: RunLock,
    given: Sequence[tuple[str, str, GivenAnswer | None]],
    report: DecideReport,
) -> None:
    from ktx_cli.engine import ProjectBase

    recovery = repository.recover()
    if recovery.finished:
        count = plural(len(recovery.finished), "file")
        request.emit(Notice(f"recovered from a killed run: updated {count} to the last commit"))
    tip = repository.head().commit
    changes = _drafted(request, ProjectBase(request.layout, repository, tip), given, report)
    result = repository.commit(
        changes, message=_message(report), base=tip, before_publish=lock.check, adjust=lambda held: {}
    )
    require_whole(result, request.layout.root, "no decision was recorded")
    report.commit, report.files = result.commit, (*result.committed, *result.ignored)


def _message(report: DecideReport) -> str:
    """Return the commit message. It has no run trailer, because the commit belongs to a person."""
    lines = [
        f"{each.answer.connection}/{each.answer.point}: {each.answer.decision} ({each.answer.decided_by})"
        for each in report.decided
    ]
    lines += [f"{each.connection}/{each.point}: decision undone" for each in report.taken_back]
    if len(lines) == 1:
        subject = report.decided[0].answer.decision if report.decided else "undo a decision"
    else:
        subject = plural(len(lines), "decision")
    return "\n".join([f"{COMMAND}: {one_line(subject, 60)}", "", *(one_line(line, 400) for line in lines), ""])


def preview(layout: Layout, config: KtxConfig, loaded: LoadedDecisions, point: DecisionPoint) -> dict[str, str]:
    """Return a description of the changes that each reading makes, by reading id."""
    layers = layers_of(config)
    base = Workspace(WorkingTree(layout.root))
    found = {}
    for each in point.alternatives:
        workspace = base.child()
        given = GivenAnswer(loaded.decisions.connection, point.id, each.id, "you", "2000-01-01")
        try:
            drafted = DecisionDraft(workspace, layers).decide(given)
        except KtxError as error:
            found[each.id] = f"cannot be applied: {one_line(error.message, 200)}"
            continue
        files = plural(len(workspace.changes()), "file")
        left = f", {plural(len(drafted.left), 'measure')} unchanged" if drafted.left else ""
        count = len(drafted.answer.measures)
        found[each.id] = f"{plural(count, 'measure')} in {files}{left}" if count else f"no measure{left}"
        if CONFIG_NAME in drafted.answer.replaced:
            found[each.id] = f"{CONFIG_NAME} sets {listing(drafted.answer.replaced[CONFIG_NAME])} to {each.id}"
    return found
