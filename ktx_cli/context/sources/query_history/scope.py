"""Which tables' queries count: those named, else those of the schemas named, else those ktx has scanned."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ktx_cli.context.sources.query_history.tables import NamedTable, Tables
from ktx_cli.project.config.query_history import QueryHistory

EVERYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class HistoryScope:
    """`kind`: `tables`, `schemas`, `manifest` or `all`; `names` in lower case, of tables or schemas."""

    kind: str
    names: frozenset[str] = frozenset()

    def __contains__(self, table: NamedTable) -> bool:
        match self.kind:
            case "tables":
                return not self.names.isdisjoint(_endings(table))
            case "schemas":
                return len(table.parts) > 1 and table.parts[-2].lower() in self.names
            case "manifest":
                return table.source is not None
            case _:
                return True


def scope_of(settings: QueryHistory, enabled_tables: Iterable[str] | None, tables: Tables) -> HistoryScope:
    """Return the scope of a connection; with no table scanned and none named it is everything.

    `enabled_tables`: those the connection itself is limited to.
    """
    named = [*settings.enabled_tables] or [*(enabled_tables or ())]
    if named:
        return HistoryScope("tables", frozenset(name.replace('"', "").lower() for name in named))
    if EVERYTHING in settings.enabled_schemas:
        return HistoryScope("all")
    if settings.enabled_schemas:
        return HistoryScope("schemas", frozenset(name.lower() for name in settings.enabled_schemas))
    return HistoryScope("manifest" if tables.known else "all")


def _endings(table: NamedTable) -> set[str]:
    parts = [part.lower() for part in table.parts]
    return {".".join(parts[start:]) for start in range(len(parts))}
