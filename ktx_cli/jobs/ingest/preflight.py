"""Is the configured model usable? Asked before the first question of a run, or before its commit, or not at all."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ktx_cli.core.errors import KtxError, RunStopped
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.choosing import sources_to_read
from ktx_cli.jobs.models.probing import (
    ProbeRun,
    credentials_of,
    distinct_models,
    forget_probes,
    probe_through,
    require_models,
    to_probe,
)
from ktx_cli.llm.caching import divergence
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.roles import ModelRef
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.usage import UsageFact


class PreflightFailed(RunStopped):
    """A configured backend does not answer: it ends the run, where other failures cost a connection or a unit."""


AGENTS: Final = ("candidateExtraction", "reconcile", "repair")
"""The roles of agents that work through sources."""

DOCUMENTS: Final = ("triage", "curator")
"""The roles that texts of people need besides."""


def roles_of(run: Run) -> frozenset[str]:
    """Return the roles a run may use: of the sources it reads, or where these are known of those with work."""
    roles = set() if run.prompts is None else {"candidateExtraction"}
    if not run.asks_model or run.request.databases_only:
        return frozenset(roles)
    if run.works:
        sources = [work.source for work in run.works if work.units or work.changes.deleted]
    else:
        sources = [source for _, _, source in sources_to_read(run.config, run.targets)]
    roles.update(AGENTS if sources else (), DOCUMENTS if any(each.documents for each in sources) else ())
    return frozenset(roles)


class Preflight:
    """Probes the models of the roles a run uses, at most once; nothing with `needed` False, where no model has work.

    `roles`: those of the run, where it is none of `ktx ingest`.
    """

    def __init__(self, run: Run, *, needed: bool, roles: Collection[str] | None = None) -> None:
        self._run = run
        self._roles = roles
        self._is_due = needed
        self._failed: PreflightFailed | None = None
        self._probes = ProbeRun()

    def check_settings(self) -> None:
        """Raise `KtxError` where the settings name no model; warn of those a backend cannot honour."""
        if not self._is_due:
            return
        distinct_models(self._run.config)
        ignored = divergence(self._run.config)
        if ignored is not None:
            self._run.warn(ignored)

    def require(self) -> None:
        """Raise `PreflightFailed` where a configured backend does not answer; nothing is written."""
        if not self._begins():
            return
        run, request = self._run, self._run.request
        wanted = self._wanted()
        try:
            self._probes = require_models(
                run.layout,
                run.config,
                request.environ,
                command=request.command,
                warn=run.warn,
                run_id=run.report.run_id,
                only=list(wanted),
                emit=request.emit,
            )
        except KtxError as error:
            self._end(error)
        self._end(None)

    async def check(self, runtime: RoutedRuntime) -> None:
        """Do the same through the runtime of the run, whose usage `took` gets meanwhile."""
        if not self._begins():
            return
        wanted, run = self._wanted(), self._run
        for backend in {ref.backend for ref in wanted}:
            self._probes.credentials[backend] = credentials_of(
                run.config, backend, project_dir=run.layout.root, environ=run.request.environ
            )
        await probe_through(runtime, wanted, self._probes)
        self._end(self._probes.error())

    def _wanted(self) -> dict[ModelRef, tuple[str, ...]]:
        run = self._run
        roles = roles_of(run) if self._roles is None else self._roles
        return to_probe(run.layout, run.config, run.request.environ, roles)

    def took(self, fact: UsageFact) -> None:
        """Note what a probe took."""
        self._probes.took(fact)

    def _begins(self) -> bool:
        """Say whether to probe, once; raises what an earlier time found."""
        if self._failed is not None:
            raise self._failed
        due, self._is_due = self._is_due, False
        return due

    def _end(self, error: KtxError | None) -> None:
        if error is not None:
            self._failed = PreflightFailed(error)
            raise self._failed from error
        for fact in self._probes.facts:
            self._run.spending.add(fact)

    def store(self) -> None:
        """Keep what the probes found and took, for ten minutes unless a call failed; the caller holds the lease."""
        probes, self._probes = self._probes, ProbeRun()
        probes.store(self._run.layout)
        report = self._run.report
        enriched = (each.enriched for each in report.connections)
        errors = (report.stopped, report.failure, *(each.stopped for each in enriched if each is not None))
        if any(isinstance(error, LlmError) for error in errors):
            forget_probes(self._run.layout)
