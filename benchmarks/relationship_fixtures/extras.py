"""Views and staging copies: what repeats a table's rows, so that its links are true and yet no keys."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.knobs import Knobs
from benchmarks.relationship_fixtures.tables import Column, Database, Link, Table, View

_COPIES = ("stg_{}", "{}_bak", "{}_old", "tmp_{}", "{}_2021", "staging_{}", "{}_import", "raw_{}")
_VIEWS = ("v_{}", "vw_{}", "{}_view", "active_{}", "{}_report", "rpt_{}")


def add_extras(dice: Dice, knobs: Knobs, database: Database) -> None:
    """Add copies and views of some filled and named tables."""
    tables = [table for table in database.tables if table.size and table.key]
    taken = {table.name.lower() for table in database.tables}
    if tables and dice.chance(knobs.copy_share):
        for table in dice.sample(tables, dice.between(1, 2)):
            _copy(dice, database, table, _name(dice, _COPIES, table, taken))
    if tables and dice.chance(knobs.view_share):
        for table in dice.sample(tables, dice.between(1, 3)):
            chosen = [column for column in table.columns if column in table.key or dice.chance(0.7)]
            name = _name(dice, _VIEWS, table, taken)
            database.views.append(View(name, table, chosen, name))


def _name(dice: Dice, forms: tuple[str, ...], table: Table, taken: set[str]) -> str:
    name = dice.pick(forms).format(table.name.replace(".", "_"))
    name = name.upper() if table.name.isupper() else name
    while name.lower() in taken:
        name += "_2"
    taken.add(name.lower())
    return name


def _copy(dice: Dice, database: Database, table: Table, name: str) -> None:
    """Repeat a table with all its rows or the first of them; its links lead where the original's do."""
    size = table.size if dice.chance(0.6) else max(1, int(table.size * dice.uniform(0.2, 0.9)))
    made = {column: replace(column, values=column.values[:size]) for column in table.columns}
    copy = Table(
        name, table.form, size, list(made.values()), tuple(made[c] for c in table.key), copy_of=table, name=name
    )
    for link in list(database.links_of(table)):
        parent = copy if link.parent is table else link.parent
        columns: tuple[Column, ...] = tuple(made[column] for column in link.columns)
        targets = tuple(made[column] for column in link.parent_columns) if parent is copy else link.parent_columns
        database.links.append(Link(copy, columns, parent, targets, link.role, scored=False))
        if parent is copy:
            database.links.append(Link(copy, columns, table, link.parent_columns, link.role, scored=False))
    database.links.append(Link(copy, copy.key, table, table.key, "copy", scored=False))
    database.tables.append(copy)
