"""Columns that refer to several tables: beside each a column that says which one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.scan.relationships.facts import ColumnFacts, Family, TableFacts
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.model import Check
from ktx_cli.context.scan.relationships.names import tokens

MOST_TYPES = 20
"""A discriminator has at most so many values."""

TOLERATED = 0.08


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the tables a polymorphic column refers to, when `discriminator` has `value`."""

    child: ColumnFacts
    key: ColumnFacts
    discriminator: ColumnFacts
    value: Any
    check: Check
    named: float


def find_branches(tables: Iterable[TableFacts], keys: Sequence[ColumnFacts], names: NameIndex) -> list[Branch]:
    """Return the branches of every column whose values belong to different tables by the value of another column.

    A value of the discriminator has to name the table, and there must be at least two such tables.
    """
    by_table: dict[int, list[ColumnFacts]] = defaultdict(list)
    for key in keys:
        by_table[key.table.number].append(key)
    found: list[Branch] = []
    for table in tables:
        for discriminator in filter(_is_discriminator, table.columns):
            for child in table.columns:
                if child is not discriminator and _belongs(child, discriminator):
                    found += _branches(child, discriminator, by_table, names)
    return found


def _is_discriminator(column: ColumnFacts) -> bool:
    return (
        column.family is Family.TEXT
        and 2 <= column.distinct <= MOST_TYPES
        and not column.profile.unique
        and column.says("discriminator")
    )


def _belongs(child: ColumnFacts, discriminator: ColumnFacts) -> bool:
    """Whether both are named alike (`owner_id`, `owner_type`), or the discriminator's name is nothing but `type`."""
    if child.family not in (Family.INTEGER, Family.TEXT) or child.profile.unique or not child.keyed:
        return False
    first = [part for part in discriminator.parts if part not in ("type", "kind", "class", "name", "typ", "tipo")]
    shared = set(child.parts) & set(first)
    return bool(shared) or not child.base or not first


def _branches(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    by_table: Mapping[int, Sequence[ColumnFacts]],
    names: NameIndex,
) -> list[Branch]:
    values = child.table.sampled.values
    groups: dict[Any, list[Any]] = defaultdict(list)
    for kind, value in zip(values[discriminator.name], values[child.name], strict=True):
        if kind is not None and value is not None:
            groups[kind].append(value)
    found = []
    for kind, group in groups.items():
        branch = _branch(child, discriminator, kind, group, by_table, names)
        if branch is not None:
            found.append(branch)
    return found if len({branch.key.table.number for branch in found}) >= 2 else []


def _branch(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: Mapping[int, Sequence[ColumnFacts]],
    names: NameIndex,
) -> Branch | None:
    spoken = names.tables(tokens(str(kind)))
    for number, named in sorted(spoken.items(), key=lambda each: -each[1]):
        if named < 0.6:
            break
        for key in by_table.get(number, ()):
            if key.family is not child.family or not key.table.complete:
                continue
            missing = sum(1 for value in group if value not in key.counts)
            check = Check(len(group), missing, exact=child.table.complete)
            if check.violations <= TOLERATED:
                return Branch(child, key, discriminator, kind, check, named)
    return None
