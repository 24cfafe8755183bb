"""Checks of connections with the code that runs use: reachable, completely scanned, with a readable query history."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, SettingPath, Statement, listing, now, one_line, plural
from ktx_cli.jobs.health.model import (
    OLDER,
    CheckContext,
    CheckResult,
    Level,
    Task,
    command_to_set,
    failed,
    side_by_side,
)
from ktx_cli.jobs.health.shared_checks import replicated
from ktx_cli.project import Database, KtxConfig, StateDatabase, read_state
from ktx_cli.runs import read_report
from ktx_cli.scan import LastScan, last_scans
from ktx_cli.semantic import shard_files
from ktx_cli.warehouses import TableRef

if TYPE_CHECKING:
    from ktx_cli.sources import History
    from ktx_cli.warehouses import ConnectionTest

CONNECTIONS: Final = "connections"
CONNECTION_SECONDS: Final = 50.0
"""Time limit per connection, so that a hanging connection does not delay the others."""

_UNBOUND = {
    "superuser": "a superuser",
    "pg_execute_server_program": "a member of pg_execute_server_program",
    "pg_read_server_files": "a member of pg_read_server_files",
    "pg_write_server_files": "a member of pg_write_server_files",
}


def leaves_the_session(test: ConnectionTest) -> list[str]:
    """Return what gives a role access to the server's files and programs from a read-only session."""
    return [_UNBOUND[fact] for fact in test.privileges if fact in _UNBOUND]


def check_connections(context: CheckContext) -> list[CheckResult]:
    """Check that every database responds with a read-only role, and that every source exists."""
    config = context.loaded.config
    pieces = [
        Task(_named(name), functools.partial(_database, context, name, entry), CONNECTION_SECONDS, _again(name))
        for name, entry in config.databases().items()
    ]
    pieces += [
        Task(_named(name), functools.partial(_source, context, name), CONNECTION_SECONDS, _again(name))
        for name in sorted(config.sources())
    ]
    return [result for results in side_by_side(pieces) for result in results] or [
        CheckResult(CONNECTIONS, Level.SKIP, "no connection to test")
    ]


def _again(connection: str) -> Command:
    return Command("connection", "test", connection)


def _named(connection: str) -> str:
    return f"connection:{connection}"


def _database(context: CheckContext, connection: str, entry: Database) -> list[CheckResult]:
    from ktx_cli.jobs.connections import probe_connection
    from ktx_cli.warehouses import access_gap

    check, config = _named(connection), context.loaded.config
    test = probe_connection(config, connection, project_dir=context.project_dir, environ=context.environ)
    facts = f"{test.server_version}, {plural(test.tables, 'table')}, {test.latency_ms:,.0f} ms"
    if test.closed:
        facts += f", without SELECT on {len(test.closed)} of them"
    gap = access_gap(connection, entry, test)
    if reach := leaves_the_session(test):
        says = f"{facts}; the role is {listing(reach)}, so it can leave a read-only session"
        return [CheckResult(check, Level.FAIL, says, _select_only(context, connection, entry, test))]
    if gap is not None:
        level = Level.FAIL if gap.nothing and entry.enabled_tables else Level.WARN
        return [CheckResult(check, level, f"{facts}: {gap.message}", gap.hint)]
    if test.can_write:
        says = f"{facts}; the role has write access, but ktx's sessions are read-only"
        return [CheckResult(check, Level.WARN, says, _select_only(context, connection, entry, test))]
    return [CheckResult(check, Level.OK, facts)]


def _select_only(context: CheckContext, connection: str, entry: Database, test: ConnectionTest) -> str:
    """Return how to give ktx a role that may only SELECT: statements for an administrator, then the setting."""
    from ktx_cli.warehouses import reader_role

    statements = reader_role(entry, test)
    if statements is None:
        place = SettingPath(f"connections.{connection}")
        return Hint("give ktx a role that may only SELECT, and set it as {} of ktx.yaml", place)
    named = next((key for key in ("url", "username", "user") if getattr(entry, key, None)), "username")
    named_by = command_to_set(f"connections.{connection}.{named}", context.loaded.raw, context.project_dir)
    return Hint("as an administrator: {}; then: {}", Statement(statements), named_by)


def _source(context: CheckContext, connection: str) -> list[CheckResult]:
    """Check that every context source is reachable, as `ktx connection test` does."""
    from ktx_cli.jobs.connections import check_source

    if replicated(context) is not None:
        message = "not needed: a replica serves what runs in a clone have read from it"
        return [CheckResult(_named(connection), Level.SKIP, message)]
    source = check_source(context.loaded.config, connection, project_dir=context.project_dir, environ=context.environ)
    return [CheckResult(_named(connection), Level.OK, f"{source.origin}, {source.latency_ms:,.0f} ms")]


PROFILES = "profiles"

Unread = list[tuple[TableRef, str, str]]
"""Tables without a profile, with the kind of the reason (see `Unsampled`) and the reason."""


def check_profiles(context: CheckContext) -> list[CheckResult]:
    """Check that the last scan of every database read everything, including the rows of all tables."""
    databases = context.loaded.config.databases()
    older: list[ResultWarning] = []

    def read(state: StateDatabase) -> tuple[Mapping[str, LastScan], dict[str, Unread]]:
        return last_scans(state), {connection: unread_tables(state, connection) for connection in databases}

    try:
        scans, unread = read_state(context.layout, read, older.append) or ({}, {})
    except KtxError as error:
        return [failed(PROFILES, error, level=Level.SKIP)]
    if older:
        return [CheckResult(PROFILES, Level.SKIP, OLDER, older[0].hint)]
    findings: list[CheckResult] = []
    for connection in databases:
        findings += _left_out(connection, unread.get(connection, []), context.loaded.config.scan.budget.seconds)
        if connection in scans:
            findings += _unreadable(context, scans[connection])
        elif shard_files(context.layout, connection):
            findings.append(_unscanned(connection))
    return findings or [CheckResult(PROFILES, Level.OK, "the last scans were complete")]


def _unscanned(connection: str) -> CheckResult:
    """Return the result for a connection with context, such as in a new clone, but no scan in the state."""
    ingest = Command("ingest", connection)
    message = f"connection `{connection}`: the state has no scan, so profiles and value lists are missing: `{ingest}`"
    return CheckResult(PROFILES, Level.SKIP, message, ingest)


def unread_tables(database: StateDatabase, connection: str) -> Unread:
    """Return the tables of a connection whose rows the last scan did not read, by schema and name."""
    rows = database.execute(
        "SELECT schema_name, table_name, json_extract(profile, '$.unsampled'), json_extract(profile, '$.problem')"
        " FROM profiles WHERE connection = ? AND json_extract(profile, '$.problem') IS NOT NULL"
        " ORDER BY 1 NULLS FIRST, 2",
        (connection,),
    )
    return [(TableRef(schema, name), kind, why) for schema, name, kind, why in rows]


def _unreadable(context: CheckContext, scan: LastScan) -> list[CheckResult]:
    """List the objects that the last scan could not read at all, from its report; without one, none are known."""
    try:
        found = (read_report(context.layout, scan.run_id) or {"connections": []})["connections"]
        reports = [report for report in found if report["connection"] == scan.connection]
        objects = [str(problem["object"] or problem["what"]) for report in reports for problem in report["problems"]]
    except (KeyError, TypeError):  # reports are disposable
        return []
    if not objects:
        return []
    message = f"{plural(len(objects), 'object')} could not be read completely: {listing(objects)}"
    names = [str(problem["object"]) for report in reports for problem in report["problems"] if problem["object"]]
    hint = Hint("{} && {}", Command("connection", "test", scan.connection), Command("scan", scan.connection))
    if names:
        from ktx_cli.scan import exclusion_hint

        hint = exclusion_hint(scan.connection, dict.fromkeys(names))
    return [CheckResult(PROFILES, Level.WARN, f"connection `{scan.connection}`: {message}", hint)]


def _left_out(connection: str, unread: Unread, seconds: int) -> Iterator[CheckResult]:
    """Yield the failures, and separately what the settings exclude."""
    if not unread:
        return
    from ktx_cli.scan import Unsampled

    meant = [str(ref) for ref, kind, _ in unread if kind == Unsampled.NOT_READ]
    failed = [table for table in unread if table[1] != Unsampled.NOT_READ]
    if failed:
        tables = listing(_grouped(failed), 3)
        message = f"connection `{connection}`: the rows of {plural(len(failed), 'table')} were not read: {tables}"
        kinds = {kind for _, kind, _ in failed}
        more: tuple[object, ...] = ("connection", "test", connection)
        if Unsampled.OUT_OF_TIME in kinds:
            more = ("config", "set", "scan.budget.seconds", seconds * 2)
        elif Unsampled.OVER_BUDGET in kinds:
            more = ("config", "set", "scan.budget.gigabytes", "GIGABYTES")
        yield CheckResult(PROFILES, Level.WARN, message, Hint("{} && {}", Command(*more), Command("scan", connection)))
    if meant:
        message = (
            f"connection `{connection}`: {plural(len(meant), 'view')} not read because of scan.views: {listing(meant)}"
        )
        hint = Hint("{} && {}", Command("config", "set", "scan.views", "always"), Command("scan", connection))
        yield CheckResult(PROFILES, Level.OK, message, hint)


def _grouped(unread: Unread) -> Iterable[str]:
    """Yield each reason once, with its tables."""
    for why in dict.fromkeys(why for _, _, why in unread):
        tables = listing(str(ref) for ref, _, reason in unread if reason == why)
        yield f"{tables} ({one_line(why, 160)})"


HISTORY = "history"
HISTORY_SECONDS = 50.0
AGAIN = Command("doctor", "--only", HISTORY)
UNREADABLE = "query_history"
"""The code of a setup warning."""

WINDOW_DAYS = 1
"""Number of days of history that the check reads, regardless of a run, because some databases charge per day."""


def check_history(context: CheckContext) -> list[CheckResult]:
    """Check that every query history that a run would read is readable."""
    wanted = {
        name: entry
        for name, entry in context.loaded.config.databases().items()
        if entry.context and entry.context.query_history.enabled
    }
    if not wanted:
        return [CheckResult(HISTORY, Level.SKIP, "no connection reads its query history")]
    pieces = [
        Task(f"{HISTORY}:{name}", functools.partial(_look, context, name, entry), HISTORY_SECONDS, AGAIN)
        for name, entry in wanted.items()
    ]
    return [result for results in side_by_side(pieces) for result in results]


def history_warnings(
    config: KtxConfig, connection: str, *, project_dir: Path, environ: Mapping[str, str]
) -> list[ResultWarning]:
    """Return what prevents reading a connection's query history; empty if the history is not enabled."""
    entry = config.databases().get(connection)
    if entry is None or not (entry.context and entry.context.query_history.enabled):
        return []
    try:
        problems: Sequence[KtxError | ResultWarning] = _read(connection, entry, project_dir, environ).warnings
    except KtxError as error:
        problems = [error]
    return [ResultWarning(UNREADABLE, problem.message, hint=problem.hint) for problem in problems]


def _look(context: CheckContext, connection: str, entry: Database) -> list[CheckResult]:
    check = f"{HISTORY}:{connection}"
    history = _read(connection, entry, context.project_dir, context.environ)
    findings = [CheckResult(check, Level.WARN, warning.message, warning.hint) for warning in history.warnings]
    if history.unread:
        message = f"the text of {plural(history.unread, 'statement')} is not visible to this role"
        findings.append(CheckResult(check, Level.WARN, message))
    return findings or [CheckResult(check, Level.OK, f"{history.origin} is readable")]


def _read(connection: str, entry: Database, root: Path, environ: Mapping[str, str]) -> History:
    """Read the history as a run does, but fewer days."""
    from ktx_cli.sources import HistoryPlace, read_history
    from ktx_cli.warehouses import dialect_of, open_database

    place = HistoryPlace(
        connection,
        dialect_of(entry.driver) or entry.driver,
        root,
        lambda: open_database(connection, entry, project_dir=root, environ=environ)[0],
        getattr(entry, "location", None),
    )
    return read_history(place, entry.context.query_history.model_copy(update={"window_days": WINDOW_DAYS}), now())
