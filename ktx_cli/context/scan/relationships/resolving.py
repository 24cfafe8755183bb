"""The one step that looks at all edges together: one parent a column, the nearest of several, no circles of keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.names import quoted
from ktx_cli.context.scan.relationships.facts import ColumnFacts
from ktx_cli.context.scan.relationships.features import context
from ktx_cli.context.scan.relationships.keys import own_name
from ktx_cli.context.scan.relationships.pairs import Pair
from ktx_cli.context.scan.relationships.wording import named

CLOSE = 0.12
"""Parents whose scores differ by less are told apart by which of them is nearest."""

SEEN = 0.4
"""From this score on a key with rows comes before one without."""


@dataclass(slots=True)
class Resolved:
    """The one pair of each child, and why each other pair lost against it."""

    winners: list[Pair]
    lost: dict[int, str] = field(default_factory=dict)


def resolve(pairs: Sequence[Pair], threshold: float) -> Resolved:
    """Choose one parent for each column. `threshold`: the score from which an edge can be part of a circle."""
    by_child: dict[ColumnFacts, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_child[pair.child].append(pair)
    best = {child: _at_home(max(group, key=_rank), group) for child, group in by_child.items()}
    resolved = Resolved([])
    for child, group in by_child.items():
        winner = _nearest(best[child], group, best)
        resolved.winners.append(winner)
        for pair in group:
            if pair is not winner:
                resolved.lost[id(pair)] = f"{quoted(child.name)} fits {named(winner.key)} better"
    _break_circles(resolved, by_child, threshold)
    return resolved


def _rank(pair: Pair) -> tuple[bool, float, float, float, int, int]:
    """Return what pairs of a column are compared by: a key whose rows hold the values comes before one without rows."""
    share = 0.0 if pair.overlap is None else pair.overlap.hits / max(1, pair.key.distinct)
    seen = not pair.only_orphans and pair.score >= SEEN
    return (seen, round(pair.score, 3), pair.named.best, share, -pair.key.table.number, -pair.key.position)


def _at_home(winner: Pair, group: Sequence[Pair]) -> Pair:
    """Return the winner's namesake in the child's own schema, where there is one that holds the values as well."""
    schema = winner.child.table.table.ref.schema
    namesakes = [
        pair
        for pair in group
        if pair.key.table.table.ref == TableRef(schema, winner.key.table.table.ref.name)
        and pair.key.name == winner.key.name
        and _violations(pair) <= _violations(winner) + 0.001
    ]
    return namesakes[0] if namesakes else winner


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
    for start in sorted(at, key=_place):
        while circle := _circle_from(start, at):
            weakest = min(circle, key=_rank)
            del at[weakest.child]
            resolved.winners.remove(weakest)
            resolved.lost[id(weakest)] = f"{named(weakest.key)} leads back to {named(weakest.child)}"
            _second_choice(resolved, by_child[weakest.child], at, threshold)


def _place(column: ColumnFacts) -> tuple[int, int]:
    return (column.table.number, column.position)


def _circle_from(start: ColumnFacts, at: Mapping[ColumnFacts, Pair]) -> list[Pair]:
    """Return the circle that following the edges from a column ends in; nothing where they end."""
    path: list[Pair] = []
    column = start
    while column in at:
        seen = next((number for number, pair in enumerate(path) if pair.child is column), None)
        if seen is not None:
            return path[seen:]
        path.append(at[column])
        column = at[column].key
    return []


def _second_choice(resolved: Resolved, group: Sequence[Pair], at: dict[ColumnFacts, Pair], threshold: float) -> None:
    """Give a column whose edge was dropped its next best one that leads into no circle."""
    rest = [pair for pair in group if not _leads_back(pair, at)]
    if not rest:
        return
    pair = max(rest, key=_rank)
    resolved.winners.append(pair)
    resolved.lost.pop(id(pair), None)
    if pair.score >= threshold:
        at[pair.child] = pair


def _leads_back(pair: Pair, at: Mapping[ColumnFacts, Pair]) -> bool:
    column = pair.key
    for _ in range(len(at) + 1):
        if column is pair.child:
            return True
        if column not in at:
            return False
        column = at[column].key
    return False
