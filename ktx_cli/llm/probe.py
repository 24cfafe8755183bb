"""Probes check that each backend and model in use works, and record when they last did.

A run accepts a successful probe of the last ten minutes with the same settings and credentials instead of its own; `ktx
doctor` and `ktx llm probe` never do.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ktx_cli.core import CancelledError, Emit, KtxError, Record, ResultWarning, Waiting, ignore_events, isoformat, now
from ktx_cli.llm.settings import ModelRef, distinct_models, divergence
from ktx_cli.project import KtxConfig, Layout, StateDatabase, open_for_writing, open_local, read_local, translated

if TYPE_CHECKING:
    from ktx_cli.llm.agent_loop import Watch
    from ktx_cli.llm.routing import RoutedRuntime
    from ktx_cli.llm.types import ProbeReport
    from ktx_cli.llm.usage import UsageFact, UsageSink


ROLE: Final = "probe"
"""The role that the usage of probes is recorded under."""


REMEMBERED_SECONDS: Final = 600
"""How long a run accepts an earlier successful probe."""

_ACCOUNT: Final = ("ANTHROPIC_", "CLAUDE", "GOOGLE_", "CLOUDSDK_", "VERTEX_", "GCLOUD_", "CODEX_")
"""Prefixes of variables that may determine whose account a backend uses."""


@dataclass(frozen=True, slots=True)
class ProbeResult(Record):
    """The result of one probe: a report, or the error. `roles` are those that the model serves."""

    ref: ModelRef
    roles: tuple[str, ...]
    report: ProbeReport | None = None
    error: KtxError | None = None

    json_keys = ("backend=ref.backend", "model=ref.model", "roles", "ok", "report", "error")

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.error is None


@dataclass(frozen=True, slots=True)
class LastProbe:
    """When a backend's model was last probed; `error` is the code of a failed probe."""

    finished: str
    error: str | None


def credentials_of(config: KtxConfig, backend: str, *, project_dir: Path, environ: Mapping[str, str]) -> str | None:
    """Return a digest that changes with a backend's requests or account; it contains no secret.

    None if its key cannot be resolved.
    """
    from ktx_cli.llm.settings import resolved_keys

    try:
        keys = resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    except KtxError:
        return None
    account = {name: value for name, value in environ.items() if name.startswith(_ACCOUNT) or name == "HOME"}
    facts = [backend, config.llm.provider.model_dump(mode="json"), keys, account]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class ProbeRun:
    """Probes that ran together, and their usage; `store` saves both."""

    results: list[ProbeResult] = field(default_factory=list)
    facts: list[UsageFact] = field(default_factory=list)
    credentials: dict[str, str | None] = field(default_factory=dict)
    """Backend -> digest of the settings and credentials that were used."""

    def took(self, fact: UsageFact) -> None:
        """Record a probe's usage under the probes' own role, because it is not work for the role being probed."""
        self.facts.append(replace(fact, role=ROLE))

    def error(self) -> KtxError | None:
        """Return the error of the first probe that failed."""
        return next((result.error for result in self.results if result.error is not None), None)

    def required(self) -> ProbeRun:
        """Return the probes; raises the error of the first one that failed."""
        if (error := self.error()) is not None:
            raise error
        return self

    def store(self, layout: Layout) -> None:
        """Store when each model was probed, and the usage, in the project's state database."""
        from ktx_cli.llm.usage import record_usage

        if not self.results:
            return
        with open_local(layout) as database, translated(layout.state):
            for result in self.results:
                code = None if result.error is None else result.error.code
                ref = result.ref
                credentials = None if code is not None else self.credentials.get(ref.backend)
                row = (ref.backend, ref.model, isoformat(now()), code, credentials)
                database.execute(_KEEP, row)
        with open_for_writing(layout) as database, translated(layout.state):
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
    """Probe every backend and model of a role, or `only` some, concurrently; nothing is stored.

    Raises `KtxError` for settings that name no model; returns nothing if no backend is configured.
    """
    wanted = distinct_models(config) if only is None else dict.fromkeys(only, ("default",))
    probes = ProbeRun()
    if not wanted:
        return probes
    for backend in {ref.backend for ref in wanted}:
        probes.credentials[backend] = credentials_of(config, backend, project_dir=layout.root, environ=environ)

    async def work() -> None:
        async with project_runtime(
            layout, config, environ, command=command, warn=warn, run_id=run_id, usage_sink=probes.took, emit=emit
        ) as runtime:
            await probe_through(runtime, wanted, probes)

    run_async(work())
    return probes


async def probe_through(runtime: RoutedRuntime, wanted: Mapping[ModelRef, tuple[str, ...]], probes: ProbeRun) -> None:
    """Add a probe for each model, concurrently; their usage is recorded like that of the runtime."""
    import asyncio

    probes.results += await asyncio.gather(*(_probe(runtime, ref, roles) for ref, roles in wanted.items()))


async def _probe(runtime: RoutedRuntime, ref: ModelRef, roles: tuple[str, ...]) -> ProbeResult:
    try:
        return ProbeResult(ref, roles, await runtime.probe(role=roles[0], model=str(ref)))
    except KtxError as error:
        return ProbeResult(ref, roles, error=error)


def to_probe(
    layout: Layout, config: KtxConfig, environ: Mapping[str, str], roles: Collection[str]
) -> dict[ModelRef, tuple[str, ...]]:
    """Return the given roles' models, except those that answered a probe in the last few minutes.

    An unreadable state database counts as empty; the run itself reports it.
    """
    wanted = distinct_models(config, roles)
    try:
        known = (read_local(layout, _remembered) or {}) if wanted else {}
    except KtxError:
        known = {}
    return {ref: roles for ref, roles in wanted.items() if not _answered(ref, known, layout, config, environ)}


def _answered(
    ref: ModelRef,
    known: Mapping[ModelRef, tuple[str, str]],
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
) -> bool:
    finished, credentials = known.get(ref, ("", ""))
    try:
        age = (now() - datetime.fromisoformat(finished)).total_seconds()
    except (ValueError, TypeError):
        return False
    if not 0 <= age < REMEMBERED_SECONDS:
        return False
    return credentials == credentials_of(config, ref.backend, project_dir=layout.root, environ=environ)


def forget_probes(layout: Layout) -> None:
    """Make the next run probe again, because a call failed despite earlier probes."""
    with open_local(layout) as database, translated(layout.state):
        database.execute("UPDATE probes SET credentials = NULL")


_KEEP: Final = "INSERT OR REPLACE INTO probes (backend, model, finished, error, credentials) VALUES (?, ?, ?, ?, ?)"


def _remembered(database: StateDatabase) -> dict[ModelRef, tuple[str, str]]:
    rows = database.execute(
        "SELECT backend, model, finished, credentials FROM probes WHERE error IS NULL AND credentials IS NOT NULL"
    )
    return {ModelRef(backend, model): (finished, credentials) for backend, model, finished, credentials in rows}


def last_probes(database: StateDatabase) -> dict[ModelRef, LastProbe]:
    """Return the last probe of every backend and model, for `read_local`."""
    rows = database.execute("SELECT backend, model, finished, error FROM probes")
    return {ModelRef(backend, model): LastProbe(finished, error) for backend, model, finished, error in rows}


Result = TypeVar("Result")
Warn = Callable[[ResultWarning], None]

_WAITS_FOR: Final = {
    "rate_limit": "the model provider, which asks ktx to wait before the next request",
    "overloaded": "the model provider, which is overloaded or failing",
    "connection": "the model provider, which could not be reached",
}


@contextlib.asynccontextmanager
async def project_runtime(
    layout: Layout,
    config: KtxConfig,
    environ: Mapping[str, str],
    *,
    command: str,
    warn: Warn,
    run_id: str | None = None,
    usage_sink: UsageSink | None = None,
    emit: Emit = ignore_events,
    watch: Watch | None = None,
) -> AsyncIterator[RoutedRuntime]:
    """Open a project's runtime; stores the usage of its calls and warns once about unsupported caching settings.

    `usage_sink` receives the usage facts instead of the project's state database; `emit` receives every pause, `watch`
    every call.
    """
    warning = divergence(config)
    if warning is not None:
        warn(warning)
    from ktx_cli.llm.agent_loop import watch_nothing
    from ktx_cli.llm.routing import create_runtime
    from ktx_cli.llm.usage import UsageStore

    runtime = create_runtime(
        config,
        layout.root,
        environ,
        run_id=run_id,
        command=command,
        usage_sink=usage_sink or UsageStore(layout),
        warn=warn,
        on_wait=lambda seconds, reason: emit(Waiting(_WAITS_FOR.get(reason, reason), seconds)),
        watch=watch or watch_nothing,
    )
    async with runtime:
        yield runtime


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to completion; Ctrl-C cancels it and frees its resources before this function raises."""
    import asyncio

    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise CancelledError("interrupted", hint="run the same command again") from None
