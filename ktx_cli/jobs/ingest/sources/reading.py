"""Reads the context sources of a run into its overlay: fetch, compare, project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.sources.port import Projection
from ktx_cli.context.sources.registry import QUERY_HISTORY
from ktx_cli.jobs.ingest.running import Run
from ktx_cli.jobs.ingest.sources.choosing import choose_sources
from ktx_cli.jobs.ingest.sources.fetching import Fetched, fetch_all
from ktx_cli.jobs.ingest.sources.ignoring import warn_of_ignored
from ktx_cli.jobs.ingest.sources.projecting import project_all
from ktx_cli.jobs.ingest.sources.remembering import Of
from ktx_cli.jobs.ingest.sources.work import SourceWork
from ktx_cli.project.tree import Tree


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
