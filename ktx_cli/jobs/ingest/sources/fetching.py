"""Fetches the sources of a run, several at once; a source that fails costs only itself."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.manifest import compare
from ktx_cli.context.sources.port import FetchContext
from ktx_cli.context.sources.raw_store import RawStore
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, StepFinished, StepStarted
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.project.layout import Layout

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Sources that are fetched at the same time: each waits for its own server."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the last fetch that ended in a commit left: where to go on, and path -> sha256 of what it had."""

    cursor: str | None = None
    files: Mapping[str, str] | None = None


def fetch_all(
    works: Sequence[SourceWork],
    *,
    layout: Layout,
    environ: Mapping[str, str],
    earlier: Mapping[tuple[str, str], Fetched],
    model: bool,
    scratch: Path | None,
    models: Mapping[str, Model],
    emit: Emit,
    stopped: Callable[[], bool],
) -> None:
    """Fill snapshot and changes of every work, or its error.

    `model`: whether one reads the files. `models`: the semantic layers of databases whose history is read. `scratch`: a
    folder for what is fetched, in place of those of the project.
    """
    raw = RawStore(scratch or layout.raw_store)

    def one(work: SourceWork) -> None:
        known = earlier.get((work.connection, work.kind), Fetched())
        context = FetchContext(
            work.connection,
            layout,
            environ,
            raw,
            known.cursor,
            known.files or {},
            None if scratch is None else scratch / "cache",
            models,
            emit,
            stopped,
        )
        _fetch(work, context, model)

    with ThreadPoolExecutor(AT_ONCE, "ktx-fetch") as pool:
        list(pool.map(one, works))


def _fetch(work: SourceWork, context: FetchContext, model: bool) -> None:
    step = f"fetch {work.kind}"
    context.emit(StepStarted(step, work.connection))
    started = monotonic()
    try:
        work.snapshot = work.source.fetch(work.entry, context)
        work.changes = compare(work.manifest, work.snapshot, model=model)
        summary = plural(len(work.snapshot.files), "file")
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with one source, the others go on
        work.error = problem if isinstance(problem, KtxError) else _internal(work, problem)
        summary = "failed"
    work.seconds = monotonic() - started
    context.emit(StepFinished(step, summary, work.seconds, work.connection))


def _internal(work: SourceWork, problem: Exception) -> KtxError:
    log.debug("the fetch of %s failed", work.name, exc_info=problem)
    return KtxError(
        f"connection `{work.connection}`: ktx failed unexpectedly: {type(problem).__name__}",
        code="internal",
        hint=f"ktx ingest {work.connection} --debug",
    )
