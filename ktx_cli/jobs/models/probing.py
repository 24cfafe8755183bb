"""Probes: is what `llm` names usable, for every backend and model a role has; and when that was last seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.models.session import Warn, project_runtime
from ktx_cli.llm.roles import ModelRef, bindings
from ktx_cli.llm.types import ProbeReport
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing, translated


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What one probe found: a report, or the error. `roles` are those the model serves."""

    ref: ModelRef
    roles: tuple[str, ...]
    report: ProbeReport | None = None
    error: KtxError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return {
            "backend": self.ref.backend,
            "model": self.ref.model,
            "roles": list(self.roles),
            "ok": self.error is None,
            "report": None if self.report is None else self.report.to_json(),
            "error": None if self.error is None else self.error.to_json(),
        }


@dataclass(frozen=True, slots=True)
class LastProbe:
    """When a backend's model was last probed; `error` is the code of a probe that failed."""

    finished: str
    error: str | None


def distinct_models(config: KtxConfig) -> dict[ModelRef, tuple[str, ...]]:
    """Return every backend and model the roles use, with the roles, the default role's first."""
    found: dict[ModelRef, tuple[str, ...]] = {}
    for role, ref in bindings(config).items():
        found[ref] = (*found.get(ref, ()), role)
    return found


async def probe_models(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    command: str,
    warn: Warn,
    only: Sequence[ModelRef] | None = None,
) -> list[ProbeResult]:
    """Probe models one after another (all, or `only` some), remember how each came out, and return the results."""
    results = []
    async with project_runtime(layout, config, environ, command=command, warn=warn) as runtime:
        for ref, roles in distinct_models(config).items() if only is None else ((ref, ()) for ref in only):
            try:
                report = await runtime.probe(role=roles[0] if roles else "default", model=str(ref))
                results.append(ProbeResult(ref, roles, report))
            except KtxError as error:
                results.append(ProbeResult(ref, roles, error=error))
    _remember(layout, results)
    return results


def _remember(layout: Layout, results: Sequence[ProbeResult]) -> None:
    with open_for_writing(layout) as database, translated(layout.state):
        for result in results:
            code = None if result.error is None else result.error.code
            database.execute(
                "INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?)",
                (result.ref.backend, result.ref.model, isoformat(now()), code),
            )


def last_probes(database: sqlite3.Connection) -> dict[ModelRef, LastProbe]:
    """Return the last probe of every backend and model, for `read_state`."""
    rows = database.execute("SELECT backend, model, finished, error FROM probes")
    return {ModelRef(backend, model): LastProbe(finished, error) for backend, model, finished, error in rows}
