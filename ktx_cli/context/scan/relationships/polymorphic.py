"""Columns that refer to several tables: beside each a column that says which one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.scan.failures import Failures, Stage
from ktx_cli.context.scan.relationships.facts import ColumnFacts, Family, TableFacts
from ktx_cli.context.scan.relationships.matching import NameIndex
from ktx_cli.context.scan.relationships.model import Check
from ktx_cli.context.scan.relationships.names import tokens

MOST_TYPES = 20
"""A discriminator has at most so many values."""

TOLERATED = 0.08
LEAST_NAMED = 0.6
"""How clearly a value has to name a table; one that only means the same counts as so clear."""

CLEARLY = 0.75
"""How clearly the only value of a discriminator has to name its table."""

FEWEST_VALUES = 5
"""So many different values have to stand beside a value that names no table."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the tables a polymorphic column refers to, when `discriminator` has `value`."""

    child: ColumnFacts
    key: ColumnFacts
    discriminator: ColumnFacts
    value: Any
    check: Check
    named: float


def find_branches(
    tables: Iterable[TableFacts], keys: Sequence[ColumnFacts], names: NameIndex, failures: Failures | None = None
) -> list[Branch]:
    """Return the branches of every column whose values belong to different tables by the value of another column.

    A value of the discriminator has to name the table, or one table alone has to hold what stands beside the value; of
    several the one in the column's own schema. There must be at least two such tables, unless the discriminator has one
    value alone, which names its table clearly. A table that fails unexpectedly has none and is noted in `failures`;
    None: the error is raised.
    """
    failed = failures or Failures(strict=True)
    by_table: dict[int, list[ColumnFacts]] = defaultdict(list)
    for key in keys:
        by_table[key.table.number].append(key)
    found: list[Branch] = []
    for table in tables:
        with failed.stage(Stage.POLYMORPHIC, table.table.ref):
            found += _of_table(table, by_table, names)
    return found


def _of_table(table: TableFacts, by_table: Mapping[int, Sequence[ColumnFacts]], names: NameIndex) -> list[Branch]:
    found: list[Branch] = []
    for discriminator in filter(_is_discriminator, table.columns):
        for child in table.columns:
            if child is not discriminator and _belongs(child, discriminator):
                found += _branches(child, discriminator, by_table, names)
    return found


def _is_discriminator(column: ColumnFacts) -> bool:
    return (
        column.family in (Family.TEXT, Family.INTEGER)
        and 1 <= column.distinct <= MOST_TYPES
        and not column.profile.unique
        and column.says("discriminator")
    )


def _belongs(child: ColumnFacts, discriminator: ColumnFacts) -> bool:
    """Whether both are named alike (`owner_id`, `owner_type`), or the discriminator's name is nothing but `type`."""
    if child.family not in (Family.INTEGER, Family.TEXT) or child.profile.unique:
        return False
    first = [part for part in discriminator.parts if part not in ("type", "kind", "class", "name", "typ", "tipo")]
    if set(child.parts) & set(first):
        return child.keyed or child.family is Family.INTEGER
    return child.keyed and (not child.base or not first)


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
    alone = len(groups) == 1 and all(branch.named >= CLEARLY for branch in found)
    return found if alone or len({branch.key.table.number for branch in found}) >= 2 else []


def _branch(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: Mapping[int, Sequence[ColumnFacts]],
    names: NameIndex,
) -> Branch | None:
    words = tuple(word for word in tokens(str(kind)) if word)  # a blank text names nothing
    spoken = names.tables(words)
    named = {number: score for number, score in spoken.items() if score >= LEAST_NAMED}
    for number in names.meant(words):
        named.setdefault(number, LEAST_NAMED)
    options = [(score, key) for number, score in named.items() for key in by_table.get(number, ())]
    for score, key in sorted(options, key=lambda each: (-each[0], not _is_at_home(child, each[1]))):
        check = _check(child, key, group)
        if check is not None:
            return Branch(child, key, discriminator, kind, check, score)
    return None if named else _by_values(child, discriminator, kind, group, by_table)


def _by_values(
    child: ColumnFacts,
    discriminator: ColumnFacts,
    kind: Any,
    group: Sequence[Any],
    by_table: Mapping[int, Sequence[ColumnFacts]],
) -> Branch | None:
    """Return the branch to the one table that holds what stands beside a value that names none; None for several."""
    if len(set(group)) < FEWEST_VALUES:
        return None
    found = [(keys[0], _check(child, keys[0], group)) for keys in by_table.values() if keys]
    fitting = [(key, check) for key, check in found if check is not None]
    fitting = [each for each in fitting if _is_at_home(child, each[0])] if len(fitting) > 1 else fitting
    if len(fitting) != 1:
        return None
    ((key, check),) = fitting
    return Branch(child, key, discriminator, kind, check, 0.0)


def _is_at_home(child: ColumnFacts, key: ColumnFacts) -> bool:
    """Whether a key is in the column's own schema."""
    return child.table.table.ref.schema == key.table.table.ref.schema


def _check(child: ColumnFacts, key: ColumnFacts, group: Sequence[Any]) -> Check | None:
    """Return what the rows say of a group of values and a key; None where too many are not in it."""
    if key.family is not child.family or not key.table.complete:
        return None
    missing = sum(1 for value in group if value not in key.counts)
    check = Check(len(group), missing, exact=child.table.complete)
    return check if check.violations <= TOLERATED else None
