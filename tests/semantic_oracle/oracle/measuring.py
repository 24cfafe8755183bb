"""The value of a measure for a group, and the groups a measure has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.semantic_oracle.oracle.aggregates import aggregate
from tests.semantic_oracle.oracle.binding import Bound, Cumulative, Formula, Leaf, Offset, PercentOf, TwoLevel, leaves
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.frames import Frame, Member
from tests.semantic_oracle.oracle.nodes import Lit, Node, Ref
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.question import Question
from tests.semantic_oracle.oracle.rows import World
from tests.semantic_oracle.oracle.slices import EVERYTHING, Slice, Window, fits
from tests.semantic_oracle.oracle.times import Calendar, following, meets_periods, moved, parse_span, periods, truncate
from tests.semantic_oracle.oracle.values import evaluate, moment, truth

Key = tuple[Any, ...]


class Measuring:
    """Answers for one question over one world."""

    def __init__(self, question: Question, world: World, calendar: Calendar):
        self.question = question
        self.world = world
        self.calendar = calendar
        self._frames: dict[tuple[str, str | None], Frame] = {}
        self.shown = None if question.range is None else Window(*question.range)

    def frame(self, fact: str, time: str | None) -> Frame:
        """Return the fact's rows with their groups."""
        if (fact, time) not in self._frames:
            self._frames[fact, time] = Frame(self.question, self.world, self.calendar, fact, time)
        return self._frames[fact, time]

    def value(self, bound: Bound, part: Slice) -> Any:
        """Return a measure's value over a slice."""
        if isinstance(bound, Leaf):
            return self._leaf(bound, part)
        if isinstance(bound, Formula):
            values = {node: self.value(each, part) for node, each in bound.parts}
            return evaluate(bound.node, values.__getitem__)
        if isinstance(bound, PercentOf):
            return self._percent(bound, part)
        if isinstance(bound, TwoLevel):
            return self._two_level(bound, part)
        return self._earlier(bound, part) if isinstance(bound, Offset) else self._cumulated(bound, part)

    def _members(self, leaf: Leaf, part: Slice, keys: Sequence[tuple[Node, str]] = ()) -> list[Member]:
        return [
            each
            for each in self.frame(leaf.fact, leaf.time).members(keys)
            if (part.window is None or part.window.holds(each.moment)) and any(map(part.takes, each.groups))
        ]

    def _leaf(self, leaf: Leaf, part: Slice, keys: Sequence[tuple[Node, str]] = ()) -> Any:
        frame = self.frame(leaf.fact, leaf.time)
        rows = [each.row for each in self._members(leaf, part, keys)]
        if leaf.semi is not None:
            return self._semi_additive(leaf, part, rows)
        return self._aggregated(frame, leaf, rows)

    def _aggregated(self, frame: Frame, leaf: Leaf, rows: Iterable[Any]) -> Any:
        kept = [r for r in rows if all(truth(frame.value(r, node, home)) is True for node, home in leaf.conditions)]
        if leaf.call.star:
            return len(kept)
        if leaf.call.name == "percentile":
            share = leaf.call.args[1]
            assert isinstance(share, Lit)
            return aggregate(
                "percentile", [frame.value(r, leaf.call.args[0], leaf.home) for r in kept], share=share.value
            )
        values = [tuple(frame.value(r, arg, leaf.home) for arg in leaf.call.args) for r in kept]
        return aggregate(leaf.call.name, [_single(each) for each in values], distinct=leaf.call.distinct)

    def _semi_additive(self, leaf: Leaf, part: Slice, rows: list[Any]) -> Any:
        over, take, per = leaf.semi
        frame = self.frame(leaf.fact, leaf.time)
        if take == "average":
            return self._averaged(frame, leaf, over, rows)
        ends: dict[Key, Any] = {}
        for row in self._in_period(frame, over, part):
            when, key = self._raw(frame, row, over), tuple(self._raw(frame, row, each) for each in per)
            if when is not None and frame.holds_conditions_on(row, leaf.conditions, over):
                ends[key] = when if key not in ends else (max if take == "last" else min)(ends[key], when)
        return self._aggregated(frame, leaf, [r for r in rows if self._is_end(frame, r, over, per, ends)])

    def _averaged(self, frame: Frame, leaf: Leaf, over: str, rows: list[Any]) -> Any:
        times = dict.fromkeys(self._raw(frame, row, over) for row in rows)
        each = [self._aggregated(frame, leaf, [r for r in rows if self._raw(frame, r, over) == at]) for at in times]
        return aggregate("avg", each)

    def _raw(self, frame: Frame, row: Any, column: str) -> Any:
        return self.world.value(frame.fact, row, column)

    def _is_end(self, frame: Frame, row: Any, over: str, per: Sequence[str], ends: dict[Key, Any]) -> bool:
        when = self._raw(frame, row, over)
        return when is not None and ends.get(tuple(self._raw(frame, row, each) for each in per)) == when

    def _in_period(self, frame: Frame, over: str, part: Slice) -> list[Any]:
        """Return all rows of the fact in the slice's period and time range; of the filters those on `over` hold."""
        place = self._place_of(frame, over)
        rows = [row for row in self.world.rows(frame.fact) if frame.holds_on(row, over)]
        if part.window is not None:
            rows = [row for row in rows if part.window.holds(frame.moment_of(row))]
        if place is None:
            return rows
        return [row for row in rows if fits(part.wanted[place], frame.read({(): row}, frame.columns[place]))]

    def _place_of(self, frame: Frame, column: str | None) -> int | None:
        """Return which dimension is a time column of the fact's own."""
        for place, each in enumerate(frame.columns):
            if each.place.path == () and each.place.column == column:
                return place
        return None

    def time_place(self, bound: Bound, over: str | None = None) -> int | None:
        """Return which dimension, cut to a grain, is the measure's time."""
        leaf = next(leaves(bound))
        frame = self.frame(leaf.fact, leaf.time)
        place = self._place_of(frame, over or leaf.time)
        return place if place is not None and frame.columns[place].grain else None

    def _percent(self, bound: PercentOf, part: Slice) -> Any:
        kept = {self.question.dimension_named(_ref(text)) for text in bound.kept}
        wanted = tuple(each if place in kept else EVERYTHING for place, each in enumerate(part.wanted))
        value, whole = self.value(bound.inner, part), self.value(bound.inner, replace(part, wanted=wanted))
        return evaluate(parse("100 * value / whole"), lambda ref: value if ref == _ref("value") else whole)

    def _two_level(self, bound: TwoLevel, part: Slice) -> Any:
        leaf = next(leaves(bound.inner))
        tail = len(bound.keys)
        open_end = replace(part, wanted=part.wanted + (EVERYTHING,) * tail)
        members = self._members(leaf, open_end, bound.keys)
        found = dict.fromkeys(
            tuple(c.value for c in g[-tail:]) for each in members for g in each.groups if open_end.takes(g)
        )
        values = [self._keyed(bound.inner, replace(part, wanted=part.wanted + key), bound.keys) for key in found]
        return aggregate(bound.call.name, values, distinct=bound.call.distinct)

    def _keyed(self, bound: Bound, part: Slice, keys: Sequence[tuple[Node, str]]) -> Any:
        if isinstance(bound, Leaf):
            return self._leaf(bound, part, keys)
        assert isinstance(bound, Formula)
        values = {node: self._keyed(each, part, keys) for node, each in bound.parts}
        return evaluate(bound.node, values.__getitem__)

    def _earlier(self, bound: Offset, part: Slice) -> Any:
        place = self.time_place(bound)
        if place is not None and part.wanted[place] is not EVERYTHING:
            period = part.wanted[place]
            wanted = Window(None, datetime.min) if period is None else self.before(bound, period, place)
            return self.value(bound.inner, part.at(place, wanted))
        return self.value(bound.inner, replace(part, window=self._whole_window(bound)))

    def asked(self, bound: Bound, period: Any, place: int) -> Window:
        """Return the moments of a period, without what the time range cuts off."""
        grain = self.question.dimensions[place].grain
        assert grain is not None
        start, end = moment(period), following(period, grain)
        leaf = next(leaves(bound))
        first, last = self.frame(leaf.fact, leaf.time).range_on(place)
        return Window(max(start, first) if first else start, min(end, last) if last else end, start)

    def before(self, bound: Offset, period: Any, place: int) -> Window:
        """Return the moments the offset leads to: those of a period, or the same ones moved where none lies there."""
        grain = self.question.dimensions[place].grain
        assert grain is not None
        shown, (count, unit) = self.asked(bound, period, place), bound.span or (1, grain)
        assert shown.start is not None and shown.end is not None
        origin, start, end = (moved(each, -count, unit) for each in (moment(period), shown.start, shown.end))
        if not meets_periods(count, unit, grain):
            return Window(start, end, origin)
        there = truncate(origin, grain, self.calendar)
        start = moment(there) if shown.start == moment(period) else start
        end = following(there, grain) if shown.end == following(period, grain) else end
        return Window(start, end, moment(there))

    def _whole_window(self, bound: Offset | Cumulative) -> Window | None:
        """Return the moments that count where nothing is cut into periods."""
        if isinstance(bound, Offset):
            return self._range_before(bound)
        return None if self.shown is None else Window(None, self.shown.end)

    def _range_before(self, bound: Offset) -> Window:
        if self.shown is None or self.shown.start is None or self.shown.end is None:
            raise OracleError("query", "an offset needs a time dimension or a time range")
        start, end = self.shown.start, self.shown.end
        if bound.span is None:
            return Window(start - (end - start), start)
        count, unit = bound.span
        return Window(moved(start, -count, unit), moved(end, -count, unit))

    def _cumulated(self, bound: Cumulative, part: Slice) -> Any:
        place = self.time_place(bound, bound.over)
        if place is None or part.wanted[place] is EVERYTHING:
            if bound.window or bound.to_date:
                raise OracleError("query", "a window needs a time dimension")
            return self.value(bound.inner, replace(part, window=self._whole_window(bound)))
        period = part.wanted[place]
        wanted = Window(None, datetime.min) if period is None else self.reach(bound, period, place)
        return self.value(bound.inner, part.at(place, wanted))

    def reach(self, bound: Cumulative, period: Any, place: int) -> Window:
        """Return the moments a period's value counts."""
        part = period if isinstance(period, Window) else self.asked(bound, period, place)
        assert part.end is not None
        if bound.window:
            count, unit = parse_span(bound.window)
            return Window(moved(part.end, -count, unit), part.end)
        if bound.to_date:
            last = part.end - timedelta(microseconds=1)
            return Window(moment(truncate(last, bound.to_date, self.calendar)), part.end)
        return Window(None, part.end)

    def keys(self, bound: Bound, seen: Sequence[Any]) -> set[Key]:
        """Return the groups a measure has; `seen`: the periods of the result."""
        if isinstance(bound, Leaf):
            return self.groups(bound, self.shown)
        if isinstance(bound, Formula):
            return set().union(*(self.keys(each, seen) for _, each in bound.parts))
        place = self.time_place(bound, bound.over if isinstance(bound, Cumulative) else None)
        if isinstance(bound, PercentOf | TwoLevel):
            return self.keys(bound.inner, seen)
        if place is None:
            return set().union(*(self.groups(leaf, self._whole_window(bound)) for leaf in leaves(bound)))
        if isinstance(bound, Offset):
            return self._keys_before(bound, seen, place)
        return self._keys_cumulated(bound, seen, place)

    def groups(self, leaf: Leaf, window: Window | None) -> set[Key]:
        """Return the groups of the fact's rows within a time range."""
        part = Slice((EVERYTHING,) * len(self.question.dimensions), window)
        return {tuple(c.value for c in g) for each in self._members(leaf, part) for g in each.groups}

    def _keys_before(self, bound: Offset, seen: Sequence[Any], place: int) -> set[Key]:
        found = set()
        for period in seen:
            wanted = self.before(bound, period, place)
            if isinstance(bound.inner, Cumulative):
                wanted = self.reach(bound.inner, wanted, place)
            for leaf in leaves(bound):
                found |= self._groups_in(leaf, wanted, period, place)
        return found

    def _keys_cumulated(self, bound: Cumulative, seen: Sequence[Any], place: int) -> set[Key]:
        found = set()
        for leaf in leaves(bound):
            own = {key[place] for key in self.groups(leaf, self.shown)} - {None}
            for period in seen if self.question.query.get("fill") else own:
                found |= self._groups_in(leaf, self.reach(bound, period, place), period, place)
        return found

    def _groups_in(self, leaf: Leaf, wanted: Window, period: Any, place: int) -> set[Key]:
        """Return the groups of the rows in a window, with the period they count in."""
        wish = Slice((EVERYTHING,) * len(self.question.dimensions), None).at(place, wanted)
        taken = [group for each in self._members(leaf, wish) for group in each.groups if wish.takes(group)]
        return {tuple(period if i == place else cell.value for i, cell in enumerate(group)) for group in taken}

    def seen(self, bounds: Iterable[Bound]) -> list[Any]:
        """Return the periods of the result: those with rows, and with `fill` all between."""
        found: set[Any] = set()
        place = None
        for bound in bounds:
            for leaf in leaves(bound):
                place = self.time_place(leaf)
                if place is not None:
                    found |= {key[place] for key in self.groups(leaf, self.shown)}
        place = self.time_dimension()
        return [] if place is None else self.spread(found - {None}, place)

    def time_dimension(self) -> int | None:
        """Return which dimension is cut to a grain."""
        return next((place for place, each in enumerate(self.question.dimensions) if each.grain), None)

    def spread(self, found: set[Any], place: int) -> list[Any]:
        """Return periods in order; with `fill` all from first to last, or all the time range touches."""
        grain = self.question.dimensions[place].grain
        assert grain is not None
        if not self.question.query.get("fill"):
            return sorted(found)
        start, end = self.question.range or (None, None)
        first = truncate(start, grain, self.calendar) if start else min(found, default=None)
        last = self._last(end, grain) if end else max(found, default=None)
        return [] if first is None or last is None else periods(first, last, grain, self.calendar)

    def _last(self, end: datetime, grain: str) -> Any:
        last = truncate(end, grain, self.calendar)
        return truncate(moved(moment(last), -1, grain), grain, self.calendar) if moment(last) == end else last


def _single(values: tuple[Any, ...]) -> Any:
    if len(values) == 1:
        return values[0]
    return None if None in values else values


def _ref(text: str) -> Ref:
    node = parse(text)
    assert isinstance(node, Ref)
    return node
