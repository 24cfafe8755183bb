"""What of the context refers to tables and columns of a database, directly or over something else that does."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.semantic.model import Place
from ktx_cli.context.tools.ledger import same_table
from ktx_cli.context.tools.relations import parts_of_ref
from ktx_cli.context.tools.sql_names import Named

HIDDEN: Final = frozenset({"column", "source", "grain"})
"""Kinds of what a scan makes by itself: they lead on to others, and are not told."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the context: a measure, a join, a page, ... `scan`: a scan makes it anew by itself."""

    kind: str
    name: str
    connection: str | None = None
    place: Place | None = field(default=None, compare=False)
    scan: bool = False

    @property
    def told(self) -> bool:
        """Whether a person has to know of it."""
        return not (self.scan and self.kind in HIDDEN)


@dataclass(frozen=True, slots=True)
class Use:
    """A part that needs what changed; `via`: the part between, where there is one."""

    part: Part
    via: Part | None = None

    def __str__(self) -> str:
        between = "" if self.via is None else f" by {self.via.name}"
        return f"{self.part.kind} {self.part.name}{between}"

    def to_json(self) -> dict[str, Any]:
        """Return the use as it stands in the envelope."""
        place = self.part.place
        return {
            "kind": self.part.kind,
            "name": self.part.name,
            "connection": self.part.connection,
            "path": None if place is None else place.path,
            "line": None if place is None else place.line,
            "via": None if self.via is None else self.via.name,
        }


class Uses:
    """A graph of parts: what needs which. Statements name tables and columns; other parts are linked to parts."""

    def __init__(self) -> None:
        self._needing: dict[Part, list[Part]] = defaultdict(list)
        self._statements: list[tuple[Part, Named]] = []

    def link(self, needed: Part, by: Part) -> None:
        """Note that a part needs another."""
        self._needing[needed].append(by)

    def note(self, part: Part, named: Named | None) -> None:
        """Note what the statement of a part names; None: it cannot be read."""
        if named is not None:
            self._statements.append((part, named))

    def naming(self, table: TableRef, column: str | None = None) -> Iterator[Part]:
        """Yield the parts whose statement names a table, or a column of it; `*` names all of them."""
        parts = parts_of_ref(table)
        for part, named in self._statements:
            if column is None:
                found = any(same_table(each, parts) for each in named.tables)
            else:
                found = any(same_table(each, parts) for each in named.stars) or any(
                    name.casefold() == column.casefold() and any(same_table(each, parts) for each in tables)
                    for tables, name in named.columns
                )
            if found:
                yield part

    def of(self, starts: Iterable[Part]) -> tuple[Use, ...]:
        """Return what needs these parts, the nearest first; of those a scan does not make, they themselves too."""
        waiting: deque[tuple[Part, Part | None]] = deque((part, None) for part in starts)
        seen: set[Part] = set()
        found: list[Use] = []
        while waiting:
            part, via = waiting.popleft()
            if part in seen:
                continue
            seen.add(part)
            if part.told and not (part.kind == "grain" and via is not None):  # told of the source, or of the column
                found.append(Use(part, via))
            between = part if part.told else via
            waiting += ((each, between) for each in self._needing[part])
        return tuple(found)
