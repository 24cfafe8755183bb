"""Lookups across all sources of a semantic layer, such as its joins, or the sources with a given column.

A query uses a handful of sources out of thousands. These lookups answer everything it needs to know about the others,
so that a layer in a store does not have to load all its sources.
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
    """Looks up sources in one layer by their parts. Results are sorted by source name."""

    @abstractmethod
    def with_column(self, name: str) -> Sequence[str]:
        """Return the names of the sources for which `Source.column` finds a column."""

    @abstractmethod
    def with_measure(self, name: str) -> Sequence[Source]:
        """Return the sources for which `Source.measure` finds a measure."""

    @abstractmethod
    def with_segment(self, name: str) -> Sequence[Source]:
        """Return the sources that have a segment with exactly this name."""

    @abstractmethod
    def of_table(self, name: str) -> Sequence[Source]:
        """Return the sources of tables with this name, in any schema and ignoring case."""

    @abstractmethod
    def joins_of(self, source: str) -> Sequence[tuple[str, Join]]:
        """Return the joins from and to a source, each with its declaring source."""

    @abstractmethod
    def joined(self) -> Iterable[tuple[str, str]]:
        """Return (declaring source, target) for all joins."""

    @abstractmethod
    def aliased(self) -> Iterable[tuple[str, str, str]]:
        """Return (declaring source, alias, target) for the joins with an alias."""

    @abstractmethod
    def labelled(self) -> Iterable[tuple[str, str, str]]:
        """Return (declaring source, target, label) for all joins. See `labels_of`."""

    @abstractmethod
    def with_parameters(self) -> Sequence[Source]:
        """Return the sources that declare parameters."""

    @abstractmethod
    def of_tables(self) -> Iterable[tuple[str, tuple[str, ...]]]:
        """Return (source, parts of the table name) for all sources with a table."""

    @abstractmethod
    def restricted(self) -> Iterable[str]:
        """Return the sources with internal or hidden parts. See `Source.is_all_public`."""

    @abstractmethod
    def protected(self) -> Iterable[str]:
        """Return the protected sources. See `Source.is_protected`."""

    @functools.cached_property
    def aliases(self) -> Mapping[str, frozenset[str]]:
        """The aliases of joins with the sources they may refer to."""
        targets: dict[str, set[str]] = defaultdict(set)
        for _, alias, target in self.aliased():
            targets[alias].add(target)
        return {alias: frozenset(found) for alias, found in targets.items()}

    @functools.cached_property
    def labels(self) -> frozenset[str]:
        """The names of joins in `via`."""
        return frozenset(label for _, _, label in self.labelled())

    @functools.cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters of all sources. If several share a name, the last one wins."""
        return {name: each for source in self.with_parameters() for name, each in source.parameters.items()}

    @functools.cached_property
    def tables(self) -> Sequence[tuple[str, ...]]:
        """The tables of the sources."""
        return [table for _, table in self.of_tables()]

    @functools.cached_property
    def table_words(self) -> frozenset[str]:
        """All parts of table names, in lower case."""
        return frozenset(part.casefold() for table in self.tables for part in table)

    @functools.cached_property
    def is_all_public(self) -> bool:
        """Whether all sources are entirely public."""
        return not any(True for _ in self.restricted())

    @functools.cached_property
    def protects(self) -> bool:
        """Whether any source is protected."""
        return any(True for _ in self.protected())


class SourceMap(Mapping[str, "Source"], ABC):
    """The sources of a layer by name, with their lookup."""

    @property
    @abstractmethod
    def lookup(self) -> Lookup:
        """The lookup over these sources."""


def lookup_of(model: Model) -> Lookup:
    """Return the lookup over a model's sources. It is cached with the model."""
    if isinstance(model.sources, SourceMap):
        return model.sources.lookup
    if not model.lookups:
        model.lookups.append(ScanningLookup(model.sources))
    found: Lookup = model.lookups[0]
    return found


def labels_of(owner: str, join: Join) -> set[str]:
    """Return a join's names in `via`, in either direction.

    The columns (`store_id+day`) are those of the side with one row on the other side.
    """
    sides = {"many_to_one": (0,), "one_to_many": (1,)}.get(join.relationship.value, (0, 1))
    columns = {"+".join(pair[side] for pair in join.pairs) for side in sides}
    return {owner, join.to, *columns, *((join.alias,) if join.alias else ())}


class ScanningLookup(Lookup):
    """Looks up sources in memory. Each kind of lookup scans all sources once."""

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
    """A layer's sources with changes: a replaced or added source, or None for a removed one."""

    def __init__(self, base: Mapping[str, Source], changes: Mapping[str, Source | None]) -> None:
        """Apply the changes to a base, which may itself contain changes."""
        if isinstance(base, ChangedSources):
            changes = {**base.changes, **changes}
            base = base.base
        self.base: Mapping[str, Source] = base
        self.changes: Mapping[str, Source | None] = changes

    def __getitem__(self, name: str) -> Source:
        """Return a source by name. Raises `KeyError` for an unknown name."""
        found = self.changes[name] if name in self.changes else self.base[name]
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether a source with this name exists."""
        return self.changes[name] is not None if name in self.changes else name in self.base  # type: ignore[index]

    def __iter__(self) -> Iterator[str]:
        """Return the names, sorted."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of sources."""
        return len(self._names)

    @functools.cached_property
    def _names(self) -> list[str]:
        kept = [name for name in self.base if name not in self.changes]
        return sorted([*kept, *(name for name, each in self.changes.items() if each is not None)])

    @functools.cached_property
    def lookup(self) -> Lookup:
        """The lookup over the changed sources."""
        return _ChangedLookup(self)


class _ChangedLookup(Lookup):
    """Combines the base's lookup, without the changed sources, with a lookup of the changed sources."""

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
