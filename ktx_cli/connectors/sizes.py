"""How many bytes the values of a row hold. It imports nothing, because workers count with it too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_PLAIN = frozenset({int, float, bool, type(None)})


def row_size(row: Sequence[Any]) -> int:
    """Return about how many bytes the values of a row hold."""
    # Every value of every result comes by here: plain ones must not cost a call.
    return sum([len(each) if type(each) is str else 8 if type(each) in _PLAIN else value_size(each) for each in row])


def value_size(value: Any) -> int:
    """Return about how many bytes a value holds: characters for texts, the items' sum for lists and mappings."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value)
    if isinstance(value, dict):
        return sum(value_size(key) + value_size(item) for key, item in value.items())
    return sum(map(value_size, value)) if isinstance(value, list | tuple | set) else 8
