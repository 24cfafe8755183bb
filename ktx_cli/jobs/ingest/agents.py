"""Lets agents work through the sources of a run, and takes over what they came to."""

from __future__ import annotations

import sqlite3

from ktx_cli.core import CancelledError
from ktx_cli.engine import (
    AgentResult,
    AgentWork,
    Models,
    Run,
    conclude,
    decided_evictions,
    page_warnings,
    run_agents,
    take_conclusions,
)


def work_through(run: Run, models: Models, database: sqlite3.Connection) -> None:
    """Put what lands of the agents' work into the overlay of the run.

    Raises `CancelledError` when the user asked to end: finished units are kept for the next run.
    """
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
