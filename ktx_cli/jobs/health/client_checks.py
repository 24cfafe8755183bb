"""The check of what `ktx agents install` wrote: it is as it was written, and its program is there."""

from __future__ import annotations

import socket

from ktx_cli.core import Command, Hint, KtxError, Placeholder, listing, shell_words
from ktx_cli.jobs.clients.configuration import read_configuration
from ktx_cli.jobs.clients.install import Wanted, install
from ktx_cli.jobs.clients.manifest import Install, is_of, load_manifest, words_of
from ktx_cli.jobs.clients.staging import Staging
from ktx_cli.jobs.clients.targets import NAME, Scope, Where, found_program, installed_program
from ktx_cli.jobs.clients.uninstall import CHANGED, INSTALLED, NOT_INSTALLED, STALE, State, list_clients
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Level, Repair
from ktx_cli.jobs.serve.daemon import ServerStatus, forget_dead, server_status
from ktx_cli.jobs.serve.state import ServerState, reached_at
from ktx_cli.llm import secret_names

AGENTS = "agents"


def check_agents(context: CheckContext) -> list[CheckResult]:
    """What was installed into a client is there as it was written, and can work."""
    manifest = load_manifest(context.layout)
    states = list_clients(Where(context.project_dir, context.environ))
    drifted = [state for state in states if state.state not in (NOT_INSTALLED, INSTALLED)]
    if drifted:
        return [_finding(context, state, manifest.of(state.target, state.scope)) for state in drifted]
    installed = [f"{state.target} ({state.scope})" for state in states if state.state == INSTALLED]
    message = f"as it was written: {listing(installed)}" if installed else "no client has this project"
    return [CheckResult(AGENTS, Level.OK, message)]


def _finding(context: CheckContext, state: State, recorded: Install | None) -> CheckResult:
    check, message = f"{AGENTS}:{state.target}", "; ".join(state.reasons)
    words = ["--target", state.target.value, "--scope", state.scope.value]
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
    """Whether an entry names `ktx` alone, as shared files do, and PATH has none."""
    words = [] if recorded is None or recorded.entry is None else words_of(recorded.entry.value)
    return words[:1] == [NAME] and found_program(context.environ) is None


def _is_there(context: CheckContext, state: State, recorded: Install | None) -> bool:
    """Whether the client's own file has this project: of files outside the project the manifest proves nothing.

    It could come with a repository, and which projects this user's clients serve is for the user to say.
    """
    if state.scope is Scope.PROJECT:
        return True
    where = Where(context.project_dir, context.environ)
    try:
        configuration = read_configuration(state.target, state.scope, where, Staging(where.project))
        if configuration is None:
            return recorded is not None and recorded.entry is None
        return any(is_of(entry, state.scope, where.project) for entry in configuration.entries.values())
    except KtxError:  # a file that cannot be read has nothing of ours
        return False


def _starts_a_program(recorded: Install | None) -> bool:
    """Whether an installation of ours names no server that is running: which one, the files alone know."""
    return recorded is not None and (recorded.entry is None or bool(words_of(recorded.entry.value)))


def _again(context: CheckContext, state: State) -> Repair:
    """Return what installs once more; what somebody changed it leaves alone, and says so."""

    def repair() -> str:
        variables = sorted(secret_names(context.loaded.config))
        wanted = Wanted([state.target], state.scope, state.name, variables=variables)
        report = install(wanted, Where(context.project_dir, context.environ))
        problem: KtxError | None = report.error
        if problem is not None:
            raise problem
        written = listing(diff.path for diff in report.diffs) or "nothing had to be written"
        return f"installed into {state.target} ({state.scope}) again: {written}"

    return repair


SERVER = "mcp"


def check_server(context: CheckContext) -> list[CheckResult]:
    """The server that was started answers; or none was."""
    server = server_status(context.layout)
    if server.status == "stopped":
        return [CheckResult(SERVER, Level.OK, "no server is started; clients start their own")]
    if server.status == "running":
        return [_running(server)]
    if server.state is not None and server.state.is_alive():
        return [
            CheckResult(
                SERVER,
                Level.WARN,
                f"the server hangs: {server.problem}",
                Hint("{} && {}", Command("mcp", "stop"), Command("mcp", "start")),
            )
        ]
    return [_dead(context, server)]


def _running(server: ServerStatus) -> CheckResult:
    assert server.state is not None
    where = f"a server answers at {server.state.base}, pid {server.state.pid}"
    if server.problem is None:
        return CheckResult(SERVER, Level.OK, where)
    return CheckResult(SERVER, Level.WARN, f"{where}, but {server.problem}", Command("mcp", "logs"))


def _dead(context: CheckContext, server: ServerStatus) -> CheckResult:
    """Say what a server that is gone left, and whether another program has its port."""
    message = f"a dead server left {context.layout.mcp_state}: {server.problem}"
    hint: Hint = Command("mcp", "stop")
    if server.state is not None and _is_taken(server.state):
        message += f"; another program has its port {server.state.port}"
        hint = Hint("{} && {}", Command("mcp", "stop"), Command("mcp", "start", "--port", "0"))

    def forget() -> str:
        gone = forget_dead(context.layout)  # a server may have been started meanwhile
        return f"removed {context.layout.mcp_state}" if gone else "a server lives by now, and was left alone"

    return CheckResult(SERVER, Level.WARN, message, hint, repair=forget)


def _is_taken(state: ServerState) -> bool:
    """Whether a server could not listen where this one did."""
    host = reached_at(state.settings.host)
    try:
        with socket.create_server((host, state.port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return False
    except OSError:
        return True
