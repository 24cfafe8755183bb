"""Checks of one source by itself: its names, its grain, what its measures name."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.semantic.checking.reporting import ERROR, WARNING, Report
from ktx_cli.context.semantic.loading.entry import unknown_name
from ktx_cli.context.semantic.model import Measure, Source


def check_source(source: Source, report: Report) -> None:
    """Check names, grain and time column of a source, and the columns and segments its measures name."""
    for column in source.columns.values():
        if "." in column.name:
            severity = WARNING if source.generated and column.expr is None else ERROR
            what = f"the name of the column `{column.name}` of `{source.name}` has a dot"
            report.add(
                severity, "dotted_name", what, source, column.place, "rename it, or compute one with another name"
            )
    for name in source.grain:
        if source.column(name) is None:
            what = f"the grain of `{source.name}` names `{name}`, which is none of its columns"
            report.error("unknown_column", what, source, source.place, unknown_name(name, source.columns))
    _check_time(source, report)
    for measure in source.measures.values():
        _check_measure(source, measure, report)


def _check_time(source: Source, report: Report) -> None:
    if source.time_column is None:
        return
    column = source.column(source.time_column)
    if column is None:
        what = f"the default time of `{source.name}` is `{source.time_column}`, which is none of its columns"
        report.error("unknown_column", what, source, source.place, unknown_name(source.time_column, source.columns))
    elif column.type is not SemanticType.TIME:
        what = f"the default time of `{source.name}`, `{column.name}`, is a {column.type.value}"
        report.warn("not_a_time", what, source, column.place or source.place, "give that column type: time")


def _check_measure(source: Source, measure: Measure, report: Report) -> None:
    what = f"measure `{measure.name}` of `{source.name}`"
    if "." in measure.name:
        report.error("dotted_name", f"the name of {what} has a dot", source, measure.place, "rename it")
    if source.column(measure.name) is not None:
        said = f"{what} has the name of a column, which is what the name means in filters"
        report.warn("shadowed_name", said, source, measure.place, f"rename it, for example total_{measure.name}")
    for name in measure.segments:
        if name not in source.segments:
            said = f"{what} names the segment `{name}`, which `{source.name}` does not have"
            report.error("unknown_segment", said, source, measure.place, unknown_name(name, source.segments))
    for key, name in _own_columns(measure):
        if source.column(name) is None:
            said = f"`{key}` of {what} is `{name}`, which is none of the columns of `{source.name}`"
            report.error("unknown_column", said, source, measure.place, unknown_name(name, source.columns))


def _own_columns(measure: Measure) -> Iterator[tuple[str, str]]:
    """Yield what a measure says of its source's columns: key and name."""
    if measure.time is not None:
        yield "time", measure.time
    if measure.semi_additive is not None:
        yield "semi_additive.over", measure.semi_additive.over
        yield from (("semi_additive.per", name) for name in measure.semi_additive.per if "." not in name)
    if measure.cumulative is not None and measure.cumulative.over is not None:
        yield "cumulative.over", measure.cumulative.over
