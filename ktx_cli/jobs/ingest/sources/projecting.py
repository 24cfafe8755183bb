"""Lets every source say what needs no model, into the overlay of the run."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ktx_cli.context.sources.port import ProjectContext
from ktx_cli.context.tools.models import Layers
from ktx_cli.core.clock import monotonic
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Emit, StepFinished, StepStarted
from ktx_cli.core.text import plural
from ktx_cli.jobs.ingest.gates import Gates
from ktx_cli.jobs.ingest.sources.structure import tables
from ktx_cli.jobs.ingest.sources.suspicious import suspicious_texts
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.project.workspace import Workspace

log = logging.getLogger(__name__)

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
        work.error = problem if isinstance(problem, KtxError) else _internal(work, problem)
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


def _internal(work: SourceWork, problem: Exception) -> KtxError:
    log.debug("the projection of %s failed", work.name, exc_info=problem)
    return KtxError(
        f"connection `{work.connection}`: ktx failed unexpectedly: {type(problem).__name__}",
        code="internal",
        hint=f"ktx ingest {work.connection} --debug",
    )
