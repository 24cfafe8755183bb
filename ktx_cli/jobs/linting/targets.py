"""What of the semantic layers a reference of a wiki page leads to, and how that is defined."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.semantic.model import Column, Measure, Model, Segment, Source
from ktx_cli.context.tools.ledger import sources_of
from ktx_cli.context.wiki.references import Kind, Reference


@dataclass(frozen=True, slots=True)
class Target:
    """A source, or a column, measure or segment of one (`member`)."""

    connection: str
    source: str
    member: str | None = None

    @property
    def name(self) -> str:
        """`orders` or `orders.revenue`."""
        return self.source if self.member is None else f"{self.source}.{self.member}"


_OF_MEASURES: Final = ("expr", "filter", "segments", "time", "semi_additive", "cumulative", "offset", "per", "unit")

Part = Source | Column | Measure | Segment


def targets_of(models: Mapping[str, Model], reference: Reference) -> list[Target]:
    """Return what a reference leads to; several where it names no connection, none where nothing has that name.

    As `ktx_cli.context.wiki.resolving` decides whether it leads anywhere.
    """
    if reference.kind is Kind.PAGE:
        return []
    found = dict.fromkeys(
        target
        for model in models.values()
        if reference.connection in (None, model.connection)
        for target in _in_model(model, reference)
    )
    return list(found)


def _in_model(model: Model, reference: Reference) -> Iterator[Target]:
    name = reference.name
    if reference.kind is not Kind.ENTITY and name in model.sources:
        yield Target(model.connection, name)
        return
    members = [target for source, member in _cuts(name) if (target := _member(model, source, member))]
    tables = sources_of(model, tuple(part.strip('"') for part in name.split(".")))
    if reference.kind is Kind.TABLE and tables:
        yield from (Target(model.connection, each.name) for each in tables)
    elif members:
        yield members[0]
    elif reference.kind is not Kind.SOURCE:
        yield from (Target(model.connection, each.name) for each in tables)


def _cuts(name: str) -> Iterator[tuple[str, str]]:
    """Yield every way to read a dotted name as a source and something of it, the longest source first."""
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        yield ".".join(parts[:count]), ".".join(parts[count:])


def _member(model: Model, source: str, member: str) -> Target | None:
    found = part_of(model, Target(model.connection, source, member))
    return None if found is None or isinstance(found, Source) else Target(model.connection, source, found.name)


def part_of(model: Model, target: Target) -> Part | None:
    """Return what a target is in a model, None where it is not there."""
    source = model.sources.get(target.source)
    if source is None or target.member is None:
        return source
    found: Part | None = source.measures.get(target.member) or source.segments.get(target.member)
    return found or source.column(target.member)


def changes(then: Part, now: Part) -> Iterator[str]:
    """Yield what is another in a definition now, in words; descriptions, formats and visibility are no definition.

    A source changes with its table or SQL, its grain, its policies, and the columns it had: one that is gone or of
    another type. A new column changes nothing of what was written before.
    """
    if isinstance(then, Source) and isinstance(now, Source):
        yield from _told(_source_facts(then), _source_facts(now))
        yield from _column_changes(then, now)
    else:
        yield from _told(_facts(then), _facts(now))


def _told(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*then, *now)):
        if then.get(name) != now.get(name):
            yield f"{name} was {_shown(then.get(name))}, is {_shown(now.get(name))}"


def _source_facts(source: Source) -> dict[str, Any]:
    return {
        "table": None if source.table is None else ".".join(source.table),
        "sql": source.sql,
        "grain": ", ".join(source.grain) if source.keyed else None,
        "policies": ", ".join(sorted(each.filter for each in source.policies)) or None,
    }


def _column_changes(then: Source, now: Source) -> Iterator[str]:
    for name, column in then.columns.items():
        other = now.column(name)
        if other is None:
            yield f"column {name} is gone"
        elif other.type is not column.type:
            yield f"column {name} was {column.type}, is {other.type}"


def _facts(part: Part) -> dict[str, Any]:
    if isinstance(part, Column):
        values = ", ".join(part.values) or None
        return {"type": part.type and str(part.type), "expr": part.expr, "unit": part.unit, "values": values}
    if isinstance(part, Segment):
        return {"expr": part.expr}
    if isinstance(part, Measure):
        whole = "the total" if part.percent_of == () else part.percent_of
        return {name: getattr(part, name) or None for name in _OF_MEASURES} | {"percent_of": whole}
    return {}


def _shown(value: Any) -> str:
    if value is None:
        return "not there"
    return f"`{', '.join(map(str, value)) if isinstance(value, tuple) else value}`"
