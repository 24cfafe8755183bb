"""Tells of units under way what only their model calls know: what they took, and after which steps they go on."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ktx_cli.core.events import Emit, Event, WorkUnitFinished, WorkUnitResumed, WorkUnitStarted, WorkUnitUsage
from ktx_cli.llm.backend import CallSpec
from ktx_cli.llm.events import EmitLlm, Resumed, UsageReported

_Unit = tuple[str, str]


class UnitCalls:
    """Watches the loops of units, known by their label (`docs:refunds.md`). May be used by several threads."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._taken: dict[_Unit, WorkUnitUsage] = {}
        self._lock = threading.Lock()

    def heard(self, event: Event) -> None:
        """Take note of units that begin and end."""
        with self._lock:
            if isinstance(event, WorkUnitStarted):
                taken = WorkUnitUsage(event.connection, event.unit, 0, 0.0, 0)
                self._taken[event.connection, event.unit] = taken
            elif isinstance(event, WorkUnitFinished):
                self._taken.pop((event.connection, event.unit), None)

    def watch(self, spec: CallSpec) -> EmitLlm | None:
        """Watch a call that is the loop of a unit; see `ktx_cli.llm.backend.Watch`."""
        connection, _, name = spec.label.partition(":")
        unit = (connection, name)
        if spec.kind != "loop" or unit not in self._taken:
            return None
        return lambda event: self._told(unit, event)

    def _told(self, unit: _Unit, event: Event) -> None:
        if isinstance(event, Resumed):
            self._emit(WorkUnitResumed(*unit, event.steps, event.tool_calls))
        elif isinstance(event, UsageReported):
            with self._lock:
                before = self._taken.get(unit)
                taken = None if before is None else _sum(before, event.fact)
                if taken is not None:
                    self._taken[unit] = taken
            if taken is not None:
                self._emit(taken)


def _sum(before: WorkUnitUsage, fact: Mapping[str, Any]) -> WorkUnitUsage:
    usd = fact["cost_usd"]
    return replace(
        before,
        tokens=before.tokens + fact["total_tokens"],
        usd=round(before.usd + (usd or 0.0), 6),
        unpriced=before.unpriced + (usd is None),
    )
