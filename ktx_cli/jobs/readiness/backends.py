"""The checks of the model backends that reach out: a probe of every model, and the local Claude Code binary."""

from __future__ import annotations

from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import plural
from ktx_cli.jobs.models.probing import distinct_models, probe_models
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level
from ktx_cli.jobs.readiness.models import AUTH_CODES
from ktx_cli.llm.roles import CLAUDE_BACKENDS, ModelRef


def check_probes(context: CheckContext) -> list[Finding]:
    """Every backend and model behind a role answers."""
    config = context.loaded.config
    warnings: list[ResultWarning] = []
    try:
        if not distinct_models(config):
            return [Finding("probe", Level.SKIP, "no backend to probe")]
        probes = probe_models(context.layout, config, context.environ, command="ktx doctor", warn=warnings.append)
        probes.store(context.layout)
    except KtxError as error:
        return [Finding("probe", Level.FAIL, error.message, error.hint, Concern.SETUP)]
    findings = [_probed(result.ref, result.error, result.report) for result in probes.results]
    findings += [
        Finding("probe", Level.WARN, warning.message, warning.hint)
        for warning in warnings
        if warning.code != "prompt_caching_ignored"
    ]
    return findings


def _probed(ref: ModelRef, error: KtxError | None, report: object) -> Finding:
    check = f"probe:{ref}"
    if error is None:
        return Finding(check, Level.OK, f"answers: {getattr(report, 'account', '')}")
    concern = Concern.AUTH if error.code in AUTH_CODES else Concern.OTHER
    return Finding(check, Level.FAIL, error.message, error.hint, concern)


def check_claude(context: CheckContext) -> list[Finding]:
    """The local Claude Code binary, what its processes are not given, and an organisation's managed files."""
    from ktx_cli.llm.backends.claude.environment import dropped_names
    from ktx_cli.llm.backends.claude.host import claude_host, secret_names
    from ktx_cli.llm.backends.claude.managed import managed_error, managed_files

    config = context.loaded.config
    used = [ref.backend for ref in distinct_models(config) if ref.backend in CLAUDE_BACKENDS]
    if not used:
        return [Finding("claude", Level.SKIP, "no role uses the local Claude Code session")]
    try:
        host, binary = claude_host(used[0], config, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return [Finding("claude", Level.FAIL, error.message, error.hint, Concern.SETUP)]
    dropped = dropped_names(context.environ, secret_names=secret_names(config))
    names = f": {', '.join(dropped)}" if dropped else ""
    kept_back = f"{plural(len(dropped), 'variable')} kept from its processes{names}"
    findings = [Finding("claude", Level.OK, f"{binary}; {kept_back}")]
    files = managed_files(host.environment)
    if files:
        allowed = config.llm.provider.claude.allow_managed_policy
        managed = managed_error(files, backend=used[0])
        level = Level.WARN if allowed else Level.FAIL
        findings.append(Finding("claude", level, managed.message, None if allowed else managed.hint, Concern.AUTH))
    return findings
