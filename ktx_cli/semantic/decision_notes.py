"""Notes in answers about decision points: open points with their effect, and definitions that ignore a decision."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from ktx_cli.core import Command, Hint, one_line
from ktx_cli.semantic.decisions import (
    Alternative,
    DecisionAnswer,
    DecisionKind,
    DecisionPoint,
    Decisions,
    Effect,
    is_touched,
    percent,
)
from ktx_cli.semantic.expressions.names import Expression
from ktx_cli.semantic.graph import graph_of, reached_from
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.masks import masked_sources
from ktx_cli.semantic.model import FISCAL_QUARTER, FISCAL_YEAR, Model, SemanticError
from ktx_cli.semantic.plan.plan import Leaf, Plan
from ktx_cli.semantic.readings import condition_in
from ktx_cli.semantic.visible import VisibleModel

_NAME: Final = re.compile(r"\w+")
_UNITS: Final = ((Decimal(10) ** 9, "B"), (Decimal(10) ** 6, "M"), (Decimal(10) ** 3, "k"))
_MOST: Final = 400
MASKED: Final = "hidden"
"""Replaces the id of a point that refers to hidden data."""
_MASKED_QUESTION: Final = "A convention about hidden data is undecided."
_LARGE: Final = 0.5
"""A more important measure represents a point if its effect is at least this share of the largest effect."""


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """An unsettled decision point on which an answer depends.

    `measure` is the measure that it changes most, if any. `effect` is the value of that measure under each reading, if
    known. `is_masked` means that the point refers to hidden data, so that only the size of the effect is shown.
    `is_limited` means that row policies apply to the rows that the readings count: the effect, computed from all rows,
    is not shown. `hides_values` means that values of the column are not shown either.
    """

    point: DecisionPoint
    measure: str | None = None
    effect: Effect | None = None
    is_masked: bool = False
    is_limited: bool = False
    hides_values: bool = False

    @property
    def spread(self) -> float | None:
        """The relative difference for the measure, or the largest known difference."""
        if self.measure is not None and self.measure in self.point.spreads:
            return self.point.spreads[self.measure]
        return self.point.spread or None

    def to_json(self, *, values: bool = True, private: bool = False) -> dict[str, Any]:
        """Return the entry for a receipt. Without `values`, it contains only the relative difference.

        If `private` is true, the question and the readings contain no values of rows.
        """
        effect = self.effect if values else None
        is_bare = self.is_masked or self._names_values(private=private)
        return {
            "id": MASKED if self.is_masked else self.point.id,
            "question": self.question_text(private=private),
            "measure": self.measure,
            "spread": self.spread,
            "period": None if effect is None else effect.period,
            "values": None if effect is None else {key: _json(value) for key, value in effect.values.items()},
            "readings": {} if is_bare else {each.id: each.label for each in self.point.alternatives},
        }

    def question_text(self, *, private: bool = False) -> str:
        """Return the point's question, or a generic one if it is masked or, with `private`, contains row values."""
        if self.is_masked:
            return _MASKED_QUESTION
        if self._names_values(private=private):
            return f"The {self.point.kind.value} of {self.point.source} is undecided."
        return self.point.question

    def _names_values(self, *, private: bool) -> bool:
        return (private or self.hides_values) and names_values(self.point)

    @property
    def command(self) -> Command:
        """The command that decides the point."""
        return Command("decide") if self.is_masked else Command("decide", self.point.id)

    def note(self, *, values: bool = True, private: bool = False) -> Hint:
        """Return the note for the point. See `to_json` for the parameters."""
        question, effect = self.question_text(private=private), self.effect_text(values=values)
        return Hint("open: {} {}; decide with `{}`", one_line(question, _MOST), effect, self.command)

    def effect_text(self, *, values: bool = True) -> str:
        """Return the effect on the measure as text: values, a relative difference, or that it is unknown."""
        if values and self.effect is not None:
            return effect_text(self.effect)
        spreads = {} if self.is_masked else self.point.spreads
        what = self.measure or max(spreads, key=lambda each: spreads[each], default=None)
        if what is None or not self.spread:
            why = "the effect is hidden because of row policies or masks"
            return why if self.is_limited else "the effect is unknown"
        return f"{what} differs by {percent(self.spread)}"


def _json(value: Decimal | None) -> int | float | None:
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() and abs(value) < 2**53 else float(value)


def effect_text(effect: Effect) -> str:
    """Return a measure's values under each reading: `subscriptions.mrr 2025-06: 1.94M or 2.11M`."""
    known = dict.fromkeys(short_number(value) for value in effect.values.values())
    if len(known) == 1 < len(set(effect.values.values())):  # the values differ only in digits that a short number drops
        known = dict.fromkeys("none" if each is None else f"{each:,}" for each in effect.values.values())
    when = f" {effect.period}" if effect.period else ""
    return f"{effect.measure}{when}: {' or '.join(known)}"


def short_number(value: Decimal | None) -> str:
    """Return a number with three significant digits and a unit (`1.94M`, `812`, `0.0532`), or `none`."""
    if value is None:
        return "none"
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{_plain(value / size)}{unit}"
    return _plain(value)


def _plain(value: Decimal) -> str:
    if value == value.to_integral_value():
        return f"{value:.0f}"
    text = f"{value:.3g}"
    return f"{Decimal(text):f}"


def names_hidden(visible: VisibleModel, point: DecisionPoint) -> bool:
    """Whether a point or one of its readings refers to a hidden source or column."""
    source = visible.model.sources.get(point.source)
    if source is None or not visible.has(source):
        return True
    shown = {each.name for each in visible.columns(source)}
    if not shown.issuperset(each for each in point.columns if each in source.columns):
        return True
    texts = (text for each in point.alternatives for text in (each.filter, each.expr, each.time))
    return not all(visible.can_show(source, text) for text in texts if text is not None)


def names_values(point: DecisionPoint) -> bool:
    """Whether a point or one of its readings contains row values, such as statuses or domains."""
    texts = (text for each in point.alternatives for text in (each.filter, each.expr) if text is not None)
    return point.kind is DecisionKind.STATUS or any("'" in text for text in texts)


def shown_decision(
    decisions: Decisions, visible: VisibleModel, point: DecisionPoint, measures: Iterable[str] = ()
) -> OpenDecision:
    """Return a point like `open_decision`, but without hidden information.

    Hidden are internal measures, the names of hidden data, and effects on measures with row policies.
    """
    limits = _Limits(visible.model)
    asked = [each for each in measures if is_shown(visible, each)]
    known = {*point.spreads, *(each.measure for each in decisions.effects_of(point))}
    limited = {each for each in (*asked, *known) if limits.limit(point, each)}
    wanted = [each for each in asked if each not in limited]
    has_effects = bool(wanted) or not asked  # do not show the effect on a measure that was not queried
    open_refs = {each for each in known - limited if has_effects and is_shown(visible, each)}
    spreads = {ref: spread for ref, spread in point.spreads.items() if ref in open_refs}
    shown = replace(point, spreads=spreads)
    is_limited = limits.is_limited(point.source) or bool(limited)
    if names_hidden(visible, point):
        measure = max(wanted, key=lambda each: spreads.get(each, 0.0), default=None)
        return OpenDecision(shown, measure, is_masked=True, is_limited=is_limited)
    effects = tuple(each for each in decisions.effects_of(point) if each.measure in open_refs)
    opened = open_decision(replace(decisions, effects=effects), shown, wanted)
    return replace(opened, is_limited=is_limited, hides_values=limits.is_limited(point.source))


class _Limits:
    """Determines which measures of a model depend on row policies or masks, which not every caller is exempt from."""

    def __init__(self, model: Model) -> None:
        self._model = model
        protected = lookup_of(model).protected()
        self._policed = frozenset(each for each in protected if model.sources[each].policies) | masked_sources(model)

    def is_limited(self, source: str) -> bool:
        """Whether a source has a row policy or a masked column."""
        return source in self._policed

    def limit(self, point: DecisionPoint, ref: str) -> bool:
        """Whether a measure (`source.measure`) may read a source with a policy or a mask under some reading."""
        home = self._model.sources.get(ref.partition(".")[0])
        if not self._policed or home is None:
            return False
        if point.source in self._policed or home.name in self._policed:
            return True
        texts = (text for each in home.measures.values() for text in (each.expr, each.filter) if text is not None)
        named = {word for text in texts for word in _NAME.findall(text)}
        return not self._policed.isdisjoint(named | reached_from(graph_of(self._model), home.name, self._policed))


def is_shown(visible: VisibleModel, ref: str) -> bool:
    """Whether a measure (`source.measure`) may be shown. Unknown measures are hidden."""
    name, _, measure = ref.rpartition(".")
    source = visible.model.sources.get(name)
    return source is not None and visible.has(source) and source.measures.get(measure) in visible.measures(source)


def open_decision(decisions: Decisions, point: DecisionPoint, measures: Iterable[str] = ()) -> OpenDecision:
    """Return a point with the measure that it changes most, among the given measures or all."""
    effects = decisions.effects_of(point)
    places = {each.measure: place for place, each in enumerate(effects)}
    wanted = sorted(measures, key=lambda each: places.get(each, len(places)))
    measure = max(wanted, key=lambda each: point.spreads.get(each, 0.0), default=None)
    effect = next((each for each in effects if each.measure == measure), None)
    if measure is None or measure not in point.spreads:
        large = (each for each in decisions.effects if each in effects and each.spread >= _LARGE * effects[0].spread)
        effect = effect or next(large, None)
        measure = measure if effect is None else effect.measure
    return OpenDecision(point, measure, effect)


def decision_text(point: DecisionPoint, answer: DecisionAnswer, *, private: bool) -> str:
    """Return the decision about a point with its author and date. If `private` is true, it contains no row values."""
    is_bare = private and names_values(point)
    decided = f"the {point.kind.value} of {point.source}" if is_bare else answer.decision.rstrip(".")
    return f"{decided} ({answer.signature})"


@dataclass(frozen=True, slots=True)
class DecidedOtherwise:
    """A decision that a definition ignores. `measure` is a measure reference or an aggregate of the query."""

    point: DecisionPoint
    chosen: Alternative
    answer: DecisionAnswer
    measure: str
    is_masked: bool = False
    """Whether the point refers to hidden data."""

    def note(self, *, private: bool = False) -> str:
        """Return the note. If `private` is true, it contains no row values."""
        if self.is_masked:
            return f"not as decided: {self.measure} does not follow a decision about hidden data"
        decided = decision_text(self.point, self.answer, private=private)
        return f"not as decided: {self.measure} does not follow the decision `{self.point.id}`: {decided}"


@dataclass(frozen=True, slots=True)
class PlanDecisions:
    """The open points on which a query depends, and the decisions that its definitions ignore."""

    open: tuple[OpenDecision, ...] = ()
    otherwise: tuple[DecidedOtherwise, ...] = ()

    def notes(self, *, values: bool = True) -> list[str]:
        """Return the notes for a receipt. Without `values`, they contain no row values."""
        opened = (each.note(values=values, private=not values) for each in self.open)
        return [*opened, *(each.note(private=not values) for each in self.otherwise)]

    def added_to(self, receipt: Mapping[str, Any], *, values: bool = True) -> dict[str, Any]:
        """Return a copy of the receipt that includes the notes."""
        notes = [*receipt.get("notes", ()), *self.notes(values=values)]
        opened = [each.to_json(values=values, private=not values) for each in self.open]
        return {**receipt, "notes": notes, "open": opened}


def decisions_of_plan(decisions: Decisions, model: Model, plan: Plan) -> PlanDecisions:
    """Return the decisions that the measures and aggregates in a query depend on."""
    fiscal = any(each.grain in (FISCAL_QUARTER, FISCAL_YEAR) for each in plan.dimensions)
    unsettled = [each for each in decisions.unsettled() if fiscal or each.kind is not DecisionKind.FISCAL_START]
    decided = decisions.decided()
    if not unsettled and not decided:
        return PlanDecisions()
    used = list(_used(plan))
    sources = {point.source for point in (*unsettled, *(point for point, _, _ in decided))}
    graph, visible = graph_of(model), VisibleModel(model)
    reached = {each.home: reached_from(graph, each.home, sources) for each in used}
    found = []
    for point in unsettled:
        touched = [each for each in used if _touches(point, each, reached[each.home])]
        refs = [each.ref for each in touched if not _has_condition(model, each, point, plan)]
        if refs:
            computed = [ref for ref in dict.fromkeys(refs) if ref in point.spreads]
            found.append(shown_decision(decisions, visible, point, computed))
    otherwise = [
        DecidedOtherwise(point, chosen, answer, each.ref, names_hidden(visible, point))
        for point, chosen, answer in decided
        for each in {each.ref: each for each in used}.values()
        if (fiscal if point.kind is DecisionKind.FISCAL_START else chosen.changes)
        if is_touched(point, each.ref, reached[each.home])
        if not all(_follows(model, point, chosen, other, plan) for other in used if other.ref == each.ref)
    ]
    return PlanDecisions(tuple(found), tuple(otherwise))


@dataclass(frozen=True, slots=True)
class _Used:
    """An aggregate in a query: its innermost measure, or the aggregate itself, and the source of its rows."""

    ref: str
    home: str
    leaf: Leaf


def _used(plan: Plan) -> Iterator[_Used]:
    for number, leaf in enumerate(plan.leaves):
        for chain in plan.named_by.get(number, [()]):
            named = [each for each in chain if "." in each]
            if named and leaf.home is not None:
                yield _Used(named[-1], named[-1].rpartition(".")[0], leaf)
            else:
                yield _Used(leaf.aggregate.text, leaf.fact, leaf)


def _touches(point: DecisionPoint, used: _Used, reached: Collection[str]) -> bool:
    """Whether a point applies to an aggregate, which may be a measure or a count or sum in the query itself."""
    if not point.measures or "(" not in used.ref:
        return is_touched(point, used.ref, reached)
    named = {each.column for each in used.leaf.aggregate.names if each.column is not None}
    if used.home != point.source:
        return False
    if point.kind is DecisionKind.ENTITY:
        return used.ref.casefold().startswith("count") and named <= set(point.columns)
    return point.kind is DecisionKind.CURRENCY and not named.isdisjoint(point.columns[1:])


def _has_condition(model: Model, used: _Used, point: DecisionPoint, plan: Plan) -> bool:
    """Whether an aggregate, its conditions or the query refer to a column of a point, which settles the point there.

    The aggregate of a measure does not count if the point is about the choice of that aggregate.
    """
    conditions = [*(each.expression for each in plan.filters), *used.leaf.conditions]
    is_about_aggregates = any(each.expr is not None for each in point.alternatives)
    if not is_about_aggregates or "(" in used.ref:
        conditions.append(used.leaf.aggregate)
    return any(_names(model, each, point) for each in conditions)


def _is_asked_for(model: Model, used: _Used, point: DecisionPoint, plan: Plan) -> bool:
    """Whether the query itself filters on a point's columns."""
    segments = (each for each in used.leaf.conditions if each.text in plan.query.segments)
    return any(_names(model, each, point) for each in (*(each.expression for each in plan.filters), *segments))


def _names(model: Model, expression: Expression, point: DecisionPoint) -> bool:
    for name in expression.names:
        source = name.hops[-1] if name.hops else expression.home
        is_alias = source is not None and source not in model.sources
        if name.column in point.telling_columns and (is_alias or source in (None, point.source)):
            return True
    return False


def _follows(model: Model, point: DecisionPoint, chosen: Alternative, used: _Used, plan: Plan) -> bool:
    """Whether an aggregate follows a decision, or the query overrides it."""
    if point.kind is DecisionKind.FISCAL_START:
        return chosen.id == str(model.calendar.fiscal_year_start)
    if chosen.filter is None:
        return _has_formula(model, chosen, used)
    if _is_asked_for(model, used, point, plan):
        return True
    try:
        wanted = condition_in(model, point, chosen.filter, used.home)
    except SemanticError:  # the record is out of date; the next scan updates it
        return True
    return any(_plain_text(each.text) == _plain_text(wanted) for each in used.leaf.conditions)


def _has_formula(model: Model, chosen: Alternative, used: _Used) -> bool:
    source, _, name = used.ref.rpartition(".")
    measure = model.sources[source].measures.get(name) if source in model.sources else None
    if measure is None:
        return True
    return chosen.expr in (None, measure.expr) and chosen.time in (None, measure.time)


def _plain_text(text: str) -> str:
    return "".join(text.split()).casefold()


def open_notes(
    found: Sequence[OpenDecision], *, values: bool = True, private: bool = False, most: int = 3
) -> list[str]:
    """Return the notes for the open points with the largest effects, and the number of further points."""
    ordered = sorted(found, key=lambda each: -(each.spread or 0.0))
    more = len(ordered) - most
    notes: list[str] = [each.note(values=values, private=private) for each in ordered[:most]]
    return [*notes, Hint("open: {} more; `{}` lists them", more, Command("decide"))] if more > 0 else notes
