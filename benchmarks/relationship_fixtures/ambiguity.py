"""Which references nothing can tell, where names say nothing: another key holds all of their values as well.

A column of 1..n fits every key of 1..m with m >= n. Where no name links the two, whoever looks has to prefer the key
with the least to spare; a reference to a larger one is there, and cannot be found. So a link of one column is ambiguous
when a key of another table, no larger than the parent's, holds all its values. Where names are words (the other kinds,
and scrambled ones that exchange word for word) they may tell, and no link is left out for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Any


def is_ambiguous(child: Set[Any], parent: Set[Any], others: Iterable[Set[Any]]) -> bool:
    """Return whether one of the other tables' keys explains a child's values no worse than the parent's key does."""
    return any(child <= other and len(other) <= len(parent) for other in others)
