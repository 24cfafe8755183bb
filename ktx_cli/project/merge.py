"""Three-way merge of one file: YAML by structure, Markdown by front matter and lines, other files by lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.core import ConfigError, KtxError, yaml

__all__ = ["Conflict", "MergeConflictError", "OnConflict", "TextMerge", "merge_data", "merge_file"]

TextMerge = Callable[[bytes, bytes, bytes], bytes | None]
"""Line-based merge of (base, ours, theirs); None if both sides changed the same lines."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The reason why a file could not be merged.

    `path` is the file, `where` the value in it (`measures[revenue].expr`; empty for the whole file), and `reason`
    completes the sentence.
    """

    path: str
    where: str
    reason: str

    def __str__(self) -> str:
        place = f"{self.path}: {self.where}" if self.where else self.path
        return f"{place}: {self.reason}"


def merge_file(
    path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None, *, text_merge: TextMerge | None = None
) -> bytes | Conflict | None:
    """Return the merged content of a file, or the conflict; None stands for a missing file.

    For `.yaml` and `.yml` files, the changes of ours are edited into the text of theirs, which keeps its comments and
    formatting. If a line merge produces the same values, its text is used, because it keeps the comments of both. The
    front matter of Markdown is merged as YAML, with lists of text as sets. Other files, and invalid YAML, are only
    merged by `text_merge`.
    """
    if ours in (theirs, base):
        return theirs
    if theirs == base:
        return ours
    if ours is None or theirs is None:
        return Conflict(path, "", "one side deleted the file, the other changed it")
    file = _File(path, text_merge)
    if path.endswith((".yaml", ".yml")):
        return file.yaml(base, ours, theirs)
    if path.endswith(".md") and base is not None:
        return file.markdown(base, ours, theirs)
    return file.lines(base, ours, theirs)


_FRONT_MATTER: Final = re.compile(rb"\A(---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _File:
    """The file to merge, for messages, and its line-based merge."""

    path: str
    text_merge: TextMerge | None

    def lines(self, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | Conflict:
        """Merge the parts that both sides changed line by line."""
        merged = self.text_merge(base or b"", ours, theirs) if self.text_merge is not None else None
        return Conflict(self.path, "", "both sides changed the same lines") if merged is None else merged

    def yaml(self, base: bytes | None, ours: bytes, theirs: bytes) -> bytes | Conflict:
        """Merge YAML by its values."""
        try:
            values = [yaml.load(side or b"", where=self.path) for side in (base, ours, theirs)]
        except ConfigError:
            return self.lines(base, ours, theirs)
        merge = self.text_merge
        return self.edited(theirs, values, lambda: merge(base, ours, theirs) if merge and base is not None else None)

    def markdown(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | Conflict:
        """Merge front matter and body, each by its own rules."""
        heads = [_FRONT_MATTER.match(side) for side in (base, ours, theirs)]
        if not all(heads):
            return self.lines(base, ours, theirs)
        parts = [(head[2], side[head.end() :]) for head, side in zip(heads, (base, ours, theirs), strict=True) if head]
        (base_head, base_body), (our_head, our_body), (their_head, their_body) = parts
        head = self.part(base_head, our_head, their_head, self.front_matter)
        body = self.part(base_body, our_body, their_body, self.lines)
        if isinstance(head, Conflict):
            return head
        fence = heads[2]
        return body if isinstance(body, Conflict) or fence is None else fence[1] + head + fence[3] + body

    def part(
        self, base: bytes, ours: bytes, theirs: bytes, merge: Callable[[bytes, bytes, bytes], bytes | Conflict]
    ) -> bytes | Conflict:
        """Return the side that changed, or the merge if both did."""
        if ours in (theirs, base):
            return theirs
        return ours if theirs == base else merge(base, ours, theirs)

    def front_matter(self, base: bytes, ours: bytes, theirs: bytes) -> bytes | Conflict:
        """Merge front matter: a list contains the texts that either side added, but none that either side removed."""
        try:
            values = [yaml.load(side, where=self.path) for side in (base, ours, theirs)]
        except ConfigError:
            return self.lines(base, ours, theirs)
        if not all(isinstance(each, dict) for each in values):
            return self.yaml(base, ours, theirs)
        before = dict(values[2])
        for key in sorted(set(values[1]) & set(values[2])):
            lists = [each.get(key, []) for each in values]
            if all(_is_texts(each) for each in lists):
                for each in values:
                    each[key] = _as_sets(*lists)
        return self.edited(theirs, values, before=before)

    def edited(
        self, theirs: bytes, values: list[Any], by_lines: Callable[[], bytes | None] = lambda: None, before: Any = None
    ) -> bytes | Conflict:
        """Edit the merged changes into theirs; `before`: the values of theirs, if they are not the last."""
        from ktx_cli.project.edit import apply, holds  # nobody who only reads a repository merges
        from ktx_cli.project.yaml_splice import diff

        try:
            merged = merge_data(*values, on_conflict="raise")
            text = by_lines()
            if text is not None and holds(text, merged, self.path):
                return text
            return apply(theirs, diff(values[2] if before is None else before, merged), where=self.path)
        except MergeConflictError as conflict:
            return Conflict(self.path, conflict.where, conflict.reason)
        except ConfigError as error:
            return Conflict(self.path, "", f"the two changes cannot be combined into one text ({error.message})")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _as_sets(base: list[str], ours: list[str], theirs: list[str]) -> list[str]:
    gone = {each for each in base if each not in ours or each not in theirs}
    return [each for each in dict.fromkeys((*theirs, *ours)) if each not in gone]


OnConflict = Literal["ours", "theirs", "raise"]
"""Whose value wins if both sides changed a value differently; `raise` raises `MergeConflictError`."""


class MergeConflictError(KtxError):
    """Both sides changed a value differently; `where` is its location (`measures[revenue].expr`)."""

    code = "conflict"

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            f"{where or 'the whole value'}: {reason}",
            hint="keep one of the two changes",
            details={"where": where, "reason": reason},
        )
        self.where = where
        self.reason = reason


class _Missing:
    """The value of an entry that does not exist."""

    def __repr__(self) -> str:
        return "MISSING"


_MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge, with its rule for conflicts."""

    decide: Callable[[str, str, Any, Any], Any]

    def value(self, base: Any, ours: Any, theirs: Any, where: str) -> Any:
        """Return the merged value at one location, or `_MISSING` if it is deleted."""
        if _same(ours, base) or _same(ours, theirs):
            return theirs
        if _same(theirs, base):
            return ours
        if ours is _MISSING or theirs is _MISSING:
            return self.decide(where, "one side deleted it, the other changed it", ours, theirs)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            return self.mapping(base if isinstance(base, dict) else {}, ours, theirs, where)
        if isinstance(ours, list) and isinstance(theirs, list):
            merged = self.named_list(base if isinstance(base, list) else [], ours, theirs, where)
            if merged is not None:
                return merged
        done = "added" if base is _MISSING else "changed"
        return self.decide(where, f"both sides {done} it differently", ours, theirs)

    def mapping(self, base: dict[Any, Any], ours: dict[Any, Any], theirs: dict[Any, Any], where: str) -> Any:
        """Merge entry by entry, in the order of theirs, followed by the entries that only ours has."""
        merged = {}
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            base_value, our_value, their_value = (side.get(key, _MISSING) for side in (base, ours, theirs))
            value = self.value(base_value, our_value, their_value, f"{where}.{key}" if where else str(key))
            if value is not _MISSING:
                merged[key] = value
        return merged

    def named_list(self, base: list[Any], ours: list[Any], theirs: list[Any], where: str) -> list[Any] | None:
        """Merge item by item; None for lists whose items have no identity."""
        from ktx_cli.project.yaml_splice import item_keys

        keys = item_keys(base, ours, theirs)
        if keys is None:
            return None
        in_base, in_ours, in_theirs = (
            dict(zip(of_one, items, strict=True)) for of_one, items in zip(keys, (base, ours, theirs), strict=True)
        )
        merged = []
        for key in _order(*keys):
            base_item, our_item, their_item = (side.get(key, _MISSING) for side in (in_base, in_ours, in_theirs))
            value = self.value(base_item, our_item, their_item, f"{where}[{_shown(key)}]")
            if value is not _MISSING:
                merged.append(value)
        return merged


def merge_data(base: Any, ours: Any, theirs: Any, *, on_conflict: OnConflict) -> Any:
    """Return the merge of three values (dicts, lists, scalars).

    A change by one side since `base`, or the same change by both, is taken. Mappings merge by key. Lists whose items
    all have a `name` (or, as joins, `to` and `on`) merge by item, including their order; other lists are one value. It
    is a conflict if both sides changed a value differently, or one deleted it and the other changed it: `on_conflict`
    then decides. The result shares parts with the arguments. Raises `MergeConflictError` only for `raise`.
    """

    def decide(where: str, reason: str, our_value: Any, their_value: Any) -> Any:
        if on_conflict == "raise":
            raise MergeConflictError(where, reason)
        return our_value if on_conflict == "ours" else their_value

    return _Merge(decide).value(base, ours, theirs, "")


def _same(left: Any, right: Any) -> bool:
    if left is right:
        return True
    if left is _MISSING or right is _MISSING:
        return False
    from ktx_cli.project.yaml_splice import same_data

    return same_data(left, right)


def _order(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    """Return all keys of ours and theirs, in the order of theirs unless only ours moved items.

    Keys that the leading side lacks follow the item that they followed on the other side.
    """
    leading, following = (ours, theirs) if _moved(base, ours) and not _moved(base, theirs) else (theirs, ours)
    known = set(leading)
    behind: dict[Any, list[Any]] = {}
    last: Any = _MISSING
    for key in following:
        if key in known:
            last = key
        else:
            behind.setdefault(last, []).append(key)
    return [*behind.get(_MISSING, []), *(every for key in leading for every in (key, *behind.get(key, [])))]


def _moved(base: list[Any], side: list[Any]) -> bool:
    in_both = set(base) & set(side)
    return [key for key in base if key in in_both] != [key for key in side if key in in_both]


def _shown(key: Any) -> str:
    return f"{key[0]} on {key[1]}" if isinstance(key, tuple) else str(key)
