"""Cuts patterns into files so that a new pattern changes one file: by the hash of the tables they read."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
    keyed = sorted((_key(each), each) for each in patterns if len(_content([each])) <= MAX_BYTES) if patterns else []
    too_large = tuple(sorted(str(each["id"]) for each in patterns if len(_content([each])) > MAX_BYTES))
    files: dict[str, bytes] = {}
    for digit in "0123456789abcdef":
        _cut(digit, [item for item in keyed if item[0].startswith(digit)], files)
    return files, too_large


def _cut(beginning: str, keyed: Sequence[tuple[str, Pattern]], files: dict[str, bytes]) -> None:
    if not keyed:
        return
    content = _content([each for _, each in keyed])
    if len(content) <= MAX_BYTES:
        files[f"patterns/{beginning.ljust(DIGITS, '0')}.json"] = content
        return
    for digit in "0123456789abcdef":
        _cut(beginning + digit, [item for item in keyed if item[0].startswith(beginning + digit)], files)


def _key(pattern: Pattern) -> str:
    return _hash("\n".join(pattern["tables"]))[:DIGITS] + _hash(str(pattern["id"]))


def _content(patterns: Sequence[Pattern]) -> bytes:
    return rendered({"patterns": sorted(patterns, key=lambda each: str(each["id"]))})


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
