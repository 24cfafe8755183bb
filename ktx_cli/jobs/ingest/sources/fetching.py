"""Fetches the sources of a run, several at once; a source that fails costs only itself."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.manifest import compare
from ktx_cli.context.sources.port import FetchContext
from ktx_cli.context.sources.raw_store import RawStore
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import CancelledError, KtxError
from ktx_cli.core.events import Emit, StepFinished, StepStarted
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.project.layout import Layout

log = logging.getLogger(__name__)

AT_ONCE: Final = 4
"""Sources that are fetched at the same time: each waits for its own server."""

_GRACE_SECONDS: Final = 1.0
"""How long an interrupted run waits for fetches to end: one may hang in an answer that does not come."""


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
) -> None:
    """Fill snapshot and changes of every work, or its error. An interrupt ends all fetches.

    `model`: whether one reads the files. `models`: the semantic layers of databases whose history is read. `scratch`: a
    folder for what is fetched, in place of those of the project.
    """
    raw = RawStore(scratch or layout.raw_store)
    halt = threading.Event()

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
            halt.is_set,
        )
        _fetch(work, context, model)

    _side_by_side(works, one, halt)


def _side_by_side(works: Sequence[SourceWork], fetch: Callable[[SourceWork], None], halt: threading.Event) -> None:
    """Fetch every work, several at a time; an interrupt sets `halt`, and no thread keeps the process from its end."""
    waiting: queue.SimpleQueue[SourceWork] = queue.SimpleQueue()
    ended: queue.SimpleQueue[SourceWork] = queue.SimpleQueue()
    for work in works:
        waiting.put(work)

    def run() -> None:
        with contextlib.suppress(queue.Empty):
            while not halt.is_set():
                work = waiting.get_nowait()
                try:
                    fetch(work)
                finally:
                    ended.put(work)

    threads = [
        threading.Thread(target=run, name=f"ktx-fetch-{number}", daemon=True)
        for number in range(min(AT_ONCE, len(works)))
    ]
    for thread in threads:
        thread.start()
    try:
        for _ in works:
            ended.get()
    except BaseException:
        halt.set()
        deadline = monotonic() + _GRACE_SECONDS
        while any(thread.is_alive() for thread in threads) and monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                ended.get(timeout=0.05)
        raise


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
        summary = "stopped" if isinstance(problem, CancelledError) else "failed"
    work.seconds = monotonic() - started
    context.emit(StepFinished(step, summary, work.seconds, work.connection))


def _internal(work: SourceWork, problem: Exception) -> KtxError:
    log.debug("the fetch of %s failed", work.name, exc_info=problem)
    return KtxError(
        f"connection `{work.connection}`: ktx failed unexpectedly: {type(problem).__name__}",
        code="internal",
        hint=f"ktx ingest {work.connection} --debug",
    )
