"""The run engine: plans, agent tasks, integration, publication and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.engine.agents import AgentResult, AgentWork, judge_writes, run_agents, unit_key, unit_task
    from ktx_cli.engine.coordinator import WorkerCancellation, process_unit, register, run_worker
    from ktx_cli.engine.definition_questions import definition_demand, write_definition_questions
    from ktx_cli.engine.definitions import broken_now, broken_sentence, check_definitions, keep_broken, way_out
    from ktx_cli.engine.digests import Kept
    from ktx_cli.engine.forecast import RunEstimate, estimate_run
    from ktx_cli.engine.gates import Gates, MetricGate, page_warnings
    from ktx_cli.engine.lifecycle import ChangeSet, LockedRun, ProjectBase, closing, under_lock, writable_repository
    from ktx_cli.engine.models import ENDING_NOTICE, Models, Preflight
    from ktx_cli.engine.packages import RunPackage, own_files, package_config
    from ktx_cli.engine.plan import Begun, PreflightFailed, RunPlan, Spending, Target, usage_words
    from ktx_cli.engine.provenance import reconciled_by, rewrite_deliveries, what_became
    from ktx_cli.engine.queue import (
        Outage,
        Queue,
        UnitJob,
        WorkerIdentity,
        claim,
        has_outage,
        has_queue,
        open_queue,
        queue_schema,
        queue_version,
        share_pace,
        taken_queue,
    )
    from ktx_cli.engine.queue_status import QueueFacts, queue_facts
    from ktx_cli.engine.reconciliation import decided_evictions
    from ktx_cli.engine.report import FAILED, PLANNED, ConnectionReport, IngestReport
    from ktx_cli.engine.source_phase import (
        choose_sources,
        conclude,
        declarations,
        fetch_declaring,
        ignored_deliveries,
        keep_contradictions,
        read_sources,
        source_warnings,
        write_deliveries,
    )
    from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask, Cancellation, ValueSamples
    from ktx_cli.engine.work import (
        SourceWork,
        TaskStore,
        UnitOutcome,
        UnitStatus,
        agents_needed,
        forget_own_units,
        store_key,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
