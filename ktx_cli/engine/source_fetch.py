"""Fetches the sources of a run, several at once; a source that fails costs only itself."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ktx_cli.agent_tools import Layers
from ktx_cli.core import CancelledError, Emit, KtxError, StepFinished, StepStarted, isoformat, monotonic, now, plural
from ktx_cli.engine.base import Run
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.source_work import choose_sources, suspicious_texts, tables, warn_of_ignored
from ktx_cli.engine.work import SourceWork, actions_of
from ktx_cli.project import Layout, Tree, Workspace, transaction
from ktx_cli.semantic import Model
from ktx_cli.sources import (
    QUERY_HISTORY,
    FetchContext,
    FileState,
    FileStatus,
    Manifest,
    ProjectContext,
    Projection,
    RawStore,
    compare,
    render_manifest,
)

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


FORMAT = "1"
"""Raised when projections of the same input become others."""


def project_all(
    works: Sequence[SourceWork],
    workspace: Workspace,
    layers: Layers,
    *,
    done: Mapping[tuple[str, str], str],
    emit: Emit,
) -> None:
    """Project the sources one after another, each on what those before it wrote.

    One whose files, settings and tables are as at its last projection is left as it is; `done`: (connection, kind) ->
    digest of a later look that changed nothing. One whose definitions would be wrong changes nothing.
    """
    for work in works:
        known = {work.manifest.projected, done.get((work.connection, work.kind), "")}
        if work.error is None and digest(work, workspace) not in known:
            _project(work, workspace, layers, emit)


def _project(work: SourceWork, workspace: Workspace, layers: Layers, emit: Emit) -> None:
    step = f"project {work.kind}"
    emit(StepStarted(step, work.connection))
    started = monotonic()
    trial = workspace.child()
    try:
        models = {each: layers.model(trial, each) for each in layers.dialects}
        context = ProjectContext(work.connection, trial, models, work.manifest.owned)
        projection = work.source.project(work.entry, work.snapshot, context)
        _check(work, Gates(workspace, layers), trial)
        told = suspicious_texts(work.name, work.connection, workspace, trial)
        conflicts = workspace.absorb(trial)
        if conflicts:  # nothing else writes to the overlay meanwhile
            raise KtxError(f"the projection of {work.name} does not fit: {conflicts[0]}", code="internal")
        work.projection = replace(projection, warnings=(*projection.warnings, *told))
        summary = plural(len(projection.artifacts), "file")
    except Exception as problem:  # noqa: BLE001 - whatever is wrong with one source, the others go on
        work.error = problem if isinstance(problem, KtxError) else _projecting_internal(work, problem)
        summary = "failed"
    emit(StepFinished(step, summary, monotonic() - started, work.connection))


def _check(work: SourceWork, gates: Gates, trial: Workspace) -> None:
    wrong = gates.definitions(trial, trial.changes())
    if wrong:
        raise KtxError(
            f"what {work.name} says cannot be taken over: {wrong[0]}",
            code="wrong_definitions",
            hint=wrong[0].hint or "correct it in the source, then run the command again",
            details={"findings": [str(each) for each in wrong]},
        )


def digest(work: SourceWork, workspace: Workspace) -> str:
    """Return what tells everything a projection reads from what it read before: settings, raw files, tables."""
    found = hashlib.sha256(f"{FORMAT}\n{work.kind}\n{work.entry!r}\n".encode())
    found.update("".join(f"{path}\0{file.sha256}\n" for path, file in work.snapshot.files.items()).encode())
    found.update(tables(workspace))
    return found.hexdigest()


def _projecting_internal(work: SourceWork, problem: Exception) -> KtxError:
    log.debug("the projection of %s failed", work.name, exc_info=problem)
    return KtxError(
        f"connection `{work.connection}`: ktx failed unexpectedly: {type(problem).__name__}",
        code="internal",
        hint=f"ktx ingest {work.connection} --debug",
    )


def read_sources(
    run: Run,
    base: Tree,
    fetches: Mapping[Of, Fetched],
    projected: Mapping[Of, str],
    *,
    scratch: Path | None = None,
) -> None:
    """Fill `run.works`, and the overlay with what needs no model.

    `fetches`, `projected`: what earlier runs left of each source. `scratch`: a folder for what is fetched, where
    nothing of the project may change.
    """
    request = run.request
    works = choose_sources(run.config, run.targets, base, model=run.asks_model)
    run.works.extend(works)
    fetch_all(
        [work for work in works if work.error is None],
        layout=run.layout,
        environ=request.environ,
        earlier=fetches,
        model=run.asks_model,
        scratch=scratch,
        models=_asked(run, works),
        emit=request.emit,
    )
    project_all(works, run.workspace, run.layers, done=projected, emit=request.emit)
    for work in works:
        if work.error is None and run.asks_model:
            said = work.projection or Projection()
            work.units = work.source.units(work.entry, work.snapshot, work.changes, said)
        run.warnings.extend(work.snapshot.warnings)
        run.warnings.extend(() if work.projection is None else work.projection.warnings)
    warn_of_ignored(run)


def _asked(run: Run, works: Iterable[SourceWork]) -> Mapping[str, Model]:
    """Return the semantic layers of the databases whose query history is read."""
    ids = [work.connection for work in works if work.kind == QUERY_HISTORY]
    return {each: run.layers.model(run.workspace, each) for each in ids}


Of = tuple[str, str]
"""Connection and kind of a source."""


def next_manifest(work: SourceWork, workspace: Workspace) -> Manifest:
    """Return the manifest after this run.

    Equal to the committed one where neither a file nor what is owned is another, whatever else a projection read.
    """
    made = _manifest(work)
    return work.manifest if made == work.manifest else replace(made, projected=digest(work, workspace))


def _manifest(work: SourceWork, failed: Collection[str] = ()) -> Manifest:
    """Return the states; `failed`: raw files whose work did not land, so that they count as new.

    A deleted file of which something came stays until somebody decided what becomes of that.
    """
    came, unfinished = _artifacts(work), work.unfinished()
    gone = {path for path in work.changes.deleted if path in work.evicted or not work.manifest.files[path].artifacts}
    kept = {path: state for path, state in work.manifest.files.items() if path not in gone}
    files = {
        path: FileState(
            file.sha256,
            FileStatus.FAILED if path in failed or path in unfinished else _status(work, path),
            tuple(sorted(came.get(path, ()))),
        )
        for path, file in work.snapshot.files.items()
    }
    projected = work.manifest.owned if work.projection is None else work.projection.owned
    owned = projected if work.told.owned is None else work.told.owned
    return Manifest({**kept, **files}, owned, work.manifest.projected)


def _status(work: SourceWork, path: str) -> FileStatus:
    state = work.manifest.files.get(path)
    if state is not None and path not in work.changes.touched:
        return state.status
    if path in work.worthless:
        return FileStatus.SKIPPED
    handled = work.projection is not None and path in work.projection.handled
    return FileStatus.DONE if work.asked or handled else FileStatus.WAITING


def _artifacts(work: SourceWork) -> Mapping[str, set[str]]:
    """Return raw file -> the artifacts that came of it, of this run and of earlier ones.

    Of a file that changed too: its pages stand whether or not a model has read it again. Only what its units removed
    is no more.
    """
    removed = {each.identity for outcome in work.landed() for each in actions_of(outcome) if each.kind == "removed"}
    found = {path: {*state.artifacts} - removed for path, state in work.manifest.files.items()}
    for artifact, paths in work.produced().items():
        for path in paths:
            found.setdefault(path, set()).add(artifact)
    return found


def write_manifests(works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Put the manifests of all sources that were read into the overlay."""
    for work in works:
        if work.error is None:
            made = next_manifest(work, workspace)
            if made != work.manifest:
                workspace.write(work.manifest_path, render_manifest(made))


def manifests_without(works: Iterable[SourceWork], held: frozenset[str]) -> dict[str, bytes]:
    """Return the manifests, as texts by path, for when the held paths keep their old content.

    What is owned there is owned as before, files whose artifacts they are count as new, and the source projects again.
    """
    found: dict[str, bytes] = {}
    for work in works:
        if work.error is not None or not work.touched_paths().intersection(held):
            continue
        failed = {path for each in work.landed() if held.intersection(each.changes) for path in each.unit.files}
        made = _manifest(work, failed)
        owned = {path: items for path, items in made.owned.items() if path not in held}
        owned |= {path: items for path, items in work.manifest.owned.items() if path in held}
        found[work.manifest_path] = render_manifest(Manifest(made.files, owned))
    return found


Fetches = tuple[Mapping[Of, Fetched], Mapping[Of, str]]
"""Per source what its last fetch left, and the digest of what its last projection read."""


def load_fetches(database: sqlite3.Connection) -> Fetches:
    """Return per source what its last fetch left, and the digest of what its last projection read."""
    rows = database.execute("SELECT connection, kind, cursor, files, projected FROM fetches").fetchall()
    fetches = {(row[0], row[1]): Fetched(row[2], json.loads(row[3])) for row in rows}
    return fetches, {(row[0], row[1]): row[4] for row in rows}


def save_fetches(database: sqlite3.Connection, works: Iterable[SourceWork], workspace: Workspace) -> None:
    """Store where the next fetches may go on; called when the run has landed, never before."""
    with transaction(database):
        for work in works:
            if work.error is None:
                files = {path: file.sha256 for path, file in work.snapshot.files.items()}
                values = (work.connection, work.kind, isoformat(now()), work.snapshot.cursor, json.dumps(files))
                database.execute(
                    "INSERT OR REPLACE INTO fetches VALUES (?, ?, ?, ?, ?, ?)", (*values, digest(work, workspace))
                )
