"""Definitions that lead back to themselves."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)


def cycles(uses: Mapping[_Key, Sequence[_Key]]) -> list[list[_Key]]:
    """Return a cycle for each way back that a depth-first search finds, each from its first key in `uses`.

    A graph without cycles gives none; one with cycles gives at least one through each of its strong components.
    """
    order = {key: position for position, key in enumerate(uses)}
    found: dict[frozenset[_Key], list[_Key]] = {}
    done: set[_Key] = set()
    for start in uses:
        path: list[_Key] = []
        stack: list[tuple[_Key, Iterator[_Key]]] = []
        _enter(start, uses, done, path, stack)
        while stack:
            following = next(stack[-1][1], None)
            if following is None:
                done.add(stack.pop()[0])
                path.pop()
            elif following in path:
                cycle = path[path.index(following) :]
                first = min(range(len(cycle)), key=lambda at: order.get(cycle[at], 0))
                found.setdefault(frozenset(cycle), cycle[first:] + cycle[:first])
            else:
                _enter(following, uses, done, path, stack)
    return list(found.values())


def _enter(
    key: _Key,
    uses: Mapping[_Key, Sequence[_Key]],
    done: set[_Key],
    path: list[_Key],
    stack: list[tuple[_Key, Iterator[_Key]]],
) -> None:
    if key not in done:
        path.append(key)
        stack.append((key, iter(uses.get(key, ()))))
