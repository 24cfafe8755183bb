"""The root of the command tree, with the common options; `app` contains all commands."""

from __future__ import annotations

import functools
import inspect
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import ktx_cli
from ktx_cli import __version__
from ktx_cli.cli import streams
from ktx_cli.cli.contract import ContractGroup, show_group
from ktx_cli.cli.help import know_commands
from ktx_cli.cli.settings import COMMON_OPTIONS, Settings

SECTIONS: Final = {
    "Start": ("demo", "setup", "connection", "config", "completion"),
    "Build": ("ingest", "scan", "decide", "memory", "evolve"),
    "Ask": ("sl", "wiki", "search", "pack", "sql", "mongo-query"),
    "Check": ("status", "doctor", "check", "lint", "diff", "eval", "proof"),
    "Serve": ("mcp", "agents"),
    "Maintain": ("index", "runs", "usage", "llm", "worker"),
}
"""Heading of `ktx --help` -> the commands below it."""

COMMANDS: Final = tuple(name for names in SECTIONS.values() for name in names)
"""The commands, in the order of `ktx --help`."""


class RootGroup(ContractGroup):
    """The root, whose help groups the commands by purpose."""

    sections = SECTIONS


def new_app() -> typer.Typer:
    """Return the root without commands."""
    app = typer.Typer(
        name="ktx",
        cls=RootGroup,
        help="The context layer for data agents: a semantic layer and a wiki, kept up to date in git.",
        no_args_is_help=False,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    return app


def _version(value: bool) -> None:
    if value:
        commit = _commit_of_build(Path(ktx_cli.__file__).parent)
        streams.write_out(f"ktx {__version__} ({commit})\n" if commit else f"ktx {__version__}\n")
        raise typer.Exit


def _commit_of_build(package: Path) -> str:
    """Return the commit of a development build: as its wheel has it, or of the clone that it runs from.

    Empty for a release, and where neither is there.
    """
    try:
        return (package / "commit.txt").read_text("utf-8").strip()
    except OSError:
        if not all((package.parent / name).exists() for name in (".git", "pyproject.toml")):
            return ""
    import subprocess

    command = ["git", "-C", str(package.parent), "rev-parse", "--short=10", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=5)
    except (OSError, subprocess.TimeoutExpired):  # the version is known without it
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _root(ctx: typer.Context, **values: Any) -> None:
    """Pass the common options before the command's name on to the command."""
    values.pop("version")
    ctx.obj = Settings(**values)
    if ctx.invoked_subcommand is None:
        show_group(ctx, as_json=ctx.obj.json)


def _root_signature() -> inspect.Signature:
    keyword = inspect.Parameter.KEYWORD_ONLY
    version = Annotated[
        bool, typer.Option("--version", "-v", help="Print the version.", callback=_version, is_eager=True)
    ]
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        inspect.Parameter("version", keyword, annotation=version, default=False),
        *(
            inspect.Parameter(name, keyword, annotation=annotation, default=default)
            for name, (annotation, default) in COMMON_OPTIONS.items()
        ),
    ]
    return inspect.Signature(parameters)


_root.__signature__ = _root_signature()  # type: ignore[attr-defined]


_SHARED: Final = {
    **dict.fromkeys(("status", "doctor", "usage"), "health"),
    **dict.fromkeys(("lint", "diff", "eval"), "check"),
    **dict.fromkeys(("index", "pack"), "search"),
    "mongo-query": "sql",
}
"""Maps each command whose module has a different name to that module."""


@functools.cache
def whole_app() -> typer.Typer:
    """Return the root with all commands."""
    return _with(*COMMANDS)


def of_one(name: str) -> typer.Typer:
    """Return the root with one command, which is all that most command lines need."""
    return _with(name)


def _with(*names: str) -> typer.Typer:
    app = new_app()
    for name in names:
        commands = import_module(f"ktx_cli.cli.commands.{_SHARED.get(name, name)}").commands
        alone = [each for each in commands.registered_commands if each.name == name]
        app.registered_commands += alone
        if not alone:
            app.add_typer(commands, name=name)
    return app


know_commands(lambda name: of_one(name) if name in COMMANDS else None)


def __getattr__(name: str) -> typer.Typer:
    """Return `app`, which imports all commands, on first use; a command line only needs its own."""
    if name != "app":
        raise AttributeError(name)
    return whole_app()
