"""The check that reaches out: every database and context source, by the code a run uses."""

from __future__ import annotations

from ktx_cli.connectors.port import ConnectionTest
from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.connections import check_source, probe_connection
from ktx_cli.jobs.privileges import access_gap
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level

_SELECT_ONLY = "give ktx a role that may only SELECT"
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
    findings = []
    for connection, entry in context.loaded.config.databases().items():
        check = f"connection:{connection}"
        try:
            test = probe_connection(
                context.loaded.config, connection, project_dir=context.project_dir, environ=context.environ
            )
        except KtxError as error:
            concern = Concern.SETUP if error.code == "secret" else Concern.OTHER
            findings.append(Finding(check, Level.FAIL, error.message, error.hint, concern))
            continue
        facts = f"{test.server_version}, {plural(test.tables, 'table')}, {test.latency_ms:.0f} ms"
        if test.closed:
            facts += f", no SELECT on {len(test.closed)} of them"
        gap = access_gap(connection, entry, test)
        if reach := leaves_the_session(test):
            says = f"{facts}; the role is {listing(reach)}: it can leave a read-only session"
            findings.append(Finding(check, Level.FAIL, says, _SELECT_ONLY))
        elif gap is not None:
            level = Level.FAIL if gap.nothing and entry.enabled_tables else Level.WARN
            findings.append(Finding(check, level, f"{facts}: {gap.message}", gap.hint))
        elif test.can_write:
            hint = f"{_SELECT_ONLY}; its session is read-only all the same"
            findings.append(Finding(check, Level.WARN, f"{facts}; the role could write", hint))
        else:
            findings.append(Finding(check, Level.OK, facts))
    findings += _sources(context)
    return findings or [Finding("connections", Level.SKIP, "no connection to try")]


def _sources(context: CheckContext) -> list[Finding]:
    """Every context source can be reached, by what `ktx connection test` does."""
    config, findings = context.loaded.config, []
    for connection in sorted(config.connections.keys() - config.databases().keys()):
        check = f"connection:{connection}"
        try:
            found = check_source(config, connection, project_dir=context.project_dir, environ=context.environ)
        except KtxError as error:
            concern = Concern.SETUP if error.code == "secret" else Concern.OTHER
            findings.append(Finding(check, Level.FAIL, error.message, error.hint, concern))
        else:
            findings.append(Finding(check, Level.OK, f"{found.origin}, {found.latency_ms:.0f} ms"))
    return findings
