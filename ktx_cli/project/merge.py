"""Three-way merge of one file: YAML by its structure, Markdown by its front matter and lines, the rest by lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError
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
    survive. Where a merge by lines gives the same values, its text is taken: it keeps the comments of both. The front
    matter of Markdown is merged as YAML, its lists of texts as sets. Other files, and YAML that does not parse, are
    merged by `text_merge` alone.
    """
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    if ours is None or theirs is None:
        return Conflict(path, "", "one side deleted the file, the other changed it")
    if path.endswith((".yaml", ".yml")):
        return _merge_yaml(path, base, ours, theirs, text_merge)
    if path.endswith(".md") and base is not None:
        return _merge_markdown(path, base, ours, theirs, text_merge)
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
        return _edited(theirs, values[2], merged, path)
    except ConfigError as error:
        return Conflict(path, "", f"the two changes cannot be put into one text ({error.message})")


_FRONT_MATTER: Final = re.compile(rb"\A(---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)


def _merge_markdown(
    path: str, base: bytes, ours: bytes, theirs: bytes, text_merge: TextMerge | None
) -> bytes | Conflict:
    heads = [_FRONT_MATTER.match(side) for side in (base, ours, theirs)]
    if not all(heads):
        return _merge_lines(path, base, ours, theirs, text_merge)
    parts = [(head[2], side[head.end() :]) for head, side in zip(heads, (base, ours, theirs), strict=True) if head]
    (base_head, base_body), (our_head, our_body), (their_head, their_body) = parts
    head = _merge_head(path, base_head, our_head, their_head, text_merge)
    body = _merge_body(path, base_body, our_body, their_body, text_merge)
    if isinstance(head, Conflict):
        return head
    fence = heads[2]
    if isinstance(body, Conflict) or fence is None:
        return body
    return fence[1] + head + fence[3] + body


def _merge_body(path: str, base: bytes, ours: bytes, theirs: bytes, text_merge: TextMerge | None) -> bytes | Conflict:
    if ours in (theirs, base):
        return theirs
    return ours if theirs == base else _merge_lines(path, base, ours, theirs, text_merge)


def _merge_head(path: str, base: bytes, ours: bytes, theirs: bytes, text_merge: TextMerge | None) -> bytes | Conflict:
    """Merge front matter: a text of a list is there when one side added it, and gone when one side took it out."""
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    try:
        values = [yaml.load(side, where=path) for side in (base, ours, theirs)]
    except ConfigError:
        return _merge_lines(path, base, ours, theirs, text_merge)
    if not all(isinstance(each, dict) for each in values):
        return _merge_yaml(path, base, ours, theirs, text_merge)
    before = dict(values[2])
    for key in sorted(set(values[1]) & set(values[2])):
        lists = [each.get(key, []) for each in values]
        if all(_is_texts(each) for each in lists):
            for each in values:
                each[key] = _as_sets(*lists)
    try:
        merged = merge_data(*values, on_conflict="raise")
        return _edited(theirs, before, merged, path)
    except MergeConflictError as conflict:
        return Conflict(path, conflict.where, conflict.reason)
    except ConfigError as error:
        return Conflict(path, "", f"the two changes cannot be put into one text ({error.message})")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _as_sets(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    gone = {each for each in base if each not in ours or each not in theirs}
    return [each for each in dict.fromkeys((*theirs, *ours)) if each not in gone]


def _merge_lines(
    path: str, base: bytes | None, ours: bytes, theirs: bytes, text_merge: TextMerge | None
) -> bytes | Conflict:
    merged = text_merge(base or b"", ours, theirs) if text_merge is not None else None
    return Conflict(path, "", "both sides changed the same lines") if merged is None else merged


def _edited(text: bytes, before: Any, after: Any, where: str) -> bytes:
    from ktx_cli.project.edit import apply, diff  # whoever reads a repository merges nothing

    return apply(text, diff(before, after), where=where)


def _holds(text: bytes, wanted: Any, where: str) -> bool:
    from ktx_cli.project.edit import same_data

    try:
        return same_data(yaml.load(text, where=where), wanted)
    except ConfigError:
        return False
