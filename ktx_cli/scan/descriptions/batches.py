"""The model calls that describe tables: related small tables together, wide tables in parts."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ktx_cli.core import one_line
from ktx_cli.project import Privacy
from ktx_cli.scan.descriptions.facts import TableContext
from ktx_cli.scan.profile.profiler import ColumnProfile
from ktx_cli.semantic import physical_name
from ktx_cli.warehouses import Column, TableKind, TableRef, ref_order

LOOK_BACK: Final = 50
"""The number of unfinished calls that a group may still join, so that placing thousands of tables takes linear time."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call: estimated tokens of the message, columns and tables."""

    tokens: int = 6_000
    columns: int = 60
    tables: int = 5


@dataclass(frozen=True, slots=True)
class SizedTable:
    """A table to assign to calls. `head`: tokens of everything but its columns. `columns`: names and tokens.

    `asks_table`: whether the text of the table itself is requested.
    """

    ref: TableRef
    head: int
    columns: tuple[tuple[str, int], ...]
    neighbours: frozenset[TableRef] = frozenset()
    asks_table: bool = True


@dataclass(frozen=True, slots=True)
class Piece:
    """A table or a part of its columns, in one call."""

    ref: TableRef
    columns: tuple[str, ...]
    asks_table: bool
    tokens: int


Call = tuple[Piece, ...]


def plan_calls(tables: Iterable[SizedTable], limits: Limits) -> list[Call]:
    """Return the calls. Every column is in exactly one, and the text of every table is requested once.

    Only a call with a single piece of at most one column may exceed `limits.tokens`.
    """
    ordered = sorted(tables, key=lambda table: ref_order(table.ref))
    pieces = {table.ref: split_table(table, limits) for table in ordered}
    small = {ref: parts[0] for ref, parts in pieces.items() if len(parts) == 1}
    neighbours = {table.ref: table.neighbours & small.keys() for table in ordered if table.ref in small}
    groups = _clusters(small, neighbours, limits)
    return [(part,) for parts in pieces.values() if len(parts) > 1 for part in parts] + _merged(groups)


def split_table(table: SizedTable, limits: Limits) -> list[Piece]:
    """Return the pieces of a table in column order, or one piece if it fits a call; the first requests its text."""
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
    """The pieces of an unfinished call."""

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
    """Return groups of joined tables. Each starts with one table and grows by the table with most joins to it."""
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


def _merged(groups: Iterable[_Group]) -> list[Call]:
    """Return the groups merged into calls, by first fit. A group is never split."""
    made: list[_Group] = []
    for group in groups:
        target = next((each for each in made[-LOOK_BACK:] if each.takes(group.pieces)), None)
        if target is None:
            made.append(group)
        else:
            target.add(group.pieces)
    return [tuple(group.pieces) for group in made]


LONGEST_COMMENT: Final = 300
LONGEST_VALUE: Final = 40
LONGEST_TYPE: Final = 80
LONGEST_VIEW: Final = 1500
MOST_VALUES: Final = 5
MOST_JOINS: Final = 20
"""The limits for one table: characters, values per column, and joins in each direction."""

BYTES_PER_TOKEN: Final = 3
"""Bytes per token, deliberately low: English and SQL average about four, names and other scripts fewer."""


def estimated_tokens(text: str) -> int:
    """Return a conservative estimate of a text's token count."""
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN)


def message(tables: Iterable[str]) -> str:
    """Return the user message, with the tables enclosed in tags."""
    return "<tables>\n" + "\n".join(tables) + "\n</tables>\n"


def table_json(head: Mapping[str, Any], columns: Sequence[Mapping[str, Any]]) -> str:
    """Return a table as JSON: its header on the first line, then one line per column."""
    lines = ",\n".join(map(encoded, columns))
    return f'{encoded(head)[:-1]}, "columns": [\n{lines}\n]}}' if columns else f'{encoded(head)[:-1]}, "columns": []}}'


def encoded(value: Any) -> str:
    """Return JSON on one line without `<` and `>`, so that data cannot close the tags around it."""
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def table_head(facts: TableContext, label: str, columns: Labels[str]) -> dict[str, Any]:
    """Return the part of a table that the model sees besides its columns; of the rows, it sees only the count."""
    table = facts.table
    return _filled(
        {
            "table": label,
            "kind": None if table.kind is TableKind.TABLE else table.kind.value,
            "comment": _cut(table.comment),
            "texts": {source: _cut(text) for source, text in facts.texts.table.items()},
            "primary_key": [columns.shown(name) for name in table.primary_key],
            "unique": [[columns.shown(name) for name in key.columns] for key in table.unique_keys],
            "references": [
                _join(join.child_columns, join.parent, join.parent_columns) for join in facts.joins_out[:MOST_JOINS]
            ],
            "referenced_by": [
                _join(join.parent_columns, join.child, join.child_columns) for join in facts.joins_in[:MOST_JOINS]
            ],
            "rows": facts.profile.row_count if facts.profile else None,
            "view": one_line(table.view_sql, LONGEST_VIEW) if table.view_sql else None,
        }
    )


def column_json(
    column: Column, label: str, *, texts: Mapping[str, str], profile: ColumnProfile | None, privacy: Privacy
) -> dict[str, Any]:
    """Return the part of a column that the model sees. It includes values of rows only if `privacy` is `off`."""
    return _filled(
        {
            "column": label,
            "type": one_line(column.native_type, LONGEST_TYPE) or column.type.value,
            "required": None if column.nullable else True,
            "default": one_line(column.default, LONGEST_VALUE) if column.default else None,
            "computed": column.generated or None,
            "comment": _cut(column.comment),
            "texts": {source: _cut(text) for source, text in texts.items()},
            **statistics(profile, privacy),
        }
    )


def statistics(profile: ColumnProfile | None, privacy: Privacy) -> dict[str, Any]:
    """Return counts, shares, lengths and kinds; with `privacy: off`, also frequent values, minimum and maximum."""
    if profile is None:
        return {}
    facts: dict[str, Any] = {
        "holds": profile.kind.value,
        "share_filled": math.floor(100 * profile.filled / profile.rows) / 100,
        "distinct": profile.distinct,
        "length": None if profile.longest is None else [profile.shortest, profile.longest],
    }
    if privacy == "off":
        facts["values"] = [one_line(str(value), LONGEST_VALUE) for value, _ in profile.top[:MOST_VALUES]]
        facts["minimum"] = None if profile.minimum is None else one_line(str(profile.minimum), LONGEST_VALUE)
        facts["maximum"] = None if profile.maximum is None else one_line(str(profile.maximum), LONGEST_VALUE)
    return facts


def column_labels(facts: TableContext) -> Labels[str]:
    """Return the names shown for a table's columns."""
    return Labels({column.name: column.name for column in facts.table.columns})


def table_labels(facts: Iterable[TableContext]) -> Labels[TableRef]:
    """Return the names shown for tables."""
    return Labels({each.ref: physical_name(each.ref) for each in facts})


def _join(own: Sequence[str], other: TableRef, theirs: Sequence[str]) -> dict[str, Any]:
    return {
        "columns": [one_line(name, LONGEST_LABEL) for name in own],
        "table": one_line(physical_name(other), LONGEST_LABEL),
        "their_columns": [one_line(name, LONGEST_LABEL) for name in theirs],
    }


def _cut(text: str | None) -> str | None:
    return one_line(text, LONGEST_COMMENT) if text else None


def _filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None and value not in ([], {})}


Thing = TypeVar("Thing", bound=Hashable)

LONGEST_LABEL: Final = 120
"""The maximum length of a name in a prompt. Longer names are truncated, and numbered if two become equal."""


class Labels(Generic[Thing]):
    """Unique names under which the model sees things. `names`: thing -> its name. The first one keeps a shared name."""

    def __init__(self, names: Mapping[Thing, str]) -> None:
        self._shown: dict[Thing, str] = {}
        self._things: dict[str, Thing] = {}
        for thing, name in names.items():
            label = self._free(one_line(name, LONGEST_LABEL) or "?")
            self._shown[thing] = label
            self._things[label] = thing
        self._folded: dict[str, list[Thing]] = {}
        for label, thing in self._things.items():
            self._folded.setdefault(label.casefold(), []).append(thing)

    def _free(self, label: str) -> str:
        found, number = label, 2
        while found in self._things:
            found, number = f"{label}~{number}", number + 1
        return found

    def shown(self, thing: Thing) -> str:
        """Return the name under which the model sees a thing."""
        return self._shown[thing]

    def thing(self, label: str) -> Thing | None:
        """Return the thing that a name in an answer refers to, ignoring letter case if only one thing matches."""
        if label in self._things:
            return self._things[label]
        alike = self._folded.get(label.strip().casefold(), [])
        return alike[0] if len(alike) == 1 else None
