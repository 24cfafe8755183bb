"""`ktx mcp`: run the MCP server for agents, over stdio or HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ktx_cli.cli import streams
from ktx_cli.cli.blocks import Block, Fields, Lines
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import group
from ktx_cli.cli.settings import current_folder
from ktx_cli.core import CancelledError, Command, ResultWarning, UsageError, plural
from ktx_cli.jobs.clients.targets import Profile

if TYPE_CHECKING:
    from ktx_cli.jobs.serve.daemon import ServerStatus
    from ktx_cli.jobs.serve.state import ServerSettings, ServerState
    from ktx_cli.project import Layout

commands = group("Run the MCP server that agents use.")


PROFILE = Annotated[
    Profile,
    Option(
        "--profile",
        help="List only the tools needed to answer questions, or all of them. Unlisted tools can be called.",
    ),
]
READ_ONLY = Annotated[bool, Option("--read-only", help="Disable the tools that change the project.")]
PRIVACY = Annotated[bool, Option("--privacy", help="Never return row values and do not log arguments.")]
ATTRIBUTES = Annotated[
    list[str] | None,
    Option(
        "--user-attribute",
        metavar="NAME=TEXT",
        help="Attribute of the caller, used by row policies and masks: NAME=TEXT or NAME:=JSON. Can be repeated.",
    ),
]
AGENT = Annotated[
    str | None, Option("--agent", metavar="NAME", help="Apply the rights and limits of this agent in `serving.agents`.")
]


def _layout(session: Session) -> Layout:
    from ktx_cli.project import Layout

    return Layout(session.require_project())


@command(commands, "stdio", schema="mcp-stdio")
def stdio(
    session: Session,
    profile: PROFILE = Profile.DEFAULT,
    read_only: READ_ONLY = False,
    privacy: PRIVACY = False,
    user_attribute: ATTRIBUTES = None,
    agent: AGENT = None,
) -> Result:
    """Serve one agent over stdin and stdout.

    Agent clients run this command; `ktx agents install` writes it into their configuration. The server exits when the
    client closes stdin. Stdout carries only the protocol.

    Examples:
        ktx mcp stdio
        ktx mcp stdio --read-only --user-attribute region=north
    """
    session.settings = replace(session.settings, json=False)
    from ktx_cli.project import load_config

    layout = _layout(session)
    config = load_config(layout.config).config
    from ktx_cli.jobs.serve.caller import CallerIdentity, with_agent
    from ktx_cli.jobs.serve.project import ServedProject
    from ktx_cli.jobs.serve.state import server_attributes
    from ktx_cli.mcp.server import ProjectServer
    from ktx_cli.mcp.serving import leave, serve_stdio
    from ktx_cli.mcp.tool import Options

    options = Options(read_only, privacy, server_attributes(user_attribute), profile, agent)
    if agent is not None:
        with_agent(CallerIdentity(), config, agent)  # raises for an unknown agent
    project = ServedProject(layout, dict(os.environ), is_own_process=True)
    try:
        code = serve_stdio(ProjectServer(project, options))
    finally:
        project.close()
    return leave(code)


@command(commands, "start", schema="mcp-start")
def start(
    session: Session,
    folders: Annotated[list[str] | None, Argument(metavar="DIR", help="Further projects after --projects.")] = None,
    projects: Annotated[
        list[str] | None, Option("--projects", metavar="DIR...", help="Serve these projects, each at its own URL.")
    ] = None,
    host: Annotated[str, Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", min=0, max=65535, help="Port to listen on, or 0 for any free port.")] = 7878,
    profile: PROFILE = Profile.DEFAULT,
    read_only: READ_ONLY = False,
    privacy: PRIVACY = False,
    user_attribute: ATTRIBUTES = None,
    agent: AGENT = None,
    allowed_host: Annotated[
        list[str] | None,
        Option("--allowed-host", metavar="NAME", help="Accept requests for this host name. Can be repeated."),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        Option(
            "--allowed-origin", metavar="ORIGIN", help="Accept requests from pages on this origin. Can be repeated."
        ),
    ] = None,
    token_file: Annotated[
        str | None,
        Option(
            "--token-file",
            metavar="FILE",
            help="File with the token that clients must send. Defaults to KTX_MCP_TOKEN.",
        ),
    ] = None,
    token: Annotated[str | None, Option("--token", hidden=True)] = None,
    replica: Annotated[
        bool, Option("--replica", help="Serve the snapshot of `ktx mcp publish`, read-only and without sessions.")
    ] = False,
    foreground: Annotated[bool, Option("--foreground", help="Run in the foreground until interrupted.")] = False,
    wait: Annotated[
        float, Option("--wait", min=0, metavar="[SECONDS]", help="Maximum time to wait until the server responds.")
    ] = 30.0,
) -> Result:
    """Start the HTTP server in the background.

    Returns when the server responds. Listening on an address other than loopback requires a token, from --token-file
    or KTX_MCP_TOKEN.

    Examples:
        ktx mcp start
        ktx mcp start --port 0 --read-only
        ktx mcp start --projects sales finance --host 0.0.0.0 --token-file token.txt
    """
    if token is not None:
        message = "a token on the command line is visible to all users of this machine"
        raise UsageError(message, hint="set KTX_MCP_TOKEN, or pass a file with --token-file FILE")
    from ktx_cli.jobs.serve.state import server_attributes

    if folders and not projects:
        message = f"`{folders[0]}` requires --projects"
        raise UsageError(message, hint=Command("mcp", "start", "--projects", *folders))
    asked = {
        "host": host,
        "port": port,
        "profile": profile,
        "read_only": read_only,
        "privacy": privacy,
        "allowed_hosts": tuple(allowed_host or ()),
        "allowed_origins": tuple(allowed_origin or ()),
        "user_attributes": server_attributes(user_attribute),
        "agent": agent,
        "replica": replica,
        "token_file": None if token_file is None else str((current_folder() / token_file).resolve()),
    }
    layout, settings = _settings(session, [*(projects or ()), *(folders or ())], asked)
    return _foreground(session, layout, settings) if foreground else _background(session, layout, settings, wait)


def _settings(session: Session, folders: list[str], asked: dict[str, Any]) -> tuple[Layout, ServerSettings]:
    """Return the project whose files describe the server (the first of several), and its settings."""
    from ktx_cli.jobs.serve.caller import CallerIdentity, with_agent
    from ktx_cli.jobs.serve.state import ServerSettings, required_token, scope_warning, served_folders
    from ktx_cli.mcp.access import AccessPolicy
    from ktx_cli.project import Layout, load_config

    served = served_folders(folders or [str(session.require_project())], current_folder())
    session.project = Path(served[0].folder)
    settings = ServerSettings(projects=served, **asked)
    issuers = True
    for each in served:
        loaded = load_config(Layout(Path(each.folder)).config)
        session.warn(*loaded.notices())
        identity = loaded.config.serving.identity
        issuers = issuers and identity is not None
        warning = scope_warning(identity)
        session.warn(*([] if warning is None else [warning]))
        if settings.agent is not None:
            with_agent(CallerIdentity(), loaded.config, settings.agent)  # raises for an unknown agent
    token, warnings = required_token(settings, os.environ, issuers=issuers)
    session.warn(*warnings)
    hosts, origins = settings.allowed_hosts, settings.allowed_origins
    AccessPolicy.of(settings.host, allowed_hosts=hosts, allowed_origins=origins, token=token)
    return Layout(session.project), settings


def _background(session: Session, layout: Layout, settings: ServerSettings, wait: float) -> Result:
    from ktx_cli.jobs.serve.daemon import running_already, server_status, start_server

    found = running_already(layout, settings)
    if found is not None:
        return _running(layout, found, "already running")
    start_server(layout, settings, wait_seconds=wait)
    return _running(layout, server_status(layout), "started")


def _running(layout: Layout, found: ServerStatus, how: str) -> Result:
    folder = str(layout.root)
    data = {**found.to_json(folder), "outcome": how}
    return Result(data, [_shown(data)], next_steps=[Command("mcp", "status"), Command("mcp", "stop")])


def _foreground(session: Session, layout: Layout, settings: ServerSettings) -> Result:
    from ktx_cli.jobs.serve.daemon import running_already
    from ktx_cli.mcp.serving import leave, serve_http

    found = running_already(layout, settings)
    if found is not None:
        return _running(layout, found, "already running")
    ending = serve_http(settings, os.environ, lambda state: _say(session, state), is_foreground=True)
    if ending.signal == signal.SIGINT:
        raise CancelledError("the server was interrupted")
    return leave(0)


def _say(session: Session, state: ServerState) -> None:
    if not session.settings.quiet:
        for each in state.settings.projects:
            streams.write_err(f"serving {each.folder} at {state.base}{each.path} (pid {state.pid})\n")


@command(commands, "publish", schema="mcp-publish")
def publish(
    session: Session,
    force: Annotated[
        bool, Option("--force", help="Publish the commit even if it does not follow the published one.")
    ] = False,
) -> Result:
    """Publish the context of the checked-out commit for replicas.

    Stores the files of the commit in the shared database; servers started with --replica switch to them within
    seconds. Uncommitted edits are not published. The published commit must be in the history of the new one. Requires
    `storage.state: postgres`.

    Examples:
        ktx mcp publish
        ktx mcp publish --json
        ktx mcp publish --force
    """
    from ktx_cli.jobs.serve.snapshot import publish

    done = publish(_layout(session), force=force, emit=session.emitter())
    facts = [("published", done.snapshot.commit), ("files", str(done.files))]
    if done.replaced is not None:
        facts.insert(1, ("replaced", "the same commit" if done.replaced == done.snapshot.commit else done.replaced))
    return Result(done.to_json(), [Fields(tuple(facts))], is_report=True)


@command(commands, "stop", schema="mcp-stop")
def stop(session: Session) -> Result:
    """Stop the HTTP server of this project.

    A server that serves several projects stops for all of them. Exits 0 if no server is running.

    Examples:
        ktx mcp stop
        ktx mcp stop --json
    """
    from ktx_cli.jobs.serve.daemon import stop_server

    done = stop_server(_layout(session))
    words = {
        "stopped": f"stopped (pid {done.pid})",
        "killed": f"killed (pid {done.pid}): it did not exit in time",
        "stale": "no server was running; the files of the last server were removed",
        "nothing": "no server was running",
    }
    return Result({"outcome": done.outcome, "pid": done.pid}, [Lines((words[done.outcome],))])


@command(commands, "status", schema="mcp-status")
def status(session: Session) -> Result:
    """Show whether the HTTP server is running, and its settings.

    Examples:
        ktx mcp status
        ktx mcp status --json
    """
    from ktx_cli.jobs.serve.daemon import server_status

    layout = _layout(session)
    found = server_status(layout)
    session.warn(*([] if found.warning is None else [found.warning]))
    steps = {"stopped": [Command("mcp", "start")], "stale": [Command("mcp", "stop")], "running": []}[found.status]
    data = found.to_json(str(layout.root))
    return Result(data, [_shown(data)], next_steps=steps)


def _shown(data: dict[str, Any]) -> Block:
    names = ("outcome", "status", "problem", "url", "pid", "since", "version", "sessions", "profile", "agent")
    rows = [(name, str(data[name])) for name in names if data.get(name) is not None]
    snapshot = data.get("snapshot")
    if snapshot is not None:
        when = f"published at {snapshot['published']} from {snapshot['host']}"
        rows += [("commit", snapshot["commit"]), ("snapshot", when)]
    rows += [("project", f"{each['url']}  {each['folder']}") for each in data.get("projects", ())[:50]]
    flags = [name.replace("_", " ") for name in ("replica", "read_only", "privacy", "token_required") if data.get(name)]
    rows += [("with", ", ".join(flags))] if flags else []
    attributes = data.get("user_attributes", {})
    given = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in attributes.items()]
    return Fields((*rows, *([("user attributes", ", ".join(given))] if given else [])))


@command(commands, "logs", schema="mcp-logs")
def logs(
    session: Session,
    follow: Annotated[bool, Option("--follow", "-f", help="Keep printing new lines until interrupted.")] = False,
    lines: Annotated[
        int, Option("--lines", "-n", min=0, max=10_000, help="Number of lines to show, from the end.")
    ] = 50,
    audit: Annotated[bool, Option("--audit", help="Show the audit log of tool calls instead, as JSON Lines.")] = False,
    verify: Annotated[
        bool, Option("--verify", help="With --audit: check that no line of the audit log was changed or removed.")
    ] = False,
    since: Annotated[
        str | None,
        Option(
            "--since",
            metavar="HASH",
            help="With --verify: also check that the line with this hash, from an earlier check, is there.",
        ),
    ] = None,
) -> Result:
    """Show the log of the HTTP server.

    A server that was started with --foreground logs to its stderr instead. With --follow, stdout carries only the log
    lines, even with --json. With --audit --verify, ktx exits with 1 and names the first line that was changed, or
    before which a line is missing.

    Examples:
        ktx mcp logs
        ktx mcp logs --audit --verify
        ktx mcp logs --follow
    """
    from ktx_cli.jobs.serve.daemon import last_lines
    from ktx_cli.project import shared_state_of

    if verify and (not audit or follow):
        raise UsageError("--verify only applies to --audit, without --follow", hint=_VERIFY)
    if since is not None and (not verify or not re.fullmatch("[0-9a-f]{64}", since)):
        message = "--since takes the hash of a line, 64 digits, and only applies to --verify"
        raise UsageError(message, hint=_VERIFY)
    layout = _layout(session)
    if verify:
        return _verified(layout, since)
    path = layout.mcp_audit if audit else layout.mcp_log
    is_shared = audit and shared_state_of(layout) is not None
    elsewhere = None if audit else _log_elsewhere(layout)
    if not follow:
        session.warn(*([] if elsewhere is None else [elsewhere]))
        found = _stored(layout, lines) if is_shared else last_lines(path, lines)
        steps = [] if audit or elsewhere is not None or path.exists() else [Command("mcp", "start")]
        shown = Lines(tuple(found)) if found else Fields((("log", str(path)), ("lines", "0")))
        return Result({"path": None if is_shared else str(path), "lines": found}, [shown], next_steps=steps)
    session.settings = replace(session.settings, json=False)
    if elsewhere is not None:
        from ktx_cli.core import Notice

        session.emitter()(Notice(f"{elsewhere.message}: {elsewhere.hint}"))
    _follow(layout, path, lines, is_shared=is_shared)
    return Result()


def _log_elsewhere(layout: Layout) -> ResultWarning | None:
    """Return the warning that the running server does not log to the file, or None."""
    from ktx_cli.jobs.serve.state import read_server_state

    state = read_server_state(layout)
    if state is None or not state.is_foreground or not state.is_alive():
        return None
    who = f"the server (pid {state.pid}) runs in the foreground"
    hint = "see the terminal that runs it, the systemd journal (`journalctl`), or the log of its container"
    return ResultWarning("foreground", f"{who}, so its log is on its stderr, not in {layout.mcp_log}", hint=hint)


def _stored(layout: Layout, count: int) -> list[str]:
    from ktx_cli.jobs.serve.audit import last_stored
    from ktx_cli.project import mask

    return [mask(line) for line in last_stored(layout, count)]


_VERIFY = Command("mcp", "logs", "--audit", "--verify")


def _verified(layout: Layout, since: str | None) -> Result:
    """Return the result of checking the chain of the audit log."""
    from ktx_cli.jobs.serve.audit import check_chain

    found = check_chain(layout, since)
    rows = [("lines", f"{found.lines:,}")]
    rows += [("older lines without a hash", f"{found.unchained:,}")] if found.unchained else []
    rows += [("first", str(found.first)), ("last", str(found.last)), ("hash of the last", found.hash)]
    if found.broken is not None:
        return Result(found.to_json(), [Fields(tuple(rows))], found.error())
    steps = [Command(*_VERIFY.words, "--since", found.hash)] if found.lines else []
    span = f"{plural(found.lines, 'line')} ({found.first} to {found.last})" if found.lines else "no lines yet"
    note = f"No line of the audit log was changed or removed: {span}, and the chain ends with {found.hash}."
    return Result(found.to_json(), [Fields(tuple(rows))], next_steps=steps, notes=[note])


def _follow(layout: Layout, path: Path, last: int, *, is_shared: bool) -> None:
    """Write lines as they arrive, until interrupted."""
    from ktx_cli.jobs.serve.audit import followed_lines
    from ktx_cli.jobs.serve.daemon import followed
    from ktx_cli.project import mask

    for line in followed_lines(layout, last) if is_shared else followed(path, last):
        streams.write_out(mask(line) + "\n")
