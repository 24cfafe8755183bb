"""What a question looks up across all sources of a layer: who has a column of that name, who joins whom.

A question names a handful of sources of thousands. Whatever it needs of the others is asked here, so that a layer whose
sources are read one by one from a store does not have to read them all.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ktx_cli.semantic.model import Join, Model, Parameter, Source


class Lookup(ABC):
    """Looks up sources of one layer by what they have. What is returned is in the order of the sources' names."""

    @abstractmethod
    def with_column(self, name: str) -> Sequence[str]:
        """Return the names of the sources that have a column of a name, as `Source.column` finds it."""

    @abstractmethod
    def with_measure(self, name: str) -> Sequence[Source]:
        """Return the sources that have a measure of a name, as `Source.measure` finds it."""

    @abstractmethod
    def with_segment(self, name: str) -> Sequence[Source]:
        """Return the sources that have a segment of exactly that name."""

    @abstractmethod
    def of_table(self, name: str) -> Sequence[Source]:
        """Return the sources of tables of a name, in whatever schema and letter case."""

    @abstractmethod
    def joins_of(self, source: str) -> Sequence[tuple[str, Join]]:
        """Return the joins that a source declares, and those that others declare to it, each with who declares it."""

    @abstractmethod
    def joined(self) -> Iterable[tuple[str, str]]:
        """Return (who declares it, target) of all joins."""

    @abstractmethod
    def aliased(self) -> Iterable[tuple[str, str, str]]:
        """Return (who declares it, alias, target) of the joins with an alias."""

    @abstractmethod
    def labelled(self) -> Iterable[tuple[str, str, str]]:
        """Return (who declares it, target, label) of all joins; see `labels_of`."""

    @abstractmethod
    def with_parameters(self) -> Sequence[Source]:
        """Return the sources that declare parameters."""

    @abstractmethod
    def of_tables(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return (source, parts of its table) of the sources of tables."""

    @abstractmethod
    def restricted(self) -> Iterable[str]:
        """Return the sources of which something says that it is internal or hidden; see `Source.is_all_public`."""

    @abstractmethod
    def protected(self) -> Iterable[str]:
        """Return the sources that are protected; see `Source.is_protected`."""

    @functools.cached_property
    def aliases(self) -> Mapping[str, frozenset[str]]:
        """The aliases of joins, and the sources that each may lead to."""
        targets: dict[str, set[str]] = defaultdict(set)
        for _, alias, target in self.aliased():
            targets[alias].add(target)
        return {alias: frozenset(found) for alias, found in targets.items()}

    @functools.cached_property
    def labels(self) -> frozenset[str]:
        """The names that a `via` may give a join."""
        return frozenset(label for _, _, label in self.labelled())

    @functools.cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of all sources; of several with one name the last."""
        return {name: each for source in self.with_parameters() for name, each in source.parameters.items()}

    @functools.cached_property
    def tables(self) -> Sequence[tuple[str, ...]]:
        """The tables that sources are of."""
        return [table for _, table in self.of_tables()]

    @functools.cached_property
    def table_words(self) -> frozenset[str]:
        """Every part of a table's name, in small letters."""
        return frozenset(part.casefold() for table in self.tables for part in table)

    @functools.cached_property
    def is_all_public(self) -> bool:
        """Whether nothing says that it is internal or hidden."""
        return not any(True for _ in self.restricted())

    @functools.cached_property
    def protects(self) -> bool:
        """Whether some source is protected."""
        return any(True for _ in self.protected())


class SourceMap(Mapping[str, "Source"], ABC):
    """The sources of a layer by name, with a lookup of their own."""

    @property
    @abstractmethod
    def lookup(self) -> Lookup:
        """The lookup over these sources."""


def lookup_of(model: Model) -> Lookup:
    """Return the lookup over the sources of a model; it is kept with the model."""
    if isinstance(model.sources, SourceMap):
        return model.sources.lookup
    if not model.lookups:
        model.lookups.append(ScanningLookup(model.sources))
    found: Lookup = model.lookups[0]
    return found


def labels_of(owner: str, join: Join) -> set[str]:
    """Return the names that a `via` may give a join, from whichever side it is gone over.

    Its columns (`store_id+day`) are those of the side that has one row of the other.
    """
    sides = {"many_to_one": (0,), "one_to_many": (1,)}.get(join.relationship.value, (0, 1))
    columns = {"+".join(pair[side] for pair in join.pairs) for side in sides}
    return {owner, join.to, *columns, *((join.alias,) if join.alias else ())}


class ScanningLookup(Lookup):
    """Looks up sources that are in memory: each kind of lookup goes through them all, once."""

    def __init__(self, sources: Mapping[str, Source]) -> None:
        self._sources = sources

    def with_column(self, name: str) -> Sequence[str]:
        """See `Lookup`."""
        found = self._by_column.get(name.casefold(), ())
        return [each.name for each in found if each.column(name) is not None]

    def with_measure(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        found = self._by_measure.get(name.casefold(), ())
        return [each for each in found if each.measure(name) is not None]

    def with_segment(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return [each for each in self._sources.values() if name in each.segments]

    def of_table(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._by_table.get(name.casefold(), ())

    def joins_of(self, source: str) -> Sequence[tuple[str, Join]]:
        """See `Lookup`."""
        return self._joins.get(source, ())

    def joined(self) -> Iterable[tuple[str, str]]:
        """See `Lookup`."""
        return ((owner, join.to) for owner, join in self._declared())

    def aliased(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        return ((owner, join.alias, join.to) for owner, join in self._declared() if join.alias is not None)

    def labelled(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        return ((owner, join.to, label) for owner, join in self._declared() for label in labels_of(owner, join))

    def with_parameters(self) -> Sequence[Source]:
        """See `Lookup`."""
        return [each for each in self._sources.values() if each.parameters]

    def of_tables(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """See `Lookup`."""
        return ((each.name, each.table) for each in self._sources.values() if each.table is not None)

    def restricted(self) -> Iterable[str]:
        """See `Lookup`."""
        return (each.name for each in self._sources.values() if not each.is_all_public)

    def protected(self) -> Iterable[str]:
        """See `Lookup`."""
        return (each.name for each in self._sources.values() if each.is_protected)

    def _declared(self) -> Iterator[tuple[str, Join]]:
        joins = ((source.name, join) for source in self._sources.values() for join in source.joins)
        return ((owner, join) for owner, join in joins if join.to in self._sources)

    @functools.cached_property
    def _by_column(self) -> Mapping[str, list[Source]]:
        return self._grouped(lambda source: source.columns)

    @functools.cached_property
    def _by_measure(self) -> Mapping[str, list[Source]]:
        return self._grouped(lambda source: source.measures)

    @functools.cached_property
    def _by_table(self) -> Mapping[str, list[Source]]:
        return self._grouped(lambda source: source.table[-1:] if source.table else ())

    def _grouped(self, names_of: Callable[[Source], Iterable[str]]) -> Mapping[str, list[Source]]:
        found: dict[str, list[Source]] = defaultdict(list)
        for source in self._sources.values():
            for folded in {name.casefold() for name in names_of(source)}:
                found[folded].append(source)
        return found

    @functools.cached_property
    def _joins(self) -> Mapping[str, list[tuple[str, Join]]]:
        found: dict[str, list[tuple[str, Join]]] = defaultdict(list)
        for owner, join in self._declared():
            for end in {owner, join.to}:
                found[end].append((owner, join))
        return found


class ChangedSources(SourceMap):
    """Sources of a layer with some in place of others; None takes one out."""

    def __init__(self, base: Mapping[str, Source], changes: Mapping[str, Source | None]) -> None:
        """Take the changes on top of a base, which may be changed sources itself."""
        if isinstance(base, ChangedSources):
            changes = {**base.changes, **changes}
            base = base.base
        self.base: Mapping[str, Source] = base
        self.changes: Mapping[str, Source | None] = changes

    def __getitem__(self, name: str) -> Source:
        """Return the source of a name; `KeyError` where there is none."""
        found = self.changes[name] if name in self.changes else self.base[name]
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        """Say whether a source has the name."""
        return self.changes[name] is not None if name in self.changes else name in self.base  # type: ignore[index]

    def __iter__(self) -> Iterator[str]:
        """Return the names, sorted."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many sources there are."""
        return len(self._names)

    @functools.cached_property
    def _names(self) -> list[str]:
        kept = [name for name in self.base if name not in self.changes]
        return sorted([*kept, *(name for name, each in self.changes.items() if each is not None)])

    @functools.cached_property
    def lookup(self) -> Lookup:
        """The lookup over the sources with the changes."""
        return _ChangedLookup(self)


class _ChangedLookup(Lookup):
    """Looks up what the base has but for the changed sources, and these themselves."""

    def __init__(self, sources: ChangedSources) -> None:
        self._sources, base = sources, sources.base
        self._base = base.lookup if isinstance(base, SourceMap) else ScanningLookup(base)
        self._own = ScanningLookup({name: each for name, each in sorted(sources.changes.items()) if each is not None})

    def with_column(self, name: str) -> Sequence[str]:
        """See `Lookup`."""
        return sorted([*filter(self._keeps, self._base.with_column(name)), *self._own.with_column(name)])

    def with_measure(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._merged(self._base.with_measure(name), self._own.with_measure(name))

    def with_segment(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._merged(self._base.with_segment(name), self._own.with_segment(name))

    def of_table(self, name: str) -> Sequence[Source]:
        """See `Lookup`."""
        return self._merged(self._base.of_table(name), self._own.of_table(name))

    def joins_of(self, source: str) -> Sequence[tuple[str, Join]]:
        """See `Lookup`."""
        found = [pair for pair in self._base.joins_of(source) if self._keeps(pair[0])]
        found += [pair for pair in self._changed_joins() if source in (pair[0], pair[1].to)]
        return sorted((pair for pair in found if pair[1].to in self._sources), key=lambda pair: pair[0])

    def joined(self) -> Iterable[tuple[str, str]]:
        """See `Lookup`."""
        yield from (row for row in self._base.joined() if self._keeps(row[0]) and row[1] in self._sources)
        yield from ((owner, join.to) for owner, join in self._changed_joins() if join.to in self._sources)

    def aliased(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        yield from (row for row in self._base.aliased() if self._keeps(row[0]) and row[2] in self._sources)
        for owner, join in self._changed_joins():
            if join.alias is not None and join.to in self._sources:
                yield owner, join.alias, join.to

    def labelled(self) -> Iterable[tuple[str, str, str]]:
        """See `Lookup`."""
        yield from (row for row in self._base.labelled() if self._keeps(row[0]) and row[1] in self._sources)
        for owner, join in self._changed_joins():
            if join.to in self._sources:
                yield from ((owner, join.to, label) for label in labels_of(owner, join))

    def with_parameters(self) -> Sequence[Source]:
        """See `Lookup`."""
        return self._merged(self._base.with_parameters(), self._own.with_parameters())

    def of_tables(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """See `Lookup`."""
        return sorted([*(row for row in self._base.of_tables() if self._keeps(row[0])), *self._own.of_tables()])

    def restricted(self) -> Iterable[str]:
        """See `Lookup`."""
        return [*filter(self._keeps, self._base.restricted()), *self._own.restricted()]

    def protected(self) -> Iterable[str]:
        """See `Lookup`."""
        return [*filter(self._keeps, self._base.protected()), *self._own.protected()]

    def _keeps(self, name: str) -> bool:
        return name not in self._sources.changes

    def _changed_joins(self) -> Iterator[tuple[str, Join]]:
        for owner, each in self._sources.changes.items():
            yield from ((owner, join) for join in (() if each is None else each.joins))

    def _merged(self, base: Sequence[Source], own: Sequence[Source]) -> Sequence[Source]:
        return sorted([*(each for each in base if self._keeps(each.name)), *own], key=lambda source: source.name)
