"""The runner of agent tasks: what is announced, stored, replayed and continued, and what an error means for a run."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.agent_tools.prompts import TaskPrompt
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.core.errors import KtxError
from ktx_cli.core.events import Event, ReconcileStep, WorkUnitFinished, WorkUnitStarted, WorkUnitStep
from ktx_cli.documents.raw import WorkUnit
from ktx_cli.engine.task import AgentRunner, AgentTask, Cancellation
from ktx_cli.engine.work import FileChange, TaskStore, UnitOutcome, UnitStatus, store_key
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.types import CallFacts, LoopResult, Step
from ktx_cli.project.layout import EmptyTree, Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.project.workspace import Workspace

UNIT = WorkUnit("refunds.md", "refunds", ("refunds.md",))
KEY = store_key("docs", "files", ["a task"])
PAGE = "wiki/global/refunds.md"


def failed(code: str) -> LlmError:
    return llm_error(code, backend="anthropic", model="m")


class Killed(BaseException):
    """Ends the process, as far as a test can."""


@dataclass
class ScriptedRuntime:
    """Runs loops of scripted steps: each writes a file, is journaled and finishes, until one raises."""

    session: ToolSession
    steps: Sequence[str | BaseException] = ("one", "two")
    error: LlmError | None = None
    loops: list[dict[str, Any]] = field(default_factory=list)
    worked: list[str] = field(default_factory=list)

    async def run_agent_loop(
        self, prompt: str, *, journal: Any = None, on_step_finish: Any, **options: Any
    ) -> LoopResult:
        self.loops.append({"prompt": prompt, **options})
        known = [] if journal is None else journal.load("loop")
        for number, text in enumerate(self.steps[len(known) :], len(known) + 1):
            if isinstance(text, BaseException):
                raise text
            self.session.workspace.write(PAGE, text)
            self.worked.append(text)
            if journal is not None:
                await journal.append("loop", {"entries": [text]})
            on_step_finish(Step(number, options["step_budget"], ("wiki_write", "wiki_read")))
        facts = CallFacts("anthropic", "r", "m", steps=len(self.steps), tool_calls=2 * len(self.steps))
        return LoopResult("done", "error" if self.error else "end", facts, error=self.error)


@dataclass
class World:
    """One run on a state database that several runs share."""

    database: sqlite3.Connection
    state: Path
    events: list[Event] = field(default_factory=list)
    cancellation: Cancellation = field(default_factory=Cancellation)

    def run(self, task: AgentTask, runtime: ScriptedRuntime) -> UnitOutcome:
        store = TaskStore(self.database, self.state)
        runner = AgentRunner(runtime, self.cancellation, store, self.events.append)  # type: ignore[arg-type]
        return asyncio.run(runner.run(task))


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[[], World]]:
    with open_for_writing(Layout(tmp_path)) as database:
        yield lambda: World(database, Layout(tmp_path).state)


def unit_task(session: ToolSession, **fields: Any) -> AgentTask:
    task = AgentTask(
        UNIT,
        "writer",
        prompt=lambda: TaskPrompt("system", "prompt"),
        tools=lambda: (),
        step_budget=9,
        connection="docs",
        kind="files",
        session=session,
        key=KEY,
        is_unit=True,
    )
    return replace(task, **fields)


def session() -> ToolSession:
    return ToolSession(Workspace(EmptyTree()).child(), {})


def test_a_unit_is_announced_counted_and_kept(make_world: Callable[[], World]) -> None:
    world, own = make_world(), session()
    runtime = ScriptedRuntime(own)
    outcome = world.run(unit_task(own), runtime)
    assert (outcome.status, outcome.steps, outcome.tool_calls, outcome.kept_as) == (UnitStatus.DONE, 2, 4, KEY)
    assert outcome.changes == {PAGE: FileChange(None, b"two")}
    assert [type(event) for event in world.events] == [WorkUnitStarted, WorkUnitStep, WorkUnitStep, WorkUnitFinished]
    assert [(each.step, each.budget, each.tool_calls) for each in world.events if isinstance(each, WorkUnitStep)] == [
        (1, 9, 2),
        (2, 9, 4),
    ]
    (loop,) = runtime.loops
    assert (loop["system"], loop["prompt"], loop["role"]) == ("system", "prompt", "writer")
    assert (loop["label"], loop["abort"]) == ("docs:refunds.md", world.cancellation.abort)


def test_what_is_kept_is_replayed_without_the_model(make_world: Callable[[], World]) -> None:
    world, own = make_world(), session()
    keeps = replace(unit_task(own), judge=lambda outcome, result: replace(outcome, details={"budget": [1, 2]}))
    first = world.run(keeps, ScriptedRuntime(own))
    later, runtime = make_world(), ScriptedRuntime(session())
    outcome = later.run(unit_task(runtime.session), runtime)
    assert not runtime.loops
    assert outcome.replayed
    assert (outcome.changes, outcome.details, outcome.kept_as) == (first.changes, {"budget": [1, 2]}, KEY)
    assert [(type(event), event.replayed) for event in later.events if isinstance(event, WorkUnitFinished)] == [
        (WorkUnitFinished, True)
    ]


def test_what_fits_no_more_is_worked_on_again(make_world: Callable[[], World]) -> None:
    own = session()
    make_world().run(unit_task(own), ScriptedRuntime(own))
    runtime = ScriptedRuntime(session())
    outcome = make_world().run(unit_task(runtime.session, is_replayable=lambda kept: False), runtime)
    assert (outcome.replayed, len(runtime.loops)) == (False, 1)


def test_a_task_that_was_killed_goes_on_with_what_its_tools_had_done(make_world: Callable[[], World]) -> None:
    own = session()
    with pytest.raises(Killed):
        make_world().run(unit_task(own), ScriptedRuntime(own, ("one", Killed())))
    runtime = ScriptedRuntime(session(), ("one", "two", "three"))
    outcome = make_world().run(unit_task(runtime.session), runtime)
    assert runtime.worked == ["two", "three"]
    assert outcome.changes == {PAGE: FileChange(None, b"three")}


@pytest.mark.table(
    ("error", "is_raised", "status", "ends"),
    [
        (failed("execution"), True, UnitStatus.FAILED, False),
        (failed("execution"), False, UnitStatus.FAILED, False),
        (failed("context"), False, UnitStatus.FAILED, False),
        (failed("cancelled"), True, UnitStatus.LEFT, False),
        (failed("auth"), True, UnitStatus.LEFT, True),
        (failed("billing"), True, UnitStatus.LEFT, True),
        (failed("billing"), False, UnitStatus.LEFT, True),
        (KtxError("over", code="budget"), True, UnitStatus.LEFT, True),
    ],
)
def test_an_error_costs_its_task_or_ends_the_run(
    make_world: Callable[[], World], error: LlmError, is_raised: bool, status: UnitStatus, ends: bool
) -> None:
    world, own = make_world(), session()
    ended = None if is_raised else error
    runtime = ScriptedRuntime(own, ("one", error) if is_raised else ("one",), ended)
    outcome = world.run(unit_task(own), runtime)
    assert (outcome.status, outcome.reason, outcome.error, outcome.changes) == (status, error.message, error, {})
    assert world.cancellation.error == (error if ends else None)
    assert world.cancellation.is_set == ends
    assert TaskStore(world.database, world.state).outcome(KEY) is None


def test_steps_of_what_failed_are_dropped_and_of_what_was_left_are_kept(make_world: Callable[[], World]) -> None:
    for code, again in (("billing", ["two"]), ("execution", ["one", "two"])):
        own = session()
        make_world().run(unit_task(own), ScriptedRuntime(own, ("one", failed(code))))
        runtime = ScriptedRuntime(session())
        outcome = make_world().run(unit_task(runtime.session, is_replayable=lambda kept: False), runtime)
        assert (outcome.status, runtime.worked) == (UnitStatus.DONE, again), code


def test_a_prompt_that_cannot_be_written_fails_the_task(make_world: Callable[[], World]) -> None:
    def too_long() -> TaskPrompt:
        raise KtxError("too long", code="context")

    runtime = ScriptedRuntime(session())
    outcome = make_world().run(unit_task(runtime.session, prompt=too_long), runtime)
    assert (outcome.status, outcome.reason, runtime.loops) == (UnitStatus.FAILED, "too long", [])


def test_a_judge_has_the_last_word(make_world: Callable[[], World]) -> None:
    world, own = make_world(), session()

    def judge(outcome: UnitOutcome, result: LoopResult) -> UnitOutcome:
        return outcome.failed(UnitStatus.FAILED, f"{result.text}, and wrong")

    outcome = world.run(unit_task(own, judge=judge), ScriptedRuntime(own))
    assert (outcome.status, outcome.reason, outcome.changes) == (UnitStatus.FAILED, "done, and wrong", {})
    assert [each.status for each in world.events if isinstance(each, WorkUnitFinished)] == ["failed"]


def test_a_task_that_is_no_unit_is_neither_announced_nor_replayed(make_world: Callable[[], World]) -> None:
    def event(step: Step, calls: int) -> Event:
        return ReconcileStep(step.index, step.budget, calls)

    for _ in range(2):
        world, runtime = make_world(), ScriptedRuntime(session())
        task = unit_task(runtime.session, is_unit=False, connection="", key="", step_event=event)
        assert world.run(task, runtime).status is UnitStatus.DONE
        assert (runtime.worked, runtime.loops[0]["label"]) == (["one", "two"], "refunds.md")
        assert [type(each) for each in world.events] == [ReconcileStep, ReconcileStep]
        assert not world.database.execute("SELECT count(*) FROM unit_steps").fetchone()[0]
