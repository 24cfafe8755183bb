"""A source of the semantic layer as a model reads it: what it is, its columns, joins, measures and segments."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from ktx_cli.connectors.port import SemanticType
from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.profiling.model import ValueKind
from ktx_cli.context.scan.profiling.privacy import refusal
from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.model import Column, Measure, Source
from ktx_cli.context.tools.limits import shortened
from ktx_cli.core.text import listing, one_line

LONGEST_TEXT: Final = 300
LONGEST_VALUE: Final = 40
MOST_VALUES: Final = 10

_KINDS: Final[Mapping[SemanticType, ValueKind]] = {
    SemanticType.STRING: ValueKind.TEXT,
    SemanticType.NUMBER: ValueKind.NUMBER,
    SemanticType.TIME: ValueKind.TIME,
    SemanticType.BOOLEAN: ValueKind.BOOLEAN,
}


def headline(source: Source) -> str:
    """Return one line: name, where its rows come from, description."""
    description = f": {one_line(source.description, LONGEST_TEXT)}" if source.description else ""
    return f"{source.name} ({origin(source)}){description}"


def origin(source: Source) -> str:
    """Return `table shop.orders` or `sql`."""
    if source.table is None:
        return "sql"
    return f"table {'.'.join(map(quoted, source.table))}"


def column_line(source: Source, column: Column, values: Collection[Any] = ()) -> str:
    """Return one line about a column. `values`: some that were seen in it; personal ones are not told."""
    facts = [column.type.value]
    facts += ["key"] if column.name in source.grain and source.keyed else []
    facts += ["required"] if not column.nullable else []
    facts += [f"unit {column.unit}"] if column.unit else []
    facts += [f"computed: {shortened(one_line(column.expr), LONGEST_TEXT)}"] if column.expr else []
    text = f"- {column.name}: {', '.join(facts)}"
    text += f"; {one_line(column.description, LONGEST_TEXT)}" if column.description else ""
    told = _told(source, column, values)
    return text + (f"; values: {told}" if told else "")


def rest_lines(shown: Shown, source: Source) -> Iterator[str]:
    """Yield the lines about grain, time, joins, segments and measures; nothing hidden, no expression that names it."""
    if source.keyed:
        yield f"grain: {', '.join(source.grain)}"
    if source.time_column:
        yield f"time: {source.time_column}"
    for join in source.joins:
        alias = f" as {join.alias}" if join.alias else ""
        yield f"join: {join.to}{alias} on {one_line(join.on)} ({join.relationship.value})"
    for policy in source.policies:
        yield f"policy: {policy.name} (rows are limited to what a caller may see; only people change it)"
    for segment in source.segments.values():
        expr = one_line(segment.expr, LONGEST_TEXT) if shown.tells(source, segment.expr) else "(not shown)"
        yield f"segment: {segment.name} = {expr}{_described(segment.description)}"
    for measure in shown.measures(source):
        yield f"measure: {_measure(shown, source, measure)}"


def names_of(shown: Shown, source: Source) -> str:
    """Return the names of measures and columns, some of each."""
    measures = [each.name for each in shown.measures(source)]
    columns = [each.name for each in shown.columns(source)]
    parts = [f"measures: {listing(measures, 12)}"] if measures else []
    parts += [f"columns: {listing(columns, 20)}"] if columns else []
    return "; ".join(parts)


def _measure(shown: Shown, source: Source, measure: Measure) -> str:
    expr = one_line(measure.expr, LONGEST_TEXT) if shown.tells(source, measure.expr) else "(not shown)"
    filtered = measure.filter if measure.filter and shown.tells(source, measure.filter) else None
    only = f" where {one_line(filtered, LONGEST_TEXT)}" if filtered else ""
    segments = f" in {', '.join(measure.segments)}" if measure.segments else ""
    return f"{measure.name} = {expr}{only}{segments}{_described(measure.description)}"


def _described(description: str | None) -> str:
    return f"; {one_line(description, LONGEST_TEXT)}" if description else ""


def _told(source: Source, column: Column, values: Collection[Any]) -> str:
    """Return values of a column: those its definition lists, else those that were seen and may be told."""
    if column.values:
        return listing([one_line(value, LONGEST_VALUE) for value in column.values], MOST_VALUES)
    seen = [value for value in values if value is not None]
    if refusal(source.name, column.name, _KINDS[column.type], seen) is not None:
        return ""
    return listing([one_line(str(value), LONGEST_VALUE) for value in seen], MOST_VALUES)
