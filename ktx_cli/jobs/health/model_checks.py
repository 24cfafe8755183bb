"""Facts about model backends and their checks: settings, the local session, probes, embeddings."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ktx_cli.core import Command, Hint, KtxError, Record, ResultWarning, SettingPath, did_you_mean, listing, plural
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Concern, Level, concern_of, failed
from ktx_cli.llm import distinct_models, divergence, kind_of
from ktx_cli.project import KtxConfig, PromptCaching, read_local

if TYPE_CHECKING:
    from ktx_cli.llm import LastProbe, ModelRef, ProbeReport, ProbeResult

MODELS = "llm"
SESSION_HINT = Command("llm", "probe")
UNVERIFIED: Final = "unverified: the local {who} session was not checked"


@dataclass(frozen=True, slots=True)
class SessionFacts(Record):
    """A local session. `failed`: the binary did not answer; `unverified`: it was not asked."""

    state: Literal["present", "missing", "failed", "unverified"]
    finding: CheckResult
    account: str | None = None
    binary: str | None = None

    json_keys = ("state", "account", "binary")


@dataclass(frozen=True, slots=True)
class ModelFacts(Record):
    """A backend's model, its roles, and the time of its last probe; None if it was never probed.

    `unset`: what is missing or wrong in its settings, None if nothing is.
    """

    ref: ModelRef
    roles: tuple[str, ...]
    last: LastProbe | None
    finding: CheckResult
    unset: CheckResult | None = None

    @property
    def serves(self) -> str:
        """The backend and model with their roles, in a few words."""
        return f"{self.ref} ({listing(self.roles, 6)})"

    json_keys = ("backend=ref.backend", "model=ref.model", "roles", "level=finding.level", "last_probe=last")


@dataclass(frozen=True, slots=True)
class LlmFacts:
    """All backends together. `caching`: the settings that one of them ignores; `note`: why there is no model at all."""

    backend: str
    models: tuple[ModelFacts, ...] = ()
    sessions: tuple[SessionFacts, ...] = ()
    caching: ResultWarning | None = None
    note: CheckResult | None = None

    @property
    def session(self) -> SessionFacts | None:
        """The session that is missing or unknown, else the first; None if no role needs one."""
        return next((one for one in self.sessions if one.state != "present"), next(iter(self.sessions), None))

    @property
    def findings(self) -> list[CheckResult]:
        """The result of a check, as text."""
        sessions = [one.finding for one in self.sessions]
        note = [] if self.note is None else [self.note]
        return [*note, *sessions, *(model.finding for model in self.models), *_caching(self.caching)]

    def to_json(self) -> dict[str, Any]:
        """Return the backends for the JSON output."""
        roles = {role: model for model in self.models for role in model.roles}
        return {
            "backend": self.backend,
            "roles": {role: {"backend": model.ref.backend, "model": model.ref.model} for role, model in roles.items()},
            "models": [model.to_json() for model in self.models],
            "session": None if self.session is None else self.session.to_json(),
            "prompt_caching_ignored": [] if self.caching is None else list(self.caching.details.get("fields", ())),
        }


Ask = Callable[[], tuple[SessionFacts, ...]]
"""Returns the state of each local session that a role needs."""


def llm_facts(context: CheckContext, ask: Ask, fresh: Sequence[ProbeResult] = ()) -> LlmFacts:
    """Return what is known about every configured backend; `fresh`: the results of current probes."""
    config = context.loaded.config
    backend = config.llm.provider.backend
    try:
        models = distinct_models(config)
    except KtxError as error:
        return LlmFacts(backend, note=failed(MODELS, error, Concern.SETUP))
    if not models:
        return LlmFacts(backend, note=_without_models(config))
    last, results = _last_probes(context), {result.ref: result for result in fresh}
    facts = tuple(_facts(context, ref, roles, last.get(ref), results.get(ref)) for ref, roles in models.items())
    return LlmFacts(backend, facts, ask(), divergence(config))


def ask_sessions(context: CheckContext) -> tuple[SessionFacts, ...]:
    """Ask each local binary that a role needs once whether anybody is signed in; no model is called."""
    return tuple(_ask_session(context, backend) for backend in _session_backends(context.loaded.config))


def _ask_session(context: CheckContext, backend: str) -> SessionFacts:
    import asyncio

    from ktx_cli.llm import local_session

    try:
        session = asyncio.run(
            local_session(backend, context.loaded.config, project_dir=context.project_dir, environ=context.environ)
        )
    except KtxError as error:
        concern = Concern.AUTH if concern_of(error) is Concern.AUTH else Concern.SETUP
        finding = failed(MODELS, error, concern)
        return SessionFacts("missing" if error.code == "auth" else "failed", finding)
    finding = CheckResult(MODELS, Level.OK, f"session present: {session.account}; {session.binary}")
    return SessionFacts("present", finding, session.account, str(session.binary))


def unasked_sessions(context: CheckContext) -> tuple[SessionFacts, ...]:
    """Return that each local session that a role needs is unverified, without asking."""
    words = (UNVERIFIED.format(who=kind_of(one).who) for one in _session_backends(context.loaded.config))
    return tuple(
        SessionFacts("unverified", CheckResult(MODELS, Level.SKIP, text, Command("status"), Concern.AUTH))
        for text in words
    )


def _caching(warning: ResultWarning | None) -> list[CheckResult]:
    return [] if warning is None else [CheckResult("prompt_caching", Level.WARN, warning.message, warning.hint)]


def _session_backends(config: KtxConfig) -> tuple[str, ...]:
    """Return a configured backend for each local session; none also for invalid settings."""
    try:
        used = [ref.backend for ref in distinct_models(config) if kind_of(ref.backend).client == "session"]
    except KtxError:
        return ()
    return tuple({kind_of(backend).block: backend for backend in reversed(used)}.values())[::-1]


def _without_models(config: KtxConfig) -> CheckResult:
    from ktx_cli.scan import not_enriched

    unserved = not_enriched(config)
    if unserved is not None:
        return CheckResult(MODELS, Level.WARN, unserved.message, unserved.hint, Concern.SETUP)
    return CheckResult(MODELS, Level.OK, "no model backend: features that need a model are disabled")


def _facts(
    context: CheckContext, ref: ModelRef, roles: tuple[str, ...], last: LastProbe | None, fresh: ProbeResult | None
) -> ModelFacts:
    """Report on one backend and model: its settings, else the current probe, else the last one."""
    serves = f"{ref} ({listing(roles, 6)})"
    problem = _credentials(context, ref.backend)
    if problem is not None:
        unset = failed(MODELS, problem, Concern.SETUP, where=serves)
        return ModelFacts(ref, roles, last, unset, unset)
    return ModelFacts(ref, roles, last, _probed(ref, serves, last, fresh))


def _probed(ref: ModelRef, serves: str, last: LastProbe | None, fresh: ProbeResult | None) -> CheckResult:
    if fresh is not None and fresh.error is not None:
        return failed(MODELS, fresh.error, where=serves)
    if last is not None and last.error is not None:
        message = f"{serves}: the last probe, {last.finished}, failed: {last.error}"
        return CheckResult(MODELS, Level.FAIL, message, SESSION_HINT, Concern.AUTH)
    if last is None and kind_of(ref.backend).client == "session":
        return CheckResult(MODELS, Level.FAIL, f"{serves}: last probe never", SESSION_HINT, Concern.AUTH)
    return CheckResult(MODELS, Level.OK, f"{serves}: last probe {last.finished if last else 'never'}")


def _last_probes(context: CheckContext) -> Mapping[ModelRef, LastProbe]:
    from ktx_cli.llm import last_probes

    try:
        return read_local(context.layout, last_probes) or {}
    except KtxError:  # reported by the check of the run lock
        return {}


def _credentials(context: CheckContext, backend: str) -> KtxError | None:
    """Return why the backend's settings cannot be used; sends no request and opens no keyring."""
    from ktx_cli.llm import missing_client, missing_setting, resolved_keys, resolved_place

    config = context.loaded.config
    problem = missing_setting(config, backend) or missing_client(backend)
    if problem is not None:
        return problem
    provider = getattr(config.llm.provider, kind_of(backend).block, None)
    if any(str(value).strip().startswith("keyring:") for _, value in provider or ()):
        return None
    try:
        resolved_keys(config, backend, project_dir=context.project_dir, environ=context.environ)
        resolved_place(config, backend, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return error
    return None


CLAUDE, CODEX, PROBE = "claude", "codex", "probe"
_AGAIN: Final = Command("-m", "pip", "install", "--force-reinstall", "claude-agent-sdk", program=sys.executable)
"""The command that installs the binary tested with ktx, replacing one without the required isolation."""

_OTHER_BACKEND: Final = Command("setup", "--llm-backend", "anthropic")
_NO_POLICY: Final = Command("config", "set", "llm.provider.claude.allow_managed_policy", "false")
"""The command that makes ktx refuse to run with an organization's own configuration."""


def check_settings(context: CheckContext) -> list[CheckResult]:
    """Check the settings and the session of every configured backend; probes check whether its models answer."""
    facts = llm_facts(context, lambda: ask_sessions(context))
    probed = f"the check `{PROBE}` verifies it"
    models = tuple(
        replace(model, finding=model.unset or CheckResult(MODELS, Level.OK, f"{model.serves}: {probed}"))
        for model in facts.models
    )
    return [_honoured(finding, facts.caching) for finding in replace(facts, models=models).findings]


def _honoured(finding: CheckResult, ignored: ResultWarning | None) -> CheckResult:
    """Return the caching result, with the command that resets settings that a backend ignores."""
    if finding.check != "prompt_caching" or ignored is None:
        return finding
    defaults = PromptCaching().model_dump(by_alias=True, mode="json")
    commands = [
        Command("config", "set", f"llm.promptCaching.{name}", json.dumps(defaults[name]).strip('"'))
        for name in ignored.details["fields"]
    ]
    return replace(finding, hint=Hint.steps(*commands, between=" && "))


def check_probes(context: CheckContext) -> list[CheckResult]:
    """Check that every configured backend and model answers."""
    from ktx_cli.llm import probe_models

    config = context.loaded.config
    warnings: list[ResultWarning] = []
    try:
        if not distinct_models(config):
            return [CheckResult(PROBE, Level.SKIP, "no backend to probe")]
        probes = probe_models(context.layout, config, context.environ, command=Command("doctor"), warn=warnings.append)
    except KtxError as error:
        return [failed(PROBE, error, Concern.SETUP)]
    try:
        probes.store(context.layout)
    except KtxError as error:  # the answers of the models count all the same
        warnings.append(ResultWarning("probes_unkept", error.message, hint=error.hint))
    backend = config.llm.provider.backend
    findings = [finding for result in probes.results for finding in _backends_probed(result, backend)]
    findings += [
        CheckResult(PROBE, Level.WARN, warning.message, warning.hint)
        for warning in warnings
        if warning.code != "prompt_caching_ignored"
    ]
    return findings


def _backends_probed(result: ProbeResult, backend: str) -> list[CheckResult]:
    """Report whether a model answered and, for the local session, that the process was isolated; `backend`: the
    default.
    """
    check, error = f"{PROBE}:{result.ref}", result.error
    if error is not None:
        return [replace(failed(check, error), hint=_hint(result, error, backend))]
    report = result.report
    assert report is not None
    model = f"{report.resolved_model} " if report.resolved_model else ""
    findings = [CheckResult(check, Level.OK, f"{model}answers in {report.seconds:.1f} s: {report.account}")]
    if report.isolation:
        level, hint = (Level.WARN, _NO_POLICY) if report.isolation.get("foreign_hooks") else (Level.OK, None)
        findings.append(CheckResult(f"isolation:{result.ref}", level, _isolated(report), hint))
    return findings


def _isolated(report: ProbeReport) -> str:
    """Report how the process for a probe was started; each part was checked, or else the probe would have failed."""
    isolation = report.isolation
    words = [
        f"{key.replace('_', ' ')}: {listing(isolation[key]) or 'none'}" for key in ("tools", "mcp_servers", "plugins")
    ]
    words.append(f"foreign hooks: {listing(isolation.get('foreign_hooks', ())) or 'none'}")
    dropped = isolation.get("dropped")
    if dropped is not None and kind_of(report.backend).block == "claude":
        names = ", ".join(dropped)
        words.append(f"its launcher dropped {plural(len(dropped), 'variable')}{names and f' ({names})'}")
    elif dropped is not None:  # all but a short list, so that the names would say nothing
        words.append(f"{plural(len(dropped), 'variable')} removed from its environment")
    return "; ".join(words)


def _hint(result: ProbeResult, error: KtxError, backend: str) -> str | None:
    """Return the hint: a command with an existing model in place of a wrong one, or how to replace a foreign binary."""
    kind = kind_of(result.ref.backend)
    if error.code == "isolation" and error.hint in (None, Command("doctor")):
        return _AGAIN if kind.block == "claude" else None
    if error.code == "connection" and kind.free_ids:
        return Hint("check the network, the proxy and {}", SettingPath(f"llm.provider.{kind.block}.base_url"))
    if error.code != "model":
        return error.hint
    from ktx_cli.llm import PRICES

    near = kind.default_model or did_you_mean(result.ref.model, PRICES)
    if near in (None, result.ref.model) or error.hint is None:
        return error.hint
    model = near if result.ref.backend == backend else f"{result.ref.backend}:{near}"
    command = error.hint.command
    return error.hint if command is None else Command(*command.words[:-1], model, program=command.program)


def check_claude(context: CheckContext) -> list[CheckResult]:
    """Check the local Claude Code binary, what is kept from its processes, and an organization's managed settings."""
    from ktx_cli.llm import claude_host, dropped_names, managed_error, managed_files, secret_names

    config = context.loaded.config
    used = [ref.backend for ref in distinct_models(config) if kind_of(ref.backend).block == "claude"]
    if not used:
        return [CheckResult(CLAUDE, Level.SKIP, "no role uses the local Claude Code session")]
    try:
        host, binary = claude_host(used[0], config, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return [failed(CLAUDE, error, Concern.SETUP)]
    dropped = dropped_names(context.environ, secret_names=secret_names(config))
    names = f": {', '.join(dropped)}" if dropped else ""
    kept_back = f"{plural(len(dropped), 'variable')} removed from the environment of its processes{names}"
    findings = [CheckResult(CLAUDE, Level.OK, f"{binary}; {kept_back}")]
    files = managed_files(host.environment)
    if files:
        allowed = config.llm.provider.claude.allow_managed_policy
        managed = managed_error(files, backend=used[0])
        level = Level.WARN if allowed else Level.FAIL
        findings.append(
            CheckResult(CLAUDE, level, managed.message, _NO_POLICY if allowed else managed.hint, Concern.AUTH)
        )
    return findings


def check_codex(context: CheckContext) -> list[CheckResult]:
    """Check the local Codex binary, what is kept from its processes, and settings that apply to every user."""
    from ktx_cli.llm import codex_host, machine_settings

    config = context.loaded.config
    if not any(kind_of(ref.backend).block == "codex" for ref in distinct_models(config)):
        return [CheckResult(CODEX, Level.SKIP, "no role uses the local Codex session")]
    try:
        host = codex_host(config, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return [failed(CODEX, error, Concern.SETUP)]
    kept_back = f"{plural(len(host.dropped), 'variable')} removed from the environment of its processes"
    findings = [CheckResult(CODEX, Level.OK, f"{host.binary}; {kept_back}")]
    files = machine_settings()
    if files:
        message = f"settings of this machine apply inside Codex: {listing(map(str, files))}"
        hint = Hint("ask your organization, or use another backend: {}", _OTHER_BACKEND)
        findings.append(CheckResult(CODEX, Level.FAIL, message, hint, Concern.AUTH))
    return findings


EMBEDDINGS = "embeddings"


def check_embeddings(context: CheckContext) -> list[CheckResult]:
    """Check that one vector is computed for one word."""
    from ktx_cli.llm import create_embedder

    try:
        embedder = create_embedder(context.loaded.config, context.project_dir, context.environ)
        if embedder is None:
            return [CheckResult(EMBEDDINGS, Level.SKIP, "no embeddings are configured: search uses full text only")]
        (vector,) = embedder.embed(["revenue"])
    except KtxError as error:
        return [failed(EMBEDDINGS, error)]
    return [CheckResult(EMBEDDINGS, Level.OK, f"{embedder.model} computes vectors of {len(vector)} numbers")]
