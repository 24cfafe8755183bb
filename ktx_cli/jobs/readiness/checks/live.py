"""The check of connections: every database and context source is reached, side by side, by the code a run uses."""

from __future__ import annotations

import functools
from typing import Final

from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.text import listing, plural, shell_words
from ktx_cli.jobs.connections import check_source, probe_connection
from ktx_cli.jobs.privileges import access_gap, reader_role
from ktx_cli.jobs.readiness.advice import command_to_set
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level
from ktx_cli.jobs.readiness.running import Work, side_by_side
from ktx_cli.project.config import Database

CHECK: Final = "connections"
SECONDS: Final = 50.0
"""A connection may take this long; one that hangs keeps no other from its answer."""

_UNBOUND = {
    "superuser": "a superuser",
    "pg_execute_server_program": "a member of pg_execute_server_program",
    "pg_read_server_files": "a member of pg_read_server_files",
    "pg_write_server_files": "a member of pg_write_server_files",
}


def leaves_the_session(test: ConnectionTest) -> list[str]:
    """Return what makes a role reach the server's files and programs from a session that only reads."""
    return [_UNBOUND[fact] for fact in test.privileges if fact in _UNBOUND]


def check_connections(context: CheckContext) -> list[Finding]:
    """Every database answers, its role can neither write nor leave a session that only reads; every source is there."""
    config = context.loaded.config
    pieces = [
        Work(_named(name), functools.partial(_database, context, name, entry), SECONDS, _again(name))
        for name, entry in config.databases().items()
    ]
    pieces += [
        Work(_named(name), functools.partial(_source, context, name), SECONDS, _again(name))
        for name in sorted(config.sources())
    ]
    return [each for found in side_by_side(pieces) for each in found] or [
        Finding(CHECK, Level.SKIP, "no connection to try")
    ]


def _again(connection: str) -> str:
    return shell_words("ktx", "connection", "test", connection)


def _named(connection: str) -> str:
    return f"connection:{connection}"


def _database(context: CheckContext, connection: str, entry: Database) -> list[Finding]:
    check, config = _named(connection), context.loaded.config
    test = probe_connection(config, connection, project_dir=context.project_dir, environ=context.environ)
    facts = f"{test.server_version}, {plural(test.tables, 'table')}, {test.latency_ms:.0f} ms"
    if test.closed:
        facts += f", no SELECT on {len(test.closed)} of them"
    gap = access_gap(connection, entry, test)
    if reach := leaves_the_session(test):
        says = f"{facts}; the role is {listing(reach)}: it can leave a read-only session"
        return [Finding(check, Level.FAIL, says, _select_only(context, connection, entry, test))]
    if gap is not None:
        level = Level.FAIL if gap.nothing and entry.enabled_tables else Level.WARN
        return [Finding(check, level, f"{facts}: {gap.message}", gap.hint)]
    if test.can_write:
        says = f"{facts}; the role could write, though not in ktx's sessions, which are read-only"
        return [Finding(check, Level.WARN, says, _select_only(context, connection, entry, test))]
    return [Finding(check, Level.OK, facts)]


def _select_only(context: CheckContext, connection: str, entry: Database, test: ConnectionTest) -> str:
    """Return how ktx gets a role that may only SELECT: statements for an administrator, then where it is named."""
    statements = reader_role(entry, test)
    if statements is None:
        return f"give ktx a role that may only SELECT, and name it in connections.{connection} of ktx.yaml"
    named = next((key for key in ("url", "username", "user") if getattr(entry, key, None)), "username")
    named_by = command_to_set(f"connections.{connection}.{named}", context.loaded.raw, context.project_dir)
    return f"as an administrator: {statements}; then: {named_by}"


def _source(context: CheckContext, connection: str) -> list[Finding]:
    """A context source can be reached, by what `ktx connection test` does."""
    found = check_source(context.loaded.config, connection, project_dir=context.project_dir, environ=context.environ)
    return [Finding(_named(connection), Level.OK, f"{found.origin}, {found.latency_ms:.0f} ms")]
