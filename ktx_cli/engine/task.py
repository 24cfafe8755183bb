"""Agent tasks, what the tasks of one run share, and the runner that runs every kind of task.

Work units, curator passes, reconciliation, repairs, captures and questions of an evaluation are configurations of
`AgentTask`. `AgentRunner` keeps their journal, replays what an earlier run finished, resumes where one was killed,
counts steps, and decides what an error means for the run.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ktx_cli.agent_tools import Find, Layers, Library, TaskPrompt, ToolSession
from ktx_cli.core import Emit, Event, KtxError, Notice, WorkUnitFinished, WorkUnitStarted, WorkUnitStep, ignore_events
from ktx_cli.documents import WorkUnit
from ktx_cli.engine.gates import Gates
from ktx_cli.engine.plan import RunPlan
from ktx_cli.engine.work import (
    DamagedOutcomeError,
    SavedState,
    TaskJournal,
    TaskStore,
    UnitOutcome,
    UnitStatus,
    changes_of,
)
from ktx_cli.llm import Abort, LlmRuntime, LoopResult, RuntimeTool, Step, model_for
from ktx_cli.project import StateDatabase, Workspace
from ktx_cli.prompts import Prompt, Skill
from ktx_cli.semantic import ColumnValues, ConnectionGuard, Source, calendar_of, load_lists
from ktx_cli.telemetry import operation
from ktx_cli.warehouses import QueryResult, TableRef, runs_pipelines

FORMAT: Final = "1"
"""Increased when the processing of a unit changes."""

MOST_VALUES: Final = 5
"""Number of values of a column that an agent sees, the most frequent ones."""

MOST_CODES: Final = 20
"""Maximum length of a code list; an agent sees the whole list if the project shares code lists."""


class ValueSamples:
    """The value lists from the last scans, read when a connection's lists are first requested."""

    def __init__(self, database: StateDatabase, *, codes: bool = False) -> None:
        """`codes`: return whole code lists, and omit longer or possibly incomplete lists."""
        self._database = database
        self._codes = codes
        self._lists: dict[str, dict[str, list[ColumnValues]]] = {}

    def __call__(self, connection: str, source: Source) -> Mapping[str, tuple[Any, ...]]:
        """Return column -> values, without columns that have no list."""
        if source.table is None:
            return {}
        return {
            column.name: tuple(value for value, _ in listed.values[: MOST_CODES if self._codes else MOST_VALUES])
            for listed in self._lists_of(connection).get(source.table[-1].casefold(), ())
            if source.is_of(listed.ref)
            and (column := source.column(listed.column)) is not None
            and column.expr is None
            and listed.values
            and (not self._codes or (listed.complete and len(listed.values) <= MOST_CODES))
        }

    def _lists_of(self, connection: str) -> Mapping[str, list[ColumnValues]]:
        if connection not in self._lists:
            by_table: dict[str, list[ColumnValues]] = {}
            for values in load_lists(self._database, connection):
                by_table.setdefault(values.ref.name.casefold(), []).append(values)
            self._lists[connection] = by_table
        return self._lists[connection]


@dataclass(frozen=True)
class AgentContext:
    """What the agent tasks of one run share; it does not change while they run."""

    plan: RunPlan
    base: Workspace
    """The overlay that every unit starts from."""
    gates: Gates
    prompts: Mapping[str, Prompt]
    skills: Mapping[str, Skill]
    library: Library
    """The documents of the run."""
    values: ValueSamples
    find: Find
    """Searches an overlay."""

    @property
    def layers(self) -> Layers:
        """The semantic layers of the databases."""
        return self.gates.layers

    def open_session(
        self, workspace: Workspace, connections: Mapping[str, str] | None = None, **fields: Any
    ) -> ToolSession:
        """Open the tools for a task on its own overlay.

        `connections`: the databases that the task may work on, with their dialects; None: all. `fields`: see
        `ToolSession`.
        """
        return ToolSession(
            workspace,
            connections=self.plan.dialects if connections is None else connections,
            configured=self.plan.config.connections.keys(),
            calendar=calendar_of(self.plan.config),
            privacy=self.plan.config.scan.privacy,
            share_code_lists=self.plan.config.scan.share_code_lists,
            run_sql=self._run_sql,
            run_pipeline=self._run_pipeline,
            pipelines=[name for name, each in self.plan.config.databases().items() if runs_pipelines(each.driver)],
            check_data=self.gates.check_data,
            values=self.values,
            find=self.find,
            skills=self.skills,
            **fields,
        )

    def version(self, role: str) -> str:
        """Return the identity of the prompts, skills and model of a role; if it changes, the work is different."""
        ref = model_for(self.plan.config, role)
        parts = [FORMAT, *self._text_versions, ref.backend, ref.model]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @functools.cached_property
    def _text_versions(self) -> tuple[Mapping[str, str], Mapping[str, str]]:
        skills = {name: hashlib.sha256(skill.text.encode()).hexdigest() for name, skill in self.skills.items()}
        return {name: prompt.version for name, prompt in self.prompts.items()}, skills

    def _run_sql(self, connection: str, sql: str, limit: int) -> QueryResult:
        model = self.layers.model(self.base, connection)
        tables = [source.table for source in model.sources.values() if source.table is not None]
        plan = self.plan
        guard = ConnectionGuard.of(plan.layout, plan.config, connection, tables)
        guard.check(sql, max_rows=limit)
        with guard.open(plan.config, layout=plan.layout, environ=plan.environ) as connector:
            return connector.query(sql, max_rows=limit)

    def _run_pipeline(
        self, connection: str, collection: str, pipeline: Sequence[Mapping[str, Any]], limit: int
    ) -> QueryResult:
        plan = self.plan
        guard = ConnectionGuard.of(plan.layout, plan.config, connection)
        guard.policy.require_raw_sql()
        with guard.open(plan.config, layout=plan.layout, environ=plan.environ) as connector:
            return connector.aggregate(TableRef(None, collection), pipeline, max_rows=limit)


ENDING: Final = frozenset({"auth", "billing", "isolation", "no_backend", "rate_limit", "budget"})
"""Codes of errors after which no task can work: no new task starts, and finished work is committed."""


class Cancellation:
    """Why a run starts no new tasks: an error that ends its model work, or an interrupt by the user."""

    def __init__(self, error: KtxError | None = None) -> None:
        self.error = error
        self.requested = False
        self.abort = Abort()

    @property
    def is_set(self) -> bool:
        """Whether no new tasks are started."""
        return self.requested or self.error is not None or self.abort.thrown

    def record(self, error: KtxError, *, always: bool = False) -> bool:
        """Record the error of a task and return whether it ends the run; `always`: record it regardless of its code."""
        if self.error is None and (always or error.code in ENDING):
            self.error = error
        return error.code in ENDING

    def abort_now(self, error: KtxError | None = None) -> None:
        """End the tasks in progress too; called in the event loop of the model calls."""
        self.error = self.error or error
        self.abort.throw()


Judge = Callable[[UnitOutcome, LoopResult], UnitOutcome]
"""Takes the outcome of a finished loop, and returns the final one: unchanged, failed, or with more records."""


def _accept(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
    return outcome


@dataclass(frozen=True, slots=True)
class AgentTask:
    """One agent loop: the model's input, the tools it may use, and how its result is judged."""

    unit: WorkUnit
    """What the task works on; its key and label name the task."""
    role: str
    """The role whose model performs the task."""
    prompt: Callable[[], TaskPrompt]
    """Writes the prompts when the loop starts; a `KtxError` fails the task."""
    tools: Callable[[], Sequence[RuntimeTool]]
    step_budget: int
    """Maximum number of model steps."""
    connection: str = ""
    """The connection that the task is about; empty for a task about a whole run."""
    kind: str = ""
    """The kind of source that the task is about."""
    session: ToolSession | None = None
    """The session of the tools; its overlay and its records are the outcome."""
    judge: Judge = _accept
    key: str = ""
    """The key under which the task's steps are stored, so that a killed run can resume; empty: nothing is stored."""
    state: SavedState | None = None
    """What is stored with each step; None: the session's records."""
    is_unit: bool = False
    """Whether the task is announced, and its outcome stored until the commit and replayed by the next run."""
    is_replayable: Callable[[UnitOutcome], bool] = lambda outcome: True
    """Whether a stored outcome is still valid."""
    step_event: Callable[[Step, int], Event] | None = None
    """Creates the event for a step from the step and the number of tool calls so far; None: the default."""

    @property
    def label(self) -> str:
        """Its name in transcripts."""
        return f"{self.connection}:{self.unit.key}" if self.connection else self.unit.key

    def event(self, step: Step, calls: int) -> Event | None:
        """Return the event for a step."""
        if self.step_event is not None:
            return self.step_event(step, calls)
        return WorkUnitStep(self.connection, self.unit.key, step.index, step.budget, calls) if self.is_unit else None

    def outcome(self, result: LoopResult) -> UnitOutcome:
        """Return the outcome of a finished loop."""
        outcome = replace(
            UnitOutcome(self.connection, self.kind, self.unit, UnitStatus.DONE, facts=result.facts),
            steps=result.facts.steps,
            tool_calls=result.facts.tool_calls,
            budget_used=result.stop_reason == "budget",
        )
        if self.session is None:
            return outcome
        recorded = {name: value for name, value in self.session.state().items() if name in ("actions", "records")}
        return replace(outcome, changes=changes_of(self.session.workspace), session=recorded)

    def unfinished(self, status: UnitStatus, error: KtxError, result: LoopResult | None = None) -> UnitOutcome:
        """Return the outcome of a loop that ended with an error."""
        facts = None if result is None else result.facts
        return UnitOutcome(self.connection, self.kind, self.unit, status, error.message, error=error, facts=facts)


@dataclass(frozen=True, slots=True)
class AgentRunner:
    """Runs the tasks of one run, possibly several at a time."""

    runtime: LlmRuntime
    cancellation: Cancellation = field(default_factory=Cancellation)
    store: TaskStore | None = None
    """Where outcomes and steps are stored; None: nowhere."""
    emit: Emit = ignore_events

    async def run(self, task: AgentTask) -> UnitOutcome:
        """Return the outcome of a task: replayed from an earlier run, resumed after an interruption, or run now."""
        stored = self.store.outcome(task.key) if self.store is not None and task.is_unit else None
        replayed = self.replayed(task, stored)
        if replayed is not None:
            return replayed
        if not task.is_unit:
            return replace(await self._loop(task), kept_as=task.key)
        self.emit(WorkUnitStarted(task.connection, task.unit.key, task.unit.label, len(task.unit.files)))
        attributes = {"ktx.connection": task.connection}
        with operation("work_unit", metric="ktx.work_unit.duration", attributes=attributes) as current:
            outcome = replace(await self._loop(task), kept_as=task.key)
            current.set("ktx.work_unit.status", outcome.status.value)
            if outcome.error is not None:
                current.fail(outcome.error)
        self._keep(task, outcome)
        self.emit(WorkUnitFinished(task.connection, task.unit.key, outcome.status.value, outcome.reason))
        return outcome

    async def _loop(self, task: AgentTask) -> UnitOutcome:
        calls = 0

        def on_step(step: Step) -> None:
            nonlocal calls
            calls += len(step.tool_names)
            event = task.event(step, calls)
            if event is not None:
                self.emit(event)

        try:
            prompt = task.prompt()
            result = await self.runtime.run_agent_loop(
                prompt.parts,
                system=prompt.system,
                tools=task.tools(),
                step_budget=task.step_budget,
                role=task.role,
                on_step_finish=on_step,
                abort=self.cancellation.abort,
                journal=self._journal(task),
                label=task.label,
            )
        except KtxError as error:
            return self._failed(task, error)
        if result.error is not None:
            return self._failed(task, result.error, result)
        return task.judge(task.outcome(result), result)

    def _failed(self, task: AgentTask, error: KtxError, result: LoopResult | None = None) -> UnitOutcome:
        """Return the outcome of a task ended by an error: left for the next run if the whole run cannot continue."""
        ends = self.cancellation.record(error) or error.code == "cancelled"
        return task.unfinished(UnitStatus.LEFT if ends else UnitStatus.FAILED, error, result)

    def _journal(self, task: AgentTask) -> TaskJournal | None:
        state = task.state or task.session
        if self.store is None or state is None or not task.key:
            return None
        return TaskJournal(self.store, task.key, state)

    def replayed(self, task: AgentTask, stored: Mapping[str, Any] | None) -> UnitOutcome | None:
        """Return the outcome of a unit that an earlier run finished, or None. `stored`: what is stored for it."""
        if stored is None:
            return None
        try:
            outcome = UnitOutcome.of_kept(task.connection, task.kind, task.unit, stored, task.key)
        except DamagedOutcomeError as error:
            assert self.store is not None
            self.store.forget(task.key)
            self.emit(Notice(f"{error.message}; the unit is processed again"))
            return None
        if not task.is_replayable(outcome):
            return None
        self.emit(WorkUnitFinished(task.connection, task.unit.key, outcome.status.value, "", replayed=True))
        return outcome

    def _keep(self, task: AgentTask, outcome: UnitOutcome) -> None:
        if self.store is None:
            return
        if outcome.status is UnitStatus.DONE:
            stored = {**outcome.kept(), **outcome.details}
            self.store.keep(task.key, task.connection, task.kind, task.unit.key, stored)
        elif outcome.status is UnitStatus.FAILED:
            self.store.drop_steps(task.key)
