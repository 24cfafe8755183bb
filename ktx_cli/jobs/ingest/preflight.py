"""Is the configured model usable? Asked before the first question of a run, or before its commit, or not at all."""

from __future__ import annotations

from ktx_cli.core.errors import KtxError, RunStopped
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.models.probing import ProbeRun, distinct_models, probe_through, require_models
from ktx_cli.llm.caching import divergence
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.usage import UsageFact


class PreflightFailed(RunStopped):
    """A configured backend does not answer: it ends the run, where other failures cost a connection or a unit."""


class Preflight:
    """Probes every backend and model of a role, at most once; nothing with `needed` False, where no model has work."""

    def __init__(self, run: Run, *, needed: bool) -> None:
        self._run = run
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
        try:
            self._probes = require_models(
                run.layout,
                run.config,
                request.environ,
                command=request.command,
                warn=run.warn,
                run_id=run.report.run_id,
                emit=request.emit,
            )
        except KtxError as error:
            self._end(error)
        self._end(None)

    async def check(self, runtime: RoutedRuntime) -> None:
        """Do the same through the runtime of the run, whose usage `took` gets meanwhile."""
        if not self._begins():
            return
        await probe_through(runtime, distinct_models(self._run.config), self._probes)
        self._end(self._probes.error())

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
        """Keep what the probes found and took; the caller holds the lease."""
        probes, self._probes = self._probes, ProbeRun()
        probes.store(self._run.layout)
