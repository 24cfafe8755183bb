"""The sources of a run: read, and worked through by agents where these have something to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from ktx_cli.core import CancelledError, Notice
from ktx_cli.engine import (
    FetchStates,
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

if TYPE_CHECKING:
    from ktx_cli.engine import AgentResult, Models


def work_through_sources(run: Run, base: ProjectBase, models: Models | None, database: sqlite3.Connection) -> None:
    """Read the sources, and let agents work through what these have for them."""
    with translated(run.plan.layout.state):
        fetches = load_fetches(database)
    read_all(run, base, fetches)
    if models is not None and run.plan.asks_model and _has_work(run, database):
        models.begin()
        _work_through(run, models, database)
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


def _work_through(run: Run, models: Models, database: sqlite3.Connection) -> None:
    """Put what lands of the agents' work into the overlay of the run.

    Raises `CancelledError` when the user asked to end: finished units are kept for the next run.
    """
    from ktx_cli.engine import AgentWork, run_agents

    plan = run.plan
    work = AgentWork(
        plan,
        run.works,
        run.workspace,
        after_units=lambda workspace, outcomes: conclude(run.works, workspace, plan.layers, outcomes),
    )
    result = run_agents(work, models, database)
    if result.is_interrupted:
        raise CancelledError("interrupted", hint=f"run `{plan.command}` again: finished work is kept")
    if plan.config.ingest.work_units.failure_mode == "abort" and result.failed is not None:
        raise result.failed
    _take_over(run, result)


def _take_over(run: Run, result: AgentResult) -> None:
    from ktx_cli.engine import decided_evictions, page_warnings

    integration, documents = result.integration, result.documents
    reconciliation, curations = integration.review.reconciliation, integration.review.curations
    outcomes = [*integration.outcomes, *documents.outcomes(curations)]
    run.plan.recorder.warn_of(page_warnings(run.works, outcomes, run.workspace, integration.workspace))
    run.workspace.absorb(integration.workspace)
    run.curations = curations
    run.report.documents = documents.to_json(curations)
    run.plan.recorder.warn_of(documents.warnings(curations))
    for work in run.works:
        work.skipped_files = documents.skipped(work)
        work.outcomes = tuple(each for each in outcomes if each.source == work.key)
        work.evicted, undecided = decided_evictions(work, reconciliation, integration.workspace)
        run.plan.recorder.warn_of(undecided)
    take_conclusions(run, integration.conclusions)
    run.report.reconciled = reconciliation
    run.report.repaired = integration.repaired
    run.report.stopped = result.stopped


def conclude_all(run: Run) -> None:
    """Let the sources write what follows without agents, such as that nobody asks a question any more."""
    take_conclusions(run, conclude(run.works, run.workspace, run.plan.layers))
