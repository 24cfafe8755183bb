"""Groups that are shown although no fact has them: members of dimensions, and periods."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.frames import Column, Frame
from tests.semantic_oracle.oracle.measuring import Key, Measuring
from tests.semantic_oracle.oracle.model import Edge, Path
from tests.semantic_oracle.oracle.naming import Place
from tests.semantic_oracle.oracle.nodes import Ref, walk
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.question import Filter
from tests.semantic_oracle.oracle.slices import Window

Members = dict[int, Any]
"""Values by the dimension's place."""


class Spine:
    """Finds the members to show for one question."""

    def __init__(self, measuring: Measuring, frames: list[Frame]):
        self.measuring = measuring
        self.question = measuring.question
        self.frames = frames
        self.frame = frames[0]

    def members(self, found: set[Key]) -> set[Key]:
        """Return the groups the dimensions' own sources have; `found` are those of the facts."""
        wish = self.question.query.get("include_empty")
        if wish is False or not self.question.dimensions:
            return set()
        if wish is None:
            root = self._single_root()
            return set() if root is None else {self._key(each) for each in self._rows(root, self._places())}
        return self._crossed(found)

    def _crossed(self, found: set[Key]) -> set[Key]:
        times = [place for place, each in enumerate(self.question.dimensions) if each.grain]
        rest = [place for place in self._places() if place not in times]
        groups = [[{place: value} for value in self._times(found, place)] for place in times]
        groups += [self._rows(root, places) for root, places in self._roots(rest).items()]
        return {self._key({k: v for part in parts for k, v in part.items()}) for parts in product(*groups)}

    def _times(self, found: set[Key], place: int) -> list[Any]:
        """Return the periods of a time that have values, or rows that no value counts (of an earlier month, say)."""
        every = self.question.range is None
        rows = (each for frame in self.frames for each in frame.members() if every or self._in_range(each.moment))
        own = {group[place].value for each in rows for group in each.groups}
        return self.measuring.spread(({key[place] for key in found} | own) - {None}, place)

    def _places(self) -> list[int]:
        return list(range(len(self.question.dimensions)))

    def _key(self, values: Members) -> Key:
        return tuple(values[place] for place in self._places())

    def _single_root(self) -> Path | None:
        """Return the path to the one source all dimensions lie in or are reached from, unless it is a fact."""
        if any(each.is_metric_time for each in self.question.dimensions):
            return None
        roots = list(self._roots(self._places()))
        ends = {frame.columns[0].place.source for frame in self.frames} | {_end(roots[0])}
        return roots[0] if len(roots) == 1 and not ends & set(self.question.facts) and roots[0] else None

    def _roots(self, places: list[int]) -> dict[Path, list[int]]:
        """Group dimensions by the nearest of their paths that leads on to them by joins to one row.

        The fact's own columns are a group of their own.
        """
        paths = {place: self.frame.columns[place].place.path for place in places}
        roots: dict[Path, list[int]] = {}
        for place in places:
            befores = [each for each in paths.values() if each == paths[place] or (each and _leads(each, paths[place]))]
            roots.setdefault(min(befores, key=len), []).append(place)
        return roots

    def _rows(self, root: Path, places: list[int]) -> list[Members]:
        """Return the members the rows of a path's end have, after the conditions wholly behind it."""
        columns = {place: self.frame.columns[place] for place in places}
        filters = [each for each in self.question.filters if self._is_behind(each, root)]
        asked = self._range_column(root)
        paths = {c.place.path for c in columns.values()} | {p for each in filters for p in self._filter_paths(each)}
        paths |= set() if asked is None else {asked.place.path}
        tails = {path: path[len(root) :] for path in paths}
        found = []
        for row in self.frame.world.rows(_end(root) or self.frame.fact):
            for joined in self.frame.world.joined(row, tails.values()):
                seen = {path: joined[tail] for path, tail in tails.items()}
                if asked is not None and not self._in_range(self.frame.read(seen, asked).moment):
                    continue
                if all(self.frame.holds(seen, each) for each in filters):
                    found.append({place: self.frame.read(seen, column).value for place, column in columns.items()})
        return found

    def _in_range(self, moment: datetime | None) -> bool:
        return Window(*(self.question.range or (None, None))).holds(moment)

    def _range_column(self, root: Path) -> Column | None:
        """Return the time range's column among the members: behind them, or the key of a calendar joined by it."""
        if self.question.range is None or not root:
            return None
        place, steps = self._reached_from(root)
        found: set[tuple[Path, str, str] | None] = set()
        for frame in self.frames:
            own = frame.columns[place].place.path
            own, at = own[: len(own) - steps], frame.range_place()
            if at is not None and at.path[: len(own)] == own:
                found.add((at.path[len(own) :], at.source, at.column))
            elif at is not None and at.path == own[:-1] and self._is_day_of(own[-1], at):
                found.add(((), own[-1].target, own[-1].pairs[0][1]))
            else:
                found.add(None)
        one = found.pop()
        return None if found or one is None else Column(Place(root + one[0], one[1], one[2]), "second")

    def _is_day_of(self, edge: Edge, time: Place) -> bool:
        """Whether a table is joined by a time, or by a column computed of it alone."""
        if len(edge.pairs) != 1 or not edge.one:
            return False
        near = edge.pairs[0][0]
        text = self.frame.world.model.sources[time.source].columns[near].get("expr")
        refs = [] if text is None else [node for node in walk(parse(text)) if isinstance(node, Ref)]
        return near == time.column or (bool(refs) and all(each.parts == (time.column,) for each in refs))

    def _reached_from(self, root: Path) -> tuple[int, int]:
        """Return a dimension that is reached through the members, and over how many joins from them."""
        place = next(n for n, column in enumerate(self.frame.columns) if column.place.path[: len(root)] == root)
        return place, len(self.frame.columns[place].place.path) - len(root)

    def _filter_paths(self, each: Filter) -> list[Path]:
        refs = [node for node in walk(each.node) if isinstance(node, Ref)]
        return [self.frame.filtered(ref, each.via).path for ref in refs]

    def _is_behind(self, each: Filter, root: Path) -> bool:
        """Whether every fact reaches what a filter names through the members, going on the same way."""
        if each.facts is not None:
            return False
        try:
            return all(len(found) == 1 and None not in found for found in self._ways(each, root))
        except OracleError as error:
            if error.code not in ("unreachable", "unreachable_filter"):
                raise
            return False

    def _ways(self, each: Filter, root: Path) -> list[set[Path | None]]:
        """Return of every name in a filter how it goes on behind the members, None for another way than theirs."""
        place, steps = self._reached_from(root)
        refs = [node for node in walk(each.node) if isinstance(node, Ref)]
        ways: list[set[Path | None]] = []
        for ref in refs:
            found: set[Path | None] = set()
            for frame in self.frames:
                own = frame.columns[place].place.path
                own, path = own[: len(own) - steps], frame.filtered(ref, each.via).path
                found.add(path[len(own) :] if path[: len(own)] == own else None)
            ways.append(found)
        return ways


def _leads(root: Path, path: Path) -> bool:
    """Whether a path goes on from another by edges to one row."""
    return path[: len(root)] == root and all(edge.one for edge in path[len(root) :])


def _end(path: Path) -> str:
    return path[-1].target if path else ""
