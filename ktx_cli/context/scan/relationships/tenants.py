"""Databases of several tenants: where most keys begin with the tenant, the others do too, whatever the rows ask for.

A number that counts within each tenant is unique in a small table by accident; its neighbours tell how it is meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from ktx_cli.context.scan.relationships.facts import ColumnFacts, TableFacts
from ktx_cli.context.scan.relationships.model import KeyChoice
from ktx_cli.context.scan.relationships.pairs import Pair

FEWEST = 3
"""So many keys have to begin with the tenant."""

MAJORITY = 0.5
"""And so large a share of the keys of the tables that name one; and so large a share of all tables has to name it."""


def with_tenants(
    chosen: Mapping[TableFacts, KeyChoice], refers: Mapping[TableFacts, Mapping[ColumnFacts, Pair]]
) -> dict[TableFacts, KeyChoice]:
    """Return the keys, those of one column that stands beside the tenant's with it where that is the convention."""
    holders: dict[ColumnFacts, dict[TableFacts, ColumnFacts]] = defaultdict(dict)
    for table, pairs in refers.items():
        for column, pair in pairs.items():
            holders[pair.key].setdefault(table, column)
    found = dict(chosen)
    for columns in holders.values():
        if len(columns) < MAJORITY * len(chosen):
            continue
        wide = [table for table, column in columns.items() if _begins_with(chosen.get(table), column)]
        narrow = [table for table, column in columns.items() if _stands_beside(table, column, chosen.get(table))]
        if len(wide) >= FEWEST and len(wide) >= MAJORITY * (len(wide) + len(narrow)):
            found |= {table: _widened(table, columns[table], chosen[table]) for table in narrow}
    return found


def _begins_with(choice: KeyChoice | None, column: ColumnFacts) -> bool:
    return choice is not None and len(choice.primary) > 1 and column.name in choice.primary and column.position <= 1


def _stands_beside(table: TableFacts, column: ColumnFacts, choice: KeyChoice | None) -> bool:
    """Whether a table's key is one column next to the tenant's, at the beginning of the table."""
    if choice is None or choice.declared or len(choice.primary) != 1 or column.profile.nulls:
        return False
    own = table.column(choice.primary[0])
    return own is not column and own.keyed and max(own.position, column.position) <= 1


def _widened(table: TableFacts, tenant: ColumnFacts, choice: KeyChoice) -> KeyChoice:
    own = table.column(choice.primary[0])
    first, second = sorted((tenant, own), key=lambda column: column.position)
    return replace(choice, primary=(first.name, second.name), alternates=(choice.primary, *choice.alternates))
