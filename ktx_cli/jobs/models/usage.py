"""`ktx usage`: sums of the usage facts of a project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ktx_cli.core.errors import ResultWarning, StorageError, UsageError
from ktx_cli.core.text import did_you_mean
from ktx_cli.jobs.runs.records import find_run
from ktx_cli.llm.usage_store import DIMENSIONS, UsageRow, usage_by
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import read_state


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The sums, and what they are summed by."""

    dimensions: tuple[str, ...]
    since: str | None
    run: str | None
    rows: tuple[UsageRow, ...]
    warnings: tuple[ResultWarning, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "by": list(self.dimensions),
            "since": self.since,
            "run": self.run,
            "rows": [row.to_json(self.dimensions) for row in self.rows],
        }


def usage_report(project_dir: Path, *, by: Sequence[str], since: str | None, run: str | None = None) -> UsageReport:
    """Return the sums, `run`: of that run alone; `UsageError` for no dimension, day or run."""
    layout = Layout(project_dir)
    load_config(layout.config)
    dimensions = tuple(dict.fromkeys(by))
    for name in dimensions:
        if name not in DIMENSIONS:
            near = did_you_mean(name, DIMENSIONS)
            hint = f"did you mean `{near}`?" if near else f"one of {', '.join(DIMENSIONS)}"
            raise UsageError(f"usage cannot be summed by `{name}`", hint=hint)
    if since is not None:
        since = _day(since)
    of = None if run is None else find_run(layout, run)[0].run_id
    try:
        rows = read_state(layout, lambda database: usage_by(database, dimensions, since=since or "", run=of)) or []
    except StorageError as error:
        unreadable = ResultWarning("state_unreadable", f"no usage is known: {error.message}", hint=error.hint)
        return UsageReport(dimensions, since, of, (), (unreadable,))
    return UsageReport(dimensions, since, of, tuple(rows))


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"`{text}` is not a date", hint="use YYYY-MM-DD, for example: --since 2026-01-31") from None
