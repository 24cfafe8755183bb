"""A query dict read into dimensions, measures, row conditions and conditions on the result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.semantic_oracle.oracle.binding import Binder, Bound, leaves
from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Model
from tests.semantic_oracle.oracle.naming import METRIC_TIME, Names
from tests.semantic_oracle.oracle.nodes import Call, Node, Ref, conjuncts, is_aggregate, walk
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.paths import Router
from tests.semantic_oracle.oracle.times import GRAINS, moved, parse_span
from tests.semantic_oracle.oracle.values import moment

_KEYS = frozenset(
    [
        "measures",
        "dimensions",
        "filters",
        "segments",
        "order_by",
        "limit",
        "offset",
        "include_empty",
        "having",
        "time_range",
        "comparison",
        "totals",
        "fill",
        "parameters",
        "timezone",
        "via",
    ]
)
MOST = 100_000
"""The highest limit."""
Range = tuple[datetime | None, datetime | None]


@dataclass(frozen=True)
class Dimension:
    """What is grouped by: the name's parts, the grain, the path asked for, the output's name."""

    parts: tuple[str, ...]
    grain: str | None
    via: Any
    name: str

    @property
    def is_metric_time(self) -> bool:
        """Whether it is each fact's own time."""
        return self.parts == (METRIC_TIME,)


@dataclass(frozen=True)
class Filter:
    """A row condition; `facts`: the only ones it is for."""

    node: Node
    via: Any
    facts: tuple[str, ...] | None


class Question:
    """A query over a model, every name of it found. Raises `OracleError` for what cannot be asked."""

    def __init__(self, model: Model, query: Mapping[str, Any], now: datetime | None):
        if set(query) - _KEYS:
            raise OracleError("query", f"no such keys: {set(query) - _KEYS}")
        if not 0 <= query.get("limit", MOST) <= MOST or query.get("offset", 0) < 0:
            raise OracleError("query", "a limit from 0 to 100000, an offset from 0")
        self.model = model
        self.query = query
        self.now = now
        self.names = Names(model, Router(model, query.get("via") or {}))
        self.segments = [self._segment(text) for text in query.get("segments") or ()]
        self.binder = Binder(self.names, self.segments)
        self.measures = self._measures([*_once(query.get("measures") or ())])
        self.facts = list(dict.fromkeys(leaf.fact for _, bound in self.measures for leaf in leaves(bound)))
        self.home = self.facts[0] if len(self.facts) == 1 else None
        self.dimensions = self._dimensions(query.get("dimensions") or ())
        if not self.measures and not self.dimensions:
            raise OracleError("query", "nothing is asked")
        if query.get("fill") and sum(each.grain is not None for each in self.dimensions) != 1:
            raise OracleError("query", "fill needs one time dimension")
        self.filters: list[Filter] = []
        self.having = [part for text in query.get("having") or () for part in conjuncts(parse(text))]
        for each in query.get("filters") or ():
            self._take_filter(each)
        self.given = dict(self.measures)
        self.tests = [(node, self._tested(node)) for node in self.having]
        if len(self.binder.touched) < len(self.segments):
            raise OracleError("query", "a segment touches no measure")
        self.range = self._range(query.get("time_range"))

    def _segment(self, text: str) -> tuple[str, Node]:
        source, _, name = text.rpartition(".")
        found = [each for each in self.model.sources.values() if name in each.segments and source in ("", each.name)]
        if len(found) != 1:
            raise OracleError("ambiguous_name" if found else "unknown_name", f"segment `{text}`")
        return found[0].name, parse(found[0].segments[name])

    def _measures(self, asked: Sequence[Any]) -> list[tuple[str, Bound]]:
        bound: dict[str, Bound] = {}
        made: list[tuple[str, str | None, Bound]] = []
        for each in asked:
            text, name = (each, None) if isinstance(each, str) else (each["expr"], each.get("name"))
            node = parse(text)
            self._require_measures_visible(node)
            source, own = self._predefined(node, bound)
            label = name or own or re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
            value = self.binder.expression(node, None, given=bound)
            bound[label] = value
            made.append((label, source if name is None else None, value))
        labels = [label for label, _, _ in made]
        return [(f"{s}_{label}" if s and labels.count(label) > 1 else label, value) for label, s, value in made]

    def _predefined(self, node: Node, given: Mapping[str, Bound]) -> tuple[str | None, str | None]:
        if not isinstance(node, Ref) or (len(node.parts) == 1 and node.parts[0] in given):
            return None, None
        found = self.model.measure(node.parts)
        return (found[0].name, found[1]["name"]) if found else (None, None)

    def _require_measures_visible(self, node: Node) -> None:
        for part in walk(node):
            found = self.model.measure(part.parts) if isinstance(part, Ref) else None
            if found and "hidden" in (found[0].visibility, found[1].get("visibility")):
                raise OracleError("hidden", f"measure {found[1]['name']}")
            if isinstance(part, Call) and is_aggregate(part):
                for arg in part.args:
                    self.names.require_visible(arg, None)

    def _dimensions(self, asked: Sequence[Any]) -> list[Dimension]:
        read = [self._dimension({"field": each} if isinstance(each, str) else each) for each in asked]
        found = dict.fromkeys(read)
        leafs = [each.parts[-1] for each, named in found if not named]
        dimensions = []
        for each, named in found:
            label = each.name
            if not named:
                shared = leafs.count(label) > 1 and len(each.parts) > 1
                label = f"{each.parts[-2]}_{label}" if shared else label
                label += f"_{each.grain}" if each.grain else ""
            dimensions.append(Dimension(each.parts, each.grain, each.via, label))
        return dimensions

    def _dimension(self, each: Mapping[str, Any]) -> tuple[Dimension, bool]:
        node = parse(each["field"])
        if not isinstance(node, Ref):
            raise OracleError("query", "a dimension is a column")
        grain = each.get("granularity")
        if grain is not None and grain not in GRAINS:
            raise OracleError("query", f"no granularity `{grain}`")
        if node.parts != (METRIC_TIME,):
            self.names.require_visible(node, self.home, dimension=True)
            self._require_grain(node, grain)
        elif grain is None:
            raise OracleError("query", "metric_time needs a granularity")
        return Dimension(node.parts, grain, each.get("via"), each.get("name") or node.parts[-1]), "name" in each

    def _require_grain(self, node: Ref, grain: str | None) -> None:
        source = self.model.sources[self.names.end(node.parts, self.home)]
        column = source.columns[self.names.column(source.name, node.parts[-1])]
        natural = column.get("natural_granularity")
        if grain and column.get("type") != "time":
            raise OracleError("query", "a granularity needs a time column")
        if grain and natural and GRAINS.index(grain) < GRAINS.index(natural):
            raise OracleError("grain", f"{node.parts} is known by {natural}")

    def _take_filter(self, each: Any) -> None:
        data = {"expr": each} if isinstance(each, str) else each
        for part in conjuncts(parse(data["expr"])):
            if self._is_on_result(part):
                self.having.append(part)
                continue
            self.names.require_visible(part, self.home)
            facts = data.get("facts")
            self.filters.append(Filter(part, data.get("via"), None if facts is None else tuple(facts)))

    def _is_on_result(self, node: Node) -> bool:
        return any(is_aggregate(each) or (isinstance(each, Ref) and self._is_measure(each)) for each in walk(node))

    def _is_measure(self, ref: Ref) -> bool:
        if len(ref.parts) == 1 and self.home is not None and self.model.sources[self.home].column(ref.parts[0]):
            return False
        return (ref.parts[-1:] == ref.parts and ref.parts[0] in dict(self.measures)) or bool(
            self.model.measure(ref.parts)
        )

    def _tested(self, node: Node) -> dict[Node, Bound | int]:
        """Bind what a condition on the result names: measures, or the place of a selected dimension."""
        found: dict[Node, Bound | int] = {}
        for part in _operands(node):
            place = self.dimension_named(part) if isinstance(part, Ref) else None
            if place is not None:
                found[part] = place
                continue
            self._require_measures_visible(part)
            found[part] = self.binder.expression(part, None, given=self.given)
        return found

    def dimension_named(self, ref: Ref) -> int | None:
        """Return the place of the selected dimension that a name means, or None."""
        for place, each in enumerate(self.dimensions):
            if ref.parts == each.parts or ref.parts == (each.name,):
                return place
        leafs = [place for place, each in enumerate(self.dimensions) if ref.parts == each.parts[-1:]]
        return leafs[0] if len(leafs) == 1 else None

    def _range(self, data: Mapping[str, Any] | None) -> Range | None:
        if data is None:
            return None
        if "last" in data:
            if self.now is None:
                raise OracleError("query", "`last` needs the time")
            count, unit = parse_span(data["last"])
            return moved(self.now, -count, unit), self.now
        return tuple(_bound(data.get(side)) for side in ("start", "end"))  # type: ignore[return-value]


def _once(asked: Sequence[Any]) -> Iterator[Any]:
    """Yield what is asked, a repetition left out."""
    for at, each in enumerate(asked):
        if each not in asked[:at]:
            yield each


def _bound(value: Any) -> datetime | None:
    try:
        return None if value is None else moment(value)
    except ValueError as error:
        raise OracleError("time_range", f"`{value}` is no time") from error


def _operands(node: Node) -> list[Node]:
    if is_aggregate(node) or isinstance(node, Ref):
        return [node]
    return [part for each in getattr(node, "args", ()) for part in _operands(each)]
