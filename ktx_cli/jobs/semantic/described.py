"""A source with everything its files say, as plain data."""

from __future__ import annotations

from typing import Any

from ktx_cli.context.search.shown import Shown
from ktx_cli.context.semantic.model import Column, Join, Measure, Source
from ktx_cli.jobs.semantic.reading import kind_of


def described(shown: Shown, source: Source) -> dict[str, Any]:
    """Return a resolved source: what is hidden is left out and counted, what is not said is None or empty."""
    from ktx_cli.context.semantic.planning.axis import time_of

    columns, measures, time = shown.columns(source), shown.measures(source), time_of(source, None)
    return {
        "connection": shown.model.connection,
        "name": source.name,
        "kind": kind_of(source),
        "table": None if source.table is None else ".".join(source.table),
        "sql": source.sql,
        "description": source.description,
        "visibility": source.visibility.value,
        "grain": list(source.grain) if source.keyed else [],
        "time": source.time_column
        or (time.column if time and time.column in [each.name for each in columns] else None),
        "columns": [_column(shown, source, each) for each in columns],
        "measures": [_measure(each) for each in measures],
        "joins": [_join(each) for each in source.joins],
        "segments": [
            {"name": each.name, "expr": each.expr, "description": each.description} for each in source.segments.values()
        ],
        "policies": [{"name": each.name, "description": each.description} for each in source.policies],
        "parameters": [
            {"name": each.name, "type": each.type.value, "default": each.default, "values": list(each.values)}
            for each in source.parameters.values()
        ],
        "tests": [each.name for each in source.tests],
        "not_shown": {
            "columns": len(source.columns) - len(columns),
            "measures": len(source.measures) - len(measures),
        },
        "problems": [each.to_json() for each in shown.model.problems if each.source == source.name],
    }


def _column(shown: Shown, source: Source, column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type.value,
        "expr": column.expr,
        "visibility": shown.visibility(source, column).value,
        "role": column.role,
        "natural_granularity": column.natural_granularity,
        "timezone": column.timezone,
        "unit": column.unit,
        "values": list(column.values),
        "nullable": column.nullable,
        "description": column.description,
    }


def _measure(measure: Measure) -> dict[str, Any]:
    return {
        "name": measure.name,
        "expr": measure.expr,
        "filter": measure.filter,
        "segments": list(measure.segments),
        "visibility": measure.visibility.value,
        "time": measure.time,
        "unit": measure.unit,
        "format": measure.format,
        "special": specials(measure),
        "description": measure.description,
    }


def specials(measure: Measure) -> dict[str, Any]:
    """Return what makes a measure more than an aggregate, by the keys of its file."""
    found: dict[str, Any] = {}
    if (semi := measure.semi_additive) is not None:
        found["semi_additive"] = {"over": semi.over, "take": semi.take, "per": list(semi.per)}
    if (total := measure.cumulative) is not None:
        window = None if total.window is None else str(total.window)
        found["cumulative"] = {"over": total.over, "window": window, "to_date": total.to_date}
    if measure.offset is not None:
        found["offset"] = str(measure.offset)
    if measure.percent_of is not None:
        found["percent_of"] = list(measure.percent_of) or "total"
    if measure.per:
        found["per"] = list(measure.per)
    return found


def _join(join: Join) -> dict[str, Any]:
    return {
        "to": join.to,
        "alias": join.alias,
        "on": join.on,
        "relationship": join.relationship.value,
        "source": join.provenance,
    }
