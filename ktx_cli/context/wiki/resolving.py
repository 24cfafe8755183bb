"""Whether what a page refers to in the semantic layer is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ktx_cli.context.semantic.model import Model, Visibility
from ktx_cli.context.wiki.references import Kind, Reference
from ktx_cli.core.text import did_you_mean, listing

_MOST_COMPARED: Final = 500
"""With how many names one that is not there is compared."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a reference leads nowhere."""

    code: str
    message: str
    hint: str


@dataclass(slots=True)
class Resolver:
    """Looks references up in the semantic layers of a project, by connection.

    A source that is not in its model because its file has errors counts as there, with anything in it: what is wrong
    with it is said once, by the check of the semantic layer.
    """

    models: Mapping[str, Model]
    _known: dict[tuple[Kind, str | None, str], Missing | None] = field(default_factory=dict, init=False)
    _broken: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _tables: dict[str, frozenset[tuple[str, ...]]] = field(default_factory=dict, init=False)

    def missing(self, reference: Reference) -> Missing | None:
        """Return why a reference to the semantic layer leads nowhere, None where it leads somewhere or is none."""
        if reference.kind is Kind.PAGE or not reference.binding:
            return None
        what = (reference.kind, reference.connection, reference.name)
        if what not in self._known:
            self._known[what] = self._missing(reference)
        return self._known[what]

    def _missing(self, reference: Reference) -> Missing | None:
        if reference.connection is not None and reference.connection not in self.models:
            return None if reference.kind is Kind.ENTITY else self._no_connection(reference)
        if reference.kind is Kind.ENTITY:
            return self._wrong_entity(reference)
        if reference.kind is Kind.TABLE and self._is_table(reference):
            return None
        return self._missing_source(reference)

    def concerns(self, reference: Reference, connection: str) -> bool:
        """Whether a change of a connection's semantic layer can change what a reference leads to."""
        return reference.kind is not Kind.PAGE and reference.connection in (None, connection)

    def _models(self, reference: Reference) -> Iterator[Model]:
        for connection, model in self.models.items():
            if reference.connection in (None, connection):
                yield model

    def _missing_source(self, reference: Reference) -> Missing | None:
        name = reference.name
        if any(self._has_source(model, name) for model in self._models(reference)):
            return None
        found = [
            (model, source, entity) for model in self._models(reference) for source, entity in self._cut(model, name)
        ]
        if any(self._has(model, source, entity) for model, source, entity in found):
            return None
        if found:
            return _no_entity(found[0][0], found[0][1], found[0][2])
        return self._no_source(reference)

    def _wrong_entity(self, reference: Reference) -> Missing | None:
        source, _, entity = reference.name.rpartition(".")
        holders = [model for model in self._models(reference) if self._has_source(model, source)]
        if not holders or any(self._has(model, source, entity) for model in holders) or self._is_table(reference):
            return None
        return _no_entity(holders[0], source, entity)

    def _cut(self, model: Model, name: str) -> Iterator[tuple[str, str]]:
        """Yield (source, entity) of every way to read a dotted name whose first part is a source of the model."""
        place = name.rfind(".")
        while place > 0:
            if self._has_source(model, name[:place]):
                yield name[:place], name[place + 1 :]
            place = name.rfind(".", 0, place)

    def _has_source(self, model: Model, name: str) -> bool:
        return name in model.sources or name in self._broken_of(model)

    def _has(self, model: Model, name: str, entity: str) -> bool:
        if name in self._broken_of(model):
            return True
        source = model.sources[name]
        return entity in source.measures or entity in source.segments or source.column(entity) is not None

    def _broken_of(self, model: Model) -> frozenset[str]:
        if model.connection not in self._broken:
            errors = (each.source for each in model.problems if each.severity == "error")
            self._broken[model.connection] = frozenset(name for name in errors if name is not None)
        return self._broken[model.connection]

    def _is_table(self, reference: Reference) -> bool:
        """Whether a source reads a table whose name ends like the reference, whatever the case of its letters."""
        parts = tuple(part.strip('"').casefold() for part in reference.name.split("."))
        return any(parts in self._tables_of(model) for model in self._models(reference))

    def _tables_of(self, model: Model) -> frozenset[tuple[str, ...]]:
        if model.connection not in self._tables:
            names = (tuple(part.casefold() for part in each.table) for each in model.sources.values() if each.table)
            self._tables[model.connection] = frozenset(name[place:] for name in names for place in range(len(name)))
        return self._tables[model.connection]

    def _no_connection(self, reference: Reference) -> Missing:
        near = did_you_mean(reference.connection or "", self.models)
        known = f"there are: {listing(sorted(self.models))}" if self.models else "no connection has one yet: ktx ingest"
        return Missing(
            "dangling_connection",
            f"no connection `{reference.connection}` has a semantic layer",
            f"did you mean `{near}`?" if near else known,
        )

    def _no_source(self, reference: Reference) -> Missing:
        what = "table" if reference.kind is Kind.TABLE else "source"
        near = self._near(reference) or self._near(replace(reference, name=reference.name.partition(".")[0]))
        hint = f"did you mean `{near}`?" if near else "ktx sl list shows the sources"
        return Missing(f"dangling_{what}", f"the semantic layer has no {what} `{reference.name}`", hint)

    def _near(self, reference: Reference) -> str | None:
        sources = (each for model in self._models(reference) for each in model.sources.values())
        names = sorted({each.name for each in sources if each.visibility is not Visibility.HIDDEN})
        if len(names) > _MOST_COMPARED:
            start = reference.name[:1].casefold()
            names = [name for name in names if name[:1].casefold() == start][:_MOST_COMPARED]
        return did_you_mean(reference.name, names)


def _no_entity(model: Model, name: str, entity: str) -> Missing:
    source = model.sources[name]
    columns = [each.name for each in source.columns.values() if each.visibility is not Visibility.HIDDEN]
    measures = [each.name for each in source.measures.values() if each.visibility is not Visibility.HIDDEN]
    near = did_you_mean(entity, [*measures, *source.segments, *columns])
    return Missing(
        "dangling_entity",
        f"`{name}` has no column, measure or segment `{entity}`",
        f"did you mean `{name}.{near}`?" if near else f"ktx sl read {name} shows what it has",
    )
