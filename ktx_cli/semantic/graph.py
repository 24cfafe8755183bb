"""The graph of joins, and the path from a fact to another source.

A path uses to-one joins, or any joins if there is no such path. The cheapest path wins, and two equally cheap paths are
an error that lists the choices.
"""

from __future__ import annotations

import contextlib
import copy
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.core import Argument, Hint, listing
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import Join, Model, Relationship, SemanticError

MOST_HOPS: Final = 12
MOST_CHOICES: Final = 20
_MOST: Final = 10_000
"""Maximum number of cached lookups, because a server can receive arbitrary queries."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One join in one direction. Each of `pairs` is (column of `source`, column of `target`).

    `name` is the alias or the target, as used in references. `to_one` means that a row of `source` matches at most one
    row. `conditions` are (is on the source's side, column, constant). `reverse` means against the declared direction.
    """

    source: str
    target: str
    name: str
    pairs: tuple[tuple[str, str], ...]
    to_one: bool
    alias: str | None = None
    conditions: tuple[tuple[bool, str, Any], ...] = ()
    provenance: str | None = None
    reverse: bool = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The join's names in `via`, best first."""
        own = "+".join(pair[0 if self.to_one else 1] for pair in self.pairs)
        return tuple(dict.fromkeys(filter(None, (self.alias, own, self.target))))

    def same_link(self, other: Edge) -> bool:
        """Return whether another join is the same in either direction."""
        return self == other or self.goes_back(other)

    def goes_back(self, other: Edge) -> bool:
        """Return whether another join is the same in the other direction."""
        back = {(theirs, own) for own, theirs in other.pairs}
        return (self.source, self.target, self.alias) == (other.target, other.source, other.alias) and (
            set(self.pairs) == back
        )

    def __str__(self) -> str:
        on = " and ".join(f"{self.source}.{own} = {self.name}.{other}" for own, other in self.pairs)
        called = "" if self.name == self.target else f" as {self.name}"
        return f"{self.target}{called} on {on}"


@dataclass(frozen=True, slots=True)
class Path:
    """The joins from a `start`, which may be empty."""

    start: str
    edges: tuple[Edge, ...] = ()

    @property
    def end(self) -> str:
        """The source at the end of the path."""
        return self.edges[-1].target if self.edges else self.start

    @property
    def to_one(self) -> bool:
        """Whether a row at the start matches at most one row at the end."""
        return all(edge.to_one for edge in self.edges)

    @property
    def joins(self) -> set[str]:
        """The names of its joins in `via`."""
        return {name for edge in self.edges for name in (edge.name, *edge.labels)}

    def then(self, edges: Iterable[Edge]) -> Path:
        """Return the path extended by more joins."""
        return Path(self.start, (*self.edges, *edges))

    def __str__(self) -> str:
        return " -> ".join((self.start, *(_shown(edge) for edge in self.edges)))


def _shown(edge: Edge) -> str:
    return edge.target if edge.alias is None else f"{edge.target} ({edge.alias})"


class Graph:
    """The joins of one model. It is immutable and caches lookups."""

    def __init__(self, model: Model) -> None:
        self._edges: dict[str, list[Edge]] = {}
        self._found: dict[tuple[Any, ...], Path | SemanticError | None] = {}
        self._longer: dict[tuple[Path, tuple[str, ...]], list[Path]] = {}
        self._sources, self._lookup = model.sources, lookup_of(model)

    @property
    def aliases(self) -> Mapping[str, frozenset[str]]:
        """The aliases of joins with the sources they may refer to."""
        return self._lookup.aliases

    @property
    def labels(self) -> frozenset[str]:
        """The names of joins in `via`."""
        return self._lookup.labels

    def edges(self, source: str) -> Sequence[Edge]:
        """Return the joins that start at a source."""
        edges = self._edges.get(source)
        if edges is None:
            edges = self._edges[source] = self._edges_from(source)
        return edges

    def path(self, start: str, hops: Sequence[str], via: Sequence[str] = ()) -> Path | None:
        """Return the path from a fact to the end of `hops`, through the joins in `via`, or None.

        Raises `SemanticError` (`ambiguous_path`) with `details.choices`.
        """
        key = (start, tuple(hops), tuple(via))
        if key not in self._found:
            if len(self._found) >= _MOST:
                self._found.clear()
            try:
                self._found[key] = self._search(start, tuple(hops), tuple(via))
            except SemanticError as error:
                self._found[key] = error
        found = self._found[key]
        if isinstance(found, SemanticError):
            refused = copy.copy(found)  # callers may change the error
            refused.details = copy.deepcopy(found.details)
            raise refused
        return found

    def defined_path(self, start: str, hops: Sequence[str], place: str = "") -> Path | None:
        """Return the path from a source to the end of `hops` in one of its definitions, or None.

        No `via` chooses among several paths there, so the error (`ambiguous_path`) offers other hops. `place` ends the
        message.
        """
        try:
            return self.path(start, hops)
        except SemanticError as error:
            choices, target = error.details["choices"], ".".join(hops)
        ways = [way for each in choices if (way := self._hops_along(start, hops, each["via"].split(".")))]
        found = listing(f"`{each['path']}`" for each in choices)
        message = f"there are {len(choices)} join paths from `{start}` to `{target}`{place}: {found}"
        hint = f"write {' or '.join(f'`{each}`' for each in ways)} instead of `{target}`"
        alias = f"give the joins an `alias`, and write it instead of `{target}`"
        details = {"fact": start, "target": target, "candidates": ways}
        raise SemanticError(message, hint=hint if ways else alias, code="ambiguous_path", details=details)

    def _hops_along(self, start: str, hops: Sequence[str], via: Sequence[str]) -> str | None:
        """Return the fewest hops that alone lead to the end of `hops` along the path with these joins, or None."""
        path = self.path(start, hops, via)
        names = [] if path is None else [edge.name for edge in path.edges]
        for first in reversed(range(len(names))):
            with contextlib.suppress(SemanticError):  # they lead along several paths, too
                if self.path(start, names[first:]) == path:
                    return ".".join(names[first:])
        return None

    def goes_through(self, start: str, hops: Sequence[str], via: Sequence[str]) -> bool:
        """Return whether the path from a fact uses all joins in `via`, or is a choice of several."""
        try:
            path = self.path(start, hops, via)
        except SemanticError:  # whatever reads the path raises it
            return True
        return path is not None and {start, *path.joins}.issuperset(via)

    def reaches(self, start: str, target: str) -> bool:
        """Return whether a source reaches another one over to-one joins."""
        return target in self.reached(start)

    def reached(self, start: str) -> set[str]:
        """Return the sources that a source reaches over to-one joins, including itself."""
        seen, open_nodes = {start}, [start]
        while open_nodes:
            for edge in self.edges(open_nodes.pop()):
                if edge.to_one and edge.target not in seen:
                    seen.add(edge.target)
                    open_nodes.append(edge.target)
        return seen

    def reaching(self, target: str) -> set[str]:
        """Return the sources that reach a source over to-one joins, including itself."""
        seen, open_nodes = {target}, [target]
        while open_nodes:
            here = open_nodes.pop()
            for name in dict.fromkeys(edge.target for edge in self.edges(here)):
                if name not in seen and any(back.to_one and back.target == here for back in self.edges(name)):
                    seen.add(name)
                    open_nodes.append(name)
        return seen

    def ways(self, start: str, hops: Sequence[str]) -> list[Path]:
        """Return the cheapest paths from a fact to the end of `hops`. Several paths are ambiguous."""
        found: list[Path] = []
        for many in (False, True):
            for exact in (True, False):
                found = found or self._cheapest(start, tuple(hops), many=many, exact=exact)
        return found

    def fan_out(self, path: Path) -> Edge | None:
        """Return the join of a path that fans out from a shared parent to unrelated rows, or None.

        Rows at the start only share that parent with the rows below it. Paths that only go down lead to details of the
        row itself and do not count, nor do bridges, which list properties of a parent.
        """
        is_shared = False
        for edge in path.edges:
            if edge.to_one:
                is_shared = is_shared or not self._is_to_one_back(edge)
            elif is_shared and not self._is_bridge(edge):
                return edge
        return None

    def via_of(self, path: Path, hops: Sequence[str]) -> str:
        """Return the shortest `via` that selects a path."""
        between = [edge.labels[0] if edge.alias else edge.target for edge in path.edges[:-1]]
        for label in reversed(between):
            with contextlib.suppress(SemanticError):
                if self.path(path.start, hops, (label,)) == path:
                    return label
        return ".".join(edge.labels[0] for edge in path.edges)

    def longer(self, path: Path, hops: Sequence[str]) -> list[Path]:
        """Return longer paths to the same source, for the receipt."""
        if not path.edges:
            return []
        key = (path, tuple(hops))
        if key not in self._longer:
            if len(self._longer) >= _MOST:
                self._longer.clear()
            found = self._cheapest(path.start, tuple(hops), many=False, exact=False, beyond=len(path.edges))
            self._longer[key] = [each for each in found if each.edges != path.edges]
        return list(self._longer[key])

    def _is_to_one_back(self, edge: Edge) -> bool:
        return any(other.to_one and other.goes_back(edge) for other in self.edges(edge.target))

    def _is_bridge(self, edge: Edge) -> bool:
        """Return whether a to-many join leads to a bridge.

        A bridge is a source without measures whose key consists of the columns of this join and of a to-one join.
        """
        source = self._sources[edge.target]
        rest = set(source.grain) - {theirs for _, theirs in edge.pairs}
        if not rest or not source.keyed or source.measures:
            return False
        ends = (onward for onward in self.edges(edge.target) if onward.to_one and not onward.goes_back(edge))
        return any(rest <= {own for own, _ in onward.pairs} for onward in ends)

    def _search(self, start: str, hops: tuple[str, ...], via: tuple[str, ...]) -> Path | None:
        if not via and len(hops) <= 1 and (not hops or hops[0] == start):
            return Path(start)
        found = self._cheapest(start, (*via, *hops), many=True, exact=False, border=len(via)) if via else []
        if not found and hops == (start,):
            return Path(start)
        found = found or self.ways(start, hops)
        if len(found) > 1 and via:  # `order_date` means the join without an alias rather than a role on that column
            found = [each for each in found if set(via) <= {edge.labels[0] for edge in each.edges}] or found
        if len(found) > 1:
            raise _ambiguous_path(start, hops, found)
        if not found:
            return None
        if not via and found[0].to_one and len(found[0].edges) > 1:
            self._require_nearest(found[0], hops)
        return found[0]

    def _require_nearest(self, path: Path, hops: tuple[str, ...]) -> None:
        """Raise `SemanticError` if a direct to-many join and a detour over to-one joins lead to the same source."""
        direct = self._cheapest(path.start, hops, many=True, exact=True)
        if direct and len(direct[0].edges) == 1 and not direct[0].to_one:
            raise _ambiguous_path(path.start, hops, [*direct, path])

    def _cheapest(
        self, start: str, wanted: tuple[str, ...], *, many: bool, exact: bool, border: int = 0, beyond: int = 0
    ) -> list[Path]:
        """Return the cheapest paths that meet all wanted names in order, with the last name at the end.

        The cost is the number of joins, then of to-many joins. With `exact`, a joined source is only known by its
        alias, and aliases are used only if named. `border` is the number of names from `via`; the last of them and the
        next name may be the same join. `beyond` limits the result to paths with more joins.
        """
        if not wanted:
            return []
        begin = 1 if wanted[0] == start and len(wanted) > 1 else 0
        queue: list[tuple[int, int, int, tuple[Edge, ...], int]] = [(0, 0, 0, (), begin)]
        best: dict[tuple[str, int], tuple[int, int]] = {}
        result: list[Path] = []
        cost: tuple[int, int] | None = None
        serial = 0
        while queue:
            length, several, _, edges, met = heapq.heappop(queue)
            if cost is not None and (length, several) > cost:
                break
            if met == len(wanted):
                if length > beyond:
                    cost = (length, several)
                    result.append(Path(start, edges))
                    if len(result) >= MOST_CHOICES:
                        break
                continue
            here = edges[-1].target if edges else start
            if not beyond and best.setdefault((here, met), (length, several)) < (length, several):
                continue
            if length >= min(MOST_HOPS, beyond + 3 if beyond else MOST_HOPS):
                continue
            visited = {start, *(edge.target for edge in edges)}
            for edge in self.edges(here):
                then = _met(edge, wanted, met, border, exact=exact)
                if (not edge.to_one and not many) or (exact and edge.alias and then == met):
                    continue
                if then == met and any(edge.same_link(other) for other in edges):
                    continue
                if edge.target in visited and edge.source != edge.target and (then == met or edge.target == start):
                    continue
                serial += 1
                heapq.heappush(queue, (length + 1, several + (not edge.to_one), serial, (*edges, edge), then))
        return result

    def _edges_from(self, source: str) -> list[Edge]:
        """Return the joins of a source, declared by either side."""
        edges: list[Edge] = []
        for owner, join in self._lookup.joins_of(source):
            forward = _forward(owner, join)
            if owner == source:
                _put(edges, forward)
            if join.to == source:
                _put(edges, _back(forward, join))
        return edges

    def __iter__(self) -> Iterator[Edge]:
        """Iterate over all joins in both directions."""
        for source in self._sources:
            yield from self.edges(source)


def _forward(owner: str, join: Join) -> Edge:
    return Edge(
        owner,
        join.to,
        join.alias or join.to,
        join.pairs,
        join.relationship is not Relationship.ONE_TO_MANY,
        join.alias,
        tuple((condition.own, condition.column, condition.value) for condition in join.conditions),
        join.provenance,
    )


def _back(forward: Edge, join: Join) -> Edge:
    return replace(
        forward,
        source=forward.target,
        target=forward.source,
        name=forward.source,
        pairs=tuple((other, own) for own, other in join.pairs),
        to_one=join.relationship is not Relationship.MANY_TO_ONE,
        conditions=tuple((not own, column, value) for own, column, value in forward.conditions),
        reverse=True,
    )


def _put(edges: list[Edge], edge: Edge) -> None:
    """Add an edge. A join declared by both sides is a single edge, which is to-one only if both declare it so."""
    for index, other in enumerate(edges):
        if _same(edge, other):
            kept = other if not other.reverse else edge
            edges[index] = replace(kept, to_one=edge.to_one and other.to_one)
            return
    edges.append(edge)


def _same(one: Edge, other: Edge) -> bool:
    return (
        one.target == other.target
        and one.alias == other.alias
        and set(one.pairs) == set(other.pairs)
        and set(one.conditions) == set(other.conditions)
        and not (one.source == one.target and one.reverse != other.reverse)
    )


def _met(edge: Edge, wanted: tuple[str, ...], met: int, border: int, *, exact: bool) -> int:
    """Return the number of wanted names that a path has met after the edge."""
    names = (edge.name, *edge.labels) if not exact else () if edge.alias and edge.reverse else (edge.name,)
    if wanted[met] not in names:
        return met
    met += 1
    return met + 1 if met == border and wanted[met] in names else met


def _ambiguous_path(start: str, hops: Sequence[str], paths: Sequence[Path]) -> SemanticError:
    choices = [{"via": _via(path, paths), "path": _path_text(path)} for path in paths]
    message = (
        f"there are {len(paths)} join paths from `{start}` to `{'.'.join(hops)}`: {listing(map(_path_text, paths))}"
    )
    target = ".".join(hops)
    details = {"fact": start, "target": target, "choices": choices}
    hint = Hint("choose a path: ") + via_hint(target, [choice["via"] for choice in choices])
    return SemanticError(message, hint=hint, code="ambiguous_path", details=details)


def via_hint(target: str, ways: Sequence[str]) -> Hint:
    """Return the values of `via` that select each of the ways to a target, as part of a hint."""
    return Hint.steps(*(Hint("`{}`", Argument("via", {target: via})) for via in ways), between=" or ")


def _path_text(path: Path) -> str:
    """Return a path as text, with the alias or columns that identify each join."""
    return " -> ".join((path.start, *(f"{edge.target} ({edge.labels[0]})" for edge in path.edges)))


def graph_of(model: Model) -> Graph:
    """Return a model's graph, which is cached with the model."""
    found: Graph | None = model.remembered.get("graph")
    if found is None:
        found = model.remembered["graph"] = Graph(model)
    return found


def _via(path: Path, paths: Sequence[Path]) -> str:
    """Return the smallest set of labels that distinguishes a path from the others."""
    others = [other for other in paths if other is not path]
    for edge in path.edges:
        for label in edge.labels:
            if not any(label in each.labels for other in others for each in other.edges):
                return label
    return ".".join(edge.labels[0] for edge in path.edges)


def reaches_once(graph: Graph, start: str, target: str) -> bool:
    """Whether a source reaches another one by a single path of to-one joins."""
    if start == target:
        return True
    try:
        path = graph.path(start, (target,))
    except SemanticError:  # there are several paths
        return False
    return path is not None and path.to_one


def reached_from(graph: Graph, start: str, targets: Iterable[str]) -> frozenset[str]:
    """Return the targets that a source reaches by a single path, including itself."""
    return frozenset(each for each in {*targets, start} if reaches_once(graph, start, each))
