"""Undecided columns: those whose parent names and rows leave open, so that a model may be asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ktx_cli.scan.relationships.ranker import with_hints
from ktx_cli.scan.relationships.record import MODEL_REJECTED, MODEL_SOURCE, Status

if TYPE_CHECKING:
    from ktx_cli.project import Relationships
    from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts
    from ktx_cli.scan.relationships.hints import JoinHint
    from ktx_cli.warehouses import TableRef

MOST_OFFERS: Final = 5
"""The number of keys that are offered as the parent of one column."""

LEAST_OFFERED: Final = 0.05
"""Keys with a lower probability are not offered, unless they are the only ones."""

CLOSE_RIVALS: Final = 0.12
"""Two keys are close if their probabilities differ by less."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A key that an undecided column may refer to, with the evidence in words."""

    parent: TableRef
    column: str
    evidence: str


@dataclass(frozen=True, slots=True)
class UndecidedColumn:
    """A column whose parent is open. `offers`: the keys it may refer to, likeliest first."""

    table: TableRef
    column: str
    offers: tuple[Offer, ...]


Ask = Callable[[Sequence[UndecidedColumn]], Sequence["JoinHint"]]
"""Asks a model about undecided columns; there may be none.

A hint of the source `model` names the parent of a column, and one of the source `model_rejected` a key that is not its
parent. A column without a hint stays undecided.
"""

Answers = Mapping[tuple["ColumnFacts", "ColumnFacts"], str]
"""Column and key -> `model` or `model_rejected`."""


def find_undecided(
    open_winners: Mapping[Candidate, Status], candidates: Iterable[Candidate], settings: Relationships
) -> dict[ColumnFacts, list[Candidate]]:
    """Return the undecided columns with the keys to offer, likeliest first.

    `open_winners`: the likeliest key of each column whose rows contradict nothing, and its status. A column is
    undecided if it needs review, if two keys are close, or if it was rejected and a word for it would change that. A
    column that is named like a quantity or a text, and not like a reference, is decided by its name.
    """
    by_child: dict[ColumnFacts, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_child[candidate.child].append(candidate)
    found: dict[ColumnFacts, list[Candidate]] = {}
    for winner, status in open_winners.items():
        group = [each for each in by_child[winner.child] if each is not winner and not each.empty]
        group.sort(key=lambda each: (-each.probability, each.key.table.number, each.key.position))
        if _is_undecided(winner, status, group, settings):
            likely = [each for each in group if each.probability >= LEAST_OFFERED]
            found[winner.child] = [winner, *likely[: MOST_OFFERS - 1]]
    return found


def _is_undecided(winner: Candidate, status: Status, others: Sequence[Candidate], settings: Relationships) -> bool:
    if not winner.child.keyed and (winner.child.has_word("measure") or winner.child.has_word("text")):
        return False
    if status is Status.REVIEW:
        return True
    if status is Status.REJECTED:
        return with_hints(winner.probability, (MODEL_SOURCE,)) >= settings.accept_threshold
    best = max((each.probability for each in others), default=0.0)
    return best >= settings.review_threshold and winner.probability - best < CLOSE_RIVALS


def without_answered(
    undecided: Mapping[ColumnFacts, Sequence[Candidate]], answers: Answers
) -> dict[ColumnFacts, Sequence[Candidate]]:
    """Return the undecided columns without an answer: no key was chosen, and not all keys were rejected."""
    return {
        child: offered
        for child, offered in undecided.items()
        if MODEL_SOURCE not in (given := [answers.get((child, each.key)) for each in offered])
        and given != [MODEL_REJECTED] * len(given)
    }


def questions_of(
    undecided: Mapping[ColumnFacts, Sequence[Candidate]], evidence: Callable[[Candidate], str]
) -> list[UndecidedColumn]:
    """Return the undecided columns in the form in which a model is asked."""
    return [
        UndecidedColumn(
            child.table.table.ref,
            child.name,
            tuple(Offer(each.key.table.table.ref, each.key.name, evidence(each)) for each in offered),
        )
        for child, offered in undecided.items()
    ]


def answers_of(hints: Iterable[JoinHint], undecided: Mapping[ColumnFacts, Collection[Candidate]]) -> Answers:
    """Return the answers by column and key. Hints about anything else are ignored."""
    pairs = {
        (child.table.table.ref, child.name, each.key.table.table.ref, each.key.name): (child, each.key)
        for child, offered in undecided.items()
        for each in offered
    }
    return {
        pairs[ends]: hint.source
        for hint in hints
        if (ends := (hint.child, *hint.child_columns, hint.parent, *hint.parent_columns)) in pairs
    }
