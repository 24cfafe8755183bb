"""Read a connection's decision points from its files, with semantic-layer names and states."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from sqlglot import exp

from ktx_cli.core import one_line
from ktx_cli.project import DATABASE_SOURCE, Layout, Tree
from ktx_cli.scan.decisions.record import DECISIONS, FoundPoint, FoundPoints, ordered, points_bytes, read_points
from ktx_cli.semantic import (
    DecisionKind,
    DecisionPoint,
    Decisions,
    DecisionState,
    Graph,
    Measure,
    Model,
    SemanticError,
    Source,
    Statement,
    graph_of,
    parse,
)
from ktx_cli.warehouses import TableRef

_OF_COUNTS: Final = frozenset({DecisionKind.ENTITY, DecisionKind.DUPLICATES})
"""Kinds of points whose alternative aggregates are counts."""


def decisions_path(connection: str) -> str:
    """Return the path of a connection's decision point record."""
    return Layout.raw_path(connection, DATABASE_SOURCE, DECISIONS)


def read_decisions(tree: Tree, model: Model, decided: Collection[str] = ()) -> Decisions:
    """Return the decision points of a connection from a tree, with the names of its semantic layer.

    Points whose table has no source in the layer are not included. `decided`: the ids of points that a person has
    answered. Raises `KtxError` for a damaged record.
    """
    where = decisions_path(model.connection)
    content = tree.read(where)
    if content is None:
        return Decisions()
    key, kept = (content, frozenset(decided)), model.remembered.get("decisions")
    if kept is None or kept[0] != key:
        kept = model.remembered["decisions"] = (key, _in_names_of(model, read_points(content, where), decided))
    found: Decisions = kept[1]
    return found


def _in_names_of(model: Model, found: FoundPoints, decided: Collection[str]) -> Decisions:
    layer = _Layer(model)
    points = (layer.point(each, decided) for each in found)
    return Decisions(tuple(sorted((each for each in points if each is not None), key=lambda each: each.id)))


def read_record(tree: Tree, connection: str) -> FoundPoints:
    """Return a connection's recorded points, or none without a record. Raises `KtxError` for a damaged record."""
    where = decisions_path(connection)
    content = tree.read(where)
    return () if content is None else read_points(content, where)


def with_spreads(found: FoundPoints, model: Model, spreads: Mapping[str, Mapping[str, float]]) -> bytes:
    """Return the record with the points' spreads (id -> measure -> relative difference); other points lose theirs."""
    names = source_of_tables(model)
    points = (
        replace(each, spreads=_rounded(spreads.get(each.point_id(name), {}))) if name is not None else each
        for each, name in ((each, names.get(each.table)) for each in found)
    )
    return points_bytes(ordered(points))


def _rounded(spreads: Mapping[str, float]) -> dict[str, float]:
    return {measure: float(f"{spread:.3g}") for measure, spread in spreads.items()}


def source_of_tables(model: Model) -> dict[TableRef, str]:
    """Return table -> the manifest source for it. An unqualified name matches any schema."""
    found: dict[TableRef, str] = {}
    for source in sorted(model.sources.values(), key=lambda each: (not each.generated, each.name)):
        if source.table is not None:
            schema = source.table[-2] if len(source.table) > 1 else None
            found.setdefault(TableRef(schema, source.table[-1]), source.name)
    return found


@dataclass(frozen=True)
class _Layer:
    """A semantic layer, and the columns that its measures depend on."""

    model: Model

    @cached_property
    def names(self) -> Mapping[TableRef, str]:
        """The source of each table."""
        return source_of_tables(self.model)

    @cached_property
    def graph(self) -> Graph:
        """The joins of the layer."""
        return graph_of(self.model)

    @cached_property
    def _measured(self) -> tuple[str, ...]:
        """The sources that have measures, sorted."""
        return tuple(sorted(name for name, source in self.model.sources.items() if source.measures))

    @cached_property
    def _measured_above(self) -> Mapping[str, int]:
        """Source -> the `_measured` sources that reach it by many-to-one joins, as the bits of a number.

        Found for all sources at once: in a large layer, thousands of sources reach most of the others.
        """
        targets: dict[str, list[str]] = defaultdict(list)
        for edge in self.graph if self._measured else ():
            if edge.to_one:
                targets[edge.source].append(edge.target)
        found = defaultdict(int, {name: 1 << place for place, name in enumerate(self._measured)})
        waiting = deque(self._measured)
        while waiting:
            source = waiting.popleft()
            for target in targets[source]:
                if found[source] & ~found[target]:
                    found[target] |= found[source]
                    waiting.append(target)
        return found

    def reaching(self, source: str) -> list[str]:
        """Return a source, and the sources whose measures reach it by exactly one path of many-to-one joins."""
        above = self._measured_above.get(source, 0)
        others = (name for place, name in enumerate(self._measured) if above >> place & 1 and name != source)
        return [source, *(each for each in others if self._has_path(each, source))]

    def _has_path(self, start: str, target: str) -> bool:
        try:
            path = self.graph.path(start, (target,))
        except SemanticError:  # With several paths, a question has to name one.
            return False
        return path is not None and path.to_one

    def point(self, found: FoundPoint, decided: Collection[str]) -> DecisionPoint | None:
        """Return a point with its names, measures and state, or None if the layer has no source for its table."""
        name = self.names.get(found.table) or self.names.get(TableRef(None, found.table.name))
        if name is None or self.model.sources[name].sql is not None:
            return None
        source = self.model.sources[name]
        point = DecisionPoint(
            found.point_id(name), found.kind, name, found.columns, found.question, found.alternatives, found.evidence,
            self._measures(found, source), found.statements, spreads=found.spreads,
        )  # fmt: skip
        if point.id in decided:
            return replace(point, state=DecisionState.DECIDED)
        if found.kind is DecisionKind.FISCAL_START:
            return self._with_fiscal_year(point)
        point = replace(point, statements=(*point.statements, *self._of_segments(point, source)))
        following, others = self._following(point)
        if following and not others:
            return replace(point, state=DecisionState.SETTLED, statements=(*_of_measures(following), *point.statements))
        if following or point.statements:
            return replace(point, state=DecisionState.STATED, statements=(*point.statements, *_of_measures(following)))
        return point

    def _with_fiscal_year(self, point: DecisionPoint) -> DecisionPoint:
        """Return the point about the fiscal year. Settled if `ktx.yaml` sets a year that does not begin in January."""
        start = self.model.calendar.fiscal_year_start
        if start != 1 and point.alternative(str(start)) is not None:
            return replace(point, state=DecisionState.SETTLED)
        return replace(point, state=DecisionState.STATED) if point.statements else point

    def _of_segments(self, point: DecisionPoint, source: Source) -> tuple[Statement, ...]:
        """Return up to two segments of a source that filter on a column of a point."""
        wanted = set(point.columns)
        found = (each for each in source.segments.values() if wanted & _columns(each.expr, self.model.dialect))
        if point.measures:
            return ()
        return tuple(
            Statement(
                one_line(f"segment {each.name}: {each.expr}", 160),
                each.place.path if each.place else "",
                each.place.line if each.place else 1,
            )
            for each in list(found)[:2]
        )

    def _measures(self, found: FoundPoint, source: Source) -> tuple[str, ...]:
        """Return the measures affected by a point with alternative aggregates: those in its source that read its
        columns.

        Without any, the name of the column stands for the figures that people may ask for.
        """
        nothing = (f"{source.name}.{found.columns[0]}",)
        if found.kind is DecisionKind.FISCAL_START:
            return ()
        if found.kind is DecisionKind.DATE:
            return tuple(f"{source.name}.{measure}" for measure in source.measures) or nothing
        exprs = {each.expr for each in found.alternatives} - {None}
        if not exprs:
            return ()
        is_about = self._counts if found.kind in _OF_COUNTS else self._reads
        about = (each.name for each in source.measures.values() if each.expr in exprs or is_about(each, source, found))
        return tuple(f"{source.name}.{measure}" for measure in about) or nothing

    def _reads(self, measure: Measure, source: Source, found: FoundPoint) -> bool:
        """Return whether a measure reads a column of a point."""
        return bool(set(found.columns).intersection(_columns(measure.expr, self.model.dialect)))

    def _counts(self, measure: Measure, source: Source, found: FoundPoint) -> bool:
        """Return whether a measure counts the rows of its source, or reads a point's column besides their key."""
        tree = _tree(measure.expr, self.model.dialect)
        if not isinstance(tree, exp.Count):
            return False
        columns = _columns(measure.expr, self.model.dialect)
        return not columns or columns <= set(source.grain) or bool(columns & (set(found.columns) - set(source.grain)))

    def _following(self, point: DecisionPoint) -> tuple[list[Measure], list[Measure]]:
        """Return the measures that a point affects: those that already filter on its columns, and the others."""
        following: list[Measure] = []
        others: list[Measure] = []
        dated = point.kind is DecisionKind.DATE
        if not dated and not any(each.filter for each in point.alternatives):
            return following, others
        for name in [point.source] if point.measures else self.reaching(point.source):
            source = self.model.sources[name]
            for measure in source.measures.values():
                if point.measures and f"{name}.{measure.name}" not in point.measures:
                    continue
                if not _has_aggregate(measure.expr, self.model.dialect):
                    continue
                if not self._follows(measure, source, point):
                    others.append(measure)
                elif (
                    not measure.is_proposed
                ):  # A proposed measure is the rate of the column itself and settles nothing.
                    following.append(measure)
        return following, others

    def _follows(self, measure: Measure, source: Source, point: DecisionPoint) -> bool:
        """Return whether a measure's filter, segment or CASE reads a point's column; for dates, its time column."""
        if point.kind is DecisionKind.DATE:
            return (measure.time or source.time_column) in point.columns
        segments = (source.segments[name].expr for name in measure.segments if name in source.segments)
        texts = [text for text in (measure.filter, *segments) if text is not None]
        wanted = set(point.columns)
        for text in texts:
            for hops, column in _named(text, self.model.dialect):
                if column in wanted and self._leads(source.name, hops, point.source, column):
                    return True
        inside = _conditions(measure.expr, self.model.dialect)
        return any(column in wanted and self._leads(source.name, hops, point.source, column) for hops, column in inside)

    def _leads(self, start: str, hops: tuple[str, ...], target: str, column: str) -> bool:
        """Return whether a name used in a definition of `start` refers to a column of `target`."""
        if not hops or hops == (start,):
            return start == target or (self.model.sources[start].column(column) is None)
        try:
            path = self.graph.path(start, hops)
        except SemanticError:
            return False
        return path is not None and path.end == target


def _of_measures(measures: Iterable[Measure]) -> tuple[Statement, ...]:
    """Return up to three statements that measures make about a point."""
    return tuple(
        Statement(
            f"{each.name}: {one_line(each.filter or ' and '.join(each.segments) or each.expr, 160)}",
            each.place.path if each.place else "",
            each.place.line if each.place else 1,
        )
        for each in list(measures)[:3]
    )


def _tree(text: str, dialect: str) -> exp.Expr | None:
    try:
        return parse(text, dialect, what="a definition")
    except (
        SemanticError
    ):  # A template without a value, or a definition for which the layer's checks already report an error.
        return None


def _names_in(trees: Iterable[exp.Expr]) -> set[tuple[tuple[str, ...], str]]:
    parts = [tuple(part.name for part in column.parts) for tree in trees for column in tree.find_all(exp.Column)]
    return {(each[:-1], each[-1]) for each in parts}


def _named(text: str, dialect: str) -> set[tuple[tuple[str, ...], str]]:
    """Return (hops, column) for the columns that an expression names."""
    tree = _tree(text, dialect)
    return set() if tree is None else _names_in([tree])


def _columns(text: str, dialect: str) -> set[str]:
    """Return the columns that an expression names in its own source."""
    return {column for hops, column in _named(text, dialect) if not hops}


def _conditions(text: str, dialect: str) -> set[tuple[tuple[str, ...], str]]:
    """Return (hops, column) for the columns in an aggregate's conditions: CASE WHEN, FILTER (WHERE)."""
    tree = _tree(text, dialect)
    if tree is None:
        return set()
    cases = [node.this for case in tree.find_all(exp.Case) for node in case.args.get("ifs") or ()]
    return _names_in([*cases, *(where.this for where in tree.find_all(exp.Where))])


def _has_aggregate(text: str, dialect: str) -> bool:
    """Return whether an expression aggregates rows itself, unlike a formula of measures."""
    tree = _tree(text, dialect)
    return tree is not None and tree.find(exp.AggFunc) is not None
