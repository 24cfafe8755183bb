"""The sources of a run: read, and worked through by agents where these have something to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ktx_cli.core import Notice
from ktx_cli.engine import (
    FetchStates,
    Models,
    ProjectBase,
    Run,
    conclude,
    ignored_manifests,
    load_fetches,
    read_sources,
    source_warnings,
    take_conclusions,
    write_manifests,
)
from ktx_cli.project import translated


def work_through_sources(run: Run, base: ProjectBase, models: Models | None, database: sqlite3.Connection) -> None:
    """Read the sources, and let agents work through what these have for them."""
    with translated(run.plan.layout.state):
        fetches = load_fetches(database)
    read_all(run, base, fetches)
    if models is not None and run.plan.asks_model and _has_work(run, database):
        models.begin()
        from ktx_cli.jobs.ingest.agents import work_through

        work_through(run, models, database)
    else:
        conclude_all(run)
    write_manifests(run.works, run.workspace)


def _has_work(run: Run, database: sqlite3.Connection) -> bool:
    from ktx_cli.engine import agents_needed

    return agents_needed(run.works, database)


def read_all(run: Run, base: ProjectBase, fetches: FetchStates, *, scratch: Path | None = None) -> None:
    """Read the sources; `scratch`: a folder for what is fetched, where nothing of the project may change."""
    works = read_sources(run, base, fetches, scratch=scratch)
    run.works.extend(works)
    run.plan.recorder.warn_of(source_warnings(works))
    for warning in ignored_manifests(run.plan.layout.root, works):
        run.plan.warn(warning)
        run.plan.emit(Notice(warning.message))


def conclude_all(run: Run) -> None:
    """Let the sources write what follows without agents, such as that nobody asks a question any more."""
    take_conclusions(run, conclude(run.works, run.workspace, run.plan.layers))
