"""Three-way merge of plain values: mappings by key, lists of named mappings and of joins by item."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.core.errors import KtxError
from ktx_cli.project.edit_data import item_keys, same_data

OnConflict = Literal["ours", "theirs", "raise"]
"""Whose value wins where both sides changed one differently; `raise` raises `MergeConflictError`."""


class MergeConflictError(KtxError):
    """Both sides changed one value differently; `where` names it (`measures[revenue].expr`)."""

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
    """The value of an entry that is not there."""

    def __repr__(self) -> str:
        return "MISSING"


_MISSING: Final = _Missing()


@dataclass(frozen=True, slots=True)
class _Merge:
    """One merge: decides a conflict at a place."""

    decide: Callable[[str, str, Any, Any], Any]

    def value(self, base: Any, ours: Any, theirs: Any, where: str) -> Any:
        """Return the merged value of one place, `_MISSING` when it is deleted."""
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
        """Merge entry by entry, in the order of theirs; what only ours has comes last."""
        merged = {}
        for key in [*theirs, *(key for key in ours if key not in theirs)]:
            base_value, our_value, their_value = (side.get(key, _MISSING) for side in (base, ours, theirs))
            value = self.value(base_value, our_value, their_value, f"{where}.{key}" if where else str(key))
            if value is not _MISSING:
                merged[key] = value
        return merged

    def named_list(self, base: list[Any], ours: list[Any], theirs: list[Any], where: str) -> list[Any] | None:
        """Merge item by item; None for lists whose items have no identity."""
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
    """Return what three values (dicts, lists, scalars) make together.

    What one side changed from `base` is taken, what both changed alike too. Mappings merge by key; lists whose
    items all have a `name` (or, as joins, `to` and `on`) merge by item, also in order; other lists are one value.
    A value changed differently, or deleted here and changed there, is a conflict: `on_conflict` says whose value
    stands. The result shares parts with the arguments. Raises `MergeConflictError` only for `raise`.
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
    return same_data(left, right)


def _order(base: list[Any], ours: list[Any], theirs: list[Any]) -> list[Any]:
    """Return all keys of ours and theirs: in the order of theirs, unless only ours moved items.

    What the leading side does not have stands behind the item it followed.
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
