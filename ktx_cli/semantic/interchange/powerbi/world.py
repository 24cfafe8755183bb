"""The imported tables of a Power BI model, and the names of their columns and joins in ktx."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot.errors import SqlglotError

from ktx_cli.faces import exp
from ktx_cli.semantic.interchange.drafts import NAME, TAKEN, SourceDraft, Sources
from ktx_cli.semantic.interchange.powerbi.model import PowerBiModel, Relationship, Table, found
from ktx_cli.semantic.interchange.powerbi.mquery import TableOrigin
from ktx_cli.semantic.interchange.report import Report, UnresolvedError

SCREEN: Final = "it only affects the display in Power BI"
LEVELS: Final = "ktx has no hierarchies; query the columns of its levels"
SUMMARY: Final = "ktx sums no column by default; it uses the measures of the model"
ZERO: Final = "where no row has a value, ktx can return 0 instead of blank"
REPLACES: Final = (
    "Power BI replaces filters of a query on the same columns; ktx applies them as well, so groups by them differ"
)
REPLACES_TABLE: Final = "Power BI replaces filters of a query on all columns of the table; ktx applies them as well"
GUARDED: Final = "Power BI returns blank unless the query selects a single value of a column; ktx returns the value"
BLANK_ROW: Final = "Power BI also counts the blank row that stands for rows without a match"
IGNORES_CASE: Final = "Power BI ignores case when it compares texts; the database may not"
INFINITE: Final = "Power BI returns infinity or an error for a division by 0; ktx returns no value"
LAST_DATE: Final = "Power BI uses the last date of the period in the date table; ktx uses the last date with rows"
ONE_WAY: Final = "Power BI does not apply filters on the first table to measures of the second; ktx does"
NO_ROLES: Final = "ktx does not apply roles of Power BI; write a row policy"
COMPUTED: Final = "Power BI computes this table; it is not in the database"
INACTIVE: Final = "it is inactive; queries use it only if they name its role"
GROUPS: Final = "ktx has no calculation groups; use `comparison`, `offset` or `cumulative`"
GENERATED: Final = "Power BI generates this table for its own calendar"
NEEDS_TIME: Final = "ktx needs a time in the query or a time range; Power BI also answers without one"

POWERBI_INERT: Final = frozenset({
    SCREEN, LEVELS, SUMMARY, ZERO, REPLACES, IGNORES_CASE, INFINITE, LAST_DATE, NEEDS_TIME, ONE_WAY, NO_ROLES, GROUPS,
    GENERATED, INACTIVE, TAKEN, REPLACES_TABLE, GUARDED, BLANK_ROW, COMPUTED,
})  # fmt: skip
"""Reasons for a difference that nobody has to resolve."""

MAX_CHAIN: Final = 20
"""The maximum number of measures, or calculated columns, that use each other in a row."""

TOO_DEEP: Final = "the expressions that it depends on are nested too deeply"

TYPES: Final = {
    "string": "string", "int64": "number", "double": "number", "decimal": "number", "datetime": "time", "date": "time",
    "boolean": "boolean",
}  # fmt: skip
"""Data types of Power BI, in lower case -> types of ktx."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column that expressions can use: its ktx name and type, and whether it can be missing in a row."""

    name: str
    kind: str | None
    nullable: bool = True


@dataclass(slots=True)
class Entity:
    """An imported table. `fields` maps names of Power BI to columns; None for a column that was not imported."""

    table: Table
    draft: SourceDraft
    origin: TableOrigin
    fields: dict[str, Field | None] = field(default_factory=dict)


class World:
    """All tables of a model. `missing` maps the tables that were not imported to the reason.

    `calculate` imports a calculated column of a table when something first refers to it.
    """

    def __init__(self, model: PowerBiModel, sources: Sources, report: Report) -> None:
        self.model, self.sources, self.report = model, sources, report
        self.entities: dict[str, Entity] = {}
        self.missing: dict[str, str] = {}
        self._calculating = 0
        self.calculate: Callable[[Entity, str], Field | None] = lambda entity, name: None

    @property
    def dialect(self) -> str:
        """The dialect of all expressions."""
        return self.sources.dialect

    def entity(self, name: str) -> Entity:
        """Return an imported table. Raises `UnresolvedError` if there is none."""
        result = found(self.entities, name)
        if result is None:
            why = found(self.missing, name)
            raise UnresolvedError(f"the table `{name}` {'was not imported' if why else 'is not in the model'}")
        return result

    def field(self, entity: Entity, name: str) -> Field:
        """Return a column of a table. Raises `UnresolvedError` if it was not imported."""
        column = entity.table.column(name)
        if column is None:
            raise UnresolvedError(f"`{entity.table.name}` has no column `{name}`")
        if column.name not in entity.fields and column.expression is not None:
            entity.fields[column.name] = None  # so that a column that refers to itself is found
            if self._calculating >= MAX_CHAIN:
                raise UnresolvedError(f"it depends on more than {MAX_CHAIN} calculated columns in a row")
            self._calculating += 1
            entity.fields[column.name] = self.calculate(entity, column.name)
            self._calculating -= 1
        result = entity.fields.get(column.name)
        if result is None:
            raise UnresolvedError(f"the column `{entity.table.name}[{column.name}]` was not imported")
        return result

    def hop(self, start: Entity, end: Entity) -> str | None:
        """Return the name of the joined source in expressions of `start`; None if a row has no single row of it."""
        names = [name for name, draft in start.draft.hops.items() if draft is end.draft]
        return end.draft.name if end.draft.name in names else None

    def axis(self, entity: Entity, table: str, column: str) -> Field:
        """Return the time column of a table that a date column of a date table is related to.

        Raises `UnresolvedError` if it is not related to it by a date.
        """
        if entity.table.name.casefold() == table.casefold():
            own = self.field(entity, column)
        else:
            own = self.field(entity, self._related(entity.table.name, table, column).own[1])
        if own.kind != "time":
            raise UnresolvedError(f"`{entity.table.name}` is related to `{table}` by `{own.name}`, which is not a date")
        return own

    def _related(self, own: str, table: str, column: str) -> Relationship:
        wanted = (own.casefold(), table.casefold())
        ways = [
            each
            for each in self.model.relationships
            if each.active and (each.own[0].casefold(), each.other[0].casefold()) == wanted
        ]
        if len(ways) != 1:
            raise UnresolvedError(f"`{own}` has no active relationship to `{table}`")
        if ways[0].other[1].casefold() != column.casefold():
            raise UnresolvedError(
                f"`{own}` is related to `{table}` by `{ways[0].other[1]}`, not by the date column `{column}`"
            )
        return ways[0]


def slug(name: str) -> str:
    """Return a name in lower case that expressions can use without quotes: `Margin %` becomes `margin_pct`."""
    text = re.sub(r"\W+", "_", name.replace("%", " pct ").lower()).strip("_")
    return text if NAME.fullmatch(text) else f"m_{text}".rstrip("_")


@functools.lru_cache(maxsize=5_000)
def _is_plain(name: str, dialect: str) -> bool:
    """Return whether a dialect reads a name as a column without quotes."""
    if not NAME.fullmatch(name):
        return False
    try:
        tree = sqlglot.parse_one(f"{name} + 1", read=dialect)
    except (SqlglotError, ValueError):
        return False
    return isinstance(tree.this, exp.Column) and tree.this.name == name


def column_tree(name: str, dialect: str, table: str | None = None) -> exp.Expr:
    """Return a reference to a column or measure, quoted if necessary."""
    own = exp.to_identifier(name, quoted=not _is_plain(name, dialect))
    if table is None:
        return exp.Column(this=own)
    return exp.Column(this=own, table=exp.to_identifier(table, quoted=not _is_plain(table, dialect)))
