"""Which rows of a fact count in a period: those of a window that ends with it, those of an earlier one.

A period the question's time range cuts is cut in these too: its window hangs on the earlier of both ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from sqlglot import exp

from ktx_cli.context.semantic.compiling.build import column
from ktx_cli.context.semantic.compiling.periods import Periods
from ktx_cli.context.semantic.compiling.rows import Rows
from ktx_cli.context.semantic.compiling.times import cut, in_range
from ktx_cli.context.semantic.expressions.names import Name
from ktx_cli.context.semantic.model import DAY, SECOND, WEEK, Cumulative, Span
from ktx_cli.context.semantic.planning.plan import TimeRange, Treatment
from ktx_cli.context.semantic.planning.ranges import differs_in_length, earlier_range, instant, lines_up
from ktx_cli.context.semantic.time import later, literal, next_period, period_of, shift, truncate
from ktx_cli.context.semantic.time.calendar import nests


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of a fact that count in the periods; `asked`: the question's time range, where it is on `over`."""

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
        """Return the stretch of time in which all rows lie that count in any period."""
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
        """Return what a reader of earlier values should know: which rows are not shown, what does not add up."""
        offset, grain = self.treatment.offset, self.periods.grain
        if offset is None:
            return []
        found = []
        if not self.rows.build.plan.query.fill:
            found.append("a period without rows of its own is not shown, also where it has an earlier value; see fill")
        if not lines_up(offset, grain):
            found.append(
                f"periods of a {grain} do not lie {offset} apart: each is held against its own days or hours moved back"
                + ("; 52 weeks would compare whole weeks" if grain == WEEK else "")
            )
        if differs_in_length(offset, grain):
            found.append(f"months differ in length: by {grain}, values {offset} earlier need not add up to their total")
        return found

    def _stretch(self) -> tuple[exp.Expr, exp.Expr]:
        """Return start and end of the period, or of what is so much earlier."""
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
        """Return the condition that a row is not before what is accumulated."""
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
        """Return the condition that a row is not before the month, quarter or year in which the period ends."""
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
        """Return the condition on rows of a whole period; in the last one, which the range cuts, not before `first`."""
        assert self.asked is not None
        shortened = in_range(self.rows, replace(self.asked, start=first, end=None))
        before, at = exp.LT(this=self._shown(), expression=last), exp.EQ(this=self._shown(), expression=last.copy())
        return exp.paren(exp.or_(exp.and_(before, whole), exp.and_(at, shortened)), copy=False)

    def _cuts(self) -> list[exp.Expr]:
        """Return where the first and the last period end that the range cuts, where `range` does not say it."""
        offset = self.treatment.offset
        if self.asked is None or offset is None or not differs_in_length(offset, self.periods.grain):
            return []
        found: list[exp.Expr] = []
        first, last = self._cut_period(last=False), self._cut_period(last=True)
        if first is not None and self.treatment.cumulative is None:
            part = replace(self.asked, start=self._back(self.asked.start), end=None)
            found.append(exp.or_(exp.GT(this=self._shown(), expression=first), in_range(self.rows, part)))
        if last is not None:
            part = replace(self.asked, start=None, end=self._back(self.asked.end))
            found.append(exp.or_(exp.LT(this=self._shown(), expression=last), in_range(self.rows, part)))
        return [exp.paren(each, copy=False) for each in found]

    def _cut_period(self, *, last: bool) -> exp.Expr | None:
        """Return the start of the period the range's start or end lies in, None where it cuts none."""
        value = None if self.asked is None else self.asked.end if last else self.asked.start
        if value is None:
            return None
        start = self._period_of(instant(value))
        if instant(start) == instant(value):
            return None
        return literal(start, self.periods.kind, self.rows.build.dialect)

    def _widened(self, moved: TimeRange) -> TimeRange:
        """Return a range moved back by months that has the whole of the periods its ends lie in.

        Several days have the same day a month before, so a period of which nothing is cut may end behind the moved end.
        """
        assert self.asked is not None and self.treatment.offset is not None
        offset, start, end = self.treatment.offset, moved.start, moved.end
        if start is not None:
            start = self._period_of(instant(start))
        if self.asked.end is not None:
            last = self._period_of(instant(self.asked.end) - timedelta(microseconds=1))
            before = self._period_of(instant(later(last, -offset.count, offset.unit)))
            end = later(before, 1, self.periods.grain)
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
        """Return a row's time as it is held against periods: its day, its second where they are under a day."""
        return cut(self.rows, self.over, DAY if self.periods.counted_by == DAY else SECOND)
