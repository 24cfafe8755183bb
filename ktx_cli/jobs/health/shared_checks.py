"""The check of what hosts share: the database, its search index, the queue with its workers, and the snapshot.

It only reads. A run creates or updates what is missing.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, GitMissingError, Hint, KtxError, SettingPath, Statement, age, listing, now, plural
from ktx_cli.jobs.health.facts import seconds_since
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Concern, Level, failed
from ktx_cli.project import (
    NO_PRIVILEGE,
    SEMANTIC_NAME,
    SHARED_STORAGE,
    SharedDatabase,
    SharedFacts,
    clock_of,
    connect,
    current_holder,
    database_failure,
    is_database_missing,
    is_login_refused,
    is_outage,
    newer_state,
    read_state,
    shared_facts,
    taken_schema,
    without_database,
)

if TYPE_CHECKING:
    import psycopg

    from ktx_cli.engine import QueueFacts
    from ktx_cli.jobs.serve.snapshot import Snapshot

SHARED: Final = "shared"
SEARCH, QUEUE, SNAPSHOT = f"{SHARED}:search", f"{SHARED}:queue", f"{SHARED}:snapshot"

_URL: Final = "storage.postgres.url"

CLOCK_SECONDS: Final = 60.0
"""Larger differences between the clocks of a host and of the server are reported."""

WAITING_SECONDS: Final = 60.0
"""Units that no worker takes for longer than this are reported."""


def is_shared(context: CheckContext) -> bool:
    """Return whether the settings put the state or the search index into Postgres, even if they name no database."""
    storage = context.loaded.config.storage
    return not {storage.state, storage.search}.isdisjoint(SHARED_STORAGE)


def check_shared(context: CheckContext) -> list[CheckResult]:
    """Check that this host can use the shared database, and that nothing in it waits for somebody."""
    if not is_shared(context):
        return [CheckResult(SHARED, Level.OK, "nothing is shared with other hosts")]
    config = context.loaded.config
    unnamed = without_database(config.storage)
    if unnamed is not None:
        _, message, hint = unnamed
        return [CheckResult(SHARED, Level.WARN, f"{message}; nothing is shared with other hosts", hint, Concern.SETUP)]
    database = SharedDatabase.of(config, context.project_dir, context.environ)
    assert database is not None
    import psycopg

    try:
        with contextlib.closing(connect(database, read_only=True)) as session:
            facts = shared_facts(database, session)
            findings = list(_of_database(context, database, facts))
            is_usable = all(finding.level is not Level.FAIL for finding in findings)
            if is_usable and config.storage.search in SHARED_STORAGE:
                findings += _part(SEARCH, lambda: _of_search(context, database))
                findings += _part(SEARCH, lambda: _of_unused_versions(database))
            if is_usable and config.storage.state in SHARED_STORAGE:
                if config.ingest.executor in SHARED_STORAGE:
                    findings += _part(QUEUE, lambda: _of_queue(context, database, facts, session))
                findings += _part(SNAPSHOT, lambda: _of_snapshot(context))
    except psycopg.Error as error:
        return [_unusable(database, error)]
    return findings


def say_once(results: Sequence[Sequence[CheckResult]]) -> list[list[CheckResult]]:
    """Return the results of checks; only the check of the shared database says why that cannot be reached."""
    explained = {each.database for found in results for each in found if each.check == SHARED and each.database}

    def shortened(each: CheckResult) -> CheckResult:
        if each.check == SHARED or each.database not in explained:
            return each
        message = f"unknown, because the shared database cannot be reached; see the check `{SHARED}`"
        return replace(each, message=message, hint=Command("doctor", "--only", SHARED))

    return [[shortened(each) for each in found] for found in results]


def _unusable(database: SharedDatabase, error: psycopg.Error) -> CheckResult:
    """Return the result for a database that cannot be used, with the way out for what the server says."""
    found = failed(SHARED, database_failure(database, error, "the shared database"))
    if is_login_refused(error):
        hint = Hint("correct the user and the password in {}", SettingPath(_URL))
        return replace(found, hint=hint, concern=Concern.AUTH)
    if is_database_missing(error):
        name = str(database.parameters.get("dbname") or database.parameters.get("user") or "").replace('"', '""')
        return replace(found, hint=_administrator(f'CREATE DATABASE "{name}"'), concern=Concern.SETUP)
    if error.sqlstate == NO_PRIVILEGE:
        return replace(found, hint="ask an administrator for that right")
    if is_outage(error):
        place = [("-h", database.parameters.get("host")), ("-p", database.parameters.get("port"))]
        words = [word for option, value in place if value for word in (option, value)]
        ready = Command(*words, program="pg_isready")
        return replace(found, hint=Hint("check that the server runs and is reachable: {}", ready))
    return replace(found, hint=Hint("check {}", SettingPath(_URL)))


def _part(name: str, check: Any) -> list[CheckResult]:
    try:
        return list(check())
    except KtxError as error:
        return [failed(name, error)]


def _of_database(context: CheckContext, database: SharedDatabase, facts: SharedFacts) -> Iterator[CheckResult]:
    is_state = context.loaded.config.storage.state in SHARED_STORAGE
    if is_state and facts.is_newer:
        error = newer_state(database, facts.version, facts.created_by)
        yield CheckResult(SHARED, Level.FAIL, error.message, error.hint, Concern.SETUP)
        return
    where = f"{database}, version {facts.server}, {facts.milliseconds:,.0f} ms"
    if not facts.has_schema:
        yield _without_schema(database, facts, where)
    else:
        yield _of_schema(context, database, facts, where)
    if abs(facts.ahead) > CLOCK_SECONDS:
        side = "behind" if facts.ahead > 0 else "ahead of"
        message = f"the clock of this host is {abs(facts.ahead):,.0f} s {side} that of the shared database"
        compare = Hint("compare {} on both machines, and synchronize their clocks", Command("-u", program="date"))
        yield CheckResult(SHARED, Level.WARN, message, compare)


def _without_schema(database: SharedDatabase, facts: SharedFacts, where: str) -> CheckResult:
    if facts.is_standby:
        return _standby(where)
    if facts.may_create_schemas:
        return CheckResult(SHARED, Level.OK, f"{where}: the schema does not exist yet; the first run creates it")
    message = f"{where}: the schema does not exist, and the user `{facts.user}` may not create it"
    hint = _administrator(f'CREATE SCHEMA "{database.schema}" AUTHORIZATION "{facts.user}"')
    return CheckResult(SHARED, Level.FAIL, message, hint, Concern.SETUP)


def _of_schema(context: CheckContext, database: SharedDatabase, facts: SharedFacts, where: str) -> CheckResult:
    if facts.foreign and context.loaded.config.storage.state in SHARED_STORAGE:
        error = taken_schema(database, facts.foreign)
        return CheckResult(SHARED, Level.FAIL, error.message, error.hint, Concern.SETUP)
    schema, user = f'"{database.schema}"', f'"{facts.user}"'
    grant = f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {user}"
    if not facts.may_read:
        message = f"{where}: the user `{facts.user}` may not read the schema"
        return CheckResult(SHARED, Level.FAIL, message, _administrator(grant), Concern.SETUP)
    is_state = context.loaded.config.storage.state in SHARED_STORAGE
    is_old = is_state and not facts.is_current
    if facts.is_standby:
        return _standby(where)
    if facts.missing or (is_old and not facts.may_create_tables):
        rights = listing(facts.missing) or "CREATE"
        message = f"{where}: the user `{facts.user}` lacks {rights}, so this host can search, but runs fail here"
        return CheckResult(SHARED, Level.WARN, message, _administrator(grant))
    if is_old and facts.owners:
        message = f"{where}: an older ktx created the tables, and the user `{facts.user}` may not change them"
        hint = _administrator("; ".join(f'GRANT "{owner}" TO {user}' for owner in facts.owners))
        return CheckResult(SHARED, Level.FAIL, message, hint, Concern.SETUP)
    if is_old and facts.version:
        message = f"{where}: {facts.created_by or 'an older ktx'} created the tables; the next run updates them"
        return CheckResult(SHARED, Level.WARN, message, Command("ingest"))
    if is_old:
        return CheckResult(SHARED, Level.OK, f"{where}: the schema has no tables yet; the first run creates them")
    return CheckResult(SHARED, Level.OK, where)


def _standby(where: str) -> CheckResult:
    hint = Hint("use the primary server in {}", SettingPath(_URL))
    return CheckResult(SHARED, Level.FAIL, f"{where}: this is a standby server, on which nothing can be stored", hint)


def _administrator(statements: str) -> Hint:
    return Hint("as an administrator: {}", Statement(statements))


def _of_search(context: CheckContext, database: SharedDatabase) -> Iterator[CheckResult]:
    from ktx_cli.search import is_indexed

    yield _of_vectors(context, database)
    if not is_indexed(database) and replicated(context) is None:  # a replica creates it when it starts
        message = "this version of ktx has no index yet, so each search reads all files"
        yield CheckResult(SEARCH, Level.WARN, message, Command("index"))


def _of_vectors(context: CheckContext, database: SharedDatabase) -> CheckResult:
    from ktx_cli.search import drop_statement, vector_facts

    if context.loaded.config.ingest.embeddings.backend == "none":
        return CheckResult(SEARCH, Level.OK, "the index has no vectors")
    vectors = vector_facts(database)
    if vectors.in_database or (vectors.in_database is None and vectors.is_installed):
        return CheckResult(SEARCH, Level.OK, "pgvector compares vectors")
    if not vectors.is_available:
        return CheckResult(SEARCH, Level.OK, "ktx compares vectors in memory; the server has no pgvector")
    if vectors.in_database is None and vectors.may_install:
        return CheckResult(SEARCH, Level.OK, "the first `ktx index` creates the extension pgvector")
    steps = [] if vectors.is_installed else ["CREATE EXTENSION vector"]
    steps += [] if vectors.in_database is None else [drop_statement(database)]
    why = "the index is older than the extension pgvector" if vectors.is_installed else "pgvector is not installed"
    hint = Hint.steps(_administrator("; ".join(steps)), Command("index"))
    return CheckResult(SEARCH, Level.WARN, f"ktx compares vectors in memory, because {why}", hint)


def _of_unused_versions(database: SharedDatabase) -> Iterator[CheckResult]:
    """Report what an update of ktx has left: it contains row values, and no run deletes it."""
    from ktx_cli.search import KEPT_DAYS, unused_versions

    for version in unused_versions(database):
        message = (
            f"the tables `{version.name}*` ({version.size}) belong to another version of the index, which no host"
            f" has used for {KEPT_DAYS} days; they contain values of your data"
        )
        yield CheckResult(SEARCH, Level.WARN, message, Hint("as their owner: {}", Statement(version.drop)))


def _of_queue(
    context: CheckContext, database: SharedDatabase, facts: SharedFacts, session: psycopg.Connection[Any]
) -> Iterator[CheckResult]:
    from ktx_cli.engine import queue_facts, queue_schema, queue_version, taken_queue

    own, schema = queue_version(), queue_schema(database)
    queue = queue_facts(database, session, context.loaded.config.ingest.workers.heartbeat_seconds)
    if queue is not None and queue.is_taken:
        yield failed(QUEUE, taken_queue(schema), Concern.SETUP)
    elif queue is None and not facts.may_create_schemas:
        message = f"there is no queue yet, and the user `{facts.user}` may not create it"
        hint = _administrator(f'CREATE SCHEMA "{schema}" AUTHORIZATION "{facts.user}"')
        yield CheckResult(QUEUE, Level.FAIL, message, hint, Concern.SETUP)
    elif queue is None or (queue.version is None and queue.may_use):
        yield CheckResult(QUEUE, Level.OK, "the first run with sources and a model creates the queue")
    elif not queue.may_use:
        message = f"the user `{facts.user}` may not use the schema {schema}"
        hint = _administrator(f'GRANT "{queue.owner}" TO "{facts.user}"')
        yield CheckResult(QUEUE, Level.FAIL, message, hint, Concern.SETUP)
    elif queue.version != own:
        message = f"{queue.version} created the queue, but this host has {own}; the next run here creates it again"
        update = Command("install", "--upgrade", "ktx-cli[workers]", program="pip")
        yield CheckResult(QUEUE, Level.WARN, f"{message}, and then all hosts need {own}", update)
    else:
        yield _of_units(context, queue)


def _of_units(context: CheckContext, queue: QueueFacts) -> CheckResult:
    own = context.loaded.config.ingest.workers.coordinator
    has_run = _has_run(context)
    worker, ingest = Command("worker"), Command("ingest")
    counts = (
        f"{plural(queue.workers, 'worker')}, {plural(queue.waiting, 'waiting unit')}, {queue.in_progress:,} in progress"
    )
    is_late = queue.waiting and queue.waiting_seconds > WAITING_SECONDS
    since = age(round(queue.waiting_seconds))
    if not has_run and (queue.waiting or queue.stuck):
        left = plural(queue.waiting + queue.stuck, "work unit")
        return CheckResult(QUEUE, Level.WARN, f"an interrupted run left {left}; the next run continues there", ingest)
    if queue.stuck:
        message = (
            f"{counts}, and {plural(queue.stuck, 'unit')} of workers that do not respond; other workers continue them"
        )
        return CheckResult(QUEUE, Level.WARN, message, worker)
    if is_late and not queue.in_progress:
        message = f"{counts}: no worker is taking units; the first was queued {since}"
        return CheckResult(QUEUE, Level.WARN, message, worker)
    if not queue.workers and not own:
        message = "no worker is running, and `ingest.workers.coordinator` is false, so runs would wait for one"
        return CheckResult(QUEUE, Level.WARN, message, worker)
    if not queue.workers:
        return CheckResult(QUEUE, Level.OK, "no worker is running; runs process their units themselves")
    return CheckResult(QUEUE, Level.OK, f"{counts}{f', the first queued {since}' if is_late else ''}")


def _has_run(context: CheckContext) -> bool:
    holder, clock = read_state(context.layout, lambda state: (current_holder(state), clock_of(state))) or (None, 0.0)
    return holder is not None and holder.is_alive(clock)


def replicated(context: CheckContext) -> Snapshot | None:
    """Return the published snapshot, in the folder of a replica: settings and a shared state, nothing else."""
    if context.loaded.config.storage.state not in SHARED_STORAGE or (context.project_dir / SEMANTIC_NAME).exists():
        return None
    from ktx_cli.jobs.serve.snapshot import published_snapshot

    try:
        with contextlib.suppress(GitMissingError):  # which a replica does not need
            if context.repository is not None:
                return None
        return published_snapshot(context.layout)
    except KtxError:  # reported by the checks of the repository and of the shared database
        return None


_Run = Callable[[CheckContext], list[CheckResult]]


def of_files(name: str) -> Callable[[_Run], _Run]:
    """Let a check of files in a clone skip the folder of a replica, which has none."""

    def decorated(check: _Run) -> _Run:
        @functools.wraps(check)
        def run(context: CheckContext) -> list[CheckResult]:
            if replicated(context) is None:
                return check(context)
            message = "not checked here: this is the folder of a replica, whose files are in the snapshot"
            return [CheckResult(name, Level.SKIP, message)]

        return run

    return decorated


def _of_snapshot(context: CheckContext) -> Iterator[CheckResult]:
    from ktx_cli.jobs.serve.snapshot import published_snapshot

    snapshot = published_snapshot(context.layout)
    if snapshot is not None:
        since = age(seconds_since(snapshot.published, now()))
        message = f"commit {snapshot.commit[:12]}, published {since} on {snapshot.host}"
        yield CheckResult(SNAPSHOT, Level.OK, message)
