"""Checks of the project that open no database: configuration, backend, context, repository, lease."""

from __future__ import annotations

import time

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import plural
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.leases import current_holder
from ktx_cli.project.repository import Repository
from ktx_cli.project.state import read_state


def check_config(context: CheckContext) -> list[Finding]:
    """`ktx.yaml` is valid; its warnings are named."""
    findings = [Finding("config", Level.WARN, warning.message, warning.hint) for warning in context.loaded.warnings()]
    return findings or [Finding("config", Level.OK, "ktx.yaml is valid")]


def check_databases(context: CheckContext) -> list[Finding]:
    """At least one database is configured."""
    config = context.loaded.config
    databases = config.databases()
    if not databases:
        hint = "ktx connection add warehouse --driver sqlite --path data.sqlite"
        return [Finding("databases", Level.FAIL, "ktx.yaml names no database", hint, Concern.SETUP)]
    findings = []
    for name in config.setup.database_connection_ids:
        if name not in config.connections:
            message = f"`setup.database_connection_ids` names `{name}`, which is no connection"
            findings.append(Finding("databases", Level.WARN, message, "ktx config get setup.database_connection_ids"))
    return [Finding("databases", Level.OK, plural(len(databases), "database")), *findings]


def check_repository(context: CheckContext) -> list[Finding]:
    """The repository is in a state a run can commit to."""
    try:
        repository = Repository.discover(context.project_dir)
        if repository is None:
            return [Finding("repository", Level.WARN, "not in a git repository; the first run creates one")]
        lock = repository.leftover_lock()
        if lock is not None:
            message = f"a killed run left {lock}, which stops git; `ktx ingest` takes it away"
            return [Finding("repository", Level.WARN, message, "ktx ingest")]
        repository.check_writable()
        head = repository.head()
    except KtxError as error:
        return [Finding("repository", Level.FAIL, error.message, error.hint)]
    where = "a folder of the repository" if repository.layout.is_host else "its own repository"
    return [Finding("repository", Level.OK, f"{where} at {repository.layout.top_level}, on {head.ref}")]


def check_lease(context: CheckContext) -> list[Finding]:
    """Nobody is at work, or somebody who is alive."""
    try:
        holder = read_state(context.layout, current_holder)
    except KtxError as error:
        return [Finding("lease", Level.FAIL, error.message, error.hint)]
    if holder is None:
        return [Finding("lease", Level.OK, "no run is at work")]
    who = f"`{holder.command}`, pid {holder.pid} on {holder.hostname}, since {holder.since_text}"
    if holder.is_alive(time.time()):
        return [Finding("lease", Level.OK, f"at work: {who}")]
    return [Finding("lease", Level.WARN, f"a dead run left its lease: {who}", "the next run takes it over by itself")]
