"""Checks that reach out: secrets and connections, by the code a run uses."""

from __future__ import annotations

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import plural
from ktx_cli.jobs.connections import probe_connection
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.config import resolve_options, secret_file_warnings, supported_databases


def check_secrets(context: CheckContext) -> list[Finding]:
    """Every secret reference of a connection resolves."""
    findings = []
    for connection, entry in context.loaded.config.connections.items():
        try:
            resolve_options(entry, project_dir=context.project_dir, environ=context.environ)
        except KtxError as error:
            message = f"connection `{connection}`: {error.message}"
            findings.append(Finding("secrets", Level.FAIL, message, error.hint, Concern.SETUP))
    for warning in secret_file_warnings(context.loaded.config, project_dir=context.project_dir):
        findings.append(Finding("secrets", Level.WARN, warning.message, warning.hint, Concern.SETUP))
    return findings or [Finding("secrets", Level.OK, "every secret reference resolves")]


def check_connections(context: CheckContext) -> list[Finding]:
    """Every database answers, and its role cannot write."""
    findings = []
    for connection in supported_databases(context.loaded.config):
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
        if not test.tables:
            hint = f"check the privileges of the role and `include` of connections.{connection}"
            findings.append(Finding(check, Level.WARN, f"{facts}: there is nothing to read", hint))
        elif test.can_write:
            hint = "give ktx a role that may only SELECT; its session is read-only all the same"
            findings.append(Finding(check, Level.WARN, f"{facts}; the role could write", hint))
        else:
            findings.append(Finding(check, Level.OK, facts))
    return findings or [Finding("connections", Level.SKIP, "no database to connect to")]
