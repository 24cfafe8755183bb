"""Decision points: conventions that data cannot settle, with their readings, effects and people's answers.

This module also reads and edits `decisions.yaml`, which contains the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import ConfigError, one_line, yaml
from ktx_cli.project import DECISIONS_NAME, Tree


class DecisionKind(StrEnum):
    """The subject of a decision point."""

    INTERNAL = "internal"
    """Whether rows for tests, demos or the company itself count."""
    DELETED = "deleted"
    """Whether rows that are marked as deleted count."""
    DUPLICATES = "duplicates"
    """Whether rows with a duplicate natural key count."""
    MERGED = "merged"
    """Whether rows that were merged into another row count."""
    STAFF = "staff"
    """Whether people with an address of the company's own domain count."""
    STATUS = "status"
    """Which statuses count."""
    ENTITY = "entity"
    """Whether the entity or its parent is counted."""
    AMOUNT = "amount"
    """Which amount is summed: gross or net, with or without tax and discount."""
    UNIT = "unit"
    """Whether amounts are in minor units."""
    CURRENCY = "currency"
    """Whether amounts in several currencies are summed."""
    DATE = "date"
    """Which of several dates a row belongs to."""
    FISCAL_START = "fiscal_start"
    """The month in which the fiscal year begins."""
    NULLS = "nulls"
    """Whether a missing value counts, and as what."""


class DecisionState(StrEnum):
    """The state of a decision point."""

    OPEN = "open"
    """Nothing settles the point."""
    STATED = "stated"
    """A document, a dbt model or the query history states a convention that the definitions do not follow."""
    SETTLED = "settled"
    """The affected definitions follow a statement."""
    DECIDED = "decided"
    """A person has answered the point."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence or SQL that states a convention, with its file and line (from 1)."""

    text: str
    path: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Alternative:
    """One reading of a decision point, and its changes to measures.

    `filter` is a row condition over the point's source; measures of other sources use it with their join path. `expr`
    is another aggregate and `time` another time column, both only for measures of the point's source. Without any of
    these, measures do not change.
    """

    id: str
    label: str
    filter: str | None = None
    expr: str | None = None
    time: str | None = None

    @property
    def changes(self) -> bool:
        """Whether the reading changes measures."""
        return not (self.filter is None and self.expr is None and self.time is None)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A convention on which measures depend.

    `id` is stable as long as source, kind and columns are the same. `measures` are the affected measures as
    `source.measure`; if empty, these are all measures of the source and of sources that reach it by a single join path.
    `evidence` are sentences that explain the point. `spreads` maps measures to the largest relative difference between
    two readings, if computed.
    """

    id: str
    kind: DecisionKind
    source: str
    columns: tuple[str, ...]
    question: str
    alternatives: tuple[Alternative, ...]
    evidence: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    state: DecisionState = DecisionState.OPEN
    spreads: Mapping[str, float] = field(default_factory=dict)

    @property
    def spread(self) -> float:
        """The largest relative difference for a measure, or 0 if none was computed."""
        return max(self.spreads.values(), default=0.0)

    @property
    def telling_columns(self) -> tuple[str, ...]:
        """The columns that choose a reading if a query uses them.

        The key of the counted entity and amounts in several currencies are excluded, because every reading uses them.
        """
        return self.columns[:1] if self.kind in (DecisionKind.ENTITY, DecisionKind.CURRENCY) else self.columns

    @property
    def is_about_rows(self) -> bool:
        """Whether a reading has a row condition."""
        return any(each.filter is not None for each in self.alternatives)

    @property
    def is_unsettled(self) -> bool:
        """Whether the point is neither decided nor settled by definitions that follow a statement."""
        return self.state in (DecisionState.OPEN, DecisionState.STATED)

    @property
    def is_without_effect(self) -> bool:
        """Whether the readings were computed and give the same numbers."""
        return bool(self.spreads) and not self.spread

    def alternative(self, word: str) -> Alternative | None:
        """Return the alternative with this id or label, or None."""
        wanted = word.casefold()
        return next((each for each in self.alternatives if wanted in (each.id.casefold(), each.label.casefold())), None)


@dataclass(frozen=True, slots=True)
class Effect:
    """A measure's values under each reading. A reading without a value is None.

    `period` is the computed period, such as `2025-06` (the last complete month of the data), or None for all rows.
    """

    point: str
    measure: str
    values: Mapping[str, Decimal | None]
    period: str | None = None

    @property
    def spread(self) -> float:
        """The largest difference between two readings, relative to the first. Missing values count as 0."""
        known = [value or Decimal(0) for value in self.values.values()]
        if len(known) < 2:
            return 0.0
        base = abs(known[0]) or max(map(abs, known))
        return rounded_spread(float((max(known) - min(known)) / base)) if base else 0.0


def rounded_spread(spread: float) -> float:
    """Round a relative difference to three significant digits for the committed file."""
    return float(f"{spread:.3g}")


@dataclass(frozen=True, slots=True)
class DecisionAnswer:
    """A person's decision about a point.

    `decision` is the label of the chosen alternative at that time. `measures` are the changed measures as
    `source.measure`. `segment` is the name of their segment if the alternative is a row condition. `copied` are
    proposed measures that were copied to overlays. `replaced` are the previous values of `expr` or `time` by measure,
    and of settings in `ktx.yaml`. `decided_on` has the format YYYY-MM-DD.
    """

    connection: str
    point: str
    alternative: str
    decision: str
    decided_by: str
    decided_on: str
    reason: str | None = None
    segment: str | None = None
    measures: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()
    replaced: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)

    @property
    def signature(self) -> str:
        """The author and date on one line."""
        return f"by {self.decided_by} on {self.decided_on}"


@dataclass(frozen=True, slots=True)
class Decisions:
    """The decision points of a connection by id, with their effects and people's answers."""

    points: tuple[DecisionPoint, ...] = ()
    effects: tuple[Effect, ...] = ()
    answers: tuple[DecisionAnswer, ...] = ()
    connection: str = ""

    def answered(self) -> Decisions:
        """Return a copy in which points with a valid answer have the state `decided`."""
        by_point = {each.point: each for each in self.answers}
        points = tuple(
            replace(each, state=DecisionState.DECIDED)
            if each.id in by_point and each.alternative(by_point[each.id].alternative) is not None
            else each
            for each in self.points
        )
        return replace(self, points=points)

    def unsettled(self) -> list[DecisionPoint]:
        """Return the unsettled points, largest effect first, without those whose readings give the same numbers."""
        found = [each for each in self.points if each.is_unsettled and not each.is_without_effect]
        return sorted(found, key=lambda each: (-each.spread, each.id))

    def decided(self) -> list[tuple[DecisionPoint, Alternative, DecisionAnswer]]:
        """Return the decided points with the chosen alternatives and answers."""
        by_point = {each.point: each for each in self.answers}
        found = [(each, by_point[each.id]) for each in self.points if each.state is DecisionState.DECIDED]
        return [(each, chosen, answer) for each, answer in found if (chosen := each.alternative(answer.alternative))]

    def effects_of(self, point: DecisionPoint) -> list[Effect]:
        """Return a point's effects, sorted by decreasing difference, then by importance."""
        return sorted((each for each in self.effects if each.point == point.id), key=lambda each: -each.spread)


def is_touched(point: DecisionPoint, measure: str, reached: Collection[str]) -> bool:
    """Whether a measure (`source.measure`) depends on a point, unless all readings gave the same number.

    `reached` are the measure's source and the sources that it reaches by a single join path. The start of the fiscal
    year affects every measure, by fiscal periods.
    """
    if point.kind is DecisionKind.FISCAL_START:
        return point.spreads.get(measure, 1.0) > 0
    if is_named_for(point, measure):
        return False
    if point.measures and measure not in point.measures:
        return False
    if measure in point.spreads:
        return point.spreads[measure] > 0
    return bool(point.measures) or point.source in reached


def is_named_for(point: DecisionPoint, measure: str) -> bool:
    """Whether the name of a measure (`source.measure`) specifies its amount, so that the point does not affect it."""
    name = measure.rpartition(".")[2].casefold()
    return point.kind is DecisionKind.AMOUNT and any(column.casefold() in name for column in point.columns)


def percent(spread: float) -> str:
    """Format a relative difference as a percentage: `8.8 %`."""
    return f"{Decimal(f'{spread * 100:.2g}'):f}%" if spread < 1 else f"{spread * 100:,.0f}%"


_HEADER: Final = """\
# Decisions about conventions that the data cannot settle, with author and reason. Written by `ktx decide`.
# To change a decision, run `ktx decide POINT --as READING`; to undo it, run `ktx decide POINT --undo`.
"""
_ENTRIES: Final = "decisions"
_REQUIRED: Final = ("connection", "point", "alternative", "decision", "decided_by", "decided_on")
_OPTIONAL: Final = ("reason", "segment")
_LISTS: Final = ("measures", "copied")


def load_answers(tree: Tree, connection: str | None = None) -> list[DecisionAnswer]:
    """Return the decisions in a tree, for one connection or all. Raises `ConfigError` for an invalid file."""
    content = tree.read(DECISIONS_NAME)
    answers = [] if content is None else answers_in(content)
    return [each for each in answers if connection in (None, each.connection)]


def answers_in(content: bytes) -> list[DecisionAnswer]:
    """Parse the decisions in a file's content. Raises `ConfigError` for an invalid file."""
    return [_answer(each) for each in _entries(content)]


def with_answer(content: bytes | None, answer: DecisionAnswer) -> bytes:
    """Return the file content with a decision, replacing an earlier one about the same point.

    The rest of the file does not change. Raises `ConfigError` for a file that cannot be parsed or edited.
    """
    from ktx_cli.project import append_value, set_value

    stored = _stored(answer)
    if content is None:
        return f"{_HEADER}{yaml.dump({_ENTRIES: [stored]})}".encode()
    number = _number(content, answer.connection, answer.point)
    if number is None:
        return append_value(content, (_ENTRIES,), stored, where=DECISIONS_NAME)
    entry = _entries(content)[number]
    ours = (*_REQUIRED, *_OPTIONAL, *_LISTS, "replaced")
    kept = {key: value for key, value in entry.items() if key not in ours}
    return set_value(content, (_ENTRIES, number), {**stored, **kept}, where=DECISIONS_NAME)


def without_answer(content: bytes, connection: str, point: str) -> bytes | None:
    """Return the file content without the decision about a point, or None if the file becomes empty.

    Raises `ConfigError` for a file that cannot be parsed or edited.
    """
    from ktx_cli.project import delete_value

    number = _number(content, connection, point)
    if number is None:
        return content
    after = delete_value(content, (_ENTRIES, number), where=DECISIONS_NAME)
    return after if _entries(after) else None


def _number(content: bytes, connection: str, point: str) -> int | None:
    found = enumerate(answers_in(content))
    return next((number for number, each in found if (each.connection, each.point) == (connection, point)), None)


def _stored(answer: DecisionAnswer) -> dict[str, Any]:
    values = {name: getattr(answer, name) for name in (*_REQUIRED, *_OPTIONAL)}
    values |= {name: list(getattr(answer, name)) for name in _LISTS}
    values["replaced"] = {measure: dict(before) for measure, before in answer.replaced.items()}
    return {name: value for name, value in values.items() if value not in (None, [], {})}


def _entries(content: bytes) -> list[Any]:
    document = yaml.load(content, where=DECISIONS_NAME)
    found = (document or {}).get(_ENTRIES) if isinstance(document or {}, dict) else None
    if document and not isinstance(found, list | None):
        raise _unreadable(f"the value of `{_ENTRIES}`", "a list")
    return list(found or ())


def _answer(stored: Any) -> DecisionAnswer:
    try:
        connection, point, alternative, decision, by, day = (str(stored[name]) for name in _REQUIRED)
        answer = DecisionAnswer(connection, point, alternative, decision, by, day)
        replaced = {str(measure): dict(before) for measure, before in (stored.get("replaced") or {}).items()}
        texts = {name: str(stored[name]) for name in _OPTIONAL if stored.get(name) is not None}
        measures, copied = (tuple(map(str, stored.get(name) or ())) for name in _LISTS)
        return replace(answer, **texts, measures=measures, copied=copied, replaced=replaced)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        shown = stored.get("point") if isinstance(stored, dict) else stored
        wanted = "a decision with a connection, a point, an alternative, an author and a date"
        raise _unreadable(f"the entry `{one_line(str(shown), 80)}`", wanted) from error


def _unreadable(what: str, wanted: str) -> ConfigError:
    message = f"{DECISIONS_NAME}: {what} is not {wanted}"
    return ConfigError(message, hint=f"correct the entry, or restore {DECISIONS_NAME} from an earlier commit")
