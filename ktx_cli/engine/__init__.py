"""Runs agents over what was read: plans, tasks, integration, publication, reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.engine.agents import AgentResult, AgentWork, run_agents
    from ktx_cli.engine.base import (
        IngestRequest,
        LastFetch,
        LastScan,
        ProjectBase,
        Run,
        forecast,
        last_fetches,
        last_runs,
        last_scans,
    )
    from ktx_cli.engine.context import AgentContext
    from ktx_cli.engine.definitions import BrokenDefinition, broken_now, keep_broken, newly_broken, said, way_out
    from ktx_cli.engine.describe import Answers, enriched, foretold, kept_answers
    from ktx_cli.engine.gates import Gates, folder, page_warnings
    from ktx_cli.engine.journal import forget_own_units, forget_units
    from ktx_cli.engine.models import Models, Preflight, PreflightFailed
    from ktx_cli.engine.plan import Depth, Prompts, RunPlan, Spending, Target, choose_depth, needs_model, not_enriched
    from ktx_cli.engine.profile import ValueKeeper, exclusion_hint
    from ktx_cli.engine.publication import (
        begin_workspace,
        commit,
        remember,
        remember_sources,
        report_files,
        write_report,
    )
    from ktx_cli.engine.reconciliation import decided_evictions
    from ktx_cli.engine.report import FAILED, PLANNED, ConnectionReport, Enrich, IngestReport
    from ktx_cli.engine.scan import Keep, ScanContext, scan_target
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

_HOMES = {
    "agents": "AgentResult AgentWork run_agents",
    "context": "AgentContext",
    "base": "IngestRequest LastFetch LastScan ProjectBase Run forecast last_fetches last_runs last_scans",
    "definitions": "BrokenDefinition broken_now keep_broken newly_broken said way_out",
    "describe": "Answers enriched foretold kept_answers",
    "gates": "Gates folder page_warnings",
    "journal": "forget_own_units forget_units",
    "models": "Models Preflight PreflightFailed",
    "plan": "Depth Prompts RunPlan Spending Target choose_depth needs_model not_enriched",
    "profile": "ValueKeeper exclusion_hint",
    "publication": "begin_workspace commit remember remember_sources report_files write_report",
    "reconciliation": "decided_evictions",
    "report": "ConnectionReport Enrich FAILED IngestReport PLANNED",
    "scan": "Keep ScanContext scan_target",
    "source_phase": (
        "FetchStates choose_sources conclude ignored_manifests load_fetches read_sources source_warnings "
        "take_conclusions write_manifests"
    ),
    "task": "AgentRunner AgentTask",
    "units": "agents_needed judge_writes unit_key",
    "work": "SourceWork UnitOutcome UnitStatus",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
