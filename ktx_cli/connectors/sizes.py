"""How many bytes the values of a row take. It imports nothing else, because workers count with it too."""

from __future__ import annotations

from collections.abc import Sequence
from sys import getsizeof
from typing import Any, Final

_PLAIN: Final = frozenset({int, float, bool, type(None)})
_NESTED: Final = frozenset({list, dict, tuple, set, frozenset})
_ROW: Final = 40
"""A tuple without its items."""
_VALUE: Final = 34
"""What a value takes beyond its own size: its place in what holds it, and what an allocator rounds up.

None is the smallest value with 16 bytes, so that none counts less than 50.
"""
_NUMBER: Final = 28 + _VALUE
_TEXT: Final = 49 + _VALUE
"""A text of ASCII characters without these; others take up to four bytes for each."""


def row_size(row: Sequence[Any]) -> int:
    """Return about how many bytes the values of a row take as text: characters of texts, 8 for anything else."""
    # Every value of every result comes by here: plain ones must not cost a call.
    return sum([len(each) if type(each) is str else 8 if type(each) in _PLAIN else value_size(each) for each in row])


def value_size(value: Any) -> int:
    """Return about how many bytes a value takes as text: of lists and mappings the sum of the items."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value)
    if isinstance(value, dict):
        return sum(value_size(key) + value_size(item) for key, item in value.items())
    return sum(map(value_size, value)) if isinstance(value, list | tuple | set) else 8


def row_memory(row: Sequence[Any]) -> int:
    """Return about how many bytes of memory a row and its values take."""
    # Every value of every result comes by here: plain ones must not cost a call, and `getsizeof` is one.
    return sum(
        [
            len(each) + _TEXT
            if type(each) is str and each.isascii()
            else _NUMBER
            if type(each) in _PLAIN
            else _value_memory(each)
            for each in row
        ],
        _ROW,
    )


def _value_memory(value: Any) -> int:
    """Return the memory of a value and of all that it holds."""
    total = getsizeof(value) + _VALUE
    stack = [value] if type(value) in _NESTED else []
    while stack:
        found = stack.pop()
        if isinstance(found, dict):
            stack.append(list(found.values()))
        total += sum(map(getsizeof, found), _VALUE * len(found))
        if not _NESTED.isdisjoint(map(type, found)):
            stack += [each for each in found if type(each) in _NESTED]
    return total
