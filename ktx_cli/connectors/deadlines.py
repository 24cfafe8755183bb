"""Ends the statements of a connection when a moment has come, earlier than its own limit would."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ktx_cli.connectors.port import Connector, Interruptible
from ktx_cli.core.clock import monotonic

_AGAIN: Final = 0.05
"""Seconds until a statement is interrupted again that had not begun when it was interrupted first."""


def is_interruptible(connector: Connector) -> bool:
    """Say whether another thread can end a statement of this connection; one around another says it of that one."""
    return bool(getattr(connector, "interruptible", isinstance(connector, Interruptible)))


class Deadline:
    """The moment at which a statement is ended; `passed`: it has come while the statement ran."""

    def __init__(self) -> None:
        self.passed = False


@contextmanager
def ended_at(connector: Connector, moment: float) -> Iterator[Deadline]:
    """Interrupt what runs inside when the clock (`monotonic`) shows `moment`; it then fails as one that took too long.

    A connection that cannot be interrupted is left alone.
    """
    deadline, done = Deadline(), threading.Event()

    def watch() -> None:
        seconds = max(0.0, moment - monotonic())
        while not done.wait(seconds):
            deadline.passed = True
            connector.interrupt()  # type: ignore[attr-defined]
            seconds = _AGAIN

    if not is_interruptible(connector):
        yield deadline
        return
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield deadline
    finally:
        done.set()
        watcher.join()
