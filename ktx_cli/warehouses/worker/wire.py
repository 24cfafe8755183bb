"""Messages between ktx and a worker: only plain values, so that a compromised worker cannot run code in ktx."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Sequence
from sys import getsizeof
from typing import Any, Final

OUT_OF_MEMORY: Final = 86
"""The exit code of a worker that ended itself because of its memory use."""

_HEADER: Final = 4
_UUID: Final = "_uuid"
_VALUES: Final = frozenset(
    {("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")} | {("decimal", "Decimal")}
)
"""The classes that a message may name, all of them immutable and implemented in C."""


class WireError(Exception):
    """Raised for a message that contains something other than plain values."""


class _Uuid:
    """Creates a UUID from its bytes. It is an object without attributes because a message could change the class
    itself.
    """

    __slots__ = ()

    def __call__(self, value: bytes) -> Any:
        import uuid

        return uuid.UUID(bytes=value)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _VALUES:
            __import__(module)
            return getattr(sys.modules[module], name)
        if (module, name) == (__name__, _UUID):
            return _Uuid()
        raise WireError(f"{module}.{name} is not a plain value")


def _uuid(value: bytes) -> Any:
    """Represent `_Uuid` in a message, which names the constructor of a value."""
    return _Uuid()(value)


def packed(message: Any, *, simple: bool = False) -> bytes:
    """Return a message prefixed with its length.

    `simple`: it only contains numbers, texts, bytes and None, none of which are worth memoizing for the next one.
    """
    stream = io.BytesIO()
    stream.write(bytes(_HEADER))
    writer = pickle.Pickler(stream, protocol=5)
    writer.fast = simple
    uuid = sys.modules.get("uuid")
    if uuid is not None:
        writer.dispatch_table = {uuid.UUID: lambda value: (_uuid, (value.bytes,))}
    try:
        writer.dump(message)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise WireError(str(error)) from error
    length = stream.tell() - _HEADER
    stream.seek(0)
    stream.write(length.to_bytes(_HEADER, "big"))
    return stream.getvalue()


def unpacked(data: bytes | bytearray) -> Any:
    """Return the message in `data`. Raises `WireError` for anything but plain values."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"a message cannot be read: {type(error).__name__}") from error


def plain(value: Any) -> Any:
    """Return a parameter as a plain value, with subclasses of numbers and strings converted to their base type."""
    kind = type(value)
    if kind in (str, int, float, bool, bytes, type(None)):
        return value
    if kind in (list, tuple):
        return [plain(each) for each in value]
    if kind is dict:
        return {plain(key): plain(each) for key, each in value.items()}
    if (kind.__module__, kind.__name__) in (*_VALUES, ("uuid", "UUID")):
        return value
    for base in (str, int, float):
        if isinstance(value, base):
            return base(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise WireError(f"a parameter of the type {kind.__name__} cannot be sent")


_PLAIN: Final = frozenset({int, float, bool, type(None)})
_NESTED: Final = frozenset({list, dict, tuple, set, frozenset})
_ROW: Final = 40
"""The size of a tuple without its items."""
_VALUE: Final = 34
"""The overhead of a value: its reference, and the allocator's rounding.

None is the smallest value with 16 bytes, so no value counts less than 50.
"""
_NUMBER: Final = 28 + _VALUE
_TEXT: Final = 49 + _VALUE
"""The size of an ASCII string without its characters; other characters take up to four bytes each."""


def row_size(row: Sequence[Any]) -> int:
    """Return the approximate size of a row's values as text: the characters of a string, 8 for any other value."""
    # Every value of every result passes here, so plain values must not cost a call.
    return sum([len(each) if type(each) is str else 8 if type(each) in _PLAIN else value_size(each) for each in row])


def value_size(value: Any) -> int:
    """Return the approximate size of a value as text; for lists and mappings, the sum of their items."""
    if isinstance(value, str | bytes | bytearray | memoryview):
        return len(value)
    if isinstance(value, dict):
        return sum(value_size(key) + value_size(item) for key, item in value.items())
    return sum(map(value_size, value)) if isinstance(value, list | tuple | set) else 8


def row_memory(row: Sequence[Any]) -> int:
    """Return the approximate memory use of a row and its values."""
    # Every value of every result passes here: plain ones must not cost a call, and `getsizeof` is one.
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
    """Return the memory use of a value and of everything that it contains."""
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
