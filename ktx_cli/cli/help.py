"""Help as plain text, options grouped by panel: a third of the start-up time of drawing it with rich."""

from __future__ import annotations

import os
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from ktx_cli.cli.settings import current_folder, read_ourselves
from ktx_cli.core import Command, did_you_mean


def format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the arguments, then the options by panel; a group also its commands."""
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        default = "Arguments" if parameter.param_type_name == "argument" else "Options"
        panel = getattr(parameter, "rich_help_panel", None) or default
        sections.setdefault(panel, []).append(record)
    for title in sorted(sections, key=lambda title: (title == "Common options", title != "Arguments")):
        with formatter.section(title):
            formatter.write_dl(sections[title])


class HelpCommand(TyperCommand):
    """A command with grouped help."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, `--help` too, each with our way to read its words."""
        return read_ourselves(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options by panel."""
        format_options(self, ctx, formatter)


class HelpGroup(TyperGroup):
    """A group with grouped help, its commands first."""

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters, `--help` too, each with our way to read its words."""
        return read_ourselves(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options by panel."""
        self.format_commands(ctx, formatter)
        format_options(self, ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; `WordError`, with the nearest, where it names none."""
        word = args[0]
        if self.get_command(ctx, word) is None and not ctx.resilient_parsing and not word.startswith("-"):
            near = did_you_mean(word, self.list_commands(ctx))
            raise WordError(f"No such command {word!r}.", hint=command_of(ctx, near or "--help"), ctx=ctx)
        return super().resolve_command(ctx, args)


class WordError(typer.BadParameter):
    """A word that is wrong where it stands; `hint` says what to type."""

    def __init__(self, message: str, *, hint: str, ctx: Any) -> None:
        super().__init__(message, ctx=ctx)
        self.hint = hint

    def format_message(self) -> str:
        """Return the message alone."""
        return self.message


def command_of(ctx: Any, *words: str) -> Command:
    """Return the command of a context, with more words."""
    return Command(*ctx.command_path.split()[1:], *words)


def group(app: typer.Typer, name: str, help: str) -> typer.Typer:
    """Add a group of commands to the app and return it."""
    made = typer.Typer(cls=HelpGroup, help=help, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(made, name=name)
    return made


_MEANT_BY_BASH = re.compile(r"[ \t\"'\\()<>|&;$`*?\[\]#~!{}]")
"""What bash takes for more than a letter."""


def prepare() -> None:
    """Make typer's shells known; their descriptions are our help as it is, which has no markup for rich to draw."""
    from typer import _completion_classes

    _completion_classes._sanitize_help_text = lambda text: text
    _completion_classes.BashComplete.format_completion = _for_bash  # type: ignore[method-assign,assignment]
    _completion_classes.completion_init()


def _for_bash(shell: Any, item: Any) -> str:
    """Return a value as it has to stand on bash's line, which takes it as it is; in open quotes nothing is escaped."""
    quotes = re.sub(r"\\.|[^'\"]", "", os.environ.get("COMP_WORDS", ""))
    if any(quotes.count(mark) % 2 for mark in "'\""):
        return str(item.value)
    return _MEANT_BY_BASH.sub(lambda found: f"\\{found[0]}", str(item.value))


def connection_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the ids of `ktx.yaml` that begin with what was typed; none where there is no readable project.

    The project is that of a `--project-dir` earlier on the line, else the one around the current folder.
    Only the names are read; nothing is checked, opened or written.
    """
    from ktx_cli.core import KtxError, yaml
    from ktx_cli.project import CONFIG_NAME, find_project, read_bytes

    try:
        named = [context.params.get("project_dir") for context in (ctx, ctx.find_root())]
        folder = find_project(next((name for name in named if name is not None), None), os.environ, current_folder())
        text = read_bytes(folder / CONFIG_NAME) if folder else None
        document = yaml.load(text, where=CONFIG_NAME) if text else None
    except KtxError:  # a shell cannot show an error in the middle of a line; the command itself will
        return []
    connections = document.get("connections") if isinstance(document, dict) else None
    return [str(key) for key in connections if str(key).startswith(incomplete)] if isinstance(connections, dict) else []
