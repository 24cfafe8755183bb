"""What a capture would ask of the model: nothing is asked, and nothing written."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from ktx_cli.context.scan.describe.rendering import estimated_tokens
from ktx_cli.context.tools.toolset import tools_for
from ktx_cli.core.errors import ResultWarning
from ktx_cli.jobs.ingest.base import ProjectBase
from ktx_cli.jobs.ingest.publishing import begin_workspace
from ktx_cli.jobs.ingest.units.samples import Samples
from ktx_cli.jobs.memory.capture import CaptureOptions, begun_run
from ktx_cli.jobs.memory.earlier import earlier_capture
from ktx_cli.jobs.memory.records import MemoryRecord
from ktx_cli.jobs.memory.request import BOUNDS
from ktx_cli.jobs.memory.source import work_of
from ktx_cli.jobs.memory.working import Phase
from ktx_cli.project.layout import Layout
from ktx_cli.project.repository import Repository


@dataclass(frozen=True, slots=True)
class Forecast:
    """`tokens`: of the first request, about; `steps`: at most so many requests. `reason`: why none would be made."""

    record: MemoryRecord
    tokens: int
    steps: int
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "label": self.record.label,
            "sha256": self.record.sha256,
            "characters": len(self.record.content),
            "first_request_tokens": self.tokens,
            "most_steps": self.steps,
            "reason": self.reason or None,
            "duplicate_of": self.record.duplicate_of,
        }


def foretell(record: MemoryRecord, options: CaptureOptions) -> tuple[Forecast, list[ResultWarning]]:
    """Return what a capture would ask; raises as `capture` for what could not begin."""
    layout = Layout(options.project_dir)
    run = begun_run(layout, record, options)
    record.request.check(run.config)
    repository = Repository.discover(layout.root)
    base = ProjectBase(layout, repository, None if repository is None else repository.head().commit)
    known = None if repository is None else earlier_capture(layout, repository, base, record)
    if known is not None:
        told = known.told(record)
        return Forecast(told, 0, 0, told.reason), run.warnings
    run.works.append(work_of(record, base))
    begin_workspace(run, base)
    with contextlib.closing(sqlite3.connect(":memory:")) as nothing:
        phase = Phase(run, record, None, Samples(nothing))
        session = phase.session(phase.piece)
        task = phase.task(phase.piece, session)
        tools = [[each.name, each.description, each.input_schema()] for each in tools_for(session, "memory")]
    asked = task.system + task.prompt + json.dumps(tools)
    return Forecast(record, estimated_tokens(asked), BOUNDS[record.source_type].steps), run.warnings
