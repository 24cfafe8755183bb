"""The pauses of a run that waits for the run lock, measured by a clock that needs no time."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from ktx_cli.core import BusyError
from ktx_cli.project import Layout, lock


def lock_pauses(layout: Layout, patch: pytest.MonkeyPatch) -> list[float]:
    """Return the pauses of a run that waits in vain for 30 seconds."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(pauses), sleep=pauses.append, time=time.time)
    patch.setattr(lock, "time", clock)
    with pytest.raises(BusyError), lock.hold_run_lock(layout, run_id="waits", command="c", wait_seconds=30):
        pass
    assert sum(pauses) == pytest.approx(30)
    return pauses
