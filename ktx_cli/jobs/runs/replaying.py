"""Shows a run again: its events as they are kept, one after the other, with their pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Event, event_of
from ktx_cli.jobs.runs.lines import CUT, read_lines
from ktx_cli.project.layout import Layout

LONGEST: Final = 2.0
"""Seconds a pause lasts at most."""


def stored_events(layout: Layout, run_id: str) -> list[dict[str, Any]]:
    """Return the events of a run as they are kept, each with its time in `at`; raises `KtxError` where none are."""
    found = list(read_lines(layout.run_events(run_id)))
    if not found:
        raise KtxError(
            f"the events of run {run_id} are not kept",
            hint=f"ktx runs show {run_id}",
        )
    return found


class Replay:
    """Gives the events of a run in their time: `speed` times as fast, without a pause where it is 0.

    `now` is when the event given last happened. What this version does not know is left out.
    """

    def __init__(
        self, documents: list[dict[str, Any]], speed: float, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.is_cut = bool(documents) and documents[-1].get("event") == CUT["event"]
        self.unknown = 0
        self.speed = speed
        self._documents = documents
        self._sleep = sleep
        self._at = _moment(documents[0]) or datetime.fromisoformat("1970-01-01T00:00:00Z")

    def now(self) -> datetime:
        """Return when the event given last happened."""
        return self._at

    def __iter__(self) -> Iterator[Event]:
        for document in self._documents:
            event = event_of(document)
            if event is None:
                self.unknown += document.get("event") != CUT["event"]
                continue
            self._wait(_moment(document) or self._at)
            yield event

    def _wait(self, until: datetime) -> None:
        """Let the time between two events pass."""
        passed = (until - self._at).total_seconds()
        if self.speed > 0 and passed > 0:
            self._sleep(min(passed / self.speed, LONGEST))
        self._at = max(self._at, until)


def _moment(document: dict[str, Any]) -> datetime | None:
    try:
        return datetime.fromisoformat(str(document.get("at")))
    except ValueError:
        return None
