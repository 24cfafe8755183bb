"""Three-way merge of one file: YAML by its structure, everything else by its lines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
from ktx_cli.project.edit import apply, diff, same_data
from ktx_cli.project.merge_yaml import MergeConflictError, OnConflict, merge_data

__all__ = ["Conflict", "MergeConflictError", "OnConflict", "TextMerge", "merge_data", "merge_file"]

TextMerge = Callable[[bytes, bytes, bytes], bytes | None]
"""Line-based merge of (base, ours, theirs); None when both sides changed the same lines."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a file could not be merged.

    `path` is the file, `where` the value inside it (`measures[revenue].expr`; empty for the whole file), `reason`
    half a sentence for a person.
    """

    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}: {self.where}" if self.where else self.path
        return f"{place}: {self.reason}"


def merge_file(
    path: str,
    base: bytes | None,
    ours: bytes | None,
    theirs: bytes | None,
    *,
    text_merge: TextMerge | None = None,
) -> bytes | Conflict | None:
    """Return the merged content of a file, or the conflict; None stands for a file that is not there.

    Of a `.yaml` or `.yml` file what ours changed is edited into the text of theirs, whose comments and form
    survive. Where a merge by lines gives the same values, its text is taken: it keeps the comments of both. Other
    files, and YAML that does not parse, are merged by `text_merge` alone.
    """
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    if ours is None or theirs is None:
        return Conflict(path, "", "one side deleted the file, the other changed it")
    if path.endswith((".yaml", ".yml")):
        return _merge_yaml(path, base, ours, theirs, text_merge)
    return _merge_lines(path, base, ours, theirs, text_merge)


def _merge_yaml(
    path: str, base: bytes | None, ours: bytes, theirs: bytes, text_merge: TextMerge | None
) -> bytes | Conflict:
    try:
        values = [yaml.load(side or b"", where=path) for side in (base, ours, theirs)]
    except ConfigError:
        return _merge_lines(path, base, ours, theirs, text_merge)
    try:
        merged = merge_data(*values, on_conflict="raise")
    except MergeConflictError as conflict:
        return Conflict(path, conflict.where, conflict.reason)
    by_lines = text_merge(base, ours, theirs) if text_merge is not None and base is not None else None
    if by_lines is not None and _holds(by_lines, merged, path):
        return by_lines
    try:
        return apply(theirs, diff(values[2], merged), where=path)
    except ConfigError as error:
        return Conflict(path, "", f"the two changes cannot be put into one text ({error.message})")


def _merge_lines(
    path: str, base: bytes | None, ours: bytes, theirs: bytes, text_merge: TextMerge | None
) -> bytes | Conflict:
    merged = text_merge(base or b"", ours, theirs) if text_merge is not None else None
    return Conflict(path, "", "both sides changed the same lines") if merged is None else merged


def _holds(text: bytes, wanted: Any, where: str) -> bool:
    try:
        return same_data(yaml.load(text, where=where), wanted)
    except ConfigError:
        return False
