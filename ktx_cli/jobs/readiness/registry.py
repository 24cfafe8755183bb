"""The registry of checks, and how they run: in parallel, each within its time."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from ktx_cli.jobs.readiness.checks import (
    agents,
    backends,
    context,
    embedding,
    history,
    live,
    machine,
    models,
    profiles,
    project,
    references,
    search,
    secrets,
    serving,
    storage,
)
from ktx_cli.jobs.readiness.model import Check, CheckContext, Finding
from ktx_cli.jobs.readiness.running import Work, side_by_side

CHECKS: tuple[Check, ...] = (
    Check("python", "Python and the packages ktx needs", machine.check_python, settings=False),
    Check("sqlite", "SQLite with full-text search", machine.check_sqlite, settings=False),
    Check("git", "a git that is new enough", machine.check_git, settings=False),
    Check("config", "ktx.yaml is valid", project.check_config),
    Check("extras", "the packages of the drivers that are configured", machine.check_extras),
    Check(models.CHECK, "the settings and the session of the LLM backends", backends.check_settings, live=True),
    Check("databases", "a database is configured", project.check_databases),
    Check(secrets.CHECK, "secret references resolve", secrets.check_secrets),
    Check(context.CHECK, "every database has context", context.check_context),
    Check(profiles.CHECK, "the last scans left nothing out", profiles.check_profiles),
    Check(references.WIKI, "references of wiki pages lead somewhere", references.check_wiki),
    Check(references.SEMANTIC, "the files of the semantic layer have no errors", references.check_semantic),
    Check(search.CHECK, "the search index is up to date", search.check_index),
    Check(storage.STATE, "the state database, for this user alone", storage.check_state),
    Check(storage.HIDDEN, "nothing in .ktx can be committed", storage.check_hidden),
    Check(storage.WRITABLE, "a run can write its files", storage.check_writable),
    Check(storage.DISK, "room on the disks", storage.check_disk),
    Check("repository", "a repository a run can commit to, without locks of a dead run", project.check_repository),
    Check("lease", "no lease of a dead run", project.check_lease),
    Check(serving.CHECK, "the MCP server that was started answers", serving.check_server),
    Check(agents.CHECK, "what was put into the files of agent clients", agents.check_agents),
    Check(backends.CLAUDE, "the Claude Code binary, its environment, managed files", backends.check_claude, live=True),
    Check(
        backends.PROBE,
        "a call to every model behind a role, and its isolation",
        backends.check_probes,
        live=True,
        seconds=300.0,
    ),
    Check(embedding.CHECK, "the embeddings model makes vectors", embedding.check_embeddings, live=True, seconds=90.0),
    Check(
        live.CHECK,
        "every connection answers, and its role may only read",
        live.check_connections,
        live=True,
        seconds=60.0,
    ),
    Check(history.CHECK, "the query history may be read", history.check_history, live=True, seconds=60.0),
)


def run_checks(context: CheckContext, checks: Iterable[Check]) -> list[list[Finding]]:
    """Run the checks side by side and return the findings of each, in their order.

    A check that raises or takes too long is a failed finding; the others are not affected.
    """
    return side_by_side(
        Work(check.id, functools.partial(check.run, context), check.seconds, f"ktx doctor --only {check.id}")
        for check in checks
    )
