"""Probes: is what `llm` names usable, for every backend and model a role has; and when that was last seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core.clock import isoformat, now
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, ignore_events
from ktx_cli.llm.roles import ModelRef, bindings
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing, translated

if TYPE_CHECKING:  # to say when a model was probed last, nothing that probes is needed
    from ktx_cli.jobs.models.session import Warn
    from ktx_cli.llm.routing import RoutedRuntime
    from ktx_cli.llm.types import ProbeReport
    from ktx_cli.llm.usage import UsageFact

ROLE: Final = "probe"
"""The role under which the usage of probes is kept."""


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


@dataclass(slots=True)
class ProbeRun:
    """The probes of one occasion, and what they took; `store` keeps both."""

    results: list[ProbeResult] = field(default_factory=list)
    facts: list[UsageFact] = field(default_factory=list)

    def took(self, fact: UsageFact) -> None:
        """Note what a probe took, under a role of its own: it is none of the work of the role it asks for."""
        self.facts.append(replace(fact, role=ROLE))

    def error(self) -> KtxError | None:
        """Return the error of the first probe that failed."""
        return next((result.error for result in self.results if result.error is not None), None)

    def store(self, layout: Layout) -> None:
        """Keep when each model was probed, and the usage, in the project's state database."""
        from ktx_cli.llm.usage_store import record_usage

        if not self.results:
            return
        with open_for_writing(layout) as database, translated(layout.state):
            for result in self.results:
                code = None if result.error is None else result.error.code
                row = (result.ref.backend, result.ref.model, isoformat(now()), code)
                database.execute("INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?)", row)
            for fact in self.facts:
                record_usage(database, fact)


def probe_models(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    command: str,
    warn: Warn,
    run_id: str | None = None,
    only: Sequence[ModelRef] | None = None,
    emit: Emit = ignore_events,
) -> ProbeRun:
    """Probe every backend and model of a role, or `only` some, one after another; nothing is written.

    Raises `KtxError` for settings that name no model.
    """
    from ktx_cli.jobs.models.session import project_runtime, run_async

    wanted = distinct_models(config) if only is None else dict.fromkeys(only, ("default",))
    probes = ProbeRun()

    async def work() -> None:
        async with project_runtime(
            layout,
            config,
            environ,
            command=command,
            warn=warn,
            run_id=run_id,
            usage_sink=probes.took,
            emit=emit,
        ) as runtime:
            await probe_through(runtime, wanted, probes)

    run_async(work())
    return probes


async def probe_through(runtime: RoutedRuntime, wanted: Mapping[ModelRef, tuple[str, ...]], probes: ProbeRun) -> None:
    """Add a probe of each model, one after another; what they take goes where the runtime's usage goes."""
    for ref, roles in wanted.items():
        probes.results.append(await _probe(runtime, ref, roles))


async def _probe(runtime: RoutedRuntime, ref: ModelRef, roles: tuple[str, ...]) -> ProbeResult:
    try:
        return ProbeResult(ref, roles, await runtime.probe(role=roles[0], model=str(ref)))
    except KtxError as error:
        return ProbeResult(ref, roles, error=error)


def require_models(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    command: str,
    warn: Warn,
    run_id: str | None = None,
    emit: Emit = ignore_events,
) -> ProbeRun:
    """Probe what is configured and raise the first failure; with no backend there is nothing to probe."""
    if not distinct_models(config):
        return ProbeRun()
    probes = probe_models(layout, config, environ, command=command, warn=warn, run_id=run_id, emit=emit)
    problem = probes.error()
    if problem is not None:
        raise problem
    return probes


def last_probes(database: sqlite3.Connection) -> dict[ModelRef, LastProbe]:
    """Return the last probe of every backend and model, for `read_state`."""
    rows = database.execute("SELECT backend, model, finished, error FROM probes")
    return {ModelRef(backend, model): LastProbe(finished, error) for backend, model, finished, error in rows}
