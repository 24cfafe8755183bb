"""Cuts patterns into files so that a new pattern changes one file: by the hash of the tables they read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ktx_cli.context.sources.query_history.documents import MAX_BYTES, rendered

DIGITS: Final = 4
"""Digits of a file's number; more only where one would hold too much."""

Pattern = Mapping[str, Any]


def pattern_files(patterns: Sequence[Pattern]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return path -> content of `patterns/<nnnn>.json`, and the ids of patterns that are too large for any file.

    A pattern's key is the hash of its tables, then of its id: those of the same tables stand together. A file holds
    all keys with one beginning; one that would hold more than `MAX_BYTES` is cut by its next digit.
    """
    sized = [(_key(each), len(_content([each])), each) for each in patterns]
    keyed = sorted((item for item in sized if item[1] <= MAX_BYTES), key=lambda item: item[0])
    too_large = tuple(sorted(str(each["id"]) for _, size, each in sized if size > MAX_BYTES))
    files: dict[str, bytes] = {}
    for digit in "0123456789abcdef":
        _cut(digit, [item for item in keyed if item[0].startswith(digit)], files)
    return files, too_large


def _cut(beginning: str, keyed: Sequence[tuple[str, int, Pattern]], files: dict[str, bytes]) -> None:
    if not keyed:
        return
    if _size(size for _, size, _ in keyed) <= MAX_BYTES:
        files[f"patterns/{beginning.ljust(DIGITS, '0')}.json"] = _content([each for *_, each in keyed])
        return
    for digit in "0123456789abcdef":
        _cut(beginning + digit, [item for item in keyed if item[0].startswith(beginning + digit)], files)


def _size(alone: Iterable[int]) -> int:
    """Return the bytes of a file of patterns by those of files with each of them alone: patterns stand behind `,\n`."""
    sizes = list(alone)
    return _AROUND + sum(size - _AROUND for size in sizes) + 2 * (len(sizes) - 1)


def _key(pattern: Pattern) -> str:
    return _hash("\n".join(pattern["tables"]))[:DIGITS] + _hash(str(pattern["id"]))


def _content(patterns: Sequence[Pattern]) -> bytes:
    return rendered({"patterns": sorted(patterns, key=lambda each: str(each["id"]))})


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_AROUND: Final = len(rendered({"patterns": [0]})) - len("  0")
"""Bytes of a file besides its patterns."""
