"""Runs the units of a run on workers: queues them, follows them, replaces dead workers, and collects the results.

The run that holds the run lock is the only coordinator. It merges the results in the order of the units and makes the
only commit, as a run without workers does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ktx_cli.core import (
    BusyError,
    Command,
    KtxError,
    Notice,
    NotSupportedError,
    StorageError,
    WorkUnitFinished,
    WorkUnitStarted,
    internal_error,
    monotonic,
)
from ktx_cli.engine.packages import store_package
from ktx_cli.engine.queue import (
    QUEUE,
    TASK,
    ClaimedStore,
    Outage,
    Queue,
    UnitJob,
    WorkerIdentity,
    claim,
    has_outage,
    open_queue,
    outcome_of,
    prepare_queue,
    queue_schema,
    save_result,
    share_pace,
)
from ktx_cli.engine.queue_workers import QueuedJob, SilenceClock, queued_jobs
from ktx_cli.engine.task import AgentContext, AgentRunner, AgentTask, Cancellation
from ktx_cli.engine.work import DamagedOutcomeError, SourceWork, TaskStore, UnitOutcome, UnitStatus
from ktx_cli.llm import usage_by
from ktx_cli.project import OUTAGE_SECONDS, SharedFiles, open_for_writing, shared_state_of

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.jobs import Job

    from ktx_cli.documents import WorkUnit
    from ktx_cli.engine.plan import RunPlan, Spending
    from ktx_cli.llm import Governor, LlmRuntime, UsageRow
    from ktx_cli.project import StateDatabase

DOING: Final = "doing"
"""The status of a job that a worker has."""

POLL_SECONDS: Final = 0.1
PACE_SECONDS: Final = 0.5
WITHOUT_WORKERS_SECONDS: Final = 30.0
"""How long a run waits before it says that no worker takes its units."""

FORGOTTEN_SECONDS: Final = 86_400.0
"""After this long, a silent worker is removed from the list of workers, without which it can take no more jobs.

The run replaces its jobs much earlier: after that, a worker that was only slow or suspended can go on with others.
"""

UNCLAIMED_SECONDS: Final = 120.0
"""How long a worker may prepare for a run before it claims its unit; the worker may not even know of the job."""

SUSPENDED_SECONDS: Final = 5.0
"""A pause between two looks that takes longer than this is one in which this process did not run."""

PATIENCE: Final = 10
"""How many times longer a process of this host may be silent that is known to be alive: it may only be slow."""


MakeTask = Callable[[SourceWork, "WorkUnit"], AgentTask]


@dataclass
class _Waiting:
    """A unit that a worker processes, or will."""

    work: SourceWork
    unit: WorkUnit
    job: UnitJob
    done: asyncio.Future[UnitOutcome]
    worker: str | None = None
    missed: int = 0
    """How often the queue was found without its job."""
    unclaimed: tuple[str, float] | None = None
    """Which attempt a worker has without having claimed it, and since when."""

    @property
    def claimant(self) -> WorkerIdentity | None:
        """The worker that has claimed it, if any."""
        return None if self.worker is None else WorkerIdentity.parse(self.worker)

    def unclaimed_seconds(self, job: QueuedJob) -> float:
        """Return for how long a worker has had the current attempt of its job, which it has not claimed."""
        if self.unclaimed is None or self.unclaimed[0] != job.attempt:
            self.unclaimed = job.attempt, monotonic()
        return monotonic() - self.unclaimed[1]


Question = TypeVar("Question")
Answer = TypeVar("Answer")


class _Together(Generic[Question, Answer]):
    """Answers together what tasks ask in the same turn of the event loop: one statement, not one for each."""

    def __init__(self, ask: Callable[[Sequence[Question]], Awaitable[Sequence[Answer]]]) -> None:
        self._ask = ask
        self._questions: list[Question] = []
        self._asking: asyncio.Task[Sequence[Answer]] | None = None

    async def __call__(self, question: Question) -> Answer:
        if self._asking is None:
            self._questions = []
            self._asking = asyncio.create_task(self._answer(self._questions))
        place, asking = len(self._questions), self._asking
        self._questions.append(question)
        return (await asyncio.shield(asking))[place]

    async def _answer(self, questions: Sequence[Question]) -> Sequence[Answer]:
        self._asking = None
        return await self._ask(questions)


@dataclass
class Coordinator:
    """Runs units on workers. `make`: makes the task of a unit, for its key and for this process as a worker."""

    plan: RunPlan
    context: AgentContext
    runner: AgentRunner
    make: MakeTask
    database: StateDatabase
    """A connection of its own, used in threads."""
    queue: Queue
    schema: str
    """The schema of the queue."""
    me: WorkerIdentity = field(default_factory=WorkerIdentity)
    waiting: dict[str, _Waiting] = field(default_factory=dict)
    works: Mapping[tuple[str, str], SourceWork] = field(default_factory=dict)
    problem: KtxError | None = None
    _began: float = field(default_factory=monotonic)
    _paced: float = field(default_factory=monotonic)
    _checked: float = field(default_factory=monotonic)
    _clock: SilenceClock = field(default_factory=SilenceClock)
    _unmarked: set[str] = field(default_factory=set)
    """The keys of results that were taken, but are not marked yet."""
    _sessions: int = 0
    """How many sessions the connection had opened at the last look."""
    _warned: bool = False

    def __post_init__(self) -> None:
        self._stored = _Together(self._outcomes)
        self._queued = _Together(self._defer)

    @property
    def store(self) -> TaskStore:
        """The stored steps and outcomes."""
        return TaskStore(self.database, self.plan.layout.state)

    async def run(self, work: SourceWork, unit: WorkUnit) -> UnitOutcome:
        """Return the outcome of a unit: replayed from an earlier run, or from a worker."""
        task = self.make(work, unit)
        replayed = self.runner.replayed(task, await self._stored(task.key))
        if replayed is not None:
            return replayed
        job = UnitJob(self.plan.run_id, work.connection, work.kind, unit.key, task.key)
        if self.problem is not None:
            raise self.problem
        waiting = _Waiting(work, unit, job, asyncio.get_running_loop().create_future())
        self.waiting[task.key] = waiting
        del task  # with its prompt and tools, which only the worker needs
        await self._queued(job)
        outcome = await waiting.done
        if outcome.error is not None:
            self.runner.cancellation.record(outcome.error)
        self.plan.emit(WorkUnitFinished(work.connection, unit.key, outcome.status.value, outcome.reason))
        return outcome

    async def _outcomes(self, keys: Sequence[str]) -> list[Mapping[str, Any] | None]:
        found = await asyncio.to_thread(self.store.outcomes, keys)
        return [found.get(key) for key in keys]

    async def process(self, job: UnitJob, number: int) -> None:
        """Process a unit as a worker does, in this process."""
        if job.run_id != self.plan.run_id or job.key not in self.waiting:
            return
        waiting = self.waiting[job.key]
        own = self.runner.runtime, self.runner.cancellation
        me = await asyncio.to_thread(claim, self.database, job, self.me, number, self.schema)
        if me is not None:
            await process_unit(self.database, self.plan, job, me, own, waiting.work, waiting.unit, self.make)

    async def follow(self, spending: Spending) -> None:
        """Follow the workers until cancelled; raises `StorageError` if the database fails."""
        lost: float | None = None
        while True:
            paused = monotonic()
            await asyncio.sleep(POLL_SECONDS)
            began = monotonic()
            if began - paused > SUSPENDED_SECONDS:
                self._interrupt()
            try:
                await self._look(spending)
                lost = None
            except StorageError as error:  # after its wait, or in a transaction, which is not repeated
                self._interrupt()
                lost = began if lost is None else lost
                if not has_outage(error) or monotonic() - lost > OUTAGE_SECONDS:
                    raise

    def _interrupt(self) -> None:
        """Give all workers their whole time again: they may not have reached the database, or not been seen there."""
        self._clock.interrupt()
        for waiting in self.waiting.values():
            waiting.unclaimed = None

    async def _look(self, spending: Spending) -> None:
        governor: Governor | None = getattr(self.runner.runtime, "governor", None)
        if governor is not None and monotonic() - self._paced > PACE_SECONDS:
            self._paced = monotonic()
            await asyncio.to_thread(share_pace, self.database, governor)
        if self.waiting:
            await self._collect()
        seconds = self.plan.config.ingest.workers.heartbeat_seconds
        if monotonic() - self._checked > min(1.0, seconds):
            self._checked = monotonic()
            await self._check_workers(seconds)
            spending.take(await asyncio.to_thread(self._usage))
        self._warn_without_workers()
        if self.runner.cancellation.is_set and self.waiting:
            await self._stop()

    async def _collect(self) -> None:
        """Take the claims and results of workers; results are marked only afterwards, as any of this may fail."""
        rows = [row for row in await asyncio.to_thread(self._results) if row[0] in self.waiting]
        for key, worker, _ in rows:
            waiting = self.waiting[key]
            if waiting.worker is None:
                unit = waiting.unit
                self.plan.emit(WorkUnitStarted(waiting.work.connection, unit.key, unit.label, len(unit.files)))
            waiting.worker = worker
        results = {key: result for key, _, result in rows if result is not None}
        if results:
            stored = await asyncio.to_thread(self.store.outcomes, list(results))
            for key, result in results.items():
                self._settle(key, await self._outcome(key, result, stored.get(key)))
                self._unmarked.add(key)
        if self._unmarked:  # also those whose mark has failed before, which would be read again at each look
            await asyncio.to_thread(self._mark, sorted(self._unmarked))
            self._unmarked.clear()

    async def _outcome(self, key: str, result: str, stored: Mapping[str, Any] | None) -> UnitOutcome:
        """Return the outcome of a unit from what a worker has stored, which fails if it is damaged."""
        work, unit = self.waiting[key].work, self.waiting[key].unit
        try:
            return outcome_of(result, work, unit, key, stored)
        except DamagedOutcomeError as error:
            await asyncio.to_thread(self.store.forget, key)
            return UnitOutcome(work.connection, work.kind, unit, UnitStatus.FAILED, error.message, error=error)

    def _results(self) -> list[tuple[str, str, str | None]]:
        """Return the claims, and the results that were not collected yet."""
        query = "SELECT key, worker, result FROM unit_results WHERE run_id = ? AND (result IS NULL OR result <> '')"
        rows: list[tuple[str, str, str | None]] = self.database.execute(query, (self.plan.run_id,)).fetchall()
        return rows

    def _mark(self, keys: Sequence[str]) -> None:
        """Note that results were collected."""
        query = f"UPDATE unit_results SET result = '' WHERE run_id = ? AND key IN ({', '.join('?' * len(keys))})"
        self.database.execute(query, (self.plan.run_id, *keys))

    def _settle(self, key: str, outcome: UnitOutcome) -> None:
        waiting = self.waiting.pop(key)
        if not waiting.done.done():
            waiting.done.set_result(outcome)

    async def _check_workers(self, heartbeat: float) -> None:
        """Queue the units of dead workers again, and those that were lost with their job.

        Raises `BusyError` if another run has taken over, as after a suspension of this process.
        """
        jobs = await asyncio.to_thread(self._jobs)
        sessions = getattr(self.database, "sessions", 0)
        if sessions != self._sessions:  # a statement has waited for an outage to end
            self._sessions = sessions
            self._interrupt()
        self._clock.look(jobs)
        for job in jobs:
            if job.status == DOING and self._is_dead(job, heartbeat):
                await self._again(job)
        there = {job.key for job in jobs}
        for key, waiting in list(self.waiting.items()):
            waiting.missed = 0 if key in there else waiting.missed + 1
            if waiting.missed > 3 and key in self.waiting:  # its result would have been collected by now
                waiting.missed = 0
                query = "DELETE FROM unit_results WHERE run_id = ? AND key = ? AND (result IS NULL OR result = '')"
                await asyncio.to_thread(self.database.execute, query, (self.plan.run_id, key))
                await self._defer([waiting.job])

    def _jobs(self) -> list[QueuedJob]:
        if self.database.execute("SELECT 1 FROM run_packages WHERE run_id = ?", (self.plan.run_id,)).fetchone() is None:
            message = "another run took over while this one was not responding; nothing was committed"
            raise BusyError(message, hint="run the same command again")
        return queued_jobs(self.database, self.schema)

    def _is_dead(self, job: QueuedJob, heartbeat: float) -> bool:
        """Whether the worker of a job in progress is dead, or has never heard that it has the job.

        `heartbeat`: the interval of a worker that has not stored its own one.
        """
        waiting = self._waiting_for(job)
        silent = self._clock.silent(job)
        is_silent = job.is_silent_for(silent, heartbeat)
        if waiting is None:
            return is_silent
        worker = waiting.claimant
        if worker is None or not worker.has(job):  # the claimant may be dead, but has given the job back
            return is_silent or waiting.unclaimed_seconds(job) > UNCLAIMED_SECONDS
        if worker.is_known_alive:
            return job.is_silent_for(silent, heartbeat, PATIENCE)
        return is_silent or worker.is_known_dead

    def _waiting_for(self, job: QueuedJob) -> _Waiting | None:
        """Return what waits for a job; None for that of an earlier run, or of none."""
        waiting = None if job.key is None else self.waiting.get(job.key)
        return waiting if waiting is not None and waiting.job.run_id == job.run_id else None

    async def _again(self, job: QueuedJob) -> None:
        """Replace the job of a dead worker, which cannot claim or end it then; one of an earlier run is removed."""
        waiting = self._waiting_for(job)
        if waiting is not None:
            waiting.worker = waiting.unclaimed = None
            query = "DELETE FROM unit_results WHERE run_id = ? AND key = ? AND result IS NULL"
            await asyncio.to_thread(self.database.execute, query, (self.plan.run_id, job.key))
        await _remove(self.queue.app, job.number)
        if waiting is not None:
            await self._defer([waiting.job])

    async def _defer(self, jobs: Sequence[UnitJob]) -> list[None]:
        """Queue units, one job at a time for each."""
        app = self.queue.app
        made = [app.configure_task(TASK, queue=QUEUE, lock=job.key).make_new_job(**job.to_json()) for job in jobs]
        await app.job_manager.batch_defer_jobs_async(made)
        return [None] * len(jobs)

    def _usage(self) -> list[UsageRow]:
        return usage_by(self.database, ("role",), run=self.plan.run_id)

    def _warn_without_workers(self) -> None:
        waits = monotonic() - self._began > WITHOUT_WORKERS_SECONDS
        if waits and not self._warned and self.waiting and all(each.worker is None for each in self.waiting.values()):
            self._warned = True
            self.plan.emit(Notice("no worker is processing the units of this run; start one with `ktx worker`"))

    async def _stop(self) -> None:
        """Leave the units that no worker has begun; after an abort, tell the workers to end those in progress too."""
        if self.runner.cancellation.abort.thrown:
            await asyncio.to_thread(self.tell_workers)
        manager = self.queue.app.job_manager
        unclaimed = {key for key, waiting in self.waiting.items() if waiting.worker is None}
        begun = set()
        for job in await asyncio.to_thread(self._jobs):
            is_waiting = job.key in unclaimed and job.run_id == self.plan.run_id
            if is_waiting and not await manager.cancel_job_by_id_async(job.number, delete_job=True):
                begun.add(job.key)
        for key in unclaimed - begun:
            waiting = self.waiting[key]
            left = UnitStatus.LEFT, "the run ended before it started"
            self._settle(key, UnitOutcome(waiting.work.connection, waiting.work.kind, waiting.unit, *left, kept_as=key))

    def tell_workers(self) -> None:
        """Tell the workers that the run ends."""
        reason = self.runner.cancellation.error
        text = "the run was stopped" if reason is None else reason.message
        query = "UPDATE run_packages SET stopped = ? WHERE run_id = ? AND stopped IS NULL"
        self.database.execute(query, (text, self.plan.run_id))

    async def close(self) -> None:
        """Leave nothing of the run in the queue, unless the queue cannot be used or belongs to another run by now."""
        if self.problem is None:
            if self.waiting:  # workers end the units in progress once they have read that
                await asyncio.to_thread(self.tell_workers)
            else:
                query = "DELETE FROM run_packages WHERE run_id = ?"
                await asyncio.to_thread(self.database.execute, query, (self.plan.run_id,))
            await _clear(self.queue.app, self.database, self.schema)

    def fail(self, task: asyncio.Task[None]) -> None:
        """End all waiting units if the coordinator cannot go on, such as without the database."""
        problem = None if task.cancelled() else task.exception()
        if problem is None:
            return
        self.problem = problem if isinstance(problem, KtxError) else internal_error(problem, where="the queue")
        for waiting in self.waiting.values():
            if not waiting.done.done():
                waiting.done.set_exception(self.problem)


@contextlib.asynccontextmanager
async def coordinating(
    plan: RunPlan,
    context: AgentContext,
    runner: AgentRunner,
    make: MakeTask,
    works: Sequence[SourceWork],
    spending: Spending,
) -> AsyncIterator[Callable[[SourceWork, WorkUnit], Awaitable[UnitOutcome]]]:
    """Yield a function that runs a unit on a worker. At the end, nothing of the run is left in the queue."""
    shared = shared_state_of(plan.layout)
    assert shared is not None
    await asyncio.to_thread(prepare_queue, shared)
    concurrency = plan.config.ingest.work_units.max_concurrency
    async with contextlib.AsyncExitStack() as stack:
        database = stack.enter_context(open_for_writing(plan.layout))
        queue = await stack.enter_async_context(open_queue(Outage(shared)))
        coordinator = Coordinator(plan, context, runner, make, database, queue, queue_schema(shared))
        stack.push_async_callback(coordinator.close)
        await _clear(queue.app, database, coordinator.schema)
        words = plan.command.words
        await asyncio.to_thread(
            store_package, database, plan.layout, plan.run_id, words, context.base, works, context.library
        )
        tasks = [asyncio.create_task(coordinator.follow(spending))]
        if plan.config.ingest.workers.coordinator:
            register(queue, coordinator.process)
            heartbeat = plan.config.ingest.workers.heartbeat_seconds
            tasks.append(asyncio.create_task(run_worker(queue, concurrency, heartbeat)))
        for task in tasks:
            task.add_done_callback(coordinator.fail)
            stack.push_async_callback(_end, task)
        yield coordinator.run


_AT_ONCE: Final = datetime.fromtimestamp(0, UTC)
"""When a job that is given back may begin: the server would wait for the time of a host whose clock is ahead of it."""


def register(queue: Queue, process: Callable[[UnitJob, int], Awaitable[None]]) -> None:
    """Let this process run the jobs of the queue. A job that fails, or that ends with this process, is queued again."""
    from procrastinate import BaseRetryStrategy, JobContext, RetryDecision

    class GiveBack(BaseRetryStrategy):
        def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
            return RetryDecision(retry_at=_AT_ONCE)

    @queue.app.task(name=TASK, queue=QUEUE, pass_context=True, retry=GiveBack())
    async def run_unit(context: JobContext, /, **arguments: str) -> None:
        assert context.job.id is not None
        await process(UnitJob(**arguments), context.job.id)


async def run_worker(queue: Queue, concurrency: int, heartbeat: float) -> None:
    """Run jobs until cancelled; raises `StorageError` if the queue can no longer be used."""
    queue.registration.heartbeat = heartbeat
    await queue.app.run_worker_async(
        queues=[QUEUE],
        concurrency=concurrency,
        wait=True,
        fetch_job_polling_interval=1.0,
        listen_notify=True,
        delete_jobs="always",
        install_signal_handlers=False,
        shutdown_graceful_timeout=0.0,
        update_heartbeat_interval=heartbeat,
        stalled_worker_timeout=FORGOTTEN_SECONDS,
    )
    raise queue.outage.problem or StorageError("the queue ended unexpectedly", hint=Command("doctor"))


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, KtxError):
        await task


class WorkerCancellation(Cancellation):
    """That of a worker. What only this host lacks must not end the run, whose own models respond: it is raised."""

    refused: KtxError | None = None
    """Why this process cannot work with the models."""

    def record(self, error: KtxError, *, always: bool = False) -> bool:
        """See `Cancellation`; raises the error if another host may not have it."""
        if error.code in _OF_ONE_HOST:
            self.refused = error
            raise error
        return super().record(error, always=always)


_OF_ONE_HOST: Final = frozenset({"auth", "config", "isolation", "no_backend", "secret"})


async def process_unit(
    database: StateDatabase,
    plan: RunPlan,
    job: UnitJob,
    worker: WorkerIdentity,
    own: tuple[LlmRuntime, Cancellation],
    work: SourceWork,
    unit: WorkUnit,
    make: MakeTask,
) -> None:
    """Run the task of a claimed unit, and store its result. `own`: the models of this process, and what ends its tasks.

    Raises `StorageError` if the database does not respond, `NotSupportedError` if this process would do other work than
    the run expects, and what a `WorkerCancellation` raises.
    """
    runtime, cancellation = own
    runner = AgentRunner(runtime, cancellation, ClaimedStore(database, plan.layout.state, job=job, worker=worker))
    try:
        task = make(work, unit)
        outcome = await runner.run(task) if task.key == job.key else None
    except Exception as problem:  # whatever is wrong with one unit, the run has to learn about it
        if has_outage(problem) or problem is getattr(cancellation, "refused", None):
            raise
        error = problem if isinstance(problem, KtxError) else internal_error(problem, where=f"unit `{unit.key}`")
        is_left = isinstance(error, (BusyError, StorageError))
        status = UnitStatus.LEFT if is_left else UnitStatus.FAILED
        outcome = UnitOutcome(work.connection, work.kind, unit, status, error.message, error=error)
    if outcome is None:
        message = f"{worker.name} uses other prompts, skills or models than the run {job.run_id}"
        raise NotSupportedError(message, hint="run the same version of ktx on all hosts")
    await asyncio.to_thread(save_result, database, job, worker, outcome)


async def _clear(app: App, database: StateDatabase, schema: str) -> None:
    """Remove the jobs that no worker has begun or whose worker is dead; a live one may finish what it has paid for."""
    rows = await asyncio.to_thread(lambda: database.execute("SELECT run_id, key, worker FROM unit_results").fetchall())
    workers: dict[tuple[str | None, str | None], WorkerIdentity] = {
        (run_id, key): WorkerIdentity.parse(worker) for run_id, key, worker in rows
    }
    kept = set()
    for job in await asyncio.to_thread(queued_jobs, database, schema):
        if job.status != DOING:
            await app.job_manager.cancel_job_by_id_async(job.number, delete_job=True)
        elif job.unit in workers and workers[job.unit].has(job) and workers[job.unit].is_known_dead:
            await _remove(app, job.number)
        else:
            kept.add(job.unit)
    await asyncio.to_thread(_forget, database, [unit for unit in workers if unit not in kept])


async def _remove(app: App, number: int) -> None:
    """Remove a job in progress."""
    from procrastinate.jobs import Status

    await app.job_manager.finish_job_by_id_async(number, Status.FAILED, delete_job=True)


def _forget(database: StateDatabase, units: Sequence[tuple[str | None, str | None]]) -> None:
    database.executemany("DELETE FROM unit_results WHERE run_id = ? AND key = ?", units)
    SharedFiles(database).drop_unused()
