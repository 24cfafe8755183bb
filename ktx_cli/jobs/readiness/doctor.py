"""`ktx doctor`: every check for real, and what the exit code makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ktx_cli.core.errors import KtxError, NotReadyError, UsageError
from ktx_cli.core.text import did_you_mean, listing, plural
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.jobs.readiness.registry import CHECKS, run_checks
from ktx_cli.project.config import load_config
from ktx_cli.project.layout import Layout


def diagnose(
    project_dir: Path, environ: Mapping[str, str], *, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> list[Finding]:
    """Run the checks; raises `ConfigError` for a broken `ktx.yaml`, `UsageError` for an unknown check id."""
    known = {check.id for check in CHECKS}
    for name in (*only, *skip):
        if name not in known:
            near = did_you_mean(name, known)
            hint = f"did you mean `{near}`?" if near else f"known: {', '.join(check.id for check in CHECKS)}"
            raise UsageError(f"there is no check `{name}`", hint=hint)
    layout = Layout(project_dir)
    context = CheckContext(layout, load_config(layout.config), environ, live=True)
    return run_checks(context, [c for c in CHECKS if (not only or c.id in only) and c.id not in skip])


def verdict(findings: Sequence[Finding], *, strict: bool) -> KtxError | None:
    """Return what the command ends with: None, `not_ready` (only setup or authentication failed), else a failure."""
    failed = [f for f in findings if f.level is Level.FAIL]
    if strict:
        failed += [f for f in findings if f.level is Level.WARN]
    if not failed:
        return None
    message = f"{plural(len(failed), 'check')} failed: {listing(dict.fromkeys(f.check for f in failed))}"
    if all(f.level is Level.FAIL and f.concern in (Concern.SETUP, Concern.AUTH) for f in failed):
        return NotReadyError(message, hint=failed[0].hint)
    return KtxError(message, hint=failed[0].hint, code="checks_failed")
