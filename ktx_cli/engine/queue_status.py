"""What is in the queue of work units, for `ktx doctor`: its workers, and the units that wait or are stuck."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.engine.queue import has_others, queue_schema, queue_version, version_in
from ktx_cli.engine.queue_workers import HEARTBEATS_MISSED

if TYPE_CHECKING:
    import psycopg

    from ktx_cli.project import SharedDatabase


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue."""

    version: str | None
    """What it belongs to, such as `procrastinate 3.5.0`; None if its schema is still empty."""
    owner: str
    """Who owns it, or its first table that the user may not use."""
    may_use: bool
    """Whether the user may read and write it."""
    is_taken: bool = False
    """Whether its schema contains what ktx has not created, so that no run can create the queue."""
    workers: int = 0
    """The number of processes that work on units and have shown lately that they are alive."""
    waiting: int = 0
    in_progress: int = 0
    stuck: int = 0
    """The number of units in progress whose worker has missed its heartbeats."""
    waiting_seconds: float = 0.0
    """How long the unit that was queued first has been waiting."""


_SCHEMA: Final = """
    SELECT obj_description(oid, 'pg_namespace'), pg_get_userbyid(nspowner)::text, has_schema_privilege(oid, 'USAGE')
    FROM pg_namespace WHERE nspname = %s
"""
_RIGHTS: Final = """
    SELECT pg_get_userbyid(c.relowner)::text FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
    WHERE n.nspname = %s AND c.relkind = 'r' AND starts_with(c.relname, 'procrastinate_')
        AND NOT has_table_privilege(c.oid, wanted)
    ORDER BY c.relname LIMIT 1
"""
_HAS_INTERVALS: Final = "SELECT has_table_privilege(to_regclass(%s), 'SELECT')"
"""None if the state is older than the table."""
_LIVING: Final = """
    SELECT worker.id, now() - worker.last_heartbeat <= coalesce({1}, %s) * interval '{2} seconds' AS is_alive
    FROM {0}.procrastinate_workers AS worker
"""
_INTERVAL: Final = "(SELECT own.heartbeat_seconds FROM {}.queue_workers AS own WHERE own.worker = worker.id)"
_WORKERS: Final = "SELECT count(*) FROM ({}) AS worker WHERE is_alive"
_UNITS: Final = """
    WITH units AS (
        SELECT job.status::text, worker.is_alive IS NOT TRUE AS is_silent,
               (SELECT max(at) FROM {0}.procrastinate_events AS event WHERE event.job_id = job.id) AS since
        FROM {0}.procrastinate_jobs AS job LEFT JOIN ({1}) AS worker ON worker.id = job.worker_id
    )
    SELECT count(*) FILTER (WHERE status = 'todo'), count(*) FILTER (WHERE status = 'doing' AND NOT is_silent),
           count(*) FILTER (WHERE status = 'doing' AND is_silent),
           coalesce(extract(epoch FROM now() - min(since) FILTER (WHERE status = 'todo')), 0)::float8
    FROM units
"""


def queue_facts(database: SharedDatabase, session: psycopg.Connection[Any], heartbeat: float) -> QueueFacts | None:
    """Return the facts about a queue, or None if there is none; raises the errors of psycopg. Changes nothing.

    `heartbeat`: the seconds between heartbeats of workers that have not stored their own interval.
    """
    schema = queue_schema(database)
    row = session.execute(_SCHEMA.encode(), (schema,)).fetchone()
    if row is None:
        return None
    comment, owner, may_use = row
    version = version_in(comment)
    if version != queue_version() and has_others(session, schema, is_ours=version is not None):
        return QueueFacts(version, owner, may_use, is_taken=True)
    unusable = session.execute(_RIGHTS.encode(), (schema,)).fetchone()
    if may_use and unusable is not None:
        owner, may_use = unusable[0], False
    if version is None or not may_use:
        return QueueFacts(version, owner, may_use)
    name, state = f'"{schema}"', f'"{database.schema}"'
    has_intervals: Any = session.execute(_HAS_INTERVALS.encode(), (f"{state}.queue_workers",)).fetchone()
    living = _LIVING.format(name, _INTERVAL.format(state) if has_intervals[0] else "NULL", HEARTBEATS_MISSED)
    workers = _count(session, _WORKERS.format(living), heartbeat)
    counts: Any = session.execute(_UNITS.format(name, living).encode(), (heartbeat,)).fetchone()
    return QueueFacts(version, owner, True, False, workers, *counts)


def _count(session: psycopg.Connection[Any], query: str, *values: Any) -> int:
    row: Any = session.execute(query.encode(), values).fetchone()
    return int(row[0])
