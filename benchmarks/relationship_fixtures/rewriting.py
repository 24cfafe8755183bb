"""Copies a fixture's database under other names or with other declared keys; views are left out."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.relationship_fixtures.truth import DATA_FILE, Reference
from benchmarks.relationship_fixtures.writing import new_database, quoted


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as SQLite describes it: name, (column, type, NOT NULL) in order."""

    name: str
    columns: tuple[tuple[str, str, bool], ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(name for name, _, _ in self.columns)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a copy declares: a key a table, foreign keys."""

    primary_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    foreign_keys: Sequence[Reference] = ()


def shapes(connection: sqlite3.Connection) -> list[TableShape]:
    """Return the tables of a database in the order they were made."""
    found = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid"
    )
    return [TableShape(name, _columns(connection, name)) for (name,) in found.fetchall()]


def _columns(connection: sqlite3.Connection, table: str) -> tuple[tuple[str, str, bool], ...]:
    rows = connection.execute(f"PRAGMA table_info({quoted(table)})").fetchall()
    return tuple((row[1], row[2], bool(row[3])) for row in rows)


def copy_database(
    fixture: Path,
    out: Path,
    declared: Declared,
    table_name: Callable[[str], str] = str,
    column_name: Callable[[str, str], str] = lambda table, column: column,
) -> None:
    """Write `out/data.sqlite` with the rows of a fixture, other names and exactly the keys of `declared`.

    `declared` is in the old names. Nothing is enforced but the uniqueness of declared primary keys.
    """
    out.mkdir(parents=True, exist_ok=True)
    with closing(open_read_only(fixture)) as source, closing(new_database(out / DATA_FILE)) as target:
        for shape in shapes(source):
            target.execute(_create(shape, declared, table_name, column_name))
            _copy_rows(source, target, shape, table_name(shape.name))
        target.commit()


def open_read_only(fixture: Path) -> sqlite3.Connection:
    """Open a fixture's database so that it cannot be changed."""
    return sqlite3.connect(f"{(fixture / DATA_FILE).resolve().as_uri()}?mode=ro", uri=True)


def _copy_rows(source: sqlite3.Connection, target: sqlite3.Connection, shape: TableShape, name: str) -> None:
    marks = ", ".join("?" * len(shape.columns))
    rows = source.execute(f"SELECT * FROM {quoted(shape.name)}")
    target.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)


def _create(
    shape: TableShape, declared: Declared, table_name: Callable[[str], str], column_name: Callable[[str, str], str]
) -> str:
    def listed(table: str, columns: Sequence[str]) -> str:
        return ", ".join(quoted(column_name(table, column)) for column in columns)

    parts = [
        f"{quoted(column_name(shape.name, name))} {kind}" + (" NOT NULL" if required else "")
        for name, kind, required in shape.columns
    ]
    key = declared.primary_keys.get(shape.name)
    if key:
        parts.append(f"PRIMARY KEY ({listed(shape.name, key)})")
    for link in declared.foreign_keys:
        if link.child == shape.name:
            target = f"{quoted(table_name(link.parent))} ({listed(link.parent, link.parent_columns)})"
            parts.append(f"FOREIGN KEY ({listed(link.child, link.child_columns)}) REFERENCES {target}")
    return f"CREATE TABLE {quoted(table_name(shape.name))} ({', '.join(parts)})"
