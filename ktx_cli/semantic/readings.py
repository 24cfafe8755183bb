"""Measures under a decision point's readings: the affected measures, and their variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp, parse_one

from ktx_cli.semantic.decisions import Alternative, DecisionPoint
from ktx_cli.semantic.expressions.fragments import COUNT, OTHER, SUM, is_aggregate, kind_of, parse
from ktx_cli.semantic.expressions.names import column_parts
from ktx_cli.semantic.graph import Graph, reaches_once
from ktx_cli.semantic.model import Measure, Model, Segment, SemanticError, Source, Visibility
from ktx_cli.semantic.plan.axis import time_of

_SEGMENT: Final = "ktx reading {}"
"""The segment name for a reading in a modified model."""


@dataclass(frozen=True, slots=True)
class TouchedMeasure:
    """A measure that a decision point affects. `ref` is `source.measure`."""

    source: Source
    measure: Measure

    @property
    def ref(self) -> str:
        """The reference of the measure."""
        return f"{self.source.name}.{self.measure.name}"


def touched_measures(model: Model, graph: Graph, point: DecisionPoint, *, askable: bool = True) -> list[TouchedMeasure]:
    """Return the measures that a point affects, most important first.

    People's definitions precede those of other tools and proposed ones; measures of the point's source precede those
    of other sources; sums and counts precede others. Measures that are only computed from others are excluded, because
    they follow these, and so are measures that settle the point themselves. `askable` excludes measures that cannot be
    queried.
    """
    measures = _measures(model)
    places = sorted(measures[ref][0] for ref in set(point.measures) & measures.keys())
    known = [each for _, each in measures.values()]
    found = [
        each
        for each in ([known[place] for place in places] if point.measures else known)
        if not askable or {each.source.visibility, each.measure.visibility} == {Visibility.PUBLIC}
    ]
    if not point.measures or any(each.filter is not None for each in point.alternatives):
        far = {each.source.name for each in found if not reaches_once(graph, each.source.name, point.source)}
        found = [each for each in found if each.source.name not in far]
    own_only = any(each.expr is not None or each.time is not None for each in point.alternatives)
    found = [each for each in found if each.source.name == point.source or not own_only]
    ranked = [(each, tree) for each in found if (tree := _formula(model, each)) is not None]
    if not own_only:
        ranked = [(each, tree) for each, tree in ranked if not _says_itself(model, each, tree, point)]
    return [each for each, tree in sorted(ranked, key=lambda pair: _rank(pair[0], pair[1], point))]


def _measures(model: Model) -> Mapping[str, tuple[int, TouchedMeasure]]:
    """Return reference -> the measure of a model, and its place among all."""
    found = model.remembered.get("measures")
    if found is None:
        named = (TouchedMeasure(source, each) for source in model.sources.values() for each in source.measures.values())
        found = model.remembered["measures"] = {each.ref: (place, each) for place, each in enumerate(named)}
    measures: Mapping[str, tuple[int, TouchedMeasure]] = found
    return measures


def _formula(model: Model, touched: TouchedMeasure) -> exp.Expr | None:
    """Return a measure's expression, or None if it has no own aggregate or is invalid."""
    try:
        tree = parse(touched.measure.expr, model.dialect, what=f"the measure `{touched.ref}`")
    except SemanticError:  # `ktx sl validate` reports it
        return None
    return tree if any(is_aggregate(node) for node in tree.walk()) else None


def _says_itself(model: Model, touched: TouchedMeasure, tree: exp.Expr, point: DecisionPoint) -> bool:
    """Whether a measure reads a column of a point, and thereby settles the point itself."""
    source, measure = touched.source, touched.measure
    texts = [measure.filter, *(source.segments[each].expr for each in measure.segments if each in source.segments)]
    trees = [tree]
    for text in filter(None, texts):
        try:
            trees.append(parse(text, model.dialect, what=f"the measure `{touched.ref}`"))
        except SemanticError:  # a template without a value, or an error that `ktx sl validate` reports
            continue
    parts = [column_parts(column) for each in trees for column in each.find_all(exp.Column)]
    own = touched.source.name == point.source
    return any(each[-1] in point.columns and (own if len(each) == 1 else each[-2] == point.source) for each in parts)


def is_additive(model: Model, touched: TouchedMeasure) -> bool:
    """Whether a measure is a single sum or count, so that its groups add up."""
    tree = _formula(model, touched)
    return tree is not None and is_aggregate(tree) and kind_of(tree) in (SUM, COUNT)


def _rank(touched: TouchedMeasure, tree: exp.Expr, point: DecisionPoint) -> tuple[int, int, int, str]:
    measure = touched.measure
    author = 2 if measure.is_proposed else 1 if measure.imported else 0
    kind = (SUM, COUNT, OTHER).index(kind_of(tree) if is_aggregate(tree) else OTHER)
    return author, touched.source.name != point.source, kind, touched.ref


def condition_in(model: Model, point: DecisionPoint, condition: str, source: str) -> str:
    """Return a point's condition in terms of another source that reaches its source.

    Raises `SemanticError` for an invalid condition.
    """
    if source == point.source:
        return condition
    return with_source(model, point.source, condition)


def with_source(model: Model, source: str, definition: str) -> str:
    """Return a source's condition or aggregate with qualified columns, as in a query.

    Raises `SemanticError` for an invalid text.
    """
    parse(definition, model.dialect, what=f"a definition of `{source}`")
    around = exp.Paren(this=parse_one(definition, read=model.dialect, into=exp.Condition))
    for column in list(around.find_all(exp.Column)):
        parts = [exp.to_identifier(source), *(part.copy() for part in column.parts)]
        if len(parts) > _MOST_PARTS:
            message = f"`{column.sql(model.dialect)}` of `{source}` has a join path that is too long"
            raise SemanticError(message, hint="shorten the join path", code="definition")
        column.replace(_column(parts))
    text = str(around.this.sql(model.dialect))
    try:
        parse(text, model.dialect, what="")
    except SemanticError:  # the name of a source is a keyword
        return str(around.this.sql(model.dialect, identify=True))
    return text


_MOST_PARTS: Final = 4
"""Maximum number of parts in a column name."""


def _column(parts: Sequence[exp.Expr]) -> exp.Column:
    return exp.Column(**dict(zip(("this", "table", "db", "catalog"), reversed(parts), strict=False)))


def under(model: Model, touched: TouchedMeasure, point: DecisionPoint, alternative: Alternative) -> TouchedMeasure:
    """Return a measure and its source under a reading. Raises `SemanticError` for an invalid condition."""
    source, measure = touched.source, touched.measure
    if alternative.filter is not None:
        name = _SEGMENT.format(alternative.id)
        segment = Segment(name, condition_in(model, point, alternative.filter, source.name))
        source = replace(source, segments={**source.segments, name: segment})
        measure = replace(measure, segments=(*measure.segments, name))
    measure = replace(measure, expr=alternative.expr or measure.expr, time=alternative.time or measure.time)
    return TouchedMeasure(source, measure)


@dataclass(frozen=True, slots=True)
class Readings:
    """A measure under all readings of a point, as measures of a modified model.

    `columns` maps alternatives to the result columns of their measures in `query_measures`.
    """

    model: Model
    columns: Mapping[str, str]
    query_measures: tuple[Mapping[str, str], ...]


def readings_of(model: Model, touched: TouchedMeasure, point: DecisionPoint) -> Readings:
    """Return a measure under all readings of a point. Raises `SemanticError` for an invalid reading."""
    source = touched.source
    segments, measures, asked = dict(source.segments), dict(source.measures), []
    columns = {}
    for number, alternative in enumerate(point.alternatives):
        altered = under(model, touched, point, alternative)
        name = f"ktx_reading_{number}"
        segments |= altered.source.segments
        measures[name] = replace(altered.measure, name=name)
        columns[alternative.id] = name
        asked.append({"expr": sql_name((source.name, name), model.dialect), "name": name})
    altered_source = replace(source, segments=segments, measures=measures)
    return Readings(replace(model, sources={**model.sources, source.name: altered_source}), columns, tuple(asked))


def sql_name(parts: Sequence[str], dialect: str) -> str:
    """Return names for a query expression, quoted if necessary."""
    plain = _column([exp.to_identifier(part) for part in parts])
    text = str(plain.sql(dialect))
    try:
        tree = parse(text, dialect, what="")
    except SemanticError:  # one of the names is a keyword
        tree = None
    if isinstance(tree, exp.Column) and column_parts(tree) == tuple(parts):
        return text
    return str(plain.sql(dialect, identify=True))


def time_expression(model: Model, touched: TouchedMeasure) -> str | None:
    """Return the query expression for a measure's latest time, or None if it has no time."""
    name = time_of(touched.source, touched.measure.time)
    if name is None:
        return None
    return f"max({sql_name((touched.source.name, name.column), model.dialect)})"


def rows_left_out(model: Model, point: DecisionPoint, alternative: Alternative) -> str | None:
    """Return the query filter for the rows that a reading excludes, or None if it excludes none.

    Rows for which the condition of the reading is null are excluded as well.
    """
    if alternative.filter is None:
        return None
    kept = condition_in(model, point, alternative.filter, source="")
    return f"CASE WHEN {kept} THEN 0 ELSE 1 END = 1"
