"""Which tables and columns go into which call: small tables together, neighbours first; wide tables in parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.describe.facts import ref_order

LOOK_BACK: Final = 50
"""How many calls in the making a group may still join: thousands of tables are placed in linear time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may hold: estimated tokens of the message, columns, tables."""

    tokens: int = 6_000
    columns: int = 60
    tables: int = 5


@dataclass(frozen=True, slots=True)
class SizedTable:
    """A table to place. `head`: tokens of all but its columns; `columns`: name and tokens of each; `asks_table`:
    whether its own text is wanted."""

    ref: TableRef
    head: int
    columns: tuple[tuple[str, int], ...]
    neighbours: frozenset[TableRef] = frozenset()
    asks_table: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """A table, or a part of its columns, in one call."""

    ref: TableRef
    columns: tuple[str, ...]
    asks_table: bool
    tokens: int


Call = tuple[Piece, ...]


def plan_calls(tables: Iterable[SizedTable], limits: Limits) -> list[Call]:
    """Return the calls: every column in exactly one, every table's text asked for once, whatever the order.

    A call is over `limits.tokens` only where it holds one piece with one column at most.
    """
    ordered = sorted(tables, key=lambda table: ref_order(table.ref))
    pieces = {table.ref: split_table(table, limits) for table in ordered}
    small = {ref: parts[0] for ref, parts in pieces.items() if len(parts) == 1}
    neighbours = {table.ref: table.neighbours & small.keys() for table in ordered if table.ref in small}
    groups = _clusters(small, neighbours, limits)
    return [(part,) for parts in pieces.values() if len(parts) > 1 for part in parts] + _merged(groups, limits)


def split_table(table: SizedTable, limits: Limits) -> list[Piece]:
    """Return a table's parts, in the order of its columns; one where it fits a call; the first asks for its text."""
    parts: list[Piece] = []
    names: list[str] = []
    tokens = table.head
    for name, size in table.columns:
        if names and (tokens + size > limits.tokens or len(names) >= limits.columns):
            parts.append(Piece(table.ref, tuple(names), table.asks_table and not parts, tokens))
            names, tokens = [], table.head
        names.append(name)
        tokens += size
    return [*parts, Piece(table.ref, tuple(names), table.asks_table and not parts, tokens)]


@dataclass(slots=True)
class _Group:
    """Pieces of one call in the making."""

    limits: Limits
    pieces: list[Piece] = field(default_factory=list)
    tokens: int = 0
    columns: int = 0

    def takes(self, pieces: Sequence[Piece]) -> bool:
        return (
            self.tokens + sum(piece.tokens for piece in pieces) <= self.limits.tokens
            and self.columns + sum(len(piece.columns) for piece in pieces) <= self.limits.columns
            and len(self.pieces) + len(pieces) <= self.limits.tables
        )

    def add(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            self.pieces.append(piece)
            self.tokens += piece.tokens
            self.columns += len(piece.columns)


def _clusters(
    small: dict[TableRef, Piece], neighbours: dict[TableRef, frozenset[TableRef]], limits: Limits
) -> list[_Group]:
    """Return groups of joined tables, each grown from its first table by the one with most joins into the group."""
    waiting = dict(small)
    groups: list[_Group] = []
    while waiting:
        ref = next(iter(waiting))
        group = _Group(limits)
        ahead: Counter[TableRef] = Counter()
        while True:
            group.add([waiting.pop(ref)])
            ahead.update(neighbours[ref])
            fitting = [each for each in ahead if each in waiting and group.takes([waiting[each]])]
            if not fitting:
                break
            ref = min(fitting, key=lambda each: (-ahead[each], ref_order(each)))
        groups.append(group)
    return groups


def _merged(groups: Iterable[_Group], limits: Limits) -> list[Call]:
    """Return the groups put together, first fit: what is joined stays together, calls are filled."""
    made: list[_Group] = []
    for group in groups:
        target = next((each for each in made[-LOOK_BACK:] if each.takes(group.pieces)), None)
        if target is None:
            made.append(group)
        else:
            target.add(group.pieces)
    return [tuple(group.pieces) for group in made]
