"""Which databases of Metabase are read as which connection, and which cards are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.context.sources.metabase.api import Listed
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import did_you_mean, listing, one_line
from ktx_cli.project.config.sources import MetabaseMappings, MetabaseSource

MODES: Final = ("ALL", "ONLY", "EXCEPT")


@dataclass(frozen=True, slots=True)
class Selection:
    """What `mappings.selections` names; `collections` holds those below too, `root` whether the top is named."""

    mode: str
    collections: frozenset[int]
    root: bool
    cards: frozenset[int]

    def wants(self, card: Listed) -> bool:
        """Say whether a card is wanted for itself."""
        placed = self.root if card.collection is None else card.collection in self.collections
        named = card.id in self.cards or placed
        return self.mode == "ALL" or named == (self.mode == "ONLY")


def mapped_databases(entry: MetabaseSource, databases: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return database id -> connection of those to be read; raises `ConfigError` where there is none."""
    wanted = {
        int(key): connection
        for key, connection in entry.mappings.database_mappings.items()
        if connection and _is_enabled(entry.mappings, key)
    }
    found = {each["id"]: wanted[each["id"]] for each in databases if each["id"] in wanted}
    if found:
        return found
    known = listing([f"{each['id']} ({one_line(str(each.get('name')), 40)})" for each in databases], 10)
    example = databases[0]["id"] if databases else 1
    raise ConfigError(
        f"`connections.{entry.id}.mappings` names no database of this Metabase to read; it has: {known or 'none'}",
        hint=f'set `connections.{entry.id}.mappings.databaseMappings` to {{"{example}": "warehouse"}}',
    )


def _is_enabled(mappings: MetabaseMappings, key: str) -> bool:
    """Say whether a mapped database is read: unless `syncEnabled` says no."""
    said = mappings.sync_enabled
    if isinstance(said, Mapping):
        said = said.get(key, said.get(int(key), True))
    return said is not False


def read_selection(
    entry: MetabaseSource, collections: Sequence[Mapping[str, Any]], on_dashboard: Callable[[int], Iterable[int]]
) -> Selection:
    """Return what is selected; `on_dashboard` gives the cards of one. Raises `ConfigError` for what names nothing."""
    mode = _mode(entry)
    chosen = entry.mappings.selections
    if mode == "ONLY" and not (chosen.collections or chosen.items):
        where = f"connections.{entry.id}.mappings"
        raise ConfigError(
            f"`{where}.syncMode` is ONLY and `{where}.selections` names nothing",
            hint=f"set `{where}.selections.collections` to the ids of the collections to read",
        )
    if mode == "ALL":
        return Selection(mode, frozenset(), False, frozenset())
    named = [_item(entry, each, "collections", ("collection",)) for each in chosen.collections]
    items = [_item(entry, each, "items", ("card", "dashboard")) for each in chosen.items]
    cards = {number for kind, number in items if kind == "card"}
    cards.update(card for kind, number in items if kind == "dashboard" for card in on_dashboard(number))
    ids = {number for _, number in named}
    return Selection(mode, _with_children(ids, collections), 0 in ids, frozenset(cards))


def _mode(entry: MetabaseSource) -> str:
    mode = entry.mappings.sync_mode.upper()
    if mode in MODES:
        return mode
    near = did_you_mean(mode, MODES) or "ALL"
    raise ConfigError(
        f"`connections.{entry.id}.mappings.syncMode` is `{one_line(mode, 40)}`, not one of {', '.join(MODES)}",
        hint=f"set it to {near}",
    )


def _item(entry: MetabaseSource, value: Any, key: str, kinds: tuple[str, ...]) -> tuple[str, int]:
    """Return kind and number of `12`, `"12"`, `"dashboard:12"` or `{type: dashboard, id: 12}`; `root` is 0."""
    kind, number = kinds[0], value
    if isinstance(value, Mapping):
        kind, number = str(value.get("type") or value.get("model") or kinds[0]), value.get("id")
    elif isinstance(value, str) and ":" in value:
        kind, _, number = value.partition(":")
    if key == "collections" and number == "root":
        return kind, 0
    if kind in kinds and not isinstance(number, bool) and str(number).strip().isdecimal():
        return kind, int(str(number))
    shown = one_line(str(value), 60)
    raise ConfigError(
        f"`connections.{entry.id}.mappings.selections.{key}` has `{shown}`, which is no id of Metabase",
        hint="write the number from its address, as 12" + (', or "dashboard:12"' if key == "items" else ', or "root"'),
    )


def _with_children(ids: set[int], collections: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the ids with those of all collections below them."""
    below: dict[Any, list[int]] = {}
    for each in collections:
        below.setdefault(each.get("parent_id"), []).append(each["id"])
    found, stack = set(ids), list(ids)
    while stack:
        children = [child for child in below.get(stack.pop(), []) if child not in found]
        found.update(children)
        stack += children
    return frozenset(found)
