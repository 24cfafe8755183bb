"""Runs work side by side, each piece within its time: whatever hangs or breaks is a finding and stops nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.readiness.model import Finding, Level, concern_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of work: what its findings are called where it makes none itself, and the seconds it may take.

    `again`: the command that tries it once more.
    """

    name: str
    run: Callable[[], list[Finding]]
    seconds: float
    again: str | None = None


def side_by_side(pieces: Iterable[Work]) -> list[list[Finding]]:
    """Run all pieces at the same time and return the findings of each, in their order."""
    workers = [_Worker(piece) for piece in pieces]
    started = monotonic()
    for worker in workers:
        worker.start()
    return [worker.outcome(started) for worker in workers]


def failed(name: str, error: KtxError) -> Finding:
    """Return the finding for an error that a check ended with."""
    return Finding(name, Level.FAIL, error.message, error.hint, concern_of(error))


class _Worker(threading.Thread):
    """Runs one piece; a daemon, so that one that hangs cannot keep the process alive."""

    def __init__(self, work: Work) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._findings: list[Finding] = []

    def run(self) -> None:
        try:
            self._findings = self._work.run()
        except KtxError as error:
            self._findings = [failed(self._work.name, error)]
        except Exception as error:
            log.debug("the check %s failed", self._work.name, exc_info=error)
            again = self._work.again and f"{self._work.again} --debug"
            message = f"the check itself failed: {type(error).__name__}: {error}"
            self._findings = [Finding(self._work.name, Level.FAIL, message, again)]

    def outcome(self, started: float) -> list[Finding]:
        """Wait for what is left of the piece's time and return what it found."""
        self.join(max(0.0, started + self._work.seconds - monotonic()))
        if not self.is_alive():
            return self._findings
        message = f"no answer within {self._work.seconds:g} s"
        return [Finding(self._work.name, Level.FAIL, message, self._work.again)]
