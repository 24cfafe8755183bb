"""The workers of the queue: their registration, the jobs that they have, and how long each has been silent.

procrastinate registers each worker and updates its heartbeat. ktx adds how often that is, which each host chooses for
itself, and registers a worker again that was removed from the list although it is alive, such as a suspended laptop.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import monotonic

if TYPE_CHECKING:
    from procrastinate.jobs import Job
    from procrastinate.manager import JobManager

    from ktx_cli.project import StateDatabase

HEARTBEATS_MISSED: Final = 4
"""After this many missed heartbeats, a worker counts as dead."""

LOOK_SECONDS: Final = 1.0
"""How much of the time between two looks at the heartbeats counts at most."""

FOREIGN_KEY: Final = "23503"
"""The SQLSTATE of a job for a worker that is not registered."""

log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job of the queue, with the worker that has it and that worker's last heartbeat, if there is one."""

    number: int
    status: str
    run_id: str | None
    """None for a job that no run has queued."""
    key: str | None
    worker: int | None
    heartbeat: float | None
    interval: float | None
    """The seconds between the heartbeats of the worker; None if it has not said that yet."""
    attempt: str = ""
    """The number of the job and how often it was given back: another attempt may be another worker's."""

    @property
    def unit(self) -> tuple[str | None, str | None]:
        """The run and the key of its unit."""
        return self.run_id, self.key

    def is_silent_for(self, silent: float, otherwise: float, times: int = 1) -> bool:
        """Whether the worker has missed its heartbeats. `otherwise`: the interval of one that has not said it."""
        return silent > times * HEARTBEATS_MISSED * (otherwise if self.interval is None else self.interval)


ATTEMPT: Final = "job.id || '.' || job.attempts"
"""The SQL for the attempt of a job."""


def queued_jobs(database: StateDatabase, schema: str) -> list[QueuedJob]:
    """Return all jobs. `schema`: that of the queue."""
    query = f"""
        SELECT job.id, job.status::text, job.args ->> 'run_id', job.args ->> 'key', worker.id,
               extract(epoch FROM worker.last_heartbeat)::float8, own.heartbeat_seconds,
               {ATTEMPT}
        FROM "{schema}".procrastinate_jobs AS job
        LEFT JOIN "{schema}".procrastinate_workers AS worker ON worker.id = job.worker_id
        LEFT JOIN queue_workers AS own ON own.worker = worker.id
        ORDER BY job.id
    """
    return [QueuedJob(*row) for row in database.execute(query).fetchall()]


@dataclass
class SilenceClock:
    """Measures how long workers have been silent while this process could have seen their heartbeats.

    The time before this process began to look does not count. A database that is only slow delays the time: it is not
    an interruption, however regularly it is slow.
    """

    _looked: float | None = None
    _silent: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Worker -> its last heartbeat, and for how long it has been the last one."""

    def look(self, jobs: Iterable[QueuedJob]) -> None:
        """Take the heartbeats that were just read."""
        now = monotonic()
        passed = 0.0 if self._looked is None else now - self._looked
        known, self._silent = self._silent, {}
        self._looked = now
        for job in jobs:
            if job.worker is not None and job.heartbeat is not None:
                last, silent = known.get(job.worker, (None, 0.0))
                counted = silent + min(passed, LOOK_SECONDS) if last == job.heartbeat else 0.0
                self._silent[job.worker] = (job.heartbeat, counted)

    def interrupt(self) -> None:
        """Give each worker its whole time again, after an outage or a suspension, when no heartbeat was seen."""
        self._looked, self._silent = None, {}

    def silent(self, job: QueuedJob) -> float:
        """Return the seconds for which the worker of a job has been silent; infinite if it is not registered."""
        return math.inf if job.worker is None else self._silent.get(job.worker, (0.0, 0.0))[1]


@dataclass
class Registration:
    """How this process is registered as a worker.

    `check_queue` raises an error if the queue is no longer that of this version; `is_unit` tells the jobs of runs from
    others, which are removed.
    """

    schema: str
    """The schema of the state."""
    check_queue: Callable[[], Awaitable[None]]
    is_unit: Callable[[Job], bool]
    heartbeat: float | None = None
    """The seconds between heartbeats."""
    number: int = 0
    """The number of the worker now; procrastinate knows its first one."""


@functools.cache
def worker_manager() -> Callable[[Any, Registration], JobManager]:
    """Return the manager of jobs of a process that may be a worker, which takes its `Registration`."""
    from procrastinate.exceptions import ConnectorException
    from procrastinate.jobs import Status
    from procrastinate.manager import JobManager

    class WorkerManager(JobManager):
        def __init__(self, connector: Any, registration: Registration) -> None:
            super().__init__(connector)
            self._own = registration

        async def register_worker(self) -> int:
            own = self._own
            own.number = await super().register_worker()
            if own.heartbeat is not None:
                await self.connector.execute_query_async(_FORGET.format(own.schema))
                values = {"worker": own.number, "seconds": own.heartbeat}
                await self.connector.execute_query_async(_REGISTER.format(own.schema), **values)
            return own.number

        async def unregister_worker(self, worker_id: int) -> None:
            await super().unregister_worker(self._own.number)

        async def update_heartbeat(self, worker_id: int) -> None:
            await super().update_heartbeat(self._own.number)

        async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
            while True:
                try:
                    job = await super().fetch_job(queues, self._own.number)
                except ConnectorException as error:
                    if getattr(error.__cause__, "sqlstate", None) != FOREIGN_KEY:
                        raise
                    await self._own.check_queue()
                    log.info("this worker was removed from the list of workers, and registers again")
                    await self.register_worker()
                    continue
                if job is None or self._own.is_unit(job):
                    return job
                assert job.id is not None
                log.warning("removed job %s, which no run has queued", job.id)
                await self.finish_job_by_id_async(job.id, Status.FAILED, delete_job=True)

    return WorkerManager


_FORGET: Final = """
    DELETE FROM "{}".queue_workers AS own WHERE NOT EXISTS (SELECT 1 FROM procrastinate_workers WHERE id = own.worker)
"""
_REGISTER: Final = """
    INSERT INTO "{}".queue_workers (worker, heartbeat_seconds) VALUES (%(worker)s, %(seconds)s)
    ON CONFLICT (worker) DO UPDATE SET heartbeat_seconds = excluded.heartbeat_seconds
"""
