"""The SELECTs that list the values of several columns of a table at once, and of one column alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.connectors.identifiers import table_path
from ktx_cli.connectors.port import Column, Table
from ktx_cli.connectors.sampling.statements import value_of

_WITHOUT_GROUPING_SETS: Final = frozenset({"sqlite", "mysql"})


@dataclass(frozen=True, slots=True)
class Listing:
    """A statement and how its rows are read: `read` gives (place of the column, value, count), or None for NULL."""

    sql: str
    rows: int
    """More rows than these mean that the lists are cut somewhere."""
    columns: int
    flagged: bool

    def read(self, row: Sequence[Any]) -> tuple[int, Any, int] | None:
        """Return which column a row is about, one of its values, and in how many rows of the table it stands."""
        count = int(row[-1])
        if self.flagged:
            place = next(at for at in range(self.columns) if int(row[self.columns + at]) == 0)
        else:
            place = int(row[0])
        value = row[place if self.flagged else place + 1]
        return None if value is None else (place, value, count)


def list_values(table: Table, columns: Sequence[Column], dialect: str, *, most: int, text: int) -> Listing:
    """Return one statement for all columns: grouping sets where the dialect has them, else a union.

    `most`: how many values of a column are wanted; one more is read, to know that there are more. `text`: at how many
    characters values are cut.
    """
    if dialect in _WITHOUT_GROUPING_SETS:
        return _union(table, columns, dialect, most=most, text=text)
    names = [f"v{place}" for place in range(len(columns))]
    values = ", ".join(
        f"{value_of(column, dialect, text)} AS {name}" for column, name in zip(columns, names, strict=True)
    )
    flags = ", ".join(f"GROUPING({name})" for name in names)
    sets = ", ".join(f"({name})" for name in names)
    rows = (most + 2) * len(columns)
    source = f"SELECT {values} FROM {table_path(table.ref, dialect)}"
    sql = f"SELECT {', '.join(names)}, {flags}, COUNT(*) FROM ({source}) AS s GROUP BY GROUPING SETS ({sets})"
    return Listing(limited(sql, dialect, rows + 1), rows, len(columns), flagged=True)


def list_one(table: Table, column: Column, dialect: str, *, most: int, text: int) -> Listing:
    """Return the statement for one column."""
    return Listing(_branch(table, [column], 0, dialect, most, text), most + 2, 1, flagged=False)


def limited(sql: str, dialect: str, rows: int) -> str:
    """Return a SELECT that gives at most so many rows."""
    if dialect == "tsql":
        return sql.replace("SELECT ", f"SELECT TOP ({rows}) ", 1)
    return f"{sql} LIMIT {rows}"


def _union(table: Table, columns: Sequence[Column], dialect: str, *, most: int, text: int) -> Listing:
    branches = [_branch(table, columns, place, dialect, most, text) for place in range(len(columns))]
    return Listing(" UNION ALL ".join(branches), (most + 2) * len(columns), len(columns), flagged=False)


def _branch(table: Table, columns: Sequence[Column], place: int, dialect: str, most: int, text: int) -> str:
    """Return the SELECT of one column's values, in a column of their own: types and collations stay apart."""
    value = value_of(columns[place], dialect, text)
    inner = f"SELECT {value} AS v FROM {table_path(table.ref, dialect)}"
    grouped = limited(f"SELECT v, COUNT(*) AS n FROM ({inner}) AS s GROUP BY v", dialect, most + 2)
    places = ", ".join("v" if at == place else "NULL" for at in range(len(columns)))
    return f"SELECT {place}, {places}, n FROM ({grouped}) AS b"
