"""How a column stands for a member of another table's composite key: by what it refers to, or by its name."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from ktx_cli.context.scan.relationships.facts import ColumnFacts
from ktx_cli.context.scan.relationships.keys import counts_rows, own_name
from ktx_cli.context.scan.relationships.matching import NameIndex, key_alike
from ktx_cli.context.scan.relationships.names import phrase_alike, stem
from ktx_cli.context.scan.relationships.pairs import Pair

CLEAR = 0.6
"""From so clear a name on a column speaks of the parent's table."""
CALLED = 0.9
"""From so clear a name on it is the table's."""


class Likeness(Enum):
    """`NAMED`: called after the parent, or as its member is by a name that says whose it is. `SAME_KEY`: both refer to
    the same key. `WEAK`: called alike by a word that says nothing, as `line` and `number`, or by a role."""

    NAMED = 3
    SAME_KEY = 2
    WEAK = 1

    @property
    def strength(self) -> int:
        """By what mappings are ordered."""
        return int(self.value)


def tails(column: ColumnFacts) -> set[str]:
    """Return the ends of a name by which it can be found: its last word, and the last that means no key.

    A name that says nothing (`c1`) has none.
    """
    if not column.base and not column.keyed:
        return set()
    return {stem(words[-1]) for words in (column.parts, column.base) if words}


def likeness(
    other: ColumnFacts, member: ColumnFacts, refers: Mapping[ColumnFacts, Pair], names: NameIndex
) -> Likeness | None:
    """Return how a column is like a member of a key; None where it is not."""
    mine, theirs = refers.get(other), refers.get(member)
    if _is_prefixed(other, member) or _is_called_after(other, member):
        return Likeness.NAMED
    if mine is not None and theirs is not None:
        return Likeness.SAME_KEY if mine.key is theirs.key else None
    if mine is not None and mine.key is not member:
        return None
    if _same_name(other, member):
        return Likeness.WEAK if counts_rows(member) or not member.base or not member.keyed else Likeness.NAMED
    return _by_table(other, member, names) if theirs is None else None


def _is_called_after(other: ColumnFacts, member: ColumnFacts) -> bool:
    """Whether a column is called as the parent's table is: `purchase_item` beside `purchase_item_line`."""
    return len(member.table.words) > 1 and phrase_alike(other.base, member.table.words) >= CALLED


def _same_name(other: ColumnFacts, member: ColumnFacts) -> bool:
    return key_alike(other, member) >= 0.7 or (other.parts == member.parts and bool(tails(member)))


def _is_prefixed(other: ColumnFacts, member: ColumnFacts) -> bool:
    """Whether a column is called as the member is, with the parent's name before it: `parcel_line`."""
    for words in {member.parts, member.base} - {()}:
        size = len(words)
        if len(other.parts) > size and other.parts[-size:] == words and _is_table(other.parts[:-size], member):
            return True
    return False


def _is_table(words: tuple[str, ...], member: ColumnFacts) -> bool:
    """Whether words end with the name of the member's table: roles may stand before it."""
    spoken = member.table.words
    return max(phrase_alike(words, spoken), phrase_alike(words[-len(spoken) :], spoken)) >= CLEAR


def _by_table(other: ColumnFacts, member: ColumnFacts, names: NameIndex) -> Likeness | None:
    """Return the likeness of a column that speaks of the parent's table to the member that numbers its rows."""
    if own_name(member) < CLEAR or counts_rows(other) or not (other.keyed or other.says("self") or other.says("boss")):
        return None
    number = member.table.number
    if names.tables_of(other).get(number, 0.0) >= CLEAR:
        return Likeness.NAMED
    return Likeness.WEAK if number in names.meant(other.base) else None
