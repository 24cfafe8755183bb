"""Keeps what people and other tools wrote into the manifest when it is generated anew.

Three states of a value decide: what the last scan generated (`old`), what stands in the file (`current`), what this
scan generates (`new`). Whoever changed the value since the last scan wins; if both did, the person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ktx_cli.context.scan.describe.facts import GENERATED_KEYS
from ktx_cli.context.scan.manifest import Entry
from ktx_cli.context.scan.names import quoted


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()
KEPT_JOIN_SOURCES = frozenset({"manual", "inferred"})


def keep_entry(old: Entry | None, current: Entry, new: Entry, *, joinable: Callable[[str], bool]) -> Entry:
    """Return the entry to write for a source.

    `old` None: not known (the file was written by another program); then what a scan generates is taken from `new`
    and all else from `current`; a text under a key of scans stays until `new` has one. `joinable` says whether a join
    to a source name may stay.
    """
    if old is None:
        old = _generated_part(current, new)
    merged = _keep_mapping(
        {key: value for key, value in old.items() if key not in ("columns", "joins")},
        {key: value for key, value in current.items() if key not in ("columns", "joins")},
        {key: value for key, value in new.items() if key not in ("columns", "joins")},
    )
    columns = _keep_columns(_by_name(old), _by_name(current), _by_name(new))
    joins = _keep_joins(_by_join(old), _by_join(current), _by_join(new), joinable)
    return _in_order({**merged, "columns": columns, **({"joins": joins} if joins else {})})


def has_text(old: Entry | None, current: Entry) -> bool:
    """Say whether an entry holds descriptions that no scan generated; `old` as in `keep_entry`."""
    generated = _generated_part(current) if old is None else old
    return _descriptions(current) != _descriptions(generated)


def _descriptions(entry: Entry) -> list[Any]:
    columns = [(name, column.get("descriptions")) for name, column in _by_name(entry).items()]
    return [entry.get("description"), entry.get("descriptions"), [c for c in columns if c[1]]]


def with_renamed_joins(entry: Entry, renamed: Mapping[str, str]) -> Entry:
    """Return the entry with its joins to a source that people gave another name leading to that name."""
    joins = entry.get("joins")
    if not isinstance(joins, list) or not any(isinstance(j, dict) and j.get("to") in renamed for j in joins):
        return entry
    return {**entry, "joins": [_redirected(join, renamed) for join in joins]}


def _redirected(join: Any, renamed: Mapping[str, str]) -> Any:
    if not isinstance(join, dict) or join.get("to") not in renamed or "alias" in join:
        return join
    name = renamed[join["to"]]
    on = str(join.get("on")).replace(f"{quoted(join['to'])}.", f"{quoted(name)}.")
    return {**join, "to": name, "on": on}


def _keep(old: Any, current: Any, new: Any) -> Any:
    if isinstance(current, dict) and isinstance(new, dict):
        return _keep_mapping(old if isinstance(old, dict) else {}, current, new)
    if isinstance(current, dict) and isinstance(old, dict) and new is MISSING:
        return _keep_mapping(old, current, {}) or MISSING
    return new if current == old else current


def _keep_mapping(old: dict[str, Any], current: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    keys = list(new) + [key for key in current if key not in new]
    kept = {key: _keep(old.get(key, MISSING), current.get(key, MISSING), new.get(key, MISSING)) for key in keys}
    return {key: value for key, value in kept.items() if value is not MISSING}


def _keep_columns(old: dict[str, Any], current: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the database's columns in its order, then those only a person wrote."""
    kept = [_keep_mapping(old.get(name, {}), current.get(name, column), column) for name, column in new.items()]
    return kept + [column for name, column in current.items() if name not in new and name not in old]


def _keep_joins(
    old: dict[tuple[str, str], Any],
    current: dict[tuple[str, str], Any],
    new: dict[tuple[str, str], Any],
    joinable: Callable[[str], bool],
) -> list[dict[str, Any]]:
    kept = []
    for key, join in new.items():
        if key in old and key not in current:
            continue  # a person took it out
        kept.append(_keep_mapping(old.get(key, {}), current.get(key, join), join))
    for key, join in current.items():
        persons = key not in old or join != old[key]
        if key not in new and persons and joinable(key[0]):
            kept.append(join)
    return kept


def _generated_part(entry: Entry, new: Entry | None = None) -> Entry:
    """Return what a scan may have generated of an entry nobody recorded; of its texts those that `new` replaces."""
    part: Entry = {"table": entry.get("table"), **_generated_texts(entry, new)}
    columns = None if new is None else _by_name(new)
    part["columns"] = [
        _generated_column(column, None if columns is None else columns.get(name, {}))
        for name, column in _by_name(entry).items()
    ]
    part["joins"] = [join for join in _by_join(entry).values() if join.get("source") not in KEPT_JOIN_SOURCES]
    return part


def _generated_column(column: dict[str, Any], new: dict[str, Any] | None) -> dict[str, Any]:
    part: dict[str, Any] = {key: column[key] for key in ("name", "type", "pk", "nullable") if key in column}
    return {**part, **_generated_texts(column, new)}


def _generated_texts(fields: dict[str, Any], new: dict[str, Any] | None) -> dict[str, Any]:
    """Return the `descriptions` under keys of scans; `new`: of the others than the database's own those it has."""
    replaced = GENERATED_KEYS if new is None else {"db", *_mapping(new.get("descriptions"))}
    texts = {
        key: text
        for key, text in _mapping(fields.get("descriptions")).items()
        if key in GENERATED_KEYS and key in replaced
    }
    return {"descriptions": texts} if texts else {}


def _by_name(entry: Entry) -> dict[str, Any]:
    columns = entry.get("columns")
    return {
        str(column["name"]): column
        for column in (columns if isinstance(columns, list) else [])
        if isinstance(column, dict) and "name" in column
    }


def _by_join(entry: Entry) -> dict[tuple[str, str], Any]:
    joins = entry.get("joins")
    return {
        (str(join.get("to")), " ".join(str(join.get("on")).split())): join
        for join in (joins if isinstance(joins, list) else [])
        if isinstance(join, dict)
    }


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _in_order(entry: Entry) -> Entry:
    """Return the entry with its well-known keys first, `columns` and `joins` last."""
    first = [key for key in ("table", "descriptions") if key in entry]
    last = [key for key in ("columns", "joins") if key in entry]
    middle = [key for key in entry if key not in first and key not in last]
    return {key: entry[key] for key in (*first, *middle, *last)}
