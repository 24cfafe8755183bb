"""Measures taken apart: aggregates of one fact each, and what is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Source
from tests.semantic_oracle.oracle.naming import Names
from tests.semantic_oracle.oracle.nodes import AGGREGATES, Call, Case, Lit, Node, Op, Ref, is_aggregate, walk
from tests.semantic_oracle.oracle.parsing import parse

Scoped = tuple[Node, str]
"""A condition and the source its bare names belong to."""


@dataclass(frozen=True)
class Leaf:
    """One aggregate over one fact. `home`: whose its bare names are; `time`: the column its rows happened at."""

    fact: str
    home: str
    call: Call
    conditions: tuple[Scoped, ...] = ()
    time: str | None = None
    semi: Any = None


@dataclass(frozen=True)
class Formula:
    """An expression whose leaves are other measures."""

    node: Node
    parts: tuple[tuple[Node, Bound], ...]


@dataclass(frozen=True)
class TwoLevel:
    """An aggregate over the values another measure has for each of the keys."""

    call: Call
    inner: Bound
    keys: tuple[Scoped, ...]


@dataclass(frozen=True)
class PercentOf:
    """A measure as a share of itself over the kept dimensions alone."""

    inner: Bound
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Offset:
    """A measure's value some time earlier; `span` None: one period earlier."""

    inner: Bound
    span: tuple[int, str] | None


@dataclass(frozen=True)
class Cumulative:
    """A measure over all its rows up to a period's end, or those of a window, or since a larger period began."""

    inner: Bound
    over: str | None
    window: str | None
    to_date: str | None


Bound = Leaf | Formula | TwoLevel | PercentOf | Offset | Cumulative


def leaves(bound: Bound) -> Iterator[Leaf]:
    """Yield the aggregates of a measure."""
    if isinstance(bound, Leaf):
        yield bound
    elif isinstance(bound, Formula):
        for _, part in bound.parts:
            yield from leaves(part)
    else:
        yield from leaves(bound.inner)


def is_additive(bound: Bound) -> bool:
    """Whether a missing value counts as 0 in a formula: sums and counts."""
    if isinstance(bound, Leaf):
        return bound.call.name in ("sum", "count")
    if isinstance(bound, Formula):
        return isinstance(bound.node, Ref) and is_additive(bound.parts[0][1])
    return not isinstance(bound, PercentOf | TwoLevel) and is_additive(bound.inner)


class Binder:
    """Binds measures; `segments` are the query's, as (source, condition)."""

    def __init__(self, names: Names, segments: Sequence[tuple[str, Node]] = ()):
        self.names = names
        self.segments = segments
        self.touched: set[int] = set()
        self._open: list[tuple[str, str]] = []

    def measure(self, source: Source, data: Mapping[str, Any], inherited: tuple[Scoped, ...] = ()) -> Bound:
        """Bind a declared measure with the conditions of those it is part of; raises `OracleError` for a circle."""
        key = (source.name, data["name"])
        if key in self._open:
            raise OracleError("definition", f"{key} is made of itself")
        self._open.append(key)
        node = parse(data["expr"])
        conditions = inherited + self._conditions(source, data)
        bound = (
            self._two_level(node, source, data, conditions)
            if data.get("per")
            else self.expression(node, source.name, conditions, data)
        )
        self._open.pop()
        return _modified(bound, data)

    def _conditions(self, source: Source, data: Mapping[str, Any]) -> tuple[Scoped, ...]:
        texts = [source.segments[name.split(".")[-1]] for name in data.get("segments", ())]
        if data.get("filter"):
            texts.append(data["filter"])
        return tuple((parse(text), source.name) for text in texts)

    def expression(
        self,
        node: Node,
        home: str | None,
        conditions: tuple[Scoped, ...] = (),
        data: Mapping[str, Any] | None = None,
        given: Mapping[str, Bound] | None = None,
    ) -> Bound:
        """Bind an expression over aggregates and measure names (`given`: names the query itself made)."""
        parts = [(part, self._part(part, home, conditions, data or {}, given or {})) for part in _parts(node)]
        if not parts:
            raise OracleError("query", "neither an aggregate nor a measure")
        if parts[0][0] == node:
            return parts[0][1]
        additive = {part for part, bound in parts if is_additive(bound)}
        return Formula(_with_zeros(node, additive), tuple(parts))

    def _part(
        self,
        part: Node,
        home: str | None,
        conditions: tuple[Scoped, ...],
        data: Mapping[str, Any],
        given: Mapping[str, Bound],
    ) -> Bound:
        if isinstance(part, Call):
            return self._leaf(part, home, conditions, data)
        assert isinstance(part, Ref)
        if len(part.parts) == 1 and part.parts[0] in given:
            return given[part.parts[0]]
        found = self._named(part.parts, home)
        if found is None:
            raise OracleError("unknown_name", f"no measure `{'.'.join(part.parts)}`")
        return self.measure(*found, conditions)

    def _named(self, parts: tuple[str, ...], home: str | None) -> tuple[Source, Mapping[str, Any]] | None:
        if home is not None and len(parts) == 1 and parts[0] in self.names.model.sources[home].measures:
            parts = (home, parts[0])
        return self.names.model.measure(parts)

    def _leaf(self, call: Call, home: str | None, conditions: tuple[Scoped, ...], data: Mapping[str, Any]) -> Leaf:
        if any(is_aggregate(each) for arg in call.args for each in walk(arg)):
            raise OracleError("query", "an aggregate within an aggregate")
        fact = self._fact(call, home)
        source = self.names.model.sources[fact]
        own = home or fact
        if call.where is not None:
            conditions += ((call.where, own),)
            call = replace(call, where=None)
        for number, (name, condition) in enumerate(self.segments):
            if name == fact:
                self.touched.add(number)
                conditions += ((condition, name),)
        return Leaf(
            fact, own, call, conditions, data.get("time") or source.time_column, _frozen(data.get("semi_additive"))
        )

    def _fact(self, call: Call, home: str | None) -> str:
        refs = [each for arg in call.args for each in walk(arg) if isinstance(each, Ref)]
        ends = dict.fromkeys(self.names.end(ref.parts, home) for ref in refs)
        if not ends:
            if home is None:
                raise OracleError("query", "count(*) of what?")
            return home
        finest = [one for one in ends if all(self.names.router.is_one(one, other) for other in ends)]
        if not finest:
            raise OracleError("grain", f"no source of {list(ends)} reaches the others")
        return home if home in finest else finest[0]

    def _two_level(self, node: Node, source: Source, data: Mapping[str, Any], conditions: tuple[Scoped, ...]) -> Bound:
        keys = tuple((parse(key), source.name) for key in data["per"])
        parts = []
        for call in (each for each in walk(node) if is_aggregate(each)):
            assert isinstance(call, Call)
            parts.append((call, TwoLevel(call, self.expression(call.args[0], source.name, conditions), keys)))
        return parts[0][1] if parts[0][0] == node else Formula(node, tuple(parts))


def _frozen(semi: Mapping[str, Any] | None) -> Any:
    return semi and (semi["over"], semi.get("take", "last"), tuple(semi.get("per", ())))


def _modified(bound: Bound, data: Mapping[str, Any]) -> Bound:
    if data.get("cumulative") is not None:
        spec = data["cumulative"]
        bound = Cumulative(bound, spec.get("over"), spec.get("window"), spec.get("to_date"))
    if data.get("offset"):
        count, unit = data["offset"].split()
        bound = Offset(bound, (int(count), unit.rstrip("s")))
    if data.get("percent_of") is not None:
        kept = data["percent_of"]
        bound = PercentOf(bound, () if kept == "total" else tuple(kept))
    return bound


def _parts(node: Node) -> list[Node]:
    """Return the outermost aggregates and names of an expression."""
    if is_aggregate(node) or isinstance(node, Ref):
        return [node]
    below = node.args if isinstance(node, Op | Call) else ()
    if isinstance(node, Case):
        below = (*tuple(each for pair in node.whens for each in pair), node.default)
    return list(dict.fromkeys(part for each in below for part in _parts(each)))


def _with_zeros(node: Node, additive: set[Node]) -> Node:
    """Let missing sums and counts be 0 where arithmetic uses them."""
    if isinstance(node, Call) and node.name not in AGGREGATES:
        return replace(node, args=tuple(_with_zeros(arg, additive) for arg in node.args))
    if isinstance(node, Case):
        whens = tuple((_with_zeros(a, additive), _with_zeros(b, additive)) for a, b in node.whens)
        return Case(whens, _with_zeros(node.default, additive))
    if not isinstance(node, Op):
        return node
    counts = node.name in ("+", "-", "*", "/", "neg")
    return Op(
        node.name,
        tuple(
            Call("coalesce", (arg, Lit(0))) if counts and arg in additive else _with_zeros(arg, additive)
            for arg in node.args
        ),
    )
