"""Works through the queue of a shared project: processes the units of runs that other processes coordinate.

A worker has its own clone of the project, for connections and secrets. The context of a run comes from the shared
state: if the clone has other context files, the worker uses a copy of the project with those of the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    CancelledError,
    Command,
    ConfigError,
    Emit,
    Hint,
    KtxError,
    Notice,
    Record,
    StorageError,
    ignore_events,
    internal_error,
    plural,
    yaml,
)
from ktx_cli.project import (
    CONFIG_NAME,
    OUTAGE_SECONDS,
    Layout,
    SharedFiles,
    StateDatabase,
    WorkingTree,
    copy_project,
    limit_patience,
    load_config,
    open_for_writing,
    prepare_private_folder,
    read_state,
    remove_old_copies,
    shared_state_of,
    storage_error,
    tree_id,
    without_queue,
    write_atomic,
)
from ktx_cli.telemetry import observe

if TYPE_CHECKING:
    from ktx_cli.core import ResultWarning
    from ktx_cli.engine import AgentContext, Outage, Queue, RunPackage, RunPlan, SourceWork, UnitJob, WorkerIdentity
    from ktx_cli.llm import UsageFact
    from ktx_cli.project import KtxConfig, SharedDatabase

ASK_SECONDS: Final = 2.0
"""How often a worker looks for a queue that does not exist yet."""

WAITING: Final = "ktx.work_units.waiting"
"""The metric that counts the units in the queue."""

STOP_SECONDS: Final = 0.5
"""How often a worker asks whether its runs were stopped, and whether it has to pause."""


ENDING_SECONDS: Final = 5.0
"""How long a worker that ends waits for the database, to give its units back; others take them over in any case."""


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A worker. `concurrency` None: as `ingest.workUnits.maxConcurrency` says. `once`: end when no unit waits."""

    project_dir: Path
    environ: Mapping[str, str]
    concurrency: int | None = None
    once: bool = False
    emit: Emit = ignore_events
    warn: Callable[[ResultWarning], None] = lambda warning: None


@dataclass(slots=True)
class WorkerReport(Record):
    """What a worker has done."""

    units: int = 0
    runs: set[str] = field(default_factory=set)

    json_keys = ("units", "runs=_runs")

    def _runs(self) -> list[str]:
        return sorted(self.runs)


def work(request: WorkerRequest) -> WorkerReport:
    """Process units until SIGTERM or SIGHUP, which end a worker as they end a server, or with `once` until none waits.

    Raises `CancelledError` on Ctrl-C and, with `once`, on any signal before the last unit has been processed;
    `ConfigError` if the project has no shared state or runs its units locally, `StorageError`.
    """
    from ktx_cli.engine import queue_version

    layout = Layout(request.project_dir)
    config = load_config(layout.config).config
    shared = shared_state_of(layout)
    if shared is None or config.ingest.executor == "local":
        message = "ingest.executor is `local`, so runs process their work units themselves"
        hint: Hint = Command("config", "set", "ingest.executor", "postgres")
        message, hint = without_queue(config) or (message, hint)
        raise ConfigError(f"{message}; a worker has nothing to do", hint=hint)
    queue_version()
    prepare_private_folder(layout)
    report = WorkerReport()
    worker = _Worker(request, layout, config, shared, report)
    interrupted = CancelledError("interrupted", hint="finished steps are kept; another worker continues")
    try:
        is_terminated = asyncio.run(_until_terminated(worker.serve(), worker.hurry))
    except KeyboardInterrupt:
        raise interrupted from None
    if is_terminated and request.once:
        raise interrupted
    return report


async def _until_terminated(serving: Coroutine[Any, Any, None], hurry: Callable[[], None]) -> bool:
    """Await a coroutine; the first SIGTERM or SIGHUP cancels it, and the handlers from before take a second one.

    Returns whether that has happened. `hurry` is called at once, for Ctrl-C too: the event loop may be waiting.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}  # as of `nohup`

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    is_terminated = False

    def cancel(number: int, frame: FrameType | None) -> None:
        nonlocal is_terminated
        restore()
        hurry()
        earlier = before[signal.Signals(number)]
        if number == signal.SIGINT and callable(earlier):  # that of `asyncio.run`
            earlier(number, frame)
            return
        is_terminated = True
        task.cancel()
        loop.call_soon_threadsafe(lambda: None)  # wakes the loop, as `asyncio.run` does after Ctrl-C

    for number in before:
        signal.signal(number, cancel)
    try:
        await serving
    except asyncio.CancelledError:
        if not is_terminated:
            raise
    finally:
        restore()
    return is_terminated


@dataclass
class _Worker:
    request: WorkerRequest
    layout: Layout
    config: KtxConfig
    shared: SharedDatabase
    report: WorkerReport
    outage: Outage | None = None
    database: StateDatabase = field(init=False)
    runs: dict[str, asyncio.Future[_Run | None]] = field(default_factory=dict)
    living: set[asyncio.Task[None]] = field(default_factory=set)
    """The tasks that keep the runs open."""
    ended: asyncio.Future[None] = field(init=False)
    """Set when this worker cannot go on."""
    active: int = 0
    """The number of jobs in progress."""

    async def serve(self) -> None:
        """Process jobs until cancelled."""
        from ktx_cli.engine import Outage, queue_schema, register, run_worker

        concurrency = self.request.concurrency or self.config.ingest.work_units.max_concurrency
        heartbeat = self.config.ingest.workers.heartbeat_seconds
        self.ended = asyncio.get_running_loop().create_future()
        patience = OUTAGE_SECONDS if self.request.once else math.inf
        self.outage = outage = Outage(self.shared, patience, lambda message: self.request.emit(Notice(message)))
        async with contextlib.AsyncExitStack() as stack:
            queue = await self._opened(stack, outage, 2 + concurrency)
            if queue is None:
                self.request.emit(Notice("no run has queued work units yet, so there is nothing to do"))
                return
            stack.push_async_callback(self._close)
            schema = queue_schema(self.shared)
            observe(WAITING, lambda: self._waiting(schema))
            stack.callback(observe, WAITING, lambda: None)
            register(queue, self._job)
            self.request.emit(Notice(f"waiting for work units, {plural(concurrency, 'unit')} at a time"))
            parts = [asyncio.create_task(run_worker(queue, concurrency, heartbeat))]
            if self.request.once:
                parts.append(asyncio.create_task(self._idle(schema)))
            try:
                await asyncio.wait([*parts, self.ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.hurry()
                for part in parts:
                    part.cancel()
                await asyncio.gather(*parts, return_exceptions=True)
            results: list[asyncio.Future[None]] = [self.ended, *parts]
            for each in results:
                if each.done() and not each.cancelled():
                    each.result()

    def hurry(self) -> None:
        """Wait for the database only for a moment from now on, because this worker ends."""
        if self.outage is not None:
            self.outage.patience = min(self.outage.patience, ENDING_SECONDS)
        limit_patience(getattr(self, "database", None), ENDING_SECONDS)

    async def _opened(self, stack: contextlib.AsyncExitStack, outage: Outage, connections: int) -> Queue | None:
        """Open the state and the queue, once the database responds and the first run has created the queue.

        Returns None with `once` if there is no queue yet.
        """
        from ktx_cli.engine import has_outage, open_queue

        is_open = False
        while True:
            if not await self._wait_for_queue(outage):
                return None
            try:
                if not is_open:
                    self.database = stack.enter_context(open_for_writing(self.layout, self.request.warn))
                    is_open = True
                return await stack.enter_async_context(open_queue(outage, connections))
            except StorageError as error:
                if not has_outage(error):
                    raise
                await outage.wait(error)

    async def _wait_for_queue(self, outage: Outage) -> bool:
        """Wait until the first run has created the queue; return False, without waiting, with `once`."""
        from ktx_cli.engine import has_outage

        is_announced = False
        while True:
            try:
                if await asyncio.to_thread(self._has_queue):
                    outage.over()
                    return True
            except StorageError as error:
                if not has_outage(error):
                    raise
                await outage.wait(error)
                continue
            outage.over()
            if self.request.once:
                return False
            if not is_announced:
                self.request.emit(Notice("waiting for a `ktx ingest` with work units, which creates the queue"))
                is_announced = True
            await asyncio.sleep(ASK_SECONDS)

    def _has_queue(self) -> bool:
        """Return whether there is a queue; raises `StorageError`, also for a state of a newer ktx."""
        from ktx_cli.engine import has_queue

        read_state(self.layout, lambda state: None)
        return has_queue(self.shared)

    async def _idle(self, schema: str) -> None:
        """Wait until no unit waits or is in progress here."""
        quiet = 0
        while quiet < 2:  # a job may be on its way
            await asyncio.sleep(STOP_SECONDS)
            waiting = await asyncio.to_thread(self._waiting, schema)
            quiet = 0 if waiting or self.active else quiet + 1
        if not self.report.units:
            self.request.emit(Notice("nothing to do: no work units are waiting"))

    def _waiting(self, schema: str) -> int:
        """Return the number of units that no worker has begun."""
        query = f"SELECT count(*) FROM \"{schema}\".procrastinate_jobs WHERE status = 'todo'"
        return int(self.database.execute(query).fetchone()[0])

    async def _close(self) -> None:
        for task in self.living:
            task.cancel()
        await asyncio.gather(*self.living, return_exceptions=True)

    async def _job(self, job: UnitJob, number: int) -> None:
        from ktx_cli.engine import has_outage

        self.active += 1
        try:
            await self._process(job, number)
        except Exception as problem:  # the job goes back to the queue, and another worker may be able to do it
            if not has_outage(problem) and not self.ended.done():
                is_ours = isinstance(problem, KtxError)
                self.ended.set_exception(problem if is_ours else internal_error(problem, where=f"run {job.run_id}"))
            raise
        finally:
            self.active -= 1

    async def _process(self, job: UnitJob, number: int) -> None:
        """Process one unit; a unit of a run that has ended is dropped. Errors end this worker, and the job goes on."""
        from ktx_cli.engine import claim, process_unit, queue_schema

        if job.run_id not in self.runs:
            self._open(job.run_id)
        run = await asyncio.shield(self.runs[job.run_id])
        found = None if run is None else run.find(job)
        if run is None or found is None:
            return
        run.active += 1
        try:
            schema = queue_schema(self.shared)
            me = await asyncio.to_thread(claim, self.database, job, run.identity, number, schema)
            if me is None:
                return
            self.report.units += 1
            self.report.runs.add(job.run_id)
            self.request.emit(Notice(f"{job.connection}: {found[1].label}"))
            own = run.runtime, run.cancellation
            await process_unit(self.database, run.plan, job, me, own, *found, run.make)
        finally:
            run.active -= 1

    def _open(self, run_id: str) -> None:
        """Load what a run needs, once; its models stay open until the run is over."""
        self.runs[run_id] = opened = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._live(run_id, opened))
        self.living.add(task)
        task.add_done_callback(self.living.discard)

    async def _live(self, run_id: str, opened: asyncio.Future[_Run | None]) -> None:
        from ktx_cli.engine import RunPackage

        try:
            async with contextlib.AsyncExitStack() as stack:
                package = await asyncio.to_thread(RunPackage.read, self.database, run_id)
                if package is None:
                    opened.set_result(None)
                    return
                run = await asyncio.to_thread(_opened, self, package, stack)
                await run.begin(stack, self.database)
                opened.set_result(run)
                await run.follow(self.database)
        except BaseException as error:
            if opened.done() or isinstance(error, asyncio.CancelledError):
                opened.cancel()
                raise
            opened.set_exception(error)
        finally:
            del self.runs[run_id]


@dataclass
class _Run:
    """A run that this worker has units of."""

    plan: RunPlan
    context: AgentContext
    works: list[SourceWork]
    watched: Any
    runtime: Any = None
    cancellation: Any = None
    identity: WorkerIdentity = field(init=False)
    active: int = 0
    """The number of its units in progress."""

    def find(self, job: UnitJob) -> tuple[SourceWork, Any] | None:
        """Return the source and the unit of a job."""
        for each in self.works:
            if each.key == (job.connection, job.kind):
                return next(((each, unit) for unit in each.units if unit.key == job.unit), None)
        return None

    def make(self, source: SourceWork, unit: Any) -> Any:
        """Return the task of a unit."""
        from ktx_cli.engine import unit_task

        return unit_task(self.context, source, unit)

    async def begin(self, stack: contextlib.AsyncExitStack, database: StateDatabase) -> None:
        """Open the models."""
        from ktx_cli.engine import WorkerCancellation, WorkerIdentity
        from ktx_cli.llm import project_runtime, record_usage

        def keep(fact: UsageFact) -> None:
            record_usage(database, fact)

        plan = self.plan
        self.identity, self.cancellation = WorkerIdentity(), WorkerCancellation()
        models = project_runtime(
            plan.layout,
            plan.config,
            plan.environ,
            command=str(plan.command),
            warn=plan.warn,
            run_id=plan.run_id,
            usage_sink=keep,
            emit=plan.emit,
            watch=self.watched,
        )
        self.runtime = await stack.enter_async_context(models)

    async def follow(self, database: StateDatabase) -> None:
        """Follow a run until it is over: end its units if it was stopped, and pause where another process has to."""
        from ktx_cli.engine import share_pace

        query = "SELECT stopped FROM run_packages WHERE run_id = ?"
        while True:
            await asyncio.sleep(STOP_SECONDS)
            try:
                await asyncio.to_thread(share_pace, database, self.runtime.governor)
                found = await asyncio.to_thread(lambda: database.execute(query, (self.plan.run_id,)).fetchone())
            except StorageError as error:
                log.debug("cannot follow the run: %s", error)
                continue
            if (found is None or found[0] is not None) and not self.active:
                return
            if found is not None and found[0] is not None and not self.cancellation.is_set:
                self.cancellation.abort_now(KtxError(found[0], code="cancelled"))


log: Final = logging.getLogger(__name__)


def _opened(worker: _Worker, package: RunPackage, stack: contextlib.AsyncExitStack) -> _Run:
    """Return a run with its context; its models are not open yet."""
    from ktx_cli.agent_tools import finder, open_searcher
    from ktx_cli.engine import AgentWork, RunPlan, ValueSamples
    from ktx_cli.runs import Recorder, Transcripts

    request, files = worker.request, SharedFiles(worker.database, worker.layout.shared_files)
    config = settings_for(worker.layout, package, files)
    layout = project_for(worker.layout, package, files, stack)
    recorder = Recorder(layout, package.run_id, request.emit)
    files.drop_unused_copies()
    plan = RunPlan(Command(*package.command), layout, config, request.environ, recorder)
    works = package.sources(files, config)
    searcher = open_searcher(layout, config, request.environ)
    stack.callback(searcher.close)
    find = finder(searcher, config, ValueSamples(worker.database, codes=True))
    agents = AgentWork(plan, works, package.tree(files))
    context = agents.context(worker.database, find, package.documents(files))
    folder = worker.layout.run_transcripts(package.run_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    transcripts = Transcripts(folder, lambda error: None)
    return _Run(plan, context, works, transcripts.watch)


def settings_for(own: Layout, package: RunPackage, files: SharedFiles) -> KtxConfig:
    """Return the settings of this clone; raises `ConfigError` if those of the run are others.

    They are never taken from the shared state: whoever can write to it could have secrets sent elsewhere.
    """
    from ktx_cli.engine import package_config

    text = own.config.read_bytes()
    there = package_config(package, files)
    different = next(_differences(_compared(text), _compared(there)), None)
    if different is not None:
        message = f"`{different}` in {own.config} differs from the run {package.run_id}"
        raise ConfigError(message, hint="check out the commit of the run in this clone, then start the worker again")
    return load_config(own.config, text).config


def _compared(text: bytes) -> dict[str, Any]:
    """Return the settings that workers share; a host chooses for itself where the state is and how much it does."""
    found = yaml.load(text, where=CONFIG_NAME)
    settings = {name: value for name, value in found.items() if name != "storage"} if isinstance(found, dict) else {}
    if isinstance(settings.get("ingest"), dict):
        ingest = {name: each for name, each in settings["ingest"].items() if name not in ("executor", "workers")}
        if isinstance(ingest.get("workUnits"), dict):
            units = {name: each for name, each in ingest["workUnits"].items() if name != "maxConcurrency"}
            ingest["workUnits"] = units
        settings["ingest"] = ingest
    return settings


def _differences(here: Mapping[str, Any], there: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name in sorted({*here, *there}):
        one, other = here.get(name), there.get(name)
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _differences(one, other, f"{prefix}{name}.")
        elif one != other:
            yield prefix + name


def project_for(
    own: Layout, package: RunPackage, files: SharedFiles, stack: contextlib.ExitStack | contextlib.AsyncExitStack
) -> Layout:
    """Return the project to work in: this one if it has the context files of the run, else a copy that has them.

    The copy stays until `stack` ends. Raises `StorageError` if the disk fails, or for a package with files that no
    project has.
    """
    from ktx_cli.engine import own_files
    from ktx_cli.sources import RawStore

    if tree_id(own_files(WorkingTree(own.root))) == package.files:
        layout = own
    else:
        layout = Layout(own.worker_copies / package.files)
        try:
            stack.callback(copy_project(own, layout, files.tree(package.files), files, _index).close)
            settings = own.config.read_bytes()  # the same but for what each host chooses
            if layout.config.read_bytes() != settings:
                write_atomic(layout.config, settings)
            remove_old_copies(layout.root.parent)
        except OSError as error:
            raise storage_error(layout.root, error) from error
    store = RawStore(layout.raw_store)
    for path, content in package.earlier(files):
        store.put(path, content)
    return layout


def _index(layout: Layout) -> None:
    """Make a copy searchable, unless its index is shared."""
    from ktx_cli.agent_tools import contents_of
    from ktx_cli.search import index_of, refresh

    config = load_config(layout.config).config
    index = index_of(layout, config, os.environ)
    if isinstance(index, Path):
        refresh(index, contents_of(layout, config), WorkingTree(layout.root), embedder=lambda: None)
