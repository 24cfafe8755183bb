"""Sources as their YAML says them, and the edges their joins make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.nodes import Lit, Node, Op, Ref, conjuncts
from tests.semantic_oracle.oracle.parsing import parse

_DAYS = frozenset({"day", "week", "month", "quarter", "year"})
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Edge:
    """One way over a join: every pair (source's column, target's column) is equal and every constant holds.

    `one`: at most one row of the target belongs to a row of the source. `constants`: (whether on the source's side,
    column, value). `alias`: the role the join was declared with; `back`: walked against its declaration.
    """

    source: str
    target: str
    pairs: Pairs
    one: bool
    alias: str | None = None
    back: bool = False
    constants: tuple[tuple[bool, str, Any], ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two declarations the same edge."""
        return self.source, self.target, tuple(sorted(self.pairs)), self.alias, self.constants


Path = tuple[Edge, ...]


class Source:
    """One source, its parts by name."""

    def __init__(self, data: Mapping[str, Any]):
        self.data = data
        self.name: str = data["name"]
        self.grain: tuple[str, ...] = tuple(data["grain"])
        self.columns: dict[str, Mapping[str, Any]] = {each["name"]: each for each in data["columns"]}
        self.measures: dict[str, Mapping[str, Any]] = {each["name"]: each for each in data.get("measures", ())}
        self.segments: dict[str, str] = {each["name"]: each["expr"] for each in data.get("segments", ())}
        self.policies: list[str] = [each["filter"] for each in data.get("policies", ())]
        self.parameters: dict[str, Mapping[str, Any]] = {each["name"]: each for each in data.get("parameters", ())}
        self.visibility: str = data.get("visibility", "public")

    def column(self, name: str) -> str | None:
        """Return the column's own spelling."""
        return name if name in self.columns else {each.casefold(): each for each in self.columns}.get(name.casefold())

    def is_date(self, column: str) -> bool:
        """Whether a column's declared grain makes its values calendar dates."""
        return self.columns[column].get("natural_granularity") in _DAYS

    @cached_property
    def time_column(self) -> str | None:
        """The column its rows happened at: the declared one, else the only one that can be."""
        declared = self.data.get("default_time_dimension")
        if declared is not None:
            return str(declared["dbt"] if isinstance(declared, Mapping) else declared)
        times = [each for each in self.data["columns"] if each.get("type") == "time"]
        public = [each for each in times if each.get("visibility", "public") == "public"]
        roles = [each for each in public if each.get("role") == "time"] or public
        return roles[0]["name"] if len(roles) == 1 else None


class Model:
    """All sources and the edges between them."""

    def __init__(self, sources: Sequence[Mapping[str, Any]]):
        self.sources = {each["name"]: Source(each) for each in sources}
        edges: dict[tuple[Any, ...], Edge] = {}
        for source in self.sources.values():
            for join in source.data.get("joins", ()):
                for edge in _edges(source.name, join):
                    edges.setdefault(edge.key, edge)
        self.edges = list(edges.values())

    def aliases(self, name: str) -> list[Edge]:
        """Return the joins declared with that alias, as declared."""
        return [edge for edge in self.edges if edge.alias == name and not edge.back]

    def parameters(self) -> dict[str, Mapping[str, Any]]:
        """Return every declared parameter."""
        return {name: each for source in self.sources.values() for name, each in source.parameters.items()}

    def measure(self, parts: Sequence[str]) -> tuple[Source, Mapping[str, Any]] | None:
        """Return the measure of that name, or None; raises `OracleError` where several sources have it."""
        if len(parts) == 2:
            source = self.sources.get(parts[0])
            return (source, source.measures[parts[1]]) if source and parts[1] in source.measures else None
        if len(parts) != 1:
            return None
        found = [(each, each.measures[parts[0]]) for each in self.sources.values() if parts[0] in each.measures]
        if len(found) > 1:
            raise OracleError("ambiguous_name", f"measure `{parts[0]}`")
        return found[0] if found else None


def _edges(source: str, join: Mapping[str, Any]) -> list[Edge]:
    target, alias = join["to"], join.get("alias")
    pairs, constants = _pairs(source, target, alias, parse(join["on"]))
    forth = join["relationship"] != "one_to_many"
    back = join["relationship"] != "many_to_one"
    turned = tuple((b, a) for a, b in pairs)
    other = tuple((not own, column, value) for own, column, value in constants)
    return [
        Edge(source, target, pairs, forth, alias, False, constants),
        Edge(target, source, turned, back, alias, True, other),
    ]


def _pairs(source: str, target: str, alias: str | None, on: Node) -> tuple[Pairs, tuple[tuple[bool, str, Any], ...]]:
    pairs, constants = [], []
    for part in conjuncts(on):
        assert isinstance(part, Op) and part.name == "=", part
        left, right = part.args
        if isinstance(left, Lit):
            left, right = right, left
        assert isinstance(left, Ref)
        theirs = _is_theirs(left, target, alias)
        if isinstance(right, Lit):
            constants.append((not theirs, left.parts[-1], right.value))
            continue
        assert isinstance(right, Ref)
        pairs.append((right.parts[-1], left.parts[-1]) if theirs else (left.parts[-1], right.parts[-1]))
    return tuple(pairs), tuple(constants)


def _is_theirs(ref: Ref, target: str, alias: str | None) -> bool:
    return len(ref.parts) > 1 and ref.parts[0] in (target, alias)
