"""Runs agents over what was read: plans, tasks, integration, publication, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.engine.agents import AgentResult, AgentWork, run_agents
    from ktx_cli.engine.base import LastFetch, ProjectBase, Run, last_fetches
    from ktx_cli.engine.context import AgentContext
    from ktx_cli.engine.definitions import (
        BrokenDefinition,
        broken_now,
        broken_sentence,
        keep_broken,
        newly_broken,
        way_out,
    )
    from ktx_cli.engine.gates import Gates, folder, page_warnings
    from ktx_cli.engine.journal import forget_own_units
    from ktx_cli.engine.models import Models, Preflight
    from ktx_cli.engine.plan import PreflightFailed, RunPlan, Target
    from ktx_cli.engine.publication import begin_workspace, commit, remember, report_files, write_report
    from ktx_cli.engine.reconciliation import decided_evictions
    from ktx_cli.engine.report import FAILED, PLANNED, ConnectionReport, Forecast, IngestReport
    from ktx_cli.engine.source_phase import (
        FetchStates,
        choose_sources,
        conclude,
        ignored_manifests,
        load_fetches,
        read_sources,
        source_warnings,
        take_conclusions,
        write_manifests,
    )
    from ktx_cli.engine.task import AgentRunner, AgentTask
    from ktx_cli.engine.units import agents_needed, judge_writes, unit_key
    from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
