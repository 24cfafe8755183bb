"""The statements that a connector is running, so that another thread can cancel them in the database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class RunningStatement:
    """A statement in progress. `cancel`: asks the database to end it, and returns whether that is certain.

    It is only called while the statement is in progress, so that it never ends the next one of the same session.
    """

    cancel: Callable[[], bool]
    was_cancelled: bool = False
    """Whether the database was asked to end it."""
    is_certain: bool = False


class RunningStatements:
    """The statements in progress of one connector; thread-safe."""

    def __init__(self) -> None:
        self._running: list[RunningStatement] = []
        self._lock = threading.Lock()

    @contextmanager
    def under_way(self, cancel: Callable[[], bool]) -> Iterator[RunningStatement]:
        """Let `cancel_all` end the statement in the block, but nothing after it."""
        statement = RunningStatement(cancel)
        with self._lock:
            self._running.append(statement)
        try:
            yield statement
        finally:
            with self._lock:
                self._running.remove(statement)

    def cancel_all(self, failures: tuple[type[Exception], ...]) -> None:
        """Ask the database to end what is in progress. `failures`: errors that mean that it could not be asked.

        A statement that the database did not know yet is not ended, so this is repeated until it has ended.
        """
        with self._lock:
            for statement in self._running:
                if statement.is_certain:
                    continue
                statement.was_cancelled = True
                try:
                    statement.is_certain = statement.cancel()
                except failures:  # its session is gone, or the caller asks again
                    continue
