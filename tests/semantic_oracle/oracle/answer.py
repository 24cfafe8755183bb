"""The rows of a query, worked out by looking at every row of every table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.semantic_oracle.oracle.binding import Bound, Formula, Leaf, Offset, leaves
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.measuring import Key, Measuring
from tests.semantic_oracle.oracle.model import Model
from tests.semantic_oracle.oracle.nodes import Call, Lit, Node, Op, Ref
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.question import Question
from tests.semantic_oracle.oracle.rows import World
from tests.semantic_oracle.oracle.slices import EVERYTHING, Slice
from tests.semantic_oracle.oracle.spine import Spine
from tests.semantic_oracle.oracle.times import Calendar, parse_span
from tests.semantic_oracle.oracle.values import evaluate, truth

NO_TOTAL = object()
"""In place of the total of a measure that has none."""


@dataclass(frozen=True)
class Result:
    """What a query answers; `totals` is the row of measures without any dimension, if asked."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    totals: tuple[Any, ...] | None = None
    truncated: bool = False


@dataclass(frozen=True)
class Setting:
    """Everything beside model, tables and query: the caller's attributes, the project's calendar, the time."""

    attributes: Mapping[str, Any] = field(default_factory=dict)
    calendar: Mapping[str, Any] = field(default_factory=dict)
    now: datetime | None = None


def answer(
    sources: Sequence[Mapping[str, Any]],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    query: Mapping[str, Any],
    setting: Setting | None = None,
) -> Result:
    """Return the rows of a query; `tables` are the rows behind each source. Raises `OracleError`."""
    setting = setting or Setting()
    model = Model(sources)
    question = Question(model, query, setting.now)
    world = World(model, tables, setting.attributes, _parameters(model, query.get("parameters") or {}))
    calendar = Calendar.of(setting.calendar, query.get("timezone"))
    return _Answering(question, Measuring(question, world, calendar)).result()


def _parameters(model: Model, given: Mapping[str, Any]) -> dict[str, Any]:
    declared = model.parameters()
    if set(given) - set(declared):
        raise OracleError("parameter", f"no parameters {set(given) - set(declared)}")
    values = {name: each["default"] for name, each in declared.items() if "default" in each} | dict(given)
    for name, value in values.items():
        allowed = declared[name].get("values")
        if allowed and value not in allowed:
            raise OracleError("parameter", f"{name} cannot be {value}")
        if declared[name].get("type") == "number" and isinstance(value, str):
            raise OracleError("parameter", f"{name} is a number")
    return values


class _Answering:
    def __init__(self, question: Question, measuring: Measuring):
        self.question = question
        self.measuring = measuring
        self.shown = [each for named in question.measures for each in self._with_comparison(*named)]
        self.tested = [each for _, parts in question.tests for each in parts.values() if not isinstance(each, int)]

    def _with_comparison(self, name: str, bound: Bound) -> list[tuple[str, Bound]]:
        asked = self.question.query.get("comparison")
        if asked is None:
            return [(name, bound)]
        span = None if asked["offset"] == "previous_period" else parse_span(asked["offset"])
        earlier = Offset(bound, span)
        now, then = Ref(("now",)), Ref(("then",))
        parts = ((now, bound), (then, earlier))
        change = Op("-", (now, then))
        share = Op("/", (Op("*", (Lit(100), change)), then))
        return [
            (name, bound),
            (f"{name}_previous", earlier),
            (f"{name}_change", Formula(change, parts)),
            (f"{name}_change_pct", Formula(share, parts)),
        ]

    def result(self) -> Result:
        columns = [each.name for each in self.question.dimensions] + [name for name, _ in self.shown]
        if len(set(columns)) < len(columns):
            raise OracleError("ambiguous_name", f"columns {columns}")
        rows = [row for row in map(self._row, self._keys()) if row is not None]
        ordered = self._ordered(rows)
        first = self.question.query.get("offset", 0)
        limit = self.question.query.get("limit", 1000)
        return Result(
            columns,
            [values for _, values in ordered[first : first + limit]],
            self._totals(),
            len(ordered) > first + limit,
        )

    def _totals(self) -> tuple[Any, ...] | None:
        if not self.question.query.get("totals"):
            return None
        whole = Slice((EVERYTHING,) * len(self.question.dimensions), self.measuring.shown)
        found = [self._total(bound, whole) for _, bound in self.shown]
        return None if all(each is NO_TOTAL for each in found) else tuple(None if v is NO_TOTAL else v for v in found)

    def _total(self, bound: Bound, whole: Slice) -> Any:
        """Return the total of a measure; a rolling or to-date one has none, for it means nothing without a period."""
        try:
            return self.measuring.value(bound, whole)
        except OracleError as error:
            if error.code != "query":
                raise
            return NO_TOTAL

    def _row(self, key: Key) -> tuple[Key, tuple[Any, ...]] | None:
        part = Slice(key, self.measuring.shown)
        if not all(self._passes(node, parts, part) for node, parts in self.question.tests):
            return None
        return key, key + tuple(self.measuring.value(bound, part) for _, bound in self.shown)

    def _passes(self, node: Node, parts: Mapping[Node, Bound | int], part: Slice) -> bool:
        def look(each: Node) -> Any:
            found = parts[each]
            return part.wanted[found] if isinstance(found, int) else self.measuring.value(found, part)

        return truth(evaluate(node, look)) is True

    def _keys(self) -> set[Key]:
        if not self.question.measures:
            return self._members_only()
        bounds = [bound for _, bound in self.shown] + self.tested
        seen = self.measuring.seen(bounds)
        found = set().union(*(self.measuring.keys(each, seen) for each in bounds))
        frames = [self.measuring.frame(leaf.fact, leaf.time) for each in bounds for leaf in leaves(each)]
        found |= Spine(self.measuring, frames).members(found)
        return self._filled(found) if self.question.dimensions else {()}

    def _filled(self, found: set[Key]) -> set[Key]:
        place = self.measuring.time_dimension()
        if place is None or not self.question.query.get("fill"):
            return found
        periods = self.measuring.spread({key[place] for key in found} - {None}, place)
        combinations = found if len(self.question.dimensions) > 1 else {(None,)}
        return found | {(*key[:place], period, *key[place + 1 :]) for key in combinations for period in periods}

    def _members_only(self) -> set[Key]:
        """Return the combinations of dimensions the rows of the finest source have."""
        finest = self._finest()
        time = self.question.model.sources[finest].time_column
        leaf = Leaf(finest, finest, Call("count", (), star=True), time=time)
        return self.measuring.groups(leaf, self.measuring.shown)

    def _finest(self) -> str:
        names, router = self.question.names, self.question.names.router
        ends = dict.fromkeys(self._start(each.parts) for each in self.question.dimensions)
        for candidates in (list(ends), list(names.model.sources)):
            found = [one for one in candidates if all(router.is_one(one, other) for other in ends)]
            if found:
                return min(found, key=lambda one: sum(len(router.shortest(one, other)) for other in ends))
        raise OracleError("unreachable", f"no source reaches all of {list(ends)}")

    def _start(self, parts: Sequence[str]) -> str:
        """Return the source a dimension needs rows of: of an alias, the one that declares it."""
        first = self.question.names.hops(parts, None)[0]
        return first if first in self.question.model.sources else self.question.model.aliases(first)[0].source

    def _ordered(self, rows: list[tuple[Key, tuple[Any, ...]]]) -> list[tuple[Key, tuple[Any, ...]]]:
        asked = [self._order(each) for each in self.question.query.get("order_by") or ()]
        taken = {part for part, _ in asked if isinstance(part, int)}
        asked += [(place, False) for place in range(len(self.question.dimensions)) if place not in taken]
        for part, down in reversed(asked):
            values = [self._sorted_by(part, row) for row in rows]
            order = sorted(
                (index for index in range(len(rows)) if values[index] is not None),
                key=lambda index: values[index],
                reverse=down,
            )
            rows = [rows[index] for index in order] + [row for row, v in zip(rows, values, strict=True) if v is None]
        return rows

    def _sorted_by(self, part: int | Bound, row: tuple[Key, tuple[Any, ...]]) -> Any:
        return (
            row[1][part] if isinstance(part, int) else self.measuring.value(part, Slice(row[0], self.measuring.shown))
        )

    def _order(self, each: Any) -> tuple[int, bool]:
        if isinstance(each, str):
            text, _, way = each.rpartition(" ")
            each = {"field": text, "direction": way} if way.lower() in ("asc", "desc") and text else {"field": each}
        way = str(each.get("direction", "asc")).lower()
        if way not in ("asc", "desc"):
            raise OracleError("query", f"no direction `{way}`")
        return self._ordered_by(each["field"]), way == "desc"

    def _ordered_by(self, text: str) -> int:
        node = parse(text)
        place = self.question.dimension_named(node) if isinstance(node, Ref) else None
        if place is not None:
            return place
        count = len(self.question.dimensions)
        for number, (name, bound) in enumerate(self.shown):
            if text in (name, *self._said(number)) or bound == self._bound(node):
                return count + number
        raise OracleError("query", f"cannot order by `{text}`")

    def _said(self, number: int) -> list[str]:
        asked = self.question.query.get("measures") or ()
        if number >= len(asked) or self.question.query.get("comparison"):
            return []
        return [asked[number]] if isinstance(asked[number], str) else [asked[number]["expr"]]

    def _bound(self, node: Node) -> Bound | None:
        try:
            return self.question.binder.expression(node, None, given=self.question.given)
        except OracleError:
            return None
