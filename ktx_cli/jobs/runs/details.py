"""One run in full: what it read, its units with their reasons, which raw files each artifact came of, what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.jobs.runs.lines import read_lines
from ktx_cli.jobs.runs.records import RunRecord, find_run, read_report, units_of
from ktx_cli.jobs.runs.transcripts import Transcript, transcripts_of
from ktx_cli.llm.usage_store import UsageRow, usage_by
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state

BY: Final = ("role", "model")
"""What the usage of a run is summed by."""

CUT_OFF: Final = "cut off"
RECORDS: Final = ("conflicts", "evictions", "resolutions", "fallbacks")


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run in full. `report` None: it left none, because it was killed, is still at work or is too old; its `units`
    are then those its events name.

    `artifacts`: what was written -> the raw files it comes of. `records`: what agents noted, each with its `record`
    (conflicts, evictions, resolutions, fallbacks) and where it comes from in `by`.
    """

    record: RunRecord
    report: Mapping[str, Any] | None
    units: tuple[Mapping[str, Any], ...]
    artifacts: Mapping[str, tuple[str, ...]]
    records: tuple[Mapping[str, Any], ...]
    usage: tuple[UsageRow, ...]
    transcripts: tuple[Transcript, ...]
    warnings: tuple[ResultWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "run": self.record.to_json(),
            "report": self.report,
            "units": [dict(each) for each in self.units],
            "artifacts": {name: list(raw) for name, raw in self.artifacts.items()},
            "records": [dict(each) for each in self.records],
            "usage": [row.to_json(BY) for row in self.usage],
            "transcripts": [each.to_json() for each in self.transcripts],
        }


def run_details(layout: Layout, text: str) -> RunDetails:
    """Return the run that a text names; raises as `find_run`."""
    record, warnings = find_run(layout, text)
    report = read_report(layout, record.run_id)
    found = report or {}
    return RunDetails(
        record,
        report,
        tuple(units_of(found) if report is not None else _units_in(layout, record.run_id)),
        _artifacts(found),
        tuple(records_in(found)),
        tuple(_usage(layout, record.run_id)),
        tuple(transcripts_of(layout, record.run_id)),
        tuple(warnings),
    )


def _usage(layout: Layout, run_id: str) -> list[UsageRow]:
    try:
        return read_state(layout, lambda database: usage_by(database, BY, run=run_id)) or []
    except KtxError:  # `find_run` has warned of it
        return []


def _units_in(layout: Layout, run_id: str) -> list[dict[str, Any]]:
    """Return the units that the events of a run name, as far as they came."""
    units: dict[tuple[object, object], dict[str, Any]] = {}
    before: dict[tuple[object, object], int] = {}
    for event in read_lines(layout.run_events(run_id)):
        key = (event.get("connection"), event.get("unit"))
        match event.get("event"):
            case "work_unit_started":
                units[key] = _begun(event)
            case "work_unit_resumed" if key in units:
                units[key].update(steps=event.get("steps"), tool_calls=event.get("tool_calls"), resumed=True)
                before[key] = event.get("tool_calls") or 0
            case "work_unit_step" if key in units:
                calls = (event.get("tool_calls") or 0) + before.get(key, 0)
                units[key].update(steps=event.get("step"), tool_calls=calls)
            case "work_unit_finished":
                replayed = event.get("replayed", False)
                found = units.setdefault(key, _begun(event)) if replayed else units.get(key, {})
                found.update(status=event.get("status"), reason=event.get("reason"), replayed=replayed)
    return list(units.values())


def _begun(event: Mapping[str, Any]) -> dict[str, Any]:
    named = {name: event.get(name) for name in ("connection", "unit")}
    label = event.get("label") or event.get("unit")
    return {**named, "label": label, "status": CUT_OFF, "reason": "", "steps": 0, "tool_calls": 0}


def _artifacts(report: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = {}
    for source in report.get("sources") or ():
        for said in (source.get("artifacts"), source.get("produced")):
            for artifact, raw in (said or {}).items():
                found.setdefault(artifact, set()).update(f"{source.get('connection')}: {path}" for path in raw)
    return {artifact: tuple(sorted(raw)) for artifact, raw in sorted(found.items())}


def records_in(report: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yield what the agents of a run noted, by its report; a unit that did not land says nothing of what there is.

    Each has its `record` (conflicts, evictions, resolutions, fallbacks) and where it comes from in `by`.
    """
    for unit in units_of(report):
        if unit.get("status") == "done":
            yield from _noted(unit.get("records") or {}, f"{unit['connection']}:{unit.get('unit')}")
    yield from _noted(report.get("reconciled") or {}, "reconcile")


def _noted(said: Mapping[str, Any], by: str) -> Iterable[dict[str, Any]]:
    for name in RECORDS:
        for each in said.get(name) or ():
            yield {"record": name, "by": by, **each}
