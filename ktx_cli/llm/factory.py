"""One place that makes the runtime: configuration in, port out. An unknown backend raises; nothing falls through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ktx_cli.core import ResultWarning, new_run_id
from ktx_cli.llm.agent_loop import Backend, Watch, watch_nothing
from ktx_cli.llm.governor import Governor, OnWait, tell_nobody
from ktx_cli.llm.routing import RoutedRuntime, Shared
from ktx_cli.llm.settings import unsupported
from ktx_cli.llm.usage import UsageSink, ignore_usage
from ktx_cli.project import KtxConfig

Maker = Callable[[str, Shared], Backend]


def create_runtime(
    config: KtxConfig,
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    run_id: str | None = None,
    command: str = "",
    usage_sink: UsageSink = ignore_usage,
    warn: Callable[[ResultWarning], None] | None = None,
    max_concurrency: int | None = None,
    on_wait: OnWait = tell_nobody,
    watch: Watch = watch_nothing,
) -> RoutedRuntime:
    """Return the runtime for a project; no process is started and nothing is asked until the first call.

    `environ` is the environment secrets come from and Claude Code gets, scrubbed. `max_concurrency` replaces
    `ingest.workUnits.maxConcurrency`; `on_wait` is told of every pause, `watch` of every call. Raises `ValueError`
    for a project folder that is not absolute.
    """
    if not project_dir.is_absolute():
        raise ValueError(f"the project folder must be absolute, not {project_dir}")
    governor = Governor(
        config.ingest.rate_limit,
        max_concurrency=max_concurrency or config.ingest.work_units.max_concurrency,
        on_wait=on_wait,
    )
    shared = Shared(
        config, project_dir, environ, governor, run_id or new_run_id(), command, usage_sink, warn or _ignore, watch
    )
    return RoutedRuntime(shared, make_backend)


def make_backend(name: str, shared: Shared) -> Backend:
    """Return the backend of a name; raises for every other name."""
    maker = MAKERS.get(name)
    if maker is None:
        raise unsupported(name)
    return maker(name, shared)


def _messages_api(name: str, shared: Shared) -> Backend:
    from ktx_cli.llm.backends.anthropic_api.backend import AnthropicBackend

    return AnthropicBackend(
        name,
        shared.config,
        project_dir=shared.project_dir,
        environ=shared.environ,
        retried=shared.retried,
        repair=shared.repair,
        observe=shared.governor.observe,
    )


def _claude_code(name: str, shared: Shared) -> Backend:
    from ktx_cli.llm.backends.claude.binary import claude_host
    from ktx_cli.llm.backends.claude_code.backend import ClaudeCodeBackend

    host, binary = claude_host(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)
    rate_limit = shared.config.ingest.rate_limit
    return ClaudeCodeBackend(
        host,
        binary,
        pool_size=shared.governor.max_concurrency + 1,
        retries=rate_limit.retry.max_attempts - 1 if rate_limit.enabled else 0,
        allow_managed=shared.config.llm.provider.claude.allow_managed_policy,
        reuse=shared.config.llm.provider.claude.reuse_processes,
        observe=shared.governor.observe,
        warn=shared.warn,
    )


def _claude_cli(name: str, shared: Shared) -> Backend:
    from ktx_cli.llm.backends.claude.binary import claude_host
    from ktx_cli.llm.backends.claude_cli.backend import ClaudeCliBackend

    host, binary = claude_host(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)
    return ClaudeCliBackend(
        host,
        binary,
        allow_managed=shared.config.llm.provider.claude.allow_managed_policy,
        retried=shared.retried,
        repair=shared.repair,
        warn=shared.warn,
    )


MAKERS: Mapping[str, Maker] = {
    "anthropic": _messages_api,
    "vertex": _messages_api,
    "gateway": _messages_api,
    "claude-code": _claude_code,
    "claude-cli": _claude_cli,
}


def _ignore(warning: ResultWarning) -> None:
    """Drop the warning."""
