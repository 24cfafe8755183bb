"""Checks of the project that open no database: configuration, backend, context, repository, lease."""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from pathlib import Path
from typing import Final

from ktx_cli.core.clock import new_run_id
from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing, plural, shell_words
from ktx_cli.jobs.readiness.advice import is_command
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.project.layout import CONFIG_NAME
from ktx_cli.project.leases import current_holder, hold_lease
from ktx_cli.project.repository import Repository
from ktx_cli.project.repository.lock import index_path
from ktx_cli.project.state import open_for_writing, read_state
from ktx_cli.project.state_damage import is_damage

OLD_SECONDS: Final = 600.0
"""Git holds the lock of the index for moments, or as long as somebody writes the message of a commit of some paths."""


def check_config(context: CheckContext) -> list[Finding]:
    """`ktx.yaml` is valid; its warnings are named, and what disables a connection."""
    errors = [issue.to_warning() for issue in context.loaded.issues if issue.severity == "error"]
    findings = [_of_config(warning, is_error=warning in errors) for warning in context.loaded.warnings()]
    return findings or [Finding("config", Level.OK, "ktx.yaml is valid")]


def _of_config(warning: ResultWarning, *, is_error: bool) -> Finding:
    """Return the finding for a warning; a hint that is no command is an edit, so it says where."""
    line, hint = warning.details.get("line"), warning.hint
    if line and hint and not is_command(hint):
        does = "take it out; " if hint.startswith("known here") else ""
        hint = f"in {CONFIG_NAME} line {line}: {does}{hint}"
    level, concern = (Level.FAIL, Concern.SETUP) if is_error else (Level.WARN, Concern.OTHER)
    return Finding("config", level, warning.message, hint, concern, file=CONFIG_NAME, line=line)


def check_databases(context: CheckContext) -> list[Finding]:
    """At least one database is configured."""
    config = context.loaded.config
    databases = config.databases()
    for entry in () if databases else config.disabled().values():
        error = entry.error()
        message = f"no database of ktx.yaml can be used: {error.message}"
        return [Finding("databases", Level.FAIL, message, error.hint, Concern.SETUP)]
    if not databases:
        from ktx_cli.jobs.setup.suggesting import how_to_connect

        hint = how_to_connect(context.project_dir)
        return [Finding("databases", Level.FAIL, "ktx.yaml names no database", hint, Concern.SETUP)]
    findings = []
    for name in config.setup.database_connection_ids:
        if name not in config.connections:
            message = f"`setup.database_connection_ids` names `{name}`, which is not a connection"
            kept = [each for each in config.setup.database_connection_ids if each in config.connections]
            hint = shell_words("ktx", "config", "set", "setup.database_connection_ids", json.dumps(kept))
            findings.append(Finding("databases", Level.WARN, message, hint))
    return [Finding("databases", Level.OK, plural(len(databases), "database")), *findings]


def check_repository(context: CheckContext) -> list[Finding]:
    """The repository is in a state a run can commit to."""
    try:
        repository = context.repository
        if repository is None:
            message = "not in a git repository; the first run creates one"
            return [Finding("repository", Level.WARN, message, shell_words("git", "-C", context.project_dir, "init"))]
        lock = repository.leftover_lock()
        if lock is not None:
            message = f"a killed run left {lock}, which stops git; the next run takes it away"
            hint = "ktx doctor --fix --only repository"
            return [Finding("repository", Level.WARN, message, hint, repair=functools.partial(_recovered, repository))]
        repository.check_writable()
        head = repository.head()
        held = _old_lock(repository) if context.live else None
    except KtxError as error:
        return [Finding("repository", Level.FAIL, error.message, error.hint)]
    if held is not None:
        message = f"{held} is there for more than {OLD_SECONDS / 60:.0f} minutes: its git command waits, or is gone"
        return [Finding("repository", Level.WARN, message, shell_words("rm", held))]
    where = "a folder of the repository" if repository.layout.is_host else "its own repository"
    return [Finding("repository", Level.OK, f"{where} at {repository.layout.top_level}, on {head.ref}")]


def _old_lock(repository: Repository) -> Path | None:
    """Return the lock of the index that is no run's and older than git commands take; whose it is, a person knows."""
    index = index_path(repository.layout)
    lock = index.with_name(f"{index.name}.lock")
    try:
        return lock if time.time() - lock.lstat().st_mtime > OLD_SECONDS else None
    except FileNotFoundError:
        return None


def _recovered(repository: Repository) -> str:
    done = repository.recover()
    return f"took away what a killed run left in {repository.layout.git_dir}: {listing(done.removed)}"


def check_lease(context: CheckContext) -> list[Finding]:
    """Nobody is at work, or somebody who is alive."""
    try:
        holder = read_state(context.layout, current_holder)
    except KtxError as error:
        return [_unreadable(context, error)]
    if holder is None:
        return [Finding("lease", Level.OK, "no run is at work")]
    who = f"`{holder.command}`, pid {holder.pid} on {holder.hostname}, since {holder.since_text}"
    if holder.is_alive(time.time()):
        return [Finding("lease", Level.OK, f"at work: {who}")]
    message = f"a dead run left its lease, which the next run takes over: {who}"
    hint = "ktx doctor --fix --only lease"
    return [Finding("lease", Level.WARN, message, hint, repair=lambda: _given_back(context, who))]


def _unreadable(context: CheckContext, error: KtxError) -> Finding:
    """Return the finding for a state database that cannot be read; a damaged one makes place for a new one."""
    cause = error.__cause__
    if not isinstance(cause, sqlite3.Error) or not is_damage(cause):
        return Finding("lease", Level.FAIL, error.message, error.hint)
    hint = "ktx doctor --fix --only lease"
    return Finding("lease", Level.FAIL, error.message, hint, repair=lambda: _moved_aside(context))


def _moved_aside(context: CheckContext) -> str:
    told: list[ResultWarning] = []
    with open_for_writing(context.layout, told.append):
        return "; ".join(warning.message for warning in told) or "the state database can be used"


def _given_back(context: CheckContext, who: str) -> str:
    """Take the lease over as a run does, and give it back."""
    with hold_lease(context.layout, run_id=new_run_id(), command="ktx doctor --fix"):
        return f"took the lease over from {who}, and gave it back"
