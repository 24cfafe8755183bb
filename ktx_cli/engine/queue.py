"""The queue of work units in the shared state: jobs for workers on all hosts, their claims and their results.

procrastinate keeps the jobs in a schema of its own beside the state: `FOR UPDATE SKIP LOCKED`, heartbeats of workers,
and one job at a time for each unit. What a unit has paid for is in the journal of its steps, from which another
worker continues after one has died. A claim fences a worker that was only thought dead: it can no longer store
anything.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import BusyError, Command, ConfigError, Hint, KtxError, SettingPath, StorageError, monotonic
from ktx_cli.engine.queue_workers import ATTEMPT, FOREIGN_KEY, Registration, worker_manager
from ktx_cli.engine.work import DamagedOutcomeError, TaskStore, UnitOutcome, UnitStatus
from ktx_cli.llm import StoredStep
from ktx_cli.project import (
    OUTAGE_SECONDS,
    REPORT_SECONDS,
    StateDatabase,
    clock_of,
    connect,
    connection_parameters,
    database_failure,
    host_identity,
    is_outage,
    outage_message,
    process_start,
    recovery_message,
    transaction,
)

if TYPE_CHECKING:
    import psycopg
    from procrastinate import App, PsycopgConnector
    from procrastinate.jobs import Job

    from ktx_cli.documents import WorkUnit
    from ktx_cli.engine.queue_workers import QueuedJob
    from ktx_cli.engine.work import SourceWork
    from ktx_cli.llm import Governor
    from ktx_cli.project import SharedDatabase

QUEUE: Final = "units"
TASK: Final = "ktx.unit"
_SCHEMA_SUFFIX: Final = "_queue"


@dataclass(frozen=True, slots=True)
class UnitJob:
    """A job of the queue. `key`: under which the unit's steps and its outcome are stored."""

    run_id: str
    connection: str
    kind: str
    unit: str
    key: str

    def to_json(self) -> dict[str, str]:
        """Return the job as arguments of procrastinate's task."""
        return asdict(self)

    @classmethod
    def parse(cls, arguments: object) -> UnitJob | None:
        """Return the job with these arguments; None for arguments that no run has queued."""
        names = {each.name for each in fields(cls)}
        if not isinstance(arguments, dict) or arguments.keys() != names:
            return None
        return cls(**arguments) if all(isinstance(value, str) for value in arguments.values()) else None


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """A worker process, recognizable as dead on its own host. `token`: of the process, or of one of its claims.

    `attempt`: the attempt that a claim is for, see `QueuedJob`; a job that was given back may be with another worker.
    """

    hostname: str = field(default_factory=socket.gethostname)
    host: str = field(default_factory=host_identity)
    pid: int = field(default_factory=os.getpid)
    process_start: str = field(default_factory=lambda: process_start(os.getpid()) or "")
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    attempt: str = ""

    def __str__(self) -> str:
        return json.dumps([self.hostname, self.host, self.pid, self.process_start, self.token, self.attempt])

    @classmethod
    def parse(cls, text: str) -> WorkerIdentity:
        """Return the worker that a claim names; one that nobody knows for a text that no worker has stored."""
        try:
            return cls(*json.loads(text))
        except (TypeError, ValueError):
            return cls("unknown", "", 0, "", "")

    @property
    def name(self) -> str:
        """The worker for people: `db1 (pid 4711)`."""
        return f"{self.hostname} (pid {self.pid})"

    def has(self, job: QueuedJob) -> bool:
        """Whether its claim is for the current attempt of a job; taken for granted if the claim does not say so."""
        return self.attempt in ("", job.attempt)

    @property
    def is_known_alive(self) -> bool:
        """Whether the process runs on this host, however long it has not shown that."""
        return self.host == host_identity() and process_start(self.pid) == self.process_start

    @property
    def is_known_dead(self) -> bool:
        """Whether the process ran on this host and has ended."""
        return self.host == host_identity() and process_start(self.pid) != self.process_start


def queue_schema(database: SharedDatabase) -> str:
    """Return the schema of the queue."""
    return f"{database.schema}{_SCHEMA_SUFFIX}"


def prepare_queue(database: SharedDatabase) -> None:
    """Create the queue, or create it anew for another version of procrastinate.

    Only a run that holds the run lock calls this: no jobs are lost that it does not defer again. Raises `StorageError`,
    also for a schema with anything that ktx has not created: its comment says so.
    """
    import psycopg
    from procrastinate.schema import SchemaManager
    from psycopg import sql

    name = queue_schema(database)
    version = queue_version()
    try:
        with contextlib.closing(connect(database)) as session, session.transaction():
            session.execute(f"SELECT pg_advisory_xact_lock({database.lock_key_of('queue')})")
            row = session.execute(_COMMENT, (name,)).fetchone()
            found = None if row is None else version_in(row[0])
            if found == version:
                return
            if has_others(session, name, is_ours=found is not None):
                raise taken_queue(name)
            identifier = sql.Identifier(name)
            if row is None:
                session.execute(sql.SQL("CREATE SCHEMA {}").format(identifier))
            elif found is not None:  # not the schema itself: the user may have no right to create another one
                session.execute(sql.SQL(_EMPTY).format(sql.Literal(name)))
            session.execute(sql.SQL("SET LOCAL search_path = {}, pg_catalog").format(identifier))
            session.execute(SchemaManager.get_schema())
            session.execute(sql.SQL("COMMENT ON SCHEMA {} IS {}").format(identifier, sql.Literal(version)))
    except psycopg.Error as error:
        raise database_failure(database, error) from error


_COMMENT: Final = "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s"
_OTHERS: Final = """
    SELECT 1 FROM (
        SELECT relname AS name FROM pg_class
        WHERE relnamespace = to_regnamespace(quote_ident(%(schema)s)) AND relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
        UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace(quote_ident(%(schema)s))
        UNION ALL SELECT typname FROM pg_type
        WHERE typnamespace = to_regnamespace(quote_ident(%(schema)s)) AND typtype IN ('d', 'e', 'r')
    ) AS found WHERE NOT (%(is_ours)s AND starts_with(name, 'procrastinate_')) LIMIT 1
"""
"""What is in a schema, except the queue if ktx has created it."""


def version_in(comment: str | None) -> str | None:
    """Return the version of the queue in a schema with this comment, or None if ktx has created none there."""
    is_ours = comment is not None and re.fullmatch(r"procrastinate \d\S*", comment) is not None
    return comment if is_ours else None


def has_others(session: psycopg.Connection[Any], schema: str, *, is_ours: bool) -> bool:
    """Return whether a schema contains what ktx has not created. `is_ours`: ktx has created a queue there."""
    return session.execute(_OTHERS, {"schema": schema, "is_ours": is_ours}).fetchone() is not None


def taken_queue(schema: str) -> StorageError:
    """Return the error for a schema in which ktx cannot create the queue."""
    message = f"the schema {schema}, which is reserved for the queue, contains objects that ktx did not create"
    hint = Hint("choose another {}, or drop what is in that schema", SettingPath("storage.postgres.schema"))
    return StorageError(message, hint=hint)


_EMPTY: Final = """
    DO $$ DECLARE statements text; BEGIN
        SELECT string_agg(statement, '; ' ORDER BY place) INTO statements FROM (
            SELECT 1 AS place, format('DROP TABLE IF EXISTS %s CASCADE', c.oid::regclass) AS statement
            FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = to_regnamespace(quote_ident({0}))
            UNION ALL SELECT 2, format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure)
            FROM pg_proc AS p WHERE p.pronamespace = to_regnamespace(quote_ident({0}))
            UNION ALL SELECT 3, format('DROP TYPE IF EXISTS %s CASCADE', t.oid::regtype)
            FROM pg_type AS t LEFT JOIN pg_class AS c ON c.oid = t.typrelid
            WHERE (t.typtype = 'e' OR c.relkind = 'c') AND t.typnamespace = to_regnamespace(quote_ident({0}))
        ) AS found;
        IF statements IS NOT NULL THEN EXECUTE statements; END IF;
    END $$
"""


def queue_version() -> str:
    """Return what has to be equal for processes that share a queue; raises `ConfigError` without procrastinate."""
    try:
        from procrastinate.metadata import extract_metadata
    except ImportError as error:
        install = Command("install", "ktx-cli[workers]", program="pip")
        raise ConfigError("`ingest.executor: postgres` needs the package procrastinate", hint=install) from error
    return f"procrastinate {extract_metadata()['version']}"


@dataclass
class Outage:
    """What to do while the database does not respond: wait for it, for at most `patience` seconds, and say so."""

    database: SharedDatabase
    patience: float = OUTAGE_SECONDS
    report: Callable[[str], None] = lambda message: None
    problem: StorageError | None = None
    """Why the queue cannot be used any more."""
    _began: float | None = None
    _reported: bool = False

    async def wait(self, error: Exception) -> None:
        """Wait a moment after an error; raises `StorageError` if it is another one, or has lasted too long."""
        import asyncio

        from psycopg_pool import PoolTimeout

        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        if isinstance(cause, PoolTimeout):  # which does not name the reason
            cause = await asyncio.to_thread(self._reason, cause)
        now = monotonic()
        self._began = now if self._began is None else self._began
        if not is_outage(cause) or now - self._began > self.patience:
            self.problem = database_failure(self.database, cause)
            raise self.problem from error
        if not self._reported and now - self._began > REPORT_SECONDS:
            self._reported = True
            self.report(outage_message(self.database, cause))
        await asyncio.sleep(0.2)

    def over(self) -> None:
        """Note that the database responds."""
        if self._began is not None:
            if self._reported:
                self.report(recovery_message(self.database))
            self._began, self._reported = None, False

    def _reason(self, otherwise: Exception) -> Exception:
        import psycopg

        try:
            connect(self.database, read_only=True).close()
        except psycopg.Error as error:
            return error
        return otherwise


@dataclass(frozen=True, slots=True)
class Queue:
    """An open queue."""

    app: App
    outage: Outage
    registration: Registration


@contextlib.asynccontextmanager
async def open_queue(outage: Outage, connections: int = 4) -> AsyncIterator[Queue]:
    """Open the queue with up to this many connections; raises `StorageError` if there is none, or another version's."""
    import psycopg
    from procrastinate import App

    database = outage.database
    _require_version(database)
    _quieten()
    options = {"options": f'-c search_path="{queue_schema(database)}",pg_catalog'}
    parameters = {**connection_parameters(database), **options}
    sizes: dict[str, Any] = {
        "min_size": 1,
        "max_size": connections,
        "timeout": CONNECT_SECONDS,
        "reconnect_timeout": 1.0,
    }
    app = App(connector=_patient_connector()(outage=outage, kwargs=parameters, **sizes))
    registration = Registration(database.schema, functools.partial(_check_version, outage), _is_unit)
    app.job_manager = worker_manager()(app.connector, registration)
    try:
        await app.open_async()
    except psycopg.Error as error:
        raise database_failure(database, error) from error
    try:
        yield Queue(app, outage, registration)
    finally:
        await app.close_async()


CONNECT_SECONDS: Final = 10


def _is_unit(job: Job) -> bool:
    """Whether a run has queued a job."""
    return job.task_name == TASK and UnitJob.parse(job.task_kwargs) is not None


def _require_version(database: SharedDatabase) -> None:
    found = _found_version(database)
    if found != queue_version():
        message = (
            f"the queue in schema {queue_schema(database)} does not exist"
            if found is None
            else f"the queue in schema {queue_schema(database)} belongs to {found}, but this is {queue_version()}"
        )
        raise StorageError(message, hint="the next run with `ingest.executor: postgres` creates it")


async def _check_version(outage: Outage) -> None:
    """Raise `StorageError` if the queue is no longer that of this version; waits as long as `outage` does."""
    import asyncio

    while True:
        try:
            return await asyncio.to_thread(_require_version, outage.database)
        except StorageError as error:
            if not has_outage(error):
                raise
            await outage.wait(error)


@functools.cache
def _patient_connector() -> type[PsycopgConnector]:
    """Return a connector whose statements wait for a server that restarts, and are sent again."""
    from procrastinate import PsycopgConnector
    from procrastinate.exceptions import ConnectorException

    class PatientConnector(PsycopgConnector):
        def __init__(self, *, outage: Outage, **options: Any) -> None:
            super().__init__(**options)
            self._outage = outage

        async def execute_query_async(self, query: Any, **arguments: Any) -> None:
            await self._patiently(functools.partial(super().execute_query_async, query, **arguments))

        async def execute_query_one_async(self, query: Any, **arguments: Any) -> dict[str, Any]:
            ask = functools.partial(super().execute_query_one_async, query, **arguments)
            answer: dict[str, Any] = await self._patiently(ask)
            return answer

        async def execute_query_all_async(self, query: Any, **arguments: Any) -> list[dict[str, Any]]:
            ask = functools.partial(super().execute_query_all_async, query, **arguments)
            answer: list[dict[str, Any]] = await self._patiently(ask)
            return answer

        async def listen_notify(self, on_notification: Any, channels: Iterable[str]) -> None:
            await self._patiently(functools.partial(super().listen_notify, on_notification, channels))

        async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
            while True:
                try:
                    answer = await ask()
                except ConnectorException as error:
                    state = getattr(error.__cause__, "sqlstate", None)
                    if state == FOREIGN_KEY:  # see `WorkerManager`
                        raise
                    if state == _RAISED:
                        log.debug("a job is gone: %s", error.__cause__)
                        return None
                    await self._outage.wait(error)
                else:
                    self._outage.over()
                    return answer

    return PatientConnector


_RAISED: Final = "P0001"
"""What procrastinate's functions raise for a job that is no longer there, because another worker got its unit."""

log: Final = logging.getLogger(__name__)


def has_outage(error: BaseException) -> bool:
    """Whether an error comes from a database that may respond again."""
    return isinstance(error, StorageError) and isinstance(error.__cause__, Exception) and is_outage(error.__cause__)


class _ToDebugLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log.debug("%s: %s", record.name, record.getMessage())


def _quieten() -> None:
    """Redirect the logs of the queue's libraries into ktx's: what matters is raised, and reported in ktx's words."""
    for name in ("procrastinate", "psycopg.pool"):
        logger = logging.getLogger(name)
        logger.propagate = False
        if not any(isinstance(handler, _ToDebugLog) for handler in logger.handlers):
            logger.addHandler(_ToDebugLog())


def has_queue(database: SharedDatabase) -> bool:
    """Return whether a run has created the queue."""
    return _found_version(database) is not None


def _found_version(database: SharedDatabase) -> str | None:
    import psycopg

    try:
        with contextlib.closing(connect(database, read_only=True)) as session:
            row = session.execute(_COMMENT, (queue_schema(database),)).fetchone()
    except psycopg.Error as error:
        raise database_failure(database, error) from error
    return None if row is None else version_in(row[0])


_PAUSE: Final = "models"


def share_pace(database: StateDatabase, governor: Governor) -> None:
    """Let all processes of the project wait while one of them has to, until a provider's limit resets."""
    now = clock_of(database)
    row = database.execute("SELECT paused_until FROM rate_pauses WHERE name = ?", (_PAUSE,)).fetchone()
    others, own = (0.0 if row is None else float(row[0]) - now), governor.paused_for
    if own > others + 0.5:
        database.execute("INSERT OR REPLACE INTO rate_pauses VALUES (?, ?)", (_PAUSE, now + own))
    elif others > own:
        governor.adopt(others)


_OWNS: Final = "SELECT 1 FROM unit_results WHERE run_id = ? AND key = ? AND worker = ?"


def claim(
    database: StateDatabase, job: UnitJob, worker: WorkerIdentity, number: int, schema: str
) -> WorkerIdentity | None:
    """Record who works on a unit, and return the worker with the token of this claim.

    Whoever had the unit before can no longer store anything for it, not even an earlier task of the same process.
    Returns None, and changes nothing, if the unit is not to be processed: its run is over, it has a result, or the job
    with this number has been replaced because this process seemed to be dead. `schema`: that of the queue.
    """
    owned = f"SELECT {ATTEMPT} FROM \"{schema}\".procrastinate_jobs AS job WHERE id = ? AND status = 'doing'"
    waits = "SELECT 1 FROM run_packages WHERE run_id = ? AND stopped IS NULL"
    ended = "SELECT 1 FROM unit_results WHERE run_id = ? AND key = ? AND result IS NOT NULL"
    query = f"{owned} AND EXISTS ({waits}) AND NOT EXISTS ({ended})"
    with transaction(database):
        found = database.execute(query, (number, job.run_id, job.run_id, job.key)).fetchone()
        if found is None:
            return None
        claimant = replace(worker, token=uuid.uuid4().hex, attempt=found[0])
        row = (job.run_id, job.key, str(claimant))
        database.execute("INSERT OR REPLACE INTO unit_results VALUES (?, ?, ?, NULL)", row)
    return claimant


def save_result(database: StateDatabase, job: UnitJob, worker: WorkerIdentity, outcome: UnitOutcome) -> None:
    """Store how a unit ended, unless another worker has claimed it by now."""
    document = {
        "status": outcome.status.value,
        "reason": outcome.reason,
        "steps": outcome.steps,
        "tool_calls": outcome.tool_calls,
        "budget_used": outcome.budget_used,
        "session": outcome.session,
        "replayed": outcome.replayed,
        "error": None if outcome.error is None else outcome.error.to_json(),
    }
    text = json.dumps(document, sort_keys=True, default=str)
    query = "UPDATE unit_results SET result = ? WHERE run_id = ? AND key = ? AND worker = ?"
    database.execute(query, (text, job.run_id, job.key, str(worker)))


def outcome_of(result: str, work: SourceWork, unit: WorkUnit, key: str, kept: Mapping[str, Any] | None) -> UnitOutcome:
    """Return the outcome that a worker stored; `kept`: what is stored for a unit that is done.

    Raises `DamagedOutcomeError`.
    """
    try:
        return _outcome_of(json.loads(result), work, unit, key, kept)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedOutcomeError(unit, "it is incomplete") from error


def _outcome_of(
    result: Mapping[str, Any], work: SourceWork, unit: WorkUnit, key: str, kept: Mapping[str, Any] | None
) -> UnitOutcome:
    status = UnitStatus(result["status"])
    if status is UnitStatus.DONE:
        if kept is None:
            reason = "its outcome is missing in the shared state"
            return UnitOutcome(work.connection, work.kind, unit, UnitStatus.LEFT, reason, kept_as=key)
        outcome = UnitOutcome.of_kept(work.connection, work.kind, unit, kept, key)
        return replace(outcome, replayed=bool(result["replayed"]))
    error = result["error"]
    return UnitOutcome(
        work.connection,
        work.kind,
        unit,
        status,
        result["reason"],
        session=result["session"],
        steps=result["steps"],
        tool_calls=result["tool_calls"],
        budget_used=result["budget_used"],
        kept_as=key,
        error=None if error is None else _error_from(error),
    )


def _error_from(document: Mapping[str, Any]) -> KtxError:
    code, details = str(document.get("code") or "failed"), document.get("details") or {}
    return KtxError(str(document.get("message")), hint=document.get("hint"), details=details, code=code)


@dataclass(frozen=True, slots=True)
class ClaimedStore(TaskStore):
    """Stores the steps and the outcome of a claimed unit; raises `BusyError` once another worker has claimed it."""

    job: UnitJob = field(kw_only=True)
    worker: WorkerIdentity = field(kw_only=True)

    problems: list[StorageError] = field(default_factory=list, kw_only=True)
    """Why steps could not be stored."""

    def append(self, key: str, loop: str, number: int, step: StoredStep, session: Mapping[str, Any]) -> None:
        """See `TaskStore`."""
        row = (key, loop, number, json.dumps(step), json.dumps(session))
        query = f"INSERT OR REPLACE INTO unit_steps SELECT ?, ?, ?, ?, ? WHERE EXISTS ({_OWNS})"
        try:
            count = self.database.execute(query, (*row, *self._claim)).rowcount
        except StorageError as error:
            self.problems.append(error)
            raise
        if count == 0:
            raise self._lost()

    def drop_steps(self, key: str) -> None:
        """See `TaskStore`; the steps of a unit that failed because of the database are kept."""
        if self.problems:
            raise self.problems[0]
        TaskStore.drop_steps(self, key)

    def check(self) -> None:
        """See `TaskStore`."""
        if self.database.execute(_OWNS, self._claim).fetchone() is None:
            raise self._lost()

    @property
    def _claim(self) -> tuple[str, str, str]:
        return self.job.run_id, self.job.key, str(self.worker)

    def _lost(self) -> BusyError:
        return BusyError(
            f"another worker has taken over the unit `{self.job.unit}`", hint="ktx continues the unit there"
        )
