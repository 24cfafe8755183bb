"""The parts of the context that refer to database tables and columns, directly or indirectly."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.core import KtxError, Record
from ktx_cli.protection.relations import Named, names_in, parts_of_ref, sources_of
from ktx_cli.semantic import (
    Join,
    Measure,
    MetricTest,
    Model,
    Place,
    Relationship,
    Resolver,
    Source,
    read_fragment,
    same_table,
    unmasked,
)
from ktx_cli.warehouses import TableRef

HIDDEN: Final = frozenset({"column", "source", "grain"})
"""Kinds that a scan creates itself: they lead to other parts, and are not reported."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the context: a measure, a join, a page, ... `scan`: a scan recreates it."""

    kind: str
    name: str
    connection: str | None = None
    place: Place | None = field(default=None, compare=False)
    scan: bool = False

    @property
    def is_reported(self) -> bool:
        """Whether the part is reported to users."""
        return not (self.scan and self.kind in HIDDEN)


@dataclass(frozen=True, slots=True)
class Use(Record):
    """A part that depends on a change; `via` is the part in between, if there is one."""

    part: Part
    via: Part | None = None

    def __str__(self) -> str:
        between = "" if self.via is None else f" by {self.via.name}"
        return f"{self.part.kind} {self.part.name}{between}"

    json_keys = (
        "kind=part.kind",
        "name=part.name",
        "connection=part.connection",
        "path=part.place.path",
        "line=part.place.line",
        "via=via.name",
    )


class Uses:
    """A graph of dependencies between parts. Statements name tables and columns; other parts are linked to parts."""

    def __init__(self) -> None:
        self._needing: dict[Part, list[Part]] = defaultdict(list)
        self._statements: list[tuple[Part, Named]] = []

    def link(self, needed: Part, by: Part) -> None:
        """Record that a part depends on another."""
        self._needing[needed].append(by)

    def note(self, part: Part, named: Named | None) -> None:
        """Record what a part's statement names, or None if it cannot be parsed."""
        if named is not None:
            self._statements.append((part, named))

    def naming(self, table: TableRef, column: str | None = None) -> Iterator[Part]:
        """Yield the parts whose statements name a table or one of its columns; `*` names all columns."""
        parts = parts_of_ref(table)
        for part, named in self._statements:
            if column is None:
                found = any(same_table(each, parts) for each in named.tables)
            else:
                found = any(same_table(star, parts) for star in named.stars) or any(
                    name.casefold() == column.casefold() and any(same_table(each, parts) for each in tables)
                    for tables, name in named.columns
                )
            if found:
                yield part

    def of(self, starts: Iterable[Part]) -> tuple[Use, ...]:
        """Return the parts that depend on the given ones, closest first, including given ones that no scan creates."""
        waiting: deque[tuple[Part, Part | None]] = deque((part, None) for part in starts)
        seen: set[Part] = set()
        result: list[Use] = []
        while waiting:
            part, via = waiting.popleft()
            if part in seen:
                continue
            seen.add(part)
            if part.is_reported and not (part.kind == "grain" and via is not None):  # reported for them
                result.append(Use(part, via))
            between = part if part.is_reported else via
            waiting += ((each, between) for each in self._needing[part])
        return tuple(result)


FORMAL = "formal"
"""The `source` of a join that a foreign key creates."""


@dataclass(slots=True)
class LayerUses:
    """Links the parts of one semantic layer; `parts` maps a source and an entity's name to the part."""

    model: Model
    uses: Uses
    _names: Resolver = field(init=False)
    _parameters: set[str] = field(init=False)
    _joins: list[tuple[Source, Join, Part]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._names = Resolver(self.model)
        self._parameters = {name for source in self.model.sources.values() for name in source.parameters}
        for source in self.model.sources.values():
            self._source(source)

    def source(self, source: Source) -> Part:
        """Return the part for a source."""
        return Part("source", source.name, self.model.connection, source.place, scan=source.generated)

    def member(self, source: Source, name: str) -> Part | None:
        """Return the part for a measure, segment or column, named as in `ktx_cli.jobs.check.lint.staleness`."""
        if name in source.measures:
            return self._part("measure", source, name, source.measures[name].place)
        if name in source.segments:
            return self._part("segment", source, name, source.segments[name].place)
        column = source.column(name)
        if column is None:
            return None
        return self._part("column", source, column.name, column.place, scan=column.expr is None)

    def of_table(self, table: TableRef) -> list[Part]:
        """Return the parts that depend on a table."""
        return [self.source(each) for each in sources_of(self.model, parts_of_ref(table))]

    def of_column(self, table: TableRef, name: str) -> list[Part]:
        """Return the parts of the layer that represent a table's column."""
        result = []
        for source in sources_of(self.model, parts_of_ref(table)):
            column = source.column(name)
            if column is not None and column.expr is None and (part := self.member(source, column.name)):
                result.append(part)
        return result

    def of_key(self, table: TableRef, columns: Iterable[str]) -> list[Part]:
        """Return the grains that are a table's key, and the joins by these columns to one of its rows."""
        wanted = {name.casefold() for name in columns}
        sources = sources_of(self.model, parts_of_ref(table))
        grains = [
            self._grain(each) for each in sources if each.keyed and {name.casefold() for name in each.grain} == wanted
        ]
        return grains + [part for source in sources for part in self._to_one(source, wanted)]

    def of_reference(self, table: TableRef, columns: tuple[str, ...]) -> list[Part]:
        """Return the joins that a table's foreign key creates, in both directions."""
        names = {each.name for each in sources_of(self.model, parts_of_ref(table))}
        return [
            part
            for source, join, part in self._joins
            if join.provenance == FORMAL
            and (
                (source.name in names and tuple(own for own, _ in join.pairs) == columns)
                or (join.to in names and tuple(other for _, other in join.pairs) == columns)
            )
        ]

    def _to_one(self, target: Source, columns: set[str]) -> Iterator[Part]:
        for source, join, part in self._joins:
            forward = join.relationship is not Relationship.ONE_TO_MANY and join.to == target.name
            backward = join.relationship is not Relationship.MANY_TO_ONE and source.name == target.name
            if (forward and columns <= {other.casefold() for _, other in join.pairs}) or (
                backward and columns <= {own.casefold() for own, _ in join.pairs}
            ):
                yield part

    def _part(self, kind: str, source: Source, name: str, place: Place | None, *, scan: bool = False) -> Part:
        return Part(kind, f"{source.name}.{name}", self.model.connection, place or source.place, scan)

    def _grain(self, source: Source) -> Part:
        return self._part("grain", source, ", ".join(source.grain), source.place, scan=source.generated)

    def _source(self, source: Source) -> None:
        own = self.source(source)
        if source.sql is not None:
            self.uses.note(own, names_in(source.sql, self.model.dialect))
        for column in source.columns.values():
            part = self.member(source, column.name)
            if part is not None:
                self._needs(source, part, [column.expr])
        for segment in source.segments.values():
            self._needs(source, self._part("segment", source, segment.name, segment.place), [segment.expr])
        for policy in source.policies:
            self._needs(source, self._part("policy", source, policy.name, policy.place), [policy.filter])
        for measure in source.measures.values():
            self._measure(source, measure)
        for join in source.joins:
            self._join(source, join)
        self._grain_and_time(source)
        for test in source.tests:
            self._test(source, test)

    def _needs(self, source: Source, part: Part, expressions: Iterable[str | None]) -> None:
        """Link a part to its source and to the parts that its expressions name."""
        self.uses.link(self.source(source), part)
        for text in filter(None, expressions):
            for needed in self._named(source, text):
                if needed != part:
                    self.uses.link(needed, part)

    def _named(self, source: Source, text: str) -> Iterator[Part]:
        """Yield the parts that an expression names; an invalid expression names none, and other checks report it."""
        try:
            fragment = read_fragment(text, self.model.dialect, "", self._parameters, policy=True)
        except KtxError:
            return
        for reference in fragment.references:
            found = self._resolved(source, reference.parts, aggregated=reference.aggregated)
            if found is not None:
                yield found

    def _resolved(self, source: Source, parts: tuple[str, ...], *, aggregated: bool) -> Part | None:
        measure = None if aggregated else self._names.measure(source, parts)
        if measure is not None:
            return self.member(measure[0], measure[1].name)
        try:
            owner, column = self._names.column(source, parts)
        except KtxError:
            owned = self._names.measure(source, parts)
            return None if owned is None else self.member(owned[0], owned[1].name)
        return self._part("column", owner, column.name, column.place, scan=column.expr is None)

    def _measure(self, source: Source, measure: Measure) -> None:
        part = self._part("measure", source, measure.name, measure.place)
        own = [measure.time, *measure.per, *(measure.percent_of or ())]
        if measure.semi_additive is not None:
            own += [measure.semi_additive.over, *measure.semi_additive.per]
        if measure.cumulative is not None:
            own.append(measure.cumulative.over)
        self._needs(source, part, [measure.expr, measure.filter])
        for name in filter(None, own):
            found = self._resolved(source, tuple(name.split(".")), aggregated=True)
            if found is not None:
                self.uses.link(found, part)
        for name in measure.segments:
            if name in source.segments:
                self.uses.link(self._part("segment", source, name, source.segments[name].place), part)

    def _join(self, source: Source, join: Join) -> None:
        target = self.model.sources.get(join.to)
        part = Part("join", f"{source.name} to {join.to} on {join.on}", self.model.connection, join.place)
        self._joins.append((source, join, part))
        sides = [(source, own) for own, _ in join.pairs] + [(target, other) for _, other in join.pairs]
        sides += [(source if condition.own else target, condition.column) for condition in join.conditions]
        for side in filter(None, (source, target)):
            self.uses.link(self.source(side), part)
        for owner, name in sides:
            column = None if owner is None else self.member(owner, name)
            if column is not None:
                self.uses.link(column, part)

    def _grain_and_time(self, source: Source) -> None:
        grain = self._grain(source)
        for name in source.grain if source.keyed else ():
            column = self.member(source, name)
            if column is not None:
                self.uses.link(column, grain)
        time = None if source.time_column is None else self.member(source, source.time_column)
        if time is not None:
            self.uses.link(time, self._part("default time", source, str(source.time_column), source.place))

    def _test(self, source: Source, test: MetricTest) -> None:
        part = self._part("test", source, test.name, test.place)
        self.uses.link(self.source(source), part)
        self.uses.note(part, asked_names(self.model, test.query))


def asked_names(model: Model, query: object) -> Named | None:
    """Return what a query's statement names, without its policies and masks, or None if it does not compile."""
    from ktx_cli.semantic import compile_query

    sources = {name: replace(unmasked(source), policies=()) for name, source in model.sources.items()}
    try:
        asked = compile_query(replace(model, sources=sources), query)  # type: ignore[arg-type]
    except KtxError:
        return None
    return names_in(asked.sql, model.dialect)
