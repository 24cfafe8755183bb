"""The report of an evolve run: findings by group, the repairs, their trials, and the proposed branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final

from ktx_cli.core import Command, Hint, KtxError, PartialError, Record, listing, plural
from ktx_cli.engine import IngestReport
from ktx_cli.jobs.evolve.groups import Group, GroupKind
from ktx_cli.jobs.evolve.trial import Comparison, Results


class Verdict(StrEnum):
    """The outcome of a repair or a group."""

    ACCEPTED = "accepted"
    """The repair is on the proposed branch."""
    REJECTED = "rejected"
    """The repair improves nothing, makes something worse, or is not allowed."""
    UNPROVEN = "unproven"
    """There are too few questions to show whether the repair helps."""
    UNDECIDED = "undecided"
    """The group is an open decision that a person has to make."""
    NOT_DRAFTED = "not drafted"
    """There is no repair."""
    NOT_TRIED = "not tried"
    """The run ended first."""


@dataclass(frozen=True, slots=True)
class TriedRepair(Record):
    """A repair with its trial. `kind` is rename, restore, synonym, or draft for a repair of a model.

    `evidence` explains the repair, and `files` are its changes. `comparison` compares the questions before and after,
    or is None if it was not tried. `tokens` and `usd` are the usage of drafting and trying.
    """

    kind: str
    summary: str
    verdict: Verdict
    reason: str = ""
    files: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    comparison: Comparison | None = None
    tokens: int = 0
    usd: float = 0.0


@dataclass(slots=True)
class GroupReport(Record):
    """A group with its repairs.

    `drafting` are the ids of the questions that a draft may see, and `held` those that judge it. `way_out` is the hint
    for a person. `commit` contains its accepted repairs.
    """

    group: Group
    drafting: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    repairs: list[TriedRepair] = field(default_factory=list)
    verdict: Verdict = Verdict.NOT_DRAFTED
    reason: str = ""
    way_out: str | None = None
    commit: str | None = None

    json_keys = (
        *("id=group.id", "kind=group.kind", "connection=group.connection", "subject=group.subject"),
        *("weight=group.weight", "verdict", "reason", "way_out", "commit", "drafting", "held_out=held", "repairs"),
        "findings=group.findings",
    )

    @property
    def accepted(self) -> list[TriedRepair]:
        """The repairs on the branch."""
        return [each for each in self.repairs if each.verdict is Verdict.ACCEPTED]

    def settle(self) -> None:
        """Set the verdict to the best verdict among the group's repairs."""
        if not self.repairs:
            return
        best = min(self.repairs, key=lambda each: _ORDER.index(each.verdict))
        self.verdict, self.reason = best.verdict, best.reason
        self.way_out = None if best.verdict is Verdict.ACCEPTED else self.way_out


_ORDER: Final = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Score(Record):
    """The number of questions answered correctly in every run, and the number of questions."""

    right: int
    questions: int

    @classmethod
    def of(cls, results: Results) -> Score:
        """Return the score of the results."""
        asked = [each for each in results.values() if each.runs]
        return cls(sum(each.is_right for each in asked), len(asked))

    @property
    def share(self) -> float | None:
        """The share of correct answers, or None without questions."""
        return self.right / self.questions if self.questions else None

    json_keys = ("right", "questions", "share")


@dataclass(frozen=True, slots=True)
class QuestionRow(Record):
    """A question before the run and with all proposed repairs. `runs` is the number of attempts each time."""

    question: str
    before: int
    after: int
    runs: int


@dataclass(slots=True)
class EvolveReport(IngestReport):
    """A whole run: the `groups` in processing order, and the questions before and after.

    `proposed` is the branch with the accepted repairs, if any. `runs` is the number of attempts for each question in
    words, or 0 without a model.
    """

    groups: list[GroupReport] = field(default_factory=list)
    before: Score | None = None
    after: Score | None = None
    questions: list[QuestionRow] = field(default_factory=list)
    proposed: str | None = None
    runs: int = 0
    model: str = ""

    json_keys: ClassVar[tuple[str, ...]] = (
        *("run_id", "command", "dry_run", "status", "commit", "proposed", "model", "runs", "before", "after"),
        *("groups", "questions", "recovered", "created_repository", "llm", "seconds=_seconds", "failure", "stopped"),
        *("usage=spending", "files"),
    )

    @property
    def status(self) -> str:
        """`done`, `planned` (a dry run), `unchanged` (nothing is proposed), `partial`, `failed` or `interrupted`."""
        if self.ended is not None:
            return self.ended
        if self.stopped is not None:
            return "partial"
        if self.dry_run:
            return "planned"
        return "done" if self.proposed is not None else "unchanged"

    def error(self) -> KtxError | None:
        """Return the error that stopped the run, or None if it finished."""
        if self.stopped is None:
            return None
        if self.stopped.code in ("budget", "cancelled"):
            return self.stopped
        left = [each.group.id for each in self.groups if each.verdict is Verdict.NOT_TRIED]
        message = f"{self.stopped.message}; ktx kept the finished work; not tried: {listing(left) or 'nothing'}"
        return PartialError(message, hint=self.stopped.hint, code=self.stopped.code)

    @property
    def next_commands(self) -> list[Command]:
        """The commands to review and merge the proposed branch, and to make open decisions."""
        found = []
        if self.proposed is not None:
            found += [
                Command("log", "-p", f"HEAD..{self.proposed}", program="git"),
                Command("merge", self.proposed, program="git"),
            ]
        return found


def counted_verdicts(groups: Sequence[GroupReport]) -> str:
    """Return the number of groups by verdict, such as `2 accepted, 1 undecided`."""
    counts = {verdict: sum(each.verdict is verdict for each in groups) for verdict in Verdict}
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count) or "none"


def commit_message(report: GroupReport, run_id: str) -> str:
    """Return the commit message for a group: the change, the findings, and the questions before and after."""
    done = report.accepted
    subject = f"ktx evolve: {'; '.join(each.summary for each in done)}"
    subject = (
        subject if len(subject) <= _LONGEST_SUBJECT else f"ktx evolve: {report.group.kind.value} {report.group.subject}"
    )
    lines = [subject[:_LONGEST_SUBJECT], ""]
    reasons: set[str] = set()
    for each in report.group.findings[:_MOST_FINDINGS]:
        text = f" “{each.text}”" if each.text else ""
        reason = f": {each.reason}" if each.reason and each.reason not in reasons else ""
        reasons.add(each.reason)
        lines.append(f"- {each.kind.value}{text}{reason}")
    for repair in done:
        lines += [*(f"- {each}" for each in repair.evidence[:_MOST_FINDINGS]), *_comparison_lines(repair)]
    return "\n".join([*lines, "", f"Ktx-Run: {run_id}", ""])


_LONGEST_SUBJECT: Final = 72
_MOST_FINDINGS: Final = 10


def _comparison_lines(repair: TriedRepair) -> Iterator[str]:
    found = repair.comparison
    if found is None:
        return
    if found.improved:
        yield f"- held-out questions: {shown_change(found)}, none worse"
    elif found.compiled:
        yield f"- answered now: {listing(found.compiled, 5)}"


def shown_change(found: Comparison) -> str:
    """Return the correct answers to held-out questions before and after, such as `1 -> 3 of 4 runs`."""
    if not found.held:
        return "no held-out question"
    return f"{found.right_before} -> {found.right_after} of {plural(found.runs, 'run')}"


TABLE_COLUMNS: Final = ("group", "asked", "repair", "held-out", "verdict", "why")


def table_rows(groups: Sequence[GroupReport]) -> list[tuple[str, ...]]:
    """Return a row for each repair, and one for each group without repairs."""
    rows: list[tuple[str, ...]] = []
    for each in groups:
        weight = str(each.group.weight)
        if not each.repairs:
            rows.append((each.group.id, weight, "", "", each.verdict.value, each.reason))
        for repair in each.repairs:
            change = "" if repair.comparison is None else shown_change(repair.comparison)
            rows.append((each.group.id, weight, repair.summary, change, repair.verdict.value, repair.reason))
    return rows


def finding_rows(groups: Sequence[Group]) -> list[tuple[str, ...]]:
    """Return a row for each finding in the order of the groups."""
    return [
        (group.id, each.kind.value, str(each.count), each.text or each.about, each.reason, listing(each.places, 2))
        for group in groups
        for each in group.findings
    ]


FINDING_COLUMNS: Final = ("group", "finding", "times", "asked", "reason", "where")


def way_out_of(group: Group) -> Hint | Command | None:
    """Return the hint for a group without a repair."""
    if group.kind is GroupKind.DECISION:
        return Command("decide", group.subject)
    if group.kind is GroupKind.BROKEN:
        return Command("sl", "validate", "--no-data", "-c", group.connection)
    return None


def plain_command(command: Any) -> str | None:
    """Return a command or a hint as text."""
    return None if command is None else str(command)
