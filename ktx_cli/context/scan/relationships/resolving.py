"""The one step that looks at all edges together: one parent a column, the nearest of several, no circles of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktx_cli.context.scan.relationships.facts import ColumnFacts
from ktx_cli.context.scan.relationships.features import context
from ktx_cli.context.scan.relationships.keys import own_name
from ktx_cli.context.scan.relationships.pairs import Pair

CLOSE = 0.12
"""Parents whose scores differ by less are told apart by which of them is nearest."""


@dataclass(slots=True)
class Resolved:
    """The one pair of each child, and why each other pair lost against it."""

    winners: list[Pair]
    lost: dict[int, str] = field(default_factory=dict)


def resolve(pairs: Sequence[Pair], threshold: float) -> Resolved:
    """Choose one parent for each column. `threshold`: the score from which an edge counts when circles are looked for."""
    by_child: dict[ColumnFacts, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_child[pair.child].append(pair)
    best = {child: max(group, key=_rank) for child, group in by_child.items()}
    resolved = Resolved([])
    for child, group in by_child.items():
        winner = _nearest(best[child], group, best)
        resolved.winners.append(winner)
        for pair in group:
            if pair is not winner:
                resolved.lost[id(pair)] = f"{child.name} fits {winner.key} better"
    _break_circles(resolved, by_child, threshold)
    return resolved


def _rank(pair: Pair) -> tuple[float, float, float, int, int]:
    share = 0.0 if pair.overlap is None else pair.overlap.hits / max(1, pair.key.distinct)
    return (round(pair.score, 3), pair.named.best, share, -pair.key.table.number, -pair.key.position)


def _nearest(winner: Pair, group: Sequence[Pair], best: Mapping[ColumnFacts, Pair]) -> Pair:
    """Return the parent nearest to the child among close ones: one that itself refers to the winner's key."""
    current = winner
    for _ in range(len(group)):
        nearer = [
            pair
            for pair in group
            if pair is not current
            and pair.score >= winner.score - CLOSE
            and _refers(pair.key, current.key, best)
            and not _refers(current.key, pair.key, best)
            and _violations(pair) <= _violations(current) + 0.001
            and _closeness(pair) >= _closeness(current)
        ]
        if not nearer:
            return current
        current = max(nearer, key=lambda pair: (_closeness(pair), _rank(pair)))
    return current


def _closeness(pair: Pair) -> float:
    """Return how near a parent is to a child by their names and by how much of it the child covers.

    A child of a subtype speaks of it, or fills it; else the reference is meant for the table whose own key it is.
    """
    filled = pair.overlap is not None and pair.overlap.hits >= 0.995 * max(pair.key.table.rows, 1)
    return pair.named.best + 0.5 * context(pair.child, pair.key) + 0.5 * own_name(pair.key) + 0.4 * filled


def _refers(key: ColumnFacts, other: ColumnFacts, best: Mapping[ColumnFacts, Pair]) -> bool:
    pair = best.get(key)
    return pair is not None and pair.key is other and pair.score >= 0.5


def _violations(pair: Pair) -> float:
    return 1.0 if pair.overlap is None else pair.overlap.violations


def _break_circles(resolved: Resolved, by_child: Mapping[ColumnFacts, Sequence[Pair]], threshold: float) -> None:
    """Drop the weakest edge of every circle of keys that refer to one another: keys cannot all descend from another."""
    at = {pair.child: pair for pair in resolved.winners if pair.score >= threshold and pair.child is not pair.key}
    for start in list(at):
        path: list[Pair] = []
        column = start
        while column in at and all(pair.child is not column for pair in path):
            path.append(at[column])
            column = at[column].key
        circle = [pair for number, pair in enumerate(path) if any(p.child is column for p in path[: number + 1])]
        if column not in at or not circle:
            continue
        weakest = min(circle, key=_rank)
        del at[weakest.child]
        resolved.winners.remove(weakest)
        resolved.lost[id(weakest)] = f"{weakest.key} refers to {weakest.child} already"
        _second_choice(resolved, by_child[weakest.child], weakest, at, threshold)


def _second_choice(
    resolved: Resolved, group: Sequence[Pair], weakest: Pair, at: dict[ColumnFacts, Pair], threshold: float
) -> None:
    rest = [pair for pair in group if pair is not weakest and at.get(pair.key, pair).key is not pair.child]
    if not rest:
        return
    pair = max(rest, key=_rank)
    resolved.winners.append(pair)
    resolved.lost.pop(id(pair), None)
    if pair.score >= threshold:
        at[pair.child] = pair
