"""A fact's rows, each with the groups it belongs to under a query's dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.semantic_oracle.oracle.errors import OracleError
from tests.semantic_oracle.oracle.model import Edge, Model, Path
from tests.semantic_oracle.oracle.naming import Place
from tests.semantic_oracle.oracle.nodes import Node, Ref, Slot, walk
from tests.semantic_oracle.oracle.parsing import parse
from tests.semantic_oracle.oracle.question import Dimension, Filter, Question
from tests.semantic_oracle.oracle.rows import Joined, Row, World
from tests.semantic_oracle.oracle.times import Calendar, shifted, truncate
from tests.semantic_oracle.oracle.values import evaluate, truth


@dataclass(frozen=True)
class Cell:
    """A dimension's value for a row; `moment`: where in time it is, for a time dimension."""

    value: Any
    moment: datetime | None = None


@dataclass(frozen=True)
class Member:
    """A fact's row with every group it is in; `moment`: what the time range is compared with."""

    row: Row
    groups: tuple[tuple[Cell, ...], ...]
    moment: datetime | None


@dataclass(frozen=True)
class Column:
    """A place to read, and the grain it is cut to."""

    place: Place
    grain: str | None = None


Routed = tuple[Filter, set[Path]]
"""A condition with the paths to what it names."""


class Frame:
    """One fact under a query: `members` are its rows after the row conditions (the time range is not applied)."""

    def __init__(self, question: Question, world: World, calendar: Calendar, fact: str, time: str | None):
        self.question = question
        self.world = world
        self.calendar = calendar
        self.fact = fact
        self.time = time
        self.columns = [self._column(each) for each in question.dimensions]
        self._range = self._range_column()
        self._where, self._through = self._conditions()
        self._members: dict[Any, list[Member]] = {}

    def members(self, keys: Sequence[tuple[Node, str]] = ()) -> list[Member]:
        """Return the rows; `keys` are further columns to group by, behind the dimensions."""
        if tuple(keys) not in self._members:
            columns = [*self.columns, *(self._key(*each) for each in keys)]
            if self._through or any(many_part(column.place.path) for column in columns):
                self._require_unique_grain()
            found = (self._member(row, columns) for row in self.world.rows(self.fact))
            self._members[tuple(keys)] = [each for each in found if each is not None]
        return self._members[tuple(keys)]

    def _require_unique_grain(self) -> None:
        """Raise `OracleError` (cardinality) where rows looked at with their details are not those of the grain."""
        grain = self.world.model.sources[self.fact].grain
        keys = [tuple(self.world.value(self.fact, row, name) for name in grain) for row in self.world.rows(self.fact)]
        if len(set(keys)) < len(keys):
            raise OracleError("cardinality", f"several rows of {self.fact} have one {grain}")

    def value(self, row: Row, node: Node, home: str) -> Any:
        """Return a definition's expression for a row: every name is one row away at most."""
        return evaluate(node, lambda ref: self._definition(row, ref, home))

    def moment_of(self, row: Row) -> datetime | None:
        """Return what the time range is compared with."""
        return self.read({**self._single(row, self._range.place), (): row}, self._range).moment if self._range else None

    def range_on(self, place: int) -> tuple[datetime | None, datetime | None]:
        """Return the ends of the time range where it is on that dimension's column."""
        if self._range is None or self.question.range is None or self._range.place != self.columns[place].place:
            return None, None
        return self.question.range

    def range_place(self) -> Place | None:
        """Return the column the time range is on."""
        return None if self._range is None else self._range.place

    def holds_on(self, row: Row, column: str) -> bool:
        """Whether a row meets the filters that read that column alone, or a calendar joined by it."""
        routed = [(each, paths) for each, paths in self._where if self._reads_alone(each, column)]
        return all(self._some(self.world.joined(row, paths), [each]) for each, paths in routed)

    def _reads_alone(self, each: Filter, column: str) -> bool:
        refs = [node for node in walk(each.node) if isinstance(node, Ref)]
        return bool(refs) and all(self._is_of(self.filtered(ref, each.via), column) for ref in refs)

    def _is_of(self, place: Place, column: str) -> bool:
        return [own for own, _ in place.path[0].pairs] == [column] if place.path else place.column == column

    def holds_conditions_on(self, row: Row, conditions: Sequence[tuple[Node, str]], column: str) -> bool:
        """Whether a row meets those of a measure's conditions that read that column alone."""
        for node, home in conditions:
            refs = [each for each in walk(node) if isinstance(each, Ref)]
            places = [self.question.names.place(self.fact, ref.parts, home) for ref in refs]
            alone = bool(places) and all(self._is_of(each, column) for each in places)
            if alone and truth(self.value(row, node, home)) is not True:
                return False
        return True

    def _single(self, row: Row, place: Place) -> Joined:
        return self.world.joined(row, [place.path])[0]

    def _definition(self, row: Row, ref: Node, home: str) -> Any:
        if isinstance(ref, Slot):
            return self.world.slot(ref)
        assert isinstance(ref, Ref)
        place = self.question.names.place(self.fact, ref.parts, home)
        if not all(edge.one for edge in place.path):
            raise OracleError("grain", f"{ref.parts} has several rows for one of {self.fact}")
        return self.world.value(place.source, self._single(row, place)[place.path], place.column)

    def _column(self, each: Dimension) -> Column:
        if not each.is_metric_time:
            place = self.question.names.place(self.fact, each.parts, self.question.home, each.via)
            is_chosen = each.via or len(each.parts) > 2 or each.parts[0] in self.question.names.router.via
            if not is_chosen and fans_out(place.path, self.world.model):
                raise OracleError("fan_out", f"a row of {self.fact} has no {each.parts}")
            return Column(place, each.grain)
        return Column(Place((), self.fact, self._own_time()), each.grain)

    def _own_time(self) -> str:
        if self.time is None:
            raise OracleError("query", f"{self.fact} has no time column")
        return self.time

    def _key(self, node: Node, home: str) -> Column:
        assert isinstance(node, Ref)
        return Column(self.question.names.place(self.fact, node.parts, home))

    def _range_column(self) -> Column | None:
        asked = self.question.query.get("time_range")
        if asked is None:
            return None
        if "field" not in asked or asked["field"] == "metric_time":
            return Column(Place((), self.fact, self._own_time()), "second")
        node = parse(asked["field"])
        assert isinstance(node, Ref)
        try:
            return Column(self.question.names.place(self.fact, node.parts, self.question.home), "second")
        except OracleError as error:
            raise _of_filter(error) from error

    def _conditions(self) -> tuple[list[Routed], dict[frozenset[Path], list[Routed]]]:
        where: list[Routed] = []
        through: dict[frozenset[Path], list[Routed]] = {}
        for each in self.question.filters:
            if each.facts is not None and self.fact not in each.facts:
                continue
            paths = self.paths(each)
            many = frozenset(many_part(path) for path in paths) - {()}
            if many:
                through.setdefault(many, []).append((each, paths))
            else:
                where.append((each, paths))
        return where, through

    def paths(self, each: Filter) -> set[Path]:
        refs = [node for node in walk(each.node) if isinstance(node, Ref)]
        try:
            return {self.filtered(ref, each.via).path for ref in refs}
        except OracleError as error:
            raise _of_filter(error) from error

    def filtered(self, ref: Ref, via: Any) -> Place:
        if ref.parts == ("metric_time",):
            return Place((), self.fact, self._own_time())
        return self.question.names.place(self.fact, ref.parts, self.question.home, via)

    def _member(self, row: Row, columns: list[Column]) -> Member | None:
        if not all(self._some(self.world.joined(row, paths), [each]) for each, paths in self._where):
            return None
        shown = {column.place.path for column in columns}
        many = {many_part(path) for path in shown} - {()}
        inside: list[Filter] = []
        for group, conditions in self._through.items():
            filters = [each for each, _ in conditions]
            paths = {path for _, found in conditions for path in found}
            if group <= {part[: end + 1] for part in many for end in range(len(part))}:
                inside += filters
                shown |= paths
            elif not self._some(self.world.joined(row, paths), filters):
                return None
        kept = [joined for joined in self.world.joined(row, shown) if self._some([joined], inside)]
        groups = dict.fromkeys(tuple(self.read(joined, column) for column in columns) for joined in kept)
        return Member(row, tuple(groups), self.moment_of(row)) if groups else None

    def _some(self, rows: list[Joined], filters: list[Filter]) -> bool:
        return any(all(self.holds(joined, each) for each in filters) for joined in rows)

    def holds(self, joined: Joined, each: Filter) -> bool:
        def look(node: Node) -> Any:
            if isinstance(node, Slot):
                return self.world.slot(node)
            assert isinstance(node, Ref)
            place = self.filtered(node, each.via)
            return self.world.value(place.source, joined[place.path], place.column)

        return truth(evaluate(each.node, look)) is True

    def read(self, joined: Joined, column: Column) -> Cell:
        """Return a column's value in a joined row, cut to its grain."""
        place = column.place
        value = self.world.value(place.source, joined[place.path], place.column)
        if column.grain is None:
            return Cell(value)
        source = self.world.model.sources[place.source]
        zone = source.columns[place.column].get("timezone")
        moment = shifted(value, zone, self.calendar.timezone, is_date=source.is_date(place.column))
        return Cell(truncate(moment, column.grain, self.calendar), moment)


def _of_filter(error: OracleError) -> OracleError:
    return OracleError("unreachable_filter", str(error)) if error.code == "unreachable" else error


def many_part(path: Path) -> Path:
    """Return the path up to its last edge to many rows; empty where there is none."""
    ends = [index + 1 for index, edge in enumerate(path) if not edge.one]
    return path[: ends[-1]] if ends else ()


def fans_out(path: Path, model: Model) -> bool:
    """Whether a path comes to other rows of a parent: over a join that several rows share, then one to many rows.

    A bridge is no such row: a source without measures, of whose key each column is one of two joins to one row.
    """
    for at, edge in enumerate(path):
        if not edge.one and any(is_shared(before, model) for before in path[:at]) and not _is_bridge(edge, model):
            return True
    return False


def is_shared(edge: Edge, model: Model) -> bool:
    """Whether an edge leads to one row which rows of its source may have in common."""
    turned = {(theirs, own) for own, theirs in edge.pairs}
    return edge.one and not any(
        each.one and (each.source, each.target, each.alias) == (edge.target, edge.source, edge.alias)
        for each in model.edges
        if set(each.pairs) == turned
    )


def _is_bridge(edge: Edge, model: Model) -> bool:
    source = model.sources[edge.target]
    rest = set(source.grain) - {theirs for _, theirs in edge.pairs}
    owned = [{own for own, _ in each.pairs} for each in model.edges if each.source == source.name and each.one]
    return not source.measures and bool(rest) and any(rest <= columns for columns in owned)
