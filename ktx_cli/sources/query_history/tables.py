"""The tables that statements read: semantic-layer tables with their columns, and other tables by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.faces import exp
from ktx_cli.privacy import ValueKind, refusal
from ktx_cli.semantic import Column, ColumnValues, Model, Source, Visibility, physical_name
from ktx_cli.warehouses import SemanticType, TableRef, dialect_named

Redact = Callable[[str], str]


Parts = tuple[str, ...]
"""The parts of a table's name as written, outermost first."""

_SYSTEM_SCHEMAS: Final = frozenset({"information_schema", "pg_catalog", "pg_toast", "performance_schema"})
_SYSTEM_PREFIXES: Final = ("pg_", "sqlite_", "duckdb_")


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table that statements read. `source`: its name in the semantic layer, or None if it is not in the layer.

    `display`: its name in files and reports, `schema.table`. `columns`: name in lower case -> name, empty if unknown.
    `types`, `values`: name in lower case -> its type, and the values that may be shown.
    """

    display: str
    parts: Parts
    source: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    redact: Redact = field(default=str, compare=False, repr=False)
    types: Mapping[str, SemanticType] = field(default_factory=dict, compare=False, repr=False)
    values: Mapping[str, frozenset[str]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The name by which other tables' usage refers to this table, as in joins."""
        return self.source or self.display

    def column(self, name: str) -> str | None:
        """Return a column in the table's spelling, or None if the table does not have it.

        If the table's columns are unknown, the spelling of the statement is used, redacted by the project's patterns.
        """
        return self.columns.get(name.lower()) if self.columns else self.redact(name)

    def type_of(self, column: str) -> SemanticType:
        """Return the type of a column, or text if the type is unknown."""
        return self.types.get(column.lower(), SemanticType.STRING)

    def has_value(self, column: str, text: str, *, folds: bool = False) -> bool:
        """Return whether a text is one of a column's values that may be shown. `folds`: ignore case."""
        known = self.values.get(column.lower(), frozenset())
        return text in known or (folds and text.casefold() in {value.casefold() for value in known})


class Tables:
    """A semantic layer's tables, by the names that statements use. `redact` redacts other names.

    `lists`: the values that the last scan listed for columns with few values.
    """

    def __init__(self, model: Model, redact: Redact = str, lists: Iterable[ColumnValues] = ()) -> None:
        self._redact = redact
        self._by_parts: dict[Parts, NamedTable] = {}
        self._by_suffix: dict[Parts, list[NamedTable]] = {}
        for table in _tables(model, list(lists)):
            folded = _folded(table.parts)
            self._by_parts.setdefault(folded, table)
            for start in range(len(folded)):
                self._by_suffix.setdefault(folded[start:], []).append(table)

    @property
    def known(self) -> tuple[NamedTable, ...]:
        """The semantic layer's tables, sorted by name."""
        return tuple(sorted(self._by_parts.values(), key=lambda table: table.display))

    def same(self, table: NamedTable) -> NamedTable:
        """Return the semantic layer's table for a stored name, or a table that is only a name."""
        known = self._by_parts.get(_folded(table.parts))
        return known if known == table else NamedTable(table.display, table.parts, table.source, redact=self._redact)

    def find(self, parts: Parts) -> NamedTable:
        """Return the table that a statement refers to: the one whose name ends with the given parts, else only a name.

        A shorter name must match exactly one table, or one in a default schema; a longer one may begin with a catalog.
        """
        folded = _folded(parts)
        for start in range(len(folded)):
            found = self._by_suffix.get(folded[start:], [])
            if start and len(folded) - start < 2:
                break  # `other.orders` is not `orders` of a scanned schema.
            if len(found) == 1:
                return found[0]
            preferred = [table for table in found if _in_default_schema(table)]
            if len(preferred) == 1:
                return preferred[0]
        blanked = tuple(map(self._redact, parts))
        return NamedTable(_display(blanked), blanked, redact=self._redact)


def is_system(parts: Parts, dialect: str) -> bool:
    """Return whether a name belongs to the database's own catalog."""
    *outer, name = _folded(parts)
    catalog = dialect_named(dialect).system
    schemas = _SYSTEM_SCHEMAS | (catalog.schemas if catalog else frozenset())
    if any(part in schemas for part in outer):
        return True
    return not outer and name.startswith(_SYSTEM_PREFIXES)


def table_parts(node: exp.Table) -> Parts:
    """Return the parts of a table's name in a statement."""
    return tuple(part for part in (node.catalog, node.db, node.name) if part)


def _tables(model: Model, lists: Sequence[ColumnValues]) -> Iterable[NamedTable]:
    by_table: dict[str, list[ColumnValues]] = {}
    for listed in lists:
        by_table.setdefault(listed.ref.name.casefold(), []).append(listed)
    for name, source in model.sources.items():
        # Of several sources over one table, the one from the scan comes first.
        if source.table is not None and source.generated:
            own = {key.lower(): column for key, column in source.columns.items() if column.expr is None}
            found = {
                listed.column.lower(): [value for value, _ in listed.values]
                for listed in by_table.get(source.table[-1].casefold(), ())
                if source.is_of(listed.ref)
            }
            yield NamedTable(
                _display(source.table),
                source.table,
                name,
                {key: column.name for key, column in own.items()},
                types={key: column.type for key, column in own.items()},
                values={
                    key: values
                    for key, column in own.items()
                    if (values := _values(source, column, found.get(key, ())))
                },
            )


def _values(source: Source, column: Column, listed: Sequence[object]) -> frozenset[str]:
    """Return a column's values that may be shown: none if it is hidden, and none that may be personal."""
    if source.visibility is not Visibility.PUBLIC or column.visibility not in (None, Visibility.PUBLIC):
        return frozenset()
    table = source.table[-1] if source.table else source.name
    values = {*column.values, *(str(value) for value in listed if isinstance(value, str | int))}
    refused = refusal(table, column.name, ValueKind.TEXT, sorted(values))
    return frozenset() if refused is not None and refused.personal else frozenset(values)


def _display(parts: Parts) -> str:
    outer = ".".join(parts[:-1])
    return physical_name(TableRef(outer or None, parts[-1])) if len(parts) < 3 else ".".join(parts)


def _folded(parts: Parts) -> Parts:
    # BigQuery's dataset of another project is one part of a scanned name and two parts of a statement's.
    return tuple(".".join(parts).lower().split("."))


def _in_default_schema(table: NamedTable) -> bool:
    return len(table.parts) < 2 or table.parts[-2].lower() in ("public", "main", "dbo")
