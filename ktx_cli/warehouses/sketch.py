"""Sketches of the columns of a table: the SQL with which a database computes them, one statement for a table.

A bottom-k sketch has the smallest hashes of a column's distinct values. Equal values have equal hashes in all tables of
a database, so that two sketches show how many values of one column are in the other. An estimate of the number of
distinct values, which most warehouses compute with HyperLogLog, needs no hashes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from ktx_cli.warehouses.dialect import dialect_named, table_path
from ktx_cli.warehouses.port import Column, Table
from ktx_cli.warehouses.sampling import spelled_type

SKETCH_SIZE: Final = 2048
"""The maximum number of hashes of a column. The share of values in a key then has a standard error of at most 1.1 %."""

_DIGITS: Final = 15

HASHES: Final = 16**_DIGITS
"""The number of different hashes, which are whole numbers from 0 on."""

_INTEGER: Final = re.compile(
    r"u?(?:tiny|small|medium|big|huge)?int(?:eger)?\d*(?:\s*\(\d+\))?(?: unsigned)?|(?:small|big)?serial\d?|byteint|"
    r"byte|short|long|(?:number|numeric|decimal|dec)\s*\(\s*\d+\s*(?:,\s*0\s*)?\)"
)
_TEXT: Final = re.compile(r"(?:(?:tiny|medium|long|n)?text|n?clob|string|n?varchar2?|character varying)(?:\s*\(.*\))?")
_PADDED: Final = re.compile(r"(?:n?char|character|bpchar)(?:\s*\(.*\))?")
_UUID: Final = frozenset({"uuid", "uniqueidentifier"})


class HashedKind(StrEnum):
    """The kinds of values whose hashes are equal if the values are. Hashes of different kinds are not comparable."""

    INTEGER = "integer"
    TEXT = "text"
    UUID = "uuid"


@dataclass(frozen=True, slots=True)
class SketchedColumn:
    """A column to sketch. `share`: the share of all hashes to look at, the smallest ones, so that the database has to
    group few of many values. `ignores_case`: whether texts that differ only in case are equal. `excluded`: a value that
    counts as NULL.
    """

    column: Column
    share: float = 1.0
    ignores_case: bool = False
    excluded: Any = None

    @property
    def limit(self) -> int:
        """The number below which hashes are kept."""
        return min(HASHES, max(1, int(self.share * HASHES)))


def hashed_kind(column: Column, dialect: str) -> HashedKind | None:
    """Return the kind of a column's hashes, or None if equal values may have different texts, or hashing fails."""
    syntax, spelled = dialect_named(dialect), spelled_type(column)
    if not syntax.text_hash or syntax.untyped_columns:
        return None
    if _INTEGER.fullmatch(spelled):
        return HashedKind.INTEGER
    if spelled in _UUID:
        return HashedKind.UUID
    return HashedKind.TEXT if _TEXT.fullmatch(spelled) or _PADDED.fullmatch(spelled) else None


def sketch_statement(table: Table, columns: Sequence[SketchedColumn], dialect: str) -> str:
    """Return the SELECT for the sketches of columns.

    Each row has the position of a column in `columns`, a hash as a number or in hexadecimal digits, the number of rows
    with it, and the number of the column's rows with a value. The hash is 0 or empty for all values whose hash is not
    looked at.
    """
    return " UNION ALL ".join(_select(table, each, number, dialect) for number, each in enumerate(columns))


def _select(table: Table, sketched: SketchedColumn, number: int, dialect: str) -> str:
    syntax, column = dialect_named(dialect), sketched.column
    name, kind = syntax.quote(column.name), hashed_kind(column, dialect)

    def text_of(value: str) -> str:
        """Return the SQL for the text of a value, which is the same for equal values."""
        text = syntax.as_text(value)
        if kind is HashedKind.UUID or sketched.ignores_case:
            text = f"lower({text})"
        is_padded = syntax.folds_texts or _PADDED.fullmatch(spelled_type(column))
        return f"rtrim({text})" if kind is HashedKind.TEXT and is_padded else text

    given = f"{name} IS NOT NULL"
    if kind is HashedKind.TEXT:
        given += f" AND trim({name}) <> ''"
    if sketched.excluded is not None:
        given += f" AND {name} <> {syntax.value(sketched.excluded)}"
    source = f"FROM {table_path(table.ref, dialect)} WHERE {given}"
    if sketched.limit < HASHES:
        # Values with other hashes form one group, so that all rows are counted in the same pass.
        least, others = str(sketched.limit), "0"
        if not syntax.numeric_hashes:
            least, others = f"'{sketched.limit:0{_DIGITS}x}'", "''"
        hashed = f"SELECT {syntax.hashed(text_of(name))} AS h {source}"
        kept = f"SELECT CASE WHEN v.h < {least} THEN v.h ELSE {others} END AS h FROM ({hashed}) AS v"
        grouped = f"SELECT w.h AS h, count(*) AS n, sum(count(*)) OVER () AS filled FROM ({kept}) AS w GROUP BY w.h"
    else:
        # There are few values, so they are grouped before they are hashed.
        values = f"SELECT {name} AS v, count(*) AS n {source} GROUP BY {name}"
        hashed = f"SELECT {syntax.hashed(text_of('u.v'))} AS h, u.n AS n FROM ({values}) AS u"
        grouped = f"SELECT w.h AS h, w.n AS n, sum(w.n) OVER () AS filled FROM ({hashed}) AS w"
    smallest = syntax.limited(f"{grouped} ORDER BY h", SKETCH_SIZE + 1)
    hash_ = f"s{number}.h" if syntax.numeric_hashes else f"{syntax.beginning(f's{number}.h', _DIGITS)} AS h"
    return f"SELECT {number} AS c, {hash_}, s{number}.n, s{number}.filled FROM ({smallest}) AS s{number}"


def estimate_statement(table: Table, columns: Sequence[Column], dialect: str) -> str | None:
    """Return the SELECT that counts each column's rows with a value and estimates its number of distinct values.

    None if the database has no such estimate.
    """
    syntax = dialect_named(dialect)
    if not syntax.distinct_estimate:
        return None
    names = [syntax.quote(column.name) for column in columns]
    counts = ", ".join(f"count({name}), {syntax.distinct_estimate.format(name)}" for name in names)
    return f"SELECT {counts} FROM {table_path(table.ref, dialect)}"
