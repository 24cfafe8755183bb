"""The check of what `ktx agents install` wrote: it is as it was written, and its program is there."""

from __future__ import annotations

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import listing, shell_words
from ktx_cli.jobs.agents.configuration import read_configuration
from ktx_cli.jobs.agents.entries import is_of, words_of
from ktx_cli.jobs.agents.installing import Wanted, install
from ktx_cli.jobs.agents.listing import CHANGED, INSTALLED, NOT_INSTALLED, STALE, State, list_clients
from ktx_cli.jobs.agents.manifest import Install, load_manifest
from ktx_cli.jobs.agents.program import NAME, found_program, installed_program
from ktx_cli.jobs.agents.staging import Staging
from ktx_cli.jobs.agents.targets import Scope, Where
from ktx_cli.jobs.readiness.model import CheckContext, Finding, Level, Repair
from ktx_cli.llm.backends.claude.host import secret_names

CHECK = "agents"


def check_agents(context: CheckContext) -> list[Finding]:
    """What was installed into a client is there as it was written, and can work."""
    manifest = load_manifest(context.layout)
    states = list_clients(Where(context.project_dir, context.environ))
    drifted = [each for each in states if each.state not in (NOT_INSTALLED, INSTALLED)]
    if drifted:
        return [_finding(context, each, manifest.of(each.target, each.scope)) for each in drifted]
    installed = [f"{each.target} ({each.scope})" for each in states if each.state == INSTALLED]
    told = f"as it was written: {listing(installed)}" if installed else "no client has this project"
    return [Finding(CHECK, Level.OK, told)]


def _finding(context: CheckContext, state: State, recorded: Install | None) -> Finding:
    check, message = f"{CHECK}:{state.target}", "; ".join(state.reasons)
    words = ["--target", state.target.value, "--scope", state.scope.value]
    again = shell_words("ktx", "agents", "install", *words)
    if _is_off_path(context, recorded):
        folder = shell_words(installed_program(context.environ).parent)
        return Finding(check, Level.WARN, message, f'export PATH={folder}:"$PATH"')
    if state.state == STALE and _starts_a_program(recorded):
        repair = _again(context, state) if _is_there(context, state, recorded) else None
        return Finding(check, Level.WARN, message, again, repair=repair)
    if state.state in (STALE, CHANGED):
        return Finding(check, Level.WARN, message, f"{shell_words('ktx', 'agents', 'uninstall', *words)} && {again}")
    return Finding(check, Level.WARN, message, f"correct {state.path}" if state.path else again)


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
        return any(is_of(each, state.scope, where.project) for each in configuration.entries.values())
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
        written = listing(each.path for each in report.diffs) or "nothing had to be written"
        return f"installed into {state.target} ({state.scope}) again: {written}"

    return repair
