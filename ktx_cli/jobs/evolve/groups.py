"""Groups findings that a single decision or repair would settle. A group is drafted, tried and reviewed as a unit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from ktx_cli.core import Record
from ktx_cli.jobs.decide.points import load_decisions
from ktx_cli.jobs.evolve.findings import Finding, FindingKind, KnownContext
from ktx_cli.semantic import DecisionPoint, DecisionState, Graph, is_touched, reached_from


class GroupKind(StrEnum):
    """What the findings in a group have in common."""

    BROKEN = "broken"
    """Invalid definitions in one source."""
    MISSING = "missing"
    """A missing definition."""
    DECISION = "decision"
    """An open decision that a person has to make."""
    REFERENCE = "reference"
    """A missing page or definition that pages refer to."""
    WORDS = "words"
    """Words without search results."""
    SOURCE = "source"
    """Questions about one source."""
    QUESTION = "question"
    """A question that refers to nothing in the context."""


@dataclass(frozen=True, slots=True)
class Group(Record):
    """Findings about the same `subject`: a source, a measure, a decision point or words.

    `questions` are the ids of trial questions among them.
    """

    kind: GroupKind
    connection: str
    subject: str
    findings: tuple[Finding, ...] = ()

    json_keys = ("id", "kind", "connection", "subject", "weight", "questions", "findings")

    @property
    def id(self) -> str:
        """The name in reports, such as `broken:warehouse/orders`."""
        where = f"{self.connection}/" if self.connection else ""
        return f"{self.kind.value}:{where}{self.subject}"

    @property
    def weight(self) -> int:
        """The number of failed requests. Broken definitions that nobody asked for count once."""
        return sum(each.count for each in self.findings)

    @property
    def questions(self) -> tuple[str, ...]:
        """The ids of the group's trial questions."""
        return tuple(dict.fromkeys(each.question for each in self.findings if each.question))


_KINDS: Final = tuple(GroupKind)


def group_findings(known: KnownContext, findings: Sequence[Finding]) -> list[Group]:
    """Group the findings, with broken definitions first, then by weight. Each finding is in one group.

    Raises `ConfigError` for an invalid `decisions.yaml`.
    """
    broken = {(each.connection, each.about) for each in findings if each.kind is FindingKind.BROKEN_DEFINITION}
    points = {each: list(_open_points(known, each)) for each in sorted(known.layers.dialects)}
    groups: dict[str, Group] = {}
    for each in findings:
        group = _group_of(known, each, broken, points)
        there = groups.setdefault(group.id, group)
        groups[group.id] = replace(there, findings=(*there.findings, each))
    return sorted(groups.values(), key=lambda each: (min(_KINDS.index(each.kind), 2), -each.weight, each.id))


def _group_of(
    known: KnownContext, finding: Finding, broken: set[tuple[str, str]], points: Mapping[str, Sequence[DecisionPoint]]
) -> Group:
    connection = finding.connection
    if finding.kind is FindingKind.BROKEN_REFERENCE:
        return Group(GroupKind.REFERENCE, connection, finding.about)
    if finding.kind is FindingKind.MISSED_SEARCH:
        return Group(GroupKind.WORDS, connection, finding.means or finding.about)
    sources = list(dict.fromkeys(each.partition(".")[0] for each in finding.names))
    culprit = next((each for each in sources if (connection, each) in broken), None)
    if finding.missing:
        return Group(GroupKind.MISSING, connection, finding.missing[0])
    if culprit is not None and finding.kind is not FindingKind.WRONG_ANSWER:
        return Group(GroupKind.BROKEN, connection, culprit)
    if finding.kind is FindingKind.WRONG_ANSWER:
        point = next((each for each in points.get(connection, ()) if _touches(known, connection, each, finding)), None)
        if point is not None:
            return Group(GroupKind.DECISION, connection, point.id)
    if sources:
        return Group(GroupKind.SOURCE, connection, sources[0])
    return Group(GroupKind.QUESTION, connection, finding.about)


def _open_points(known: KnownContext, connection: str) -> Iterator[DecisionPoint]:
    """Yield the open points, largest effect first."""
    loaded = load_decisions(known.tree, known.model(connection))
    yield from (each for each in loaded.decisions.unsettled() if each.state is DecisionState.OPEN)


def _touches(known: KnownContext, connection: str, point: DecisionPoint, finding: Finding) -> bool:
    """Whether a measure in a finding depends on a point."""
    model = known.model(connection)
    graph = Graph(model)
    for name in finding.names:
        source, _, member = name.partition(".")
        found = model.sources.get(source)
        if found is None or member not in found.measures:
            continue
        if is_touched(point, name, reached_from(graph, source, [point.source])):
            return True
    return False
