"""Computes the effects of decision points: queries the measures under each reading on the database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import CancelledError, Command, Hint, KtxError, ResultWarning, monotonic, plural
from ktx_cli.project import KtxConfig, Layout, Tree
from ktx_cli.semantic import (
    DecisionKind,
    DecisionPoint,
    Decisions,
    Effect,
    Graph,
    Model,
    Source,
    TouchedMeasure,
    compile_query,
    is_additive,
    reached_from,
    readings_of,
    sql_name,
    time_expression,
    time_of,
    touched_measures,
)
from ktx_cli.warehouses import SemanticType

if TYPE_CHECKING:
    from ktx_cli.warehouses import Connector, Opener

_STEADY: Final = 0.2
"""The committed spread is kept if the spread changes by at most this share."""

_MOST_MONTHS: Final = 120
"""Number of months to read for the effect of the fiscal year. A calendar may extend far into the future."""

MOST_MEASURES: Final = 5
"""Maximum number of measures to compute for a point."""


@dataclass(slots=True)
class EffectBudget:
    """Limits the number of effect statements on a connection, and the time for starting new ones."""

    statements: int = 200
    seconds: float = 60.0
    clock: Callable[[], float] = monotonic
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    def take(self) -> bool:
        """Count one statement. Returns False if the budget is exhausted."""
        self.statements -= 1
        return self.statements >= 0 and self.clock() < self._until


class _UsedUp(Exception):
    """The budget is exhausted."""


@dataclass(frozen=True, slots=True)
class Computed:
    """The computed effects, and warnings about failures. `decisions` are the points with updated spreads."""

    effects: tuple[Effect, ...] = ()
    warnings: tuple[ResultWarning, ...] = ()
    decisions: Decisions = field(default_factory=Decisions)


def compute_effects(
    model: Model, points: Sequence[DecisionPoint], connector: Connector, *, now: datetime, budget: EffectBudget
) -> Computed:
    """Compute the measures that points affect under each reading, on an open, guarded connection.

    The period is the last complete month of the data. If all readings agree there or the measure has no time, it is all
    rows, except for a choice between dates. A measure that cannot be computed leads to a warning.
    """
    computing = _Computing(model, connector, now, budget)
    effects: list[Effect] = []
    warnings: list[ResultWarning] = []
    for place, point in enumerate(points):
        failures: dict[str, str] = {}
        try:
            effects += computing.of_point(point, failures)
        except _UsedUp:
            left = len(points) - place
            message = (
                f"the effects of {plural(left, 'decision point')} were not computed, because the scan reached its limit"
            )
            hint = Hint("list the decision points with {}", Command("decide"))
            warnings.append(ResultWarning("decision_effects", message, hint=hint, connection=model.connection))
            break
        if failures:
            measure, reason = next(iter(failures.items()))
            more = f" (and {plural(len(failures) - 1, 'more measure')})" if len(failures) > 1 else ""
            message = f"the effect of `{point.id}` on `{measure}`{more} was not computed: {reason}"
            hint = Hint("show the point with {}", Command("decide", point.id))
            warnings.append(ResultWarning("decision_effects", message, hint=hint, connection=model.connection))
    return Computed(tuple(effects), tuple(warnings))


class _Computing:
    """Computes effects on one connection, and caches the last time of each source."""

    def __init__(self, model: Model, connector: Connector, now: datetime, budget: EffectBudget) -> None:
        self._model, self._connector, self._now, self._budget = model, connector, now, budget
        self._graph = Graph(model)
        self._months: dict[str, date | None] = {}

    def of_point(self, point: DecisionPoint, failures: dict[str, str]) -> Iterator[Effect]:
        done = 0
        if point.kind is DecisionKind.FISCAL_START:
            yield from self._of_fiscal_year(point, failures)
            return
        measures = touched_measures(self._model, self._graph, point)
        sums = {each.ref for each in measures if is_additive(self._model, each)}
        for touched in measures if any(each.changes for each in point.alternatives) else ():
            if sums and touched.measure.is_proposed and touched.ref not in sums:
                continue
            if done >= MOST_MEASURES:
                return
            try:
                effect = self._effect(point, touched)
            except CancelledError:
                raise
            except KtxError as error:
                if error.code != "hidden":  # this measure cannot be queried with this time
                    failures[touched.ref] = error.message
                continue
            if effect is not None:
                done += 1
                yield effect

    def _of_fiscal_year(self, point: DecisionPoint, failures: dict[str, str]) -> Iterator[Effect]:
        """Yield fiscal-year-to-date sums and counts up to the last complete month, for each start month."""
        done = 0
        for touched in touched_measures(self._model, self._graph, point):
            if done >= MOST_MEASURES:
                return
            if not is_additive(self._model, touched) or "distinct" in touched.measure.expr.casefold():
                continue
            try:
                effect = self._fiscal_effect(point, touched)
            except CancelledError:
                raise
            except KtxError as error:
                if error.code != "hidden":
                    failures[touched.ref] = error.message
                continue
            if effect is not None:
                done += 1
                yield effect

    def _fiscal_effect(self, point: DecisionPoint, touched: TouchedMeasure) -> Effect | None:
        """Return the effect on a measure, using its own time or the first time of its source or calendar."""
        source = touched.source
        own = time_of(source, touched.measure.time)
        time = (source.name, own.column) if own is not None else self._first_time(point, source)
        if time is None:
            return None
        field = sql_name(time, self._model.dialect)
        expr = sql_name((source.name, touched.measure.name), self._model.dialect)
        query = {
            "measures": [{"expr": expr, "name": "value"}],
            "dimensions": [{"field": field, "granularity": "month", "name": "month"}],
            "order_by": [{"field": "month", "direction": "desc"}],
            "limit": _MOST_MONTHS,
        }
        rows = ((_day(start), _number(value)) for start, value in self._rows(self._model, query, _MOST_MONTHS))
        by_month = {start: value for start, value in rows if start and value and start <= self._now.date()}
        months = sorted(by_month)[:-1]
        if not months:
            return None
        values = {
            each.id: sum(
                (by_month[month] for month in months if month >= _latest(int(each.id), months[-1])), Decimal(0)
            )
            for each in point.alternatives
        }
        by = f" by {'.'.join(time)}" if own is None else ""
        return Effect(point.id, touched.ref, values, f"fiscal year to {months[-1]:%Y-%m}{by}")

    def _first_time(self, point: DecisionPoint, source: Source) -> tuple[str, str] | None:
        """Return the first time of a source, or of the point's source if it is reachable over to-one joins."""
        reached = [source, self._model.sources[point.source]] if self._reaches(source, point) else [source]
        times = ((each.name, column) for each in reached for column in each.columns.values())
        return next(((name, column.name) for name, column in times if column.type is SemanticType.TIME), None)

    def _reaches(self, source: Source, point: DecisionPoint) -> bool:
        return point.source in reached_from(self._graph, source.name, [point.source])

    def _effect(self, point: DecisionPoint, touched: TouchedMeasure) -> Effect | None:
        month = self._last_month(touched)
        if point.kind is DecisionKind.DATE:  # over all rows, every date gives the same result
            return None if month is None else self._computed(point, touched, month)
        effect = None if month is None else self._computed(point, touched, month)
        return self._computed(point, touched, None) or effect if effect is None or not effect.spread else effect

    def _computed(self, point: DecisionPoint, touched: TouchedMeasure, month: date | None) -> Effect | None:
        readings = readings_of(self._model, touched, point)
        query: dict[str, Any] = {"measures": list(readings.query_measures), "limit": 1}
        if month is not None:
            query["time_range"] = {"start": month.isoformat(), "end": _next_month(month).isoformat()}
        rows = self._rows(readings.model, query)
        values = dict(zip(readings.columns, rows[0] if rows else [None] * len(readings.columns), strict=True))
        numbers = {alternative: _number(value) for alternative, value in values.items()}
        if all(number is None for number in numbers.values()):
            return None
        return Effect(point.id, touched.ref, numbers, None if month is None else f"{month:%Y-%m}")

    def _rows(self, model: Model, query: Mapping[str, Any], most: int = 1) -> Sequence[Sequence[Any]]:
        asked = compile_query(model, query, now=self._now)
        if not self._budget.take():
            raise _UsedUp
        return self._connector.query(asked.sent, max_rows=most).rows

    def _last_month(self, touched: TouchedMeasure) -> date | None:
        """Return the first day of the last month with complete data, or None if the rows have no time."""
        latest = time_expression(self._model, touched)
        if latest is None:
            return None
        if latest not in self._months:
            rows = self._rows(self._model, {"measures": [{"expr": latest, "name": "latest"}], "limit": 1})
            self._months[latest] = _last_complete(_day(rows[0][0]) if rows else None, self._now.date())
        return self._months[latest]


def computed_effects(
    layout: Layout, config: KtxConfig, tree: Tree, model: Model, *, environ: Mapping[str, str], opener: Opener
) -> tuple[bytes | None, Computed]:
    """Compute the effects of a connection's unsettled points, and its record with updated spreads.

    The record is None if there are no points. If it cannot be read, or the database cannot be queried, the result has a
    warning.
    """
    from ktx_cli.core import now
    from ktx_cli.scan import read_decisions, read_record, with_spreads
    from ktx_cli.semantic import guard_of, load_answers

    try:
        record = read_record(tree, model.connection)
    except KtxError as error:
        return None, Computed(warnings=(_not_computed(model, error),))
    if not record:
        return None, Computed()
    decided = {each.point for each in load_answers(tree, model.connection)}
    known = read_decisions(tree, model).points
    points = [each for each in known if each.is_unsettled and each.id not in decided]
    computed = Computed()
    if points:
        try:
            guard = guard_of(layout, config, model.connection, model)
            with guard.open(config, layout=layout, environ=environ, opener=opener) as connector:
                computed = compute_effects(model, points, connector, now=now(), budget=EffectBudget())
        except CancelledError:
            raise
        except KtxError as error:
            return None, Computed(warnings=(_not_computed(model, error),))
    earlier = {each.id: each.spreads for each in known}
    spreads = {each.id: dict(each.spreads) for each in known if each not in points}
    for effect in computed.effects:
        before = earlier[effect.point].get(effect.measure)
        spreads.setdefault(effect.point, {})[effect.measure] = _steady(effect.spread, before)
    return with_spreads(record, model, spreads), computed


def _not_computed(model: Model, error: KtxError) -> ResultWarning:
    what = "the effects of decision points were not computed"
    return ResultWarning.because("decision_effects", what, error, connection=model.connection)


def _steady(spread: float, before: float | None) -> float:
    """Return the spread to commit. A small change keeps the old one, so that nightly scans change no files."""
    if before and spread and abs(spread - before) <= _STEADY * max(spread, before):
        return before
    return spread


def _day(value: Any) -> date | None:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None


def _last_complete(latest: date | None, today: date) -> date | None:
    """Return the first day of the last complete month up to `latest`, at most the previous month."""
    if latest is None:
        return None
    after = min(latest + timedelta(days=1), today)
    before = after.replace(day=1) - timedelta(days=1)
    return before.replace(day=1)


def _latest(number: int, month: date) -> date:
    """Return the first day of the latest month with this number (1 to 12) that is not after `month`."""
    return month.replace(year=month.year - (number > month.month), month=number)


def _next_month(month: date) -> date:
    return (month + timedelta(days=31)).replace(day=1)


def _number(value: Any) -> Decimal | None:
    """Return a database value as a number, or None for NULL and other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
