"""The plain-data side of edits: what an edit does to a value, and which edits lead from one value to another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Path = tuple[str | int, ...]
"""Where a value stands: mapping keys and list indexes from the root."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a YAML document.

    `set` puts `value` at `path` and creates missing parent mappings. `delete` removes the entry or item at
    `path`. `append` puts `value` at the end of the list at `path`. `insert` puts the list `value` before the item
    whose index ends `path` (the list's length: at its end).
    """

    op: Literal["set", "delete", "append", "insert"]
    path: Path
    value: Any = None


class CannotEdit(Exception):
    """Why an edit cannot be placed; `edit.apply` turns it into a `ConfigError`."""


def shown(path: Path) -> str:
    """Return a path as a person writes it: `connections.warehouse.schemas[0]`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or "the whole document"


def same_data(left: Any, right: Any) -> bool:
    """Say whether two values are equal in their types too; the order of a mapping's keys does not count."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        types = {key: type(key) for key in right}
        return all(
            key in right and types[key] is type(key) and same_data(item, right[key]) for key, item in left.items()
        )
    if isinstance(left, list | tuple):
        if not isinstance(right, list | tuple) or len(left) != len(right):
            return False
        return all(same_data(one, other) for one, other in zip(left, right, strict=True))
    return _scalar_type(left) is _scalar_type(right) and bool(left == right or (left != left and right != right))


def _scalar_type(value: Any) -> type:
    return str if isinstance(value, str) else type(value)


def change(data: Any, edit: Edit) -> Any:
    """Return `data` with the edit made; containers on the path are copied, the rest is shared.

    Raises `CannotEdit` where the path leads through something that is not a collection, or past a list's end.
    """
    if edit.op == "append":
        return change(data, placed(data, edit))
    return _change(data, edit.path, edit)


def placed(data: Any, edit: Edit) -> Edit:
    """Return an `append` as the `insert` or `set` it means for `data`; other edits as they are."""
    if edit.op != "append":
        return edit
    _, target = lookup(data, edit.path)
    if target is None:
        return Edit("set", edit.path, [edit.value])
    if not isinstance(target, list):
        raise CannotEdit(f"{shown(edit.path)} is not a list")
    return Edit("insert", (*edit.path, len(target)), [edit.value])


def lookup(data: Any, path: Sequence[str | int]) -> tuple[bool, Any]:
    """Return (whether the document has this place, the value there)."""
    for step in path:
        if not _has_place(data, step):
            return False, None
        data = data[step]
    return True, data


def _has_place(data: Any, step: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(step, int) and 0 <= step < len(data)
    return isinstance(data, dict) and _has_key(data, step)


def _has_key(mapping: dict[Any, Any], key: Any) -> bool:
    """Say whether the mapping has this key with this type: `1` is not `true`."""
    if key not in mapping:
        return False
    return isinstance(key, str) or any(own == key and type(own) is type(key) for own in mapping)


def _change(data: Any, path: Path, edit: Edit) -> Any:
    if not path:
        if edit.op != "set":
            raise CannotEdit("the whole document can be set, not deleted")
        return edit.value
    step, rest = path[0], path[1:]
    if isinstance(data, list) and isinstance(step, int):
        return _change_list(data, step, rest, edit)
    if data is None and edit.op == "set":
        data = {}
    if not isinstance(data, dict):
        raise CannotEdit(f"the path goes through a {_kind(data)}, which has no {step!r}")
    if isinstance(step, int) and step not in data:
        raise CannotEdit(f"there is no list with an item {step}")
    if edit.op == "delete" and step not in data:
        return data
    if edit.op == "delete" and not rest:
        return {key: item for key, item in data.items() if key != step}
    return {**data, step: _change(data.get(step), rest, edit)}


def _change_list(data: list[Any], index: int, rest: Path, edit: Edit) -> list[Any]:
    inserting = edit.op == "insert" and not rest
    if not 0 <= index < len(data) + inserting:
        raise CannotEdit(f"the list has {len(data)} items, none with the index {index}")
    if inserting:
        return [*data[:index], *edit.value, *data[index:]]
    if edit.op == "delete" and not rest:
        return [*data[:index], *data[index + 1 :]]
    return [*data[:index], _change(data[index], rest, edit), *data[index + 1 :]]


def _kind(value: Any) -> str:
    return {dict: "mapping", list: "list", str: "text", type(None): "null"}.get(type(value), type(value).__name__)


def item_keys(*lists: Any) -> list[list[Any]] | None:
    """Return the identities of the items of each list, or None when the lists have to be taken as a whole.

    Mappings are known by their `name`, joins by (`to`, `on`), in all lists by the same rule and each only once.
    """
    if not all(isinstance(items, list) for items in lists) or not any(lists):
        return None
    if not all(isinstance(item, dict) for items in lists for item in items):
        return None
    for fields in (("name",), ("to", "on")):
        keys = [[tuple(item.get(field) for field in fields) for item in items] for items in lists]
        if all(_identify(of_one) for of_one in keys):
            return [[key[0] if len(key) == 1 else key for key in of_one] for of_one in keys]
    return None


def _identify(keys: list[tuple[Any, ...]]) -> bool:
    if not all(isinstance(part, str) for key in keys for part in key):
        return False
    return len(set(keys)) == len(keys)


def diff(old: Any, new: Any, path: Path = ()) -> list[Edit]:
    """Return the edits that make `new` of `old`, as small as the list rules of `item_keys` allow.

    Made one after the other they are right; their indexes are those of `old` too, so that edits of different
    entries can be placed together.
    """
    if same_data(old, new):
        return []
    if isinstance(old, dict) and isinstance(new, dict) and old and new:
        return _diff_mappings(old, new, path)
    if isinstance(old, list) and isinstance(new, list) and old and new:
        return _diff_lists(old, new, path)
    return [Edit("set", path, new)]


def _diff_mappings(old: dict[Any, Any], new: dict[Any, Any], path: Path) -> list[Edit]:
    if not all(isinstance(key, str) for mapping in (old, new) for key in mapping) or not old.keys() & new.keys():
        return [Edit("set", path, new)]
    edits = [Edit("delete", (*path, key)) for key in old if key not in new]
    for key, item in new.items():
        edits += diff(old[key], item, (*path, key)) if key in old else [Edit("set", (*path, key), item)]
    return edits


def _diff_lists(old: list[Any], new: list[Any], path: Path) -> list[Edit]:
    keys = item_keys(old, new)
    if keys is None:
        if len(new) > len(old) and same_data(new[: len(old)], old):
            return [Edit("insert", (*path, len(old)), new[len(old) :])]
        return [Edit("set", path, new)]
    was, now = keys
    index_was, index_now = ({key: index for index, key in enumerate(keys)} for keys in (was, now))
    kept = [key for key in was if key in index_now]
    if not kept or kept != [key for key in now if key in index_was]:
        return [Edit("set", path, new)]
    behind = _new_items_behind(was, now)
    edits: list[Edit] = []
    # From the end to the beginning: an edit then never moves the index of one that follows.
    for index in range(len(old), -1, -1):
        if index in behind:
            edits.append(Edit("insert", (*path, index), [new[index_now[key]] for key in behind[index]]))
        if index and was[index - 1] in index_now:
            edits += diff(old[index - 1], new[index_now[was[index - 1]]], (*path, index - 1))
        elif index:
            edits.append(Edit("delete", (*path, index - 1)))
    return edits


def _new_items_behind(was: list[Any], now: list[Any]) -> dict[int, list[Any]]:
    """Return the new keys by the old index before which they come: behind the last old item they follow."""
    index_was = {key: index for index, key in enumerate(was)}
    found: dict[int, list[Any]] = {}
    position = 0
    for key in now:
        if key in index_was:
            position = index_was[key] + 1
        else:
            found.setdefault(position, []).append(key)
    return found
