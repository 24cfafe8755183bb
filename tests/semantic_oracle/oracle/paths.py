"""Which joins lead from a fact to what a name means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Edge, Model, Path


class Router:
    """Finds paths over a model's edges; `via` are the query's own choices, by target."""

    def __init__(self, model: Model, via: Mapping[str, Any]):
        self.model = model
        self.via = {target: _hops(path) for target, path in via.items()}

    def path(self, fact: str, hops: Sequence[str], via: Any = None) -> Path:
        """Return the edges from a fact over the hops; raises `OracleError` (unreachable, ambiguous_path)."""
        if via is None and len(hops) == 1 and hops[0] != fact:
            via = self.via.get(hops[0])
        chosen = _hops(via or ())
        path = self._walk(fact, chosen)
        if path and hops and hops[0] in (chosen[-1], path[-1].target):
            hops = hops[1:]
        return path + self._walk(path[-1].target if path else fact, hops)

    def _walk(self, at: str, hops: Sequence[str]) -> Path:
        path: Path = ()
        for hop in hops:
            path += self._step(path[-1].target if path else at, hop)
        return path

    def _step(self, at: str, hop: str) -> Path:
        if hop in self.model.sources:
            return self.shortest(at, hop)
        edges = self.model.aliases(hop)
        if not edges:
            raise OracleError("unknown_name", f"no source or alias `{hop}`")
        found = [(*path, edge) for edge in edges for path in self._tried(at, edge.source)]
        if not found:
            raise OracleError("unreachable", f"{at} to {hop}")
        found = [path for path in found if _rank(path) == min(map(_rank, found))]
        return _only(found, at, hop)

    def _tried(self, at: str, target: str) -> list[Path]:
        try:
            return [self.shortest(at, target)]
        except OracleError as error:
            if error.code != "unreachable":
                raise
            return []

    def shortest(self, at: str, target: str) -> Path:
        """Return the shortest path, over edges to one row where there is such a path; plain joins before roles."""
        if at == target:
            return ()
        for one in (True, False):
            for plain in (True, False):
                edges = [e for e in self.model.edges if e.one >= one and not (plain and e.alias)]
                found = _shortest(edges, at, target)
                if found:
                    return _only(found, at, target)
        raise OracleError("unreachable", f"{at} to {target}")

    def is_one(self, at: str, target: str) -> bool:
        """Whether each row of a source belongs to at most one row of the target."""
        try:
            return any(all(edge.one for edge in path) for path in self._tried(at, target))
        except OracleError as error:
            return not error.over_many


def _rank(path: Path) -> tuple[bool, int]:
    return not all(edge.one for edge in path), len(path)


def _only(found: list[Path], at: str, target: str) -> Path:
    if len(found) > 1:
        over_many = not all(edge.one for path in found for edge in path)
        raise OracleError("ambiguous_path", f"{at} to {target}: {len(found)} paths", over_many=over_many)
    return found[0]


def _shortest(edges: list[Edge], at: str, target: str) -> list[Path]:
    """Return every path of the smallest length, looking at all paths of each length in turn."""
    ways: list[Path] = [()]
    for _ in range(len({edge.source for edge in edges}) + 1):
        longer = []
        for path in ways:
            here = path[-1].target if path else at
            seen = {at} | {edge.target for edge in path}
            longer += [(*path, edge) for edge in edges if edge.source == here and edge.target not in seen]
        found = [path for path in longer if path[-1].target == target]
        if found:
            return found
        ways = longer
    return []


def _hops(via: Any) -> list[str]:
    return via.split(".") if isinstance(via, str) else list(via)
