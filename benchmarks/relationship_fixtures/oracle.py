"""A scripted model that knows the truth of a fixture and is right in a given share of its answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.relationship_fixtures.truth import Reference, Truth
from ktx_cli.scan.relationships.hints import JoinHint
from ktx_cli.scan.relationships.record import MODEL_REJECTED, MODEL_SOURCE
from ktx_cli.scan.relationships.undecided import Offer, UndecidedColumn


@dataclass(slots=True)
class Oracle:
    """Answers about undecided columns. `accuracy`: the share of right answers, decided by a hash of each column.

    A wrong answer names a wrong parent or, with one offer or for every other column, no parent at all. `asked`: the
    columns asked about.
    """

    truth: Truth
    accuracy: float
    asked: list[UndecidedColumn] = field(default_factory=list)

    def __call__(self, undecided: Sequence[UndecidedColumn]) -> list[JoinHint]:
        """Return a hint for the chosen parent of each column, or one against each key that was offered."""
        self.asked += undecided
        return [hint for column in undecided for hint in _hints(column, self._answer(column))]

    def _answer(self, column: UndecidedColumn) -> Offer | None:
        links = frozenset(self.truth.links) | self.truth.optional
        right = next((offer for offer in column.offers if _reference(column, offer) in links), None)
        draw = int.from_bytes(hashlib.sha256(f"{column.table}.{column.column}".encode()).digest()[:8], "big")
        if draw % 1_000_000 < self.accuracy * 1_000_000:
            return right
        wrong: list[Offer | None] = [offer for offer in column.offers if offer != right]
        if right is not None and (not wrong or draw // 1_000_000 % 2):
            return None
        return wrong[draw // 2_000_000 % len(wrong)]


def _reference(column: UndecidedColumn, offer: Offer) -> Reference:
    return Reference(column.table.name, (column.column,), offer.parent.name, (offer.column,))


def _hints(column: UndecidedColumn, answer: Offer | None) -> list[JoinHint]:
    offers = column.offers if answer is None else (answer,)
    source = MODEL_REJECTED if answer is None else MODEL_SOURCE
    return [JoinHint(column.table, (column.column,), offer.parent, (offer.column,), source) for offer in offers]
