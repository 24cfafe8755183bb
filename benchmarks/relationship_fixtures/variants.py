"""Variants of any fixture: names that say nothing, wrong declared keys, some true keys declared.

The rows are as they were. Views are left out, and what the answer says of them.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.relationship_fixtures.ambiguity import is_ambiguous
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.rewriting import Declared, TableShape, copy_database, open_read_only, shapes
from benchmarks.relationship_fixtures.scrambling import INDEPENDENT, TOKENS, scrambled
from benchmarks.relationship_fixtures.truth import PrimaryKey, Reference, Truth, read_truth, write_truth
from benchmarks.relationship_fixtures.writing import quoted

_TRIES = 6
_FEWEST_TELLING = 3


def scramble(fixture: Path, out: Path, seed: int, way: str | None = None) -> Truth:
    """Write a copy whose names say nothing and return its answer; `way` as in `scrambling` (None: drawn)."""
    dice, truth = Dice(seed, "scramble"), read_truth(fixture)
    with closing(open_read_only(fixture)) as connection:
        found = shapes(connection)
        silent = {link for link in truth.links if _few_values(connection, link)}
        chosen = way or dice.pick((INDEPENDENT, TOKENS))
        if chosen == INDEPENDENT:
            silent |= {link for link in truth.links if _has_rival(connection, link, truth)}
    shape = {table.name: table.column_names for table in found}
    tables, columns = scrambled(dice, shape, chosen)

    def renamed(link: Reference) -> Reference:
        return Reference(
            tables[link.child],
            tuple(columns[link.child, name] for name in link.child_columns),
            tables[link.parent],
            tuple(columns[link.parent, name] for name in link.parent_columns),
        )

    copy_database(fixture, out, Declared(), tables.__getitem__, lambda table, column: columns[table, column])
    keys = (
        PrimaryKey(tables[k.table], tuple(columns[k.table, name] for name in k.columns)) for k in truth.primary_keys
    )
    return _written(
        out,
        Truth(
            tuple(keys),
            tuple(map(renamed, truth.links)),
            frozenset(map(renamed, truth.unconfirmable | silent)),
            frozenset(renamed(link) for link in truth.optional if link.child in tables and link.parent in tables),
        ),
    )


def with_keys(fixture: Path, out: Path, *, pks: bool = True, fks: bool = False) -> Truth:
    """Write a copy that declares the true primary keys, the true foreign keys, or both (or neither).

    A key its rows do not keep (a duplicate) is not declared.
    """
    truth = read_truth(fixture)
    with closing(open_read_only(fixture)) as connection:
        keys = {k.table: k.columns for k in truth.primary_keys if pks and _is_unique(connection, k.table, k.columns)}
        tables = {table.name for table in shapes(connection)}
    copy_database(fixture, out, Declared(keys, truth.links if fks else ()))
    return _written(out, _of_tables(truth, tables))


def wrong_keys(fixture: Path, out: Path, seed: int) -> Truth:
    """Write a copy that declares keys on wrong columns: none of them is in the answer, which stays the true one.

    A wrong primary key is unique all the same (a database enforces that): another unique column, two columns, or the
    true key and a column more. About as many foreign keys are declared as there are true ones.
    """
    dice, truth = Dice(seed, "wrong keys"), read_truth(fixture)
    true_keys = set(truth.primary_keys)
    with closing(open_read_only(fixture)) as connection:
        found = shapes(connection)
        keys: dict[str, tuple[str, ...]] = {}
        for table in found:
            key = _wrong_key(dice, connection, table, true_keys)
            keys |= {table.name: key} if key else {}
    links = _wrong_links(dice, found, set(truth.links) | truth.optional, len(truth.links))
    copy_database(fixture, out, Declared(keys, links))
    return _written(out, _of_tables(truth, {table.name for table in found}))


def _written(out: Path, truth: Truth) -> Truth:
    write_truth(out, truth)
    return truth


def _of_tables(truth: Truth, tables: set[str]) -> Truth:
    optional = frozenset(link for link in truth.optional if {link.child, link.parent} <= tables)
    return Truth(truth.primary_keys, truth.links, truth.unconfirmable, optional)


def _wrong_key(
    dice: Dice, connection: sqlite3.Connection, table: TableShape, true_keys: set[PrimaryKey]
) -> tuple[str, ...]:
    """Return columns that are unique and not the key, or nothing for a table of one column."""
    names = table.column_names
    true = next((key.columns for key in true_keys if key.table == table.name), ())
    rest = [name for name in names if name not in true]
    for attempt in range(_TRIES):
        columns = tuple(dice.sample(names, 1 + attempt % 2))
        if PrimaryKey(table.name, columns) not in true_keys and _is_unique(connection, table.name, columns):
            return columns
    return (*true, dice.pick(rest)) if rest and true and _is_unique(connection, table.name, true) else ()


def _wrong_links(dice: Dice, tables: list[TableShape], true: set[Reference], wanted: int) -> list[Reference]:
    """Return references between columns drawn at random."""
    found: dict[Reference, None] = {}
    for _ in range(wanted * 3):
        child, parent = dice.pick(tables), dice.pick(tables)
        link = Reference(child.name, (dice.pick(child.column_names),), parent.name, (dice.pick(parent.column_names),))
        if link not in true and (child.name, link.child_columns) != (parent.name, link.parent_columns):
            found[link] = None
        if len(found) == wanted:
            break
    return list(found)


def _is_unique(connection: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> bool:
    """Return whether the columns hold no NULL and no combination twice."""
    listed = ", ".join(map(quoted, columns))
    present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in columns)
    sql = (
        f"SELECT (SELECT count(*) FROM {quoted(table)}),"
        f" (SELECT count(*) FROM (SELECT DISTINCT {listed} FROM {quoted(table)} WHERE {present}))"
    )
    rows, different = connection.execute(sql).fetchone()
    return bool(rows == different)


def _few_values(connection: sqlite3.Connection, link: Reference) -> bool:
    listed = ", ".join(map(quoted, link.child_columns))
    present = " AND ".join(f"{quoted(column)} IS NOT NULL" for column in link.child_columns)
    sql = f"SELECT DISTINCT {listed} FROM {quoted(link.child)} WHERE {present} LIMIT {_FEWEST_TELLING}"
    return len(connection.execute(sql).fetchall()) < _FEWEST_TELLING


def _has_rival(connection: sqlite3.Connection, link: Reference, truth: Truth) -> bool:
    """Return whether the key of another table explains a reference of one column no worse; see `ambiguity`."""
    if len(link.child_columns) > 1:
        return False
    child = _distinct(connection, link.child, link.child_columns[0])
    parent = _distinct(connection, link.parent, link.parent_columns[0])
    own = (link.child, link.child_columns)
    others = [
        key for key in truth.primary_keys if len(key.columns) == 1 and key.table != link.parent and tuple(key) != own
    ]
    return is_ambiguous(child, parent, (_distinct(connection, key.table, key.columns[0]) for key in others))


def _distinct(connection: sqlite3.Connection, table: str, column: str) -> set[Any]:
    rows = connection.execute(f"SELECT DISTINCT {quoted(column)} FROM {quoted(table)} WHERE {quoted(column)} NOT NULL")
    return {value for (value,) in rows}
