"""Writes a generated database: `data.sqlite` and its answer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.relationship_fixtures.ambiguity import is_ambiguous
from benchmarks.relationship_fixtures.dice import Dice
from benchmarks.relationship_fixtures.scrambling import INDEPENDENT
from benchmarks.relationship_fixtures.tables import Column, Database, Link, Table
from benchmarks.relationship_fixtures.truth import DATA_FILE, PrimaryKey, Reference, Truth, write_truth

_FEWEST_TELLING = 3


def write_fixture(folder: Path, dice: Dice, database: Database, *, declared: bool) -> Truth:
    """Write both files into `folder`, which is made; existing ones are replaced. Return the answer."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(new_database(folder / DATA_FILE)) as connection:
        not_null = dice.chance(0.6)
        for table in database.tables:
            connection.execute(_create(table, list(database.links_of(table)) if declared else [], declared, not_null))
            _insert(connection, dice, table)
        for view in database.views:
            columns = ", ".join(quoted(column.name) for column in view.columns)
            connection.execute(f"CREATE VIEW {quoted(view.name)} AS SELECT {columns} FROM {quoted(view.table.name)}")
        connection.commit()
    truth = truth_of(database)
    write_truth(folder, truth, _relationships(database))
    return truth


def new_database(path: Path) -> sqlite3.Connection:
    """Create an empty database that is written fast: a crash would lose it."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=off", "synchronous=off", "locking_mode=exclusive", "foreign_keys=off"):
        connection.execute(f"PRAGMA {pragma}")
    connection.execute("BEGIN")
    return connection


def quoted(name: str) -> str:
    """Return a name quoted for SQLite."""
    return '"' + name.replace('"', '""') + '"'


def names(columns: Iterable[Column]) -> tuple[str, ...]:
    """Return the names of columns."""
    return tuple(column.name for column in columns)


def _create(table: Table, links: Sequence[Link], declared: bool, not_null: bool) -> str:
    parts = [
        f"{quoted(c.name)} {c.sql_type}" + (" NOT NULL" if not_null and c.values and None not in c.values else "")
        for c in table.columns
    ]
    if declared and table.key and table.copy_of is None:
        parts.append(f"PRIMARY KEY ({_listed(names(table.key))})")
    for link in links:
        if link.scored and link.discriminator is None:
            target = f"{quoted(link.parent.name)} ({_listed(names(link.parent_columns))})"
            parts.append(f"FOREIGN KEY ({_listed(names(link.columns))}) REFERENCES {target}")
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(parts)})"


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(quoted, columns))


def _insert(connection: sqlite3.Connection, dice: Dice, table: Table) -> None:
    rows = list(zip(*(column.values for column in table.columns), strict=True))
    if dice.chance(0.2):
        rows = dice.shuffled(rows)
    marks = ", ".join("?" * len(table.columns))
    connection.executemany(f"INSERT INTO {quoted(table.name)} VALUES ({marks})", rows)


def truth_of(database: Database) -> Truth:
    """Return the answer of a named and filled database."""
    scored = [link for link in database.links if link.scored]
    links = list(dict.fromkeys(_reference(link) for link in scored))
    optional = {_reference(link) for link in database.links if not link.scored} | set(_of_views(database))
    optional |= set(_implied(database))
    least = _FEWEST_TELLING if database.notes.get("naming") == "scrambled" else 1
    silent = {_reference(link) for link in scored if not _tells(link, least)}
    if database.notes.get("scrambled") == INDEPENDENT:
        silent |= {_reference(link) for link in scored if _has_rival(link, database)}
    keys = [PrimaryKey(table.name, names(table.key)) for table in database.tables if table.key]
    return Truth(tuple(keys), tuple(links), frozenset(silent), frozenset(optional - set(links)))


def _reference(link: Link) -> Reference:
    return Reference(link.child.name, names(link.columns), link.parent.name, names(link.parent_columns))


def _implied(database: Database) -> Iterator[Reference]:
    """Yield what single columns of a composite link refer to through its parent: true, and no key of their own."""
    for link in database.links:
        pairs = zip(link.columns, link.parent_columns, strict=True) if len(link.columns) > 1 else ()
        for column, target in pairs:
            for onward in database.links_of(link.parent):
                if onward.columns == (target,):
                    single = ((column.name,), onward.parent.name, names(onward.parent_columns))
                    yield Reference(link.child.name, *single)


def _of_views(database: Database) -> Iterator[Reference]:
    """Yield what a view's columns refer to: the parents of its table, and the table itself."""
    for view in database.views:
        shown = set(view.columns)
        for link in database.links_of(view.table):
            if shown.issuperset(link.columns):
                yield _reference(link)._replace(child=view.name)
        yield Reference(view.name, names(view.table.key), view.table.name, names(view.table.key))


def _tells(link: Link, least: int) -> bool:
    """Return whether the rows can show a link: parents, and enough different references."""
    values = zip(*(column.values for column in link.columns), strict=True)
    different = {row for row in values if None not in row}
    return link.parent.size > 0 and len(different) >= min(least, max(1, link.parent.size))


def _has_rival(link: Link, database: Database) -> bool:
    """Return whether the key of another table explains a reference of one column no worse; see `ambiguity`."""
    if len(link.columns) > 1:
        return False
    others = [
        table.key[0] for table in database.tables if len(table.key) == 1 and table is not link.parent and table.size
    ]
    mine = {value for value in _values(link) if value is not None}
    return is_ambiguous(
        mine, set(link.parent_columns[0].values), (set(key.values) for key in others if key not in link.columns)
    )


def _values(link: Link) -> Iterable[Any]:
    """Return the values of a link's column: of a polymorphic one those that refer to this parent."""
    values = link.columns[0].values
    if link.discriminator is None:
        return values
    column, kind = link.discriminator
    return (value for value, said in zip(values, column.values, strict=True) if said == kind)


def _relationships(database: Database) -> dict[Reference, str]:
    """Return the links whose columns are their child's whole key or one of its alternates."""
    out = {}
    for link in database.links:
        columns = set(link.columns)
        if columns == set(link.child.key) or columns in [set(alternate) for alternate in link.child.alternates]:
            out[_reference(link)] = "one_to_one"
    return out
