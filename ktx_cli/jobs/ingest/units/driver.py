"""Runs the units of all sources side by side, as many as the configuration allows, until one error ends them all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ktx_cli.context.sources.model import WorkUnit
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.jobs.ingest.units.outcome import UnitOutcome, UnitStatus
from ktx_cli.llm.runtime import Abort

ENDING: Final = frozenset({"auth", "billing", "isolation", "no_backend", "rate_limit", "budget"})
"""Codes of errors after which no unit can work: nothing new is begun, what is finished lands."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A unit of a source, and its place in the order in which units are merged."""

    work: SourceWork
    unit: WorkUnit

    def outcome(self, status: UnitStatus, reason: str = "") -> UnitOutcome:
        """Return the outcome of a unit that changes nothing."""
        return UnitOutcome(self.work.connection, self.work.kind, self.unit, status, reason)


class Stop:
    """Why no new unit is begun: an error that ends the run's model work, or the user."""

    def __init__(self) -> None:
        self.error: KtxError | None = None
        self.asked = False
        self.abort = Abort()

    @property
    def is_set(self) -> bool:
        """Whether nothing new is begun."""
        return self.asked or self.error is not None

    def note(self, error: KtxError, *, always: bool = False) -> bool:
        """Take note of a unit's error and say whether it ends everything; `always`: whatever it is."""
        if self.error is None and (always or error.code in ENDING):
            self.error = error
        return error.code in ENDING

    def now(self, error: KtxError | None = None) -> None:
        """End what is under way too; called in the loop of the model calls."""
        self.error = self.error or error
        self.abort.throw()


async def run_units(
    pieces: Sequence[Piece],
    one: Callable[[Piece], Awaitable[UnitOutcome]],
    *,
    at_once: int,
    stop: Stop,
) -> list[UnitOutcome]:
    """Return the outcomes in the order of the pieces; a piece that was not begun is `left`."""
    slots = asyncio.Semaphore(at_once)

    async def run(piece: Piece) -> UnitOutcome:
        async with slots:
            return piece.outcome(UnitStatus.LEFT, "the run ended before it") if stop.is_set else await one(piece)

    return list(await asyncio.gather(*(run(piece) for piece in pieces)))
