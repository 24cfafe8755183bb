"""Checks of the joins: both ends are there, names are free, and what they say of the rows is borne out by keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ktx_cli.context.semantic.checking.reporting import INFO, Report
from ktx_cli.context.semantic.loading.entry import unknown_name
from ktx_cli.context.semantic.model import Join, Model, Relationship, Source
from ktx_cli.core.text import listing, plural

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
    wanted += [(source if each.own else target, each.column) for each in join.conditions]
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
    own = {name for name, _ in join.pairs} | {each.column for each in join.conditions if each.own}
    other = {name for _, name in join.pairs} | {each.column for each in join.conditions if not each.own}
    sides = []
    if join.relationship is not Relationship.ONE_TO_MANY:
        sides.append((target, other))
    if join.relationship is not Relationship.MANY_TO_ONE:
        sides.append((source, own))
    for side, columns in sides:
        if not _is_unique(side, columns):
            said = f"the join from `{source.name}` to `{join.to}` is {join.relationship.value}, but nothing says that "
            what = f"{said}{listing(sorted(columns))} is unique in `{side.name}`"
            hint = f"correct the relationship, or the grain of {side.name} ({listing(side.grain)})"
            report.warn("unproven_cardinality", what, source, join.place, hint)


def _is_unique(source: Source, columns: set[str]) -> bool:
    found = [column for name in columns if (column := source.column(name)) is not None]
    grain = [source.column(name) for name in source.grain]
    return any(column.unique for column in found) or (source.keyed and bool(grain) and all(c in found for c in grain))


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
    report.add(INFO, "disconnected", what, first, first.place, f"add joins, for example in {apart[0]}")


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
