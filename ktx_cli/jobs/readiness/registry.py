"""The registry of checks, and how they run: in parallel, each within its time."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.readiness import backends, context, live, machine, models, profiles, project, secrets, storage
from ktx_cli.jobs.readiness.model import Check, CheckContext, Concern, Finding, Level

CHECKS: tuple[Check, ...] = (
    Check("python", "Python", machine.check_python),
    Check("sqlite", "SQLite", machine.check_sqlite),
    Check("git", "git", machine.check_git),
    Check("config", "ktx.yaml", project.check_config),
    Check(models.CHECK, "LLM backend", models.check_llm),
    Check("databases", "databases configured", project.check_databases),
    Check(secrets.CHECK, "secrets", secrets.check_secrets),
    Check(context.CHECK, "context built", context.check_context),
    Check(profiles.CHECK, "nothing left out", profiles.check_profiles),
    Check(storage.STATE, "state database", storage.check_state),
    Check(storage.WRITABLE, "files can be written", storage.check_writable),
    Check("repository", "repository", project.check_repository),
    Check("lease", "lease", project.check_lease),
    Check("claude", "Claude Code", backends.check_claude, live=True),
    Check("probe", "LLM probe", backends.check_probes, live=True),
    Check("connections", "connections", live.check_connections, live=True),
)

READINESS = ("config", "llm", "databases", "secrets", "context", "state")
"""The checks that decide whether a project is ready; `ktx status` runs them."""

TIME_LIMIT = 30.0
"""Seconds a check may take before it counts as failed."""


def run_checks(context: CheckContext, checks: Iterable[Check], *, seconds: float = TIME_LIMIT) -> list[Finding]:
    """Run the checks side by side and return their findings in the order of the checks.

    A check that raises or takes too long is a failed finding; the others are not affected.
    """
    running = [(check, _Worker(check, context)) for check in checks]
    for _, worker in running:
        worker.start()
    findings: list[Finding] = []
    for check, worker in running:
        worker.join(seconds)
        if worker.is_alive():
            findings.append(Finding(check.id, Level.FAIL, f"no answer within {seconds:.0f} s"))
        else:
            findings.extend(worker.findings)
    return findings


def named(ids: Iterable[str]) -> list[Check]:
    """Return the checks with these ids, in the registry's order."""
    wanted = set(ids)
    return [check for check in CHECKS if check.id in wanted]


class _Worker(threading.Thread):
    """Runs one check; a daemon, so that a check that hangs cannot keep the process alive."""

    def __init__(self, check: Check, context: CheckContext) -> None:
        super().__init__(daemon=True)
        self._check = check
        self._context = context
        self.findings: list[Finding] = []

    def run(self) -> None:
        try:
            self.findings = self._check.run(self._context)
        except KtxError as error:
            self.findings = [Finding(self._check.id, Level.FAIL, error.message, error.hint)]
        except Exception as error:  # noqa: BLE001 - a broken check is a finding, not the end of the others
            message = f"the check itself failed: {type(error).__name__}: {error}"
            self.findings = [Finding(self._check.id, Level.FAIL, message, concern=Concern.OTHER)]
