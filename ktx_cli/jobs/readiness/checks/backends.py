"""The checks of the model backends that reach out: a probe of every model, and the local Claude Code binary."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ktx_cli.core.errors import KtxError, ResultWarning
from ktx_cli.core.text import did_you_mean, listing, plural, shell_words
from ktx_cli.jobs.models.probing import ProbeResult, distinct_models, probe_models
from ktx_cli.jobs.readiness.checks.models import CHECK as LLM
from ktx_cli.jobs.readiness.checks.models import ask_session, llm_facts
from ktx_cli.jobs.readiness.model import CheckContext, Concern, Finding, Level, concern_of
from ktx_cli.llm.prices import PRICES
from ktx_cli.llm.roles import CLAUDE_BACKENDS, OWN_DEFAULT
from ktx_cli.project.config.llm import PromptCaching

CLAUDE, PROBE = "claude", "probe"
_AGAIN: Final = f"{shell_words(sys.executable)} -m pip install --force-reinstall claude-agent-sdk"
"""What puts the binary ktx was tested with in the place of one that is not isolated as it must be."""

_NO_POLICY: Final = "ktx config set llm.provider.claude.allow_managed_policy false"
"""What has ktx refuse to run with what an organisation brings along."""


def check_settings(context: CheckContext) -> list[Finding]:
    """Every backend behind a role has its settings, and its session; how its models answer is told by their probes."""
    facts = llm_facts(context, lambda: ask_session(context))
    probed = f"the check `{PROBE}` asks it"
    models = tuple(
        replace(each, finding=each.unset or Finding(LLM, Level.OK, f"{each.serves}: {probed}")) for each in facts.models
    )
    return [_honoured(finding, facts.caching) for finding in replace(facts, models=models).findings]


def _honoured(finding: Finding, ignored: ResultWarning | None) -> Finding:
    """Return the finding about caching with what sets back the settings that a backend ignores."""
    if finding.check != "prompt_caching" or ignored is None:
        return finding
    defaults = PromptCaching().model_dump(by_alias=True, mode="json")
    words = [
        shell_words("ktx", "config", "set", f"llm.promptCaching.{name}", json.dumps(defaults[name]).strip('"'))
        for name in ignored.details["fields"]
    ]
    return replace(finding, hint=" && ".join(words))


def check_probes(context: CheckContext) -> list[Finding]:
    """Every backend and model behind a role answers."""
    config = context.loaded.config
    warnings: list[ResultWarning] = []
    try:
        if not distinct_models(config):
            return [Finding(PROBE, Level.SKIP, "no backend to probe")]
        probes = probe_models(context.layout, config, context.environ, command="ktx doctor", warn=warnings.append)
    except KtxError as error:
        return [Finding(PROBE, Level.FAIL, error.message, error.hint, Concern.SETUP)]
    try:
        probes.store(context.layout)
    except KtxError as error:  # what the models answered counts all the same
        warnings.append(ResultWarning("probes_unkept", error.message, hint=error.hint))
    backend = config.llm.provider.backend
    findings = [finding for result in probes.results for finding in _probed(result, backend)]
    findings += [
        Finding(PROBE, Level.WARN, warning.message, warning.hint)
        for warning in warnings
        if warning.code != "prompt_caching_ignored"
    ]
    return findings


def _probed(result: ProbeResult, backend: str) -> list[Finding]:
    """Say whether a model answered and, of the local session, that the process was isolated; `backend`: the default."""
    check, error = f"{PROBE}:{result.ref}", result.error
    if error is not None:
        return [Finding(check, Level.FAIL, error.message, _hint(result, error, backend), concern_of(error))]
    report = result.report
    assert report is not None
    model = f"{report.resolved_model} " if report.resolved_model else ""
    findings = [Finding(check, Level.OK, f"{model}answers in {report.seconds:.1f} s: {report.account}")]
    if report.isolation:
        level, hint = (Level.WARN, _NO_POLICY) if report.isolation.get("foreign_hooks") else (Level.OK, None)
        findings.append(Finding(f"isolation:{result.ref}", level, _isolated(report.isolation), hint))
    return findings


def _isolated(told: Mapping[str, Any]) -> str:
    """Say what the process of a probe was started with; each of it was checked, else the probe had failed."""
    words = [f"{key.replace('_', ' ')}: {listing(told[key]) or 'none'}" for key in ("tools", "mcp_servers", "plugins")]
    words.append(f"foreign hooks: {listing(told.get('foreign_hooks', ())) or 'none'}")
    if "dropped" in told:
        names = ", ".join(told["dropped"])
        words.append(f"its launcher dropped {plural(len(told['dropped']), 'variable')}{names and f' ({names})'}")
    return "; ".join(words)


def _hint(result: ProbeResult, error: KtxError, backend: str) -> str | None:
    """Return what helps: of a wrong model the command with one there is, of a foreign binary how to replace it."""
    if error.code == "isolation" and error.hint in (None, "ktx doctor"):
        return _AGAIN
    if error.code == "connection" and result.ref.backend == "gateway":
        return "check the network, the proxy and llm.provider.gateway.base_url"
    if error.code != "model":
        return error.hint
    near = OWN_DEFAULT.get(result.ref.backend) or did_you_mean(result.ref.model, PRICES)
    if near in (None, result.ref.model) or error.hint is None:
        return error.hint
    return error.hint.removesuffix("MODEL") + (
        near if result.ref.backend == backend else f"{result.ref.backend}:{near}"
    )


def check_claude(context: CheckContext) -> list[Finding]:
    """The local Claude Code binary, what its processes are not given, and an organisation's managed files."""
    from ktx_cli.llm.backends.claude.environment import dropped_names
    from ktx_cli.llm.backends.claude.host import claude_host, secret_names
    from ktx_cli.llm.backends.claude.managed import managed_error, managed_files

    config = context.loaded.config
    used = [ref.backend for ref in distinct_models(config) if ref.backend in CLAUDE_BACKENDS]
    if not used:
        return [Finding(CLAUDE, Level.SKIP, "no role uses the local Claude Code session")]
    try:
        host, binary = claude_host(used[0], config, project_dir=context.project_dir, environ=context.environ)
    except KtxError as error:
        return [Finding(CLAUDE, Level.FAIL, error.message, error.hint, Concern.SETUP)]
    dropped = dropped_names(context.environ, secret_names=secret_names(config))
    names = f": {', '.join(dropped)}" if dropped else ""
    kept_back = f"{plural(len(dropped), 'variable')} kept from its processes{names}"
    findings = [Finding(CLAUDE, Level.OK, f"{binary}; {kept_back}")]
    files = managed_files(host.environment)
    if files:
        allowed = config.llm.provider.claude.allow_managed_policy
        managed = managed_error(files, backend=used[0])
        level = Level.WARN if allowed else Level.FAIL
        findings.append(Finding(CLAUDE, level, managed.message, _NO_POLICY if allowed else managed.hint, Concern.AUTH))
    return findings
