"""The model for one run: a runtime that is created for the first call and serves all connections.

It runs in its own event loop, in a thread that continues between two calls: processes that Claude Code connects ahead
must not wait for a scan.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ktx_cli import llm
from ktx_cli.core import KtxError
from ktx_cli.engine.plan import PreflightFailed, RunPlan, Spending
from ktx_cli.project import StateDatabase, translated
from ktx_cli.sources import sources_of

if TYPE_CHECKING:
    from ktx_cli.engine.report import IngestReport
    from ktx_cli.engine.task import Cancellation
    from ktx_cli.engine.work import SourceWork
    from ktx_cli.llm import LlmRuntime, RoutedRuntime

GRACE_SECONDS: Final = 10.0
"""How long an interrupted run waits for calls in progress; a turn that takes longer is cancelled."""

ENDING_NOTICE: Final = (
    f"stopping: waiting up to {GRACE_SECONDS:.0f} s for work in progress; interrupt again to stop immediately"
)

Answer = TypeVar("Answer")
Question = Callable[["LlmRuntime"], Coroutine[Any, Any, Answer]]


class Models:
    """Calls the model for one run; a context manager. Usage is stored in `database` as it becomes known.

    `stopped`: the error after which this run makes no more calls. `preflight`: checks whether the models respond.
    """

    def __init__(self, preflight: Preflight, database: StateDatabase) -> None:
        self.stopped = preflight.spending.exceeded  # the probe itself may have used up the budget
        self.preflight = preflight
        self._plan, self._spending = preflight.plan, preflight.spending
        self._database = database
        self._thread: threading.Thread | None = None
        self._begun: Future[asyncio.AbstractEventLoop] = Future()
        self._ready: Future[tuple[asyncio.AbstractEventLoop, LlmRuntime]] = Future()
        self._closing: asyncio.Event | None = None
        self._questions: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._spending.listeners.append(self._stop)

    def __enter__(self) -> Models:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Free the runtime after calls in progress have ended."""
        if self._thread is None:
            return
        if self._begun.exception() is None:
            with contextlib.suppress(RuntimeError):  # it ended by itself, and its loop is closed
                self._begun.result().call_soon_threadsafe(self._close)
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    @property
    def spending(self) -> Spending:
        """What the models have spent in this run."""
        return self._spending

    def cancels(self, cancellation: Cancellation) -> None:
        """Let whatever ends the calls of this run also end the tasks of a cancellation."""
        cancellation.error = self.stopped
        self._spending.listeners.append(cancellation.abort_now)

    def ask(self, question: Question[Answer]) -> Answer:
        """Return the result of a call; an interrupt cancels the call."""
        asked = self._start(question)
        try:
            return asked.result()
        except BaseException:
            asked.cancel()
            raise

    def ask_patiently(self, question: Question[Answer], interrupted: Callable[[], None]) -> Answer:
        """Return the result of a call; after an interrupt, only if it arrives within `GRACE_SECONDS`.

        A second interrupt cancels it at once.
        """
        asked = self._start(question)
        try:
            try:
                return asked.result()
            except KeyboardInterrupt:
                interrupted()
                try:
                    return asked.result(timeout=GRACE_SECONDS)
                except TimeoutError:
                    if asked.done():  # the call itself was interrupted
                        raise
                    raise KeyboardInterrupt from None
        except BaseException:
            asked.cancel()
            raise

    def begin(self) -> None:
        """Create the runtime and check whether the models respond; the first call waits for the result.

        Returns once all that remains is waiting: until then, both threads would slow each other down.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="ktx-models", daemon=True)
            self._thread.start()
        self._begun.exception()

    def _start(self, question: Question[Answer]) -> Future[Answer]:
        self.begin()
        loop, runtime = self._ready.result()
        return asyncio.run_coroutine_threadsafe(self._answer(question, runtime), loop)

    def _live(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits: by `ask`, or on leaving
            if not self._begun.done():
                self._begun.set_exception(error)
            if self._ready.done():
                self._failure = error
            else:
                self._ready.set_exception(error)

    async def _answer(self, question: Question[Answer], runtime: LlmRuntime) -> Answer:
        return await self._waited(asyncio.create_task(question(runtime)))

    async def _waited(self, task: asyncio.Task[Answer]) -> Answer:
        """Return the result of a task; an interrupt cancels the task."""
        self._questions.add(task)
        try:
            return await task
        finally:
            self._questions.discard(task)

    async def _serve(self) -> None:
        plan = self._plan
        self._closing = asyncio.Event()
        async with llm.project_runtime(
            plan.layout,
            plan.config,
            plan.environ,
            command=plan.command,
            warn=plan.warn,
            run_id=plan.run_id,
            usage_sink=self._store,
            emit=plan.emit,
            watch=plan.recorder.watch,
        ) as runtime:
            loop = asyncio.get_running_loop()
            checking = asyncio.create_task(self.preflight.check(runtime))
            await asyncio.sleep(0)  # until the check waits for an answer
            self._begun.set_result(loop)
            await self._waited(checking)
            self._ready.set_result((loop, runtime))
            await self._closing.wait()
            if self._questions:
                await asyncio.wait(self._questions)

    def _close(self) -> None:
        for task in self._questions:
            task.cancel()
        if self._closing is not None:
            self._closing.set()

    def _stop(self, error: KtxError) -> None:
        self.stopped = error

    def _store(self, fact: llm.UsageFact) -> None:
        if not self._ready.done():
            self.preflight.took(fact)
            return
        with translated(self._plan.layout.state):
            llm.record_usage(self._database, fact)
        self._spending.add(fact)
        self._plan.emit(self._spending.so_far())


AGENTS: Final = ("writer", "reconcile", "repair")
"""The roles of agents that process sources."""

DOCUMENTS: Final = ("triage", "candidateExtraction", "curator")
"""The additional roles for texts written by people."""

DIGESTS: Final = ("candidateExtraction",)
"""The additional roles for texts about many files at once."""


def roles_of(plan: RunPlan, works: Sequence[SourceWork] = ()) -> frozenset[str]:
    """Return the roles that a run may use: those of its sources, or only of sources with work once they are known."""
    roles = set() if plan.prompts is None else {"candidateExtraction"}
    if not plan.asks_model or plan.databases_only:
        return frozenset(roles)
    if works:
        sources = [work.source for work in works if work.units or work.changes.deleted]
    else:
        entries = plan.config.connections
        sources = [source for target in plan.targets for source in sources_of(entries[target.connection])]
    roles.update(AGENTS if sources else (), DOCUMENTS if any(each.documents for each in sources) else ())
    roles.update(DIGESTS if any(each.digest is not None for each in sources) else ())
    return frozenset(roles)


class Preflight:
    """Probe the models for the roles of a run, at most once; with `needed` False, no model has work and none is probed.

    `roles`: the roles of the run, if it is not a `ktx ingest` run. `spending`: counts the usage of the probes.
    """

    def __init__(
        self, plan: RunPlan, spending: Spending, *, needed: bool, roles: Collection[str] | None = None
    ) -> None:
        self.plan, self.spending = plan, spending
        self._roles = roles
        self._works: Sequence[SourceWork] = ()
        self._is_due = needed
        self._failed: PreflightFailed | None = None
        self._probes = llm.ProbeRun()

    def narrow(self, works: Sequence[SourceWork]) -> None:
        """Probe the models that the sources with work need, now that these are known."""
        self._works = works

    def check_settings(self) -> None:
        """Raise `KtxError` if the settings name no model; warn about settings that a backend does not support."""
        if not self._is_due:
            return
        llm.distinct_models(self.plan.config)
        ignored = llm.divergence(self.plan.config)
        if ignored is not None:
            self.plan.warn(ignored)

    def require(self) -> None:
        """Raise `PreflightFailed` if a configured backend does not respond; writes nothing."""
        if not self._begins():
            return
        plan = self.plan
        wanted = self._wanted()
        try:
            self._probes = llm.probe_models(
                plan.layout,
                plan.config,
                plan.environ,
                command=plan.command,
                warn=plan.warn,
                run_id=plan.run_id,
                only=list(wanted),
                emit=plan.emit,
            ).required()
        except KtxError as error:
            self._end(error)
        self._end(None)

    async def check(self, runtime: RoutedRuntime) -> None:
        """Raise `PreflightFailed` like `preflight`, but use the run's runtime; `took` receives the usage."""
        if not self._begins():
            return
        wanted, plan = self._wanted(), self.plan
        for backend in {ref.backend for ref in wanted}:
            self._probes.credentials[backend] = llm.credentials_of(
                plan.config, backend, project_dir=plan.layout.root, environ=plan.environ
            )
        await llm.probe_through(runtime, wanted, self._probes)
        self._end(self._probes.error())

    def _wanted(self) -> dict[llm.ModelRef, tuple[str, ...]]:
        roles = roles_of(self.plan, self._works) if self._roles is None else self._roles
        return llm.to_probe(self.plan.layout, self.plan.config, self.plan.environ, roles)

    def took(self, fact: llm.UsageFact) -> None:
        """Record the usage of a probe."""
        self._probes.took(fact)

    def _begins(self) -> bool:
        """Return whether to probe, once; raises the error of an earlier probe."""
        if self._failed is not None:
            raise self._failed
        due, self._is_due = self._is_due, False
        return due

    def _end(self, error: KtxError | None) -> None:
        if error is not None:
            self._failed = PreflightFailed(error)
            raise self._failed from error
        for fact in self._probes.facts:
            self.spending.add(fact)

    def store(self, report: IngestReport) -> None:
        """Store results and usage like `keep`, with the errors of a report."""
        described = (each.descriptions for each in report.connections)
        self.keep([report.stopped, report.failure, *(each.stopped for each in described if each is not None)])

    def keep(self, errors: Sequence[BaseException | None]) -> None:
        """Store the results and usage of probes, for ten minutes unless a call failed; the caller holds the lock."""
        probes, self._probes = self._probes, llm.ProbeRun()
        probes.store(self.plan.layout)
        if any(isinstance(error, llm.LlmError) for error in errors):
            llm.forget_probes(self.plan.layout)
