"""What is known of the model backends without asking a model: settings, the local session, the last probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.jobs.models.probing import LastProbe, ProbeResult, distinct_models, last_probes
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level, concern_of
from ktx_cli.llm.caching import divergence
from ktx_cli.llm.roles import CLAUDE_BACKENDS, ModelRef
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.state import read_state

CHECK = "llm"
SESSION_HINT = "ktx llm probe"
UNVERIFIED: Final = "unverified: the local Claude Code session was not asked for"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """The local Claude Code session. `failed`: the binary could not be asked; `unverified`: it was not."""

    state: Literal["present", "missing", "failed", "unverified"]
    finding: Finding
    account: str | None = None
    binary: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the session as it stands in the envelope."""
        return {"state": self.state, "account": self.account, "binary": self.binary}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """A backend's model, the roles it serves, and when it was probed last; None: never.

    `unset`: what of its settings is missing or wrong, None where nothing is.
    """

    ref: ModelRef
    roles: tuple[str, ...]
    last: LastProbe | None
    finding: Finding
    unset: Finding | None = None

    @property
    def serves(self) -> str:
        """The backend and model with its roles, in a few words."""
        return f"{self.ref} ({listing(self.roles, 6)})"

    def to_json(self) -> dict[str, Any]:
        """Return the model as it stands in the envelope."""
        return {
            "backend": self.ref.backend,
            "model": self.ref.model,
            "roles": list(self.roles),
            "level": self.finding.level.value,
            "last_probe": None if self.last is None else {"finished": self.last.finished, "error": self.last.error},
        }


@dataclass(frozen=True, slots=True)
class LlmFacts:
    """All backends together. `caching`: the settings one of them ignores; `note`: why there is no model at all."""

    backend: str
    models: tuple[ModelFacts, ...] = ()
    session: SessionFacts | None = None
    caching: ResultWarning | None = None
    note: Finding | None = None

    @property
    def findings(self) -> list[Finding]:
        """What a check says of them."""
        session = [] if self.session is None else [self.session.finding]
        note = [] if self.note is None else [self.note]
        return [*note, *session, *(each.finding for each in self.models), *_caching(self.caching)]

    def to_json(self) -> dict[str, Any]:
        """Return the backends as they stand in the envelope."""
        roles = {role: each for each in self.models for role in each.roles}
        return {
            "backend": self.backend,
            "roles": {role: {"backend": each.ref.backend, "model": each.ref.model} for role, each in roles.items()},
            "models": [each.to_json() for each in self.models],
            "session": None if self.session is None else self.session.to_json(),
            "prompt_caching_ignored": [] if self.caching is None else list(self.caching.details.get("fields", ())),
        }


Ask = Callable[[], SessionFacts | None]
"""Says how the local session is; None where no role needs one."""


def llm_facts(context: CheckContext, ask: Ask, fresh: Sequence[ProbeResult] = ()) -> LlmFacts:
    """Return what is known of every backend behind a role; `fresh`: what probes of this moment found."""
    config = context.loaded.config
    backend = config.llm.provider.backend
    try:
        models = distinct_models(config)
    except KtxError as error:
        return LlmFacts(backend, note=Finding(CHECK, Level.FAIL, error.message, error.hint, Concern.SETUP))
    if not models:
        return LlmFacts(backend, note=_without_models(config))
    last, results = _last_probes(context), {each.ref: each for each in fresh}
    facts = tuple(_facts(context, ref, roles, last.get(ref), results.get(ref)) for ref, roles in models.items())
    return LlmFacts(backend, facts, ask(), divergence(config))


def ask_session(context: CheckContext) -> SessionFacts | None:
    """Ask the local binary whether anybody is signed in, once, where a role needs it; no model is asked."""
    backend = _claude_backend(context.loaded.config)
    if backend is None:
        return None
    import asyncio

    from ktx_cli.llm.backends.claude.session import local_session

    try:
        session = asyncio.run(
            local_session(backend, context.loaded.config, project_dir=context.project_dir, environ=context.environ)
        )
    except KtxError as error:
        concern = Concern.AUTH if concern_of(error) is Concern.AUTH else Concern.SETUP
        finding = Finding(CHECK, Level.FAIL, error.message, error.hint, concern)
        return SessionFacts("missing" if error.code == "auth" else "failed", finding)
    finding = Finding(CHECK, Level.OK, f"session present: {session.account}; {session.binary}")
    return SessionFacts("present", finding, session.account, str(session.binary))


def unasked_session(context: CheckContext) -> SessionFacts | None:
    """Return that the local session is unverified, where a role needs one: nothing is asked."""
    if _claude_backend(context.loaded.config) is None:
        return None
    return SessionFacts("unverified", Finding(CHECK, Level.SKIP, UNVERIFIED, "ktx status", Concern.AUTH))


def _caching(warning: ResultWarning | None) -> list[Finding]:
    return [] if warning is None else [Finding("prompt_caching", Level.WARN, warning.message, warning.hint)]


def _claude_backend(config: KtxConfig) -> str | None:
    """Return the first backend behind a role that uses the local session; None too for settings that are wrong."""
    try:
        return next((ref.backend for ref in distinct_models(config) if ref.backend in CLAUDE_BACKENDS), None)
    except KtxError:
        return None


def _without_models(config: KtxConfig) -> Finding:
    from ktx_cli.jobs.ingest.depth import not_enriched

    unserved = not_enriched(config)
    if unserved is not None:
        return Finding(CHECK, Level.WARN, unserved.message, unserved.hint, Concern.SETUP)
    return Finding(CHECK, Level.OK, "no backend: ktx does what it can without a model")


def _facts(
    context: CheckContext, ref: ModelRef, roles: tuple[str, ...], last: LastProbe | None, fresh: ProbeResult | None
) -> ModelFacts:
    """Say of one backend and model what is known: its settings, else what a probe of now said, else the last one."""
    serves = f"{ref} ({listing(roles, 6)})"
    problem = _credentials(context, ref.backend)
    if problem is not None:
        unset = Finding(CHECK, Level.FAIL, f"{serves}: {problem.message}", problem.hint, Concern.SETUP)
        return ModelFacts(ref, roles, last, unset, unset)
    return ModelFacts(ref, roles, last, _probed(ref, serves, last, fresh))


def _probed(ref: ModelRef, serves: str, last: LastProbe | None, fresh: ProbeResult | None) -> Finding:
    if fresh is not None and fresh.error is not None:
        said = f"{serves}: {fresh.error.message}"
        return Finding(CHECK, Level.FAIL, said, fresh.error.hint, concern_of(fresh.error))
    if last is not None and last.error is not None:
        message = f"{serves}: the last probe, {last.finished}, failed: {last.error}"
        return Finding(CHECK, Level.FAIL, message, SESSION_HINT, Concern.AUTH)
    if last is None and ref.backend in CLAUDE_BACKENDS:
        return Finding(CHECK, Level.FAIL, f"{serves}: last probe never", SESSION_HINT, Concern.AUTH)
    return Finding(CHECK, Level.OK, f"{serves}: last probe {last.finished if last else 'never'}")


def _last_probes(context: CheckContext) -> Mapping[ModelRef, LastProbe]:
    try:
        return read_state(context.layout, last_probes) or {}
    except KtxError:  # named by the lease's check
        return {}


def _credentials(context: CheckContext, backend: str) -> KtxError | None:
    """Return why the backend's settings cannot be used; nothing is asked, no keyring opened."""
    from ktx_cli.llm.settings import missing_setting, resolved_keys, resolved_place

    config = context.loaded.config
    problem = missing_setting(config, backend)
    if problem is not None:
        return problem
    provider = getattr(config.llm.provider, backend.replace("-", "_"), None)
    if any(str(value).strip().startswith("keyring:") for _, value in provider or ()):
        return None
    try:
        resolved_keys(config, backend, project_dir=context.project_dir, environ=context.environ)
        resolved_place(config, backend, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return error
    return None
