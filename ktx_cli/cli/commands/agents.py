"""`ktx agents`: install this project in agent clients, list the installations, and remove them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from ktx_cli.cli.blocks import Block, Lines, Table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import group
from ktx_cli.core import Command, Hint, UsageError
from ktx_cli.jobs.clients.targets import Profile, Scope, Target

if TYPE_CHECKING:
    from ktx_cli.jobs.clients.install import ClientOutcome, InstallReport
    from ktx_cli.jobs.clients.targets import Where
    from ktx_cli.project import KtxConfig

commands = group("Connect agent clients, such as Claude Code, to this project.")


TARGETS = Annotated[list[Target] | None, Option("--target", help="Agent client to configure. Can be repeated.")]
SCOPE = Annotated[
    Scope | None,
    Option(
        "--scope", help="Write to files in the project, or to your own settings. Defaults to the client's first scope."
    ),
]
INSTALL_DIR = Annotated[
    Path | None,
    Option(
        "--install-dir",
        metavar="DIR",
        help="Folder for the project files of the client, such as the repository of an application. Defaults to the"
        " project.",
    ),
]
DRY_RUN = Annotated[bool, Option("--dry-run", help="Print the diff without writing anything.")]


@command(commands, "install", schema="agents-install")
def install(
    session: Session,
    target: TARGETS = None,
    scope: SCOPE = None,
    name: Annotated[str | None, Option("--name", help="Name of the server in the client. Defaults to ktx.")] = None,
    http: Annotated[
        str | None, Option("--http", metavar="URL", help="Use a running server instead of one that the client starts.")
    ] = None,
    token_env: Annotated[
        str | None,
        Option("--token-env", metavar="NAME", help="Environment variable with the token of the --http server."),
    ] = None,
    user_attribute: Annotated[
        list[str] | None,
        Option(
            "--user-attribute",
            metavar="NAME=TEXT",
            help="Attribute of the caller to start the server with, used by row policies and masks: NAME=TEXT or"
            " NAME:=JSON. Defaults to the attributes of the existing entry. Can be repeated.",
        ),
    ] = None,
    profile: Annotated[
        Profile | None,
        Option("--profile", help="Tools that the server lists. Defaults to the profile of the existing entry."),
    ] = None,
    agent: Annotated[
        str | None,
        Option(
            "--agent",
            metavar="NAME",
            help="Agent in `serving.agents` whose rights and limits apply. Defaults to that of the existing entry.",
        ),
    ] = None,
    install_dir: INSTALL_DIR = None,
    dry_run: DRY_RUN = False,
) -> Result:
    """Install the MCP server and skills in agent clients.

    All other settings of the clients stay unchanged.

    Examples:
        ktx agents install --target cursor --target codex --dry-run
        ktx agents install --target claude-code --install-dir ../app
        ktx agents install --target cursor --http http://127.0.0.1:7878/mcp
    """
    from ktx_cli.jobs.clients.install import Wanted, install
    from ktx_cli.jobs.clients.manifest import Address
    from ktx_cli.jobs.serve.caller import CallerIdentity, with_agent
    from ktx_cli.jobs.serve.state import server_attributes
    from ktx_cli.llm import secret_names

    where, config = _place(session, install_dir)
    if not target:
        raise UsageError("--target is required", hint=f"add --target with one of {', '.join(Target)}")
    if http is None and token_env is not None:
        raise UsageError("--token-env requires --http", hint="add the address of the server, for example: --http URL")
    if http is not None and (user_attribute or profile or agent):
        options = (("--user-attribute", user_attribute and "NAME=TEXT"), ("--profile", profile), ("--agent", agent))
        option, value = next((name, str(given)) for name, given in options if given)
        message = f"{option} only applies to a server that the client starts, not to a running --http server"
        raise UsageError(message, hint=Hint("start the server with it: {}", Command("mcp", "start", option, value)))
    server_attributes(user_attribute)
    if agent:
        with_agent(CallerIdentity(), config, agent)  # raises for an unknown agent
    address = None if http is None else Address.parse(http, token_env)
    variables = sorted(secret_names(config))
    report = install(Wanted(target, scope, name, address, variables, dry_run, user_attribute, profile, agent), where)
    session.warn(*report.warnings)
    steps = [] if dry_run else [Command("agents", "list")]
    return Result(report.to_json(), [*_shown(report), *_to_paste(report)], report.error, steps)


@command(commands, "list", schema="agents-list")
def list_agents(session: Session) -> Result:
    """List the agent clients in which this project is installed.

    The list shows which installations were changed by others or are out of date.

    Examples:
        ktx agents list
        ktx agents list --json
    """
    from ktx_cli.jobs.clients.listing import list_clients

    where, _ = _place(session)
    states = list_clients(where)
    rows = [
        (each.target, each.scope, each.state, each.name or "", "; ".join(each.reasons) or str(each.path or ""))
        for each in states
    ]
    table = Table(("client", "scope", "state", "name", "file"), tuple(rows))
    any_installed = any(each.state != "not_installed" for each in states)
    steps = [] if any_installed else [Command("agents", "install", "--target", "claude-code")]
    return Result({"clients": [each.to_json() for each in states]}, [table], next_steps=steps)


@command(commands, "uninstall", schema="agents-uninstall")
def uninstall(
    session: Session,
    target: TARGETS = None,
    scope: SCOPE = None,
    install_dir: INSTALL_DIR = None,
    dry_run: DRY_RUN = False,
) -> Result:
    """Remove this project from agent clients.

    Removes it from all clients and folders unless --target or --install-dir is given, and restores their files to the
    state before the installation.

    Examples:
        ktx agents uninstall --target claude-code
        ktx agents uninstall --dry-run
    """
    from ktx_cli.jobs.clients.install import uninstall

    where, _ = _place(session, install_dir)
    report = uninstall(where, target or [], scope, dry_run=dry_run)
    return Result(report.to_json(), _shown(report), report.error)


def _place(session: Session, install_dir: Path | None = None) -> tuple[Where, KtxConfig]:
    from ktx_cli.jobs.clients.targets import Where

    layout, config = session.load_project(with_mounts=True)
    folder = None if install_dir is None else install_dir.absolute().resolve()
    return Where(layout.root, os.environ, install_dir=None if folder == layout.root.resolve() else folder), config


def _shown(report: InstallReport) -> list[Block]:
    if report.dry_run:
        return [Lines(tuple(line for diff in report.diffs for line in diff.lines) or ("nothing would change",))]
    rows = [
        (each.target, each.scope, _done(each, report), each.name or "", str(each.path or ""))
        for each in report.outcomes
    ]
    return [Table(("client", "scope", "result", "name", "file"), tuple(rows))]


def _done(outcome: ClientOutcome, report: InstallReport) -> str:
    if outcome.action == "none":
        return "skills written" if report.diffs else "unchanged"
    return outcome.action


def _to_paste(report: InstallReport) -> list[Block]:
    """Show the entries for clients without a configuration file known to ktx."""
    pasted = [
        json.dumps({"mcpServers": {each.name: each.entry}}, indent=2, ensure_ascii=False)
        for each in report.outcomes
        if each.path is None and each.entry is not None
    ]
    return [Lines(("Paste into the client's configuration:", *text.split("\n"))) for text in pasted]
