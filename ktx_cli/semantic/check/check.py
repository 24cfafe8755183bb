"""Checks a model without a look at the database: names, joins, grains, expressions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Diagnostic, Severity, listing, one_line, plural
from ktx_cli.semantic.check.expressions import (
    ExpressionChecks,
    Report,
    silence_parser,
    template_values,
)
from ktx_cli.semantic.expressions.fragments import TEMPLATE
from ktx_cli.semantic.load.entries import unknown_name
from ktx_cli.semantic.model import Join, Measure, Model, Relationship, SemanticError, Source
from ktx_cli.warehouses import SemanticType

if TYPE_CHECKING:
    from sqlglot import exp


def check_model(model: Model) -> list[Diagnostic]:
    """Return what is wrong in a model beyond what its files showed when they were read, by file and line.

    An `error` is a definition no question can use; a `warning` one that may give a wrong number, or none.
    """
    report = Report()
    expressions = ExpressionChecks(model, report)
    for source in model.sources.values():
        check_source(source, report)
        expressions.check(source)
        if source.sql is not None:
            check_projection(source, model.dialect, expressions.parameters, report)
    expressions.check_cycles()
    check_joins(model, report)
    return report.sorted()


def check_source(source: Source, report: Report) -> None:
    """Check names, grain and time column of a source, and the columns and segments its measures name."""
    for column in source.columns.values():
        if "." in column.name:
            severity = Severity.WARNING if source.generated and column.expr is None else Severity.ERROR
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
        message = f"{what} has the name of a column, which is what the name means in filters"
        report.warn("shadowed_name", message, source, measure.place, f"rename it, for example total_{measure.name}")
    for name in measure.segments:
        if name not in source.segments:
            message = f"{what} names the segment `{name}`, which `{source.name}` does not have"
            report.error("unknown_segment", message, source, measure.place, unknown_name(name, source.segments))
    for key, name in _own_columns(measure):
        if source.column(name) is None:
            message = f"`{key}` of {what} is `{name}`, which is none of the columns of `{source.name}`"
            report.error("unknown_column", message, source, measure.place, unknown_name(name, source.columns))


def _own_columns(measure: Measure) -> Iterator[tuple[str, str]]:
    """Yield what a measure says of its source's columns: key and name."""
    if measure.time is not None:
        yield "time", measure.time
    if measure.semi_additive is not None:
        yield "semi_additive.over", measure.semi_additive.over
        yield from (("semi_additive.per", name) for name in measure.semi_additive.per if "." not in name)
    if measure.cumulative is not None and measure.cumulative.over is not None:
        yield "cumulative.over", measure.cumulative.over


def check_projection(source: Source, dialect: str, parameters: Collection[str], report: Report) -> None:
    """Check the `sql` of a source; its columns only where the statement itself names them all."""
    what, sql = f"`sql` of `{source.name}`", source.sql or ""
    try:
        values = template_values(sql, what, parameters)
        names = projected(TEMPLATE.sub("NULL", sql) if values else sql, dialect, what)
    except SemanticError as error:
        report.raised(error, source, source.place)
        return
    if names is None:
        return
    folded = {name.casefold() for name in names}
    for column in source.columns.values():
        if column.expr is None and column.name.casefold() not in folded:
            what = f"`sql` of `{source.name}` does not give the column `{column.name}`"
            report.error("not_projected", what, source, column.place, unknown_name(column.name, names))


def projected(sql: str, dialect: str, what: str = "it") -> list[str] | None:
    """Return the names of the columns a query gives, None where `*` or an unnamed column leaves them open."""
    from sqlglot import exp

    tree = _query(sql, dialect, what)
    names = [select.alias_or_name for select in tree.selects]
    has_star = any(isinstance(select, exp.Star) or select.is_star for select in tree.selects)
    return None if has_star or not all(names) or not names else names


def _query(sql: str, dialect: str, what: str) -> exp.Query:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    silence_parser()
    try:
        result = [each for each in sqlglot.parse(sql, read=dialect) if each is not None]
    except (SqlglotError, RecursionError, ValueError, LookupError, AttributeError, TypeError) as error:
        raise _refused(f"{what} is no statement of {dialect}: {one_line(sql, 100)}") from error
    if len(result) != 1 or not isinstance(result[0], exp.Query):
        raise _refused(f"{what} is not one query: {one_line(sql, 100)}")
    return result[0]


def _refused(what: str) -> SemanticError:
    return SemanticError(what, hint="write one SELECT", code="definition")


_DISPLAY: Final = re.compile(r"(?:.*_)?(?:name|email|label|title|description)", re.IGNORECASE)
_IDENTIFIER: Final = re.compile(r"(?:.*_)?id", re.IGNORECASE)


def check_joins(model: Model, report: Report) -> None:
    """Check every join of a model, and whether joins connect all its sources."""
    for source in model.sources.values():
        for join in source.joins:
            if join.to in model.sources or join.to not in model.barred:  # whose own error says why it is not there
                _check_join(source, join, model.sources, report)
        _check_aliases(source, model.sources, report)
    _check_connected(model, report)


def _check_join(source: Source, join: Join, sources: Mapping[str, Source], report: Report) -> None:
    target = sources.get(join.to)
    if target is None:
        what = f"`{source.name}` is joined to `{join.to}`, which is not a source"
        report.error("unknown_source", what, source, join.place, unknown_name(join.to, sources))
        return
    wanted = [(source, own) for own, _ in join.pairs] + [(target, other) for _, other in join.pairs]
    wanted += [(source if condition.own else target, condition.column) for condition in join.conditions]
    missing = [(side, name) for side, name in dict.fromkeys((side.name, name) for side, name in wanted)
               if sources[side].column(name) is None]  # fmt: skip
    for side, name in missing:
        what = f"the join from `{source.name}` to `{join.to}` is on `{side}.{name}`, which is not a column"
        report.error("unknown_column", what, source, join.place, unknown_name(name, sources[side].columns))
    if not missing:
        _check_cardinality(source, target, join, report)
        _check_meaning(source, target, join, report)


def _check_aliases(source: Source, sources: Mapping[str, Source], report: Report) -> None:
    seen: dict[str, Join] = {}
    for join in source.joins:
        if join.alias is None:
            continue
        if join.alias in sources:
            what = f"the alias `{join.alias}` of a join of `{source.name}` is the name of a source"
            report.error("duplicate", what, source, join.place, "choose another alias")
        if join.alias in seen:
            what = (
                f"`{source.name}` has two joins with the alias `{join.alias}`: the other is at {seen[join.alias].place}"
            )
            report.error("duplicate", what, source, join.place, "choose another alias for one of them")
        seen.setdefault(join.alias, join)


def _check_cardinality(source: Source, target: Source, join: Join, report: Report) -> None:
    """Warn where the side that is to have one row is not joined by columns known to be unique."""
    own = {name for name, _ in join.pairs} | {condition.column for condition in join.conditions if condition.own}
    other = {name for _, name in join.pairs} | {condition.column for condition in join.conditions if not condition.own}
    sides = []
    if join.relationship is not Relationship.ONE_TO_MANY:
        sides.append((target, other))
    if join.relationship is not Relationship.MANY_TO_ONE:
        sides.append((source, own))
    for side, columns in sides:
        if not _is_unique(side, columns):
            begin = f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but nothing says that "
            what = f"{begin}{listing(sorted(columns))} is unique in `{side.name}`"
            hint = f"correct the relationship, or the grain of {side.name} ({listing(side.grain)})"
            report.warn("unproven_cardinality", what, source, join.place, hint)


def _is_unique(source: Source, columns: set[str]) -> bool:
    result = [column for name in columns if (column := source.column(name)) is not None]
    grain = [source.column(name) for name in source.grain]
    return any(column.unique for column in result) or (source.keyed and bool(grain) and all(c in result for c in grain))


def _check_meaning(source: Source, target: Source, join: Join, report: Report) -> None:
    """Warn where a text for people is compared with an identifier."""
    if join.relationship is Relationship.ONE_TO_MANY:
        return
    for own, other in join.pairs:
        if _DISPLAY.fullmatch(own) and _IDENTIFIER.fullmatch(other) and other in target.grain:
            what = (
                f"the join from `{source.name}` to `{join.to}` compares the text `{own}` with the identifier `{other}`"
            )
            hint = f"join on the column of {source.name} that holds the {other} of {join.to}"
            report.warn("display_value", what, source, join.place, hint)


def _check_connected(model: Model, report: Report) -> None:
    """Note the sources that no join connects with most of the others."""
    groups = _components(model)
    if len(groups) < 2:
        return
    apart = sorted(name for group in groups[1:] for name in group)
    first = model.sources[apart[0]]
    what = f"no join connects {plural(len(apart), 'source')} with the others: {listing(apart, 12)}"
    report.add(Severity.INFO, "disconnected", what, first, first.place, f"add joins, for example in {apart[0]}")


def _components(model: Model) -> list[set[str]]:
    """Return the groups of connected sources, the biggest first, then by name."""
    neighbours: dict[str, set[str]] = {name: set() for name in model.sources}
    for source in model.sources.values():
        for join in source.joins:
            if join.to in neighbours:
                neighbours[source.name].add(join.to)
                neighbours[join.to].add(source.name)
    groups: list[set[str]] = []
    rest = dict.fromkeys(sorted(neighbours))
    while rest:
        group, open_names = set(), [next(iter(rest))]
        while open_names:
            name = open_names.pop()
            if name not in group:
                group.add(name)
                rest.pop(name, None)
                open_names += neighbours[name]
        groups.append(group)
    return sorted(groups, key=lambda group: (-len(group), min(group)))
