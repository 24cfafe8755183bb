"""Joins of an import: how their conditions are written, and what expressions can name over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ktx_cli.context.semantic.interchange.drafts import SourceDraft
from ktx_cli.context.semantic.interchange.sql import NAME

_WORDS: Final = frozenset({"and", "true", "false", "null"})


def on_text(pairs: Iterable[tuple[str, str]], hop: str) -> str:
    """Return the `on` of a join: (own column, the other's) all equal; names in double quotes where they need it."""
    return " AND ".join(f"{_named(own)} = {_named(hop)}.{_named(other)}" for own, other in pairs)


def _named(name: str) -> str:
    plain = NAME.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def reach(drafts: Iterable[SourceDraft]) -> None:
    """Let expressions of each source name all it reaches over joins to one row."""
    by_name = {draft.name: draft for draft in drafts}
    edges: dict[str, list[tuple[str, SourceDraft]]] = {name: [] for name in by_name}
    for draft in by_name.values():
        for join in draft.joins:
            target = by_name.get(join["to"])
            if target is not None and join["relationship"] != "one_to_many":
                edges[draft.name].append((join.get("alias") or target.name, target))
            if target is not None and join["relationship"] != "many_to_one" and "alias" not in join:
                edges[target.name].append((draft.name, draft))
    for draft in by_name.values():
        ways = list(edges[draft.name])
        while ways:
            hop, target = ways.pop()
            if hop != draft.name and hop not in draft.hops:
                draft.hops[hop] = target
                ways += edges[target.name]
