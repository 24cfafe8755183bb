"""Groups that do something by themselves: `ktx scan shop` scans, `ktx scan diagram` is a command of the group.

The first word behind the group's name decides: the name of a subcommand is that subcommand, everything else belongs to
the group's own command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import typer

from ktx_cli.cli.contract import Result, command
from ktx_cli.cli.help import HelpCommand, HelpGroup, WordError, command_of
from ktx_cli.core import Hint, one_line

OWN = "(own)"
"""Under which name the group's own command is registered; nobody can reach it by this name."""


class OwnCommand(HelpCommand):
    """What a group does by itself. Its words may be free text: only the first can be meant as a subcommand."""

    group: HelpGroup
    takes_ids = False

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words; `WordError` where one of them names a subcommand that options stand before."""
        rest = super().parse_args(ctx, list(args))
        if not ctx.resilient_parsing:
            self._refuse_names(ctx, free="--" in args and not self.takes_ids)
        return rest

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how the group is used by itself, then with a subcommand."""
        super().format_usage(ctx, formatter)
        formatter.write_usage(ctx.command_path, self.group.subcommand_metavar, prefix="       ")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the subcommands, then arguments and options."""
        self.group.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)

    def _refuse_names(self, ctx: Any, *, free: bool) -> None:
        words = list(self._words(ctx))
        for word in words if self.takes_ids else words[: 0 if free else 1]:
            if word in self.group.commands:
                raise self._taken(ctx, word)

    def _words(self, ctx: Any) -> Iterator[str]:
        for parameter in self.params:
            value = ctx.params.get(parameter.name) if parameter.param_type_name == "argument" else None
            yield from (value if isinstance(value, list | tuple) else [] if value is None else [str(value)])

    def _taken(self, ctx: Any, word: str) -> WordError:
        what = "no connection goes by that id here" if self.takes_ids else "stands first where it is meant"
        message = f"`{one_line(word, 60)}` is a subcommand of `{ctx.command_path}`: {what}"
        hint: Hint = command_of(ctx, word)
        if not self.takes_ids:
            hint = Hint("{}, or to look for the word: {}", hint, command_of(ctx, "--", word))
        return WordError(message, hint=hint, ctx=ctx)


class OwnCommandOfIds(OwnCommand):
    """What a group does by itself to connections: none of their ids may be the name of a subcommand."""

    takes_ids = True


class OwnGroup(HelpGroup):
    """A group with a command of its own, `own`, which is not among `commands`."""

    own: OwnCommand

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        own = self.commands.pop(OWN)
        if not isinstance(own, OwnCommand):
            raise TypeError(f"the own command of {self.name} is not one")
        own.group, self.own = self, own
        self.help = own.help

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the group when a subcommand is named, else that of its own command."""
        named = args[0] in self.commands if args else bool(extra.get("resilient_parsing"))
        responsible: Any = super() if named else self.own
        return responsible.make_context(info_name, args, parent=parent, **extra)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return what the first word may be: a subcommand, or what the group's own command takes."""
        subcommands = [item for item in super().shell_complete(ctx, incomplete) if item.value in self.commands]
        own = self.own.make_context(ctx.info_name, [], parent=ctx.parent, resilient_parsing=True)
        first = next((each for each in self.own.params if each.param_type_name == "argument"), None)
        taker = self.own if incomplete.startswith("-") or first is None else first
        return subcommands + [item for item in taker.shell_complete(own, incomplete) if item.value not in self.commands]


def own_group(app: typer.Typer, name: str) -> typer.Typer:
    """Add a group that does something by itself to the app and return it; its help is that of its own command."""
    made = typer.Typer(cls=OwnGroup, rich_markup_mode=None)
    app.add_typer(made, name=name)
    return made


def own_command(
    commands: typer.Typer, *, schema: str, ids: bool = False
) -> Callable[[Callable[..., Result]], Callable[..., None]]:
    """Register a function as what the group does by itself, as `contract.command` does.

    `schema` names the envelope. `ids`: its words are ids of connections, not free text.
    """

    def register(function: Callable[..., Result]) -> Callable[..., None]:
        run = command(commands, OWN, schema=schema)(function)
        commands.registered_commands[-1].cls = OwnCommandOfIds if ids else OwnCommand
        return run

    return register
