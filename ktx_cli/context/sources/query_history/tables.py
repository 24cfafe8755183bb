"""Which tables a statement names: those of the semantic layer with their columns, the system's own, others by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ktx_cli.connectors.guard.catalogs import SYSTEM
from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.names import physical_name
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.query_history.blanking import Redact

if TYPE_CHECKING:
    from sqlglot import exp

Parts = tuple[str, ...]
"""A table's name as it is written, outermost part first."""

_SYSTEM_SCHEMAS: Final = frozenset({"information_schema", "pg_catalog", "pg_toast", "performance_schema"})
_SYSTEM_PREFIXES: Final = ("pg_", "sqlite_", "duckdb_")


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that statements read. `source`: its name in the semantic layer, None where that has none of it.

    `display`: how files and people call it, `schema.table`. `columns`: name in lower case -> name, empty: not known.
    """

    display: str
    parts: Parts
    source: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    redact: Redact = field(default=str, compare=False, repr=False)

    @property
    def name(self) -> str:
        """How another table's usage refers to it: as joins do."""
        return self.source or self.display

    def column(self, name: str) -> str | None:
        """Return a column as the table spells it; None for one it does not have.

        Of a table whose columns are not known the statement's word is taken, blanked as the project says.
        """
        return self.columns.get(name.lower()) if self.columns else self.redact(name)


class Tables:
    """The tables of a semantic layer, found by what a statement calls them; `redact` blanks the names of others."""

    def __init__(self, model: Model, redact: Redact = str) -> None:
        self._redact = redact
        self._by_parts: dict[Parts, NamedTable] = {}
        self._by_suffix: dict[Parts, list[NamedTable]] = {}
        for table in _tables(model):
            folded = _folded(table.parts)
            self._by_parts.setdefault(folded, table)
            for start in range(len(folded)):
                self._by_suffix.setdefault(folded[start:], []).append(table)

    @property
    def known(self) -> tuple[NamedTable, ...]:
        """The semantic layer's tables, sorted by name."""
        return tuple(sorted(self._by_parts.values(), key=lambda table: table.display))

    def same(self, table: NamedTable) -> NamedTable:
        """Return the semantic layer's own table of a name that was kept, or what was kept as only a name."""
        known = self._by_parts.get(_folded(table.parts))
        return known if known == table else NamedTable(table.display, table.parts, table.source, redact=self._redact)

    def find(self, parts: Parts) -> NamedTable:
        """Return the table a statement means: the one that ends so, else one that is only a name.

        A shorter name must fit one table alone, or one in a default schema; a longer one may begin with a catalog.
        """
        folded = _folded(parts)
        for start in range(len(folded)):
            found = self._by_suffix.get(folded[start:], [])
            if start and len(folded) - start < 2:
                break  # `other.orders` is not `orders` of a schema that was scanned
            if len(found) == 1:
                return found[0]
            preferred = [table for table in found if _in_default_schema(table)]
            if len(preferred) == 1:
                return preferred[0]
        blanked = tuple(map(self._redact, parts))
        return NamedTable(_display(blanked), blanked, redact=self._redact)


def is_system(parts: Parts, dialect: str) -> bool:
    """Say whether a name is one of the database's own catalog."""
    *outer, name = _folded(parts)
    catalog = SYSTEM.get(dialect)
    schemas = _SYSTEM_SCHEMAS | (catalog.schemas if catalog else frozenset())
    if any(part in schemas for part in outer):
        return True
    return not outer and name.startswith(_SYSTEM_PREFIXES)


def table_parts(node: exp.Table) -> Parts:
    """Return the parts of a table's name in a statement."""
    return tuple(part for part in (node.catalog, node.db, node.name) if part)


def _tables(model: Model) -> Iterable[NamedTable]:
    for name, source in model.sources.items():
        # Of several sources over one table the scan's own comes first.
        if source.table is not None and source.generated:
            columns = {column.lower(): column for column, each in source.columns.items() if each.expr is None}
            yield NamedTable(_display(source.table), source.table, name, columns)


def _display(parts: Parts) -> str:
    outer = ".".join(parts[:-1])
    return physical_name(TableRef(outer or None, parts[-1])) if len(parts) < 3 else ".".join(parts)


def _folded(parts: Parts) -> Parts:
    return tuple(part.lower() for part in parts)


def _in_default_schema(table: NamedTable) -> bool:
    return len(table.parts) < 2 or table.parts[-2].lower() in ("public", "main", "dbo")
