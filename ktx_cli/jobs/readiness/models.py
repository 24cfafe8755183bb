"""The check of the model backends that `ktx status` may ask in half a second: settings, session, last probe."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing
from ktx_cli.jobs.ingest.depth import not_enriched
from ktx_cli.jobs.models.probing import LastProbe, distinct_models, last_probes
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.llm.caching import divergence
from ktx_cli.llm.roles import CLAUDE_BACKENDS, ModelRef
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.state import read_state

CHECK = "llm"
SESSION_HINT = "ktx llm probe"
AUTH_CODES = ("auth", "billing", "no_backend", "isolation")


def check_llm(context: CheckContext) -> list[Finding]:
    """Every backend behind a role could run: its credentials are there, its session exists, a probe succeeded."""
    config = context.loaded.config
    try:
        models = distinct_models(config)
    except KtxError as error:
        return [Finding(CHECK, Level.FAIL, error.message, error.hint, Concern.SETUP)]
    if not models:
        unserved = not_enriched(config)
        if unserved is not None:
            return [Finding(CHECK, Level.WARN, unserved.message, unserved.hint, Concern.SETUP)]
        return [Finding(CHECK, Level.OK, "no backend: ktx does what it can without a model")]
    findings = [_state(context, ref, roles) for ref, roles in models.items()]
    return [*_sessions(context, [ref.backend for ref in models]), *findings, *caching_findings(config)]


def caching_findings(config: KtxConfig) -> list[Finding]:
    """Name the caching settings a backend ignores."""
    warning = divergence(config)
    return [] if warning is None else [Finding("prompt_caching", Level.WARN, warning.message, warning.hint)]


def _state(context: CheckContext, ref: ModelRef, roles: Iterable[str]) -> Finding:
    """Say of one backend and model what is known without asking it."""
    serves = f"{ref} ({listing(roles, 6)})"
    problem = _credentials(context, ref.backend)
    if problem is not None:
        return Finding(CHECK, Level.FAIL, f"{serves}: {problem.message}", problem.hint, Concern.SETUP)
    last = _last_probe(context, ref)
    if last is not None and last.error is not None:
        message = f"{serves}: the last probe, {last.finished}, failed: {last.error}"
        return Finding(CHECK, Level.FAIL, message, SESSION_HINT, Concern.AUTH)
    if last is None and ref.backend in CLAUDE_BACKENDS:
        return Finding(CHECK, Level.FAIL, f"{serves}: last probe never", SESSION_HINT, Concern.AUTH)
    return Finding(CHECK, Level.OK, f"{serves}: last probe {last.finished if last else 'never'}")


def _last_probe(context: CheckContext, ref: ModelRef) -> LastProbe | None:
    try:
        return (read_state(context.layout, last_probes) or {}).get(ref)
    except KtxError:  # named by the lease's check
        return None


def _credentials(context: CheckContext, backend: str) -> KtxError | None:
    """Return why the backend's settings cannot be used; nothing is asked, no keyring opened."""
    from ktx_cli.llm.settings import missing_setting, resolved_keys, secret_references

    config = context.loaded.config
    problem = missing_setting(config, backend)
    if problem is not None:
        return problem
    if any(reference.strip().startswith("keyring:") for reference in secret_references(config, backend).values()):
        return None
    try:
        resolved_keys(config, backend, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return error
    return None


def _sessions(context: CheckContext, backends: Iterable[str]) -> list[Finding]:
    """Ask the local binary whether anybody is signed in, once, where a role needs it."""
    used = [name for name in backends if name in CLAUDE_BACKENDS]
    if not used:
        return []
    from ktx_cli.llm.backends.claude.session import local_session

    try:
        session = asyncio.run(
            local_session(used[0], context.loaded.config, project_dir=context.project_dir, environ=context.environ)
        )
    except KtxError as error:
        concern = Concern.AUTH if error.code in AUTH_CODES else Concern.SETUP
        return [Finding(CHECK, Level.FAIL, error.message, error.hint, concern)]
    return [Finding(CHECK, Level.OK, f"session present: {session.account}; {session.binary}")]
