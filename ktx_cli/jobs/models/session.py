"""The runtime of a project, and running coroutines from commands that are none."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from ktx_cli.core.errors import CancelledError, ResultWarning
from ktx_cli.core.events import Emit, Waiting, ignore_events
from ktx_cli.llm.backend import Watch, watch_nothing
from ktx_cli.llm.caching import divergence
from ktx_cli.llm.factory import create_runtime
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.llm.usage import UsageSink
from ktx_cli.llm.usage_store import UsageStore
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.layout import Layout

Result = TypeVar("Result")
Warn = Callable[[ResultWarning], None]

_WAITS_FOR: Final = {
    "rate_limit": "the model provider, which asks to wait before the next request",
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
    watch: Watch = watch_nothing,
) -> AsyncIterator[RoutedRuntime]:
    """Lend a project's runtime; what its calls take is stored, caching settings it cannot honour are told once.

    `usage_sink` gets the usage facts instead of the project's state database; `emit` is told of every pause,
    `watch` of every call.
    """
    warning = divergence(config)
    if warning is not None:
        warn(warning)
    runtime = create_runtime(
        config,
        layout.root,
        environ,
        run_id=run_id,
        command=command,
        usage_sink=usage_sink or UsageStore(layout),
        warn=warn,
        on_wait=lambda seconds, reason: emit(Waiting(_WAITS_FOR.get(reason, reason), seconds)),
        watch=watch,
    )
    async with runtime:
        yield runtime


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end; Ctrl-C cancels it, and what it holds is freed before this raises."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise CancelledError("interrupted", hint="run the same command again") from None
