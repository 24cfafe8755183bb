"""Joins people make that the semantic layer does not have: hints for people, models, the search for relationships."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.scan.names import quoted
from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.query_history import buckets


@dataclass(frozen=True, slots=True, order=True)
class JoinHint:
    """Two sources that queries join by equal columns. `frequency`: `high`, `mid` or `low` among those of either."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    frequency: str

    def __str__(self) -> str:
        terms = (f"{quoted(self.left)}.{quoted(a)} = {quoted(self.right)}.{quoted(b)}" for a, b in self.pairs)
        return f"{' AND '.join(terms)} ({self.frequency} frequency)"

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in a report."""
        return {
            "left": self.left,
            "right": self.right,
            "on": [list(pair) for pair in self.pairs],
            "frequency": self.frequency,
        }


def missing_joins(tables: Iterable[Mapping[str, Any]], model: Model) -> tuple[JoinHint, ...]:
    """Return the observed joins that no source of the model has in either direction, each once, sorted.

    `tables`: documents of raw files. Of the two tables' frequencies the higher one counts.
    """
    best: dict[tuple[str, str, tuple[tuple[str, str], ...]], str] = {}
    for table in tables:
        for join in table.get("joins", ()):
            found = _oriented(table.get("source"), join)
            if found is None or _is_known(model, *found):
                continue
            tiers = (join["frequency"], best.get(found, buckets.LOW))
            best[found] = min(tiers, key=buckets.TIERS.index)
    return tuple(sorted(JoinHint(*found, frequency) for found, frequency in best.items()))


def _oriented(source: str | None, join: Mapping[str, Any]) -> tuple[str, str, tuple[tuple[str, str], ...]] | None:
    """Return a join with its sources in the order of their names; None where one is not in the semantic layer."""
    other = join["source"]
    if not source or not other:
        return None
    pairs = tuple(sorted((str(own), str(theirs)) for own, theirs in join["on"]))
    if (source, pairs) <= (other, _swapped(pairs)):
        return source, other, pairs
    return other, source, _swapped(pairs)


def _is_known(model: Model, left: str, right: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    """Say whether the model has a join whose columns are all among these."""
    return _declares(model, left, right, pairs) or _declares(model, right, left, _swapped(pairs))


def _declares(model: Model, source: str, to: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    declared = model.sources.get(source)
    if declared is None:
        return False
    return any(join.to == to and join.pairs and set(join.pairs) <= set(pairs) for join in declared.joins)


def _swapped(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((theirs, own) for own, theirs in pairs))
