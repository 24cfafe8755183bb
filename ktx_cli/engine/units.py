"""Work units as agent tasks: their tools and prompts, how their end is judged, and running them side by side."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.agent_tools import ToolSession, tools_for, unit_prompt, unresolved_failures
from ktx_cli.core import listing
from ktx_cli.documents import RawFile, WorkUnit
from ktx_cli.engine.documents.evidence import evidence_tools
from ktx_cli.engine.reconciliation import evicted
from ktx_cli.engine.task import AgentContext, AgentTask, Cancellation
from ktx_cli.engine.work import SourceWork, UnitOutcome, UnitStatus, store_key
from ktx_cli.llm import LoopResult, ToolInvocation

ROLE: Final = "candidateExtraction"


def unit_task(context: AgentContext, work: SourceWork, unit: WorkUnit) -> AgentTask:
    """Return the task of a unit, on an overlay of its own."""
    files = work.snapshot.files
    session = context.open_session(
        context.base.child(),
        raw={path: files[path] for path in unit.readable if path in files},
        files=unit.files,
        origin=work.name,
        semantic=unit.semantic,
        why_not=unit.why_not,
        evidence=work.source.evidence,
    )
    if work.source.documents:
        session.extra = evidence_tools(session, context.library)

    def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
        if not outcome.tool_calls:
            return outcome.failed(UnitStatus.FAILED, "the model ended without having called a tool")
        judged = judge_writes(context, session, outcome, result)
        ignored = [] if outcome.did_something else unread(unit.files, result.invocations)
        if judged.status is UnitStatus.DONE and ignored:
            return outcome.failed(UnitStatus.FAILED, f"the model ended without having read {listing(ignored)}")
        return judged

    return AgentTask(
        unit,
        ROLE,
        prompt=lambda: unit_prompt(
            session, unit, context.prompts["work_unit"], skills=work.source.skills, earlier=work.delivered.files
        ),
        tools=lambda: tools_for(session, "unit"),
        step_budget=context.plan.config.ingest.work_units.step_budget,
        connection=work.connection,
        kind=work.kind,
        session=session,
        judge=judge,
        key=unit_key(context, work, unit),
        is_unit=True,
    )


def judge_writes(context: AgentContext, session: ToolSession, outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
    """Return an outcome as failed where a tool failure was left as it was, or definitions it wrote are wrong."""
    failures = unresolved_failures(session, result.invocations)
    if failures:
        messages = listing(f"{failure.target}: {failure.message}" for failure in failures)
        return outcome.failed(UnitStatus.FAILED, f"tool failures nothing made good: {messages}")
    wrong = context.gates.definitions(session.workspace, outcome.changes)
    if wrong:
        return outcome.failed(UnitStatus.FAILED, f"definitions it wrote are wrong: {listing(map(str, wrong))}")
    return outcome


def unit_key(context: AgentContext, work: SourceWork, unit: WorkUnit) -> str:
    """Return what a unit is stored under: the same key is the same work."""
    files = work.snapshot.files
    hashes = (_hashes(unit.files, files), _hashes(unit.dependencies, files))
    return store_key(work.connection, work.kind, [context.version(ROLE), unit.key, unit.notes, unit.semantic, *hashes])


def _hashes(paths: Sequence[str], files: Mapping[str, RawFile]) -> list[list[str]]:
    return [[path, files[path].sha256] for path in paths if path in files]


_READERS: Final = frozenset(("read_raw_file", "read_raw_span"))
_EVIDENCE_READER: Final = "context_evidence_read"
"""It names passages, not files: whoever calls it has looked at the documents."""


def unread(files: Sequence[str], invocations: Iterable[ToolInvocation]) -> list[str]:
    """Return the files of a unit that no call asked for; one that was refused was asked for."""
    asked: set[str] = set()
    for call in invocations:
        if call.name == _EVIDENCE_READER:
            return []
        if call.name in _READERS and not isinstance(call.arguments, str):
            asked.add(PurePosixPath(str(call.arguments.get("path"))).as_posix())
    return [path for path in files if path not in asked]


async def run_units(
    works: Iterable[SourceWork],
    run: Callable[[SourceWork, WorkUnit], Awaitable[UnitOutcome]],
    *,
    at_once: int,
    cancellation: Cancellation,
) -> list[UnitOutcome]:
    """Run the units of all sources side by side and return their outcomes in order; one not begun is `left`."""
    slots = asyncio.Semaphore(at_once)

    async def run_one(work: SourceWork, unit: WorkUnit) -> UnitOutcome:
        async with slots:
            if cancellation.is_set:
                return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, "the run ended before it")
            return await run(work, unit)

    units = [(work, unit) for work in works if work.error is None for unit in work.units]
    return list(await asyncio.gather(*(run_one(work, unit) for work, unit in units)))


def agents_needed(works: Sequence[SourceWork], database: sqlite3.Connection) -> bool:
    """Whether there is a unit, a deleted file that something came of, or a candidate that waits."""
    if any(work.units for work in works if work.error is None) or any(evicted(work) for work in works):
        return True
    waiting: set[Any] = set(database.execute("SELECT DISTINCT connection, kind FROM waiting_candidates"))
    return any(work.key in waiting for work in works if work.error is None)
