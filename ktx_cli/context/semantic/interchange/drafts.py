"""The sources of an import while they are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.context.semantic.interchange.result import Report
from ktx_cli.context.semantic.loading.names import table_parts
from ktx_cli.context.semantic.model import Model, Place, Source, Visibility
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import file_stem

TAKEN: Final = "the table has a column of that name, or the name has a dot"
"""Why a computed column has another name."""


@dataclass(slots=True)
class ColumnDraft:
    """A column; `expr` where it is computed; `extra`: further keys as they are written."""

    name: str
    type: str | None = None
    expr: str | None = None
    visibility: str | None = None
    description: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SourceDraft:
    """A source of an import.

    `base`: the source of the manifest it changes; else it has `table` or `sql`. `measures`, `segments`: name -> as
    written. `hops`: what may stand before a dot in its expressions, a source or alias -> its source.
    """

    name: str
    place: Place
    dialect: str
    base: Source | None = None
    table: str | None = None
    sql: str | None = None
    grain: tuple[str, ...] = ()
    columns: dict[str, ColumnDraft] = field(default_factory=dict)
    joins: list[dict[str, Any]] = field(default_factory=list)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)
    segments: dict[str, dict[str, Any]] = field(default_factory=dict)
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    time: str | None = None
    description: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    hops: dict[str, SourceDraft] = field(default_factory=dict)
    guessed: list[str] = field(default_factory=list)

    def find(self, name: str) -> str | None:
        """Return a column's name as it is spelled, whatever the case it is asked in."""
        if name in self.columns:
            return name
        known = (*self.columns, *(self.base.columns if self.base else ()))
        alike = {each for each in known if each.casefold() == name.casefold()}
        return name if name in alike else min(alike, default=None)

    def physical(self, name: str) -> str | None:
        """Return the name of a column of the table itself, as it is spelled."""
        found = self.find(name)
        if found is None:
            return None
        if self.base is not None:
            column = self.base.column(found)
            return column.name if column is not None else None
        return found if self.columns[found].expr is None else None

    def column(self, name: str) -> ColumnDraft:
        """Return the draft of a column, a new one where there is none."""
        found = self.find(name) or name
        return self.columns.setdefault(found, ColumnDraft(found))

    def require(self, name: str, kind: str | None = None) -> str | None:
        """Return a column's name; in a source of its own one nobody declared is added, for definitions alone.

        None where the table has no such column, or the name has a dot, which ktx cannot name.
        """
        found = self.find(name)
        if found is None and self.base is None and "." not in name:
            self.columns[name] = ColumnDraft(name, kind, visibility="internal")
            found = name
        elif found is not None and kind and found in self.columns and self.columns[found].type is None:
            self.columns[found].type = kind
        return found

    def compute(self, name: str, expr: str, kind: str, reads: Iterable[tuple[str, ...]]) -> ColumnDraft:
        """Add a computed column; under another name where the table has, or the expr reads, a column of that one."""
        own = {parts[0].casefold() for parts in reads if len(parts) == 1}
        taken = {each.casefold() for each in (*own, *self.columns, *(self.base.columns if self.base else ()))}
        free = name.replace(".", "_")
        while free.casefold() in taken:
            free = f"{free}_expr"
        shown = "public" if self._all_public(reads) else None
        self.columns[free] = ColumnDraft(free, kind, expr, shown)
        return self.columns[free]

    def _all_public(self, reads: Iterable[tuple[str, ...]]) -> bool:
        """Say whether nothing that is read was hidden before the import; if not, what reads it is as hidden."""
        return all(len(parts) == 1 and self._is_public(parts[0]) for parts in reads)

    def _is_public(self, name: str) -> bool:
        column = self.base.column(name) if self.base is not None else None
        if column is not None:
            return column.visibility in (None, Visibility.PUBLIC) and column.expr is None
        found = self.find(name)
        draft = self.columns.get(found or "")
        return draft is None or draft.expr is None or draft.visibility is not None


class Sources:
    """The sources of an import by name, and where their tables are in the model there is."""

    def __init__(self, model: Model | None, dialect: str, report: Report) -> None:
        self.model, self.dialect, self.report = model, dialect, report
        self.drafts: dict[str, SourceDraft] = {}

    def add(self, name: str, place: Place, *, table: str | None = None, sql: str | None = None) -> SourceDraft:
        """Return a new source: a change of the manifest's where that has the table and no other draft changes it."""
        base = self._base(table, name, place) if table else None
        if base is not None and base.name not in self.drafts:
            if base.name != name:
                self.report.approximated(
                    f"the name `{name}`", "the manifest's source has another one", place, base.name
                )
            draft = SourceDraft(base.name, place, self.dialect, base=base)
        else:
            draft = SourceDraft(self._free(name, place), place, self.dialect, table=table, sql=sql)
        self.drafts[draft.name] = draft
        return draft

    def has_table(self, table: str) -> bool:
        """Say whether the manifest has exactly one source of a table, which no draft changes yet."""
        found = self._tables(table)
        return len(found) == 1 and found[0].name not in self.drafts

    def knows(self, table: str) -> bool:
        """Say whether the manifest has a source of a table."""
        return bool(self._tables(table))

    def _base(self, table: str, name: str, place: Place) -> Source | None:
        found = self._tables(table)
        if len(found) > 1:
            exact = [source for source in found if source.name.casefold() == name.casefold()]
            found = exact if len(exact) == 1 else found
        if len(found) > 1:
            names = ", ".join(sorted(source.name for source in found))
            why = f"several sources could be its table: {names}; it is a source of its own"
            self.report.approximated(f"the table of `{name}`", why, place, name)
            return None
        return found[0] if found else None

    def _tables(self, table: str) -> list[Source]:
        """Return the manifest's sources whose table has that name, or one of which the other is the end."""
        try:
            wanted = _folded(table_parts(table))
        except ConfigError:
            return []
        sources = self.model.sources.values() if self.model else ()
        known = [(source, _folded(source.table)) for source in sources if source.generated and source.table]
        same = [source for source, parts in known if parts == wanted]
        return same or [
            source for source, parts in known if parts[-len(wanted) :] == wanted or wanted[-len(parts) :] == parts
        ]

    def _free(self, name: str, place: Place) -> str:
        """Return the name, or one with a number where a source of another file has it."""
        free, number = name, 2
        while free in self.drafts or self._is_taken(free):
            free, number = f"{name}_{number}", number + 1
        if free != name:
            self.report.approximated(f"the name `{name}`", "another source has it", place, free)
        return free

    def _is_taken(self, name: str) -> bool:
        found = self.model.sources.get(name) if self.model else None
        if found is None:
            return False
        written_before = found.place is not None and found.place.path.endswith(f"/{file_of(name)}")
        return found.generated or not written_before


def file_of(name: str) -> str:
    """Return the file a source is written to, below the connection's folder."""
    return f"{file_stem(name)}.yaml"


def _folded(parts: Iterable[str]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


def described(description: str | None, label: str | None) -> str | None:
    """Return a description with the label before it, where it is not in it already."""
    if not label or (description and label.casefold() in description.casefold()):
        return description
    return f"{label}: {description}" if description else label


def filled(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without what says nothing."""
    return {key: value for key, value in entry.items() if value is not None and value not in ("", [], (), {})}
