"""The periods of a statement, as a common table expression with a single column, `period`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from sqlglot import exp

from ktx_cli.semantic.calendar import later, literal, nests, next_period, overflow, period_of, shift, spine, truncate
from ktx_cli.semantic.compile.build import Build, column, cte, identifier, is_present
from ktx_cli.semantic.compile.rows import Rows, counted_by, cut, in_range, row_conditions
from ktx_cli.semantic.expressions.names import Expression, Name
from ktx_cli.semantic.model import DAY, SECOND, WEEK, Cumulative, Span
from ktx_cli.semantic.plan.axis import reader
from ktx_cli.semantic.plan.plan import Leaf, TimeRange, Treatment, differs_in_length, earlier_range, instant, lines_up
from ktx_cli.warehouses import DateOrTimestamp


@dataclass(frozen=True, slots=True)
class Periods:
    """A common table expression with the period starts of a grain."""

    name: str
    grain: str

    @property
    def counted_by(self) -> str:
        """The grain at which row times are compared with periods."""
        return counted_by(self.grain)

    @property
    def kind(self) -> DateOrTimestamp:
        """The value type of the period starts."""
        return "date" if self.counted_by == DAY else "timestamp"

    @classmethod
    def of(cls, build: Build, fact: str, over: Name, seen: Expression, grain: str) -> Periods:
        """Return the periods in which any fact of the query has rows at that time, read from `seen`."""
        names = {fact: seen_periods(build, fact, over, grain, seen)}
        for leaf in map(build.plan.leaves.__getitem__, build.plan.wanted):
            time = build.time_of(build.names.model.sources[leaf.fact], leaf.treatment.time)
            if leaf.fact not in names and time is not None and _shares(build, leaf, time, grain):
                names[leaf.fact] = seen_periods(build, leaf.fact, time, grain)
        queries = list(names.values())
        return cls(queries[0] if len(queries) == 1 else _union(build, queries), grain)


def seen_periods(build: Build, fact: str, over: Name, grain: str, seen: Expression | None = None) -> str:
    """Return the name of the query for a fact's periods: those with rows, or with `fill` all from first to last.

    `seen` is the expression for the periods if it is not the column itself.
    """
    key = f"{fact}.{over if seen is None else seen.key}.{grain}"
    if key not in build.periods:
        rows = Rows(build, fact, time=over)
        start = cut(rows, over if seen is None else seen, grain)
        where = row_conditions(rows, build.plan)
        if build.plan.time_range is not None:
            where.append(in_range(rows, build.plan.time_range))
        where.append(is_present(start.copy()))
        query = rows.select([exp.Alias(this=start, alias=identifier("period"))]).distinct(copy=False)
        query = query.where(*where, copy=False)
        name = build.add(f"{fact}__periods", query)
        build.periods[key] = filled_periods(build, [name], grain) if build.plan.query.fill else name
    return build.periods[key]


def filled_periods(build: Build, seen: list[str], grain: str) -> str:
    """Return the name of the query for all periods from first to last, or within the time range."""
    key = f"filled.{'.'.join(seen)}.{grain}"
    if key not in build.periods:
        source = seen[0] if len(seen) == 1 else _union(build, seen)
        kind: DateOrTimestamp = "date" if counted_by(grain) == DAY else "timestamp"
        ends = [_end(build, source, grain, kind, last=last) for last in (False, True)]
        build.limits.append((grain, overflow(ends[0], ends[1], grain, build.clock(None))))
        build.periods[key] = build.add("periods", spine(ends[0], ends[1], grain, build.clock(None)))
    return build.periods[key]


def _shares(build: Build, leaf: Leaf, time: Name, grain: str) -> bool:
    """Return whether another fact uses the same periods, because its own time is truncated to them."""
    times = reader(build.names, build.plan, leaf.fact, time, leaf.treatment.time)
    return any(
        dimension.grain == grain and times.is_itself(dimension.expression) for dimension in build.plan.dimensions
    )


def _union(build: Build, names: list[str]) -> str:
    key = "union." + ".".join(names)
    if key not in build.periods:
        query: exp.Expr = exp.select(column("period", names[0])).from_(cte(names[0]))
        for name in names[1:]:
            query = exp.union(query, exp.select(column("period", name)).from_(cte(name)), distinct=True, copy=False)
        build.periods[key] = build.add("seen_periods", query)
    return build.periods[key]


def _end(build: Build, seen: str, grain: str, kind: DateOrTimestamp, *, last: bool) -> exp.Expr:
    """Return the first or last period, from the time range or from the data."""
    asked = build.plan.time_range
    if asked is not None:
        value = asked.end if last else asked.start
        if value is not None:
            moment = instant(value) - timedelta(microseconds=1) if last else instant(value)
            return literal(period_of(moment, grain, build.names.model.calendar), kind, build.dialect)
    pick = exp.Max if last else exp.Min
    return exp.Subquery(this=exp.select(pick(this=column("period", seen))).from_(cte(seen)))


@dataclass(frozen=True, slots=True)
class Window:
    """The fact rows for each period. `asked` is the time range of the query, if it is on `over`."""

    periods: Periods
    rows: Rows
    over: Name
    treatment: Treatment
    asked: TimeRange | None

    def condition(self) -> exp.Expr:
        """Return the condition that a row counts in a period."""
        start, end = self._stretch()
        cumulative = self.treatment.cumulative
        if cumulative is None:
            terms = self._earlier(start, end)
        else:
            terms = [exp.LT(this=self._moment(), expression=end), *self._since(cumulative, start, end)]
        return exp.and_(*terms, *self._cuts(), copy=False)

    def range(self) -> TimeRange | None:
        """Return the time range of all rows that count in any period."""
        if self.asked is None:
            return None
        asked, offset = self.asked, self.treatment.offset
        if self.treatment.cumulative is not None:
            asked = replace(asked, start=None)
        if offset is not None:
            start, end = earlier_range(asked.start, asked.end, offset)
            asked = replace(asked, start=start, end=end)
            if differs_in_length(offset, self.periods.grain):
                asked = self._widened(asked)
        return None if asked.start is None and asked.end is None else asked

    def notes(self) -> list[str]:
        """Return notes about earlier values: periods that are not shown, and values that do not add up."""
        offset, grain = self.treatment.offset, self.periods.grain
        if offset is None:
            return []
        result = []
        if not self.rows.build.plan.query.fill:
            result.append("a period without rows of its own is not shown, even if it has an earlier value; see fill")
        if not lines_up(offset, grain):
            result.append(
                f"periods of a {grain} are not {offset} apart: each is compared with its own days or hours shifted back"
                + ("; 52 weeks would compare whole weeks" if grain == WEEK else "")
            )
        if differs_in_length(offset, grain):
            result.append(
                f"months differ in length: by {grain}, values {offset} earlier need not add up to their total"
            )
        return result

    def _stretch(self) -> tuple[exp.Expr, exp.Expr]:
        """Return the start and end of the period or of the earlier period."""
        start: exp.Expr = column("period", self.periods.name)
        offset, grain = self.treatment.offset, self.periods.grain
        if offset is None:
            return start, self._next(start)
        if lines_up(offset, grain):
            start = truncate(self._shifted(start, offset), grain, self.periods.kind, self.rows.build.clock(None))
            return start, self._next(start)
        return self._shifted(start, offset), self._shifted(self._next(start), offset)

    def _earlier(self, start: exp.Expr, end: exp.Expr) -> list[exp.Expr]:
        offset = self.treatment.offset
        if offset is None or lines_up(offset, self.periods.grain):
            return [exp.EQ(this=cut(self.rows, self.over, self.periods.grain), expression=start)]
        moment = self._moment()
        return [exp.GTE(this=moment, expression=start), exp.LT(this=moment.copy(), expression=end)]

    def _since(self, cumulative: Cumulative, start: exp.Expr, end: exp.Expr) -> list[exp.Expr]:
        """Return the condition that a row is not before the start of the accumulation."""
        if cumulative.to_date is not None:
            return [self._to_date(cumulative.to_date, start, end)]
        if cumulative.window is None:
            return []
        whole = exp.GTE(this=self._moment(), expression=self._shifted(end, cumulative.window))
        last = self._cut_period(last=True)
        if last is None or self.asked is None or self.asked.end is None:
            return [whole]
        first_moment = later(self._moved_end(self.asked.end), -cumulative.window.count, cumulative.window.unit)
        return [self._unless_cut(whole, last, first_moment)]

    def _to_date(self, grain: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
        """Return the condition that a row is not before the month, quarter or year of the period's end."""
        kind, clock = self.periods.kind, self.rows.build.clock(None)
        if nests(self.periods.grain, grain, self.rows.names.model.calendar):  # it begins there, too
            return exp.GTE(this=self._moment(), expression=truncate(start.copy(), grain, kind, clock))
        last_day = shift(end.copy(), -1, DAY, kind, self.rows.build.dialect)
        whole = exp.GTE(this=self._moment(), expression=truncate(last_day, grain, kind, clock))
        last = self._cut_period(last=True)
        if last is None or self.asked is None or self.asked.end is None:
            return whole
        moment = self._moved_end(self.asked.end) - timedelta(microseconds=1)
        return self._unless_cut(whole, last, period_of(moment, grain, self.rows.names.model.calendar))

    def _unless_cut(self, whole: exp.Expr, last: exp.Expr, first: date | datetime) -> exp.Expr:
        """Return the condition for rows of a whole period, or from `first` in the last period if the range cuts it."""
        assert self.asked is not None
        shortened = in_range(self.rows, replace(self.asked, start=first, end=None))
        before, at = exp.LT(this=self._shown(), expression=last), exp.EQ(this=self._shown(), expression=last.copy())
        return exp.paren(exp.or_(exp.and_(before, whole), exp.and_(at, shortened)), copy=False)

    def _cuts(self) -> list[exp.Expr]:
        """Return the ends of the first and last period that the range cuts, unless `range` covers them."""
        offset = self.treatment.offset
        if self.asked is None or offset is None or not differs_in_length(offset, self.periods.grain):
            return []
        result: list[exp.Expr] = []
        first, last = self._cut_period(last=False), self._cut_period(last=True)
        if first is not None and self.treatment.cumulative is None:
            part = replace(self.asked, start=self._back(self.asked.start), end=None)
            result.append(exp.or_(exp.GT(this=self._shown(), expression=first), in_range(self.rows, part)))
        if last is not None:
            part = replace(self.asked, start=None, end=self._back(self.asked.end))
            result.append(exp.or_(exp.LT(this=self._shown(), expression=last), in_range(self.rows, part)))
        return [exp.paren(condition, copy=False) for condition in result]

    def _cut_period(self, *, last: bool) -> exp.Expr | None:
        """Return the start of the period that the start or end of the range cuts, or None."""
        value = None if self.asked is None else self.asked.end if last else self.asked.start
        if value is None:
            return None
        start = self._period_of(instant(value))
        if instant(start) == instant(value):
            return None
        return literal(start, self.periods.kind, self.rows.build.dialect)

    def _widened(self, moved: TimeRange) -> TimeRange:
        """Return a range that was shifted back by months, widened to the whole periods at its ends.

        Several days map to the same day of the previous month, so an uncut period may end after the shifted end.
        """
        assert self.asked is not None and self.treatment.offset is not None
        offset, start, end = self.treatment.offset, moved.start, moved.end
        if start is not None:
            start = self._period_of(instant(start))
        if self.asked.end is not None:
            last = self._period_of(instant(self.asked.end) - timedelta(microseconds=1))
            end = later(self._period_of(instant(later(last, -offset.count, offset.unit))), 1, self.periods.grain)
        return replace(moved, start=start, end=end)

    def _moved_end(self, end: date | datetime) -> datetime:
        offset = self.treatment.offset
        return instant(end) if offset is None else later(instant(end), -offset.count, offset.unit)

    def _back(self, value: date | datetime | None) -> date | datetime | None:
        return None if value is None else self._moved_end(value)

    def _period_of(self, value: datetime) -> date | datetime:
        return period_of(value, self.periods.grain, self.rows.names.model.calendar)

    def _shown(self) -> exp.Expr:
        return column("period", self.periods.name)

    def _next(self, start: exp.Expr) -> exp.Expr:
        return next_period(start.copy(), self.periods.grain, self.rows.build.dialect)

    def _shifted(self, value: exp.Expr, back: Span) -> exp.Expr:
        return shift(value.copy(), -back.count, back.unit, self.periods.kind, self.rows.build.dialect)

    def _moment(self) -> exp.Expr:
        """Return a row's time for comparison with periods: its day, or its second for finer grains."""
        return cut(self.rows, self.over, DAY if self.periods.counted_by == DAY else SECOND)
