"""`ktx doctor`: runs every check, makes repairs that need no decision, and determines the exit code."""

from __future__ import annotations

import functools
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    ConfigError,
    Hint,
    KtxError,
    Location,
    NoProjectError,
    NotReadyError,
    Placeholder,
    Record,
    UsageError,
    did_you_mean,
    line_hint,
    listing,
    plural,
    shell_words,
)
from ktx_cli.jobs.clients.install import Wanted, install
from ktx_cli.jobs.clients.listing import CHANGED, INSTALLED, NOT_INSTALLED, STALE, ClientState, list_clients
from ktx_cli.jobs.clients.manifest import Install, is_of, load_manifest, read_configuration, words_of
from ktx_cli.jobs.clients.staging import Staging
from ktx_cli.jobs.clients.targets import NAME, Scope, Where, installed_program
from ktx_cli.jobs.health import connection_checks as connections
from ktx_cli.jobs.health import machine_checks as machine
from ktx_cli.jobs.health import model_checks as models
from ktx_cli.jobs.health import project_checks as project
from ktx_cli.jobs.health import shared_checks as shared
from ktx_cli.jobs.health.model import Check, CheckContext, CheckResult, Concern, Level, Task, side_by_side, typed
from ktx_cli.jobs.serve.daemon import ServerStatus, forget_dead, server_status
from ktx_cli.jobs.serve.state import ServerState, reached_at, scope_warning
from ktx_cli.llm import secret_names
from ktx_cli.project import CONFIG_NAME, KtxConfig, Layout, LoadedConfig, found_program, load_config

if TYPE_CHECKING:
    from ktx_cli.jobs.health.model import Repair

AGENTS = "agents"
IDENTITY: Final = "identity"


def check_agents(context: CheckContext) -> list[CheckResult]:
    """Check that the files installed into clients are unchanged and work."""
    manifest = load_manifest(context.layout)
    states = list_clients(Where(context.project_dir, context.environ))
    drifted = [state for state in states if state.state not in (NOT_INSTALLED, INSTALLED)]
    if drifted:
        return [
            _client_finding(context, state, manifest.of(state.target, state.scope, state.install_dir))
            for state in drifted
        ]
    installed = [f"{state.target} ({state.place})" for state in states if state.state == INSTALLED]
    message = f"unchanged: {listing(installed)}" if installed else "this project is not installed in any agent client"
    return [CheckResult(AGENTS, Level.OK, message)]


def _client_finding(context: CheckContext, state: ClientState, recorded: Install | None) -> CheckResult:
    check, message = f"{AGENTS}:{state.target}", "; ".join(state.reasons)
    words = ["--target", state.target.value, "--scope", state.scope.value]
    words += [] if state.install_dir is None else ["--install-dir", state.install_dir]
    again = Command("agents", "install", *words)
    if _is_off_path(context, recorded):
        folder = shell_words(installed_program(context.environ).parent)
        fix = Command(Placeholder(f'PATH={folder}:"$PATH"'), program="export")
        return CheckResult(check, Level.WARN, message, fix)
    if state.state == STALE and _starts_a_program(recorded):
        repair = _again(context, state) if _is_there(context, state, recorded) else None
        return CheckResult(check, Level.WARN, message, again, repair=repair)
    if state.state in (STALE, CHANGED):
        return CheckResult(check, Level.WARN, message, Hint("{} && {}", Command("agents", "uninstall", *words), again))
    return CheckResult(check, Level.WARN, message, f"correct {state.path}" if state.path else again)


def _is_off_path(context: CheckContext, recorded: Install | None) -> bool:
    """Return whether an entry starts just `ktx`, as shared files do, although it is not on PATH."""
    words = [] if recorded is None or recorded.entry is None else words_of(recorded.entry.value)
    return words[:1] == [NAME] and found_program(context.environ) is None


def _is_there(context: CheckContext, state: ClientState, recorded: Install | None) -> bool:
    """Return whether the client's own file contains this project.

    For files elsewhere, the manifest does not prove it. The manifest could come with a repository, but the user decides
    which projects the clients serve.
    """
    if state.scope is Scope.PROJECT and state.install_dir is None:
        return True
    where = Where(context.project_dir, context.environ).at(state.install_dir)
    try:
        configuration = read_configuration(state.target, state.scope, where, Staging((where.project, where.root)))
        if configuration is None:
            return recorded is not None and recorded.entry is None
        return any(is_of(entry, state.scope, where) for entry in configuration.entries.values())
    except KtxError:  # an unreadable file contains nothing of ours
        return False


def _starts_a_program(recorded: Install | None) -> bool:
    """Return whether an installation of ours does not use a running server, which only the files show."""
    return recorded is not None and (recorded.entry is None or bool(words_of(recorded.entry.value)))


def _again(context: CheckContext, state: ClientState) -> Repair:
    """Return the repair that installs again, skipping and reporting changed parts."""

    def repair() -> str:
        variables = sorted(secret_names(context.loaded.config))
        wanted = Wanted([state.target], state.scope, state.name, variables=variables)
        report = install(wanted, Where(context.project_dir, context.environ).at(state.install_dir))
        problem: KtxError | None = report.error
        if problem is not None:
            raise problem
        written = listing(diff.path for diff in report.diffs) or "nothing to write"
        return f"reinstalled into {state.target} ({state.place}): {written}"

    return repair


SERVER = "mcp"


def check_server(context: CheckContext) -> list[CheckResult]:
    """Check that a started server responds."""
    server = server_status(context.layout)
    if server.status == "stopped":
        return [CheckResult(SERVER, Level.OK, "no server is running; clients start their own")]
    if server.status == "running":
        return [_running(server)]
    if server.state is not None and server.state.is_alive():
        hint = Hint("{} && {}", Command("mcp", "stop"), Command("mcp", "start"))
        return [CheckResult(SERVER, Level.WARN, f"the server does not respond: {server.problem}", hint)]
    return [_dead(context, server)]


def _running(server: ServerStatus) -> CheckResult:
    assert server.state is not None
    where = f"the server at {server.state.base} responds, pid {server.state.pid}"
    if server.problem is None:
        return CheckResult(SERVER, Level.OK, where)
    hint = None if server.warning is None else server.warning.hint
    return CheckResult(SERVER, Level.WARN, f"{where}, but {server.problem}", hint or Command("mcp", "logs"))


def check_identity(context: CheckContext) -> list[CheckResult]:
    """Check that a server would not accept access tokens that were not meant for its clients."""
    identity = context.loaded.config.serving.identity
    warning = scope_warning(identity)
    if warning is not None:
        return [CheckResult(IDENTITY, Level.WARN, warning.message, warning.hint, location=Location(CONFIG_NAME))]
    if identity is None:
        return [CheckResult(IDENTITY, Level.OK, "servers accept no access tokens")]
    return [CheckResult(IDENTITY, Level.OK, f"access tokens need {listing(identity.scopes)}")]


def _dead(context: CheckContext, server: ServerStatus) -> CheckResult:
    """Report the files that a dead server left, and whether another program uses its port."""
    message = f"a dead server left {context.layout.mcp_state}: {server.problem}"
    hint: Hint = Command("mcp", "stop")
    if server.state is not None and _is_taken(server.state):
        message += f"; another program uses its port {server.state.port}"
        hint = Hint("{} && {}", Command("mcp", "stop"), Command("mcp", "start", "--port", "0"))

    def forget() -> str:
        gone = forget_dead(context.layout)  # a server may have been started meanwhile
        return f"removed {context.layout.mcp_state}" if gone else "a server is running now, so nothing was changed"

    return CheckResult(SERVER, Level.WARN, message, hint, repair=forget)


def _is_taken(state: ServerState) -> bool:
    """Return whether a server could not listen on this server's address."""
    host = reached_at(state.settings.host)
    try:
        with socket.create_server((host, state.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return False
    except OSError:
        return True


PROJECT = "project"
"""The name of the result for a missing project."""


@dataclass(frozen=True, slots=True)
class Repaired(Record):
    """A repair by `--fix`; `error`: why the repair failed."""

    check: str
    message: str
    error: KtxError | None = None

    json_keys = ("check", "message", "done")

    @property
    def done(self) -> bool:
        """Whether all checks passed."""
        return self.error is None


@dataclass(slots=True)
class Diagnosis:
    """The results by check id. `problem`: why most checks could not run; `repaired`: what `--fix` did."""

    answers: dict[str, list[CheckResult]] = field(default_factory=dict)
    repaired: list[Repaired] = field(default_factory=list)
    problem: KtxError | None = None
    project_dir: Path | None = None

    @property
    def findings(self) -> list[CheckResult]:
        """All results, in check order."""
        return [finding for findings in self.answers.values() for finding in findings]

    def counts(self) -> dict[str, int]:
        """Return the number of results at each level."""
        levels = [finding.level for finding in self.findings]
        return {level.value: levels.count(level) for level in Level}

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "findings": [_finding(check, result) for check, results in self.answers.items() for result in results],
            "counts": self.counts(),
            "repaired": [repaired.to_json() for repaired in self.repaired],
        }


def _finding(check: str, result: CheckResult) -> dict[str, Any]:
    place = {"file": result.location.path, "line": result.location.line}
    return {**result.to_json(), "id": check, "fixable": result.repair is not None, **place}


def diagnose(
    project_dir: Path, environ: Mapping[str, str], *, only: Sequence[str] = (), skip: Sequence[str] = ()
) -> list[CheckResult]:
    """Run the checks; raises `ConfigError` for an invalid `ktx.yaml`, `UsageError` for an unknown check id."""
    diagnosis = examine(project_dir, environ, only=only, skip=skip)
    if diagnosis.problem is not None:
        raise diagnosis.problem
    return diagnosis.findings


def examine(
    project_dir: Path,
    environ: Mapping[str, str],
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    fix: bool = False,
) -> Diagnosis:
    """Run the checks or, with an invalid `ktx.yaml`, those that need no settings; `UsageError` for an unknown id.

    `fix`: then repair what needs no decision, and run the affected checks again.
    """
    checks = chosen(only, skip)
    layout = Layout(project_dir)
    try:
        loaded = load_config(layout.config)
    except ConfigError as error:
        return _without_settings(layout, environ, checks, error)
    context = CheckContext(layout, loaded, environ, live=True)
    diagnosis = Diagnosis(_answers(context, checks), project_dir=project_dir)
    if fix:
        _repair_all(context, diagnosis, checks)
    return diagnosis


def without_project(error: NoProjectError) -> Diagnosis:
    """Return the diagnosis of a folder without a project."""
    return Diagnosis(
        {PROJECT: [CheckResult(PROJECT, Level.FAIL, error.message, error.hint, Concern.SETUP)]}, problem=error
    )


_FORMER_IDS: Final = {"lease": "lock"}
"""Former check id, which the options still accept -> the current id."""


def chosen(only: Sequence[str], skip: Sequence[str]) -> list[Check]:
    """Return the selected checks; raises `UsageError` for an unknown id."""
    known = {check.id for check in CHECKS}
    only, skip = ([_FORMER_IDS.get(name, name) for name in names] for names in (only, skip))
    for name in (*only, *skip):
        if name not in known:
            near = did_you_mean(name, known)
            hint = f"did you mean `{near}`?" if near else Command("doctor", "--list")
            raise UsageError(f"there is no check `{name}`", hint=hint)
    return [check for check in CHECKS if (not only or check.id in only) and check.id not in skip]


def verdict(diagnosis: Diagnosis, *, strict: bool) -> KtxError | None:
    """Return the command's error: None, `not_ready` (only setup or authentication failed), or a failure."""
    if diagnosis.problem is not None:
        return diagnosis.problem
    wanted = (Level.FAIL, Level.WARN) if strict else (Level.FAIL,)
    failed = [finding for finding in diagnosis.findings if finding.level in wanted]
    if not failed:
        return None
    names = dict.fromkeys(finding.check for finding in failed)
    message = f"{plural(len(names), 'check')} failed: {listing(names)}"
    if all(f.level is Level.FAIL and f.concern in (Concern.SETUP, Concern.AUTH) for f in failed):
        return NotReadyError(message, hint=failed[0].hint)
    return KtxError(message, hint=failed[0].hint, code="checks_failed")


def _answers(context: CheckContext, checks: Sequence[Check]) -> dict[str, list[CheckResult]]:
    settings, folder = context.loaded.raw, context.project_dir
    results = shared.say_once(run_checks(context, checks))
    return {
        check.id: [typed(finding, settings, folder) for finding in findings]
        for check, findings in zip(checks, results, strict=True)
    }


def _without_settings(
    layout: Layout, environ: Mapping[str, str], checks: Sequence[Check], error: ConfigError
) -> Diagnosis:
    """Run the checks that need no settings, and report the errors in the settings."""
    context = CheckContext(layout, LoadedConfig(layout.config, KtxConfig(), (), {}), environ, live=True)
    answers = _answers(context, [check for check in checks if not check.settings])
    line = error.details.get("line")
    hint = error.hint
    if line and hint and hint != line_hint(line, error.details["path"]):
        hint = Hint("in {} line {}: {}", CONFIG_NAME, line, hint)
    finding = CheckResult(
        "config", Level.FAIL, error.message, hint, Concern.SETUP, location=Location(CONFIG_NAME, line)
    )
    return Diagnosis({**answers, "config": [finding]}, problem=error, project_dir=layout.root)


def _repair_all(context: CheckContext, diagnosis: Diagnosis, checks: Sequence[Check]) -> None:
    """Make each possible repair once, and run the affected checks again."""
    touched = []
    for check in checks:
        findings = [
            finding for finding in diagnosis.answers[check.id] if finding.repair and finding.level is not Level.OK
        ]
        for name, finding in {finding.check: finding for finding in findings}.items():
            diagnosis.repaired.append(_repaired(name, finding))
            touched.append(check)
    diagnosis.answers.update(_answers(context, [check for check in checks if check in touched]))


def _repaired(name: str, finding: CheckResult) -> Repaired:
    assert finding.repair is not None
    try:
        return Repaired(name, finding.repair())
    except KtxError as error:
        return Repaired(name, error.message, error)


CHECKS: tuple[Check, ...] = (
    Check("python", "Python and the packages that ktx requires", machine.check_python, settings=False),
    Check("sqlite", "SQLite with full-text search", machine.check_sqlite, settings=False),
    Check("git", "a recent version of git", machine.check_git, settings=False),
    Check("config", "ktx.yaml is valid", project.check_config),
    Check("extras", "packages of the configured drivers", machine.check_extras),
    Check(models.MODELS, "settings and session of the LLM backends", models.check_settings, live=True),
    Check("databases", "at least one database is configured", project.check_databases),
    Check(project.MOUNTS, "every mounted project is readable", project.check_mounts),
    Check(machine.CHECK, "all secret references resolve", machine.check_secrets),
    Check(project.CONTEXT, "every database has context", project.check_context),
    Check(connections.PROFILES, "the last scans were complete", connections.check_profiles),
    Check(project.WIKI, "wiki pages have no broken links", project.check_wiki),
    Check(project.SEMANTIC, "definitions of the semantic layer have no errors", project.check_semantic),
    Check(project.DECISIONS, "no decision about a convention is open", project.check_decisions),
    Check(project.CONVENTIONS, "time zone, fiscal year and week agree with the sources", project.check_conventions),
    Check(project.INDEX, "the search index is up to date", project.check_index),
    Check(machine.STATE, "the state database is usable and private", machine.check_state),
    Check(shared.SHARED, "the shared database, its queue and its snapshot are usable", shared.check_shared),
    Check(machine.HIDDEN, "no file in .ktx can be committed", machine.check_hidden),
    Check(machine.WRITABLE, "runs can write their files", machine.check_writable),
    Check(machine.DISK, "free disk space", machine.check_disk),
    Check("repository", "a repository that runs can commit to, without stale locks", project.check_repository),
    Check("lock", "no stale run lock", project.check_run_lock),
    Check(SERVER, "a running MCP server responds", check_server),
    Check(IDENTITY, "access tokens of the issuer need a scope", check_identity),
    Check(
        machine.TELEMETRY, "the OpenTelemetry collector of the environment answers", machine.check_telemetry, live=True
    ),
    Check(AGENTS, "what was installed into agent clients", check_agents),
    Check(models.CLAUDE, "the Claude Code binary, its environment, managed settings", models.check_claude, live=True),
    Check(models.CODEX, "the Codex binary, its environment, settings of the machine", models.check_codex, live=True),
    Check(
        models.PROBE,
        "a test call to every configured model, in isolation",
        models.check_probes,
        live=True,
        seconds=300.0,
    ),
    Check(models.EMBEDDINGS, "the embeddings model computes vectors", models.check_embeddings, live=True, seconds=90.0),
    Check(
        connections.CONNECTIONS,
        "every connection responds, with a read-only role",
        connections.check_connections,
        live=True,
        seconds=60.0,
    ),
    Check(connections.HISTORY, "the query history is readable", connections.check_history, live=True, seconds=60.0),
)


def run_checks(context: CheckContext, checks: Iterable[Check]) -> list[list[CheckResult]]:
    """Run the checks concurrently and return the results of each, in order.

    A check that raises or takes too long has a failed result; the others are not affected.
    """
    return side_by_side(
        Task(check.id, functools.partial(check.run, context), check.seconds, Command("doctor", "--only", check.id))
        for check in checks
    )
